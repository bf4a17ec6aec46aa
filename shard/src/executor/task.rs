//! A handle on a spawned task: its result, and the way to cancel it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::waker::TaskCell;
use super::{Account, Class, LocalFuture};
use crate::shard::Shard;

/// A future of a spawned task's result. Dropping it lets the task run on; [`Task::cancel`] ends it. The result of a task that its
/// shard dropped at shutdown never comes.
pub struct Task<T> {
    task: Detached,
    join: Rc<RefCell<Join<T>>>,
}

/// A task that runs by itself: nobody waits for its end, which spares it what a result would take. Dropping the handle changes nothing.
pub struct Detached {
    shard: Shard,
    /// `None` where the shard was already shut down.
    cell: Option<Arc<TaskCell>>,
}

impl Detached {
    pub(crate) fn spawn(shard: &Shard, class: Class, account: Account, future: LocalFuture) -> Self {
        let cell = if shard.is_shut_down() { None } else { Some(shard.executor().spawn(class, account, future)) };
        Self { shard: shard.clone(), cell }
    }

    /// Drops the task's future now; if the task is the caller itself, at the end of its present poll.
    pub fn cancel(self) {
        if let Some(cell) = &self.cell {
            self.shard.executor().cancel(cell);
        }
    }
}

enum Join<T> {
    Running(Option<Waker>),
    Done(T),
    Taken,
}

impl<T: 'static> Task<T> {
    pub(crate) fn spawn(
        shard: &Shard,
        class: Class,
        account: Account,
        work: impl Future<Output = T> + 'static,
    ) -> Self {
        let join = Rc::new(RefCell::new(Join::Running(None)));
        let finished = join.clone();
        // By itself on the heap: what an async block captures and then awaits it would hold twice.
        let work = Box::pin(work);
        let future: LocalFuture = Box::pin(async move {
            let result = work.await;
            let before = finished.replace(Join::Done(result));
            if let Join::Running(Some(waker)) = before {
                waker.wake();
            }
        });
        Self { task: Detached::spawn(shard, class, account, future), join }
    }

    /// Drops the task's future now; if the task is the caller itself, at the end of its present poll.
    pub fn cancel(self) {
        self.task.cancel();
    }

    /// The result is there.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !matches!(&*self.join.borrow(), Join::Running(_))
    }

    /// The result, if it is there.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.is_finished() {
            return None;
        }
        match self.join.replace(Join::Taken) {
            Join::Done(result) => Some(result),
            Join::Running(_) | Join::Taken => None,
        }
    }
}

impl<T: 'static> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Join::Running(waker) = &mut *self.join.borrow_mut() {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.take().expect("a task's result is taken once"))
    }
}

/// Ready at its second poll.
pub struct YieldNow {
    yielded: bool,
}

impl YieldNow {
    pub(crate) fn new() -> Self {
        Self { yielded: false }
    }
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
