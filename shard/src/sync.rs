//! Waiting for one another within a shard: semaphore, event, one-shot, queue. No atomics; nothing here is `Send`.
//!
//! Owner: one shard. All are fair (first come, first served) and cancel-safe (a future dropped while it waits leaves the line; one
//! dropped after it was served passes its turn on). Handles are `Rc`s: clones are the same object.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, RawWakerVTable, Waker};

mod marks;

pub use marks::{Mark, Marks};

/// The object was closed, or its other end dropped: what was waited for will not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end is closed")
    }
}

impl std::error::Error for Closed {}

/// Ends with the first of the two, looked at in this order; the other is dropped.
pub async fn either(first: impl Future, second: impl Future) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => second.as_mut().poll(context).map(|_| ()),
    })
    .await;
}

/// Permits, given out in the order they were asked for; who asks for many is not overtaken by who asks for few.
#[derive(Clone)]
pub struct Semaphore(Rc<RefCell<Permits>>);

struct Permits {
    free: usize,
    closed: bool,
    line: VecDeque<Asking>,
    next_id: u64,
}

struct Asking {
    id: u64,
    count: usize,
    served: bool,
    waker: Option<Waker>,
}

impl Permits {
    /// Serves who is first in line while permits last; returns whom to wake.
    fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for asking in self.line.iter_mut().filter(|asking| !asking.served) {
            if asking.count > self.free {
                break;
            }
            self.free -= asking.count;
            asking.served = true;
            wakers.extend(asking.waker.take());
        }
        wakers
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.line.binary_search_by_key(&id, |asking| asking.id).ok()
    }
}

fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl Semaphore {
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(Rc::new(RefCell::new(Permits { free: permits, closed: false, line: VecDeque::new(), next_id: 0 })))
    }

    /// Waits for `count` permits. `Err` once the semaphore is closed.
    #[must_use]
    pub fn acquire(&self, count: usize) -> Acquire {
        Acquire { semaphore: self.clone(), count, id: None }
    }

    /// `count` permits if they are free and nobody waits.
    #[must_use]
    pub fn try_acquire(&self, count: usize) -> Option<Permit> {
        let mut permits = self.0.borrow_mut();
        if permits.closed || permits.line.iter().any(|asking| !asking.served) || permits.free < count {
            return None;
        }
        permits.free -= count;
        Some(Permit { semaphore: self.clone(), count })
    }

    /// Adds permits.
    pub fn release(&self, count: usize) {
        let wakers = {
            let mut permits = self.0.borrow_mut();
            permits.free += count;
            permits.serve()
        };
        wake_all(wakers);
    }

    /// Ends all waits, present and to come, with [`Closed`].
    pub fn close(&self) {
        let wakers = {
            let mut permits = self.0.borrow_mut();
            permits.closed = true;
            permits.line.iter_mut().filter_map(|asking| asking.waker.take()).collect()
        };
        wake_all(wakers);
    }

    #[must_use]
    pub fn available(&self) -> usize {
        self.0.borrow().free
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.borrow().line.iter().filter(|asking| !asking.served).count()
    }
}

/// Permits held; dropping it gives them back.
pub struct Permit {
    semaphore: Semaphore,
    count: usize,
}

impl Permit {
    /// Keeps the permits: someone else releases as many.
    pub fn forget(mut self) {
        self.count = 0;
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.release(self.count);
        }
    }
}

/// Waits for permits.
pub struct Acquire {
    semaphore: Semaphore,
    count: usize,
    id: Option<u64>,
}

impl Future for Acquire {
    type Output = Result<Permit, Closed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(id) = this.id else {
            if let Some(permit) = this.semaphore.try_acquire(this.count) {
                return Poll::Ready(Ok(permit));
            }
            let mut permits = this.semaphore.0.borrow_mut();
            if permits.closed {
                return Poll::Ready(Err(Closed));
            }
            let id = permits.next_id;
            permits.next_id += 1;
            let waker = Some(context.waker().clone());
            permits.line.push_back(Asking { id, count: this.count, served: false, waker });
            this.id = Some(id);
            return Poll::Pending;
        };
        let mut permits = this.semaphore.0.borrow_mut();
        let index = permits.position(id).expect("in line until it ends");
        if !permits.line[index].served && !permits.closed {
            permits.line[index].waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let served = permits.line.remove(index).is_some_and(|asking| asking.served);
        drop(permits);
        this.id = None;
        Poll::Ready(if served {
            Ok(Permit { semaphore: this.semaphore.clone(), count: this.count })
        } else {
            Err(Closed)
        })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let wakers = {
            let mut permits = self.semaphore.0.borrow_mut();
            let index = permits.position(id).expect("in line until it ends");
            if permits.line.remove(index).is_some_and(|asking| asking.served) {
                permits.free += self.count;
            }
            permits.serve()
        };
        wake_all(wakers);
    }
}

