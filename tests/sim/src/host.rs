//! A shard's driver in the simulated world: hands everything to the world's state, and never blocks.

use std::cell::RefCell;
use std::rc::Rc;

use base::{Instant, ShardId, WallTime};
use shard::driver::{Completion, Host, Op, OpId};

use crate::seat::{Seat, Ticket};
use crate::state::State;

/// What a panic carries when a shard ended its process on purpose ([`Host::abort`]); the world catches it.
pub struct Aborted {
    pub reason: String,
}

pub struct SimHost {
    seat: Seat,
    state: Rc<RefCell<State>>,
}

impl SimHost {
    pub fn new(seat: Seat, state: Rc<RefCell<State>>) -> Self {
        Self { seat, state }
    }

    fn ticket(&self, op: OpId) -> Ticket {
        Ticket { seat: self.seat, op }
    }
}

impl Host for SimHost {
    fn submit(&mut self, id: OpId, op: Op) {
        let ticket = self.ticket(id);
        let unwanted = self.state.borrow_mut().submit(ticket, op);
        drop(unwanted);
    }

    fn cancel(&mut self, id: OpId) {
        let ticket = self.ticket(id);
        let mut state = self.state.borrow_mut();
        if state.is_live(self.seat) {
            state.with_net(|net, _, effects| net.cancel(ticket, effects));
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        if let Some(slot) = self.state.borrow_mut().slot(self.seat) {
            completions.append(&mut slot.done);
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        if let Some(slot) = self.state.borrow_mut().slot(self.seat) {
            slot.until = until;
        }
    }

    fn wake(&mut self, peer: ShardId) {
        let seat = Seat { shard: peer, ..self.seat };
        if let Some(slot) = self.state.borrow_mut().slot(seat) {
            slot.runnable = true;
        }
    }

    fn now(&self) -> Instant {
        self.state.borrow().now
    }

    fn wall(&self) -> WallTime {
        let state = self.state.borrow();
        state.machines[self.seat.machine.0 as usize].clock.wall(state.now)
    }

    fn random(&mut self) -> u64 {
        match self.state.borrow_mut().slot(self.seat) {
            Some(slot) => slot.random.next_u64(),
            None => 0,
        }
    }

    fn abort(&mut self, reason: &str) -> ! {
        // Not `panic!`: the hook must not print what is part of the play.
        std::panic::resume_unwind(Box::new(Aborted { reason: reason.to_owned() }))
    }
}
