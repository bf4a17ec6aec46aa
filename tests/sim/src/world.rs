//! The world: many processes of many shards, their disks and their network, in one thread and in virtual time.
//!
//! Each step turns one shard that has something to do, chosen by the seed, or moves time to what is due next. Invariants: only
//! one shard runs at a time; time never goes back; a step in which nothing can ever happen again is a failure (deadlock).

use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Random};
use shard::driver::Driver;
use shard::{Shard, ShardOptions, Turn};

use crate::host::{Aborted, SimHost};
use crate::io::{Crash, Job};
use crate::seat::{MachineId, Seat};
use crate::state::State;

/// Why a run failed.
#[derive(Debug)]
pub enum Failure {
    /// Code under test broke its own invariant.
    Panic(String),
    /// Nothing can run and nothing is due, yet the run is not done.
    Deadlock(String),
    /// Much virtual time passed without the run getting done.
    Stuck(String),
    /// A rule of the simulated machine was broken.
    Violation(String),
    /// A promise was broken.
    Judged(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(text) => write!(f, "panic: {text}"),
            Self::Deadlock(text) => write!(f, "deadlock: {text}"),
            Self::Stuck(text) => write!(f, "stuck: {text}"),
            Self::Violation(text) => write!(f, "violation: {text}"),
            Self::Judged(text) => write!(f, "broken promise: {text}"),
        }
    }
}

/// Virtual time in which a network that was cut must heal: far more than it ever takes.
const DISTURBED_LIMIT: Duration = Duration::from_secs(600);

/// A process that ended itself ([`shard::driver::Host::abort`]).
#[derive(Clone, Debug)]
pub struct Abort {
    pub machine: MachineId,
    pub reason: String,
}

/// When a machine's process is to be ended.
#[derive(Clone, Copy, Debug)]
struct Doom {
    machine: MachineId,
    after_disk_ops: u64,
    how: Crash,
}

