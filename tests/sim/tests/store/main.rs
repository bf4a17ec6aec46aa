//! Crash tests of the log: stores on up to four shards under pipelining producers, crashed at any operation, recovered on any
//! number of shards, with full disks and failing ones.
//!
//! What must hold, at every recovery and every read: see `sim::judge`.

mod changes;
mod model;
mod moves;
mod rot;
mod session;
mod weather;
mod work;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use base::Random;
use sim::io::Crash;
use sim::runner::{Report, Simulation, check_determinism, run_all};
use sim::seat::MachineId;
use sim::world::{Failure, World};

use model::Model;
use session::{Ended, Session, SharedModel, Start, start};
use weather::Weather;

const DISK_BYTES: u64 = 256 << 20;
/// At least so many operations of clients in each seed.
const OPERATIONS: u64 = 2_000;

/// What every run of all seeds must have met.
const MUST_MEET: &[&str] = &[
    "append refused: disk full",
    "append refused: disk full, and journal full",
    "append refused: journal full",
    "append refused: log offline",
    "appends pipelined",
    "closed cleanly",
    "compaction: a compacted log recovered",
    "compaction: batches emptied",
    "compaction: records gone",
    "compaction: tombstones gone",
    "crash in recovery",
    "crash in recovery, twice",
    "crash with a move open",
    "crash with a moved log not forgotten",
    "crash with a moved log not forgotten, and appended to since",
    "crash with a topic removed and created again in the journal",
    "crash: kill",
    "crash: lost length",
    "crash: lost name",
    "crash: lost page",
    "crash: power loss",
    "crash: torn page",
    "crash: write in flight kept",
    "crash: write in flight torn",
    "disk full: taken up again",
    "disk: EIO on read",
    "disk: EIO on sync",
    "disk: EIO on write",
    "disk: full",
    "disk: stall",
    "duplicate answered",
    "durability: disk",
    "durability: replicas",
    "gap refused",
    "hand-over refused: disk full",
    "move refused: not forgotten there",
    "move taken back",
    "moved back to a shard",
    "moved between shards",
    "moved log forgotten",
    "process aborted itself",
    "read refused: files failed",
    "recovery: adopted epochs replayed",
    "recovery: appends apart replayed",
    "recovery: appends replayed",
    "recovery: block prefixes restored",
    "recovery: commits of earlier generations passed over",
    "recovery: compactions replayed",
    "recovery: creations replayed",
    "recovery: damaged commits passed over",
    "recovery: files trashed",
    "recovery: logs moved to another shard",
    "recovery: moved starts replayed",
    "recovery: placements replayed",
    "recovery: removals replayed",
    "recovery: rolled segments replayed",
    "recovery: second manifest copy won",
    "recovery: stale claims ignored",
    "recovery: truncations replayed",
    "recovery: unacknowledged changes kept",
    "recovery: unacknowledged changes lost",
    "recovery: unknown logs trashed",
    "removed",
    "removed after a move",
    "restart with fewer shards",
    "restart with more shards",
    "rot: a read was refused",
    "rot: survived",
    "rot: the start stopped",
    "round on four shards",
    "truncated",
    "truncated, then a batch of the same length",
    "weather: clock set",
];

const STORE: Simulation =
    Simulation { name: "store", run: run_store, must_meet: MUST_MEET, fresh_seeds: 200, operations_min: OPERATIONS };

/// One seed: several runs of one process, on one disk.
fn run_store(world: &mut World, report: &mut Report, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed ^ 0x5a17);
    let machine = world.add_machine(DISK_BYTES);
    let model: SharedModel = Rc::new(RefCell::new(Model::new(random.fork())));
    let durable = model.borrow().setup.is_durable();
    model.borrow_mut().register.hit(if durable { "durability: disk" } else { "durability: replicas" });
    let result = Run { world, random, machine, model: model.clone() }.all_rounds();
    report.operations = model.borrow().operations;
    report.register.merge(&model.borrow().register);
    result
}

