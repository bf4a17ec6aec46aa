//! What a log's owner does in the background, in the simulated world: retention, rolling, trash, indexes, idle memory; and readers
//! who go on through all of it.

mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use base::{Offset, Random, ShardId, WallTime};
use record::{BatchBuilder, BatchOptions, Batches};
use sim::io::Crash;
use storage::{AppendError, AppendOptions, Log, LogConfig, ReadError, ReadLimits, ShardStore, StoreConfig};
use world::{Machine, log_id, options, read_all, small};

/// Little memory for tails and blocks, so that most reads go to the disk.
fn tight(shard: ShardId) -> StoreConfig {
    StoreConfig {
        tail_cache_bytes: 64 << 10,
        read_cache_bytes: 256 << 10,
        open_files_max: 4,
        checkpoint_interval: Duration::from_secs(5),
        ..small(shard)
    }
}

fn keep_bytes(bytes: u64) -> LogConfig {
    LogConfig {
        segment_bytes: 40_000,
        retention_ms: None,
        retention_bytes: Some(bytes),
        index_interval_bytes: 4096,
        ..LogConfig::default()
    }
}

/// A batch of one record of about `bytes` bytes, with a timestamp.
fn batch(tag: u64, bytes: usize, timestamp: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let mut value = vec![tag as u8; bytes.max(8)];
    value[..8].copy_from_slice(&tag.to_be_bytes());
    builder.add(WallTime(timestamp), None, Some(&value), &[]).expect("a record");
    builder.finish().expect("a batch")
}

/// Appends and waits until it is durable and committed.
async fn append(log: &Log, bytes: &[u8], wall: WallTime) -> Offset {
    let at = append_durably(log, bytes, wall).await;
    log.set_high_watermark(Offset(at.0 + 1));
    at
}

async fn append_durably(log: &Log, bytes: &[u8], wall: WallTime) -> Offset {
    loop {
        let room = log.room();
        match log.append(bytes, AppendOptions { wall_now: wall, ..options(0) }) {
            Ok(appended) => {
                appended.durable.await.expect("the log stays");
                return appended.base_offset;
            }
            Err(AppendError::Backpressure) => room.await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Names in the log's directory and in the trash.
fn files(machine: &mut Machine, log: &Log) -> (Vec<String>, usize) {
    let mut state = machine.world.state();
    let disk = &state.machine(machine.id).disk;
    let names = |dir: &std::path::Path| disk.list(dir).unwrap_or_default().into_iter().map(|(name, _, _)| name);
    (names(&log.dir()).collect(), names(std::path::Path::new("/data/trash")).count())
}

fn minutes(machine: &mut Machine, count: u64) {
    let shard = machine.shards[0].clone();
    machine.run(0, async move { shard.sleep(Duration::from_secs(60 * count)).await });
}

fn start(seed: u64, config: fn(ShardId) -> StoreConfig, log: LogConfig) -> (Machine, ShardStore, Log) {
    let mut machine = Machine::new(seed, config);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = machine.create(0, &stores[0], 0, log).expect("no crash");
    (machine, stores[0].clone(), log)
}

#[test]
fn retention_by_size_frees_the_disk_and_nothing_comes_back() {
    let (mut machine, _, log) = start(1, tight, keep_bytes(100_000));
    let (of_log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        for tag in 0..100 {
            append(&of_log, &batch(tag, 5000, tag as i64), shard.wall()).await;
        }
    });
    minutes(&mut machine, 10);
    let (size, start) = (log.size_bytes(), log.start_offset());
    assert!((100_000..140_000).contains(&size), "{size} bytes are left");
    let (names, trashed) = files(&mut machine, &log);
    assert_eq!(names.iter().filter(|name| name.ends_with(".log")).count(), log.segments().len());
    assert_eq!(trashed, 0, "the trash is empty");
    let of_log = log.clone();
    machine.run(0, async move {
        let limits = ReadLimits { max_bytes: 1000, at_least_one_batch: true, upto: of_log.end_offset() };
        let below = of_log.read(Offset(start.0 - 1), limits).await.map(|read| read.bytes);
        assert_eq!(below, Err(ReadError::OutOfRange { start, end: of_log.end_offset() }));
        assert_eq!(read_all(&of_log).await.len() as i64, 100 - start.0);
    });
    drop(log);
    machine.crash(Crash::PowerLoss);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = stores[0].log(log_id(0)).expect("it is still there");
    assert_eq!((log.start_offset(), log.end_offset()), (start, Offset(100)));
    assert_eq!(machine.read_all(0, &log).expect("no crash").len() as i64, 100 - start.0);
}

#[test]
fn what_nobody_reads_falls_to_retention_too() {
    let (mut machine, _, log) = start(7, tight, LogConfig { only_replica: true, ..keep_bytes(100_000) });
    let (of_log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        for tag in 0..100 {
            append_durably(&of_log, &batch(tag, 5000, tag as i64), shard.wall()).await;
        }
    });
    assert_eq!(log.high_watermark(), Offset(100), "all of it is held");
    minutes(&mut machine, 10);
    assert!((100_000..140_000).contains(&log.size_bytes()), "{} bytes are left", log.size_bytes());
    // As after a start, when the owner has not told yet how the log is kept.
    drop(log);
    machine.crash(Crash::PowerLoss);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = stores[0].log(log_id(0)).expect("it is still there");
    log.set_config(LogConfig { only_replica: true, ..keep_bytes(100_000) });
    assert_eq!(log.high_watermark(), log.end_offset());
}

#[test]
fn an_idle_log_rolls_and_falls_to_its_age_whatever_its_records_claim() {
    for (timestamp, name) in [(0, "now"), (i64::MAX / 2, "the future"), (-1, "none")] {
        let config = LogConfig { retention_ms: Some(60_000), segment_ms: 3_600_000, ..LogConfig::default() };
        let (mut machine, _, log) = start(2, tight, config);
        let (of_log, shard) = (log.clone(), machine.shards[0].clone());
        machine.run(0, async move {
            for tag in 0..10 {
                let timestamp = if timestamp == 0 { shard.wall().0 } else { timestamp };
                append(&of_log, &batch(tag, 500, timestamp), shard.wall()).await;
            }
        });
        assert_eq!((log.start_offset(), log.end_offset()), (Offset(0), Offset(10)));
        minutes(&mut machine, 4);
        assert_eq!((log.start_offset(), log.end_offset()), (Offset(10), Offset(10)), "timestamps of {name}");
        minutes(&mut machine, 4);
        assert_eq!(files(&mut machine, &log), (Vec::new(), 0), "timestamps of {name}");
        let (of_log, shard) = (log.clone(), machine.shards[0].clone());
        machine.run(0, async move {
            assert_eq!(append(&of_log, &batch(10, 500, shard.wall().0), shard.wall()).await, Offset(10));
        });
    }
}

#[test]
fn a_clock_that_jumps_deletes_nothing() {
    let config = LogConfig { retention_ms: Some(3_600_000), ..LogConfig::default() };
    let (mut machine, _, log) = start(3, tight, config);
    let (of_log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        append(&of_log, &batch(0, 500, shard.wall().0), shard.wall()).await;
    });
    minutes(&mut machine, 2);
    machine.world.state().machine(machine.id).clock.jump(30 * 86_400_000);
    minutes(&mut machine, 50);
    assert_eq!(log.start_offset(), Offset(0), "a month in a moment is not believed");
    machine.world.state().machine(machine.id).clock.jump(-30 * 86_400_000);
    minutes(&mut machine, 50);
    assert_eq!(log.start_offset(), Offset(0), "somebody set it right again");
    minutes(&mut machine, 40);
    assert_eq!(log.start_offset(), Offset(1));
}

