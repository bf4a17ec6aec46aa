//! Compaction in the simulated world: what is left, what readers see meanwhile, and the power cut at every disk operation of it.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Offset, ProducerEpoch, ProducerId, ShardId, WallTime};
use record::{BatchBuilder, BatchOptions, BatchView, Batches, Compression, ProducerStamp, decode_records};
use sim::io::Crash;
use storage::{
    AppendError, AppendOptions, CompactionConfig, Log, LogConfig, ReadLimits, ShardStore, Status, StoreConfig,
};
use world::{Machine, log_id, options, small};

/// Looks for something to compact all the time, with room for few keys.
fn eager(shard: ShardId) -> StoreConfig {
    StoreConfig {
        compaction_interval: Duration::from_millis(50),
        compaction_map_bytes: 24 * 25,
        tail_cache_bytes: 64 << 10,
        read_cache_bytes: 256 << 10,
        checkpoint_interval: Duration::from_millis(200),
        destage_delay: Duration::from_millis(20),
        ..small(shard)
    }
}

fn compacted() -> LogConfig {
    let compaction = CompactionConfig { min_dirty_ppm: 0, ..CompactionConfig::default() };
    LogConfig {
        segment_bytes: 8_000,
        retention_ms: None,
        index_interval_bytes: 1024,
        delete_delay_ms: 10,
        compaction: Some(compaction),
        ..LogConfig::default()
    }
}

/// Keys with their values; none is a tombstone.
type Table = BTreeMap<String, String>;

fn batch(rows: &[(&str, Option<&str>)], options: BatchOptions, now: WallTime) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for (key, value) in rows {
        builder.add(now, Some(key.as_bytes()), value.map(str::as_bytes), &[]).expect("small");
    }
    builder.finish().expect("not empty")
}

async fn append(log: &Log, bytes: &[u8], now: WallTime) {
    let appended = loop {
        let room = log.room();
        match log.append(bytes, AppendOptions { wall_now: now, ..options(2) }) {
            Ok(appended) => break appended,
            Err(AppendError::Backpressure) => room.await,
            Err(error) => panic!("{error}"),
        }
    };
    appended.durable.await.expect("the log stays");
    log.set_high_watermark(log.durable_end());
}

/// Batches of three records over `keys` keys, a tombstone now and then; what they come to goes into `table`.
async fn fill(log: &Log, table: &mut Table, rounds: std::ops::Range<u64>, keys: u64, now: WallTime) {
    for round in rounds {
        let rows: Vec<(String, Option<String>)> = (0..3)
            .map(|row| {
                let key = format!("key-{}", (round * 7 + row * 3) % keys);
                let value = (!(round + row).is_multiple_of(11)).then(|| format!("{round}-{row}-{}", "v".repeat(200)));
                (key, value)
            })
            .collect();
        let compression = Compression::ALL[(round % 5) as usize];
        let borrowed: Vec<_> = rows.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        append(log, &batch(&borrowed, BatchOptions { compression, ..BatchOptions::default() }, now), now).await;
        for (key, value) in rows {
            match value {
                Some(value) => table.insert(key, value),
                None => table.remove(&key),
            };
        }
    }
}

/// What a consumer from the beginning comes to, and how many records it saw. Offsets rise, and the log ends where it should.
async fn consume(log: &Log) -> (Table, usize) {
    let (mut table, mut records) = (Table::new(), 0);
    let mut next = log.start_offset();
    let end = log.end_offset();
    while next < end {
        let limits = ReadLimits { max_bytes: 3_000, at_least_one_batch: true, upto: end };
        let bytes = log.read(next, limits).await.unwrap_or_else(|error| panic!("from {next}: {error}")).to_vec();
        assert!(!bytes.is_empty(), "nothing at {next} below the end {end}");
        for batch in Batches::new(&bytes) {
            let batch = batch.expect("whole");
            assert!(batch.has_valid_crc() && batch.last_offset() >= next);
            next = next.max(batch.base_offset());
            for record in decode_records(&batch, 1 << 20).expect("it expands").records() {
                let record = record.expect("sound");
                assert!(record.offset >= next, "{} after {next}", record.offset);
                next = Offset(record.offset.0 + 1);
                records += 1;
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                let key = text(record.key.expect("a key"));
                match record.value {
                    Some(value) => table.insert(key, text(value)),
                    None => table.remove(&key),
                };
            }
            next = batch.header().next_offset();
        }
    }
    assert_eq!(next, end);
    (table, records)
}

fn start(seed: u64, config: fn(ShardId) -> StoreConfig, log: LogConfig) -> (Machine, ShardStore, Log) {
    let mut machine = Machine::new(seed, config);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = machine.create(0, &stores[0], 0, log).expect("no crash");
    (machine, stores[0].clone(), log)
}