struct Run<'a> {
    world: &'a mut World,
    random: Random,
    machine: MachineId,
    model: SharedModel,
}

impl Run<'_> {
    fn all_rounds(&mut self) -> Result<(), Failure> {
        let operations = OPERATIONS / (2 + self.random.below(4));
        let mut shards = 4;
        while self.model.borrow().operations < OPERATIONS {
            self.round(shards, operations)?;
            let next = 1 + self.random.below(4) as u16;
            match next.cmp(&shards) {
                Ordering::Greater => self.hit("restart with more shards"),
                Ordering::Less => self.hit("restart with fewer shards"),
                Ordering::Equal => {}
            }
            shards = next;
        }
        self.calm();
        if self.random.chance(1, 2) {
            return rot::check(self.world, &mut self.random, self.machine, &self.model, shards);
        }
        let session = self.recover(shards)?;
        session.close(self.world)?;
        Ok(())
    }

    fn hit(&self, name: &'static str) {
        self.model.borrow_mut().register.hit(name);
    }

    fn calm(&mut self) {
        Weather::Calm.set(self.world, self.machine, &self.model);
    }

    fn crash_kind(&mut self) -> Crash {
        let only_kill = {
            let model = self.model.borrow();
            model.keeps_appends && !model.setup.is_durable()
        };
        if only_kill { Crash::Kill } else { Crash::drawn(&mut self.random) }
    }

    /// One run of the process, from its start to its end.
    fn round(&mut self, shards: u16, operations: u64) -> Result<(), Failure> {
        let session = self.recover(shards)?;
        if shards == 4 {
            self.hit("round on four shards");
        }
        let how = self.crash_kind();
        // Most rounds end in a crash at some operation of the disk; a few go on until the clients are done.
        let crash_at = 20 + self.random.below(1 + operations * 2);
        if self.random.chance(7, 8) {
            self.world.crash_after(self.machine, crash_at, how);
        }
        let forecast = weather::forecast(&mut self.random, operations);
        match session.work(self.world, &self.model, operations, &forecast)? {
            Ended::Crashed => {}
            Ended::Done(()) => {
                self.world.spare(self.machine);
                if self.random.chance(1, 2) && !self.model.borrow().faulty {
                    session.close(self.world)?;
                    self.hit("closed cleanly");
                }
                self.world.crash(self.machine, how);
            }
        }
        self.model.borrow_mut().process_ended();
        Ok(())
    }

    /// Starts the process until a recovery comes through; it may be crashed on the way, more than once, and what failed may fail on.
    fn recover(&mut self, shards: u16) -> Result<Session, Failure> {
        let mut crashes = [0, 0, 1, 2, 3][self.random.below(5) as usize];
        let mut crashed = 0;
        let mut weather = if self.random.chance(1, 3) { Start::BadWeather } else { Start::Sound };
        loop {
            if weather == Start::Sound {
                self.calm();
            }
            let (at, how, machine) = (1 + self.random.below(150), self.crash_kind(), self.machine);
            let crash = |world: &mut World| {
                if crashes > 0 {
                    world.crash_after(machine, at, how);
                }
            };
            match start(self.world, machine, shards, crash, &self.model, weather)? {
                Ended::Crashed => {
                    crashes = (crashes - 1).max(0);
                    crashed += 1;
                    self.hit(if crashed > 1 { "crash in recovery, twice" } else { "crash in recovery" });
                    weather = Start::Sound;
                }
                Ended::Done(Ok(session)) => {
                    self.world.spare(machine);
                    self.model.borrow_mut().process_ended();
                    return Ok(session);
                }
                Ended::Done(Err(_)) if weather == Start::BadWeather => {
                    self.hit("recovery refused: files failed, or the disk was full");
                    self.world.crash(machine, how);
                    weather = Start::Sound;
                }
                Ended::Done(Err(why)) => return Err(Failure::Judged(why)),
            }
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
