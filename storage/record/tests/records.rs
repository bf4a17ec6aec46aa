//! Records byte by byte: what is malformed, and the rules that topics have for sound ones.

use base::{Offset, WallTime};
use record::{
    BatchBuilder, BatchHeader, BatchOptions, BatchView, BuildError, Compression, DecodeError, DecompressError,
    REFUSED_RECORDS_MAX, RecordError, RecordRules, Records, RefusalReason, RefusedRecords, TimestampBounds,
    check_records, decode_records,
};

/// The header of a one-record batch that the table below changes.
fn header(record_count: i32) -> BatchHeader {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset: Offset(10), ..BatchOptions::default() });
    builder.add(WallTime(1000), None, None, &[]).unwrap();
    let batch = builder.finish().unwrap();
    BatchHeader { record_count, ..BatchHeader::parse(&batch).unwrap() }
}

#[test]
fn malformed_records() {
    let check = |count: i32, body: &[u8], expected: Result<usize, RecordError>| {
        let walked: Result<Vec<_>, _> = Records::new(&header(count), body).collect();
        assert_eq!(walked.map(|records| records.len()), expected, "{body:?}");
    };
    let malformed = |index| Err(RecordError::Malformed { index });
    // length 6 (written 12), attributes, timestamp delta, offset delta, key null, value null, no headers
    let sound = [12, 0, 0, 0, 1, 1, 0];
    check(1, &sound, Ok(1));
    check(2, &[sound, sound].concat(), Ok(2));
    check(0, &[], Ok(0));
    check(-1, &sound, Err(RecordError::Count { record_count: -1 }));
    check(0, &sound, Err(RecordError::Trailing { bytes: 7 }));
    check(1, &[&sound[..], &[0]].concat(), Err(RecordError::Trailing { bytes: 1 }));
    check(1, &[], Err(RecordError::Missing { have: 0, want: 1 }));
    check(i32::MAX, &sound, Err(RecordError::Missing { have: 1, want: i32::MAX as u32 }));
    check(2, &[&sound[..], &[12, 0]].concat(), malformed(1));
    for cut in 1..sound.len() {
        check(1, &sound[..cut], malformed(0));
    }
    check(1, &[0], malformed(0));
    check(1, &[1, 0, 0, 0, 1, 1, 0], malformed(0));
    check(1, &[14, 0, 0, 0, 1, 1, 0, 9], malformed(0));
    check(1, &[12, 0, 0, 0, 4, 1, 0], malformed(0));
    check(1, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1, 1, 0], malformed(0));
    // one header with a null key; header counts of −1 and of 2^31 − 1
    check(1, &[16, 0, 0, 0, 1, 1, 2, 1, 1], malformed(0));
    check(1, &[12, 0, 0, 0, 1, 1, 1], malformed(0));
    check(1, &[20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f], malformed(0));
    // one header with an empty key and a null value is sound; any negative length is null
    check(1, &[16, 0, 0, 0, 1, 1, 2, 0, 1], Ok(1));
    check(1, &[12, 0, 0, 0, 3, 5, 0], Ok(1));
}

#[test]
fn deltas_wrap_like_java() {
    let body = [30, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1, 0];
    let record = Records::new(&header(1), &body).next().unwrap().unwrap();
    assert_eq!((record.timestamp.0, record.offset.0), (i64::MIN + 999, 9));
}

fn batch(records: &[(i64, Option<&[u8]>)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { compression: Compression::Lz4, ..BatchOptions::default() });
    for &(timestamp, key) in records {
        builder.add(WallTime(timestamp), key, None, &[]).unwrap();
    }
    builder.finish().unwrap()
}

