//! Changes of a log other than appends, with the power cut at every single disk operation of each.

mod world;

use base::{LeaderEpoch, Offset};
use sim::io::Crash;
use storage::{AppendError, Durability, EpochEnd, Log, LogConfig, ShardStore, Status, StoreConfig, StoreError};
use world::{Machine, batch, log_id, options, read_all, small};

/// What a change is done to: one log of 30 batches of one record in several segments.
const BATCHES: u64 = 30;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8_000, ..LogConfig::default() }
}

async fn fill(log: &Log, tags: std::ops::Range<u64>) {
    let mut last = None;
    for tag in tags {
        last = Some(log.append(&batch(tag, 1, 900, None), options(2)).unwrap().durable);
    }
    if let Some(durable) = last {
        durable.await.unwrap();
    }
}

/// The tags of a log's batches.
async fn tags(log: &Log) -> Vec<u64> {
    let found = read_all(log).await;
    // A record's value begins with its tag; before it stand six single bytes of lengths and deltas, and more where they are long.
    found.iter().map(|read| tag_of(&read.body)).collect()
}

fn tag_of(body: &[u8]) -> u64 {
    let at = body.windows(16).position(|window| window[..6] == [0; 6] && window[8..16] == [0; 8]).expect("a tag");
    u64::from_be_bytes(body[at..at + 8].try_into().expect("eight bytes"))
}

/// Runs `change` on a machine with a filled log, with the power cut at its `k`th disk operation, for every `k` until it is done in
/// fewer; after each, `check` looks at what a start finds, and whether the change had been acknowledged.
fn cut_everywhere<F: Future<Output = ()> + 'static>(
    shards: u16,
    prepare: impl Fn(&mut Machine, &[ShardStore]),
    change: impl Fn(Vec<ShardStore>) -> F,
    check: impl Fn(&mut Machine, &[ShardStore], bool),
) {
    for seed in 0..4 {
        cut_everywhere_with(seed, shards, &prepare, &change, &check);
    }
}

fn cut_everywhere_with<F: Future<Output = ()> + 'static>(
    seed: u64,
    shards: u16,
    prepare: &impl Fn(&mut Machine, &[ShardStore]),
    change: &impl Fn(Vec<ShardStore>) -> F,
    check: &impl Fn(&mut Machine, &[ShardStore], bool),
) {
    for cut in 1.. {
        let mut machine = Machine::new(seed * 1_000 + cut, small);
        let (stores, _) = machine.start(shards).unwrap();
        let log = machine.create(0, &stores[0], 0, config()).unwrap();
        machine.run(0, async move { fill(&log, 0..BATCHES).await }).unwrap();
        prepare(&mut machine, &stores);
        machine.world.crash_after(machine.id, cut, Crash::PowerLoss);
        let done = machine.run(0, change(stores)).is_some();
        machine.world.spare(machine.id);
        if machine.world.is_up(machine.id) {
            machine.crash(Crash::PowerLoss);
        }
        machine.shards.clear();
        let (stores, _) = machine.start(shards).unwrap();
        check(&mut machine, &stores, done);
        if done {
            assert!(cut > 10, "a change is several operations");
            return;
        }
    }
}

fn nothing(_: &mut Machine, _: &[ShardStore]) {}

fn checkpointed(machine: &mut Machine, stores: &[ShardStore]) {
    let store = stores[0].clone();
    machine.run(0, async move { store.checkpoint().await.unwrap() }).unwrap();
}

fn found_tags(machine: &mut Machine, log: &Log) -> Vec<u64> {
    let log = log.clone();
    machine.run(0, async move { tags(&log).await }).unwrap()
}

#[test]
fn truncation_then_batches_of_the_same_length() {
    for prepare in [nothing, checkpointed] {
        cut_everywhere(
            1,
            prepare,
            |stores| async move {
                let log = stores[0].log(log_id(0)).unwrap();
                assert_eq!(log.truncate_to(Offset(13)).await.unwrap(), Offset(13));
                fill(&log, 100..110).await;
                stores[0].checkpoint().await.unwrap();
            },
            |machine, stores, done| {
                let log = stores[0].log(log_id(0)).unwrap();
                let found = found_tags(machine, &log);
                let kept: Vec<u64> = (0..13).collect();
                if done || found.len() < BATCHES as usize {
                    // What was cut off never comes back, and what followed stands in its place, as far as it came.
                    let followed: Vec<u64> = kept.into_iter().chain(100..110).collect();
                    assert!(followed.starts_with(&found) && found.len() >= 13, "{found:?}");
                    assert!(!done || found.len() == 23);
                } else {
                    assert_eq!(found, (0..BATCHES).collect::<Vec<_>>());
                }
                assert_eq!(
                    log.epoch_end(LeaderEpoch(2)),
                    EpochEnd::At { epoch: LeaderEpoch(2), end: log.end_offset() }
                );
            },
        );
    }
}

