//! The shard: one core's executor, driver, memory, timers and operations, behind one handle that is passed, never ambient.
//!
//! Owner: itself; one thread. Life cycle: `new` on the thread that will run it, `run` (or `turn` by a world that simulates),
//! `shutdown`, drop. A turn is bounded: it takes in what arrived, polls tasks within the classes' budgets, and hands out what they
//! asked for. Tasks hold the shard and the shard holds its tasks; `shutdown` breaks that circle.
//!
//! Invariants: no `RefCell` borrow is held while a task is polled or dropped, or a waker is called; after `shutdown` or `abort` no driver
//! call is made, so a crashed world may be taken apart at leisure; same completions at the same times give the same schedule.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::{Histogram, Instant, MIB, ShardId, WallTime};

use crate::buffer::Arena;
use crate::driver::{Completion, Driver, Op, OpId, Outcome, StrayCloser, UringStats, Work};
use crate::executor::account::AccountTable;
use crate::executor::signal::Signal;
use crate::executor::timer::TimerTable;
use crate::executor::{Account, AccountUse, Class, Detached, Executor, Ready, Sleep, Task, YieldNow};
use crate::fs::Fs;
use crate::ops::{After, OpTable, Pending, mismatch};
use crate::socket::{Listener, Socket};

/// Polls of latency work in one turn before the others get their share.
const LATENCY_POLLS_MAX: u32 = 128;
/// Polls of normal work in one turn.
const NORMAL_POLLS_MAX: u32 = 32;
/// Polls of background work in one turn.
const BACKGROUND_POLLS_MAX: u32 = 32;
/// How long background work may hold a turn once it has begun; one poll is guaranteed to it in every turn.
const BACKGROUND_SLICE: Duration = Duration::from_micros(250);
/// A turn that has lasted this long gives each class that has had none one more poll, and ends: what tasks submitted goes to the kernel
/// between turns.
const TURN_SLICE: Duration = Duration::from_micros(500);
/// Completions, wakes and messages are taken in after so many polls, and after every poll of background work.
const POLLS_PER_GATHER: u32 = 8;
/// Where polls are long they are taken in after this time, and what was submitted is handed over: a commit on a busy core then waits
/// for one poll at each of its steps, not for a turn.
const GATHER_INTERVAL: Duration = Duration::from_micros(100);

/// What received bytes may take of the arena. They wait for all other uses of it, so they never get all of it.
const RECEIVED_PERCENT: usize = 36;

/// How a shard is set up.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    pub id: ShardId,
    /// Bound of the buffer arena, in bytes.
    pub arena_bytes: usize,
    /// A poll longer than this counts as a stall of its account.
    pub stall_limit: Duration,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self { id: ShardId(0), arena_bytes: 64 * MIB, stall_limit: Duration::from_millis(5) }
    }
}

/// What a turn left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There is more to do.
    Busy,
    /// Nothing to do until then, a completion or a wake. The shard counts as parked, so peers will call `wake`.
    Idle { until: Option<Instant> },
}

/// What a shard has done with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uptime {
    pub running: Duration,
    /// Of that, with nothing to do.
    pub parked: Duration,
}

/// Something besides the driver that brings a shard work: a mesh.
pub(crate) trait Source {
    /// Takes in what arrived and wakes who waits for it.
    fn gather(&self);
    /// Rings the bells of peers that were sent something.
    fn flush(&self, shard: &Shard);
    /// There is something to gather.
    fn has_work(&self) -> bool;
}

struct Inner {
    id: ShardId,
    stall_limit: Duration,
    executor: Executor,
    signal: Arc<Signal>,
    ops: RefCell<OpTable>,
    timers: RefCell<TimerTable>,
    accounts: AccountTable,
    sources: RefCell<Vec<Rc<dyn Source>>>,
    completions: RefCell<Vec<Completion>>,
    arena: Arena,
    received: Arena,
    started: Instant,
    parked_ns: Cell<u64>,
    /// Shut down, or about to end with the process: no more driver calls.
    ended: Cell<bool>,
    driver: RefCell<Driver>,
}

/// A handle on a shard. Clones are the same shard.
#[derive(Clone)]
pub struct Shard(Rc<Inner>);