#[test]
fn rules_of_topics() {
    let bounds = TimestampBounds { now: WallTime(1000), before_ms_max: 100, after_ms_max: 10 };
    let rules = RecordRules { timestamps: Some(bounds), key_required: true };
    let check = |records: &[(i64, Option<&[u8]>)], expected: &[(u32, RefusalReason)]| {
        let batch = batch(records);
        let result = check_records(&BatchView::parse(&batch).unwrap(), &rules, 1000);
        let expected = if expected.is_empty() { Ok(()) } else { Err(RefusedRecords::Records(expected.to_vec())) };
        assert_eq!(result, expected);
    };
    let late = |timestamp| RefusalReason::Timestamp { timestamp: WallTime(timestamp), bounds };
    let key = Some(&b"k"[..]);
    check(&[(900, key), (1010, key), (-1, key)], &[]);
    check(&[(900, key), (899, key)], &[(1, late(899))]);
    check(&[(1011, key)], &[(0, late(1011))]);
    check(&[(i64::MIN, key)], &[(0, late(i64::MIN))]);
    check(&[(i64::MAX, key)], &[(0, late(i64::MAX))]);
    check(&[(900, key), (900, None)], &[(1, RefusalReason::NoKey)]);
    // Each record at fault is named, for one thing.
    let refused = [(0, RefusalReason::NoKey), (2, late(2000)), (3, RefusalReason::NoKey)];
    check(&[(900, None), (900, key), (2000, key), (2000, None)], &refused);

    let mut wide = bounds;
    (wide.before_ms_max, wide.after_ms_max) = (i64::MAX, i64::MAX);
    assert!(wide.hold(WallTime(i64::MAX)) && wide.hold(WallTime(1001 - i64::MAX)) && !wide.hold(WallTime(i64::MIN)));

    let misnumbered = |delta: u8| {
        let body = [12, 0, 0, 0, 1, 1, 0, 12, 0, 0, delta, 1, 1, 0];
        let bytes = [&BatchHeader { batch_length: 49 + 14, ..header(2) }.encode()[..], &body].concat();
        check_records(&BatchView::parse(&bytes).unwrap(), &RecordRules::default(), 0)
    };
    assert_eq!(misnumbered(2), Ok(()));
    for delta in [0, 1, 4] {
        let refused = RefusedRecords::Records(vec![(1, RefusalReason::OffsetDelta)]);
        assert_eq!(misnumbered(delta), Err(refused), "{delta}");
    }
}

#[test]
fn the_records_at_fault_are_named_up_to_a_bound() {
    let bytes = batch(&vec![(0, None); REFUSED_RECORDS_MAX + 1]);
    let rules = RecordRules { timestamps: None, key_required: true };
    let refused = check_records(&BatchView::parse(&bytes).unwrap(), &rules, 1 << 20).unwrap_err();
    assert_eq!(refused.to_string(), "record 0: a compacted topic takes no record without a key; 999 more");
    let RefusedRecords::Records(named) = refused else { panic!("{refused}") };
    assert_eq!(named.last(), Some(&(999, RefusalReason::NoKey)));
}

#[test]
fn limits_of_decoding_and_building() {
    let bytes = batch(&[(0, Some(&[7; 1000]))]);
    let view = BatchView::parse(&bytes).unwrap();
    let expanded = decode_records(&view, 2000).unwrap().body().len();
    assert!(decode_records(&view, expanded).is_ok(), "a limit that is met exactly");
    let too_large = DecodeError::Decompress(DecompressError::TooLarge { bytes_limit: expanded - 1 });
    assert_eq!(decode_records(&view, expanded - 1).err(), Some(too_large.clone()));
    let refused = check_records(&view, &RecordRules::default(), expanded - 1);
    assert_eq!(refused, Err(RefusedRecords::Unreadable(too_large)));

    let mut unknown = bytes.clone();
    unknown[22] = 7;
    let unknown = BatchView::parse(&unknown).unwrap();
    assert_eq!(decode_records(&unknown, 2000).err(), Some(DecodeError::UnknownCompression { code: 7 }));

    assert_eq!(BatchBuilder::new(BatchOptions::default()).finish(), Err(BuildError::Empty));
}

#[test]
fn gaps_have_offsets_and_no_records() {
    // Where records stand (`r`) and gaps are left (`-`) -> the records' offsets, the batch's last one.
    for (places, offsets, last) in
        [("r-r", &[10, 12][..], 12), ("--r", &[12], 12), ("r--", &[10], 12), ("-", &[], 10), ("rr", &[10, 11], 11)]
    {
        let mut builder = BatchBuilder::new(BatchOptions { base_offset: Offset(10), ..BatchOptions::default() });
        for place in places.chars() {
            if place == 'r' {
                builder.add(WallTime(1000), None, Some(b"value"), &[]).unwrap();
            } else {
                builder.leave_gap();
            }
        }
        assert_eq!(builder.record_count(), offsets.len());
        let bytes = builder.finish().unwrap();
        let batch = BatchView::parse(&bytes).unwrap();
        assert!(batch.has_valid_crc());
        assert_eq!(batch.last_offset(), Offset(last), "{places}");
        let decoded = decode_records(&batch, 0).unwrap();
        let found: Vec<i64> = decoded.records().map(|record| record.unwrap().offset.0).collect();
        assert_eq!(found, offsets, "{places}");
    }
}
