//! What must hold for any bytes at all: run here over seeded mutations, and by the fuzz target of the same name.
#![allow(dead_code, reason = "each fuzz target runs its part")]

use base::{Offset, WallTime};
use record::{BatchHeader, HEADER_BYTES};
use storage::journal::codec::{Control, Entries, Entry, FrameHead, FrameWriter, JOURNAL_BLOCK_BYTES, frame_at};
use storage::journal::scan::{JournalPosition, PassedOver, find_end, scan_file};
use storage::manifest::{LogRecord, Manifest};
use storage::producer::ProducerTable;
use storage::read::{ReadLimits, Walk};
use storage::recovery::log_replay::Source;
use storage::recovery::replay::ShardReplay;
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
    if let Some((segment, kind)) = std::str::from_utf8(bytes).ok().and_then(parse_file_name) {
        assert!(segment.base.0 >= 0 && segment.file(kind).as_bytes() == bytes);
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

/// Logs that a replayed input may create: what replay holds is in proportion to them, not to the bytes that name them.
const LOGS_MAX: usize = 24;

/// What recovery does with a journal file: finds its frames and its end, reads the entries, replays them. The bytes are taken for a
/// file, and for the entries of a frame whose checksum is right, as if a defect of ours had written them.
pub fn journal(bytes: &[u8]) {
    let salt = FrameHead::parse(bytes).map_or(0, |head| head.salt);
    let found = scan_file(0, bytes, salt, &mut PassedOver::default());
    let mut replay = ShardReplay::default();
    if let Ok(scan) = find_end(found, &JournalPosition { sequence: 1, file: 0, offset: 0 }) {
        for frame in &scan.frames {
            let (head, body) = frame_at(&bytes[frame.offset as usize..], salt).expect("found a moment ago");
            entries(&head, body, &mut replay);
        }
    }
    let Some((&[entry_count, blocks], rest)) = bytes.split_first_chunk() else { return };
    let rest = &rest[..rest.len().min(1 << 20)];
    let blocks = usize::from(blocks).min(rest.len() / JOURNAL_BLOCK_BYTES);
    let (payload, apart) = rest.split_at(rest.len() - blocks * JOURNAL_BLOCK_BYTES);
    let head = FrameHead {
        salt: 1,
        sequence: 1,
        durable_sequence: 0,
        manifest_version: 0,
        entry_count: u32::from(entry_count),
        payload_bytes: payload.len() as u32,
        blocks: blocks as u32,
    };
    let mut body = Vec::with_capacity(head.body_bytes());
    body.extend_from_slice(payload);
    body.resize(head.body_bytes() - apart.len(), 0);
    body.extend_from_slice(apart);
    entries(&head, &body, &mut replay);
}

/// Reads the entries, copies them into a frame that reads back the same, and replays them.
fn entries(head: &FrameHead, body: &[u8], replay: &mut ShardReplay) {
    let mut births = replay.logs.len();
    for entry in Entries::new(head, body) {
        let Ok(entry) = entry else { return };
        births += usize::from(matches!(entry, Entry::Control(Control::Create { .. } | Control::Placed { .. })));
        again(&entry);
    }
    if births > LOGS_MAX {
        return;
    }
    if replay.frame(head, body, Source { file: 0, offset: 0 }, WallTime(0)).is_ok() {
        for log in replay.logs.values() {
            let record = log.to_record();
            assert!(record.start <= record.end && record.high_watermark <= record.end);
            let extents = log.segments.iter().flat_map(|segment| &segment.extents);
            assert!(
                extents.map(|extent| extent.bytes).sum::<u64>() <= replay.appended_bytes + 4096 * replay.counts.total()
            );
        }
    }
}

/// One entry written and read again, if it is small enough to be worth the memory.
fn again(entry: &Entry<'_>) {
    let mut space = [0; 4096];
    let small = match entry {
        Entry::Append { bytes, .. } | Entry::BlockPrefix { bytes, .. } => bytes.len() < 2048,
        Entry::Control(Control::Placed { record }) => record.len() < 2048,
        Entry::Control(_) => true,
    };
    if small {
        let mut writer = FrameWriter::new(&mut space);
        writer.copy(entry);
        writer.finish(7, 1, 0, 0);
        let (head, payload) = frame_at(&space, 7).expect("a frame");
        assert_eq!(Entries::new(&head, payload).next(), Some(Ok(entry.clone())));
    }
}

/// What recovery does with a manifest copy, and with the record of a moved log.
pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
    }
    if let Ok(record) = LogRecord::decode(bytes) {
        assert_eq!(LogRecord::decode(&record.encode()), Ok(record));
    }
}
