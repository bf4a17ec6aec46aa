//! A disk that others fill to the last byte: the broker starts on it, serves, deletes, and goes on once there is room.

mod world;

use std::path::Path;
use std::time::Duration;

use shard::OpenOptions;
use sim::io::Crash;
use storage::{AppendError, Log, LogConfig, ShardStore, SpaceClass, SpaceState, Status, StoreConfig};
use world::{Machine, batch, log_id, options, small};

fn metadata() -> LogConfig {
    LogConfig { space: SpaceClass::Metadata, ..LogConfig::default() }
}

fn seconds(machine: &mut Machine, count: u64) {
    let shard = machine.shards[0].clone();
    machine.run(0, async move { shard.sleep(Duration::from_secs(count)).await });
}

/// Appends a batch and waits until it is durable.
fn append(machine: &mut Machine, log: &Log, tag: u64, bytes: usize) -> Result<(), AppendError> {
    loop {
        match log.append(&batch(tag, 1, bytes, None), options(0)) {
            Ok(appended) => {
                machine.run(0, appended.durable).expect("no crash").expect("the log stays");
                return Ok(());
            }
            Err(AppendError::Backpressure) => {
                let room = log.room();
                machine.run(0, room).expect("no crash");
            }
            Err(error) => return Err(error),
        }
    }
}

fn fill_disk(machine: &mut Machine) {
    let mut state = machine.world.state();
    let disk = &mut state.machine(machine.id).disk;
    let used = disk.used_bytes();
    disk.set_capacity(used);
}

/// The store and its three logs: metadata, one that takes the space, one that goes on.
fn start(machine: &mut Machine) -> (ShardStore, [Log; 3]) {
    let (stores, _) = machine.start(1).expect("no crash");
    let logs = [0, 1, 2].map(|number| stores[0].log(log_id(number)).expect("it is there"));
    logs[0].set_config(metadata());
    (stores[0].clone(), logs)
}

fn lengths(machine: &mut Machine, logs: &[Log; 3]) -> [usize; 3] {
    [0, 1, 2].map(|log: usize| machine.read_all(0, &logs[log]).expect("no crash").len())
}

#[test]
fn a_broker_starts_and_deletes_where_no_byte_is_free() {
    let mut machine = Machine::new(1, small);
    let (stores, _) = machine.start(1).expect("no crash");
    let logs = [metadata(), LogConfig::default(), LogConfig::default()];
    let mut number = 0;
    let logs = logs.map(|config| {
        number += 1;
        machine.create(0, &stores[0], number - 1, config).expect("no crash")
    });
    for tag in 0..2000 {
        append(&mut machine, &logs[1], tag, 4000).expect("room");
    }
    append(&mut machine, &logs[0], 0, 500).expect("room");
    append(&mut machine, &logs[2], 0, 500).expect("room");
    fill_disk(&mut machine);
    seconds(&mut machine, 3);
    assert!(matches!(append(&mut machine, &logs[2], 1, 500), Err(AppendError::NoSpace(_))));
    append(&mut machine, &logs[0], 1, 500).expect("a deletion's record, say");

    // Killed, and started again and again, each time with a record or two of metadata.
    for round in 0..5 {
        machine.crash(Crash::PowerLoss);
        let (store, logs) = start(&mut machine);
        append(&mut machine, &logs[0], 10 + round, 500).expect("raised epochs");
        append(&mut machine, &logs[0], 20 + round, 500).expect("raised epochs");
        assert!(matches!(append(&mut machine, &logs[2], 1, 500), Err(AppendError::NoSpace(_))));
        seconds(&mut machine, 90);
        assert_eq!(store.space_state(), SpaceState::Full);
        assert!(logs.iter().all(|log| log.status() == Status::Online), "a full disk is a state, not a failure");
        assert_eq!(lengths(&mut machine, &logs), [4 + 2 * round as usize, 2000, 1]);
        let closing = store.clone();
        // An ordinary end is one, with a last checkpoint or without.
        if round % 2 == 1 {
            let closed = machine.run(0, async move { closing.close().await }).expect("no crash");
            assert!(matches!(closed, Ok(()) | Err(storage::StoreError::DiskFull)), "{closed:?}");
        }
    }

    // What is deleted is room, and it goes on by itself.
    machine.crash(Crash::PowerLoss);
    let (store, logs) = start(&mut machine);
    append(&mut machine, &logs[0], 30, 500).expect("the deletion's record");
    machine.run(0, async move { store.remove_log(log_id(1)).await.expect("a removal needs no room") });
    seconds(&mut machine, 10);
    append(&mut machine, &logs[2], 2, 500).expect("there is room again");
}

/// A file of a megabyte in the trash, or nothing: not even the ballast.
fn prepare(machine: &mut Machine, trash: bool) {
    let shard = machine.shards[0].clone();
    machine.run(0, async move {
        let (data, dir) = (Path::new(world::DATA), Path::new("/data/trash/0-gone"));
        shard.fs().remove(data.join("ballast")).await.expect("made in the first second");
        if trash {
            let options = OpenOptions { write: true, create: true, ..OpenOptions::default() };
            shard.fs().create_dir_all(dir).await.expect("a directory");
            let file = shard.fs().open(dir.join("00000000000000000000.log"), options).await.expect("a file");
            shard.fs().allocate(&file, 0, 1 << 20).await.expect("room");
            file.datasync().await.expect("synced");
            shard.fs().sync_dir(dir).await.expect("synced");
            shard.fs().sync_dir(data.join("trash")).await.expect("synced");
        }
        shard.fs().sync_dir(data).await.expect("synced");
    });
}

#[test]
fn what_the_journal_holds_finds_room_or_the_start_says_that_it_needs_some() {
    for (seed, trash) in [(2, true), (3, false)] {
        let mut machine = Machine::new(seed, |shard| StoreConfig {
            destage_delay: Duration::from_secs(600),
            checkpoint_interval: Duration::from_secs(600),
            ..small(shard)
        });
        let (stores, _) = machine.start(1).expect("no crash");
        let log = machine.create(0, &stores[0], 0, LogConfig::default()).expect("no crash");
        seconds(&mut machine, 2);
        prepare(&mut machine, trash);
        for tag in 0..60 {
            append(&mut machine, &log, tag, 2000).expect("room");
        }
        drop((stores, log));
        machine.crash(Crash::PowerLoss);
        fill_disk(&mut machine);
        if !trash {
            machine.boot(1);
            let error = machine.recover(1).expect("no crash").expect_err("no room");
            assert!(error.to_string().contains("/data/logs/orders/0-") && error.to_string().contains("free space"));
            machine.crash(Crash::PowerLoss);
            machine.world.state().machine(machine.id).disk.set_capacity(world::DISK_BYTES);
        }
        let (stores, _) = machine.start(1).expect("no crash");
        let log = stores[0].log(log_id(0)).expect("it is there");
        assert_eq!(machine.read_all(0, &log).expect("no crash").len(), 60, "nothing was lost");
    }
}
