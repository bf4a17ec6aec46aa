//! Reads of a log whose older part is in files, against the list of its batches: whatever is asked, damaged or going on meanwhile.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use base::{LeaderEpoch, Offset, Random, WallTime};
use record::{BatchBuilder, BatchHeader, BatchOptions};
use shard::{Arena, Shard};

use super::*;
use crate::budget::Budget;
use crate::config::LogId;
use crate::epochs::{EpochStart, EpochTable};
use crate::segment::{
    ActiveSegment, FileKey, FileKind, FileTable, SegmentMeta, SegmentName, rebuild_index, write_index_files,
};
use crate::tail::{SegmentPosition, Tail, TailCache};
use crate::testing::batch;
use crate::testing::disk::Disk;

const DIR: &str = "/data/logs/t/0-x";
const INTERVAL: u64 = 4096;

/// A log as its owner would keep it, destaged and dropped from memory as the test says.
pub(super) struct TestLog {
    disk: Disk,
    state: RefCell<State>,
    cursors: RefCell<Cursors>,
    tail: Tail,
    epochs: EpochTable,
    dir: Rc<Path>,
    pub damaged: RefCell<Vec<Offset>>,
}

struct State {
    generation: u32,
    start: Offset,
    sealed: Vec<SegmentMeta>,
    open: Vec<ActiveSegment>,
    batches: Vec<(Offset, Offset, Vec<u8>)>,
}

impl LogSource for TestLog {
    fn view<R>(&self, f: impl FnOnce(&LogView<'_>) -> R) -> R {
        let state = self.state.borrow();
        f(&LogView {
            id: LogId::default(),
            dir: &self.dir,
            generation: state.generation,
            offline: false,
            start: state.start,
            sealed: &state.sealed,
            open: &state.open,
            tail: &self.tail,
            epochs: &self.epochs,
            cursors: &self.cursors,
        })
    }
}

impl TestLog {
    pub(super) fn new(disk: &Disk, cache: &TailCache) -> Self {
        let place = SegmentPosition { segment: Offset(0), position: 0 };
        let active = ActiveSegment::new(Offset(0), WallTime(0), INTERVAL);
        disk.put(Path::new(DIR).join("00000000000000000000.log"), Vec::new());
        Self {
            disk: disk.clone(),
            state: RefCell::new(State {
                generation: 0,
                start: Offset(0),
                sealed: Vec::new(),
                open: vec![active],
                batches: Vec::new(),
            }),
            cursors: RefCell::default(),
            tail: Tail::new(cache, place, &[], Offset(0)).expect("memory"),
            // The epoch of all test batches.
            epochs: EpochTable::from_entries(vec![EpochStart { epoch: LeaderEpoch(1), start: Offset(0) }])
                .expect("a history"),
            dir: Path::new(DIR).into(),
            damaged: RefCell::default(),
        }
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        let header = BatchHeader::parse(bytes).expect("a batch");
        self.tail.append(&[bytes], header.base_offset, header.last_offset()).expect("memory");
        let mut state = self.state.borrow_mut();
        state.open.last_mut().expect("one").note(&header, WallTime(0));
        state.batches.push((header.base_offset, header.last_offset(), bytes.to_vec()));
    }

    fn end(&self) -> Offset {
        self.tail.end_offset()
    }

    pub(super) fn roll(&self) {
        let mut state = self.state.borrow_mut();
        let end = self.end();
        if state.open.last().is_some_and(|active| active.meta.is_empty()) {
            return;
        }
        state.open.last_mut().expect("one").seal();
        state.open.push(ActiveSegment::new(end, WallTime(0), INTERVAL));
        self.disk.put(self.path(end, FileKind::Log), Vec::new());
        self.tail.roll(end);
    }

    pub(super) fn path(&self, segment: Offset, kind: FileKind) -> PathBuf {
        FileKey { log: LogId::default(), segment: SegmentName::first(segment), kind }.path(&self.dir)
    }

    /// Writes all there is to the files, as destage does.
    pub(super) fn destage(&self) {
        while let Some(piece) = self.tail.destage_next(64 << 10, self.tail.end().0) {
            self.disk.change(self.path(piece.place.segment, FileKind::Log), |file| {
                file.truncate(piece.place.position as usize);
                piece.blocks.iter().chain(&piece.partial).for_each(|slice| file.extend_from_slice(slice));
                // Preallocated, as the file of an active segment is.
                file.resize(file.len().next_multiple_of(65_536), 0);
            });
            self.tail.mark_destaged(piece.done);
        }
    }

