//! What a log makes of what it is sent, fault by fault.

use base::{Instant, Offset, ProducerEpoch, ProducerId, WallTime};
use record::{BatchBuilder, BatchOptions, Batches, Compression, ProducerStamp, decode_records};
use wire::ErrorCode;

use super::fault::{Fault, FaultPlan};
use super::log::{Append, Log};

/// A batch of records, each with a name for its value and a time of 10 ms more than the one before it.
fn batch(names: &str, options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for (index, name) in (0..).zip(names.split(' ')) {
        builder.add(WallTime(1000 + 10 * index), Some(b"key"), Some(name.as_bytes()), &[]).expect("small");
    }
    builder.finish().expect("has records")
}

fn plan(faults: &[&str]) -> FaultPlan {
    let faults: Vec<Fault> = faults.iter().map(|text| text.parse().expect("a fault")).collect();
    FaultPlan::new(&faults, 0)
}

fn append(log: &mut Log, bytes: &[u8], at: u64) -> Result<i64, ErrorCode> {
    let readable_at = Instant(at);
    log.append(&Append { batch: bytes, serial: at, readable_at }).map(|offset| offset.0)
}

/// All that can be read at a time, as `offset:value`; a batch with a wrong CRC is `!`, one without records `-`.
fn readable(log: &mut Log, at: u64) -> String {
    log.advance(Instant(at));
    let read = log.read(log.start(), usize::MAX, false).expect("the log holds its start");
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.to_vec()).collect();
    assert_eq!(bytes.len(), read.bytes);
    let mut found = Vec::new();
    let mut next = log.start();
    for batch in Batches::new(&bytes) {
        let batch = batch.expect("whole batches");
        assert!(batch.base_offset() >= next, "offsets go up");
        next = batch.header().next_offset();
        if !batch.has_valid_crc() {
            found.push("!".to_owned());
            continue;
        }
        let decoded = decode_records(&batch, 1 << 20).expect("a known codec");
        if batch.header().record_count == 0 {
            found.push("-".to_owned());
        }
        for record in decoded.records() {
            let record = record.expect("sound");
            assert!(record.offset <= batch.last_offset());
            found.push(format!("{}:{}", record.offset, String::from_utf8_lossy(record.value.unwrap_or_default())));
        }
    }
    assert!(next <= log.high_watermark());
    found.join(" ")
}

/// Sends `batches` one after another, expects `answers`, and finds `expected` in the log.
fn check(faults: &[&str], batches: &[&str], answers: &[Result<i64, ErrorCode>], expected: &str) {
    for compression in Compression::ALL {
        let mut log = Log::new(plan(faults));
        let options = BatchOptions { compression, ..Default::default() };
        let answered: Vec<_> = batches.iter().map(|names| append(&mut log, &batch(names, options), 0)).collect();
        assert_eq!(answered, answers, "{faults:?} {compression}");
        assert_eq!(readable(&mut log, 0), expected, "{faults:?} {compression}");
    }
}

#[test]
fn without_faults_a_log_holds_what_it_was_sent() {
    check(&[], &["a b c", "d"], &[Ok(0), Ok(3)], "0:a 1:b 2:c 3:d");
}

#[test]
fn a_dropped_record_leaves_its_offset_empty() {
    check(&["drop@1"], &["a b c", "d"], &[Ok(0), Ok(3)], "0:a 2:c 3:d");
    check(&["drop@2"], &["a b c", "d"], &[Ok(0), Ok(3)], "0:a 1:b 3:d");
    check(&["drop@0", "drop@3"], &["a b c", "d", "e"], &[Ok(0), Ok(3), Ok(4)], "1:b 2:c - 4:e");
}

#[test]
fn a_duplicate_moves_what_follows_it() {
    check(&["duplicate@0"], &["a b", "c", "d"], &[Ok(0), Ok(3), Ok(4)], "0:a 1:b 2:a 3:c 4:d");
    check(&["duplicate@0", "drop@2"], &["a b", "c", "d"], &[Ok(0), Ok(3), Ok(4)], "0:a 1:b 2:a - 4:d");
}

#[test]
fn swapped_records_take_each_other_s_place() {
    check(&["swap@0"], &["a b c"], &[Ok(0)], "0:b 1:a 2:c");
    check(&["swap@1"], &["a b", "c d"], &[Ok(0), Ok(2)], "0:a 1:c 2:b 3:d");
    check(&["swap@1", "swap@2"], &["a b", "c", "d"], &[Ok(0), Ok(2), Ok(3)], "0:a 1:c 2:d 3:b");
    check(&["swap@1", "duplicate@0"], &["a b", "c"], &[Ok(0), Ok(3)], "0:a 1:c 2:a 3:b");
}

