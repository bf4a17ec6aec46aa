//! Operations in flight: who waits for each, and what becomes of a result that nobody waits for.
//!
//! Owner: one shard. An operation has a slot and a generation from submission to its one terminal completion; the driver owns its
//! buffers in between. Life cycle: waiting → done → taken, or waiting → orphan (its future was dropped; the driver was asked to
//! cancel it) → disposed of. An orphan that opened, accepted or connected something closes it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use base::ShardId;

use crate::driver::{Op, OpId, Outcome};
use crate::shard::Shard;

#[derive(Default)]
pub(crate) struct OpTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    state: State,
    passes_to: Option<ShardId>,
}

enum State {
    Free,
    Waiting(Option<Waker>),
    Done(io::Result<Outcome>),
    Orphan,
}

/// What is left to do about a completion, outside any borrow.
pub(crate) enum After {
    Wake(Option<Waker>),
    Dispose { result: io::Result<Outcome>, passed_to: Option<ShardId> },
}

impl OpTable {
    /// A slot for an operation about to be submitted; `orphan` when nobody will wait for it.
    pub(crate) fn open(&mut self, op: &Op, orphan: bool) -> OpId {
        let passes_to = if let Op::Pass { to, .. } = op { Some(*to) } else { None };
        let state = if orphan { State::Orphan } else { State::Waiting(None) };
        let slot = match self.free.pop() {
            Some(slot) => {
                let entry = &mut self.slots[slot as usize];
                entry.state = state;
                entry.passes_to = passes_to;
                slot
            }
            None => {
                self.slots.push(Slot { generation: 0, state, passes_to });
                (self.slots.len() - 1) as u32
            }
        };
        OpId { slot, generation: self.slots[slot as usize].generation }
    }

    fn slot(&mut self, id: OpId) -> &mut Slot {
        let slot = &mut self.slots[id.slot as usize];
        assert!(
            slot.generation == id.generation && !matches!(slot.state, State::Free),
            "{id:?} has already ended: a driver completes an operation once"
        );
        slot
    }

    fn close(&mut self, id: OpId) -> State {
        let slot = self.slot(id);
        slot.generation = slot.generation.wrapping_add(1);
        let state = std::mem::replace(&mut slot.state, State::Free);
        self.free.push(id.slot);
        state
    }

    /// The terminal completion of `id`.
    pub(crate) fn complete(&mut self, id: OpId, result: io::Result<Outcome>) -> After {
        let slot = self.slot(id);
        let passed_to = slot.passes_to;
        match &mut slot.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                slot.state = State::Done(result);
                After::Wake(waker)
            }
            State::Orphan => {
                self.close(id);
                After::Dispose { result, passed_to }
            }
            State::Done(_) => panic!("{id:?} completed twice"),
            State::Free => unreachable!("checked by `slot`"),
        }
    }

    /// The result, or `None` with the waker kept.
    fn poll(&mut self, id: OpId, waker: &Waker) -> Option<io::Result<Outcome>> {
        match &mut self.slot(id).state {
            State::Waiting(known) => {
                if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    *known = Some(waker.clone());
                }
                return None;
            }
            State::Done(_) => {}
            State::Orphan | State::Free => unreachable!("its future is alive"),
        }
        match self.close(id) {
            State::Done(result) => Some(result),
            _ => unreachable!("just seen"),
        }
    }

    /// The future is dropped: the result if it is there, else the operation is orphaned.
    fn abandon(&mut self, id: OpId) -> Option<After> {
        let slot = self.slot(id);
        let passed_to = slot.passes_to;
        match &slot.state {
            State::Waiting(_) => {
                slot.state = State::Orphan;
                None
            }
            _ => match self.close(id) {
                State::Done(result) => Some(After::Dispose { result, passed_to }),
                _ => unreachable!("an operation with a future is waiting or done"),
            },
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// An operation in flight, as a future of its result. Dropping it orphans and cancels the operation.
pub(crate) struct Pending {
    shard: Shard,
    id: OpId,
    taken: bool,
}

impl Pending {
    pub(crate) fn new(shard: Shard, id: OpId) -> Self {
        Self { shard, id, taken: false }
    }

    /// Asks for an early end; the result still comes.
    pub(crate) fn cancel(&self) {
        self.shard.cancel_op(self.id);
    }
}

impl Future for Pending {
    type Output = io::Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Outcome>> {
        assert!(!self.taken, "polled after its end");
        match self.shard.ops(|ops| ops.poll(self.id, context.waker())) {
            None => Poll::Pending,
            Some(result) => {
                self.taken = true;
                Poll::Ready(result)
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        match self.shard.ops(|ops| ops.abandon(self.id)) {
            None => self.shard.cancel_op(self.id),
            Some(after) => self.shard.finish(after),
        }
    }
}

/// A driver answered an operation with another operation's outcome: a bug of the driver.
#[track_caller]
pub(crate) fn mismatch(outcome: &Outcome) -> ! {
    panic!("the driver answered with {outcome:?}")
}