    /// Writes the indexes; sealed segments get their exact length and leave the open ones.
    pub(super) fn checkpoint(&self) {
        self.destage();
        let mut state = self.state.borrow_mut();
        for active in &mut state.open {
            for write in active.index.pending() {
                let path = self.path(active.meta.base_offset, write.kind);
                let mut file = self.disk.get(&path).unwrap_or_default();
                file.resize(file.len().max(write.position as usize), 0);
                file.truncate(write.position as usize);
                file.extend_from_slice(&write.bytes);
                self.disk.put(&path, file);
                active.index.written(write.kind, write.entries);
            }
            active.meta.index_entries = active.index.entries(FileKind::Index);
            active.meta.time_index_entries = active.index.entries(FileKind::TimeIndex);
            if active.meta.sealed {
                let meta = active.meta;
                self.disk.change(self.path(meta.base_offset, FileKind::Log), |file| file.truncate(meta.bytes as usize));
                for (kind, bytes) in
                    [(FileKind::Index, meta.index_entries * 8), (FileKind::TimeIndex, meta.time_index_entries * 12)]
                {
                    let path = self.path(meta.base_offset, kind);
                    let mut file = self.disk.get(&path).unwrap_or_default();
                    file.truncate(bytes as usize);
                    self.disk.put(path, file);
                }
            }
        }
        let sealed: Vec<_> = state.open.iter().filter(|open| open.meta.sealed).map(|open| open.meta).collect();
        state.sealed.extend(sealed);
        state.open.retain(|open| !open.meta.sealed);
    }

    pub(super) fn forget_memory(&self) {
        self.tail.shrink();
    }

    pub(super) async fn read(&self, cache: &BlockCache, from: i64, limits: &ReadLimits) -> Result<Read, ReadError> {
        read_log(self, cache, Offset(from), limits, |segment| self.damaged.borrow_mut().push(segment)).await
    }

    /// What a read must be a prefix of, and its least length.
    fn expected(&self, from: i64, limits: &ReadLimits) -> Vec<Vec<u8>> {
        let state = self.state.borrow();
        let mut bytes = 0;
        let within =
            state.batches.iter().filter(|(_, last, _)| *last >= Offset(from)).take_while(|(_, last, batch)| {
                let fits = bytes + batch.len() <= limits.max_bytes || (bytes == 0 && limits.at_least_one_batch);
                bytes += batch.len();
                fits && *last < limits.upto
            });
        within.map(|(_, _, batch)| batch.clone()).collect()
    }

