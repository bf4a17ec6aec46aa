//! Timers of one shard, ordered by deadline; those of one deadline fire in the order they were set. Cancelling really removes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use base::Instant;

use crate::shard::Shard;

/// A deadline and a serial number: unique.
pub(crate) type TimerKey = (Instant, u64);

#[derive(Default)]
pub(crate) struct TimerTable {
    waiting: BTreeMap<TimerKey, Waker>,
    next_serial: u64,
}

impl TimerTable {
    pub(crate) fn set(&mut self, at: Instant, waker: Waker) -> TimerKey {
        let key = (at, self.next_serial);
        self.next_serial += 1;
        self.waiting.insert(key, waker);
        key
    }

    fn set_waker(&mut self, key: TimerKey, waker: &Waker) {
        if let Some(known) = self.waiting.get_mut(&key)
            && !known.will_wake(waker)
        {
            known.clone_from(waker);
        }
    }

    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        self.waiting.remove(&key)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The waker of the first timer due at `now`, taken out.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.waiting.first_entry()?;
        if entry.key().0 <= now { Some(entry.remove()) } else { None }
    }

    pub(crate) fn clear(&mut self) -> BTreeMap<TimerKey, Waker> {
        std::mem::take(&mut self.waiting)
    }
}

/// Ends at a deadline of the shard's monotonic clock. Dropping it cancels the timer.
pub struct Sleep {
    shard: Shard,
    at: Instant,
    key: Option<TimerKey>,
}

impl Sleep {
    pub(crate) fn new(shard: Shard, at: Instant) -> Self {
        Self { shard, at, key: None }
    }

    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.at
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.shard.now() >= this.at {
            if let Some(key) = this.key.take() {
                this.shard.timers(|timers| timers.cancel(key));
            }
            return Poll::Ready(());
        }
        match this.key {
            None => this.key = Some(this.shard.timers(|timers| timers.set(this.at, context.waker().clone()))),
            Some(key) => this.shard.timers(|timers| timers.set_waker(key, context.waker())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let waker = self.shard.timers(|timers| timers.cancel(key));
            drop(waker);
        }
    }
}
