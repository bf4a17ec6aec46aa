//! Batches that are stored with another codec: the same records in the same places, whatever the two codecs.

use base::{Offset, ProducerEpoch, ProducerId, WallTime};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use record::{
    BatchBuilder, BatchHeader, BatchOptions, BatchView, Compression, Header, ProducerStamp, RecompressLimits,
    Recompression, RecordRules, RefusalReason, RefusedRecords, TimestampBounds, crc_of, decode_records, recompress,
};

mod owned;

use owned::{BYTES_LIMIT, Owned, codec, owned, read};

const LIMITS: RecompressLimits = RecompressLimits { records_bytes_max: BYTES_LIMIT, batch_bytes_max: BYTES_LIMIT };

fn to(codec: Compression) -> Recompression {
    Recompression { codec, level: None }
}

fn build(records: &[Owned], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let headers = record.headers.iter();
        let headers: Vec<_> =
            headers.map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() }).collect();
        builder.add(WallTime(record.timestamp), record.key.as_deref(), record.value.as_deref(), &headers).unwrap();
    }
    builder.finish().unwrap()
}

/// All that may not change.
fn kept(batch: &[u8]) -> BatchHeader {
    let header = BatchHeader::parse(batch).unwrap();
    let attributes = header.attributes.with_compression(Compression::None);
    BatchHeader { attributes, crc: 0, batch_length: 0, max_timestamp: WallTime(0), ..header }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_stay_what_they_are(
        records in vec(owned(), 1..20),
        (from, codec) in (codec(), codec()),
        level in option::of(-140_000..10i32),
        producer in option::of((any::<i64>(), any::<i16>(), 0..i32::MAX)),
        transactional in any::<bool>(),
    ) {
        let producer = producer.map(|(id, epoch, base_sequence)| ProducerStamp {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence,
        });
        let sent = build(&records, BatchOptions { compression: from, producer, transactional, ..BatchOptions::default() });
        let view = BatchView::parse(&sent).unwrap();
        let stored = recompress(&view, Recompression { codec, level }, &RecordRules::default(), &LIMITS).unwrap();

        let again = BatchView::parse(&stored).unwrap();
        prop_assert!(again.has_valid_crc());
        prop_assert_eq!(again.bytes().len(), stored.len());
        prop_assert_eq!(again.header().compression(), Some(codec));
        let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap().max(-1);
        prop_assert_eq!(again.header().max_timestamp.0, max_timestamp);
        prop_assert_eq!(kept(&stored), kept(&sent));
        let expanded = |batch: &BatchView<'_>| decode_records(batch, BYTES_LIMIT).unwrap().body().to_vec();
        prop_assert_eq!(expanded(&again), expanded(&view), "byte for byte");
        prop_assert_eq!(read(&stored), records);
    }
}

#[test]
fn which_batches_are_rebuilt() {
    let header = |compression, control| {
        let producer = ProducerStamp { producer_id: ProducerId(1), producer_epoch: ProducerEpoch(0), base_sequence: 0 };
        let options = BatchOptions { compression, control, producer: Some(producer), ..BatchOptions::default() };
        let record = Owned { timestamp: 0, key: None, value: None, headers: Vec::new() };
        BatchHeader::parse(&build(&[record], options)).unwrap()
    };
    for codec in Compression::ALL {
        for from in Compression::ALL {
            assert_eq!(to(codec).applies_to(&header(from, false)), codec != from, "{from} to {codec}");
            assert!(!to(codec).applies_to(&header(from, true)), "markers stay as they are");
        }
    }
    let slow = |codec, level| Recompression { codec, level }.is_slow();
    for (codec, level, expected) in [
        (Compression::Gzip, None, false),
        (Compression::Gzip, Some(6), false),
        (Compression::Gzip, Some(7), true),
        (Compression::Zstd, Some(-5), false),
        (Compression::Zstd, Some(3), false),
        (Compression::Zstd, Some(4), true),
        (Compression::Lz4, Some(9), false),
        (Compression::Snappy, None, false),
        (Compression::None, None, false),
    ] {
        assert_eq!(slow(codec, level), expected, "{codec} {level:?}");
    }
}

/// Bytes that no codec makes smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = base::Random::new(7);
    (0..bytes).map(|_| random.below(256) as u8).collect()
}

fn one_record(compression: Compression, value: Vec<u8>) -> Vec<u8> {
    let record = Owned { timestamp: 5, key: None, value: Some(value), headers: Vec::new() };
    build(&[record], BatchOptions { compression, ..BatchOptions::default() })
}

