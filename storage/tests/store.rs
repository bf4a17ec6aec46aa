//! A store by its contract, in the simulated world: what is acknowledged survives, whatever ends the process.

mod world;

use std::time::Duration;

use base::{Offset, Random};
use sim::io::Crash;
use storage::LogConfig;
use storage::segment::{FileKind, SegmentName};
use world::{DATA, Machine, batch, log_id, options, small};

#[test]
fn what_is_appended_is_read_and_survives_an_orderly_end() {
    let mut machine = Machine::new(1, small);
    let (stores, _) = machine.start(1).unwrap();
    let log = machine.create(0, &stores[0], 0, LogConfig { segment_bytes: 60_000, ..LogConfig::default() }).unwrap();
    let mut durable = Vec::new();
    for tag in 0..60 {
        durable.push(log.append(&batch(tag, 3, 700, None), options(0)).unwrap().durable);
    }
    machine.run(0, async move {
        for appended in durable {
            appended.await.unwrap();
        }
    });
    assert_eq!(log.durable_end().0, 180);
    let before = machine.read_all(0, &log).unwrap();
    assert_eq!(before.len(), 60);
    let store = stores[0].clone();
    machine.run(0, async move { store.close().await.unwrap() });
    machine.crash(Crash::Kill);
    let (stores, recovered) = machine.start(1).unwrap();
    assert_eq!(recovered.report.frames_replayed, 0);
    let log = stores[0].log(log_id(0)).unwrap();
    assert_eq!((log.start_offset().0, log.end_offset().0), (0, 180));
    assert_eq!(machine.read_all(0, &log).unwrap(), before);
    assert!(log.segments().len() > 1);
}

#[test]
fn acknowledged_appends_survive_a_power_cut_anywhere() {
    for seed in 0..12 {
        power_cuts(seed);
    }
}

fn power_cuts(seed: u64) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(seed, small);
    let (mut stores, _) = machine.start(1).unwrap();
    let config = LogConfig { segment_bytes: 40_000, ..LogConfig::default() };
    let mut logs: Vec<_> =
        (0..3).map(|number| machine.create(0, &stores[0], number, config.clone()).unwrap()).collect();
    let mut acknowledged = [0; 3];
    let mut tag = 0;
    let mut sent: [Vec<Vec<u8>>; 3] = Default::default();
    for _round in 0..6 {
        let longest = if random.chance(1, 3) { 900 } else { 60 };
        machine.world.crash_after(machine.id, 5 + random.below(longest), Crash::PowerLoss);
        while machine.world.is_up(machine.id) {
            let number = random.below(3) as usize;
            tag += 1;
            let bytes = batch(tag, 1, 100 + random.below(6000) as usize, None);
            let Ok(appended) = logs[number].append(&bytes, options(0)) else {
                let room = logs[number].room();
                machine.run(0, room);
                continue;
            };
            assert_eq!(appended.base_offset.0, sent[number].len() as i64, "seed {seed}");
            sent[number].push(bytes[61..].to_vec());
            if random.chance(1, 2) && machine.run(0, appended.durable).is_some() {
                acknowledged[number] = sent[number].len();
            }
        }
        drop(std::mem::take(&mut logs));
        machine.shards.clear();
        stores = loop {
            // Now and then recovery is cut short too.
            if random.chance(1, 2) {
                machine.world.crash_after(machine.id, 1 + random.below(40), Crash::PowerLoss);
            }
            if let Some((stores, _)) = machine.start(1) {
                machine.world.spare(machine.id);
                break stores;
            }
        };
        logs = (0..3).map(|number| stores[0].log(log_id(number)).unwrap()).collect();
        for (number, log) in logs.iter().enumerate() {
            let end = log.end_offset().0 as usize;
            assert!(
                end >= acknowledged[number],
                "seed {seed}: log {number} ends at {end}, acknowledged {acknowledged:?}"
            );
            sent[number].truncate(end);
            acknowledged[number] = end;
            let read = machine.read_all(0, log).unwrap();
            let bodies: Vec<_> = read.iter().map(|batch| batch.body.clone()).collect();
            assert!(bodies == sent[number], "seed {seed}: log {number} holds other records");
        }
    }
    drop(stores);
}

/// A store that has stopped has let its logs go: a checkpoint that comes too late must not write a manifest without them.
#[test]
fn checkpoints_that_meet_a_close_lose_nothing() {
    for seed in 0..20 {
        let mut machine = Machine::new(seed, small);
        let (stores, _) = machine.start(1).unwrap();
        let log = machine.create(0, &stores[0], 0, LogConfig::default()).unwrap();
        for tag in 0..70 {
            drop(log.append(&batch(tag, 1, 3000, None), options(0)).unwrap());
        }
        let (store, shard) = (stores[0].clone(), machine.shards[0].clone());
        machine.run(0, async move {
            let mut tasks = Vec::new();
            for number in 0..40 {
                let (store, task_shard) = (store.clone(), shard.clone());
                tasks.push(shard.spawn(shard::Class::Normal, shard.account("test"), async move {
                    task_shard.sleep(Duration::from_micros(number * 100)).await;
                    // Some are too late, and say so.
                    let _ = if number % 8 == 4 { store.close().await } else { store.checkpoint().await };
                }));
            }
            for task in tasks {
                task.await;
            }
        });
        machine.crash(Crash::PowerLoss);
        let (stores, _) = machine.start(1).unwrap();
        let log = stores[0].log(log_id(0)).expect("the log");
        assert_eq!(log.end_offset().0, 70, "seed {seed}");
    }
}

/// Other tools read a sealed segment's indexes as far as their files go.
#[test]
fn the_indexes_of_a_sealed_segment_end_with_their_last_entries() {
    for (recovered, seed) in [(false, 1), (true, 2)] {
        let mut machine = Machine::new(seed, small);
        let (mut stores, _) = machine.start(1).unwrap();
        let config = LogConfig { segment_bytes: 10_000, index_interval_bytes: 4000, ..LogConfig::default() };
        let log = machine.create(0, &stores[0], 0, config).unwrap();
        let append = |machine: &mut Machine, tag| {
            let durable = log.append(&batch(tag, 1, 3000, None), options(0)).unwrap().durable;
            machine.run(0, durable).unwrap().unwrap();
        };
        let checkpoint = |machine: &mut Machine, store: storage::ShardStore| {
            machine.run(0, async move { store.checkpoint().await.unwrap() }).unwrap();
        };
        (0..3).for_each(|tag| append(&mut machine, tag));
        // The third batch has the entries, and the first segment gets none after it.
        checkpoint(&mut machine, stores[0].clone());
        append(&mut machine, 3);
        if recovered {
            machine.crash(Crash::PowerLoss);
            (stores, _) = machine.start(1).unwrap();
        } else {
            checkpoint(&mut machine, stores[0].clone());
        }
        let dir = storage::config::paths::log_dir(DATA.as_ref(), "orders", log_id(0));
        for (kind, bytes) in [(FileKind::Index, 8), (FileKind::TimeIndex, 12)] {
            let (shard, path) = (machine.shards[0].clone(), dir.join(SegmentName::first(Offset(0)).file(kind)));
            let stat = machine.run(0, async move { shard.fs().stat(path).await.unwrap() }).unwrap();
            assert_eq!(stat.map(|stat| stat.bytes), Some(bytes), "{kind:?}, recovered: {recovered}");
        }
        drop(stores);
    }
}
