//! A tail against the simplest model of a log: the list of its batches.

use std::collections::BTreeMap;

use super::*;
use crate::testing::batch;
use proptest::prelude::*;
use shard::Arena;

const QUEUE_MAX: usize = 1025;

fn cache(limit: usize) -> TailCache {
    TailCache::new(Arena::new(64 << 20), limit)
}

fn empty_tail(cache: &TailCache) -> Tail {
    Tail::new(cache, SegmentPosition { segment: Offset(0), position: 0 }, &[], Offset(0)).expect("memory")
}

fn limits(max_bytes: usize, upto: i64) -> ReadLimits {
    ReadLimits { max_bytes, at_least_one_batch: true, upto: Offset(upto) }
}

/// Everything that happened, kept for ever.
struct Model {
    batches: Vec<ModelBatch>,
    /// The segment that takes appends.
    active: i64,
    /// What destage wrote.
    files: BTreeMap<i64, Vec<u8>>,
}

struct ModelBatch {
    base: i64,
    last: i64,
    segment: i64,
    bytes: Vec<u8>,
}

impl Model {
    fn new() -> Self {
        Self { batches: Vec::new(), active: 0, files: BTreeMap::new() }
    }

    fn end(&self) -> i64 {
        self.batches.last().map_or(0, |batch| batch.last + 1)
    }

    /// What a segment must hold.
    fn segment(&self, segment: i64) -> Vec<u8> {
        self.batches.iter().filter(|batch| batch.segment == segment).flat_map(|batch| batch.bytes.clone()).collect()
    }

    fn append(&mut self, tail: &Tail, records: i32, size: usize) {
        let base = self.end();
        let bytes = batch(base, records, size, 0);
        let (head, rest) = bytes.split_at(61);
        let last = base + i64::from(records) - 1;
        let appended = tail.append(&[head, rest], Offset(base), Offset(last)).expect("memory");
        let content = self.segment(self.active);
        let place = SegmentPosition { segment: Offset(self.active), position: content.len() as u64 };
        assert_eq!(appended.place, place);
        assert_eq!(joined(&tail.slices(appended.addresses.clone())), bytes);
        match tail.block_prefix(appended.addresses.start) {
            None => assert_eq!(content.len() % BLOCK_BYTES, 0),
            Some((place, prefix)) => {
                let block = content.len() - content.len() % BLOCK_BYTES;
                assert_eq!((place.segment.0, place.position), (self.active, block as u64));
                assert_eq!(content[block..], *prefix);
            }
        }
        self.batches.push(ModelBatch { base, last, segment: self.active, bytes });
    }

    fn roll(&mut self, tail: &Tail) {
        if self.batches.last().is_some_and(|batch| batch.segment == self.active) {
            self.active = self.end();
            tail.roll(Offset(self.active));
        }
    }

    fn destage(&mut self, tail: &Tail, bytes_max: usize) {
        let Some(piece) = tail.destage_next(bytes_max, tail.end().0) else {
            assert_eq!(tail.undestaged_bytes(), 0);
            return;
        };
        assert_eq!(piece.place.position % BLOCK_BYTES as u64, 0);
        assert!(piece.blocks.iter().all(|slice| slice.len() % BLOCK_BYTES == 0));
        let file = self.files.entry(piece.place.segment.0).or_default();
        let mut bytes = joined(&piece.blocks);
        if let Some(partial) = &piece.partial {
            bytes.extend_from_slice(partial);
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        }
        assert!(bytes.len() <= bytes_max.max(BLOCK_BYTES));
        let at = piece.place.position as usize;
        file.truncate(file.len().max(at));
        file.resize(file.len().max(at + bytes.len()), 0);
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        tail.mark_destaged(piece.done);
    }

    fn truncate(&mut self, tail: &Tail, end: i64) {
        let cut = self.batches.iter().position(|batch| batch.last >= end).unwrap_or(self.batches.len());
        let new_end = self.batches.get(cut).map_or(self.end(), |batch| batch.base);
        match tail.truncate(Offset(end)).expect("memory") {
            None => assert!(end < tail.start_offset().0),
            Some(reached) => {
                assert_eq!(reached.0, new_end);
                // The batch that was cut leaves its segment behind.
                self.active = self.batches.get(cut).map_or(self.active, |batch| batch.segment);
                self.batches.truncate(cut);
            }
        }
    }

