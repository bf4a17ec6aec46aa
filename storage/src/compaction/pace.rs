//! How much of its time compaction works. Pure.
//!
//! A piece of its work costs those who append: the device reads and writes for it while a commit waits, and the core works on it. So
//! compaction rests after each piece, in proportion to the time that the piece took: where the device or the core is slow, since others use
//! them, it takes less of both. That is bounded by how long a log waits: once one has waited for longer than it may, the share of work
//! grows with time until it keeps up, at the latest when it works all the time. See docs/adr/0011-compaction.md.

use std::time::Duration;

use base::Instant;

/// So long a log may wait before compaction works more than its share.
const PATIENCE: Duration = Duration::from_secs(600);
/// Whatever a piece took, nobody rests longer after it: a device that stood still has made everybody wait already.
const REST_MAX: Duration = Duration::from_secs(1);
const PPM: u128 = 1_000_000;

/// A log that has something to compact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Since when.
    pub since: Instant,
    /// How long it may wait.
    patience: Duration,
}

impl Wait {
    /// `max_lag_ms` is the log's `max.compaction.lag.ms`.
    #[must_use]
    pub fn new(since: Instant, max_lag_ms: i64) -> Self {
        let max_lag = Duration::from_millis(u64::try_from(max_lag_ms).unwrap_or(0));
        Self { since, patience: PATIENCE.min(max_lag) }
    }

    /// When compaction is to work all the time for it: of two logs the one that is earlier presses more.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.since + self.patience * 2
    }

    /// How far it is past its patience, in millionths of that: 1,000,000 from when on compaction is to work all the time.
    fn lateness_ppm(&self, now: Instant) -> u128 {
        let late = now.since(self.since).saturating_sub(self.patience);
        (late.as_nanos() * PPM).checked_div(self.patience.as_nanos()).unwrap_or(PPM).min(PPM)
    }
}

/// The share of its time in which compaction works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    percent: u32,
}

impl Pace {
    /// Works `percent` of its time, 1 to 100, while no log is late.
    #[must_use]
    pub fn new(percent: u32) -> Self {
        Self { percent: percent.clamp(1, 100) }
    }

    /// How long to rest after so much work, where `wait` presses most.
    #[must_use]
    pub fn rest(self, worked: Duration, wait: &Wait, now: Instant) -> Duration {
        let least_ppm = u128::from(self.percent) * PPM / 100;
        let share_ppm = least_ppm + (PPM - least_ppm) * wait.lateness_ppm(now) / PPM;
        let rest_ns = worked.as_nanos() * (PPM - share_ppm) / share_ppm;
        Duration::from_nanos(u64::try_from(rest_ns).unwrap_or(u64::MAX)).min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(5_000_000_000);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_log_that_waits_too_long_has_it_work_more() {
        // Percent, the log's greatest lag, how long it has waited, and the rest after a millisecond, in microseconds.
        let table = [
            (10, i64::MAX, 0, 9000),
            (10, i64::MAX, 600_000, 9000),
            (10, i64::MAX, 900_000, 818),
            (10, i64::MAX, 1_200_000, 0),
            (10, i64::MAX, i64::MAX / 1_000_000, 0),
            (50, i64::MAX, 0, 1000),
            (100, i64::MAX, 0, 0),
            (0, i64::MAX, 0, 99_000),
            (10, 2000, 2000, 9000),
            (10, 2000, 4000, 0),
            (10, 0, 0, 0),
            (10, -1, 0, 0),
        ];
        for (percent, max_lag_ms, waited_ms, rest_us) in table {
            let now = START + Duration::from_millis(waited_ms as u64);
            let rest = Pace::new(percent).rest(MS, &Wait::new(START, max_lag_ms), now);
            assert_eq!(rest.as_micros(), rest_us, "{percent} %, {max_lag_ms}, {waited_ms}");
        }
    }

    #[test]
    fn what_stood_still_is_not_waited_for_once_more() {
        let wait = Wait::new(START, i64::MAX);
        assert_eq!(Pace::new(10).rest(Duration::from_secs(60), &wait, START), REST_MAX);
    }

    #[test]
    fn the_impatient_press_more() {
        let patient = Wait::new(START, i64::MAX);
        let impatient = Wait::new(START + Duration::from_secs(60), 1000);
        assert!(impatient.until() < patient.until());
    }
}
