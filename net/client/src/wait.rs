//! How long to wait between tries: a pure function of the attempt and a random number, so a seeded world repeats it.

use std::time::Duration;

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