#[test]
fn truncation_below_everything_begins_anew() {
    cut_everywhere(
        1,
        checkpointed,
        |stores| async move {
            let log = stores[0].log(log_id(0)).unwrap();
            log.advance_start(Offset(20)).await.unwrap();
            assert_eq!(log.truncate_to(Offset(5)).await.unwrap(), Offset(5));
            assert_eq!((log.start_offset(), log.end_offset()), (Offset(5), Offset(5)));
            fill(&log, 100..103).await;
        },
        |machine, stores, done| {
            let log = stores[0].log(log_id(0)).unwrap();
            let found = found_tags(machine, &log);
            match log.start_offset().0 {
                0 => assert_eq!(found, (0..BATCHES).collect::<Vec<_>>()),
                20 => assert_eq!(found, (20..BATCHES).collect::<Vec<_>>()),
                5 => assert!([100, 101, 102].starts_with(&found)),
                other => panic!("starts at {other}"),
            }
            assert!(!done || found == [100, 101, 102]);
        },
    );
}

#[test]
fn the_start_moves_and_segments_go() {
    for prepare in [nothing, checkpointed] {
        cut_everywhere(
            1,
            prepare,
            |stores| async move {
                let log = stores[0].log(log_id(0)).unwrap();
                let before = log.segments().len();
                log.advance_start(Offset(17)).await.unwrap();
                stores[0].checkpoint().await.unwrap();
                log.advance_start(Offset(18)).await.unwrap();
                assert!(log.segments().len() < before);
                stores[0].checkpoint().await.unwrap();
            },
            |machine, stores, done| {
                let log = stores[0].log(log_id(0)).unwrap();
                let start = log.start_offset().0;
                assert!([0, 17, 18].contains(&start) && (!done || start == 18));
                assert_eq!(found_tags(machine, &log), (start as u64..BATCHES).collect::<Vec<_>>());
            },
        );
    }
}

#[test]
fn removed_and_created_again() {
    for prepare in [nothing, checkpointed] {
        cut_everywhere(
            1,
            prepare,
            |stores| async move {
                stores[0].remove_log(log_id(0)).await.unwrap();
                let log = stores[0].create_log("orders", log_id(0), config()).await.unwrap();
                fill(&log, 200..205).await;
                stores[0].checkpoint().await.unwrap();
            },
            |machine, stores, done| {
                let Some(log) = stores[0].log(log_id(0)) else {
                    assert!(!done);
                    return;
                };
                let found = found_tags(machine, &log);
                let old: Vec<u64> = (0..BATCHES).collect();
                assert!([200, 201, 202, 203, 204].starts_with(&found) || (!done && found == old), "{found:?}");
                assert!(!done || found.len() == 5);
            },
        );
    }
}

#[test]
fn a_log_moves_to_another_shard_and_is_always_on_one() {
    for prepare in [nothing, checkpointed] {
        cut_everywhere(
            2,
            prepare,
            |stores| async move {
                let handed = stores[0].hand_over(log_id(0)).await.unwrap();
                let placement = handed.placement();
                stores[1].take_over(handed).await.unwrap();
                stores[0].forget_moved(log_id(0), placement).await.unwrap();
                let log = stores[1].log(log_id(0)).unwrap();
                fill(&log, BATCHES..BATCHES + 5).await;
                stores[1].checkpoint().await.unwrap();
                stores[1].remove_log(log_id(0)).await.unwrap();
            },
            |machine, stores, done| {
                let homes: Vec<_> = (0..2).filter(|&shard| stores[shard].log(log_id(0)).is_some()).collect();
                if homes.is_empty() {
                    // Removed in its new home: the old one must not bring it back. (The cut may have come after the removal was durable.)
                    return;
                }
                assert!(!done && homes.len() == 1, "{homes:?}");
                let log = stores[homes[0]].log(log_id(0)).unwrap();
                let read = machine.read_all(homes[0], &log).unwrap();
                let found: Vec<u64> = read.iter().map(|read| tag_of(&read.body)).collect();
                let all: Vec<u64> = (0..BATCHES + 5).collect();
                assert!(all.starts_with(&found) && found.len() >= BATCHES as usize, "{found:?}");
            },
        );
    }
}

