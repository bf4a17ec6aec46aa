//! What a broker accepts from a producer, as a table of changes to a good batch.

use base::{ProducerEpoch, ProducerId, WallTime};
use record::{
    BatchBuilder, BatchMut, BatchOptions, BatchView, Batches, Compression, InvalidBatch, ProduceLimits, ProducerStamp,
    RefusalKind, Sequences, crc_of, validate_for_produce,
};

const LIMITS: ProduceLimits = ProduceLimits { message_bytes_max: 1000, zstd_allowed: true };
const STAMP: ProducerStamp =
    ProducerStamp { producer_id: ProducerId(4), producer_epoch: ProducerEpoch(1), base_sequence: i32::MAX };

fn good(options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    builder.add(WallTime(1000), Some(b"key"), Some(b"value"), &[]).unwrap();
    builder.add(WallTime(900), None, None, &[]).unwrap();
    builder.add(WallTime(1100), None, Some(b""), &[]).unwrap();
    builder.finish().unwrap()
}

fn with_fresh_crc(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc_of(&batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn good_batches_and_their_summary() {
    for compression in Compression::ALL {
        for producer in [None, Some(STAMP)] {
            let batch = good(BatchOptions { compression, producer, ..BatchOptions::default() });
            let summary = validate_for_produce(&batch, &LIMITS).unwrap();
            assert_eq!((summary.compression, summary.record_count, summary.size_bytes), (compression, 3, batch.len()));
            assert_eq!((summary.header.base_timestamp.0, summary.header.max_timestamp.0), (1000, 1100));
            assert_eq!(
                summary.sequences,
                producer.map(|_| Sequences {
                    producer_id: ProducerId(4),
                    producer_epoch: ProducerEpoch(1),
                    first: i32::MAX,
                    last: 1,
                })
            );
        }
    }
}

#[test]
fn one_thing_wrong() {
    let check = |change: &dyn Fn(&mut Vec<u8>), expected: &dyn Fn(&InvalidBatch) -> bool, kind: RefusalKind| {
        let mut batch = good(BatchOptions { producer: Some(STAMP), ..BatchOptions::default() });
        change(&mut batch);
        let error = validate_for_produce(&with_fresh_crc_if(batch), &LIMITS).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!error.to_string().is_empty());
    };
    use InvalidBatch as E;
    use RefusalKind as K;
    check(&|b| b.clear(), &|e| *e == E::Empty, K::InvalidRecord);
    check(&|b| b.truncate(11), &|e| *e == E::Truncated { have_bytes: 11, need_bytes: 61 }, K::InvalidRecord);
    check(&|b| b.truncate(b.len() - 1), &|e| matches!(e, E::Truncated { .. }), K::InvalidRecord);
    check(&|b| b.push(0), &|e| *e == E::ExtraBytes { extra_bytes: 1 }, K::InvalidRecord);
    check(&|b| b.extend(b.clone()), &|e| matches!(e, E::ExtraBytes { .. }), K::InvalidRecord);
    check(&|b| b.extend([0; 61]), &|e| *e == E::BadLength { batch_length: 0 }, K::CorruptMessage);
    check(&|b| b[8] = 0x80, &|e| matches!(e, E::BadLength { .. }), K::CorruptMessage);
    check(&|b| b[16] = 1, &|e| *e == E::OldFormat { magic: 1 }, K::InvalidRecord);
    check(&|b| b[16] = 3, &|e| *e == E::BadMagic { magic: 3 }, K::CorruptMessage);
    check(&|b| b[7] = 1, &|e| *e == E::BaseOffset { base_offset: 1 }, K::InvalidRecord);
    check(&|b| b[22] = 5, &|e| *e == E::UnknownCompression { code: 5 }, K::UnsupportedCompressionType);
    check(&|b| b[22] = 0x20, &|e| *e == E::Control, K::InvalidRecord);
    check(&|b| b[22] = 0x08, &|e| *e == E::AppendTimeFromClient, K::InvalidTimestamp);
    check(&|b| b[26] = 1, &|e| matches!(e, E::RecordCount { record_count: 3, last_offset_delta: 1 }), K::InvalidRecord);
    check(&|b| b[57..61].fill(0), &|e| matches!(e, E::RecordCount { record_count: 0, .. }), K::InvalidRecord);
    check(&|b| b[57..61].copy_from_slice(&[0x80, 0, 0, 0]), &|e| matches!(e, E::RecordCount { .. }), K::InvalidRecord);
    check(&|b| b[53] = 0xff, &|e| matches!(e, E::NoSequence { base_sequence: ..0, .. }), K::InvalidRecord);
    check(&|b| b[51] = 0xff, &|e| matches!(e, E::NoProducerEpoch { .. }), K::InvalidRecord);
    check(
        &|b| {
            b[43] = 0xff;
            b[22] = 0x10;
        },
        &|e| *e == E::TransactionWithoutProducer,
        K::InvalidRecord,
    );
}

/// The checksum is made right again where there is room for one, so that only the change under test is wrong.
fn with_fresh_crc_if(batch: Vec<u8>) -> Vec<u8> {
    if batch.len() < 21 { batch } else { with_fresh_crc(batch) }
}

#[test]
fn checksum_and_limits() {
    let batch = good(BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    for bit in 21 * 8..batch.len() * 8 {
        let mut damaged = batch.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = validate_for_produce(&damaged, &LIMITS).unwrap_err();
        assert_eq!(error.kind(), RefusalKind::CorruptMessage, "bit {bit}");
    }
    let limits = ProduceLimits { message_bytes_max: batch.len(), zstd_allowed: true };
    assert!(validate_for_produce(&batch, &limits).is_ok());
    let limits = ProduceLimits { message_bytes_max: batch.len() - 1, zstd_allowed: true };
    assert_eq!(validate_for_produce(&batch, &limits).unwrap_err().kind(), RefusalKind::MessageTooLarge);
    let limits = ProduceLimits { zstd_allowed: false, ..LIMITS };
    assert_eq!(validate_for_produce(&batch, &limits), Err(InvalidBatch::ZstdNotAllowed));
}

#[test]
fn placing_a_batch_in_a_log() {
    let original = good(BatchOptions::default());
    let mut batch = original.clone();
    batch.extend_from_slice(b"what follows stays");
    let mut patch = BatchMut::parse(&mut batch).unwrap();
    patch.set_base_offset(base::Offset(77));
    patch.set_leader_epoch(base::LeaderEpoch(5));
    let header = *patch.header();
    let view = BatchView::parse(&batch).unwrap();
    assert!(view.has_valid_crc(), "both fields lie outside the checksum");
    assert_eq!((view.header(), view.last_offset().0, header.leader_epoch.0), (&header, 79, 5));
    let placed = BatchView::parse(&original).unwrap().placed(base::Offset(77), base::LeaderEpoch(5), None);
    assert_eq!(placed, header);

    BatchMut::parse(&mut batch).unwrap().set_append_time(WallTime(5000));
    let view = BatchView::parse(&batch).unwrap();
    assert!(view.has_valid_crc());
    assert_eq!((view.header().max_timestamp.0, view.header().base_timestamp.0), (5000, 1000));
    let placed =
        BatchView::parse(&original).unwrap().placed(base::Offset(77), base::LeaderEpoch(5), Some(WallTime(5000)));
    assert_eq!(&placed, view.header());
    assert!(batch.ends_with(b"what follows stays"));
}

#[test]
fn a_run_of_batches() {
    let one = good(BatchOptions::default());
    let run = [one.clone(), one.clone(), one.clone()].concat();
    let mut walk = Batches::new(&run);
    assert_eq!(walk.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!((walk.position(), walk.rest().len()), (run.len(), 0));
    for cut in 0..one.len() {
        let mut walk = Batches::new(&run[..2 * one.len() + cut]);
        let items: Vec<_> = walk.by_ref().collect();
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), 2);
        assert_eq!(items.len(), if cut == 0 { 2 } else { 3 }, "a partial batch is one error, then the end");
        assert_eq!(walk.position(), 2 * one.len());
    }
}