pub struct World {
    state: Rc<RefCell<State>>,
    living: Vec<(Seat, Shard)>,
    doom: Vec<Doom>,
    aborts: Vec<Abort>,
    crashes: u64,
    turns: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            state: Rc::new(RefCell::new(State::new(seed))),
            living: Vec::new(),
            doom: Vec::new(),
            aborts: Vec::new(),
            crashes: 0,
            turns: 0,
        }
    }

    pub fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub fn now(&self) -> Instant {
        self.state.borrow().now
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// A machine with an empty disk, and nothing running.
    pub fn add_machine(&mut self, disk_bytes: u64) -> MachineId {
        self.state().add_machine(disk_bytes)
    }

    /// Starts a machine's process: shards with nothing to do yet.
    pub fn boot(
        &mut self,
        machine: MachineId,
        shards: u16,
        mut options: impl FnMut(Seat) -> ShardOptions,
    ) -> Vec<Shard> {
        let seats = self.state().start(machine, shards);
        let start = |seat: Seat| {
            let host = SimHost::new(seat, self.state.clone());
            (seat, Shard::new(options(seat), Driver::Hosted(Box::new(host))))
        };
        let started: Vec<(Seat, Shard)> = seats.into_iter().map(start).collect();
        let shards = started.iter().map(|(_, shard)| shard.clone()).collect();
        self.living.extend(started);
        shards
    }

    pub fn is_up(&self, machine: MachineId) -> bool {
        self.state().machine(machine).up
    }

    /// Tasks were spawned from outside: all shards of the machine get a turn.
    pub fn nudge(&mut self, machine: MachineId) {
        for slot in &mut self.state().machine(machine).slots {
            slot.runnable = true;
        }
    }

    /// Ends the machine's process once that many more disk operations were asked for.
    pub fn crash_after(&mut self, machine: MachineId, disk_ops: u64, how: Crash) {
        let after_disk_ops = self.state().machine(machine).disk_ops + disk_ops;
        self.doom.push(Doom { machine, after_disk_ops, how });
    }

    /// A connection of the clients is reset, or they and the broker are cut off from each other for less than `heals_within_ms`; or neither.
    /// `hit` is told what.
    ///
    /// # Errors
    /// What went wrong meanwhile; the two are not cut off then either.
    pub fn disturb_network(
        &mut self,
        random: &mut Random,
        (broker, clients): (MachineId, MachineId),
        heals_within_ms: u64,
        mut hit: impl FnMut(&'static str),
    ) -> Result<(), Failure> {
        if random.chance(1, 2) {
            let (mut effects, now) = (crate::net::Effects::default(), self.now());
            if self.state().net.reset_one(clients, now, &mut effects) {
                hit("connection reset");
            }
            self.state().settle(effects);
        } else if random.chance(1, 3) {
            hit("partitioned network");
            self.state().net.set_cut(broker, clients, true);
            let healed = self.now() + Duration::from_millis(random.below(heals_within_ms));
            let outcome = self.run_until(DISTURBED_LIMIT, |world| world.now() >= healed || !world.is_up(broker));
            self.state().net.set_cut(broker, clients, false);
            outcome?;
        }
        Ok(())
    }

    /// Forgets a crash that did not come to pass.
    pub fn spare(&mut self, machine: MachineId) {
        self.doom.retain(|doom| doom.machine != machine);
    }

    /// Ends the process of a machine, all shards at once, whatever they are doing.
    pub fn crash(&mut self, machine: MachineId, how: Crash) {
        let in_flight = self.state().crash(machine, how);
        drop(in_flight);
        self.spare(machine);
        self.crashes += 1;
        let (gone, living) =
            std::mem::take(&mut self.living).into_iter().partition(|(seat, _)| seat.machine == machine);
        self.living = living;
        for (_, shard) in gone {
            shard.shutdown();
        }
    }

    /// The processes that ended themselves since the last call.
    pub fn take_aborts(&mut self) -> Vec<Abort> {
        std::mem::take(&mut self.aborts)
    }

    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Runs until `done`; fails when that cannot happen any more, or not within `limit` of virtual time.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> Result<(), Failure> {
        let end = self.now() + limit;
        while !done(self) {
            if !self.step()? {
                return Err(Failure::Deadlock(self.dump()));
            }
            if self.now() > end {
                return Err(Failure::Stuck(self.dump()));
            }
        }
        Ok(())
    }

    /// One step; `false` when nothing will ever happen again.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.fire_due();
        let doomed = {
            let state = self.state.borrow();
            let is_due = |doom: &&Doom| {
                let machine = &state.machines[doom.machine.0 as usize];
                machine.up && machine.disk_ops >= doom.after_disk_ops
            };
            self.doom.iter().find(is_due).copied()
        };
        if let Some(doom) = doomed {
            self.crash(doom.machine, doom.how);
        }
        match self.choose() {
            Some(index) => self.turn(index)?,
            None => match self.next_event() {
                Some(at) => self.state().advance_to(at),
                None => return Ok(doomed.is_some()),
            },
        }
        match self.state().violation.take() {
            Some(what) => Err(Failure::Violation(what)),
            None => Ok(true),
        }
    }

    fn fire_due(&mut self) {
        loop {
            let job = self.state().take_due();
            match job {
                None => return,
                Some(Job::Disk(job)) => {
                    let held = self.state().finish(job);
                    drop(held);
                }
                Some(Job::Net(event)) => {
                    self.state().with_net(|net, now, effects| net.fire(event, now, effects));
                }
                Some(Job::Offload { ticket, work }) => {
                    // It runs code under test, which may come back to the state.
                    (work.0)();
                    self.state().complete(ticket, Ok(shard::driver::Outcome::Done));
                }
            }
        }
    }

    /// One of the shards that can run, by chance.
    fn choose(&mut self) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let now = state.now;
        let mut ready = [0usize; 64];
        let mut count = 0;
        for (index, (seat, shard)) in self.living.iter().enumerate() {
            let slot = state.slot(*seat).expect("living shards have a slot");
            let is_due = slot.runnable || slot.until.is_some_and(|until| until <= now) || shard.is_notified();
            if is_due && count < ready.len() {
                ready[count] = index;
                count += 1;
            }
        }
        (count > 0).then(|| ready[state.random.below(count as u64) as usize])
    }

    fn next_event(&mut self) -> Option<Instant> {
        let mut state = self.state.borrow_mut();
        let timers = self.living.iter().filter_map(|(seat, _)| state.slot(*seat).and_then(|slot| slot.until)).min();
        match (state.next_due(), timers) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn turn(&mut self, index: usize) -> Result<(), Failure> {
        let (seat, shard) = self.living[index].clone();
        self.turns += 1;
        {
            let mut state = self.state();
            let now = state.now;
            state.trace.turn(now, seat);
            state.slot(seat).expect("chosen among the living").runnable = false;
        }
        let result = catch_unwind(AssertUnwindSafe(|| shard.turn()));
        let mut state = self.state.borrow_mut();
        // What a turn costs a core.
        let cost = 300 + state.random.below(12_000);
        state.now = state.now + Duration::from_nanos(cost);
        match result {
            Ok(Turn::Busy) => {
                if let Some(slot) = state.slot(seat) {
                    slot.runnable = true;
                }
                Ok(())
            }
            Ok(Turn::Idle { until }) => {
                if let Some(slot) = state.slot(seat) {
                    slot.until = until;
                }
                Ok(())
            }
            Err(payload) => {
                drop(state);
                self.ended(seat, payload)
            }
        }
    }

    /// A turn did not come back.
    fn ended(&mut self, seat: Seat, payload: Box<dyn Any + Send>) -> Result<(), Failure> {
        match payload.downcast::<Aborted>() {
            Ok(aborted) => {
                let abort = Abort { machine: seat.machine, reason: aborted.reason };
                self.state().register.hit("process aborted itself");
                self.aborts.push(abort);
                self.crash(seat.machine, Crash::Kill);
                Ok(())
            }
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Err(Failure::Panic(format!("shard {}: {}", seat.shard, text.unwrap_or_default())))
            }
        }
    }

    /// Where everything stands, for a failure's report.
    pub fn dump(&self) -> String {
        let mut state = self.state.borrow_mut();
        let mut text = format!("at {} ns after {} turns;", state.now.0, self.turns);
        for (seat, _) in &self.living {
            if let Some(slot) = state.slot(*seat) {
                text += &format!(" {}.{}: until {:?};", seat.machine.0, seat.shard, slot.until.map(|at| at.0));
            }
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for (_, shard) in std::mem::take(&mut self.living) {
            shard.shutdown();
        }
    }
}