/// Takes a log from one shard to another, all steps of it.
fn move_log(machine: &mut Machine, stores: &[ShardStore], from: usize, to: usize) -> Log {
    let (old, new) = (stores[from].clone(), stores[to].clone());
    let handed = machine.run(from, async move { old.hand_over(log_id(0)).await.unwrap() }).unwrap();
    let placement = handed.placement();
    let log = machine.run(to, async move { new.take_over(handed).await.unwrap() }).unwrap();
    let old = stores[from].clone();
    machine.run(from, async move { old.forget_moved(log_id(0), placement).await.unwrap() }).unwrap();
    log
}

#[test]
fn what_a_shard_has_read_of_a_log_does_not_outlive_a_move_or_a_removal() {
    let mut machine = Machine::new(31, small);
    let (stores, _) = machine.start(2).unwrap();
    let log = machine.create(0, &stores[0], 0, config()).unwrap();
    machine.run(0, async move { fill(&log, 0..BATCHES).await }).unwrap();
    machine.crash(Crash::Kill);
    // After a start nothing is in memory: what is read comes from the segments, and is kept.
    let (stores, _) = machine.start(2).unwrap();
    let log = stores[0].log(log_id(0)).unwrap();
    assert_eq!(found_tags(&mut machine, &log), (0..BATCHES).collect::<Vec<_>>());
    let log = move_log(&mut machine, &stores, 0, 1);
    machine
        .run(1, async move {
            log.truncate_to(Offset(3)).await.unwrap();
            fill(&log, 100..127).await;
        })
        .unwrap();
    let log = move_log(&mut machine, &stores, 1, 0);
    let expected: Vec<u64> = (0..3).chain(100..127).collect();
    assert_eq!(found_tags(&mut machine, &log), expected);
    // The same id, as a replica that leaves its broker and comes back has it.
    let store = stores[0].clone();
    let log = machine.run(0, async move {
        store.remove_log(log_id(0)).await.unwrap();
        let log = store.create_log("orders", log_id(0), config()).await.unwrap();
        fill(&log, 200..230).await;
        log
    });
    let log = log.unwrap();
    move_log(&mut machine, &stores, 0, 1);
    let back = move_log(&mut machine, &stores, 1, 0);
    assert_eq!(log.status(), Status::Gone);
    assert_eq!(found_tags(&mut machine, &back), (200..230).collect::<Vec<_>>());
}

#[test]
fn a_move_that_is_refused_leaves_the_log_where_it_was() {
    let mut machine = Machine::new(32, small);
    let (stores, _) = machine.start(2).unwrap();
    let log = machine.create(0, &stores[0], 0, config()).unwrap();
    let (old, new) = (stores[0].clone(), stores[1].clone());
    let moved = machine.run(0, async move {
        fill(&log, 0..5).await;
        let handed = old.hand_over(log_id(0)).await.unwrap();
        assert!(matches!(old.hand_over(log_id(0)).await, Err(StoreError::Busy)));
        assert!(matches!(old.remove_log(log_id(0)).await, Err(StoreError::Busy)));
        assert!(matches!(log.append(&batch(5, 1, 900, None), options(2)), Err(AppendError::Busy)));
        old.take_back(log_id(0)).unwrap();
        fill(&log, 5..10).await;
        assert!(matches!(old.forget_moved(log_id(0), handed.placement()).await, Err(StoreError::Busy)));
        assert!(matches!(old.take_over(handed).await, Err(StoreError::Exists)));
        old.hand_over(log_id(0)).await.unwrap()
    });
    let handed = moved.unwrap();
    let log = machine.run(1, async move { new.take_over(handed).await.unwrap() }).unwrap();
    assert_eq!(machine.read_all(1, &log).unwrap().len(), 10);
}