fn seconds(machine: &mut Machine, count: u64) -> Option<()> {
    let shard = machine.shards[0].clone();
    machine.run(0, async move { shard.sleep(Duration::from_secs(count)).await })
}

fn filled(machine: &mut Machine, log: &Log, rounds: std::ops::Range<u64>, keys: u64) -> Option<Table> {
    let (log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        let mut table = Table::new();
        fill(&log, &mut table, rounds, keys, shard.wall()).await;
        table
    })
}

fn consumed(machine: &mut Machine, log: &Log) -> (Table, usize) {
    let log = log.clone();
    machine.run(0, async move { consume(&log).await }).expect("no crash")
}

/// Names in the log's directory that are no files of its segments, and what is in the trash.
fn litter(machine: &mut Machine, log: &Log) -> Vec<String> {
    let segments = log.segments();
    let mut state = machine.world.state();
    let disk = &state.machine(machine.id).disk;
    let names = |dir: &std::path::Path| disk.list(dir).unwrap_or_default().into_iter().map(|(name, _, _)| name);
    let is_known = |name: &str| {
        let known = storage::segment::parse_file_name(name);
        known.is_some_and(|(name, _)| segments.iter().any(|segment| segment.name() == name))
    };
    let strays = names(&log.dir()).filter(|name| !is_known(name));
    strays.chain(names(std::path::Path::new("/data/trash"))).collect()
}

#[test]
fn the_last_value_of_each_key_is_left() {
    // With all keys in the map, and with a tenth of them.
    for (seed, keys) in [(1, 15), (2, 200)] {
        let (mut machine, store, log) = start(seed, eager, compacted());
        let table = filled(&mut machine, &log, 0..400, keys).expect("no crash");
        let (end, before) = (log.end_offset(), log.size_bytes());
        seconds(&mut machine, 120).expect("no crash");
        assert_eq!(log.end_offset(), end);
        let (found, records) = consumed(&mut machine, &log);
        assert_eq!(found, table, "{keys} keys");
        assert!(log.segments().iter().any(|segment| segment.revision > 0), "{keys} keys");
        assert!(records < 800 && log.size_bytes() < before, "{records} of 1200 records are left with {keys} keys");
        let meters = store.meters();
        assert!(meters.compactions.get() > 0 && meters.compactions_failed.get() == 0);
        assert_eq!(litter(&mut machine, &log), Vec::<String>::new(), "{keys} keys");

        machine.crash(Crash::PowerLoss);
        let (stores, _) = machine.start(1).expect("no crash");
        let log = stores[0].log(log_id(0)).expect("it is still there");
        assert_eq!((log.end_offset(), consumed(&mut machine, &log)), (end, (table, records)));
    }
}

#[test]
fn small_segments_grow_together() {
    let (mut machine, _, log) = start(3, eager, compacted());
    filled(&mut machine, &log, 0..300, 10).expect("no crash");
    let before = log.segments().len();
    seconds(&mut machine, 60).expect("no crash");
    let after = log.segments().len();
    assert!(before >= 10 && after < before / 2, "{before} segments became {after}");
}

#[test]
fn tombstones_stay_until_their_horizon() {
    let compaction = CompactionConfig { delete_retention_ms: 600_000, min_dirty_ppm: 0, ..CompactionConfig::default() };
    let (mut machine, _, log) = start(4, eager, LogConfig { compaction: Some(compaction), ..compacted() });
    let has_tombstone = |machine: &mut Machine, log: &Log| {
        let reads = machine.read_all(0, log).expect("no crash");
        reads.iter().any(|read| read.body.windows(4).any(|window| window == b"dead"))
    };
    let kill = |machine: &mut Machine, log: &Log, rounds: std::ops::Range<u64>, kill: bool| {
        let (log, shard) = (log.clone(), machine.shards[0].clone());
        let task = async move {
            let now = shard.wall();
            if kill {
                append(&log, &batch(&[("dead", Some("x"))], BatchOptions::default(), now), now).await;
                append(&log, &batch(&[("dead", None)], BatchOptions::default(), now), now).await;
            }
            fill(&log, &mut Table::new(), rounds, 5, now).await;
        };
        machine.run(0, task).expect("no crash");
    };
    kill(&mut machine, &log, 0..100, true);
    seconds(&mut machine, 60).expect("no crash");
    assert!(has_tombstone(&mut machine, &log), "met a minute ago");
    kill(&mut machine, &log, 100..200, false);
    seconds(&mut machine, 60).expect("no crash");
    assert!(has_tombstone(&mut machine, &log), "met, and ten minutes not over");
    seconds(&mut machine, 600).expect("no crash");
    kill(&mut machine, &log, 200..300, false);
    seconds(&mut machine, 60).expect("no crash");
    assert!(!has_tombstone(&mut machine, &log), "its time is over");
}

