//! Whether the wall clock may be gone by. Pure.
//!
//! Owner: a shard's store, which asks before it deletes anything for its age: deleting a week too early cannot be undone, an hour too
//! late can. While the process runs the monotonic clock is the measure; over a stop it is what an earlier process trusted last and
//! wrote down. The doubt ends once the clock has kept in step for [`ClockGuard::PAUSE`]: time for an operator to see the warning, or
//! for the clock to be set right, which is a jump again.

use std::time::Duration;

use base::{Instant, WallTime};

/// Compares the wall clock with the monotonic one and says when the former is not to be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockGuard {
    last: Option<(Instant, WallTime)>,
    distrusted_until: Option<Instant>,
}

/// What [`ClockGuard::observe`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The wall time, to go by.
    Trusted(WallTime),
    /// It just went `by_ms` further than time did, or than a stop usually takes: to be reported, once.
    Jumped { by_ms: i64 },
    /// It jumped less than [`ClockGuard::PAUSE`] ago, or the guard began in doubt.
    Distrusted,
}

impl Clock {
    /// For [`crate::retention::retention_plan`].
    #[must_use]
    pub fn trusted(self) -> Option<WallTime> {
        match self {
            Self::Trusted(wall) => Some(wall),
            Self::Jumped { .. } | Self::Distrusted => None,
        }
    }
}

impl ClockGuard {
    /// What slewing and late polls may make of the difference between two observations.
    pub const TOLERANCE: Duration = Duration::from_secs(60);
    /// How long deletion by age waits after a jump: time for an operator to see the warning, or for the clock to jump back.
    pub const PAUSE: Duration = Duration::from_secs(3600);

    /// How much further than it was last believed the clock may be at a start. A longer stop and a clock that was set meanwhile look the
    /// same; a stop of more than a day can wait for its hour.
    pub const AWAY: Duration = Duration::from_secs(24 * 3600);

    /// A guard for a process that starts; `believed` is the wall time that an earlier one trusted last.
    #[must_use]
    pub fn start(now: Instant, wall: WallTime, believed: Option<WallTime>) -> (Self, Clock) {
        let ahead_ms = believed.map_or(0, |believed| wall.0.saturating_sub(believed.0));
        let in_doubt = ahead_ms > Self::AWAY.as_millis() as i64;
        let distrusted_until = in_doubt.then(|| now + Self::PAUSE);
        let clock = if in_doubt { Clock::Jumped { by_ms: ahead_ms } } else { Clock::Trusted(wall) };
        (Self { last: Some((now, wall)), distrusted_until }, clock)
    }

    /// Takes in both clocks; called at least every few minutes.
    pub fn observe(&mut self, now: Instant, wall: WallTime) -> Clock {
        let jumped = self.last.and_then(|(earlier, wall_earlier)| {
            let passed_ms = i64::try_from(now.since(earlier).as_millis()).unwrap_or(i64::MAX);
            let by_ms = wall.0.saturating_sub(wall_earlier.0).saturating_sub(passed_ms);
            (by_ms.unsigned_abs() > Self::TOLERANCE.as_millis() as u64).then_some(by_ms)
        });
        self.last = Some((now, wall));
        if let Some(by_ms) = jumped {
            self.distrusted_until = Some(now + Self::PAUSE);
            return Clock::Jumped { by_ms };
        }
        if self.distrusted_until.is_some_and(|until| now < until) {
            return Clock::Distrusted;
        }
        self.distrusted_until = None;
        Clock::Trusted(wall)
    }
}

/// A trusted time as it is written down.
#[must_use]
pub fn encode(believed: WallTime) -> Vec<u8> {
    format!("{}\n", believed.0).into_bytes()
}

/// Reads what [`encode`] wrote; `None` for anything else.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<WallTime> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    text.parse().ok().map(WallTime).filter(|believed| encode(*believed) == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_jump() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut guard = ClockGuard::default();
        assert_eq!(guard.observe(second(0), WallTime(1_000_000)), Clock::Trusted(WallTime(1_000_000)));
        assert_eq!(guard.observe(second(60), WallTime(1_119_000)), Clock::Trusted(WallTime(1_119_000)), "slewed");
        assert_eq!(guard.observe(second(120), WallTime(601_179_000)), Clock::Jumped { by_ms: 600_000_000 });
        assert_eq!(guard.observe(second(180), WallTime(601_239_000)), Clock::Distrusted);
        assert_eq!(guard.observe(second(240), WallTime(1_299_000)), Clock::Jumped { by_ms: -600_000_000 });
        assert_eq!(guard.observe(second(3839), WallTime(4_898_000)), Clock::Distrusted);
        assert_eq!(guard.observe(second(3840), WallTime(4_899_000)), Clock::Trusted(WallTime(4_899_000)));
        assert!(matches!(guard.observe(second(3841), WallTime(i64::MIN)), Clock::Jumped { .. }));
        assert!(matches!(guard.observe(second(3842), WallTime(i64::MAX)), Clock::Jumped { .. }));
    }

    #[test]
    fn starts_after_a_stop_and_with_a_clock_that_was_set() {
        const DAY_MS: i64 = 86_400_000;
        const YEARS_MS: i64 = 5000 * DAY_MS;
        let now = Instant(7_000_000_000);
        for (name, believed, wall, doubt) in [
            ("the first start", None, YEARS_MS, false),
            ("a restart", Some(DAY_MS), DAY_MS + 1000, false),
            ("a day later", Some(DAY_MS), 2 * DAY_MS, false),
            ("more than a day later", Some(DAY_MS), 2 * DAY_MS + 1, true),
            ("years ahead", Some(DAY_MS), YEARS_MS, true),
            ("the end of time", Some(i64::MIN), i64::MAX - DAY_MS, true),
            ("years back: nothing is older for it", Some(YEARS_MS), DAY_MS, false),
        ] {
            let (mut guard, clock) = ClockGuard::start(now, WallTime(wall), believed.map(WallTime));
            assert_eq!(matches!(clock, Clock::Jumped { .. }), doubt, "{name}");
            assert_eq!(clock.trusted().is_some(), !doubt, "{name}");
            let later =
                |secs: u64| (now + Duration::from_secs(secs), WallTime(wall.saturating_add(secs as i64 * 1000)));
            let (at, wall_then) = later(3599);
            assert_eq!(guard.observe(at, wall_then).trusted().is_some(), !doubt, "{name}: within the pause");
            let (at, wall_then) = later(3600);
            assert!(guard.observe(at, wall_then).trusted().is_some(), "{name}: after it");
        }
    }

    #[test]
    fn what_is_written_down() {
        for believed in [0, 1_704_067_200_000, -1, i64::MAX] {
            assert_eq!(decode(&encode(WallTime(believed))), Some(WallTime(believed)));
        }
        for bad in [&b""[..], b"17", b"+17\n", b"x\n", b"17\n17\n", b"99999999999999999999\n", b"\xff\n"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
