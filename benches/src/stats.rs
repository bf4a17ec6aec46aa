//! Samples of time, and the figures taken from them.

use std::time::Duration;

/// Times of one thing done again and again.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    ns: Vec<u64>,
    sorted: bool,
}

impl Samples {
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { ns: Vec::with_capacity(count), sorted: true }
    }

    pub fn push(&mut self, time: Duration) {
        self.ns.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.sorted = false;
    }

    pub fn merge(&mut self, other: &Self) {
        self.ns.extend_from_slice(&other.ns);
        self.sorted = false;
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.ns.len()
    }

    /// The smallest sample that `share` of all samples do not exceed, in microseconds; `None` without samples.
    pub fn percentile_us(&mut self, share: f64) -> Option<f64> {
        if !self.sorted {
            self.ns.sort_unstable();
            self.sorted = true;
        }
        let rank = (share * self.ns.len() as f64).ceil() as usize;
        let sample = self.ns.get(rank.max(1).min(self.ns.len()).checked_sub(1)?)?;
        Some(*sample as f64 / 1e3)
    }
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median of what `figure` says about each trial.
pub fn median_of<T>(trials: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(&trials.iter().map(figure).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile_us(0.5), None);
        for us in (1..=100).rev() {
            samples.push(Duration::from_micros(us));
        }
        for (share, expected) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0)] {
            assert_eq!(samples.percentile_us(share), Some(expected), "{share}");
        }
        for (values, expected) in
            [(&[][..], None), (&[3.0, 1.0, 2.0], Some(2.0)), (&[4.0, 1.0], Some(2.5)), (&[f64::NAN, 7.0], Some(7.0))]
        {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }
}