    async fn check(&self, cache: &BlockCache, from: i64, limits: &ReadLimits) {
        let read = self.read(cache, from, limits).await.expect("a sound log").to_vec();
        let mut expected = self.expected(from, limits);
        let all: usize = expected.iter().map(Vec::len).sum();
        // From disk less may come, but whole batches, and one at least.
        while expected.len() > 1 && expected.iter().map(Vec::len).sum::<usize>() > read.len() {
            expected.pop();
        }
        assert!(read == expected.concat(), "from {from} {limits:?}: {} of {all} bytes", read.len());
    }
}

pub(super) struct Setup {
    pub disk: Disk,
    pub shard: Shard,
    pub cache: BlockCache,
    pub tails: TailCache,
}

pub(super) fn setup(cache_bytes: usize) -> Setup {
    let disk = Disk::default();
    let shard = disk.shard(32 << 20);
    let files = FileTable::new(shard.clone(), 4);
    let cache = BlockCache::new(shard.clone(), files, Budget::new(512 << 10), (cache_bytes, usize::MAX));
    let tails = TailCache::new(Arena::new(64 << 20), 256 << 10);
    Setup { disk, shard, cache, tails }
}

pub(super) fn limits(max_bytes: usize, upto: i64) -> ReadLimits {
    ReadLimits { max_bytes, at_least_one_batch: true, upto: Offset(upto) }
}

/// A log of `count` batches in several segments, of sizes that a seed gives.
fn fill(log: &TestLog, random: &mut Random, count: u64) {
    for _ in 0..count {
        let size = 61 + if random.chance(1, 20) { random.below(300_000) } else { random.below(3000) } as usize;
        let records = 1 + random.below(5) as i32;
        let hole = if random.chance(1, 10) { random.below(3) as i64 } else { 0 };
        log.append(&batch(log.end().0 + hole, records, size, random.below(10_000) as i64));
        if random.chance(1, 60) {
            log.roll();
        }
        match random.below(40) {
            0 => log.destage(),
            1 => log.checkpoint(),
            2 => log.forget_memory(),
            _ => {}
        }
    }
}

#[test]
fn reads_agree_with_the_batches() {
    for seed in 0..8 {
        let setup = setup([0, 300 << 10, 8 << 20][seed % 3]);
        let log = Rc::new(TestLog::new(&setup.disk, &setup.tails));
        let mut random = Random::new(seed as u64);
        let cache = setup.cache.clone();
        setup.shard.run(async move {
            for _ in 0..4 {
                fill(&log, &mut random, 150);
                if random.chance(1, 2) {
                    log.checkpoint();
                    log.forget_memory();
                }
                let end = log.end().0;
                for _ in 0..40 {
                    let from = random.below(end as u64 + 1) as i64;
                    let limits = ReadLimits {
                        max_bytes: random.below(400_000) as usize,
                        at_least_one_batch: random.chance(3, 4),
                        upto: Offset(end - random.below(30) as i64),
                    };
                    log.check(&cache, from, &limits).await;
                }
                assert!(log.damaged.borrow().is_empty());
            }
            // One reader through it all.
            let (mut from, mut all) = (0, Vec::new());
            while from < log.end().0 {
                let read = log.read(&cache, from, &limits(100_000, i64::MAX)).await.expect("sound").to_vec();
                let last = record::Batches::new(&read).last().expect("at least one").expect("whole");
                from = last.header().next_offset().0;
                all.extend_from_slice(&read);
            }
            assert!(
                all == log
                    .state
                    .borrow()
                    .batches
                    .iter()
                    .map(|(_, _, bytes)| bytes.clone())
                    .collect::<Vec<_>>()
                    .concat()
            );
        });
        assert!(setup.cache.files().len() <= 4 && setup.disk.open_files() <= 4, "the table is bounded");
    }
}

fn on_disk(setup: &Setup, batches: i64, size: usize) -> Rc<TestLog> {
    let log = TestLog::new(&setup.disk, &setup.tails);
    for index in 0..batches {
        log.append(&batch(index, 1, size, index));
    }
    log.roll();
    log.append(&batch(batches, 1, 100, batches));
    log.checkpoint();
    log.forget_memory();
    Rc::new(log)
}

#[test]
fn a_block_is_read_once_however_many_ask_and_ahead_of_who_goes_on() {
    let setup = setup(8 << 20);
    let log = on_disk(&setup, 1000, 1000);
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let (log, cache) = (log.clone(), setup.cache.clone());
            let task = async move { log.read(&cache, 5, &limits(1000, 1000)).await.map(|read| read.bytes) };
            setup.shard.spawn(shard::Class::Latency, setup.shard.account("reader"), task)
        })
        .collect();
    let (cache, reads) = (setup.cache.clone(), log.clone());
    setup.shard.run(async move {
        for reader in readers {
            assert_eq!(reader.await, Ok(1000));
        }
        assert_eq!(cache.reads(), 2, "one block of the index, one of the segment");
        for step in 0..6 {
            log.check(&cache, step * 100, &limits(100_000, 1000)).await;
        }
        // 600,000 bytes are five blocks; the reader's window had the next ones read too.
        assert!(cache.reads() >= 8, "{} reads", cache.reads());
        let before = cache.reads();
        log.check(&cache, 650, &limits(20_000, 1000)).await;
        assert_eq!(cache.reads(), before, "it was read ahead");
    });
    assert!(reads.damaged.borrow().is_empty());
}

#[test]
fn the_cache_is_bounded_and_gives_way_to_others() {
    let setup = setup(400 << 10);
    let log = on_disk(&setup, 3000, 1000);
    let (cache, tails, of_tail) = (setup.cache.clone(), setup.tails.clone(), setup.tails.bytes());
    setup.shard.run(async move {
        for from in (0..3000).step_by(90) {
            log.check(&cache, from, &limits(50_000, 3000)).await;
            assert!(cache.bytes() <= 400 << 10);
        }
        while cache.evict_one() {}
        assert_eq!(cache.bytes(), 0);
        assert_eq!(tails.bytes(), of_tail, "tails are another account");
    });
}