/// Something happened: wakes who waits now. A notification that nobody waits for is not kept, so check the condition, then wait;
/// [`Event::wait`] counts from its call, not from its first poll.
#[derive(Clone, Default)]
pub struct Event(Rc<RefCell<Line>>);

#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    next_id: u64,
    /// Calls that notified somebody: as long as it stands still, nobody who waits needs to look for his place.
    notifications: u64,
}

struct Waiting {
    id: u64,
    notified: bool,
    whom: Whom,
}

/// Whom a notification reaches.
enum Whom {
    /// Who stays in line until he has seen it.
    Task(Option<Waker>),
    /// Who leaves the line with it.
    Marks(Marks, u32),
}

impl Line {
    fn join(&mut self, whom: Whom) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.push_back(Waiting { id, notified: false, whom });
        id
    }
}

impl Event {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for a notification given after this call.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let id = self.0.borrow_mut().join(Whom::Task(None));
        Wait { event: self.clone(), id: Some(id), registered: None }
    }

    /// Wakes the one who has waited longest. True when there was one.
    pub fn notify_one(&self) -> bool {
        let mut woken = Woken::default();
        {
            let mut line = self.0.borrow_mut();
            let Some(index) = line.waiting.iter().position(|waiting| !waiting.notified) else { return false };
            line.notifications += 1;
            if woken.reached(&mut line.waiting[index]) {
                line.waiting.remove(index);
            }
        }
        woken.wake();
        true
    }

    /// Wakes all who wait now.
    pub fn notify_all(&self) {
        let mut woken = Woken::default();
        {
            let mut line = self.0.borrow_mut();
            line.notifications += 1;
            line.waiting.retain_mut(|waiting| !woken.reached(waiting));
        }
        woken.wake();
    }

    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.0.borrow().waiting.iter().any(|waiting| !waiting.notified)
    }
}

/// Whom to wake once the line is let go.
#[derive(Default)]
struct Woken {
    tasks: Vec<Waker>,
    marks: Vec<Marks>,
}

impl Woken {
    /// Notifies one who waits. True when he leaves the line.
    fn reached(&mut self, waiting: &mut Waiting) -> bool {
        waiting.notified = true;
        match &mut waiting.whom {
            Whom::Task(waker) => {
                self.tasks.extend(waker.take());
                false
            }
            Whom::Marks(marks, token) => {
                marks.push(*token);
                self.marks.push(marks.clone());
                true
            }
        }
    }

    fn wake(self) {
        wake_all(self.tasks);
        self.marks.iter().for_each(Marks::wake);
    }
}

/// Waits for an [`Event`].
pub struct Wait {
    event: Event,
    id: Option<u64>,
    registered: Option<Registered>,
}

/// What the last poll left in the line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Registered {
    /// Whose the waker is. It lies in the line, so no other can have its address.
    waker: (*const (), *const RawWakerVTable),
    /// [`Line::notifications`] then.
    notifications: u64,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(id) = self.id else { return Poll::Ready(()) };
        {
            let mut line = self.event.0.borrow_mut();
            let waker = (context.waker().data(), std::ptr::from_ref(context.waker().vtable()));
            let now = Registered { waker, notifications: line.notifications };
            // Who waits for several things is polled often, and some lines are long: that nothing has happened is told at once.
            if self.registered == Some(now) {
                return Poll::Pending;
            }
            let index = line.waiting.binary_search_by_key(&id, |waiting| waiting.id).expect("in line until it ends");
            let waiting = &mut line.waiting[index];
            if !waiting.notified {
                if let Whom::Task(known) = &mut waiting.whom
                    && !known.as_ref().is_some_and(|known| known.will_wake(context.waker()))
                {
                    *known = Some(context.waker().clone());
                }
                drop(line);
                self.registered = Some(now);
                return Poll::Pending;
            }
            line.waiting.remove(index);
        }
        self.id = None;
        Poll::Ready(())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let was_notified = {
            let mut line = self.event.0.borrow_mut();
            let index = line.waiting.binary_search_by_key(&id, |waiting| waiting.id).expect("in line until it ends");
            line.waiting.remove(index).is_some_and(|waiting| waiting.notified)
        };
        // It was woken but will not act on it: whoever is next does.
        if was_notified {
            self.event.notify_one();
        }
    }
}

