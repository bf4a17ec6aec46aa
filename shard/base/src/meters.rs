//! What a shard measures of itself, in a few nanoseconds a value: counters, and histograms whose buckets double every second one.
//!
//! Owner: one shard, without a lock; what leaves the shard is a rendered text. A bucket's bound is at most half as large again as the
//! one before it, so a quantile read from the buckets is right within that.

use std::cell::Cell;

use crate::Instant;

/// A number that only grows.
#[derive(Default, Debug)]
pub struct Counter(Cell<u64>);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.set(self.0.get().wrapping_add(more));
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Which values a [`Histogram`] tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// The first bucket takes what is at most 2 to the power of this.
    pub least_log2: u32,
    /// Doublings above it that have buckets, two each; what is larger still is counted without a bound.
    pub doublings: u32,
}

impl Scale {
    /// Durations in nanoseconds: 1 µs to 8.6 s.
    pub const NANOSECONDS: Self = Self { least_log2: 10, doublings: 23 };
    /// Sizes in bytes: 256 B to 1 GiB.
    pub const BYTES: Self = Self { least_log2: 8, doublings: 22 };

    fn buckets(self) -> usize {
        2 * self.doublings as usize + 1
    }

    /// The bucket of a value: its index among the bounded ones, or their count.
    fn bucket(self, value: u64) -> usize {
        // Halves of the least value, so that the bounds at one and a half are whole numbers too.
        let halves = value.saturating_sub(1) >> (self.least_log2 - 1);
        if halves < 2 {
            return 0;
        }
        let doubling = halves.ilog2();
        let upper_half = (halves >> (doubling - 1)) & 1;
        ((2 * doubling - 1 + upper_half as u32) as usize).min(self.buckets())
    }

    /// The largest value of a bucket.
    fn bound(self, bucket: usize) -> u64 {
        let least = 1 << self.least_log2;
        match bucket {
            0 => least,
            odd if odd % 2 == 1 => (least + least / 2) << (odd / 2),
            even => least << (even / 2),
        }
    }
}

/// Counts by bucket, and the sum of all values.
#[derive(Debug)]
pub struct Histogram {
    scale: Scale,
    counts: Box<[Counter]>,
    sum: Counter,
}

impl Histogram {
    /// # Panics
    /// When the scale begins below 2.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        assert!(scale.least_log2 >= 1, "half of the least value is a whole number");
        let counts = (0..=scale.buckets()).map(|_| Counter::default()).collect();
        Self { scale, counts, sum: Counter::default() }
    }

    /// Counts one value.
    pub fn record(&self, value: u64) {
        self.counts[self.scale.bucket(value)].add(1);
        self.sum.add(value);
    }

    /// Counts the nanoseconds from one look at the clock to a later one.
    pub fn record_since(&self, earlier: Instant, now: Instant) {
        self.record(u64::try_from(now.since(earlier).as_nanos()).unwrap_or(u64::MAX));
    }

    /// Every bounded bucket: its largest value, and how many values were at most that.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut total = 0;
        self.counts[..self.scale.buckets()].iter().enumerate().map(move |(bucket, count)| {
            total += count.get();
            (self.scale.bound(bucket), total)
        })
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(Counter::get).sum()
    }

    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, Scale};

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_takes_it() {
        let scale = Scale { least_log2: 3, doublings: 3 };
        let bounds: Vec<_> = (0..scale.buckets()).map(|bucket| scale.bound(bucket)).collect();
        assert_eq!(bounds, [8, 12, 16, 24, 32, 48, 64]);
        for value in 0..200 {
            let expected = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
            assert_eq!(scale.bucket(value), expected, "{value}");
        }
        assert_eq!(scale.bucket(u64::MAX), bounds.len());
    }

    #[test]
    fn counts_add_up() {
        let histogram = Histogram::new(Scale { least_log2: 3, doublings: 1 });
        for value in [0, 8, 9, 13, 1000] {
            histogram.record(value);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(8, 2), (12, 3), (16, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 1030));
    }
}