#[test]
fn on_a_full_disk_a_log_is_not_handed_over_and_stays_online() {
    let mut machine = Machine::new(33, small);
    let (stores, _) = machine.start(2).unwrap();
    let log = machine.create(0, &stores[0], 0, config()).unwrap();
    let used = machine.world.state().machine(machine.id).disk.used_bytes();
    machine.world.state().machine(machine.id).disk.set_capacity(used);
    let (store, full) = (stores[0].clone(), log.clone());
    let refused = machine.run(0, async move {
        fill(&full, 0..BATCHES).await;
        store.hand_over(log_id(0)).await.map(|handed| handed.id())
    });
    assert!(matches!(refused, Some(Err(StoreError::DiskFull))), "{refused:?}");
    assert_eq!(log.status(), Status::Online);
    machine.world.state().machine(machine.id).disk.set_capacity(world::DISK_BYTES);
    let log = move_log(&mut machine, &stores, 0, 1);
    assert_eq!(machine.read_all(1, &log).unwrap().len() as u64, BATCHES);
}

#[test]
fn other_shard_counts_find_every_log_once() {
    let mut machine = Machine::new(77, small);
    let (stores, _) = machine.start(3).unwrap();
    for number in 0..9 {
        let shard = number as usize % 3;
        let log = machine.create(shard, &stores[shard], number, config()).unwrap();
        machine.run(shard, async move { fill(&log, 0..4 + number as u64).await }).unwrap();
    }
    machine.crash(Crash::PowerLoss);
    for (round, shards) in [(0u64, 2u16), (1, 4), (2, 1), (3, 3)] {
        // Cut short a few times first, with yet another count.
        for cut in [3, 30, 60] {
            machine.boot(shards + 1);
            machine.world.crash_after(machine.id, cut + round, Crash::PowerLoss);
            let _ = machine.recover(shards + 1);
            machine.world.spare(machine.id);
            if machine.world.is_up(machine.id) {
                machine.crash(Crash::PowerLoss);
            }
            machine.shards.clear();
        }
        let (stores, recovered) = machine.start(shards).unwrap();
        assert_eq!(recovered.report.logs, 9);
        for number in 0..9 {
            let homes: Vec<_> = stores.iter().filter_map(|store| store.log(log_id(number))).collect();
            assert_eq!(homes.len(), 1);
            assert_eq!(homes[0].end_offset().0, 4 + i64::from(number));
        }
        machine.crash(Crash::PowerLoss);
    }
}

#[test]
fn a_removed_log_does_not_come_back_with_the_directory_of_its_shard() {
    for seed in 0..6 {
        for cut in 1.. {
            let mut machine = Machine::new(seed * 1_000 + cut, small);
            let (stores, _) = machine.start(2).unwrap();
            let log = machine.create(1, &stores[1], 0, config()).unwrap();
            let store = stores[1].clone();
            let removed = async move {
                // Twice, so that both copies of the manifest know of it.
                for tag in 0..2 {
                    fill(&log, tag..tag + 1).await;
                    store.checkpoint().await.unwrap();
                }
                store.remove_log(log_id(0)).await.unwrap();
            };
            machine.run(1, removed).unwrap();
            machine.crash(Crash::Kill);
            machine.boot(1);
            machine.world.crash_after(machine.id, cut, Crash::PowerLoss);
            let done = machine.recover(1).is_some();
            machine.world.spare(machine.id);
            if machine.world.is_up(machine.id) {
                machine.crash(Crash::PowerLoss);
            }
            let (stores, _) = machine.start(1).unwrap();
            assert!(stores[0].log(log_id(0)).is_none(), "seed {seed}, cut {cut}");
            if done {
                break;
            }
        }
    }
}

fn replicas(shard: base::ShardId) -> StoreConfig {
    StoreConfig { durability: Durability::Replicas, ..small(shard) }
}

#[test]
fn with_durability_of_replicas_held_runs_ahead_of_flushed() {
    let mut machine = Machine::new(9, replicas);
    let (stores, _) = machine.start(1).unwrap();
    let log = machine.create(0, &stores[0], 0, config()).unwrap();
    let task = log.clone();
    let ahead = machine.run(0, async move {
        let mut ahead = 0;
        for tag in 0..40 {
            task.append(&batch(tag, 1, 900, None), options(0)).unwrap().durable.await.unwrap();
            ahead = ahead.max(task.held_end().0 - task.durable_end().0);
        }
        ahead
    });
    assert!(ahead.unwrap() > 0);
    checkpointed(&mut machine, &stores);
    assert_eq!(log.durable_end(), log.end_offset());
    machine.crash(Crash::PowerLoss);
    let (stores, _) = machine.start(1).unwrap();
    assert_eq!(found_tags(&mut machine, &stores[0].log(log_id(0)).unwrap()), (0..40).collect::<Vec<_>>());
}