    fn check_read(&self, tail: &Tail, from: i64, limits: &ReadLimits) {
        let read = tail.read(Offset(from), limits);
        if from < tail.start_offset().0 {
            assert!(read.is_none(), "{from} is below the start");
            return;
        }
        let mut expected = Vec::new();
        for batch in self.batches.iter().filter(|batch| batch.last >= from) {
            let fits = expected.len() + batch.bytes.len() <= limits.max_bytes
                || (expected.is_empty() && limits.at_least_one_batch);
            if batch.last >= limits.upto.0 || !fits {
                break;
            }
            expected.extend_from_slice(&batch.bytes);
        }
        let read = read.expect("in memory");
        assert_eq!(read.bytes, expected.len());
        assert!(read.to_vec() == expected, "from {from} with {limits:?}");
    }

    /// What cannot be read from memory can be read from the files, up to the place where memory begins.
    fn check_on_disk(&self, tail: &Tail, start: i64) {
        let mut position = 0;
        let mut segment = 0;
        for batch in &self.batches {
            if batch.segment != segment {
                (segment, position) = (batch.segment, 0);
            }
            if batch.base >= start {
                assert_eq!(tail.start_place(), SegmentPosition { segment: Offset(segment), position: position as u64 });
                return;
            }
            let end = position + batch.bytes.len();
            assert!(self.files[&segment].get(position..end) == Some(&batch.bytes[..]), "batch {} is lost", batch.base);
            position = end;
        }
        assert_eq!(tail.start_place(), tail.end().1);
    }

    fn check(&self, tail: &Tail) {
        assert_eq!(tail.end_offset().0, self.end());
        let position = self.segment(self.active).len() as u64;
        let place = SegmentPosition { segment: Offset(self.active), position };
        assert_eq!(tail.end().1, place);
        let start = tail.start_offset().0;
        self.check_on_disk(tail, start);
        assert!(start == self.end() || self.batches.iter().any(|batch| batch.base == start));
    }
}

fn joined(slices: &[Slice]) -> Vec<u8> {
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Append { records: i32, size: usize },
    Roll,
    Destage { bytes_max: usize },
    DestageAll,
    Truncate { back: i64 },
    Read { back: i64, max_bytes: usize, at_least_one: bool, hidden: i64 },
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![6 => 61..400usize, 3 => 400..9000usize, 1 => 9000..400_000usize];
    prop_oneof![
        10 => (1..6i32, size).prop_map(|(records, size)| Step::Append { records, size }),
        1 => Just(Step::Roll),
        3 => (1..600_000usize).prop_map(|bytes_max| Step::Destage { bytes_max }),
        1 => Just(Step::DestageAll),
        1 => (0..40i64).prop_map(|back| Step::Truncate { back }),
        6 => (0..200i64, 0..500_000usize, any::<bool>(), 0..9i64)
            .prop_map(|(back, max_bytes, at_least_one, hidden)| Step::Read { back, max_bytes, at_least_one, hidden }),
        1 => Just(Step::Shrink),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn agrees_with_the_model(steps in proptest::collection::vec(step(), 1..120), cache_limit in 0..1_000_000usize) {
        let cache = cache(cache_limit);
        let tail = empty_tail(&cache);
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Append { records, size } => model.append(&tail, records, size),
                Step::Roll => model.roll(&tail),
                Step::Destage { bytes_max } => model.destage(&tail, bytes_max),
                Step::DestageAll => while tail.undestaged_bytes() > 0 { model.destage(&tail, 256 << 10) },
                Step::Truncate { back } => model.truncate(&tail, (model.end() - back).max(0)),
                Step::Read { back, max_bytes, at_least_one, hidden } => {
                    let upto = Offset((model.end() - hidden).max(0));
                    let limits = ReadLimits { max_bytes, at_least_one_batch: at_least_one, upto };
                    model.check_read(&tail, (model.end() - back).max(0), &limits);
                }
                Step::Shrink => tail.shrink(),
            }
            model.check(&tail);
            prop_assert_eq!(cache.bytes(), tail.memory_bytes());
        }
        while tail.undestaged_bytes() > 0 {
            model.destage(&tail, 100_000);
        }
        // What is in the files is the log, and zeros after it.
        for batch in &model.batches {
            let content = model.segment(batch.segment);
            let file = &model.files[&batch.segment];
            prop_assert!(file.len() >= content.len() && file[..content.len()] == content[..], "segment {}", batch.segment);
        }
        tail.shrink();
        prop_assert!(tail.memory_bytes() <= BLOCK_BYTES, "an idle log holds a block");
        drop(tail);
        prop_assert_eq!(cache.bytes(), 0);
    }
}

