//! How many records a second, and when each is due.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units::{NotAValue, Span, as_text, number};

/// A rate that holds for a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    pub records_per_s: f64,
    /// `None`: until the end.
    pub lasts: Option<Duration>,
}

/// The rate of all producers together.
#[derive(Clone, PartialEq, Debug)]
pub enum Rate {
    /// As many as go: a closed loop, in which a record is due when it is sent.
    Max,
    /// One after the other; the last one lasts.
    Steps(Vec<Step>),
}

impl Default for Rate {
    fn default() -> Self {
        Self::constant(10_000.0)
    }
}

impl Rate {
    /// One rate, from the first record to the last.
    #[must_use]
    pub fn constant(records_per_s: f64) -> Self {
        Self::Steps(vec![Step { records_per_s, lasts: None }])
    }

    /// How many records are due between two times since the start; `None` for as many as go.
    #[must_use]
    pub fn due_between(&self, from: Duration, to: Duration) -> Option<f64> {
        let Self::Steps(steps) = self else { return None };
        let schedule = Schedule::new(steps, 1.0, 0.0);
        let due = schedule.due_by(to.as_nanos() as u64) - schedule.due_by(from.as_nanos() as u64);
        // Without the noise of the sums.
        Some((due * 1e6).round() / 1e6)
    }
}

impl FromStr for Rate {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let step = |text: &str| match text.split_once('@') {
            Some((rate, lasts)) => Ok(Step { records_per_s: number(rate)?, lasts: Some(lasts.parse::<Span>()?.0) }),
            None => Ok(Step { records_per_s: number(text)?, lasts: None }),
        };
        text.split(',').map(step).collect::<Result<_, _>>().map(Self::Steps)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Steps(steps) = self else { return f.write_str("max") };
        for (index, step) in steps.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", step.records_per_s)?;
            if let Some(lasts) = step.lasts {
                write!(f, "@{}", Span(lasts))?;
            }
        }
        Ok(())
    }
}

as_text!(Rate);

/// When the records of one producer are due. A pure function of their number: nothing that happens moves it.
#[derive(Clone, Debug)]
pub struct Schedule {
    pieces: Vec<Piece>,
}

/// A time with one rate.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin_ns: f64,
    /// Records due before it; a record is due where the count passes a whole number.
    due_before: f64,
    per_ns: f64,
}

impl Schedule {
    /// The share of one producer, whose records are due `phase` (from 0 to 1) of an interval late, so that those of several take turns.
    #[must_use]
    pub fn new(steps: &[Step], share: f64, phase: f64) -> Self {
        let (mut begin_ns, mut due) = (0.0, -phase.clamp(0.0, 0.999_999));
        let mut pieces = Vec::new();
        for step in steps {
            let per_ns = step.records_per_s * share / 1e9;
            pieces.push(Piece { begin_ns, due_before: due, per_ns });
            let Some(lasts) = step.lasts else { break };
            begin_ns += lasts.as_nanos() as f64;
            due += lasts.as_nanos() as f64 * per_ns;
        }
        // The last rate lasts.
        Self { pieces }
    }

    /// The time since the start, in nanoseconds, at which record `number` (from 0) is due; `None`: never.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> Option<u64> {
        let number = number as f64;
        let place = self.pieces.iter().rposition(|piece| piece.due_before <= number).unwrap_or(0);
        // Pieces in which nothing is due are passed over; a later one may start at the same count.
        self.pieces[place..]
            .iter()
            .find(|piece| piece.per_ns > 0.0)
            .map(|piece| (piece.begin_ns + ((number - piece.due_before) / piece.per_ns).max(0.0)) as u64)
    }

    /// Records due before then.
    #[must_use]
    pub fn count_before(&self, ns: u64) -> u64 {
        // A record that is due just then is not due before; sums of fractions are off by a little.
        (self.due_by(ns) - 1e-6).ceil().max(0.0) as u64
    }

    /// Records due by then, as a number that grows steadily.
    #[must_use]
    pub fn due_by(&self, ns: u64) -> f64 {
        let ns = ns as f64;
        let piece = self.pieces.iter().rfind(|piece| piece.begin_ns <= ns).expect("the first begins at 0");
        piece.due_before + (ns - piece.begin_ns) * piece.per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: &str, share: f64, phase: f64) -> Schedule {
        let Ok(Rate::Steps(steps)) = rate.parse() else { panic!("{rate}: not steps") };
        Schedule::new(&steps, share, phase)
    }

    #[test]
    fn records_are_due_as_the_rate_says() {
        let s = 1_000_000_000;
        for (rate, share, phase, number, due) in [
            ("1000", 1.0, 0.0, 0, Some(0)),
            ("1000", 1.0, 0.0, 1, Some(1_000_000)),
            ("1000", 0.5, 0.0, 1, Some(2_000_000)),
            ("1000", 0.5, 0.5, 0, Some(1_000_000)),
            ("1000", 1.0, 0.0, 1_000_000_000, Some(1_000_000 * s)),
            ("10@2s,100", 1.0, 0.0, 19, Some(1_900_000_000)),
            ("10@2s,100", 1.0, 0.0, 20, Some(2 * s)),
            ("10@2s,100", 1.0, 0.0, 21, Some(2 * s + 10_000_000)),
            ("10@2s,0@3s,100", 1.0, 0.0, 20, Some(5 * s)),
            ("0@3s,100", 1.0, 0.0, 0, Some(3 * s)),
            ("0", 1.0, 0.0, 0, None),
        ] {
            assert_eq!(schedule(rate, share, phase).due_ns(number), due, "{rate} {share} {phase} {number}");
        }
    }

    #[test]
    fn counts_and_times_agree() {
        let rate: Rate = "10@2s,100@1s,50".parse().expect("steps");
        assert_eq!(rate.due_between(Duration::ZERO, Duration::from_secs(2)), Some(20.0));
        assert_eq!(rate.due_between(Duration::from_secs(1), Duration::from_secs(4)), Some(160.0));
        for (rate, phase, ns, count) in [
            ("1000", 0.0, 1_000_000, 1),
            ("1000", 0.0, 1_100_000, 2),
            ("1000", 0.5, 1, 0),
            ("20000", 0.0, 5_000_000_000, 100_000),
        ] {
            assert_eq!(schedule(rate, 1.0, phase).count_before(ns), count, "{rate} {phase} {ns}");
        }
        assert_eq!(Rate::Max.due_between(Duration::ZERO, Duration::from_secs(1)), None);
        assert_eq!("10@2s,100".parse::<Rate>().expect("steps").to_string(), "10@2s,100");
    }
}
