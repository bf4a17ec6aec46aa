//! Waking tasks from anywhere, and the lock-free stack that whatever comes from other threads arrives on.
//!
//! Owner: a [`Gate`] belongs to one shard and is shared with every waker of its tasks. A wake on the home thread pushes on a plain
//! queue; a wake elsewhere pushes on the stack and ends the shard's park. A task is queued at most once at a time (`queued`), so
//! its link is never in two places. Wakers may outlive the shard: a closed gate ignores them.
//!
//! This file is one of the homes of `unsafe`.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Wake;

use base::Instant;

use super::Class;
use super::signal::Signal;
use crate::atomic::{AtomicBool, AtomicPtr, Ordering, UnsafeCell};

/// Something that can lie on a [`Stack`].
///
/// # Safety
/// `next` always gives the same link, which only the stack uses while the item lies on it.
pub(crate) unsafe trait Linked: Sized {
    fn next(&self) -> &AtomicPtr<Self>;
}

/// A stack with many pushers and one taker, who takes all. (No single pop, hence no ABA.)
pub(crate) struct Stack<T> {
    head: AtomicPtr<T>,
}

impl<T: Linked> Stack<T> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// An address that no item has.
    fn closed_mark() -> *mut T {
        std::ptr::without_provenance_mut(usize::MAX)
    }

    /// Pushes, or gives back when closed.
    ///
    /// # Safety
    /// The item is alive, on no stack, and stays alive until it is taken; after `Ok` the caller no longer touches it.
    pub(crate) unsafe fn push(&self, item: NonNull<T>) -> Result<(), NonNull<T>> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == Self::closed_mark() {
                return Err(item);
            }
            // SAFETY: ours until the exchange succeeds.
            unsafe { item.as_ref() }.next().store(head, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, item.as_ptr(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        head.is_null() || head == Self::closed_mark()
    }

    /// Takes all, last in first.
    pub(crate) fn drain(&self) -> Drain<T> {
        if self.is_empty() {
            return Drain { head: std::ptr::null_mut() };
        }
        Drain { head: self.head.swap(std::ptr::null_mut(), Ordering::Acquire) }
    }

    /// Takes all and refuses what comes later.
    pub(crate) fn close(&self) -> Drain<T> {
        let head = self.head.swap(Self::closed_mark(), Ordering::AcqRel);
        Drain { head: if head == Self::closed_mark() { std::ptr::null_mut() } else { head } }
    }
}

/// The items taken off a stack; each is the taker's own once yielded. It is walked to its end.
pub(crate) struct Drain<T> {
    head: *mut T,
}

impl<T: Linked> Drain<T> {
    /// The same items, first in first.
    pub(crate) fn reversed(self) -> Self {
        let mut head = std::ptr::null_mut();
        for item in self {
            // SAFETY: yielded, so alive and ours, and its old link is no longer needed.
            unsafe { item.as_ref() }.next().store(head, Ordering::Relaxed);
            head = item.as_ptr();
        }
        Self { head }
    }
}

impl<T: Linked> Iterator for Drain<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        let item = NonNull::new(self.head)?;
        // SAFETY: taken off the stack whole, so alive and ours; the link is read before the item is handed on.
        self.head = unsafe { item.as_ref() }.next().load(Ordering::Relaxed);
        Some(item)
    }
}

/// What tells threads apart: a number for each that asks, never reused (an address could be).
#[cfg(not(loom))]
type ThreadNumber = u64;
#[cfg(loom)]
type ThreadNumber = loom::thread::ThreadId;

#[cfg(not(loom))]
fn thread_number() -> ThreadNumber {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(loom)]
fn thread_number() -> ThreadNumber {
    loom::thread::current().id()
}

/// A task in line, and since when.
pub(crate) struct Woken {
    pub(crate) cell: Arc<TaskCell>,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct Queues {
    by_class: [VecDeque<Woken>; Class::COUNT],
    /// When the shard last looked at the clock: what is woken now is taken to be woken then, which spares a look for each wake.
    now: Instant,
}

impl Queues {
    fn push(&mut self, cell: Arc<TaskCell>) {
        self.by_class[cell.class.index()].push_back(Woken { at: self.now, cell });
    }
}

/// Where woken tasks queue for their shard.
pub(crate) struct Gate {
    home: ThreadNumber,
    /// Home thread only.
    ready: UnsafeCell<Queues>,
    remote: Stack<TaskCell>,
    closed: AtomicBool,
    signal: Arc<Signal>,
}

// SAFETY: `ready` is touched on the home thread only (`thread_number` is unique and never reused); the rest is made for sharing.
unsafe impl Send for Gate {}
// SAFETY: see above.
unsafe impl Sync for Gate {}

impl Gate {
    /// A gate whose home is the calling thread.
    pub(crate) fn new(signal: Arc<Signal>) -> Arc<Self> {
        Arc::new(Self {
            home: thread_number(),
            ready: UnsafeCell::new(Queues::default()),
            remote: Stack::new(),
            closed: AtomicBool::new(false),
            signal,
        })
    }

    fn is_home(&self) -> bool {
        self.home == thread_number()
    }

    /// Runs `f` on the run queues. `f` runs no foreign code, so it does not come back here.
    fn with_ready<R>(&self, f: impl FnOnce(&mut Queues) -> R) -> R {
        assert!(self.is_home(), "run queues are used by their own shard only");
        // SAFETY: home thread, as asserted, and `f` does not re-enter: the reference is exclusive.
        self.ready.with_mut(|ready| f(unsafe { &mut *ready }))
    }