#[test]
fn a_damaged_index_costs_a_walk_and_is_rebuilt() {
    let (mut machine, store, log) = start(4, tight, keep_bytes(1 << 30));
    let (of_log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        for tag in 0..60 {
            append(&of_log, &batch(tag, 2000, tag as i64), shard.wall()).await;
        }
        store.checkpoint().await.expect("room");
    });
    // Idle for so long, the log has nothing in memory but its last block.
    minutes(&mut machine, 10);
    let path = log.dir().join("00000000000000000000.index");
    let sound = {
        let mut state = machine.world.state();
        let disk = &mut state.machine(machine.id).disk;
        let file = disk.find_file(&path).expect("an index");
        let sound = disk.content(file);
        assert!(sound.len() >= 32, "entries to damage");
        for entry in 0..sound.len() as u64 / 8 {
            disk.flip_bit(file, entry * 8 + 7, 3);
        }
        sound
    };
    let before = machine.read_all(0, &log).expect("no crash");
    assert_eq!(before.len(), 60);
    let of_log = log.clone();
    machine.run(0, async move {
        for from in (0..60).rev() {
            let limits = ReadLimits { max_bytes: 1, at_least_one_batch: true, upto: Offset(60) };
            let read = of_log.read(Offset(from), limits).await.expect("the log is sound").to_vec();
            assert_eq!(Batches::new(&read).next().expect("one").expect("whole").base_offset(), Offset(from));
        }
    });
    minutes(&mut machine, 2);
    let mut state = machine.world.state();
    let disk = &state.machine(machine.id).disk;
    assert!(disk.content(disk.find_file(&path).expect("an index")) == sound, "as it was");
}

