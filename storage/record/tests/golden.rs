//! Batches that other clients made: every field and record must come out as they put it in.

use base::{Offset, WallTime};
use record::{
    BatchView, Compression, Decoded, ProduceLimits, TimestampOffset, TimestampType, decode_records, find_max_timestamp,
    find_timestamp, murmur2, partition_for_key, validate_for_produce,
};

const BASE: i64 = 1_700_000_000_000;
const BYTES_LIMIT: usize = 1 << 20;

const BATCHES: [(Compression, &[u8]); 10] = [
    (Compression::None, include_bytes!("golden/java-none.batch")),
    (Compression::Gzip, include_bytes!("golden/java-gzip.batch")),
    (Compression::Snappy, include_bytes!("golden/java-snappy.batch")),
    (Compression::Lz4, include_bytes!("golden/java-lz4.batch")),
    (Compression::Zstd, include_bytes!("golden/java-zstd.batch")),
    (Compression::None, include_bytes!("golden/python-none.batch")),
    (Compression::Gzip, include_bytes!("golden/python-gzip.batch")),
    (Compression::Snappy, include_bytes!("golden/python-snappy.batch")),
    (Compression::Lz4, include_bytes!("golden/python-lz4.batch")),
    (Compression::Zstd, include_bytes!("golden/python-zstd.batch")),
];

fn check_records(decoded: &Decoded<'_>, timestamps: [i64; 4]) {
    let large_bytes = if decoded.header().compression() == Some(Compression::None) { 300 } else { 100_000 };
    let large: Vec<u8> = (0..large_bytes).map(|index| (index % 251) as u8).collect();
    let keys = [Some(&b"k1"[..]), None, Some(b"tombstone"), Some(b"")];
    let values = [Some(&b"v1"[..]), Some(b"only a value"), None, Some(&large)];
    let records: Vec<_> = decoded.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len(), 4);
    for (index, record) in records.iter().enumerate() {
        assert_eq!((record.offset.0, record.timestamp.0), (index as i64, timestamps[index]));
        assert_eq!((record.key, record.value), (keys[index], values[index]));
        assert_eq!(record.headers.len(), if index == 1 { 3 } else { 0 });
    }
    let headers: Vec<_> =
        records[1].headers.map(|h| (h.key_text().into_owned(), h.value.map(<[u8]>::to_vec))).collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(headers, [(text("a"), Some(vec![b'1'])), (text("a"), None), (text("ünï"), Some(vec![]))]);
    assert_eq!((records[1].headers.last("a"), records[1].headers.last("b")), (Some(None), None));
}

#[test]
fn batches_of_other_clients() {
    for (codec, bytes) in BATCHES {
        let limits = ProduceLimits { message_bytes_max: BYTES_LIMIT, zstd_allowed: true };
        let summary = validate_for_produce(bytes, &limits).unwrap();
        let sequences = summary.sequences.unwrap();
        assert_eq!((summary.compression, summary.record_count), (codec, 4));
        assert_eq!((sequences.producer_id.0, sequences.producer_epoch.0), (1234, 3));
        assert_eq!((sequences.first, sequences.last), (17, 20));
        assert_eq!((summary.header.base_timestamp.0, summary.header.max_timestamp.0), (BASE, BASE + 1000));
        check_times(&BatchView::parse(bytes).unwrap());
    }
}

fn check_times(batch: &BatchView<'_>) {
    check_records(&decode_records(batch, BYTES_LIMIT).unwrap(), [BASE, BASE + 5, BASE - 3, BASE + 1000]);
    let found = |at, from| {
        let found = find_timestamp(batch, WallTime(at), Offset(from), BYTES_LIMIT).unwrap();
        found.map(|found: TimestampOffset| (found.offset.0, found.timestamp.0 - BASE))
    };
    assert_eq!(found(BASE - 10, 0), Some((0, 0)));
    assert_eq!(found(BASE - 10, 2), Some((2, -3)), "records before the log's start do not count");
    assert_eq!(found(BASE + 1, 0), Some((1, 5)));
    assert_eq!(found(BASE + 6, 0), Some((3, 1000)));
    assert_eq!((found(BASE + 1001, 0), found(BASE, 4)), (None, None));
    assert_eq!(find_max_timestamp(batch, BYTES_LIMIT).unwrap().unwrap().offset, Offset(3));
}

#[test]
fn append_time_overrides_the_records_own() {
    let batch = BatchView::parse(include_bytes!("golden/java-append-time.batch")).unwrap();
    assert!(batch.has_valid_crc());
    assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppendTime);
    assert!(batch.header().is_transactional() && !batch.header().is_control());
    check_records(&decode_records(&batch, BYTES_LIMIT).unwrap(), [BASE + 5000; 4]);
    let first = Some(TimestampOffset { timestamp: WallTime(BASE + 5000), offset: Offset(0) });
    assert_eq!(find_max_timestamp(&batch, BYTES_LIMIT), Ok(first));
    assert_eq!(find_timestamp(&batch, WallTime(BASE), Offset(0), BYTES_LIMIT), Ok(first));
}

#[test]
fn partitions_are_those_of_java() {
    let text = include_str!("golden/java-murmur2.txt");
    let mut lines = 0;
    for line in text.lines() {
        let [key, hash, partition] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let key: Vec<u8> =
            (0..key.len()).step_by(2).map(|at| u8::from_str_radix(&key[at..at + 2], 16).unwrap()).collect();
        assert_eq!(murmur2(&key), hash.parse::<i32>().unwrap(), "{line}");
        assert_eq!(partition_for_key(&key, 24).0, partition.parse::<i32>().unwrap(), "{line}");
        lines += 1;
    }
    assert_eq!(lines, 11);
}