#[test]
fn a_record_that_waits_for_the_next_one_holds_back_what_follows_it() {
    let mut log = Log::new(plan(&["swap@2"]));
    let options = BatchOptions::default();
    assert_eq!(append(&mut log, &batch("a", options), 1), Ok(0));
    assert_eq!(append(&mut log, &batch("b c", options), 2), Ok(1));
    assert_eq!(readable(&mut log, 9), "0:a");
    assert_eq!(log.next_readable_at(), None);
    assert_eq!(append(&mut log, &batch("d", options), 12), Ok(3));
    assert_eq!(readable(&mut log, 11), "0:a");
    assert_eq!(log.next_readable_at(), Some(Instant(12)));
    assert_eq!(readable(&mut log, 12), "0:a 1:b 2:d 3:c");
}

#[test]
fn a_record_that_waits_may_be_gone_before_the_next_one_comes() {
    let mut log = Log::new(plan(&["swap@0"]));
    let options = BatchOptions::default();
    assert_eq!(append(&mut log, &batch("a", options), 1), Ok(0));
    assert_eq!(log.evict_through(1).len(), 1);
    assert_eq!(append(&mut log, &batch("b", options), 2), Ok(1));
    assert_eq!(append(&mut log, &batch("c", options), 3), Ok(2));
    assert_eq!(readable(&mut log, 3), "1:b 2:c");
}

#[test]
fn corruption_changes_one_byte() {
    check(&["corrupt@1"], &["a bb", "c"], &[Ok(0), Ok(2)], "0:a 1:b\u{fffd} 2:c");
    check(&["corrupt-batch@1"], &["a b", "c"], &[Ok(0), Ok(2)], "! 2:c");
}

#[test]
fn refused_batches_are_not_numbered() {
    let (refused, moved) = (Err(ErrorCode::InvalidRecord), Err(ErrorCode::NotLeaderOrFollower));
    check(&["refuse@1"], &["a b", "c d"], &[refused, Ok(0)], "0:c 1:d");
    check(&["refuse-and-keep@1"], &["a b", "c d"], &[refused, Ok(2)], "0:a 1:b 2:c 3:d");
    check(&["retry@2"], &["a b", "c", "c", "d"], &[Ok(0), moved, Ok(2), Ok(3)], "0:a 1:b 2:c 3:d");
    check(&["retry@0", "retry@1"], &["a b", "a b", "a b"], &[moved, moved, Ok(0)], "0:a 1:b");
    check(&["refuse@1", "drop@1"], &["a b", "c d"], &[refused, Ok(0)], "0:c");
}

#[test]
fn a_batch_that_is_sent_again_gets_its_first_answer() {
    let stamped = |base_sequence| {
        let (producer_id, producer_epoch) = (ProducerId(7), ProducerEpoch(0));
        BatchOptions {
            producer: Some(ProducerStamp { producer_id, producer_epoch, base_sequence }),
            ..Default::default()
        }
    };
    let mut log = Log::new(plan(&["duplicate@0", "drop@1"]));
    for (names, sequence, answer) in [
        ("a b", 0, Ok(0)),
        ("c", 2, Ok(3)),
        ("a b", 0, Ok(0)),
        ("c", 2, Ok(3)),
        ("e", 4, Err(ErrorCode::OutOfOrderSequenceNumber)),
        ("d", 3, Ok(4)),
    ] {
        assert_eq!(append(&mut log, &batch(names, stamped(sequence)), 0), answer, "{names}");
    }
    assert_eq!(readable(&mut log, 0), "0:a 2:a 3:c 4:d");
}

#[test]
fn what_is_no_batch_is_refused() {
    let sound = batch("a b", BatchOptions::default());
    let mut count = sound.clone();
    count[60] = 1;
    let control = batch("a", BatchOptions { control: true, ..Default::default() });
    for (bytes, code) in [
        (&[][..], ErrorCode::CorruptMessage),
        (&sound[..sound.len() - 1], ErrorCode::CorruptMessage),
        (&[sound.clone(), sound.clone()].concat(), ErrorCode::InvalidRecord),
        (&count, ErrorCode::InvalidRecord),
        (&control, ErrorCode::InvalidRecord),
    ] {
        assert_eq!(append(&mut Log::default(), bytes, 0), Err(code));
    }
    // Only where the records are looked at can it be seen that they are damaged.
    let mut damaged = sound;
    damaged[61] = 0xff;
    assert_eq!(append(&mut Log::default(), &damaged, 0), Ok(0));
    assert_eq!(append(&mut Log::new(plan(&["drop@0"])), &damaged, 0), Err(ErrorCode::CorruptMessage));
}

