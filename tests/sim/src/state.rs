//! What the world knows: its time, what is due, and its machines. Shared by the hosts of all shards, in one thread.
//!
//! Invariants: every operation of a living shard ends exactly once; what an ended run asked for is never answered; with one
//! seed, everything here happens in the same order with the same values, which the trace's hash shows.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base::{Instant, Random, ShardId};
use shard::driver::{Completion, Outcome};

use crate::clock::Clock;
use crate::disk::{Disk, Inode};
use crate::faults::{DiskFaults, Register};
use crate::io::Job;
use crate::net::{Effects, Net};
use crate::seat::{MachineId, Seat, Ticket};
use crate::trace::Trace;

/// One machine: what outlives its process (disk, clock), and what does not.
pub struct Machine {
    pub disk: Disk,
    pub clock: Clock,
    pub faults: DiskFaults,
    pub run: u32,
    pub up: bool,
    pub handles: Vec<Option<Handle>>,
    pub locks: BTreeSet<PathBuf>,
    pub slots: Vec<Slot>,
    /// Operations that reached the disk in this run.
    pub disk_ops: u64,
}

/// A file held open by a shard.
#[derive(Clone)]
pub struct Handle {
    pub inode: Inode,
    pub shard: ShardId,
    pub direct: bool,
    pub write: bool,
    pub path: String,
}

/// What the world keeps for one living shard.
pub struct Slot {
    pub done: Vec<Completion>,
    pub runnable: bool,
    /// When it wants to run, though nothing happens.
    pub until: Option<Instant>,
    /// When the janitor is through with what this shard asked it for.
    pub janitor_free: Instant,
    pub random: Random,
}

pub struct State {
    pub now: Instant,
    pub random: Random,
    pub machines: Vec<Machine>,
    pub net: Net,
    pub trace: Trace,
    pub register: Register,
    /// A rule of the world was broken by the code under test: the run has failed.
    pub violation: Option<String>,
    due: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    jobs: Vec<Option<Job>>,
    free_jobs: Vec<u32>,
    order: u64,
}

impl State {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            now: Instant(0),
            net: Net::new(random.fork()),
            random,
            machines: Vec::new(),
            trace: Trace::default(),
            register: Register::default(),
            violation: None,
            due: BinaryHeap::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            order: 0,
        }
    }

    pub fn add_machine(&mut self, disk_bytes: u64) -> MachineId {
        let clock = Clock::new(&mut self.random);
        self.machines.push(Machine {
            disk: Disk::new(disk_bytes),
            clock,
            faults: DiskFaults::default(),
            run: 0,
            up: false,
            handles: Vec::new(),
            locks: BTreeSet::new(),
            slots: Vec::new(),
            disk_ops: 0,
        });
        MachineId(self.machines.len() as u16 - 1)
    }

    pub fn machine(&mut self, id: MachineId) -> &mut Machine {
        &mut self.machines[id.0 as usize]
    }

    /// A new run of the machine's process, with that many shards.
    pub fn start(&mut self, id: MachineId, shards: u16) -> Vec<Seat> {
        let now = self.now;
        let mut random = self.random.fork();
        let machine = self.machine(id);
        assert!(!machine.up, "one process at a time");
        machine.up = true;
        machine.run += 1;
        machine.disk_ops = 0;
        let slot = |_| Slot { done: Vec::new(), runnable: true, until: None, janitor_free: now, random: random.fork() };
        machine.slots = (0..shards).map(slot).collect();
        let run = machine.run;
        (0..shards).map(|shard| Seat { machine: id, run, shard: ShardId(shard) }).collect()
    }

    pub fn is_live(&self, seat: Seat) -> bool {
        let machine = &self.machines[seat.machine.0 as usize];
        machine.up && machine.run == seat.run
    }

    pub fn slot(&mut self, seat: Seat) -> Option<&mut Slot> {
        if !self.is_live(seat) {
            return None;
        }
        self.machine(seat.machine).slots.get_mut(seat.shard.0 as usize)
    }

    // ---- what is due

    pub fn schedule(&mut self, at: Instant, job: Job) {
        let index = match self.free_jobs.pop() {
            Some(index) => index,
            None => {
                self.jobs.push(None);
                self.jobs.len() as u32 - 1
            }
        };
        self.jobs[index as usize] = Some(job);
        self.order += 1;
        // Equal times are rare, and ordered by chance rather than by arrival.
        let tie = self.random.next_u64() << 32 | self.order & 0xffff_ffff;
        self.due.push(Reverse((at, tie, index)));
    }

    pub fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, _, index))) = self.due.peek() {
            if self.jobs[*index as usize].is_some() {
                return Some(*at);
            }
            self.free_jobs.push(*index);
            self.due.pop();
        }
        None
    }

    /// The next job whose time has come.
    pub fn take_due(&mut self) -> Option<Job> {
        if self.next_due()? > self.now {
            return None;
        }
        let Reverse((_, _, index)) = self.due.pop().expect("peeked just now");
        self.free_jobs.push(index);
        self.jobs[index as usize].take()
    }

    /// Everything in flight for a machine's process, in the order it was asked for at the latest.
    pub fn take_jobs_of(&mut self, machine: MachineId) -> Vec<Job> {
        let mine = |job: &Option<Job>| job.as_ref().and_then(Job::machine) == Some(machine);
        self.jobs.iter_mut().filter(|job| mine(job)).filter_map(Option::take).collect()
    }

    // ---- ends

    /// Hands an operation's end to its shard, if that still lives. What it carried comes back otherwise, to be dropped by the
    /// caller when the state is no longer borrowed.
    pub fn complete(&mut self, ticket: Ticket, result: io::Result<Outcome>) {
        self.trace.end(self.now, ticket, &result);
        if let Some(slot) = self.slot(ticket.seat) {
            slot.done.push(Completion { id: ticket.op, result });
            slot.runnable = true;
        }
    }

    /// Carries out what a call to the network came to.
    pub fn settle(&mut self, effects: Effects) {
        for (at, event) in effects.schedule {
            self.schedule(at, Job::Net(event));
        }
        for (ticket, result) in effects.ended {
            self.complete(ticket, result);
        }
    }

    /// Runs one call to the network and carries out what came of it.
    pub fn with_net(&mut self, call: impl FnOnce(&mut Net, Instant, &mut Effects)) {
        let mut effects = Effects::default();
        call(&mut self.net, self.now, &mut effects);
        self.settle(effects);
    }

    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A time between the bounds, now and then (one in forty) up to twenty times as long.
    pub fn latency(&mut self, least_us: u64, most_us: u64) -> Duration {
        let usual = least_us * 1000 + self.random.below((most_us - least_us) * 1000 + 1);
        let nanos = if self.random.chance(1, 40) { usual * (2 + self.random.below(19)) } else { usual };
        Duration::from_nanos(nanos)
    }
}
