//! Bytes that background work may have in flight on the device, so that journal writes find it free.
//!
//! Owner: a shard's store; destage, checkpoints, index builds and reads from disk take their bytes here, journal writes do not. The
//! device's whole budget is divided over the shards; measured on one device, 1 MiB × 4 of background reads took a journal write from
//! 0.12 to 4.6 ms, 128 KiB × 4 to 0.5 ms at near full bandwidth.
//!
//! Bound: the bytes it was made with. Pieces are at most [`PIECE_BYTES_MAX`], so that nobody waits long behind a large one. While the
//! journal is half full or more, destage has [`URGENT_FACTOR`] times as much in larger pieces, and nobody else reads: what the bound
//! protects is the wait of an append, and an append that finds no room in the journal waits far longer (measured at 800 MB/s: p99
//! 42 ms with the bound kept, 7 ms without).

use std::cell::Cell;
use std::rc::Rc;

use shard::sync::{Event, Permit, Semaphore};

/// The largest single transfer of background work.
pub const PIECE_BYTES_MAX: usize = 128 * 1024;

/// The same of destage while the journal is half full or more.
const URGENT_PIECE_BYTES: usize = 512 * 1024;
/// How much more destage may have in flight then.
const URGENT_FACTOR: usize = 8;

/// A shard's part of the device's background budget. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Rc<Inner>);

struct Inner {
    bytes: Semaphore,
    bytes_limit: usize,
    /// For destage, while it goes first.
    urgent_bytes: Semaphore,
    urgent_bytes_limit: usize,
    destage_first: Cell<bool>,
    reads_resumed: Event,
}

impl Budget {
    /// A budget of `bytes_limit`, but at least one piece.
    #[must_use]
    pub fn new(bytes_limit: usize) -> Self {
        let bytes_limit = bytes_limit.max(PIECE_BYTES_MAX);
        let urgent_bytes_limit = (bytes_limit * URGENT_FACTOR).max(URGENT_PIECE_BYTES);
        Self(Rc::new(Inner {
            bytes: Semaphore::new(bytes_limit),
            bytes_limit,
            urgent_bytes: Semaphore::new(urgent_bytes_limit),
            urgent_bytes_limit,
            destage_first: Cell::new(false),
            reads_resumed: Event::new(),
        }))
    }

    /// For a write of `bytes`; the permit is held until it is done.
    pub async fn write(&self, bytes: usize) -> Permit {
        let bytes = bytes.min(self.0.bytes_limit);
        self.0.bytes.acquire(bytes).await.expect("the budget is never closed")
    }

    /// How much destage is to write at once now.
    #[must_use]
    pub fn destage_piece_bytes(&self) -> usize {
        if self.0.destage_first.get() { URGENT_PIECE_BYTES } else { PIECE_BYTES_MAX }
    }

    /// For a write of destage: at most [`Budget::destage_piece_bytes`], and a block.
    pub async fn destage(&self, bytes: usize) -> Permit {
        if self.0.destage_first.get() {
            self.0.urgent_bytes.acquire(bytes.min(URGENT_PIECE_BYTES)).await.expect("the budget is never closed")
        } else {
            self.write(bytes).await
        }
    }

    /// For a read of `bytes`; waits as long as destage goes first.
    pub async fn read(&self, bytes: usize) -> Permit {
        while self.0.destage_first.get() {
            self.0.reads_resumed.wait().await;
        }
        self.write(bytes).await
    }

    /// For a read that may as well not happen now.
    #[must_use]
    pub fn try_read(&self, bytes: usize) -> Option<Permit> {
        if self.0.destage_first.get() { None } else { self.0.bytes.try_acquire(bytes.min(self.0.bytes_limit)) }
    }

    /// What is in flight now.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        let urgent = self.0.urgent_bytes_limit - self.0.urgent_bytes.available();
        self.0.bytes_limit - self.0.bytes.available() + urgent
    }

    /// The bound on that, outside the times when destage goes first.
    #[must_use]
    pub fn bytes_limit(&self) -> usize {
        self.0.bytes_limit
    }

    /// How many transfers wait for their part.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.bytes.waiting() + self.0.urgent_bytes.waiting()
    }

    /// Set while the journal is half full or more: then a reader far behind must not slow what frees it.
    pub fn set_destage_first(&self, on: bool) {
        if self.0.destage_first.replace(on) && !on {
            self.0.reads_resumed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn ready<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn reads_wait_for_destage_and_both_for_bytes() {
        let budget = Budget::new(2 * PIECE_BYTES_MAX);
        let first = ready(pin!(budget.write(PIECE_BYTES_MAX))).expect("room");
        let mut too_large = pin!(budget.write(10 * PIECE_BYTES_MAX));
        assert!(ready(too_large.as_mut()).is_none(), "waits for the whole budget, not for ever");
        drop(first);
        let all = ready(too_large).expect("room");
        drop(all);

        budget.set_destage_first(true);
        let mut read = pin!(budget.read(1));
        assert!(ready(read.as_mut()).is_none() && budget.try_read(1).is_none());
        assert!(ready(pin!(budget.write(1))).is_some());
        let others = ready(pin!(budget.write(2 * PIECE_BYTES_MAX))).expect("room");
        let urgent: Vec<_> = (0..4).map_while(|_| ready(pin!(budget.destage(budget.destage_piece_bytes())))).collect();
        assert_eq!(urgent.len(), 4, "destage does not wait for what others have in flight");
        assert!(ready(pin!(budget.destage(1))).is_none(), "and has a bound of its own");
        drop((others, urgent));
        budget.set_destage_first(false);
        assert_eq!(budget.destage_piece_bytes(), PIECE_BYTES_MAX);
        assert!(ready(read).is_some() && budget.try_read(1).is_some());
    }
}
