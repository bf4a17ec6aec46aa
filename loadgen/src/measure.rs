//! What is counted while a run goes on, second by second.
//!
//! Owner: each thread has a [`Meter`]; a second that is over goes to whoever puts the threads' seconds together. Pure.
//!
//! Latencies are of records that were due in the measured time, whenever they were acknowledged or delivered; counts are of what happened
//! in each second.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::report::{Histograms, Second};

/// The measured time, in nanoseconds since the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub begin_ns: u64,
    pub end_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Window {
    #[must_use]
    pub fn new(warm_up: Duration, duration: Duration) -> Self {
        let begin_ns = warm_up.as_nanos() as u64;
        Self { begin_ns, end_ns: begin_ns + duration.as_nanos() as u64 }
    }

    /// Whether a time lies in it.
    #[must_use]
    pub fn has(&self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }

    /// How many seconds it has; the last may be short.
    #[must_use]
    pub fn seconds(&self) -> u32 {
        (self.end_ns - self.begin_ns).div_ceil(SECOND_NS) as u32
    }

    /// The second of it that a time lies in: `None` before it, [`Window::seconds`] after it.
    fn second_of(&self, at_ns: u64) -> Option<u32> {
        let since = at_ns.checked_sub(self.begin_ns)?;
        Some(if at_ns < self.end_ns { (since / SECOND_NS) as u32 } else { self.seconds() })
    }
}

/// What happened in one second.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub acknowledged: u64,
    pub acknowledged_bytes: u64,
    pub delivered: u64,
    pub failed: u64,
    pub behind_ns_max: u64,
    /// Of records due in the measured time: delivered before their acknowledgement was known.
    pub early: u64,
    pub histograms: Histograms,
}

impl Tally {
    /// Adds another thread's, or another second's.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.acknowledged_bytes += other.acknowledged_bytes;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.behind_ns_max = self.behind_ns_max.max(other.behind_ns_max);
        self.early += other.early;
        self.histograms.add(&other.histograms);
    }

    /// As it stands in the report.
    #[must_use]
    pub fn as_second(&self, second: u32, due: u64) -> Second {
        let at = |histogram: &Histogram<u64>, quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let Histograms { produce, consume, end_to_end } = &self.histograms;
        Second {
            second,
            due,
            acknowledged: self.acknowledged,
            delivered: self.delivered,
            failed: self.failed,
            behind_ms: self.behind_ns_max as f64 / 1e6,
            produce_p50_us: at(produce, 0.5),
            produce_p99_us: at(produce, 0.99),
            produce_max_us: produce.max() as f64 / 1e3,
            consume_p50_us: at(consume, 0.5),
            consume_p99_us: at(consume, 0.99),
            consume_max_us: consume.max() as f64 / 1e3,
            end_to_end_p50_us: at(end_to_end, 0.5),
            end_to_end_p99_us: at(end_to_end, 0.99),
            end_to_end_max_us: end_to_end.max() as f64 / 1e3,
        }
    }
}

/// The meter of one thread.
pub struct Meter {
    window: Window,
    /// The second that is counted: `None` before the measured time.
    second: Option<u32>,
    tally: Tally,
}

fn record(histogram: &mut Histogram<u64>, ns: u64, count: u64) {
    histogram.record_n(ns, count).expect("it grows");
}

impl Meter {
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, second: None, tally: Tally::default() }
    }

    /// Moves on to the second of a time. Returns the second that is over, if one is.
    pub fn roll(&mut self, at_ns: u64) -> Option<(u32, Tally)> {
        let second = self.window.second_of(at_ns);
        if second <= self.second {
            return None;
        }
        let over = std::mem::replace(&mut self.second, second)?;
        Some((over, std::mem::take(&mut self.tally)))
    }

    /// What has been counted since the last second that was over.
    #[must_use]
    pub fn finish(self) -> Option<(u32, Tally)> {
        Some((self.second?, self.tally))
    }

    /// A batch was acknowledged, whose records were due then.
    pub fn acknowledged(&mut self, at_ns: u64, due_ns: &[u64], bytes: u64) {
        if self.second.is_none() {
            return;
        }
        self.tally.acknowledged += due_ns.len() as u64;
        self.tally.acknowledged_bytes += bytes;
        for due in due_ns.iter().filter(|due| self.window.has(**due)) {
            record(&mut self.tally.histograms.produce, at_ns.saturating_sub(*due), 1);
        }
    }

    /// A record was delivered; `acknowledged_ns` is when it was acknowledged, if that is known.
    pub fn delivered(&mut self, at_ns: u64, due_ns: u64, acknowledged_ns: Option<u64>) {
        if self.second.is_none() {
            return;
        }
        self.tally.delivered += 1;
        if !self.window.has(due_ns) {
            return;
        }
        record(&mut self.tally.histograms.end_to_end, at_ns.saturating_sub(due_ns), 1);
        if let Some(acknowledged) = acknowledged_ns {
            record(&mut self.tally.histograms.consume, at_ns.saturating_sub(acknowledged), 1);
        }
    }

    /// Records that were due then had been delivered before their acknowledgement came.
    pub fn early(&mut self, due_ns: &[u64]) {
        let count = due_ns.iter().filter(|due| self.window.has(**due)).count() as u64;
        if count > 0 && self.second.is_some() {
            self.tally.early += count;
            record(&mut self.tally.histograms.consume, 0, count);
        }
    }

    pub fn failed(&mut self, count: u64) {
        if self.second.is_some() {
            self.tally.failed += count;
        }
    }

    /// A record was handed to the client so long after it was due.
    pub fn behind(&mut self, ns: u64) {
        if self.second.is_some() {
            self.tally.behind_ns_max = self.tally.behind_ns_max.max(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_of_what_was_due_in_the_measured_time_and_counts_of_what_happened_in_it() {
        let second = SECOND_NS;
        let mut meter = Meter::new(Window::new(Duration::from_secs(1), Duration::from_secs(2)));
        meter.acknowledged(second / 2, &[0], 10);
        assert!(meter.roll(second).is_none());
        // Due before the measured time, acknowledged in it.
        meter.acknowledged(second + 5, &[second - 5], 10);
        meter.acknowledged(second + 7, &[second + 2, second + 4], 20);
        meter.delivered(second + 9, second + 2, Some(second + 7));
        meter.early(&[second - 1, second + 1, second + 2, second + 3]);
        meter.behind(50);
        let (over, tally) = meter.roll(2 * second).expect("a second is over");
        assert_eq!((over, tally.acknowledged, tally.acknowledged_bytes, tally.delivered), (0, 3, 30, 1));
        let Histograms { produce, consume, end_to_end } = &tally.histograms;
        assert_eq!((produce.len(), produce.max(), end_to_end.max(), consume.len(), consume.max()), (2, 5, 7, 4, 2));
        assert_eq!((tally.early, tally.behind_ns_max), (3, 50));
        // Acknowledged after the measured time: its latency counts.
        let (over, _) = meter.roll(3 * second + 1).expect("a second is over");
        assert_eq!(over, 1);
        meter.acknowledged(4 * second, &[3 * second - 1, 3 * second], 20);
        let (over, tally) = meter.finish().expect("something was counted");
        assert_eq!((over, tally.histograms.produce.len()), (2, 1));
    }
}