#[test]
fn damage_is_named_and_an_index_that_lies_is_walked_around() {
    let setup = setup(0);
    let log = on_disk(&setup, 300, 1000);
    let (path, index) = (log.path(Offset(0), FileKind::Log), log.path(Offset(0), FileKind::Index));
    let sound = (setup.disk.get(&path).expect("a file"), setup.disk.get(&index).expect("a file"));
    let (disk, cache) = (setup.disk.clone(), setup.cache.clone());
    setup.shard.run(async move {
        // A flipped bit in a body, in a length, in an offset: named to the byte, and only for whom it matters.
        for (at, is) in [(200_500, "checksum"), (200_009, "batch of"), (200_007, "offsets"), (200_016, "format")] {
            disk.change(&path, |file| file[at] ^= 0x40);
            let error = log.read(&cache, 200, &limits(1000, 300)).await.expect_err("damaged");
            assert!(matches!(&error, ReadError::Corrupt { position: 200_000, file, .. } if *file == path), "{error}");
            assert!(error.to_string().contains(is), "{error}");
            log.check(&cache, 100, &limits(10_000, 300)).await;
            disk.change(&path, |file| *file = sound.0.clone());
        }
        // The file was replaced under the table's handle: forget it. Then: too short, missing, unreadable.
        let forget = || cache.files().forget(LogId::default(), SegmentName::first(Offset(0)));
        forget();
        disk.change(&path, |file| file.truncate(150_000));
        assert!(matches!(log.read(&cache, 200, &limits(1000, 300)).await, Err(ReadError::Corrupt { .. })));
        disk.put(&path, sound.0.clone());
        forget();
        disk.0.borrow_mut().fail_reads = true;
        let error = log.read(&cache, 200, &limits(1000, 300)).await;
        assert!(matches!(error, Err(ReadError::Io { os_code: Some(5), .. })), "{error:?}");
        disk.0.borrow_mut().fail_reads = false;

        assert!(log.damaged.borrow().is_empty(), "nothing is known of the index then");
        // An index of zeros, of noise, of wrong positions, too short, gone.
        let mut random = Random::new(5);
        for damage in 0..5 {
            disk.change(&index, |file| match damage {
                0 => file.fill(0),
                1 => file.iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
                2 => file.chunks_mut(8).for_each(|entry| entry[7] ^= 8),
                _ => file.truncate(16),
            });
            if damage == 4 {
                disk.0.borrow_mut().files.remove(&index);
            }
            forget();
            for from in (0..300).step_by(23) {
                log.check(&cache, from, &limits(5000, 300)).await;
            }
            assert!(damage == 0 || !log.damaged.borrow().is_empty(), "damage {damage} was seen");
            disk.put(&index, sound.1.clone());
            log.damaged.borrow_mut().clear();
        }
    });
}

#[test]
fn lost_indexes_are_built_anew_as_they_were() {
    let setup = setup(1 << 20);
    let log = on_disk(&setup, 2000, 900);
    let kinds = [FileKind::Index, FileKind::TimeIndex];
    let paths = kinds.map(|kind| log.path(Offset(0), kind));
    let before = paths.clone().map(|path| setup.disk.get(path).expect("a file"));
    setup.disk.put(&paths[0], vec![7; 100_000]);
    setup.disk.0.borrow_mut().files.remove(&paths[1]);
    let (cache, shard, disk) = (setup.cache.clone(), setup.shard.clone(), setup.disk.clone());
    setup.shard.run(async move {
        let segment = log.view(|view| view.on_disk(0));
        let mut rebuilt = rebuild_index(&cache, &segment, INTERVAL).await.expect("a sound segment");
        assert_eq!(rebuilt.index.entries(FileKind::Index), segment.meta.index_entries);
        write_index_files(&shard, &log.dir, &mut rebuilt).await.expect("written");
        assert_eq!(rebuilt.meta, segment.meta);
        for (path, before) in paths.iter().zip(before) {
            assert!(disk.get(path) == Some(before), "{}", path.display());
        }
        disk.change(log.path(Offset(0), FileKind::Log), |file| file[900_008] = 0xff);
        cache.files().forget(LogId::default(), SegmentName::first(Offset(0)));
        while cache.evict_one() {}
        let damaged = rebuild_index(&cache, &segment, INTERVAL).await;
        assert!(matches!(damaged, Err(ReadError::Corrupt { position: 900_000, .. })));
    });
}

