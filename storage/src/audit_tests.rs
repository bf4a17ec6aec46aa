use super::*;
use record::{BatchBuilder, BatchOptions};

use crate::epochs::EpochStart;

/// A batch of one record for each timestamp.
fn batch(base: i64, epoch: i32, timestamps: &[i64]) -> Vec<u8> {
    let options = BatchOptions { base_offset: Offset(base), leader_epoch: LeaderEpoch(epoch), ..Default::default() };
    let mut builder = BatchBuilder::new(options);
    for &at in timestamps {
        builder.add(WallTime(at), None, Some(b"value"), &[]).expect("small");
    }
    builder.finish().expect("has a record")
}

fn epochs(starts: &[(i32, i64)]) -> EpochTable {
    let entries = starts.iter().map(|&(epoch, start)| EpochStart { epoch: LeaderEpoch(epoch), start: Offset(start) });
    EpochTable::from_entries(entries.collect()).expect("rising")
}

/// Batches one after another, in a segment from offset 5 of a log that starts there; what is found of each.
fn check(table: &EpochTable, batches: &[Vec<u8>]) -> Vec<Result<i64, BatchFault>> {
    check_revision(0, table, batches)
}

fn check_revision(revision: u8, table: &EpochTable, batches: &[Vec<u8>]) -> Vec<Result<i64, BatchFault>> {
    let mut audit = BatchAudit::new(SegmentName { base: Offset(5), revision }, table, Offset(5));
    let mut position = 0;
    let mut found = Vec::new();
    for bytes in batches {
        let batch = BatchView::parse(bytes).expect("whole");
        found.push(audit.batch(position, &batch).map(|passed| passed.last_offset.0));
        position += bytes.len() as u64;
    }
    found
}

#[test]
fn batches_follow_one_another_under_the_epochs_that_are_known() {
    let one = |epoch| vec![batch(5, epoch, &[1, 2])];
    let gap = BatchFault::Offset { found: Offset(8), expected: Offset(7) };
    let epoch = |found, expected| BatchFault::Epoch { found: LeaderEpoch(found), expected: LeaderEpoch(expected) };
    let none = EpochTable::default();
    // epochs, batches, found
    let table = [
        (&none, one(2), vec![Ok(6)]),
        (&epochs(&[(2, 0)]), one(2), vec![Ok(6)]),
        (&epochs(&[(2, 0)]), one(3), vec![Err(epoch(3, 2))]),
        (&epochs(&[(2, 0), (4, 5)]), one(2), vec![Err(epoch(2, 4))]),
        (&none, vec![batch(4, 2, &[1])], vec![Err(BatchFault::Offset { found: Offset(4), expected: Offset(5) })]),
        // After a fault it goes on from wherever the next one begins.
        (&none, vec![batch(5, 2, &[1, 1]), batch(8, 2, &[1]), batch(9, 2, &[1])], vec![Ok(6), Err(gap), Ok(9)]),
        (&none, vec![batch(5, 2, &[1]), batch(6, 1, &[1])], vec![Ok(5), Err(epoch(1, 2))]),
    ];
    for (number, (epochs, batches, expected)) in table.into_iter().enumerate() {
        assert_eq!(check(epochs, &batches), expected, "{number}");
    }
}

#[test]
fn a_compacted_segment_may_have_gaps_and_batches_without_records() {
    let table = EpochTable::default();
    let empty = |base| record::emptied(BatchView::parse(&batch(base, 2, &[1, 2])).expect("whole").header());
    let back = BatchFault::Offset { found: Offset(8), expected: Offset(10) };
    let none = BatchFault::Count { records: 0, last_offset_delta: 1 };
    assert_eq!(check_revision(1, &table, &[batch(7, 2, &[1]), empty(10)]), [Ok(7), Ok(11)]);
    assert_eq!(check_revision(1, &table, &[batch(7, 2, &[1, 2, 3]), batch(8, 2, &[1])]), [Ok(9), Err(back)]);
    assert_eq!(check(&table, &[empty(5)]), [Err(none)]);
}

#[test]
fn every_flipped_bit_that_leaves_a_batch_is_seen() {
    let table = epochs(&[(2, 0)]);
    let sound = batch(5, 2, &[1, 2]);
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(flipped) = BatchView::parse(&bytes) else { continue };
        let found = BatchAudit::new(SegmentName::first(Offset(5)), &table, Offset(5)).batch(0, &flipped);
        assert!(found.is_err(), "bit {} of byte {}", bit % 8, bit / 8);
    }
}

#[test]
fn a_segment_ends_where_it_is_known_to() {
    let bytes = batch(5, 0, &[3, 9, 4]);
    let table = EpochTable::default();
    let mut audit = BatchAudit::new(SegmentName::first(Offset(5)), &table, Offset(0));
    audit.batch(0, &BatchView::parse(&bytes).expect("whole")).expect("sound");
    let meta = SegmentMeta {
        end_offset: Offset(8),
        bytes: bytes.len() as u64,
        max_timestamp: WallTime(9),
        ..SegmentMeta::new(Offset(5), WallTime(0))
    };
    let end = |meta: &SegmentMeta, position: u64| audit.end(meta, position).is_ok();
    assert!(end(&meta, meta.bytes));
    assert!(!end(&meta, meta.bytes - 1));
    assert!(!end(&SegmentMeta { end_offset: Offset(9), ..meta }, meta.bytes));
    assert!(!end(&SegmentMeta { max_timestamp: WallTime(8), ..meta }, meta.bytes));
}

#[test]
fn entries_are_held_to_the_batches_they_name() {
    let batch = Passed {
        position: 100,
        last_offset: Offset(9),
        max_timestamp: WallTime(50),
        max_timestamp_so_far: WallTime(50),
    };
    let later = Passed { max_timestamp_so_far: WallTime(60), ..batch };
    for (offset, position, expected) in [
        (9, 100, Beside::Right),
        (10, 101, Beside::Later),
        // Later by its position alone: what comes after it is not to wait for that.
        (9, 101, Beside::Wrong(EntryFault::Position { named: 101, found: 100 })),
        (9, 99, Beside::Wrong(EntryFault::NoBatchAt { position: 99 })),
        (8, 100, Beside::Wrong(EntryFault::LastOffset { named: Offset(8), found: Offset(9) })),
    ] {
        let entry = OffsetEntry { last_offset: Offset(offset), position };
        assert_eq!(entry.beside(&batch), expected, "{entry:?}");
    }
    let wrong = |named, so_far| {
        let (named, so_far) = (WallTime(named), WallTime(so_far));
        Beside::Wrong(EntryFault::Timestamp { named, of_batch: WallTime(50), so_far })
    };
    for (timestamp, offset, batch, expected) in [
        (50, 9, &batch, Beside::Right),
        (51, 10, &batch, Beside::Later),
        (50, 10, &batch, Beside::Wrong(EntryFault::LastOffset { named: Offset(10), found: Offset(9) })),
        (50, 8, &batch, Beside::Wrong(EntryFault::NoBatchOf { last_offset: Offset(8) })),
        (51, 9, &batch, wrong(51, 50)),
        (50, 9, &later, wrong(50, 60)),
    ] {
        let entry = TimeEntry { timestamp: WallTime(timestamp), last_offset: Offset(offset) };
        assert_eq!(entry.beside(batch), expected, "{entry:?}");
    }
}
