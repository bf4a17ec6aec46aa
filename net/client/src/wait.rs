//! Waiting with an end: a future or a deadline, and how long to wait between tries.
//!
//! Owner: whoever waits. The delays are a pure function of the attempt and a random number, so a seeded world repeats them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base::Instant;
use shard::Shard;

/// The deadline came first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Elapsed;

/// `future`, or [`Elapsed`] once `deadline` has come; the future is dropped then.
pub(crate) async fn until<T>(shard: &Shard, deadline: Instant, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    let mut deadline = pin!(shard.sleep_until(deadline));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => deadline.as_mut().poll(context).map(|_| Err(Elapsed)),
    })
    .await
}

/// Ends with the first of the two; the other is dropped.
pub(crate) async fn either(first: impl Future, second: impl Future) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => second.as_mut().poll(context).map(|_| ()),
    })
    .await;
}

/// Bounds of the delay before another try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryOptions {
    pub delay_min: Duration,
    pub delay_max: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { delay_min: Duration::from_millis(50), delay_max: Duration::from_secs(1) }
    }
}

/// Delays that double from the least to the most, each up to a fifth shorter or longer so that clients do not march in step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    options: RetryOptions,
    attempts: u32,
}

impl Backoff {
    pub(crate) fn new(options: RetryOptions) -> Self {
        Self { options, attempts: 0 }
    }

    /// The delay before the next try; `random` is any number.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let doubled = self.options.delay_min.saturating_mul(1_u32 << self.attempts.min(20));
        self.attempts = self.attempts.saturating_add(1);
        let delay = doubled.min(self.options.delay_max);
        // 80 % to 120 %, in thousandths.
        let thousandths = 800 + u32::try_from(random % 401).expect("below 401");
        (delay / 1000).saturating_mul(thousandths)
    }

    /// A try went well: the next delay is the least again.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_within_their_bounds() {
        let options = RetryOptions { delay_min: Duration::from_millis(100), delay_max: Duration::from_secs(1) };
        let delays = |random: u64| {
            let mut backoff = Backoff::new(options);
            (0..6).map(|_| backoff.next(random).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(delays(200), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(delays(0), [80, 160, 320, 640, 800, 800]);
        assert_eq!(delays(400), [120, 240, 480, 960, 1200, 1200]);
        let mut backoff = Backoff::new(options);
        (0..100).for_each(|attempt| assert!(backoff.next(attempt * 7919) <= Duration::from_millis(1200)));
        backoff.reset();
        assert_eq!(backoff.next(200), Duration::from_millis(100));
    }
}
