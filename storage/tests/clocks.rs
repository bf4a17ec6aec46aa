//! Wall clocks that are wrong, of producers and of the broker's own machine: what falls to its age, and when.

mod world;

use std::time::Duration;

use base::{Offset, ShardId, WallTime};
use record::{BatchBuilder, BatchOptions};
use sim::io::Crash;
use storage::{AppendOptions, Log, LogConfig, ShardStore, StoreConfig};
use world::{Machine, log_id, options, small};

const YEARS_MS: i64 = 3 * 365 * 86_400_000;
const DAYS: i64 = 86_400_000;

/// Segments last a quarter of an hour, records a day.
fn kept_for_a_day() -> LogConfig {
    LogConfig { retention_ms: Some(DAYS), segment_ms: 900_000, ..LogConfig::default() }
}

fn often(shard: ShardId) -> StoreConfig {
    StoreConfig { checkpoint_interval: Duration::from_secs(5), ..small(shard) }
}

fn minutes(machine: &mut Machine, count: u64) {
    for _ in 0..count {
        let shard = machine.shards[0].clone();
        machine.run(0, async move { shard.sleep(Duration::from_secs(60)).await });
    }
}

fn jump(machine: &mut Machine, by_ms: i64) {
    machine.world.state().machine(machine.id).clock.jump(by_ms);
}

/// Starts the process again; its log has its owner's settings, as it does once the topic is opened.
fn restart(machine: &mut Machine, config: &LogConfig) -> (ShardStore, Log) {
    machine.crash(Crash::PowerLoss);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = stores[0].log(log_id(0)).expect("it is still there");
    log.set_config(config.clone());
    (stores[0].clone(), log)
}

/// Appends one record, by the machine's clock or with a timestamp of the producer's own.
fn append(machine: &mut Machine, log: &Log, timestamp: Option<i64>) {
    let (log, shard) = (log.clone(), machine.shards[0].clone());
    machine.run(0, async move {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        let timestamp = timestamp.map_or(shard.wall(), WallTime);
        batch.add(timestamp, None, Some(&[7; 500]), &[]).expect("a record");
        let wall_now = shard.wall();
        let options = AppendOptions { wall_now, ..options(0) };
        let appended = log.append(&batch.finish().expect("a batch"), options).expect("room");
        appended.durable.await.expect("the log stays");
        log.set_high_watermark(Offset(appended.last_offset.0 + 1));
    });
}

fn start(seed: u64, config: &LogConfig) -> (Machine, Log) {
    let mut machine = Machine::new(seed, often);
    let (stores, _) = machine.start(1).expect("no crash");
    let log = machine.create(0, &stores[0], 0, config.clone()).expect("no crash");
    (machine, log)
}

#[test]
fn records_from_the_future_neither_stay_nor_roll_segments_for_ever() {
    let config = LogConfig { retention_ms: Some(3_600_000), ..kept_for_a_day() };
    for timestamp in [Some(i64::MAX), Some(i64::MAX - 1), Some(i64::MAX / 2), None] {
        let (mut machine, log) = start(1, &config);
        append(&mut machine, &log, timestamp);
        for minute in 0..60 {
            minutes(&mut machine, 1);
            append(&mut machine, &log, Some(i64::MAX));
            assert!(log.segments().len() <= 2 + minute / 15, "{timestamp:?}: one segment for each quarter of an hour");
        }
        assert_eq!(log.start_offset(), Offset(0), "{timestamp:?}: nothing is an hour old");
        minutes(&mut machine, 40);
        assert!((15..45).contains(&log.start_offset().0), "{timestamp:?}: what is an hour old goes");
        minutes(&mut machine, 60);
        assert_eq!((log.start_offset(), log.end_offset()), (Offset(61), Offset(61)), "{timestamp:?}");
    }
}

#[test]
fn a_start_with_the_clock_years_ahead_deletes_nothing_at_once() {
    let config = kept_for_a_day();
    let (mut machine, log) = start(2, &config);
    append(&mut machine, &log, None);
    minutes(&mut machine, 2);
    drop(log);
    machine.crash(Crash::PowerLoss);
    jump(&mut machine, YEARS_MS);
    // Each start finds the clock as wrong as the one before, whatever was appended by it meanwhile.
    for _ in 0..3 {
        let (_, log) = restart(&mut machine, &config);
        append(&mut machine, &log, None);
        minutes(&mut machine, 50);
        assert_eq!(log.start_offset(), Offset(0), "it is in doubt");
    }
    // Somebody sets it right before the hour is over.
    jump(&mut machine, -YEARS_MS);
    let (_, log) = restart(&mut machine, &config);
    minutes(&mut machine, 180);
    assert_eq!(log.start_offset(), Offset(0), "all of it was appended today");
    drop(log);
    // Whoever leaves it wrong for an hour is believed.
    machine.crash(Crash::PowerLoss);
    jump(&mut machine, YEARS_MS);
    let (_, log) = restart(&mut machine, &config);
    minutes(&mut machine, 55);
    assert_eq!(log.start_offset(), Offset(0), "it is in doubt again");
    minutes(&mut machine, 10);
    assert!(log.start_offset() > Offset(0), "after an hour it is believed");
}

#[test]
fn a_short_stop_leaves_no_doubt() {
    let config = LogConfig { retention_ms: Some(3_600_000), ..kept_for_a_day() };
    let (mut machine, log) = start(3, &config);
    append(&mut machine, &log, None);
    minutes(&mut machine, 2);
    drop(log);
    machine.crash(Crash::PowerLoss);
    jump(&mut machine, DAYS / 2);
    let (_, log) = restart(&mut machine, &config);
    assert_eq!(log.start_offset(), Offset(0));
    minutes(&mut machine, 2);
    assert_eq!(log.start_offset(), Offset(1), "half a day passed");
}

#[test]
fn what_was_appended_by_a_clock_ahead_of_itself_ages_once_that_is_right() {
    let config = LogConfig { retention_ms: Some(7_200_000), ..kept_for_a_day() };
    let (mut machine, log) = start(4, &config);
    append(&mut machine, &log, None);
    minutes(&mut machine, 2);
    jump(&mut machine, YEARS_MS);
    // Timestamps and the broker's own notes are years ahead alike.
    append(&mut machine, &log, None);
    minutes(&mut machine, 2);
    jump(&mut machine, -YEARS_MS);
    minutes(&mut machine, 60);
    append(&mut machine, &log, None);
    assert_eq!(log.start_offset(), Offset(0), "nothing is two hours old");
    minutes(&mut machine, 180);
    assert_eq!((log.start_offset(), log.end_offset()), (Offset(3), Offset(3)), "all of it is");
}