#[test]
fn readers_keep_what_was_truncated() {
    let cache = cache(1 << 20);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    for _ in 0..50 {
        model.append(&tail, 1, 300);
    }
    let before = tail.read(Offset(0), &limits(1 << 20, 50)).expect("in memory");
    let expected = before.to_vec();
    model.truncate(&tail, 20);
    for _ in 0..50 {
        model.append(&tail, 2, 333);
    }
    assert!(before.to_vec() == expected, "bytes handed out never change");
    model.check_read(&tail, 0, &limits(1 << 20, 1000));
}

#[test]
fn a_batch_in_two_chunks_stays_until_all_of_it_is_on_disk() {
    let cache = cache(0);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    model.append(&tail, 1, 5000);
    model.append(&tail, 1, 400_000);
    model.destage(&tail, 256 << 10);
    tail.shrink();
    model.check(&tail);
    assert_eq!(tail.start_offset(), Offset(0), "the second batch begins in the first chunk and is half on disk");
    model.check_read(&tail, 1, &limits(1 << 20, 2));
    while tail.undestaged_bytes() > 0 {
        model.destage(&tail, 256 << 10);
    }
    tail.shrink();
    assert_eq!(tail.start_offset(), Offset(2));
    model.check(&tail);
}

#[test]
fn memory_stays_bounded_while_batches_are_half_on_disk() {
    let limit = 3 * CHUNK_BYTES_MAX;
    let cache = cache(limit);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    let sizes = [600_000, 100_000];
    // What is left of a batch, the batch that makes room, and the chunk that it begins.
    let most = limit + 2 * sizes[0] + CHUNK_BYTES_MAX;
    for size in sizes {
        for _ in 0..30 {
            model.append(&tail, 1, size);
            // Destage stops in the middle of a batch, and the next append has to make room then.
            while tail.undestaged_bytes() > CHUNK_BYTES_MAX as u64 {
                model.destage(&tail, 100 << 10);
            }
            assert!(cache.bytes() <= most, "{} bytes in memory, {most} allowed", cache.bytes());
        }
    }
    model.check(&tail);
}

#[test]
fn a_log_that_grows_and_shrinks_for_ever_leaves_nothing_behind() {
    let cache = cache(64 << 20);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    for _ in 0..3000 {
        model.append(&tail, 1, 5000);
        while tail.undestaged_bytes() > 0 {
            model.destage(&tail, 256 << 10);
        }
        tail.shrink();
        model = Model { batches: Vec::new(), active: 0, files: model.files };
        let place = SegmentPosition { segment: Offset(0), position: 0 };
        tail.reset(place, &[], Offset(0)).expect("memory");
    }
    assert!(cache.queued() <= QUEUE_MAX, "{} entries", cache.queued());
}

#[test]
fn a_write_that_a_truncation_overtook_destages_nothing() {
    let cache = cache(1 << 20);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    model.append(&tail, 1, 9000);
    model.append(&tail, 1, 9000);
    let late = tail.destage_next(1 << 20, tail.end().0).expect("18,000 bytes");
    model.truncate(&tail, 1);
    model.append(&tail, 1, 9000);
    tail.mark_destaged(late.done);
    assert_eq!(tail.undestaged_bytes(), 18_000);
}

