//! Crash tests of the log: stores on up to four shards under pipelining producers, crashed at any operation, recovered on any
//! number of shards, with full disks and failing ones.
//!
//! What must hold, at every recovery and every read: see `sim::judge`.

mod model;
mod session;
mod work;

use std::cell::RefCell;
use std::rc::Rc;

use base::Random;
use sim::faults::DiskFaults;
use sim::io::Crash;
use sim::runner::{Report, Simulation, check_determinism, run_all};
use sim::seat::MachineId;
use sim::world::{Failure, World};

use model::Model;
use session::{Ended, Session, SharedModel, start};

const DISK_BYTES: u64 = 256 << 20;
const OPERATIONS: u64 = 2_000;

/// What every run of all seeds must have met.
const MUST_MEET: &[&str] = &[
    "crash: kill",
    "crash: power loss",
    "crash: torn page",
    "crash: lost page",
    "crash: lost name",
    "crash: write in flight torn",
    "crash in recovery",
    "crash in recovery, twice",
    "restart with more shards",
    "restart with fewer shards",
    "closed cleanly",
    "duplicate answered",
    "gap refused",
    "truncated",
    "removed",
    "recovery: unacknowledged changes kept",
    "recovery: unacknowledged changes lost",
];

const STORE: Simulation = Simulation { name: "store", run: run_store, must_meet: MUST_MEET, fresh_seeds: 200 };

/// One seed: several runs of one process, on one disk.
fn run_store(world: &mut World, report: &mut Report, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed ^ 0x5a17);
    let machine = world.add_machine(DISK_BYTES);
    let model: SharedModel = Rc::new(RefCell::new(Model::new(random.fork())));
    let rounds = 3 + random.below(3);
    let mut shards = 4;
    let mut result = Ok(());
    for round in 0..rounds {
        let last = round + 1 == rounds;
        result = run_round(world, &mut random, machine, &model, shards, OPERATIONS / rounds, last);
        if result.is_err() {
            break;
        }
        let next = 1 + random.below(4) as u16;
        let register = &mut model.borrow_mut().register;
        match next.cmp(&shards) {
            std::cmp::Ordering::Greater => register.hit("restart with more shards"),
            std::cmp::Ordering::Less => register.hit("restart with fewer shards"),
            std::cmp::Ordering::Equal => {}
        }
        shards = next;
    }
    report.operations = model.borrow().operations;
    report.register.merge(&model.borrow().register);
    result
}

fn run_round(
    world: &mut World,
    random: &mut Random,
    machine: MachineId,
    model: &SharedModel,
    shards: u16,
    operations: u64,
    last: bool,
) -> Result<(), Failure> {
    let session = recover(world, random, machine, model, shards)?;
    let how = crash_kind(random);
    // Most rounds end in a crash at some operation of the disk; a few go on until the clients are done.
    let crash_at = 20 + random.below(1 + operations * 2);
    if !last && random.chance(7, 8) {
        world.crash_after(machine, crash_at, how);
    }
    match session.work(world, model, operations)? {
        Ended::Crashed => {}
        Ended::Done(()) if random.chance(1, 2) => {
            world.spare(machine);
            session.close(world)?;
            model.borrow_mut().register.hit("closed cleanly");
            world.crash(machine, how);
        }
        Ended::Done(()) => world.crash(machine, how),
    }
    model.borrow_mut().process_ended();
    if last {
        world.state().machine(machine).faults = DiskFaults::default();
        let session = recover(world, random, machine, model, shards)?;
        session.close(world)?;
    }
    Ok(())
}

fn crash_kind(random: &mut Random) -> Crash {
    if random.chance(1, 3) { Crash::Kill } else { Crash::PowerLoss }
}

/// Starts the process until a recovery comes through; it may be crashed on the way, more than once.
fn recover(
    world: &mut World,
    random: &mut Random,
    machine: MachineId,
    model: &SharedModel,
    shards: u16,
) -> Result<Session, Failure> {
    let mut crashes = [0, 0, 1, 2][random.below(4) as usize];
    let mut crashed = 0;
    loop {
        let (at, how) = (1 + random.below(200), crash_kind(random));
        let crash = |world: &mut World| {
            if crashes > 0 {
                world.crash_after(machine, at, how);
            }
        };
        match start(world, machine, shards, crash, model)? {
            Ended::Crashed => {
                crashes -= 1;
                crashed += 1;
                model.borrow_mut().register.hit(if crashed > 1 {
                    "crash in recovery, twice"
                } else {
                    "crash in recovery"
                });
            }
            Ended::Done(Ok(session)) => {
                world.spare(machine);
                return Ok(session);
            }
            Ended::Done(Err(error)) => return Err(Failure::Judged(format!("recovery failed: {error}"))),
        }
    }
}

#[test]
fn seeds() {
    run_all(&STORE, include_str!("../../pinned_seeds.txt"));
}

#[test]
fn one_seed_has_one_history() {
    check_determinism(&STORE, 1..4);
}