#[test]
fn nothing_is_compacted_while_the_clock_is_in_doubt_or_records_are_young() {
    let young = CompactionConfig { min_lag_ms: 600_000, min_dirty_ppm: 0, ..CompactionConfig::default() };
    let (mut machine, store, log) = start(5, eager, LogConfig { compaction: Some(young), ..compacted() });
    filled(&mut machine, &log, 0..100, 5).expect("no crash");
    seconds(&mut machine, 500).expect("no crash");
    assert_eq!(store.meters().compactions.get(), 0, "too young");
    machine.world.state().machine(machine.id).clock.jump(3 * 86_400_000);
    seconds(&mut machine, 60).expect("no crash");
    assert_eq!(store.meters().compactions.get(), 0, "three days in a moment are not believed");
    (0..2).for_each(|_| seconds(&mut machine, 1900).expect("no crash"));
    assert!(store.meters().compactions.get() > 0);
}

#[test]
fn the_greatest_lag_rolls_and_compacts_what_the_ratio_would_not() {
    let overdue = CompactionConfig { max_lag_ms: 300_000, min_dirty_ppm: 1_000_000, ..CompactionConfig::default() };
    let config = LogConfig { segment_bytes: 1 << 20, compaction: Some(overdue), ..compacted() };
    let (mut machine, store, log) = start(6, eager, config);
    let table = filled(&mut machine, &log, 0..100, 5).expect("no crash");
    seconds(&mut machine, 250).expect("no crash");
    assert_eq!((log.segments().len(), store.meters().compactions.get()), (1, 0));
    seconds(&mut machine, 200).expect("no crash");
    assert_eq!(log.segments().len(), 2, "the active segment has ended");
    let (found, records) = consumed(&mut machine, &log);
    assert_eq!(found, table);
    assert!(records < 20, "{records} records are left");
}

#[test]
fn the_last_batch_of_a_producer_stays_and_its_sequence_goes_on() {
    let (mut machine, _, log) = start(7, eager, compacted());
    let stamp =
        |base_sequence| ProducerStamp { producer_id: ProducerId(9), producer_epoch: ProducerEpoch(0), base_sequence };
    let (of_log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        let now = shard.wall();
        for sequence in 0..3 {
            let options = BatchOptions { producer: Some(stamp(sequence)), ..BatchOptions::default() };
            append(&of_log, &batch(&[("key-0", Some("mine"))], options, now), now).await;
        }
        fill(&of_log, &mut Table::new(), 0..200, 1, now).await;
    });
    seconds(&mut machine, 60).expect("no crash");
    let of_log = log.clone();
    let heads = machine.run(0, async move {
        let limits = ReadLimits { max_bytes: 1, at_least_one_batch: true, upto: of_log.end_offset() };
        let bytes = of_log.read(Offset(0), limits).await.expect("sound").to_vec();
        *BatchView::parse(&bytes).expect("one").header()
    });
    let head = heads.expect("no crash");
    assert_eq!((head.base_offset, head.record_count, head.base_sequence), (Offset(2), 0, 2));
    let next = batch(
        &[("key-0", Some("next"))],
        BatchOptions { producer: Some(stamp(3)), ..BatchOptions::default() },
        WallTime(0),
    );
    assert!(log.append(&next, options(2)).is_ok());
}

#[test]
fn a_damaged_segment_leaves_the_log_as_it_is() {
    let (mut machine, store, log) = start(8, small, LogConfig { compaction: None, ..compacted() });
    filled(&mut machine, &log, 0..100, 5).expect("no crash");
    let of_store = store.clone();
    machine.run(0, async move { of_store.checkpoint().await.expect("room") });
    let third = log.segments()[2];
    {
        let path = log.dir().join(third.name().file(storage::segment::FileKind::Log));
        let mut state = machine.world.state();
        let disk = &mut state.machine(machine.id).disk;
        let file = disk.find_file(&path).expect("a segment");
        assert!(disk.flip_bit(file, 400, 3));
    }
    let before = log.segments();
    log.set_config(compacted());
    seconds(&mut machine, 120).expect("no crash");
    assert_eq!((log.status(), log.segments()), (Status::Online, before));
    assert_eq!(store.meters().compactions_failed.get(), 1, "said once");
    seconds(&mut machine, 60).expect("no crash");
    assert_eq!(litter(&mut machine, &log), Vec::<String>::new());
}