impl Shard {
    /// A shard that lives on the calling thread.
    #[must_use]
    pub fn new(options: ShardOptions, mut driver: Driver) -> Self {
        let arena = Arena::new(options.arena_bytes);
        let received = arena.part(options.arena_bytes / 100 * RECEIVED_PERCENT);
        driver.attach(options.id, &arena, &received);
        let signal = Arc::new(Signal::new(driver.unparker()));
        arena.set_signal(signal.clone());
        let (executor, started) = (Executor::new(signal.clone()), driver.now());
        executor.gate.set_now(started);
        Self(Rc::new(Inner {
            id: options.id,
            stall_limit: options.stall_limit,
            executor,
            signal,
            ops: RefCell::default(),
            timers: RefCell::default(),
            accounts: AccountTable::new(),
            sources: RefCell::default(),
            completions: RefCell::default(),
            arena,
            received,
            started,
            parked_ns: Cell::new(0),
            ended: Cell::new(false),
            driver: RefCell::new(driver),
        }))
    }

    #[must_use]
    pub fn id(&self) -> ShardId {
        self.0.id
    }

    /// The monotonic clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.driver.borrow().now()
    }

    /// The clock that people set.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.0.driver.borrow().wall()
    }

    #[must_use]
    pub fn random(&self) -> u64 {
        self.0.driver.borrow_mut().random()
    }

    /// Starts a task on this shard. After `shutdown` the task is dropped at once.
    pub fn spawn<T: 'static>(
        &self,
        class: Class,
        account: Account,
        task: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        Task::spawn(self, class, account, task)
    }

    /// Starts a task that nobody waits for. After `shutdown` it is dropped at once.
    pub fn spawn_detached(&self, class: Class, account: Account, task: impl Future<Output = ()> + 'static) -> Detached {
        Detached::spawn(self, class, account, Box::pin(task))
    }

    #[must_use]
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    #[must_use]
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.sleep_until(self.now() + delay)
    }

    /// What `work` yields; `None` once `deadline` has come before, and `work` is dropped.
    pub async fn until<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut late = pin!(self.sleep_until(deadline));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => late.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    /// Lets the others of this class run first.
    #[must_use]
    pub fn yield_now(&self) -> YieldNow {
        YieldNow::new()
    }

    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.0.arena
    }

    /// The part of the arena for what comes in from sockets.
    #[must_use]
    pub fn received(&self) -> &Arena {
        &self.0.received
    }

    /// File-system work.
    #[must_use]
    pub fn fs(&self) -> Fs {
        Fs::new(self.clone())
    }

    pub async fn listen(&self, addr: SocketAddr) -> io::Result<Listener> {
        match self.submit(Op::Listen { addr }).await? {
            Outcome::Listener { listener, local_addr } => Ok(Listener::new(self.clone(), listener, local_addr)),
            other => mismatch(&other),
        }
    }

    pub async fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        match self.submit(Op::Connect { addr }).await? {
            Outcome::Socket(socket) => Ok(Socket::new(self.clone(), socket)),
            other => mismatch(&other),
        }
    }

    /// Runs `work` on the helper thread: for what would hold the core too long.
    ///
    /// # Panics
    /// When `work` panics, with the same payload.
    pub async fn offload<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let work = Work(Box::new(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // The receiver is gone when nobody waits any more.
            let _ = sender.send(result);
        }));
        let ended = self.submit(Op::Offload(work)).await;
        match receiver.try_recv() {
            Ok(Ok(result)) => result,
            Ok(Err(payload)) => std::panic::resume_unwind(payload),
            Err(_) => panic!("the helper thread did not run the work: {ended:?}"),
        }
    }

    /// Ends the process, at once, with nothing flushed: for a shard that can no longer keep its promises.
    pub fn abort(&self, reason: &str) -> ! {
        self.0.ended.set(true);
        self.0.driver.borrow_mut().abort(reason)
    }

    /// Opens the account of that name, or finds it.
    #[must_use]
    pub fn account(&self, name: &str) -> Account {
        self.0.accounts.get(name)
    }

    /// What each account has used, in name order.
    #[must_use]
    pub fn accounts(&self) -> Vec<AccountUse> {
        self.0.accounts.usage()
    }

    /// How long the shard has run, and how much of that it had nothing to do: what is left, it was busy.
    #[must_use]
    pub fn uptime(&self) -> Uptime {
        let running = self.now().since(self.0.started);
        Uptime { running, parked: Duration::from_nanos(self.0.parked_ns.get()).min(running) }
    }

    /// From the wake of a task to its poll, in nanoseconds, over all tasks of a class.
    #[must_use]
    pub fn queue_delay(&self, class: Class) -> &Histogram {
        self.0.executor.queue_delay(class)
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.0.executor.task_count()
    }

    /// Operations that have not ended, or whose result was not taken.
    #[must_use]
    pub fn ops_in_flight(&self) -> usize {
        self.0.ops.borrow().in_flight()
    }

    /// True when something came for this shard since it became idle: a world that cannot block gives it a turn then.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.0.signal.is_notified()
    }

    /// How often the driver went to the kernel; `None` for one that does not.
    #[must_use]
    pub fn uring_stats(&self) -> Option<UringStats> {
        self.0.driver.borrow().uring_stats()
    }

    /// One bounded turn.
    pub fn turn(&self) -> Turn {
        let inner = &*self.0;
        if inner.ended.get() {
            return Turn::Idle { until: None };
        }
        inner.signal.awake();
        let mut now = self.gather(self.now());
        let mut budget = Budget::new(now);
        let mut gathered = now;
        // The most urgent class that may have submitted something since the last hand-over.
        let mut submitting: Option<Class> = None;
        let mut polls = 0;
        while let Some((ready, class)) = self.pick(&mut budget, now) {
            if submitting.is_some_and(|urgent| urgent < class) {
                // What the more urgent want of the kernel does not wait for the less urgent.
                self.flush();
                inner.driver.borrow_mut().hand_over();
                submitting = None;
            }
            submitting = Some(submitting.map_or(class, |urgent| urgent.min(class)));
            now = inner.executor.poll(ready, now, inner.stall_limit, || self.now());
            if inner.ended.get() {
                return Turn::Idle { until: None };
            }
            polls += 1;
            let is_long_ago = now.since(gathered) >= GATHER_INTERVAL;
            if is_long_ago || polls % POLLS_PER_GATHER == 0 || class == Class::Background {
                self.flush();
                if is_long_ago {
                    inner.driver.borrow_mut().hand_over();
                    submitting = None;
                }
                now = self.gather(now);
                gathered = now;
            }
        }
        self.flush();
        inner.driver.borrow_mut().end_turn();
        if self.has_ready() {
            return Turn::Busy;
        }
        inner.signal.park();
        if self.has_arrivals() {
            inner.signal.awake();
            return Turn::Busy;
        }
        Turn::Idle { until: inner.timers.borrow().next_deadline() }
    }

    /// Takes turns, and parks between them, until `main` is done.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let task = self.spawn(Class::Normal, self.account("main"), main);
        loop {
            let turn = self.turn();
            if let Some(result) = task.take() {
                return result;
            }
            if let Turn::Idle { until } = turn {
                let since = self.now();
                self.0.driver.borrow_mut().park(until);
                let parked_ns = self.now().since(since).as_nanos() as u64;
                self.0.parked_ns.set(self.0.parked_ns.get() + parked_ns);
            }
        }
    }

    /// Drops all tasks, timers and meshes; makes no more driver calls. Operations in flight end with the driver.
    pub fn shutdown(&self) {
        let inner = &*self.0;
        inner.ended.set(true);
        inner.executor.shutdown();
        let wakers = inner.timers.borrow_mut().clear();
        let sources = std::mem::take(&mut *inner.sources.borrow_mut());
        drop((wakers, sources));
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.0.ended.get()
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.0.signal
    }

    pub(crate) fn ops<R>(&self, f: impl FnOnce(&mut OpTable) -> R) -> R {
        f(&mut self.0.ops.borrow_mut())
    }

    pub(crate) fn timers<R>(&self, f: impl FnOnce(&mut TimerTable) -> R) -> R {
        f(&mut self.0.timers.borrow_mut())
    }

    pub(crate) fn add_source(&self, source: Rc<dyn Source>) {
        self.0.sources.borrow_mut().push(source);
    }

    pub(crate) fn stray_closer(&self) -> Option<StrayCloser> {
        self.0.driver.borrow().stray_closer()
    }

    pub(crate) fn wake_peer(&self, peer: ShardId) {
        if !self.is_quiet() {
            self.0.driver.borrow_mut().wake(peer);
        }
    }

    /// Hands an operation to the driver.
    pub(crate) fn submit(&self, op: Op) -> Pending {
        let id = self.ops(|ops| ops.open(&op, false));
        if !self.is_quiet() {
            self.0.driver.borrow_mut().submit(id, op);
        }
        Pending::new(self.clone(), id)
    }

    /// Hands over an operation that nobody waits for: a close.
    pub(crate) fn submit_detached(&self, op: Op) {
        if !self.is_quiet() {
            let id = self.ops(|ops| ops.open(&op, true));
            self.0.driver.borrow_mut().submit(id, op);
        }
    }

    pub(crate) fn cancel_op(&self, id: OpId) {
        if !self.is_quiet() {
            self.0.driver.borrow_mut().cancel(id);
        }
    }

    /// No driver call is made: the shard has ended, or its world is crashing and the panic unwinds through here.
    fn is_quiet(&self) -> bool {
        self.0.ended.get() || std::thread::panicking()
    }

    /// What a completion asks for.
    pub(crate) fn finish(&self, after: After) {
        match after {
            After::Wake(Some(waker)) => waker.wake(),
            After::Wake(None) => {}
            After::Dispose { result: Ok(Outcome::Socket(socket)), passed_to: Some(to) } => {
                if let Some(close) = self.stray_closer() {
                    close(to, socket);
                }
            }
            After::Dispose { result: Ok(outcome), passed_to: None } => match outcome {
                Outcome::File { file, .. } => self.submit_detached(Op::CloseFile { file }),
                Outcome::Listener { listener, .. } => self.submit_detached(Op::CloseListener { listener }),
                Outcome::Accepted { socket, .. } | Outcome::Socket(socket) => {
                    self.submit_detached(Op::CloseSocket { socket });
                }
                _ => {}
            },
            // Nobody waits for the operation, so nobody can act on its error; cancelled ones end this way.
            After::Dispose { .. } => {}
        }
    }

    /// Takes in completions, due timers, wakes, returned memory and messages; whom they wake waits from `since` on. Returns the time.
    fn gather(&self, since: Instant) -> Instant {
        let inner = &*self.0;
        inner.executor.gate.set_now(since);
        let mut completions = inner.completions.take();
        inner.driver.borrow_mut().reap(&mut completions);
        for Completion { id, result } in completions.drain(..) {
            let after = inner.ops.borrow_mut().complete(id, result);
            self.finish(after);
        }
        inner.completions.replace(completions);
        inner.executor.gate.take_remote();
        inner.arena.reclaim();
        for index in 0.. {
            let Some(source) = inner.sources.borrow().get(index).cloned() else { break };
            source.gather();
        }
        let now = self.now();
        loop {
            let due = inner.timers.borrow_mut().pop_due(now);
            let Some(waker) = due else { break };
            waker.wake();
        }
        now
    }

    fn flush(&self) {
        for index in 0.. {
            let Some(source) = self.0.sources.borrow().get(index).cloned() else { break };
            source.flush(self);
        }
    }

    /// The next task to poll within the budgets of this turn.
    fn pick(&self, budget: &mut Budget, now: Instant) -> Option<(Ready, Class)> {
        let executor = &self.0.executor;
        let is_late = now.since(budget.started) >= TURN_SLICE;
        let within = |polls: u32, polls_max: u32| if is_late { polls == 0 } else { polls < polls_max };
        if within(budget.latency_polls, LATENCY_POLLS_MAX)
            && let Some(ready) = executor.pop(Class::Latency)
        {
            budget.latency_polls += 1;
            return Some((ready, Class::Latency));
        }
        if within(budget.normal_polls, NORMAL_POLLS_MAX)
            && let Some(ready) = executor.pop(Class::Normal)
        {
            budget.normal_polls += 1;
            return Some((ready, Class::Normal));
        }
        // The first poll is guaranteed; more only while nobody more urgent waits and the slice lasts. It is counted too, since a
        // simulated clock stands still within a turn.
        let in_slice = match budget.background_since {
            None => true,
            Some(since) => {
                within(budget.background_polls, BACKGROUND_POLLS_MAX)
                    && now.since(since) < BACKGROUND_SLICE
                    && !self.has_urgent()
            }
        };
        if in_slice && let Some(ready) = executor.pop(Class::Background) {
            budget.background_polls += 1;
            budget.background_since.get_or_insert(now);
            return Some((ready, Class::Background));
        }
        None
    }

    fn has_urgent(&self) -> bool {
        self.0.executor.has_ready(Class::Latency) || self.0.executor.has_ready(Class::Normal)
    }

    fn has_ready(&self) -> bool {
        self.has_urgent() || self.0.executor.has_ready(Class::Background)
    }

    /// Work that came in by a door other than the driver's.
    fn has_arrivals(&self) -> bool {
        let inner = &*self.0;
        inner.executor.gate.has_remote()
            || inner.arena.has_wanted_returns()
            || inner.sources.borrow().iter().any(|source| source.has_work())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.executor.shutdown();
        self.arena.close();
    }
}

/// What each class has had of the present turn.
struct Budget {
    started: Instant,
    latency_polls: u32,
    normal_polls: u32,
    background_polls: u32,
    background_since: Option<Instant>,
}

impl Budget {
    fn new(started: Instant) -> Self {
        Self { started, latency_polls: 0, normal_polls: 0, background_polls: 0, background_since: None }
    }
}
