//! The executor: tasks of one shard in three classes, each poll charged to an account.
//!
//! Owner: one shard, one thread. Futures live in a slab; wakers carry only a slot and a flag (`waker.rs`). No borrow is held while
//! a future is polled or dropped, so tasks may spawn and cancel as they please, and a panic unwinds through cleanly.
//!
//! Invariants: a task is in at most one run queue, once; tasks of one class run in the order they were woken; a poll is followed by
//! a look at the clock, which is where accounts and the stall detector get their figures.

pub(crate) mod account;
pub(crate) mod signal;
mod task;
pub(crate) mod timer;
pub(crate) mod waker;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{Histogram, Instant, Scale};
use slab::Slab;

pub use account::{Account, AccountUse};
pub use signal::Unparker;
pub use task::{Detached, Task, YieldNow};
pub use timer::Sleep;

use signal::Signal;
use waker::{Gate, TaskCell, Woken};

/// How urgent a task is, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Produce, fetch, replication: what someone waits for.
    Latency,
    Normal,
    /// Recovery, retention, compaction, catch-up reads: runs in what is left, and in a small guaranteed slice.
    Background,
}

impl Class {
    pub(crate) const COUNT: usize = 3;
    /// The most urgent first.
    pub const ALL: [Self; Self::COUNT] = [Self::Latency, Self::Normal, Self::Background];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Normal => "normal",
            Self::Background => "background",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct TaskEntry {
    /// Absent while it is being polled.
    body: Option<TaskBody>,
    cell: Arc<TaskCell>,
}

/// What a poll takes along, so that it counts no reference up and down.
struct TaskBody {
    future: LocalFuture,
    waker: Waker,
    account: Account,
}

pub(crate) struct Executor {
    tasks: RefCell<Slab<TaskEntry>>,
    pub(crate) gate: Arc<Gate>,
    /// From a task's wake to its poll, by class.
    queue_delay: [Histogram; Class::COUNT],
}

/// A task to poll, taken off its queue.
pub(crate) struct Ready(Woken);

impl Executor {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self {
            tasks: RefCell::default(),
            gate: Gate::new(signal),
            queue_delay: std::array::from_fn(|_| Histogram::new(Scale::NANOSECONDS)),
        }
    }

    /// Adds a task and queues its first poll.
    fn spawn(&self, class: Class, account: Account, future: LocalFuture) -> Arc<TaskCell> {
        let cell = {
            let mut tasks = self.tasks.borrow_mut();
            let entry = tasks.vacant_entry();
            let cell = TaskCell::new(self.gate.clone(), entry.key(), class);
            let waker = Waker::from(cell.clone());
            entry.insert(TaskEntry { body: Some(TaskBody { future, waker, account }), cell: cell.clone() });
            cell
        };
        std::task::Wake::wake_by_ref(&cell);
        cell
    }

    pub(crate) fn pop(&self, class: Class) -> Option<Ready> {
        self.gate.pop(class).map(Ready)
    }

    pub(crate) fn has_ready(&self, class: Class) -> bool {
        self.gate.has_ready(class)
    }

    /// Polls one task. `clock` is read when the poll ends; `started` is when the last one did.
    pub(crate) fn poll(
        &self,
        ready: Ready,
        started: Instant,
        stall_limit: Duration,
        clock: impl Fn() -> Instant,
    ) -> Instant {
        let Woken { cell, at } = ready.0;
        self.gate.set_now(started);
        self.queue_delay[cell.class.index()].record_since(at, started);
        cell.begin_poll();
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            match tasks.get_mut(cell.slot) {
                // The slot may have been reused: this wake was for a task that has ended.
                Some(entry) if Arc::ptr_eq(&entry.cell, &cell) => entry.body.take(),
                _ => None,
            }
        };
        let Some(mut body) = taken else { return started };
        let result = body.future.as_mut().poll(&mut Context::from_waker(&body.waker));
        let now = clock();
        body.account.charge(now.since(started), stall_limit, now);
        let ended = {
            let mut tasks = self.tasks.borrow_mut();
            match tasks.get_mut(cell.slot) {
                Some(entry) if Arc::ptr_eq(&entry.cell, &cell) => match result {
                    Poll::Pending => {
                        entry.body = Some(body);
                        None
                    }
                    Poll::Ready(()) => {
                        tasks.remove(cell.slot);
                        Some(body)
                    }
                },
                // It cancelled itself, or the shard shut down, while it ran.
                _ => Some(body),
            }
        };
        drop(ended);
        now
    }

    /// Drops the task's future; one that is being polled is dropped when that poll ends.
    fn cancel(&self, cell: &Arc<TaskCell>) {
        let entry = {
            let mut tasks = self.tasks.borrow_mut();
            match tasks.get(cell.slot) {
                Some(entry) if Arc::ptr_eq(&entry.cell, cell) => tasks.try_remove(cell.slot),
                _ => None,
            }
        };
        drop(entry);
    }

    pub(crate) fn queue_delay(&self, class: Class) -> &Histogram {
        &self.queue_delay[class.index()]
    }

    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Drops every task. Tasks spawned by the drops of others go too.
    pub(crate) fn shutdown(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.gate.close();
    }
}
