//! When the sink acknowledges and delivers: a pure function of the time since its first Produce request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units::{NotAValue, Span};

/// How long after its arrival a Produce request is acknowledged, by when it arrives: `0s:2ms,1s:10ms` is 2 ms, and from 1 s on 10 ms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delays(Vec<(Duration, Duration)>);

impl Delays {
    fn at(&self, arrived: Duration) -> Duration {
        let step = self.0.iter().rfind(|(from, _)| *from <= arrived);
        step.map_or(Duration::ZERO, |(_, delay)| *delay)
    }
}

impl FromStr for Delays {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let step = |text: &str| match text.split_once(':') {
            Some((from, delay)) => Ok((from.parse::<Span>()?.0, delay.parse::<Span>()?.0)),
            None => Ok((Duration::ZERO, text.parse::<Span>()?.0)),
        };
        let steps: Vec<_> = text.split(',').map(step).collect::<Result<_, _>>()?;
        if steps.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(NotAValue::new(text, "a schedule of delays: each begins after the one before it"));
        }
        Ok(Self(steps))
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (from, delay)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}:{}", Span(*from), Span(*delay))?;
        }
        Ok(())
    }
}

/// A time in which nothing is acknowledged or delivered: `2s+1s` is from 2 s to 3 s. Requests about anything but records are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    pub at: Duration,
    pub length: Duration,
}

impl Stall {
    fn end(&self) -> Duration {
        self.at.saturating_add(self.length)
    }
}

impl FromStr for Stall {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let (at, length) = text.split_once('+').ok_or_else(|| NotAValue::new(text, "a stall: AT+LENGTH"))?;
        Ok(Self { at: at.parse::<Span>()?.0, length: length.parse::<Span>()?.0 })
    }
}

/// When things happen. All times count from the arrival of the first Produce request. The default is "at once".
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    /// From the arrival of a request to its acknowledgement. The protocol has answers leave in the order of the requests, so where a
    /// delay gets shorter, a request waits no less than the ones before it on its connection.
    pub delays: Delays,
    pub stalls: Vec<Stall>,
    /// From a record's acknowledgement until it can be read.
    pub deliver_delay: Duration,
}

impl Pace {
    /// When a request that arrived then is acknowledged.
    #[must_use]
    pub fn acknowledged(&self, arrived: Duration) -> Duration {
        self.after_stalls(arrived.saturating_add(self.delays.at(arrived)))
    }

    /// When a record that is acknowledged then can be read.
    #[must_use]
    pub fn readable(&self, acknowledged: Duration) -> Duration {
        self.after_stalls(acknowledged.saturating_add(self.deliver_delay))
    }

    /// The end of the stall that this time lies in; the time itself where it lies in none.
    #[must_use]
    pub fn after_stalls(&self, mut at: Duration) -> Duration {
        // One stall may begin in another; each moves the time past its own end, so this ends.
        while let Some(stall) = self.stalls.iter().find(|stall| stall.at <= at && at < stall.end()) {
            at = stall.end();
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_request_is_acknowledged_as_the_schedule_says() {
        // delays, stalls, delivery after, arrival -> acknowledged, readable (ms)
        for (delays, stalls, deliver, arrived, acknowledged, readable) in [
            ("0", &[][..], 0, 5, 5, 5),
            ("5ms", &[], 0, 7, 12, 12),
            ("0s:2ms,1s:10ms", &[], 0, 999, 1001, 1001),
            ("0s:2ms,1s:10ms", &[], 0, 1000, 1010, 1010),
            ("1s:10ms", &[], 0, 999, 999, 999),
            ("0", &["2s+1s"], 0, 1999, 1999, 1999),
            ("0", &["2s+1s"], 0, 2000, 3000, 3000),
            ("0", &["2s+1s"], 0, 2999, 3000, 3000),
            ("0", &["2s+1s"], 0, 3000, 3000, 3000),
            ("10ms", &["2s+1s"], 0, 1995, 3000, 3000),
            ("10ms", &["2s+1s"], 0, 2995, 3005, 3005),
            ("0", &["2s+1s"], 20, 1990, 1990, 3000),
            ("0", &["2s+1s"], 20, 10, 10, 30),
            ("0", &["2500ms+1s", "2s+1s"], 0, 2100, 3500, 3500),
        ] {
            let pace = Pace {
                delays: delays.parse().expect("a schedule"),
                stalls: stalls.iter().map(|stall: &&str| stall.parse().expect("a stall")).collect(),
                deliver_delay: ms(deliver),
            };
            let at = pace.acknowledged(ms(arrived));
            assert_eq!((at, pace.readable(at)), (ms(acknowledged), ms(readable)), "{delays} {stalls:?} {arrived}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "1s:", ":1s", "1s:2ms,1s:3ms", "2s:1ms,1s:1ms", "x"] {
            assert!(text.parse::<Delays>().is_err(), "{text}");
        }
        for text in ["", "1s", "1s+", "+1s", "1s-1s"] {
            assert!(text.parse::<Stall>().is_err(), "{text}");
        }
        let text = "0ns:2ms,1s:10ms";
        assert_eq!(text.parse::<Delays>().expect("a schedule").to_string(), text);
    }
}
