//! What the builder writes reads back the same, here and by another implementation, for every codec and any records.

use base::{ProducerEpoch, ProducerId, WallTime};
use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records as oracle;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use record::{
    BatchBuilder, BatchOptions, BatchView, Compression, Header, ProduceLimits, ProducerStamp, RecordRules,
    check_records, validate_for_produce,
};

mod owned;

use owned::{BYTES_LIMIT, Owned, codec, owned, read};

fn build(records: &[Owned], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let headers: Vec<Header<'_>> =
            record.headers.iter().map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() }).collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let estimate = builder.size_bytes_estimate_with(key, value, &headers);
        builder.add(WallTime(record.timestamp), key, value, &headers).unwrap();
        assert!((estimate - 20..=estimate).contains(&builder.size_bytes_estimate()), "an upper bound, and a close one");
    }
    let estimate = builder.size_bytes_estimate();
    let batch = builder.finish().unwrap();
    if options.compression == Compression::None {
        assert_eq!(batch.len(), estimate);
    }
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(records in vec(owned(), 1..20), compression in codec(), level in option::of(-9..30)) {
        let producer =
            ProducerStamp { producer_id: ProducerId(7), producer_epoch: ProducerEpoch(0), base_sequence: 12 };
        let options = BatchOptions {
            compression,
            // The slow levels are left out: they only take time.
            compression_level: level.map(|level: i32| level.min(9)),
            producer: Some(producer),
            transactional: true,
            ..BatchOptions::default()
        };
        let batch = build(&records, options);
        let limits = ProduceLimits { message_bytes_max: BYTES_LIMIT, zstd_allowed: true };
        let summary = validate_for_produce(&batch, &limits).unwrap();
        prop_assert_eq!(summary.record_count as usize, records.len());
        prop_assert_eq!(summary.header.max_timestamp.0, records.iter().map(|r| r.timestamp).max().unwrap());
        prop_assert!(summary.header.is_transactional());
        prop_assert_eq!(check_records(&BatchView::parse(&batch).unwrap(), &RecordRules::default(), BYTES_LIMIT), Ok(()));
        prop_assert_eq!(read(&batch), records);
    }

    #[test]
    fn another_implementation_reads_it(records in vec(tame(), 1..12), compression in codec()) {
        let batch = build(&records, BatchOptions { compression, ..BatchOptions::default() });
        let set = oracle::RecordBatchDecoder::decode(&mut Bytes::from(batch)).unwrap();
        prop_assert_eq!(set.records.len(), records.len());
        for (index, (theirs, ours)) in set.records.iter().zip(&records).enumerate() {
            prop_assert_eq!(theirs.offset, index as i64);
            prop_assert_eq!(theirs.timestamp, ours.timestamp);
            prop_assert_eq!(theirs.key.as_deref(), ours.key.as_deref());
            prop_assert_eq!(theirs.value.as_deref(), ours.value.as_deref());
            // The oracle keeps the last of several headers with one key.
            for (key, value) in &theirs.headers {
                let last = ours.headers.iter().rfind(|(name, _)| name.as_str() == key.as_str()).unwrap();
                prop_assert_eq!(value.as_deref(), last.1.as_deref());
            }
        }
    }

    #[test]
    fn it_reads_another_implementation(records in vec(tame(), 1..12), compression in codec()) {
        let codec = match compression {
            Compression::None => oracle::Compression::None,
            Compression::Gzip => oracle::Compression::Gzip,
            Compression::Snappy => oracle::Compression::Snappy,
            Compression::Lz4 => oracle::Compression::Lz4,
            Compression::Zstd => oracle::Compression::Zstd,
        };
        let theirs: Vec<_> = records.iter().enumerate().map(|(index, record)| oracle_record(index, record)).collect();
        let mut batch = BytesMut::new();
        let options = oracle::RecordEncodeOptions { version: 2, compression: codec };
        oracle::RecordBatchEncoder::encode(&mut batch, &theirs, &options).unwrap();
        prop_assert!(BatchView::parse(&batch).unwrap().has_valid_crc());
        let read = read(&batch);
        prop_assert_eq!(read.len(), records.len());
        for (ours, original) in read.iter().zip(&records) {
            prop_assert_eq!((ours.timestamp, &ours.key, &ours.value), (original.timestamp, &original.key, &original.value));
        }
    }
}

/// The oracle overflows on timestamps that lie far apart.
fn tame() -> impl Strategy<Value = Owned> {
    owned().prop_map(|record| Owned { timestamp: record.timestamp % (1 << 41), ..record })
}

fn oracle_record(index: usize, record: &Owned) -> oracle::Record {
    let headers: IndexMap<_, _> = record
        .headers
        .iter()
        .map(|(key, value)| (StrBytes::from_string(key.clone()), value.clone().map(Bytes::from)))
        .collect();
    oracle::Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: oracle::TimestampType::Creation,
        offset: index as i64,
        sequence: index as i32 - 1,
        timestamp: record.timestamp,
        key: record.key.clone().map(Bytes::from),
        value: record.value.clone().map(Bytes::from),
        headers,
    }
}
