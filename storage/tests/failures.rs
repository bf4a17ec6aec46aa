//! A store whose files fail: what goes offline, what stops the process, what stops the start.

mod world;

use sim::faults::DiskFaults;
use sim::io::Crash;
use storage::{AppendError, Log, LogConfig, RecoverError, ShardStore, Status};
use world::{Machine, batch, log_id, options, small};

/// Appends until `count` more batches are acknowledged.
fn append(machine: &mut Machine, log: &Log, tags: std::ops::Range<u64>) {
    for tag in tags {
        let appended = loop {
            match log.append(&batch(tag, 1, 2000, None), options(0)) {
                Ok(appended) => break appended,
                Err(AppendError::Backpressure) => {
                    let room = log.room();
                    machine.run(0, room).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        };
        machine.run(0, appended.durable).unwrap().unwrap();
    }
}

fn set_faults(machine: &mut Machine, faults: DiskFaults) {
    let id = machine.id;
    machine.world.state().machine(id).faults = faults;
}

fn only(path: &'static str) -> DiskFaults {
    DiskFaults { write_error_ppm: 1_000_000, only: path, ..DiskFaults::default() }
}

fn checkpoint(machine: &mut Machine, store: &ShardStore) {
    let store = store.clone();
    machine.run(0, async move { store.checkpoint().await.unwrap() }).unwrap();
}

fn two_logs(machine: &mut Machine) -> (ShardStore, Log, Log) {
    let (stores, _) = machine.start(1).unwrap();
    let config = LogConfig { segment_bytes: 20_000, ..LogConfig::default() };
    let good = machine.create(0, &stores[0], 0, config.clone()).unwrap();
    let bad = machine.create(0, &stores[0], 1, config).unwrap();
    (stores[0].clone(), good, bad)
}

#[test]
fn a_bad_file_takes_its_log_offline_and_loses_nothing() {
    for (seed, checkpointed) in [(1, false), (2, true)] {
        let mut machine = Machine::new(seed, small);
        let (store, good, bad) = two_logs(&mut machine);
        append(&mut machine, &bad, 0..20);
        if checkpointed {
            checkpoint(&mut machine, &store);
        }
        set_faults(&mut machine, only("/logs/orders/1-"));
        append(&mut machine, &bad, 20..40);
        checkpoint(&mut machine, &store);
        assert_eq!(bad.status(), Status::Offline);
        assert!(matches!(bad.append(&batch(99, 1, 10, None), options(0)), Err(AppendError::Offline)));
        // The journal goes round many times; what it held of the bad log must be elsewhere by then.
        append(&mut machine, &good, 0..600);
        let before = machine.read_all(0, &good).unwrap();
        assert_eq!(before.len(), 600);

        for _ in 0..2 {
            machine.crash(Crash::PowerLoss);
            let (stores, recovered) = machine.start(1).unwrap();
            assert_eq!(recovered.report.logs_offline, 1);
            let (good, bad) = (stores[0].log(log_id(0)).unwrap(), stores[0].log(log_id(1)).unwrap());
            assert_eq!(bad.status(), Status::Offline, "its files are still bad");
            assert_eq!(machine.read_all(0, &good).unwrap(), before);
        }
        machine.crash(Crash::PowerLoss);
        set_faults(&mut machine, DiskFaults::default());
        let (stores, _) = machine.start(1).unwrap();
        let bad = stores[0].log(log_id(1)).unwrap();
        assert_eq!((bad.status(), bad.end_offset().0), (Status::Online, 40));
        assert_eq!(machine.read_all(0, &bad).unwrap().len(), 40);
        append(&mut machine, &bad, 40..50);
        machine.crash(Crash::PowerLoss);
        let (stores, _) = machine.start(1).unwrap();
        assert_eq!(stores[0].log(log_id(1)).unwrap().end_offset().0, 50);
    }
}

#[test]
fn a_file_that_fails_at_the_start_takes_its_log_offline_too() {
    let mut machine = Machine::new(3, small);
    let (_, good, bad) = two_logs(&mut machine);
    append(&mut machine, &bad, 0..20);
    append(&mut machine, &good, 0..20);
    machine.crash(Crash::PowerLoss);
    set_faults(&mut machine, only("/logs/orders/1-"));
    let (stores, recovered) = machine.start(1).unwrap();
    assert_eq!(recovered.report.logs_offline, 1);
    let good = stores[0].log(log_id(0)).unwrap();
    append(&mut machine, &good, 20..400);
    machine.crash(Crash::PowerLoss);
    set_faults(&mut machine, DiskFaults::default());
    let (stores, _) = machine.start(1).unwrap();
    let ends = [0, 1].map(|number| stores[0].log(log_id(number)).unwrap().end_offset().0);
    assert_eq!(ends, [400, 20]);
}

#[test]
fn a_journal_that_fails_ends_the_process() {
    let mut machine = Machine::new(4, small);
    let (_, good, _) = two_logs(&mut machine);
    append(&mut machine, &good, 0..5);
    set_faults(&mut machine, only("/journal-"));
    let appended = good.append(&batch(5, 1, 2000, None), options(0)).unwrap();
    assert!(machine.run(0, appended.durable).is_none());
    let aborts = machine.world.take_aborts();
    assert!(aborts[0].reason.contains("journal"), "{}", aborts[0].reason);
    machine.shards.clear();
    set_faults(&mut machine, DiskFaults::default());
    let (stores, _) = machine.start(1).unwrap();
    assert!(stores[0].log(log_id(0)).unwrap().end_offset().0 >= 5);
}

#[test]
fn rot_in_the_journal_stops_the_start_and_says_where() {
    let mut machine = Machine::new(5, small);
    let (_, good, _) = two_logs(&mut machine);
    append(&mut machine, &good, 0..10);
    machine.crash(Crash::PowerLoss);
    // The third commit: two creations come first.
    flip(&mut machine, "journal-0", 2 * 4096 + 500);
    machine.boot(1);
    match machine.recover(1).unwrap() {
        Err(RecoverError::JournalRot { path, rot }) => {
            assert!(path.ends_with("journal-0"));
            assert_eq!((rot.file, rot.offset), (0, 2 * 4096));
        }
        other => panic!("{other:?}"),
    }
}

/// Flips a bit of a file in the directory of shard 0.
fn flip(machine: &mut Machine, name: &str, offset: u64) {
    let id = machine.id;
    let mut state = machine.world.state();
    let disk = &mut state.machine(id).disk;
    let (_, file) = disk.files().into_iter().find(|(path, _)| path.ends_with(&format!("/shards/0/{name}"))).unwrap();
    assert!(disk.flip_bit(file, offset, 3));
}

/// Bits of manifest copies, whether commits follow that know of the newest, and where the start must say that it stops. The first
/// checkpoint after a start is written over copy a.
#[test]
fn a_damaged_manifest_stops_the_start_or_costs_nothing() {
    let (newest, older) = ("manifest-a", "manifest-b");
    for (name, flips, journal_goes_on, stops_at) in [
        ("the newest, its journal is freed: the head", &[(newest, 20)][..], true, &[(newest, 0)][..]),
        ("the newest, its journal is freed: a record", &[(newest, 4096 + 9)], true, &[(newest, 4096)]),
        ("the newest, and the journal has all of it still", &[(newest, 20)], false, &[]),
        ("the older one", &[(older, 20)], true, &[]),
        ("both", &[(newest, 4096 + 9), (older, 20)], true, &[(newest, 4096), (older, 0)]),
        ("both, and the journal has all of it still", &[(newest, 20), (older, 20)], false, &[(newest, 0), (older, 0)]),
    ] {
        let mut machine = Machine::new(6, small);
        let (store, good, _) = two_logs(&mut machine);
        append(&mut machine, &good, 0..10);
        checkpoint(&mut machine, &store);
        let acknowledged = if journal_goes_on { 20 } else { 10 };
        append(&mut machine, &good, 10..acknowledged);
        machine.crash(Crash::PowerLoss);
        for &(copy, offset) in flips {
            flip(&mut machine, copy, offset);
        }
        machine.boot(1);
        let found = machine.recover(1).unwrap();
        match found {
            Err(error) if !stops_at.is_empty() => {
                let said = error.to_string();
                for (file, offset) in stops_at {
                    let place = format!("/data/shards/0/{file} is damaged at offset {offset}");
                    assert!(said.contains(&place) && said.contains("restore"), "{name}: {said}");
                }
            }
            Ok(mut recovered) if stops_at.is_empty() => {
                let store = machine.open(0, recovered.shards.remove(0)).unwrap();
                let log = store.log(log_id(0)).unwrap();
                assert_eq!(machine.read_all(0, &log).unwrap().len() as u64, acknowledged, "{name}");
            }
            found => panic!("{name}: {found:?}"),
        }
    }
}

#[test]
fn a_full_disk_refuses_appends_and_opens_by_itself() {
    let mut machine = Machine::new(7, small);
    let (store, good, other) = two_logs(&mut machine);
    append(&mut machine, &other, 0..200);
    checkpoint(&mut machine, &store);
    let id = machine.id;
    // Room for some more, and then none: what is acknowledged must still fit.
    let used = machine.world.state().machine(id).disk.used_bytes();
    machine.world.state().machine(id).disk.set_capacity(used + (2 << 20));
    let shard = machine.shards[0].clone();
    machine.run(0, async move { shard.sleep(std::time::Duration::from_secs(3)).await });
    let mut tag = 1000;
    let refused = loop {
        match good.append(&batch(tag, 1, 3000, None), options(0)) {
            Ok(appended) => {
                machine.run(0, appended.durable).unwrap().unwrap();
                tag += 1;
            }
            Err(AppendError::Backpressure) => {
                let room = good.room();
                machine.run(0, room).unwrap();
            }
            Err(error) => break error,
        }
        assert!(tag < 3000, "the disk never fills");
    };
    assert!(matches!(refused, AppendError::NoSpace(_)), "{refused}");
    assert_eq!(store.space_state(), storage::SpaceState::Full);
    assert_eq!((good.status(), other.status()), (Status::Online, Status::Online));
    let end = good.end_offset();

    // Nothing that was acknowledged is lost on a full disk, across a start too.
    machine.crash(Crash::PowerLoss);
    let (stores, _) = machine.start(1).unwrap();
    let (good, other) = (stores[0].log(log_id(0)).unwrap(), stores[0].log(log_id(1)).unwrap());
    assert_eq!(good.end_offset(), end);
    assert_eq!(machine.read_all(0, &good).unwrap().len() as i64, end.0);

    // Deleting makes room, and appends are taken again without anybody's help.
    let (all, task) = (other.end_offset(), other.clone());
    machine.run(0, async move { task.advance_start(all).await.unwrap() }).unwrap();
    machine.world.state().machine(id).disk.set_capacity(used + (8 << 20));
    let mut opened = false;
    for _ in 0..20 {
        let shard = machine.shards[0].clone();
        machine.run(0, async move { shard.sleep(std::time::Duration::from_secs(1)).await });
        opened |= good.append(&batch(9999, 1, 100, None), options(0)).is_ok();
    }
    assert!(opened);
}