    /// The time from which wakes to come are counted.
    pub(crate) fn set_now(&self, now: Instant) {
        self.with_ready(|queues| queues.now = now);
    }

    pub(crate) fn pop(&self, class: Class) -> Option<Woken> {
        self.with_ready(|queues| queues.by_class[class.index()].pop_front())
    }

    pub(crate) fn has_ready(&self, class: Class) -> bool {
        self.with_ready(|queues| !queues.by_class[class.index()].is_empty())
    }

    pub(crate) fn has_remote(&self) -> bool {
        !self.remote.is_empty()
    }

    /// Moves what other threads woke to the run queues, in the order it was woken.
    pub(crate) fn take_remote(&self) {
        if self.remote.is_empty() {
            return;
        }
        let woken = self.remote.drain().reversed();
        self.with_ready(|queues| {
            for cell in woken {
                // SAFETY: pushed by `enqueue` from `Arc::into_raw`; each pointer is taken back once.
                let cell = unsafe { Arc::from_raw(cell.as_ptr()) };
                queues.push(cell);
            }
        });
    }

    /// Lets go of every queued task and ignores later wakes: breaks the cycle gate → task → gate.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let queues = self.with_ready(std::mem::take);
        drop(queues);
        for cell in self.remote.close() {
            // SAFETY: as in `take_remote`.
            drop(unsafe { Arc::from_raw(cell.as_ptr()) });
        }
    }
}

/// What a task's wakers share: which task, and whether it is queued. The future itself stays in the executor's slab.
pub(crate) struct TaskCell {
    gate: Arc<Gate>,
    pub(crate) slot: usize,
    pub(crate) class: Class,
    queued: AtomicBool,
    next: AtomicPtr<TaskCell>,
}

// SAFETY: `next` is the one link, used by the remote stack only.
unsafe impl Linked for TaskCell {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl TaskCell {
    pub(crate) fn new(gate: Arc<Gate>, slot: usize, class: Class) -> Arc<Self> {
        let next = AtomicPtr::new(std::ptr::null_mut());
        Arc::new(Self { gate, slot, class, queued: AtomicBool::new(false), next })
    }

    /// Called before a poll: a wake from here on queues the task again.
    pub(crate) fn begin_poll(&self) {
        // Acquire: what wakers wrote before they set the flag is seen by the poll that they asked for.
        self.queued.swap(false, Ordering::AcqRel);
    }

    /// Sets `queued`; true when the caller is to queue the task. Always an exchange, so that what the waker wrote is seen by the
    /// poll to come even when someone else queued the task.
    fn claim(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    fn enqueue(self: Arc<Self>) {
        if self.gate.is_home() {
            if self.gate.closed.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: `self` goes into a queue of this gate, where its count keeps the gate alive until this thread, the only one
            // that takes from that queue, comes back from here.
            let gate = unsafe { &*Arc::as_ptr(&self.gate) };
            gate.with_ready(|queues| queues.push(self));
            // Only in worlds where several shards share a thread can the waker's own shard be asleep.
            if gate.signal.is_parked() {
                gate.signal.notify();
            }
            return;
        }
        let gate = self.gate.clone();
        let cell = NonNull::new(Arc::into_raw(self).cast_mut()).expect("an Arc is not null");
        // SAFETY: `cell` carries a count, so it stays alive, and `queued` keeps it off every other queue.
        match unsafe { gate.remote.push(cell) } {
            Ok(()) => gate.signal.notify(),
            // SAFETY: given back, count and all.
            Err(cell) => drop(unsafe { Arc::from_raw(cell.as_ptr()) }),
        }
    }
}

impl Wake for TaskCell {
    fn wake(self: Arc<Self>) {
        if self.claim() {
            self.enqueue();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.claim() {
            self.clone().enqueue();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "wakers are sent to real threads here")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;
    use std::thread;

    use super::{Gate, TaskCell};
    use crate::executor::Class;
    use crate::executor::signal::Signal;

    const COUNT: usize = if cfg!(miri) { 10 } else { 1000 };

    #[test]
    fn wakers_work_from_any_thread_and_outlive_their_shard() {
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = woken.clone();
        let signal = Arc::new(Signal::new(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        })));
        let gate = Gate::new(signal.clone());
        let cells: Vec<_> = (0..COUNT).map(|slot| TaskCell::new(gate.clone(), slot, Class::Normal)).collect();
        signal.park();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let wakers: Vec<_> = cells.iter().map(|cell| Waker::from(cell.clone())).collect();
                thread::spawn(move || wakers.iter().for_each(Waker::wake_by_ref))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("waker"));
        assert!(signal.is_notified());
        assert_eq!(woken.load(Ordering::Relaxed), 1, "one wake ends the park");
        gate.take_remote();
        let mut slots: Vec<_> = std::iter::from_fn(|| gate.pop(Class::Normal)).map(|woken| woken.cell.slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..COUNT).collect::<Vec<_>>(), "each is queued once, however often it was woken");

        cells.iter().for_each(|cell| cell.begin_poll());
        let wakers: Vec<_> = cells.iter().map(|cell| Waker::from(cell.clone())).collect();
        Waker::from(cells[0].clone()).wake();
        drop(cells);
        gate.close();
        let left = Arc::downgrade(&gate);
        drop(gate);
        thread::spawn(move || wakers.into_iter().for_each(Waker::wake)).join().expect("waker");
        assert_eq!(left.strong_count(), 0, "late wakers keep nothing");
    }
}
