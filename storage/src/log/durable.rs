//! Waiting until an append is held: what its acknowledgement hangs on.
//!
//! Owner: the log. Waiters stand in the order of the offsets they wait for, so one pass from the front wakes exactly those that are
//! due. Acknowledgements therefore leave in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use base::Offset;

/// The append will never be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The log was truncated below it.
    Truncated,
    /// The log was removed, or now lives on another shard.
    Removed,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the log was truncated below the append",
            Self::Removed => "the log is gone from this shard",
        })
    }
}

impl std::error::Error for Lost {}

#[derive(Debug, Default)]
struct WaitState {
    outcome: Option<Result<(), Lost>>,
    waker: Option<Waker>,
}

/// Resolves when an append, and with it every lower offset of its log, is held as the store's durability says. Dropping it changes
/// nothing but who is told.
#[derive(Debug)]
pub struct Durable(Rc<RefCell<WaitState>>);

impl Durable {
    fn resolved(outcome: Result<(), Lost>) -> Self {
        Self(Rc::new(RefCell::new(WaitState { outcome: Some(outcome), waker: None })))
    }
}

impl Future for Durable {
    type Output = Result<(), Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.borrow_mut();
        match state.outcome {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Who waits for what of one log.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// By the offset that must be reached, lowest first.
    line: VecDeque<(Offset, Rc<RefCell<WaitState>>)>,
}

impl Waiters {
    /// Waits until the log is held up to `end`; `held` is how far it is now.
    pub(crate) fn wait(&mut self, end: Offset, held: Offset) -> Durable {
        if end <= held {
            return Durable::resolved(Ok(()));
        }
        let state = Rc::new(RefCell::new(WaitState::default()));
        let at = self.line.partition_point(|(waiting, _)| *waiting <= end);
        self.line.insert(at, (end, state.clone()));
        Durable(state)
    }

    /// The log is held up to `held` now. Returns whom to wake, in order.
    #[must_use]
    pub(crate) fn reached(&mut self, held: Offset) -> Vec<Waker> {
        let due = self.line.partition_point(|(end, _)| *end <= held);
        self.line.drain(..due).filter_map(|(_, state)| resolve(&state, Ok(()))).collect()
    }

    /// Everything above `end` will never be held.
    #[must_use]
    pub(crate) fn lost_above(&mut self, end: Offset, why: Lost) -> Vec<Waker> {
        let kept = self.line.partition_point(|(waiting, _)| *waiting <= end);
        self.line.drain(kept..).filter_map(|(_, state)| resolve(&state, Err(why))).collect()
    }
}

fn resolve(state: &RefCell<WaitState>, outcome: Result<(), Lost>) -> Option<Waker> {
    let mut state = state.borrow_mut();
    state.outcome = Some(outcome);
    state.waker.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(durable: &mut Durable) -> Option<Result<(), Lost>> {
        match Pin::new(durable).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    #[test]
    fn waiters_resolve_in_order_and_once() {
        let mut waiters = Waiters::default();
        let mut held: Vec<_> = [3, 5, 5, 9].into_iter().map(|end| waiters.wait(Offset(end), Offset(3))).collect();
        // A repeated batch waits for the first one, which may be far below the last.
        held.push(waiters.wait(Offset(4), Offset(3)));
        let all = |held: &mut Vec<Durable>| held.iter_mut().map(outcome).collect::<Vec<_>>();
        assert_eq!(all(&mut held), [Some(Ok(())), None, None, None, None]);
        assert_eq!(waiters.reached(Offset(4)).len(), 1);
        assert_eq!(all(&mut held), [Some(Ok(())), None, None, None, Some(Ok(()))]);
        assert_eq!(waiters.lost_above(Offset(5), Lost::Truncated).len(), 1);
        assert_eq!(waiters.reached(Offset(100)).len(), 2);
        let (kept, lost) = (Some(Ok(())), Some(Err(Lost::Truncated)));
        assert_eq!(all(&mut held), [kept, kept, kept, lost, kept]);
    }
}