#[test]
fn a_disk_that_others_filled_still_takes_a_checkpoint_and_removals() {
    let (mut machine, store, log) = start(6, small, LogConfig::default());
    // More logs than the manifest has room for as it is.
    let (of_store, shard) = (store.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        for number in 1..900 {
            of_store.create_log("many", log_id(number), LogConfig::default()).await.expect("room in the journal");
        }
        append(&log, &batch(1, 1000, 0), shard.wall()).await;
    });
    let ballast = std::path::Path::new("/data/ballast");
    let set_full = |machine: &mut Machine| {
        let mut state = machine.world.state();
        let disk = &mut state.machine(machine.id).disk;
        let used = disk.used_bytes();
        disk.set_capacity(used);
        disk.stat(ballast).expect("a look").is_some()
    };
    assert!(set_full(&mut machine), "the ballast was made in the first second");
    let of_store = store.clone();
    machine.run(0, async move {
        of_store.checkpoint().await.expect("the ballast's room");
        for number in 1..900 {
            of_store.remove_log(log_id(number)).await.expect("a removal needs no room");
        }
    });
    machine.world.state().machine(machine.id).disk.set_capacity(world::DISK_BYTES);
    minutes(&mut machine, 2);
    assert!(machine.world.state().machine(machine.id).disk.stat(ballast).expect("a look").is_some(), "made again");
}

#[test]
fn idle_logs_hold_a_block_each() {
    let mut machine = Machine::new(5, small);
    let (stores, _) = machine.start(1).expect("no crash");
    let logs: Vec<_> =
        (0..20).map(|number| machine.create(0, &stores[0], number, LogConfig::default()).expect("no crash")).collect();
    let shard = machine.shards[0].clone();
    machine.run(0, async move {
        for log in &logs {
            for tag in 0..10 {
                append(log, &batch(tag, 3000, 0), shard.wall()).await;
            }
        }
    });
    assert!(stores[0].stats().tail_bytes > 20 * 30_000);
    minutes(&mut machine, 10);
    assert!(stores[0].stats().tail_bytes <= 20 * 4096, "{} bytes", stores[0].stats().tail_bytes);
}

/// A reader of one log while it is appended to, cut, and falls to retention: it sees at each offset what was acknowledged there.
async fn read_along(log: Log, tags: Tags, mut random: Random, sleep: impl AsyncFn(Duration)) -> u64 {
    let mut read = 0;
    let mut next = Offset(0);
    for _ in 0..400 {
        let upto = log.high_watermark();
        if random.chance(1, 10) {
            next = Offset(random.below(upto.0 as u64 + 1) as i64);
        }
        let limits = ReadLimits { max_bytes: random.below(60_000) as usize, at_least_one_batch: true, upto };
        match log.read(next, limits).await {
            Ok(found) => {
                let bytes = found.to_vec();
                for batch in Batches::new(&bytes) {
                    let batch = batch.expect("whole batches");
                    assert!(batch.has_valid_crc() && batch.base_offset() == next && batch.last_offset() < upto);
                    let record =
                        batch.body().windows(8).any(|part| part == tags.borrow()[next.0 as usize].to_be_bytes());
                    assert!(record, "offset {next} holds another record");
                    next = Offset(batch.last_offset().0 + 1);
                    read += 1;
                }
                if bytes.is_empty() {
                    sleep(Duration::from_millis(20)).await;
                }
            }
            Err(ReadError::OutOfRange { start, end }) => next = if next < start { start } else { next.min(end) },
            Err(error) => panic!("{error}"),
        }
    }
    read
}

/// The tag of the record at each offset.
type Tags = Rc<RefCell<Vec<u64>>>;

#[test]
fn readers_go_on_through_appends_cuts_and_retention() {
    for seed in 0..6 {
        let (mut machine, _, log) = start(100 + seed, tight, keep_bytes(200_000));
        let shard = machine.shards[0].clone();
        let tags = Tags::default();
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (log, tags, shard) = (log.clone(), tags.clone(), shard.clone());
                let random = Random::new(seed * 10 + reader);
                let of_task = shard.clone();
                let task = async move { read_along(log, tags, random, async |delay| of_task.sleep(delay).await).await };
                shard.spawn(shard::Class::Latency, shard.account("reader"), task)
            })
            .collect();
        let mut random = Random::new(seed);
        machine.run(0, async move {
            let mut tag = 0;
            for round in 0..60 {
                for _ in 0..random.below(20) {
                    tag += 1;
                    let bytes = batch(tag << 32 | 7, random.below(9000) as usize, tag as i64);
                    let at = append_durably(&log, &bytes, shard.wall()).await;
                    assert_eq!(at.0, tags.borrow().len() as i64);
                    tags.borrow_mut().push(tag << 32 | 7);
                    log.set_high_watermark(Offset(at.0 + 1));
                }
                match random.below(8) {
                    0 => {
                        // Not below what readers may see.
                        let end = log.end_offset();
                        let _ = log.append(&batch(0, 100, 0), AppendOptions { wall_now: shard.wall(), ..options(0) });
                        assert_eq!(log.truncate_to(end).await.expect("online"), end);
                    }
                    1 => {
                        let middle = (log.start_offset().0 + log.end_offset().0) / 2;
                        log.advance_start(Offset(middle)).await.expect("online");
                    }
                    _ => shard.sleep(Duration::from_secs(random.below(40))).await,
                }
                assert!(log.durable_end() >= log.high_watermark(), "round {round}");
            }
            let mut read = 0;
            for reader in readers {
                read += reader.await;
            }
            assert!(read > 300, "seed {seed}: readers saw {read} batches");
        });
    }
}