#[test]
fn the_oldest_destaged_chunk_goes_first_whichever_log_it_is_of() {
    let cache = cache(3 * CHUNK_BYTES_MAX);
    let (a, b) = (empty_tail(&cache), empty_tail(&cache));
    let (mut model_a, mut model_b) = (Model::new(), Model::new());
    for (tail, model) in [(&a, &mut model_a), (&b, &mut model_b)] {
        for _ in 0..100 {
            model.append(tail, 1, 4000);
        }
        while tail.undestaged_bytes() > 0 {
            model.destage(tail, 256 << 10);
        }
    }
    assert!(a.start_offset() > Offset(0) && b.start_offset() == Offset(0), "a was first");
    let kept = b.start_offset();
    for _ in 0..100 {
        model_a.append(&a, 1, 4000);
    }
    assert!(b.start_offset() > kept, "then b's, although a writes");
    assert_eq!(a.undestaged_bytes(), 400_000, "what is not destaged stays");
    model_a.check_read(&a, 100, &limits(1 << 20, 1000));
}

#[test]
fn a_full_arena_refuses_and_changes_nothing() {
    let cache = TailCache::new(Arena::new(64 << 10), 1 << 20);
    let (tail, mut model) = (empty_tail(&cache), Model::new());
    model.append(&tail, 1, 5000);
    let held = cache.bytes();
    let large = batch(1, 1, 100_000, 0);
    assert_eq!(tail.append(&[&large], Offset(1), Offset(1)), Err(NoMemory));
    assert_eq!((cache.bytes(), tail.end_offset()), (held, Offset(1)));
    model.append(&tail, 1, 5000);
    model.check_read(&tail, 0, &limits(1 << 20, 1000));
}

#[test]
fn goes_on_in_the_middle_of_a_block() {
    let cache = cache(1 << 20);
    let whole = batch(0, 7, 5000, 0);
    let place = SegmentPosition { segment: Offset(0), position: 5000 };
    let tail = Tail::new(&cache, place, &whole[4096..], Offset(7)).expect("memory");
    assert_eq!((tail.start_offset(), tail.undestaged_bytes()), (Offset(7), 0));
    assert!(tail.read(Offset(6), &limits(1 << 20, 100)).is_none());
    assert!(tail.read(Offset(7), &limits(1 << 20, 100)).expect("the end").is_empty());
    let mut model = Model::new();
    model.batches.push(ModelBatch { base: 0, last: 6, segment: 0, bytes: whole });
    model.append(&tail, 1, 100);
    model.destage(&tail, 1 << 20);
    assert_eq!(model.files[&0].len(), 8192, "the block was written whole");
    assert_eq!(model.files[&0][4096..5100], model.segment(0)[4096..]);
    model.check_read(&tail, 7, &limits(1 << 20, 100));
}

#[test]
fn many_logs_share_the_memory_however_little_each_takes() {
    const TAILS: usize = 100;
    const EACH_BYTES: usize = 13 << 10;
    // Twice what is appended: too little where each chunk is twice the one before.
    let cache = TailCache::new(Arena::new(2 * TAILS * EACH_BYTES), 2 * TAILS * EACH_BYTES);
    let mut tails: Vec<_> = (0..TAILS).map(|_| (empty_tail(&cache), Model::new())).collect();
    for _ in 0..EACH_BYTES / 1024 {
        tails.iter_mut().for_each(|(tail, model)| model.append(tail, 1, 900));
    }
    assert!(tails.iter().all(|(tail, _)| tail.memory_bytes() < EACH_BYTES + 2 * CHUNK_BYTES_MIN));
    // Fewer tails have larger chunks again.
    let (few, many) = (tails.split_off(TAILS - 2), cache.chunk_bytes_max());
    drop(tails);
    assert!(many == CHUNK_BYTES_MIN && cache.chunk_bytes_max() == CHUNK_BYTES_MAX);
    drop(few);
    assert_eq!(cache.bytes(), 0);
}
