//! Clients run on one shard with the production driver, on a thread of the test's process.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base::MIB;
use client::{Client, ClientOptions, RetryOptions};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions, UringOptions};

/// Memory for the clients' buffers: an answer may be a quarter of it.
const ARENA_BYTES: usize = 256 * MIB;

/// Runs `main` on a shard of its own; its panic is the test's.
///
/// # Panics
/// With `main`, and where io_uring is refused.
pub fn on_shard<T, F>(main: impl FnOnce(Shard) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let options = SpawnOptions {
        pin: false,
        uring: UringOptions { register_buffers: false, ..UringOptions::default() },
        shard: ShardOptions { arena_bytes: ARENA_BYTES, ..ShardOptions::default() },
    };
    let threads =
        spawn_shards(&options, vec![main], |shard, main| caught(main(shard))).expect("a shard can be started");
    let result = threads.join().pop().expect("one shard was started");
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A panic would end the whole process, message and all: it goes to whoever joins instead.
async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// What `future` yields.
///
/// # Panics
/// When it takes too long: `what` was expected.
pub async fn within<T>(shard: &Shard, secs: u64, what: &str, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut late = pin!(shard.sleep(Duration::from_secs(secs)));
    let outcome = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => late.as_mut().poll(context).map(|()| None),
    });
    outcome.await.unwrap_or_else(|| panic!("{what}: not within {secs} s"))
}

/// A client that tries again soon, and gives up only after a broker has had every chance.
#[must_use]
pub fn client(shard: &Shard, kafka: &str) -> Client {
    let retry = RetryOptions { delay_min: Duration::from_millis(10), delay_max: Duration::from_millis(100) };
    Client::new(shard, ClientOptions { retry, ..ClientOptions::new(vec![kafka.to_owned()]) })
}
