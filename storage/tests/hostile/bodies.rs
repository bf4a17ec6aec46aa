//! What must hold for any bytes at all: run here over seeded mutations, and by the fuzz target of the same name.

use base::{Offset, WallTime};
use record::{BatchHeader, HEADER_BYTES};
use storage::producer::ProducerTable;
use storage::read::{ReadLimits, Walk};
use storage::segment::{ActiveIndex, ActiveSegment, FileKind, Floor, SegmentMeta, parse_file_name};

/// What recovery and readers do with a segment, its indexes and its description, whatever the files hold: the input is all of them.
pub fn segment(bytes: &[u8]) {
    let active = walk(bytes);
    index(bytes, &active.meta);
    if let Some(meta) = bytes.first_chunk().and_then(|bytes| SegmentMeta::decode(bytes).ok()) {
        assert_eq!(SegmentMeta::decode(&meta.encode()), Ok(meta));
        index(&bytes[SegmentMeta::ENCODED_BYTES..], &meta);
    }
    if let Ok(producers) = ProducerTable::decode(bytes) {
        assert_eq!(ProducerTable::decode(&producers.encode()), Ok(producers));
    }
    if let Some((base, kind)) = std::str::from_utf8(bytes).ok().and_then(parse_file_name) {
        assert!(base.0 >= 0 && FileKind::ALL.contains(&kind));
    }
}

/// Walks headers from the front as a rebuild of the index does, and again as a read does: both end within the bytes.
fn walk(bytes: &[u8]) -> ActiveSegment {
    let base = BatchHeader::parse(bytes).map_or(Offset(0), |header| header.base_offset).max(Offset(0));
    let mut active = ActiveSegment::new(base, WallTime(0), 64);
    let everything = ReadLimits { max_bytes: usize::MAX, at_least_one_batch: true, upto: Offset(i64::MAX) };
    let mut walk = Walk::new(base, everything, 0, bytes.len() as u64, base);
    while let Some(at) = walk.next_header() {
        let Some(Ok(header)) = bytes[at as usize..].first_chunk::<HEADER_BYTES>().map(BatchHeader::decode) else {
            break;
        };
        if walk.see(&header).is_err() || header.last_offset().0 - base.0 > i64::from(i32::MAX) {
            break;
        }
        if walk.reached().1 > at {
            active.note(&header, WallTime(0));
        }
    }
    assert!(active.meta.bytes <= bytes.len() as u64);
    let chosen = walk.chosen().unwrap_or(0..0);
    assert!(chosen.start <= chosen.end && chosen.end <= bytes.len() as u64);
    active
}

/// Takes the bytes for the tails of both index files.
fn index(bytes: &[u8], meta: &SegmentMeta) {
    let counts = (bytes.len() as u32 / 8, bytes.len() as u32 / 12);
    let meta = SegmentMeta { index_entries: counts.0, time_index_entries: counts.1, ..*meta };
    let tail = |kind, entries| {
        let range = ActiveIndex::tail_range(kind, entries);
        &bytes[range.start as usize..range.end as usize]
    };
    let (offsets, times) = (tail(FileKind::Index, counts.0), tail(FileKind::TimeIndex, counts.1));
    for (meta, times) in [(meta, times), (SegmentMeta { time_index_entries: 0, ..meta }, &times[..0])] {
        let Ok(mut index) = ActiveIndex::restore(&meta, 64, offsets, times) else { continue };
        if let Floor::Known(Some(entry)) = index.floor(Offset(meta.base_offset.0.saturating_add(7))) {
            assert!(u64::from(entry.position) < meta.bytes && entry.last_offset < meta.end_offset);
        }
        let _ = index.time_floor(WallTime(1_700_000_000_000));
        let _ = index.truncate(&SegmentMeta { bytes: meta.bytes / 2, ..meta });
        for write in index.pending() {
            assert!(write.bytes.len() <= offsets.len() + 8192);
        }
    }
}
