//! A turn of the driver: handing over, taking in, sleeping.
//!
//! Owner: one shard's driver. A turn costs one system call, or none: what its tasks submit is handed over by the first `reap` of the
//! next turn, or by `park`, which also waits. Completions are taken in at every `reap`. The doorbell, an eventfd that the ring
//! reads whenever the shard parks, lets any thread end the park; peers do it with a message to the ring instead.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use std::time::Duration;

use base::Instant;
use io_uring::opcode;
use io_uring::types::Fd;

use super::flight::{Flight, Stable, State};
use super::listeners::Own;
use super::returns::Return;
use super::ring::Cqe;
use super::token::{self, Token};
use super::{Step, Uring, files};
use crate::driver::helper::Job;
use crate::driver::janitor::Answer;
use crate::driver::{Completion, FileId, Outcome};

/// While a sync is in flight the core is given away so often.
const YIELD_INTERVAL: Duration = Duration::from_micros(50);

impl Uring {
    /// Moves the completions that are due into `completions`. The first call of a turn also hands over what the turn before
    /// queued. While a sync is in flight a call gives the core away now and then: a busy shard would keep the kernel's workers from
    /// finishing it. Never waits.
    pub fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.prepare();
        if std::mem::take(&mut self.turn_begins) {
            self.ring.flush();
        }
        if self.syncs_in_flight > 0 {
            self.yield_to_workers();
        }
        self.ring.collect(std::mem::take(&mut self.urgent));
        self.take_completions();
        self.take_returns();
        completions.append(&mut self.ready);
    }

    /// Several workers take part in one sync, one after another, each of which needs the core for a moment.
    fn yield_to_workers(&mut self) {
        let now = self.now();
        if now.since(self.core_given) >= YIELD_INTERVAL {
            self.ring.stats.yields += 1;
            rustix::thread::sched_yield();
            self.core_given = now;
        }
    }

    /// In the middle of a turn: what was queued so far does not wait for its end.
    pub fn hand_over(&mut self) {
        self.ring.flush();
    }

    /// The shard has polled what it had: what it queued travels with the next `reap` or `park`.
    pub fn end_turn(&mut self) {
        self.turn_begins = true;
    }

    /// Sleeps until `until`, a completion, or a wake.
    pub fn park(&mut self, until: Option<Instant>) {
        self.prepare();
        if !self.doorbell_armed {
            self.arm_doorbell();
        }
        let until = [until, self.accept_retry_at()].into_iter().flatten().min();
        let timeout = until.map(|until| until.since(self.now()));
        self.seat.peers.fall_asleep(self.seat.id);
        self.take_returns();
        if self.ready.is_empty() {
            if self.ring.wait(timeout) {
                self.core_given = self.now();
            }
        } else {
            self.ring.flush();
        }
        self.seat.peers.wake_up(self.seat.id);
    }

    /// What ends a park of this shard from any thread.
    pub fn unparker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (peers, id) = (self.seat.peers.clone(), self.seat.id);
        Arc::new(move || peers.ring_doorbell(id))
    }

    fn arm_doorbell(&mut self) {
        let mut scratch = self.spare.take();
        let place = (&raw mut scratch.rings).cast::<u8>();
        let entry = opcode::Read::new(Fd(self.seat.peers.doorbell(self.seat.id)), place, 8).build();
        let own = self.own.insert(Own::Doorbell { scratch });
        self.doorbell_armed = true;
        // SAFETY: the eight bytes that the kernel writes lie in the scratch, which `own` keeps until this completes.
        unsafe { self.ring.push(entry.user_data(token::of_own(own))) };
    }

    pub(super) fn doorbell_rang(&mut self, scratch: Stable, cqe: Cqe) {
        self.spare.give_back(scratch);
        self.doorbell_armed = false;
        if let Err(error) = cqe.outcome()
            && !cqe.is_error(libc::ECANCELED)
        {
            tracing::warn!(%error, "reading the doorbell failed; it is read again with the next park");
        }
    }

    /// What must happen before the kernel is entered: memory for receives, connections to accept, work for the helper.
    fn prepare(&mut self) {
        self.refill();
        self.arm_listeners();
        while let Some(job) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.seat.helper.try_send(job) {
                self.backlog.push_front(job);
                break;
            }
        }
    }

    /// Lends blocks to the kernel where places are empty, and starts receives that waited for one.
    fn refill(&mut self) {
        let Some(memory) = &mut self.memory else { return };
        if !self.provided.is_full() {
            self.provided.refill(&memory.received);
        }
        if memory.arena.has_new_slabs() {
            for slab in memory.registered.to_touch(&memory.arena) {
                self.backlog.push_back(Job::Touch { shard: self.seat.id, slab });
            }
        }
        for _ in 0..self.provided.filled().min(self.starved.len()) {
            let flight = self.starved.pop_front().and_then(|id| self.flights.take(id));
            let mut flight = flight.expect("a starved receive stays in flight until it is cancelled");
            if let State::Recv { starved, .. } = &mut flight.state {
                *starved = false;
            }
            self.issue(flight);
        }
    }

    pub(super) fn take_completions(&mut self) {
        let mut cqes = std::mem::take(&mut self.cqes);
        self.ring.take_completions(&mut cqes);
        for peer in self.ring.take_failed_wakes() {
            self.seat.peers.ring_doorbell(peer);
        }
        for cqe in cqes.drain(..) {
            match token::parse(cqe.user_data) {
                Token::Own(key) => self.own_completed(key, cqe),
                Token::Op(id) => {
                    let flight = self.flights.take(id).expect("a completion belongs to a flight");
                    self.op_completed(flight, cqe);
                }
            }
        }
        self.cqes = cqes;
    }

    fn op_completed(&mut self, flight: Flight, cqe: Cqe) {
        let Flight { id, cancelled, state } = flight;
        if state.is_sync() {
            self.syncs_in_flight -= 1;
        }
        let late = state.looked_up_late();
        let step = match state {
            State::Read { .. } | State::Write { .. } | State::Datasync { .. } => self.file_step(state, cqe),
            State::Close { .. } => Step::Finish(cqe.outcome().map(|_| Outcome::Done)),
            State::Pass { to, .. } => Step::Finish(self.passed(to, cqe, cancelled)),
            State::Fs | State::Offload | State::Accept { .. } => unreachable!("these have no submission of their own"),
            _ => self.socket_step(state, cqe),
        };
        let result = match step {
            Step::Again(state) if cancelled => {
                self.end_of_state(state);
                Some(Err(io::Error::from_raw_os_error(libc::ECANCELED)))
            }
            Step::Again(state) => {
                self.issue(Flight { id, cancelled, state });
                None
            }
            Step::Next(state) => {
                self.issue(Flight { id, cancelled, state });
                if cancelled {
                    // The earlier request met the step before.
                    self.cancel(id);
                }
                None
            }
            Step::Finish(result) => Some(result),
        };
        if let Some(index) = late {
            self.late_done(index);
        }
        self.ready.extend(result.map(|result| Completion { id, result }));
    }

    fn take_returns(&mut self) {
        while let Ok(returned) = self.seat.returns.try_recv() {
            match returned {
                Return::Answer { id, result } => {
                    let result = result.map(|answer| self.outcome_of(answer));
                    self.finish(id, result);
                }
                Return::Worked { id } => self.finish(id, Ok(Outcome::Done)),
                Return::Touched(slab) => {
                    if let Some(memory) = &mut self.memory {
                        memory.registered.touched(&mut self.ring, &memory.arena, slab);
                    }
                }
                Return::Stray { index } => self.ring.close_quietly(index),
            }
        }
    }

    fn outcome_of(&mut self, answer: Answer) -> Outcome {
        match answer {
            Answer::Done => Outcome::Done,
            Answer::Opened { index, token, bytes, alignment, direct } => {
                self.files.insert(index, files::OpenFile { token, alignment, direct });
                Outcome::File { file: FileId(index), bytes, alignment }
            }
            Answer::Entries(entries) => Outcome::Entries(entries),
            Answer::Space(space) => Outcome::Space(space),
            Answer::Stat(stat) => Outcome::Stat(stat),
            Answer::Content(content) => Outcome::Content(content),
        }
    }
}
