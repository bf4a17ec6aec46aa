//! What a produced batch costs on its shard before the disk: decoding the request, checking the batch, the copy into the tail.

use std::hint::black_box;

use base::{LeaderEpoch, MIB, Offset, PartitionIndex};
use benches::stores::batch_of;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use record::{BatchView, ProduceLimits, validate_for_produce};
use shard::Arena;
use storage::tail::{SegmentPosition, Tail, TailCache};
use wire::messages::ProduceRequest;
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::{Decoder, LENGTH_BYTES, Message, RequestHeader, encode_request};

const BATCH_BYTES: [usize; 3] = [1_000, 16_000, 100_000];

/// A Produce request of version 9 with a batch for each of `partitions`, without its length.
fn request(partitions: i32, batch: &[u8]) -> Vec<u8> {
    let data = |index| PartitionProduceData { index: PartitionIndex(index), records: batch.into() };
    let partitions: Vec<_> = (0..partitions).map(data).collect();
    let topic =
        TopicProduceData { name: "bench", partition_data: partitions.as_slice().into(), ..TopicProduceData::default() };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: std::slice::from_ref(&topic).into(),
        ..ProduceRequest::default()
    };
    let frame = encode_request(9, 1, Some("bench"), &request, Vec::new()).expect("a request that can be encoded");
    frame.into_structure().split_off(LENGTH_BYTES)
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("produce request: decode and walk");
    let batch = batch_of(1_000).expect("a batch of a thousand bytes");
    for partitions in [1, 24] {
        let frame = request(partitions, &batch);
        group.bench_with_input(BenchmarkId::new("partitions", partitions), &frame, |bencher, frame| {
            bencher.iter(|| {
                let mut decoder = Decoder::new(black_box(frame));
                let header = RequestHeader::decode(&mut decoder).expect("it was encoded well");
                let request = ProduceRequest::decode_exact(decoder, header.api_version).expect("it was encoded well");
                let partitions = request
                    .topic_data
                    .iter()
                    .map(|topic| topic.partition_data.iter().map(|partition| partition.records.len()).sum::<usize>());
                partitions.sum::<usize>()
            });
        });
    }
    group.finish();
}

fn validate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch: header and CRC");
    let limits = ProduceLimits { message_bytes_max: MIB, zstd_allowed: true };
    for bytes in BATCH_BYTES {
        let batch = batch_of(bytes).expect("a batch of that size");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::from_parameter(bytes), &batch, |bencher, batch| {
            bencher.iter(|| validate_for_produce(black_box(batch), &limits).expect("it was built well"));
        });
    }
    group.finish();
}

fn tail_append(criterion: &mut Criterion) {
    /// A tail is begun anew when it holds so much, so that its memory is that of a busy partition.
    const TAIL_BYTES_MAX: usize = 4 * MIB;
    let mut group = criterion.benchmark_group("tail: append");
    for bytes in BATCH_BYTES {
        let batch = batch_of(bytes).expect("a batch of that size");
        let view = BatchView::parse(&batch).expect("it was built well");
        let cache = TailCache::new(Arena::new(64 * MIB), 32 * MIB);
        let begin = || {
            let place = SegmentPosition { segment: Offset(0), position: 0 };
            Tail::new(&cache, place, &[], Offset(0)).expect("the arena is all but empty")
        };
        let (mut tail, mut end) = (begin(), 0);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                if tail.undestaged_bytes() as usize >= TAIL_BYTES_MAX {
                    (tail, end) = (begin(), 0);
                }
                let header = view.placed(Offset(end), LeaderEpoch(0), None).encode();
                let appended = tail.append(&[&header, view.body()], Offset(end), Offset(end));
                end += 1;
                appended.expect("the arena holds many tails")
            });
        });
    }
    group.finish();
}

criterion_group!(record_path, decode, validate, tail_append);
criterion_main!(record_path);