#[test]
fn readers_see_batches_in_order_from_their_time_on() {
    let mut log = Log::default();
    for (names, at) in [("a", 10), ("b", 5), ("c", 30)] {
        append(&mut log, &batch(names, BatchOptions::default()), at).expect("sound");
    }
    for (at, expected, high_watermark, next) in
        [(9, "", 0, Some(10)), (10, "0:a 1:b", 2, Some(30)), (29, "0:a 1:b", 2, Some(30)), (30, "0:a 1:b 2:c", 3, None)]
    {
        assert_eq!(readable(&mut log, at), expected);
        assert_eq!((log.high_watermark(), log.next_readable_at()), (Offset(high_watermark), next.map(Instant)));
    }
}

#[test]
fn a_read_is_bounded_by_whole_batches() {
    let mut log = Log::default();
    let one = batch("a b", BatchOptions::default()).len();
    for _ in 0..3 {
        append(&mut log, &batch("a b", BatchOptions::default()), 0).expect("sound");
    }
    log.advance(Instant(0));
    for (from, max, at_least_one, batches) in [
        (0, usize::MAX, false, 3),
        (1, 2 * one, false, 2),
        (2, one, false, 1),
        (5, usize::MAX, false, 1),
        (6, usize::MAX, true, 0),
        (0, one - 1, false, 0),
        (0, 0, true, 1),
    ] {
        let read = log.read(Offset(from), max, at_least_one).expect("the log holds it");
        assert_eq!((read.slices.len(), read.bytes), (batches, batches * one), "{from} {max}");
    }
    for outside in [-1, 7] {
        assert_eq!(log.read(Offset(outside), 1, true).err(), Some(ErrorCode::OffsetOutOfRange));
    }
}

#[test]
fn what_is_deleted_or_evicted_moves_the_start() {
    let mut log = Log::default();
    for (names, serial) in [("a b", 1), ("c d", 2), ("e f", 3)] {
        append(&mut log, &batch(names, BatchOptions::default()), serial).expect("sound");
    }
    let all = log.cost_bytes();
    assert_eq!(log.delete_before(Some(Offset(1))).err(), Some(ErrorCode::OffsetOutOfRange), "nobody has seen it");
    assert_eq!(readable(&mut log, 2), "0:a 1:b 2:c 3:d");
    assert_eq!(log.delete_before(Some(Offset(3))).expect("within").len(), 1);
    assert_eq!((log.start(), log.high_watermark(), log.cost_bytes()), (Offset(3), Offset(4), all / 3 * 2));
    assert_eq!(log.read(Offset(2), 1, true).err(), Some(ErrorCode::OffsetOutOfRange));
    assert_eq!(log.read(Offset(3), 1, true).expect("within").slices.len(), 1, "the batch that holds it");
    assert_eq!(log.delete_before(Some(Offset(2))).expect("a start never goes back").len(), 0);
    assert_eq!(log.start(), Offset(3));
    // The last one goes before anybody could read it.
    assert_eq!(log.evict_through(3).len(), 2);
    assert_eq!((log.start(), log.high_watermark(), log.cost_bytes()), (Offset(6), Offset(6), 0));
    assert_eq!(append(&mut log, &batch("g", BatchOptions::default()), 4), Ok(6));
    assert_eq!(readable(&mut log, 4), "6:g");
    assert_eq!(log.delete_before(None).expect("up to the end").len(), 1);
    assert_eq!(log.start(), Offset(7));
}

#[test]
fn times_are_found_by_the_record() {
    let mut log = Log::default();
    for names in ["a b", "c d e", "f"] {
        append(&mut log, &batch(names, BatchOptions::default()), 0).expect("sound");
    }
    assert_eq!(log.find_time(WallTime(0)), None, "nothing can be read yet");
    log.advance(Instant(0));
    for (time, expected) in [(0, Some(0)), (1005, Some(1)), (1010, Some(1)), (1011, Some(4)), (1021, None)] {
        assert_eq!(log.find_time(WallTime(time)).map(|found| found.offset.0), expected, "{time}");
    }
    assert_eq!(log.find_latest().map(|found| (found.offset.0, found.timestamp.0)), Some((4, 1020)));
}