#[test]
fn outside_the_log() {
    let setup = setup(0);
    let log = on_disk(&setup, 10, 1000);
    log.state.borrow_mut().start = Offset(4);
    let cache = setup.cache.clone();
    setup.shard.run(async move {
        let out = ReadError::OutOfRange { start: Offset(4), end: Offset(11) };
        for from in [-1, 3, 12] {
            assert_eq!(log.read(&cache, from, &limits(1000, 11)).await.map(|read| read.bytes), Err(out.clone()));
        }
        assert!(log.read(&cache, 11, &limits(1000, 11)).await.expect("the end").is_empty());
        assert!(log.read(&cache, 9, &limits(1000, 9)).await.expect("the watermark").is_empty());
    });
}

/// A batch of real records with the given timestamps.
fn timed(base: i64, timestamps: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(1),
        ..BatchOptions::default()
    });
    for &timestamp in timestamps {
        builder.add(WallTime(timestamp), Some(b"k"), Some(&[7; 300]), &[]).expect("a record");
    }
    builder.finish().expect("a batch")
}

#[test]
fn offsets_by_time() {
    for seed in 0..6u64 {
        let setup = setup(1 << 20);
        let log = Rc::new(TestLog::new(&setup.disk, &setup.tails));
        let mut random = Random::new(seed);
        let mut records: Vec<(i64, i64)> = Vec::new();
        for index in 0..200 {
            let times: Vec<i64> = (0..1 + random.below(4)).map(|_| index * 10 + random.below(300) as i64).collect();
            let base = log.end().0;
            log.append(&timed(base, &times));
            records.extend(times.iter().enumerate().map(|(at, &time)| (base + at as i64, time)));
            if random.chance(1, 40) {
                log.roll();
            }
        }
        if seed % 2 == 0 {
            log.checkpoint();
            log.forget_memory();
        }
        let start = random.below(100) as i64;
        log.state.borrow_mut().start = Offset(start);
        if seed == 4 {
            // Time indexes that lie in every segment.
            for segment in log.state.borrow().sealed.iter().map(|meta| meta.base_offset) {
                setup
                    .disk
                    .change(log.path(segment, FileKind::TimeIndex), |file| file.iter_mut().for_each(|byte| *byte ^= 1));
            }
        }
        let (cache, of_log) = (setup.cache.clone(), log.clone());
        setup.shard.run(async move {
            let end = log.end().0;
            let note = |segment| log.damaged.borrow_mut().push(segment);
            let visible = |upto: i64| records.iter().filter(move |(offset, _)| (start..upto).contains(offset));
            for at in (-5..2500).step_by(17) {
                let upto = end - random.below(20) as i64;
                let expected = visible(upto).find(|(_, time)| *time >= at).copied();
                let got = offset_for_time(&*log, &cache, WallTime(at), Offset(upto), note).await.expect("sound");
                // Offsets above the watermark are not looked at, nor is a batch that crosses it.
                let got = got.map(|found| (found.offset.0, found.timestamp.0));
                assert!(
                    got == expected || (got.is_none() && expected.is_some_and(|(offset, _)| offset + 4 >= upto)),
                    "{at}"
                );
            }
            for (offset, time) in visible(end).step_by(7) {
                let got = record_at(&*log, &cache, Offset(*offset), Offset(end), note).await.expect("sound");
                assert_eq!(got.map(|found| (found.offset.0, found.timestamp.0)), Some((*offset, *time)));
            }
            assert_eq!(record_at(&*log, &cache, Offset(end), Offset(end), note).await, Ok(None), "not written yet");
            let largest = records.iter().map(|(_, time)| *time).max();
            let expected = records.iter().find(|(_, time)| Some(*time) == largest).copied();
            let got = max_timestamp(&*log, &cache, Offset(end), note).await.expect("sound");
            assert_eq!(got.map(|found| (found.offset.0, found.timestamp.0)), expected);
        });
        assert!(seed == 4 || of_log.damaged.borrow().is_empty());
    }
}