/// One value from one task to another.
pub mod oneshot {
    use super::{Closed, Context, Future, Pin, Poll, Rc, RefCell, Waker};

    enum State<T> {
        Waiting(Option<Waker>),
        Sent(T),
        /// The sender was dropped, or the value taken.
        Over,
        /// The receiver was dropped.
        Deaf,
    }

    pub struct Sender<T>(Option<Rc<RefCell<State<T>>>>);

    /// A future of the value; [`Closed`] when the sender is dropped without sending.
    pub struct Receiver<T>(Rc<RefCell<State<T>>>);

    #[must_use]
    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = Rc::new(RefCell::new(State::Waiting(None)));
        (Sender(Some(state.clone())), Receiver(state))
    }

    impl<T> Sender<T> {
        /// Sends, or gives the value back when nobody waits any more.
        pub fn send(mut self, value: T) -> Result<(), T> {
            let state = self.0.take().expect("only `send` and `drop` take it");
            if matches!(*state.borrow(), State::Deaf) {
                return Err(value);
            }
            if let State::Waiting(Some(waker)) = state.replace(State::Sent(value)) {
                waker.wake();
            }
            Ok(())
        }

        /// The receiver was dropped.
        #[must_use]
        pub fn is_closed(&self) -> bool {
            self.0.as_ref().is_none_or(|state| matches!(*state.borrow(), State::Deaf))
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            let Some(state) = self.0.take() else { return };
            if matches!(*state.borrow(), State::Deaf) {
                return;
            }
            if let State::Waiting(Some(waker)) = state.replace(State::Over) {
                waker.wake();
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, Closed>;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            if let State::Waiting(waker) = &mut *self.0.borrow_mut() {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            match self.0.replace(State::Over) {
                State::Sent(value) => Poll::Ready(Ok(value)),
                _ => Poll::Ready(Err(Closed)),
            }
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            let value = self.0.replace(State::Deaf);
            drop(value);
        }
    }
}

/// A bounded queue between tasks of one shard.
pub struct Queue<T>(Rc<QueueInner<T>>);

struct QueueInner<T> {
    items: RefCell<VecDeque<T>>,
    /// One permit for each item.
    filled: Semaphore,
    /// One permit for each free place.
    room: Semaphore,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Queue<T> {
    /// An empty queue of at most `capacity` items.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let (filled, room) = (Semaphore::new(0), Semaphore::new(capacity));
        Self(Rc::new(QueueInner { items: RefCell::default(), filled, room }))
    }

    /// Waits for room. `Err` with the item when the queue is closed. A dropped future has not pushed.
    pub async fn push(&self, item: T) -> Result<(), T> {
        match self.0.room.acquire(1).await {
            Ok(permit) => {
                self.put(permit, item);
                Ok(())
            }
            Err(Closed) => Err(item),
        }
    }

    /// Gives the item back when the queue is full or closed, or others wait for room.
    pub fn try_push(&self, item: T) -> Result<(), T> {
        match self.0.room.try_acquire(1) {
            Some(permit) => {
                self.put(permit, item);
                Ok(())
            }
            None => Err(item),
        }
    }

    fn put(&self, permit: Permit, item: T) {
        permit.forget();
        self.0.items.borrow_mut().push_back(item);
        self.0.filled.release(1);
    }

    /// The oldest item; waits for one. `None` when the queue is closed and empty.
    pub async fn pop(&self) -> Option<T> {
        match self.0.filled.acquire(1).await {
            Ok(permit) => self.take(permit),
            // What was pushed before the close is still handed out.
            Err(Closed) => self.0.items.borrow_mut().pop_front(),
        }
    }

    #[must_use]
    pub fn try_pop(&self) -> Option<T> {
        match self.0.filled.try_acquire(1) {
            Some(permit) => self.take(permit),
            None if self.0.filled.0.borrow().closed => self.0.items.borrow_mut().pop_front(),
            None => None,
        }
    }

    fn take(&self, permit: Permit) -> Option<T> {
        permit.forget();
        let item = self.0.items.borrow_mut().pop_front();
        // After a close items go without permits, so one who was served before may come too late.
        assert!(item.is_some() || self.0.filled.0.borrow().closed, "a permit for each item");
        self.0.room.release(1);
        item
    }

    /// No more pushes; what is queued can still be popped.
    pub fn close(&self) {
        self.0.room.close();
        self.0.filled.close();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