/// How long one pass over a log takes that is dirty all through.
fn pass_takes(config: fn(ShardId) -> StoreConfig, max_lag_ms: i64) -> Duration {
    let (mut machine, store, log) =
        start(9, config, LogConfig { segment_bytes: 200_000, compaction: None, ..compacted() });
    filled(&mut machine, &log, 0..2_000, 40).expect("no crash");
    let compaction = CompactionConfig { min_dirty_ppm: 0, max_lag_ms, ..CompactionConfig::default() };
    log.set_config(LogConfig { compaction: Some(compaction), segment_bytes: 200_000, ..compacted() });
    let shard = machine.shards[0].clone();
    let passed = async move {
        while store.stats().compaction_wait.is_none() {
            shard.sleep(Duration::from_micros(100)).await;
        }
        let begun = shard.now();
        while store.meters().compactions.get() == 0 {
            shard.sleep(Duration::from_micros(100)).await;
        }
        shard.now().since(begun)
    };
    machine.run(0, passed).expect("no crash")
}

#[test]
fn it_rests_unless_a_log_has_waited_too_long() {
    let with_room = |shard| StoreConfig { compaction_map_bytes: 64 << 10, ..eager(shard) };
    let unpaced = pass_takes(with_room, i64::MAX);
    let polite = |shard| StoreConfig { compaction_percent: 10, compaction_map_bytes: 64 << 10, ..eager(shard) };
    let paced = pass_takes(polite, i64::MAX);
    let late = pass_takes(polite, 1);
    assert!(paced > unpaced * 8 && paced < unpaced * 12, "{paced:?} at a tenth of its time, {unpaced:?} at all of it");
    assert!(late < unpaced * 2, "{late:?} where the log is late, {unpaced:?} at all of its time");
}

#[test]
fn readers_go_on_through_it() {
    for seed in 20..24 {
        let (mut machine, store, log) = start(seed, eager, compacted());
        let shard = machine.shards[0].clone();
        let stop = std::rc::Rc::new(std::cell::Cell::new(false));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (log, stop, of_task) = (log.clone(), stop.clone(), shard.clone());
                let task = async move {
                    let mut passes = 0;
                    while !stop.get() || passes == 0 {
                        consume(&log).await;
                        of_task.sleep(Duration::from_millis(1)).await;
                        passes += 1;
                    }
                    passes
                };
                shard.spawn(shard::Class::Latency, shard.account("reader"), task)
            })
            .collect();
        let found = machine.run(0, async move {
            let mut table = Table::new();
            for round in 0..20 {
                fill(&log, &mut table, round * 30..round * 30 + 30, 12, shard.wall()).await;
                shard.sleep(Duration::from_millis(300)).await;
            }
            stop.set(true);
            for reader in readers {
                assert!(reader.await > 1);
            }
            (table, consume(&log).await.0)
        });
        let (table, found) = found.expect("no crash");
        assert_eq!(found, table);
        assert!(store.meters().compactions.get() > 3);
    }
}

/// The power goes at each disk operation of a compaction in turn; what a start finds has the same values, and compaction goes on from
/// there and leaves nothing behind.
#[test]
fn the_power_is_cut_everywhere() {
    for cut in 1.. {
        let mut machine = Machine::new(5_000 + cut, small);
        let (stores, _) = machine.start(1).expect("no crash");
        let log = machine.create(0, &stores[0], 0, LogConfig { compaction: None, ..compacted() }).expect("no crash");
        let table = filled(&mut machine, &log, 0..60, 8).expect("no crash");
        let store = stores[0].clone();
        machine.run(0, async move { store.checkpoint().await.expect("room") }).expect("no crash");
        let end = log.end_offset();

        machine.world.crash_after(machine.id, cut, Crash::PowerLoss);
        log.set_config(compacted());
        let done = seconds(&mut machine, 40).is_some();
        machine.world.spare(machine.id);
        let compactions = stores[0].meters().compactions.get();
        if machine.world.is_up(machine.id) {
            machine.crash(Crash::PowerLoss);
        }
        machine.shards.clear();
        drop((stores, log));

        machine.config = eager;
        let (stores, _) = machine.start(1).expect("no crash");
        let log = stores[0].log(log_id(0)).expect("it is still there");
        assert_eq!(log.end_offset(), end, "cut at {cut}");
        assert_eq!(consumed(&mut machine, &log).0, table, "cut at {cut}");
        log.set_config(compacted());
        seconds(&mut machine, 40).expect("no crash");
        let (found, records) = consumed(&mut machine, &log);
        assert_eq!(found, table, "cut at {cut}, and compacted since");
        assert!(records < 120, "{records} of 180 records are left");
        assert_eq!(litter(&mut machine, &log), Vec::<String>::new(), "cut at {cut}");
        if done && compactions > 0 {
            assert!(cut > 20, "a compaction is many operations");
            return;
        }
    }
}
