//! The index of a growing segment against a list of its batches, its files as Kafka reads them, and bytes that are no index.

use super::*;
use crate::segment::ActiveSegment;
use crate::testing::header;
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Files {
    index: Vec<u8>,
    time_index: Vec<u8>,
}

impl Files {
    fn take(&mut self, write: &IndexWrite) {
        assert_eq!((write.position % 4096, write.bytes.len() % 4096), (0, 0));
        let file = if write.kind == FileKind::Index { &mut self.index } else { &mut self.time_index };
        let at = write.position as usize;
        file.resize(file.len().max(at + write.bytes.len()), 0);
        file[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
    }

    fn entries<E: IndexEntry>(&self, base: Offset, bytes: &[u8], count: u32) -> Vec<E> {
        bytes.chunks_exact(E::BYTES).take(count as usize).map(|bytes| E::decode(base, bytes)).collect()
    }
}

fn checkpoint(active: &mut ActiveSegment, files: &mut Files) {
    for write in active.index.pending() {
        files.take(&write);
        active.index.written(write.kind, write.entries);
        match write.kind {
            FileKind::Index => active.meta.index_entries = write.entries,
            _ => active.meta.time_index_entries = write.entries,
        }
    }
    assert_eq!(active.index.pending(), vec![]);
}

#[test]
fn entries_are_laid_out_as_kafka_does() {
    let mut active = ActiveSegment::new(Offset(1000), WallTime(0), 100);
    for (base, records, bytes, timestamp) in
        [(1000, 10, 101, 5), (1010, 1, 80, 9), (1011, 4, 80, 7), (1015, 2, 200, 30), (1017, 1, 70, 20)]
    {
        active.note(&header(base, records, bytes, timestamp), WallTime(0));
    }
    active.seal();
    let mut files = Files::default();
    checkpoint(&mut active, &mut files);
    // More than 100 bytes lie between the batches of 1010 (at 101) and 1015 (at 261).
    assert_eq!(files.index[..16], [0, 0, 0, 10, 0, 0, 0, 101, 0, 0, 0, 16, 0, 0, 1, 5]);
    assert_eq!(files.index[16..24], [0, 0, 0, 17, 0, 0, 1, 205]);
    assert_eq!(files.time_index[..24], [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 16]);
    assert_eq!((active.meta.index_entries, active.meta.time_index_entries), (3, 2));
    assert!(files.index[24..].iter().chain(&files.time_index[24..]).all(|&byte| byte == 0));
}

#[test]
fn hostile_tails_are_refused() {
    let mut meta = SegmentMeta::new(Offset(1000), WallTime(0));
    meta.note(&header(1000, 50, 500, 5), WallTime(0));
    meta.index_entries = 2;
    let good = [0, 0, 0, 10, 0, 0, 0, 100, 0, 0, 0, 20, 0, 0, 0, 200];
    assert!(ActiveIndex::restore(&meta, 100, &good, &[]).is_ok());
    for (at, value, what) in [
        (3, 20, "offsets that do not rise"),
        (7, 200, "positions that do not rise"),
        (11, 50, "an offset past the end"),
        (0, 0x80, "a negative offset"),
        (14, 2, "a position past the end"),
    ] {
        let mut bad = good;
        bad[at] = value;
        let restored = ActiveIndex::restore(&meta, 100, &bad, &[]);
        assert_eq!(restored, Err(DamagedIndex { kind: FileKind::Index }), "{what}");
    }
    assert!(ActiveIndex::restore(&meta, 100, &good[..8], &[]).is_err(), "too short");
    meta.time_index_entries = 1;
    assert!(ActiveIndex::restore(&meta, 100, &good, &[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 10]).is_ok());
    assert!(ActiveIndex::restore(&meta, 100, &good, &[255; 12]).is_err(), "no timestamp");
}

/// Batches of a segment: (records, bytes, timestamp).
fn batches() -> impl Strategy<Value = Vec<(i32, usize, i64)>> {
    proptest::collection::vec((1..5i32, 61..900usize, -1..3000i64), 1..1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn agrees_with_the_list_of_batches(
        batches in batches(), interval in 0..400u64, checkpoint_every in 1..300usize, cut in any::<prop::sample::Index>(),
    ) {
        let base = Offset(77);
        let mut active = ActiveSegment::new(base, WallTime(0), interval);
        let mut files = Files::default();
        let mut placed: Vec<(u64, BatchHeader)> = Vec::new();
        for (index, &(records, bytes, timestamp)) in batches.iter().enumerate() {
            let header = header(active.meta.end_offset.0, records, bytes, timestamp);
            placed.push((active.meta.bytes, header));
            active.note(&header, WallTime(0));
            if index % checkpoint_every == 0 {
                checkpoint(&mut active, &mut files);
                prop_assert!(active.index.memory_bytes() <= 2 * 4096 + 12, "{} bytes", active.index.memory_bytes());
            }
        }
        checkpoint(&mut active, &mut files);
        check_lookups(&active, &files, &placed)?;

        let restored = restore(&active, &files, interval);
        prop_assert_eq!(&restored.index, &active.index);

        // Cut at any batch, in memory when it can be.
        let keep = cut.index(placed.len());
        let (bytes, header) = placed[keep];
        placed.truncate(keep);
        let from = active.truncate(header.base_offset, bytes);
        if let Some(from) = from {
            for (_, header) in placed.iter().filter(|(position, _)| *position >= from) {
                active.refold(header);
            }
            let mut fresh = ActiveSegment::new(base, WallTime(0), interval);
            placed.iter().for_each(|(_, header)| fresh.note(header, WallTime(0)));
            prop_assert_eq!(active.meta.max_timestamp, fresh.meta.max_timestamp);
            prop_assert_eq!(active.meta.max_timestamp_offset, fresh.meta.max_timestamp_offset);
            checkpoint(&mut active, &mut files);
            check_lookups(&active, &files, &placed)?;
            prop_assert_eq!(active.index.entries(FileKind::Index), fresh.index.entries(FileKind::Index));
            // An entry that was noted with a batch since cut, of a batch before the cut, is as true as ever.
            prop_assert!(active.index.entries(FileKind::TimeIndex) >= fresh.index.entries(FileKind::TimeIndex));
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), index_entries in 0..9u32, time in 0..9u32) {
        let meta = SegmentMeta { end_offset: Offset(100), bytes: 5000, index_entries, time_index_entries: time,
            ..SegmentMeta::new(Offset(10), WallTime(0)) };
        let _ = ActiveIndex::restore(&meta, 10, &bytes, &bytes);
    }
}

fn restore(active: &ActiveSegment, files: &Files, interval: u64) -> ActiveSegment {
    let tail = |kind, entries, file: &[u8]| {
        let range = ActiveIndex::tail_range(kind, entries);
        file[range.start as usize..range.end as usize].to_vec()
    };
    let meta = active.meta;
    let index = ActiveIndex::restore(
        &meta,
        interval,
        &tail(FileKind::Index, meta.index_entries, &files.index),
        &tail(FileKind::TimeIndex, meta.time_index_entries, &files.time_index),
    );
    ActiveSegment { meta, index: index.expect("files of our own") }
}

fn check_lookups(active: &ActiveSegment, files: &Files, placed: &[(u64, BatchHeader)]) -> Result<(), TestCaseError> {
    let base = active.meta.base_offset;
    let offsets: Vec<OffsetEntry> = files.entries(base, &files.index, active.index.entries(FileKind::Index));
    let times: Vec<TimeEntry> = files.entries(base, &files.time_index, active.index.entries(FileKind::TimeIndex));
    // What stands in the files is of real batches.
    for entry in &offsets {
        let of = placed.iter().find(|(position, _)| *position == u64::from(entry.position));
        prop_assert_eq!(of.map(|(_, header)| header.last_offset()), Some(entry.last_offset));
    }
    for entry in &times {
        let of = placed.iter().find(|(_, header)| header.last_offset() == entry.last_offset);
        prop_assert_eq!(of.map(|(_, header)| header.max_timestamp), Some(entry.timestamp));
    }
    prop_assert!(times.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.last_offset < b.last_offset));
    // A floor never lies beyond what is sought.
    for (position, header) in placed.iter().step_by(7) {
        let in_file = |entries: u32| {
            let below = offsets[..entries as usize].partition_point(|entry| entry.last_offset <= header.base_offset);
            below.checked_sub(1).map(|index| offsets[index])
        };
        let floor = match active.index.floor(header.base_offset) {
            Floor::Known(entry) => entry,
            Floor::InFile { entries } => in_file(entries),
        };
        let from = floor.map_or(0, |entry| u64::from(entry.position));
        prop_assert!(from <= *position && in_file(offsets.len() as u32) == floor);

        let first_at = placed.iter().find(|(_, other)| other.max_timestamp >= header.max_timestamp).map(|(at, _)| *at);
        let time_floor = match active.index.time_floor(header.max_timestamp) {
            Floor::Known(entry) => entry,
            Floor::InFile { entries } => {
                let below = times[..entries as usize].partition_point(|entry| entry.timestamp < header.max_timestamp);
                below.checked_sub(1).map(|index| times[index])
            }
        };
        if let Some(entry) = time_floor {
            let at = placed.iter().find(|(_, other)| other.last_offset() == entry.last_offset).map(|(at, _)| *at);
            prop_assert!(at < first_at, "the batch with the time comes after the entry's");
        }
    }
    Ok(())
}