#[test]
fn a_batch_that_grows_too_large_is_refused_and_one_that_just_fits_is_not() {
    for value in [noise(100_000), vec![7; 100_000], noise(10)] {
        for from in Compression::ALL {
            let sent = one_record(from, value.clone());
            let view = BatchView::parse(&sent).unwrap();
            for codec in Compression::ALL {
                let with = |batch_bytes_max| {
                    let limits = RecompressLimits { batch_bytes_max, ..LIMITS };
                    recompress(&view, to(codec), &RecordRules::default(), &limits)
                };
                let stored = with(BYTES_LIMIT).unwrap();
                assert_eq!(with(stored.len()).as_ref(), Ok(&stored), "{from} to {codec}");
                for bytes_max in [stored.len() - 1, 61, 0] {
                    let refused = with(bytes_max).unwrap_err();
                    assert_eq!(refused, RefusedRecords::TooLarge { codec, bytes_max }, "{from} to {codec}");
                    assert!(!refused.is_beyond_limit() && refused.to_string().contains(&bytes_max.to_string()));
                }
            }
        }
    }
}

#[test]
fn records_are_held_to_the_rules_on_the_way() {
    let bounds = TimestampBounds { now: WallTime(1000), before_ms_max: 100, after_ms_max: 10 };
    let rules = RecordRules { timestamps: Some(bounds), key_required: true };
    let check = |timestamp: i64, key: Option<&[u8]>, expected: Option<RefusalReason>| {
        let sound = Owned { timestamp: 1000, key: Some(vec![1]), value: None, headers: Vec::new() };
        let record = Owned { timestamp, key: key.map(<[u8]>::to_vec), ..sound.clone() };
        let sent = build(&[sound, record], BatchOptions::default());
        let refused = recompress(&BatchView::parse(&sent).unwrap(), to(Compression::Zstd), &rules, &LIMITS).err();
        assert_eq!(refused, expected.map(|reason| RefusedRecords::Records(vec![(1, reason)])));
    };
    check(905, Some(b"k"), None);
    check(899, Some(b"k"), Some(RefusalReason::Timestamp { timestamp: WallTime(899), bounds }));
    check(905, None, Some(RefusalReason::NoKey));
}

#[test]
fn what_the_header_claims_of_timestamps_is_put_right() {
    let mut sent = one_record(Compression::None, vec![1]);
    sent[35..43].copy_from_slice(&9_999i64.to_be_bytes());
    let crc = crc_of(&sent);
    sent[17..21].copy_from_slice(&crc.to_be_bytes());
    let view = BatchView::parse(&sent).unwrap();
    let stored = recompress(&view, to(Compression::Lz4), &RecordRules::default(), &LIMITS).unwrap();
    let stored = BatchView::parse(&stored).unwrap();
    assert_eq!((stored.header().max_timestamp, stored.base_offset()), (WallTime(5), Offset(0)));
    assert!(stored.has_valid_crc());
}

#[test]
fn records_beyond_the_limit_are_told_apart_from_damaged_ones() {
    for from in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut sent = one_record(from, vec![0; 1 << 20]);
        let with = |sent: &[u8], records_bytes_max| {
            let limits = RecompressLimits { records_bytes_max, ..LIMITS };
            recompress(&BatchView::parse(sent).unwrap(), to(Compression::None), &RecordRules::default(), &limits)
        };
        assert!(with(&sent, 64 << 10).unwrap_err().is_beyond_limit(), "{from}");
        assert_eq!(with(&sent, 2 << 20).unwrap().len(), (1 << 20) + 61 + 13, "{from}");
        let end = sent.len();
        sent[61..end].fill(0xa5);
        assert!(!with(&sent, 2 << 20).unwrap_err().is_beyond_limit(), "{from}");
    }
}

/// The slowest levels have tables in proportion to their window, which is kept to 8 MiB: what they write still reads back.
#[test]
fn a_large_batch_at_the_slowest_level_reads_back() {
    let mut value = noise(1 << 20);
    value.resize(10 << 20, 0);
    let records = RecompressLimits { records_bytes_max: 16 << 20, batch_bytes_max: 16 << 20 };
    let sent = one_record(Compression::None, value.clone());
    let at = Recompression { codec: Compression::Zstd, level: Some(22) };
    let stored = recompress(&BatchView::parse(&sent).unwrap(), at, &RecordRules::default(), &records).unwrap();
    let decoded = decode_records(&BatchView::parse(&stored).unwrap(), 16 << 20).unwrap();
    assert_eq!(decoded.records().next().unwrap().unwrap().value, Some(&value[..]));
    let (descriptor, window) = (stored[61 + 4], stored[61 + 5]);
    assert_eq!(
        (descriptor & 0x20, window >> 3),
        (0, 23 - 10),
        "a window of 2^23 bytes, smaller than the content (RFC 8878)"
    );
}
