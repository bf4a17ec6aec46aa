//! Lines that peers can cause as often as they like: a few are written, the rest are counted.
//!
//! Owner: each shard has one for each kind of line. Bound: [`LINES_MAX`] lines in an [`INTERVAL`]; the first line after it says how many were
//! left out.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use base::Instant;

const LINES_MAX: u32 = 20;
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts the lines of one kind.
#[derive(Default)]
pub struct LogThrottle {
    since: Cell<Option<Instant>>,
    lines: Cell<u32>,
    left_out: Cell<u64>,
}

/// What a line says of those that were left out before it; nothing when there were none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut(u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} more lines like this were left out)"),
        }
    }
}

impl LogThrottle {
    /// Whether a line may be written now, and what it is to say of those that were not.
    pub fn admit(&self, now: Instant) -> Option<LeftOut> {
        if self.since.get().is_none_or(|since| now.since(since) >= INTERVAL) {
            self.since.set(Some(now));
            self.lines.set(0);
        }
        if self.lines.get() >= LINES_MAX {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.lines.set(self.lines.get() + 1);
        Some(LeftOut(self.left_out.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_writes_few_lines_and_says_how_many_it_left_out() {
        let throttle = LogThrottle::default();
        let at = |secs: u64| Instant(secs * 1_000_000_000);
        let admitted = (0..1000).filter_map(|_| throttle.admit(at(1))).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(throttle.admit(at(10)), None);
        let next = throttle.admit(at(11)).expect("a new interval");
        assert_eq!(next.to_string(), " (981 more lines like this were left out)");
        assert_eq!(throttle.admit(at(11)).expect("few lines").to_string(), "");
    }
}
