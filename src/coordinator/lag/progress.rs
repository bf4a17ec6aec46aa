//! How one group gets on with one partition, look after look. Pure.

use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Offset, WallTime};

use crate::coordinator::Moment;
use crate::message::LagFound;

/// So often a partition may go from one member to another without progress: then it may be a record that they all fail at.
pub const REASSIGNMENTS_MAX: u16 = 3;
/// What a [`Progress`] takes, besides the member's name, which the partitions of a member share.
pub const PROGRESS_BYTES: usize = size_of::<Progress>();

/// The time within which the rate of appends forgets all but a third of what it was.
const RATE_MEMORY: Duration = Duration::from_secs(300);
/// Headroom must have grown to this many quarters of the threshold before it is warned of anew.
const RECOVERED_QUARTERS: i64 = 6;

/// When is warned.
#[derive(Clone, Copy, Debug)]
pub struct LagLimits {
    /// Milliseconds; a quarter of `retention.ms` where that is less. 0: never.
    pub headroom_ms: i64,
    /// Zero: never.
    pub stall: Duration,
}

impl LagLimits {
    fn headroom_ms(&self, retention_ms: Option<i64>) -> i64 {
        retention_ms.map_or(self.headroom_ms, |retention_ms| self.headroom_ms.min(retention_ms / 4))
    }
}

/// What a look finds.
#[derive(Debug)]
pub struct Look<'l> {
    pub committed: Offset,
    /// The member that has the partition.
    pub holder: Option<&'l Rc<str>>,
    pub found: LagFound,
    pub now: Moment,
}

/// How a group stands to a partition, as of the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// Committed by producers, and not by the group.
    pub records: i64,
    /// The age of the next record that is there to be read; `None` where there is one and its age is not known.
    pub age_ms: Option<i64>,
    /// Until retention deletes that record, as things stand; `None` where it will not.
    pub headroom_ms: Option<i64>,
    /// Records below the log's start that the group had not read.
    pub lost: i64,
    /// Its member has had it for long without progress.
    pub is_stalled: bool,
    /// One member after another has had it without progress.
    pub is_handed_on: bool,
}

/// What an operator is to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warning {
    /// Retention will soon delete what the group has not read.
    Headroom { headroom_ms: i64, threshold_ms: i64 },
    /// It has.
    Lost,
    /// The member does not get on.
    Stalled { for_ms: i64 },
    /// Nor did those before it.
    HandedOn { times: u16 },
}

/// What is remembered from look to look.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    committed: Option<Offset>,
    /// Who has the partition, or had it last.
    holder: Option<Rc<str>>,
    /// Since when this holder has been seen with this offset and something to read.
    stuck_since: Option<Instant>,
    /// How often it went to another member since the offset last moved.
    handed_on: u16,
    /// The next record to read, and its timestamp.
    next: Option<(Offset, WallTime)>,
    rate: Rate,
    lag: Option<Lag>,
    warned: Warned,
}

#[derive(Clone, Copy, Debug, Default)]
struct Warned {
    headroom: bool,
    lost: bool,
    stalled: bool,
    handed_on: bool,
}

impl Progress {
    /// As of the last look; `None` before there was one.
    #[must_use]
    pub fn lag(&self) -> Option<&Lag> {
        self.lag.as_ref()
    }

    /// The record whose timestamp is known.
    #[must_use]
    pub fn next_known(&self) -> Option<Offset> {
        self.next.map(|(offset, _)| offset)
    }

    /// The partition is not there: nothing is known of it.
    pub fn unknown(&mut self) {
        *self = Self::default();
    }

    /// Takes a look up; what is to be warned of comes back.
    #[must_use]
    pub fn look(&mut self, look: &Look<'_>, limits: &LagLimits) -> Vec<Warning> {
        let Look { committed, holder, found, now } = look;
        let records = (found.high_watermark.0 - committed.0).max(0);
        let is_behind = records > 0;
        self.note_next(found);
        self.rate.note(found.appended_bytes, now.instant);
        self.note_holder(*committed, *holder, is_behind, now.instant);
        let age_ms = match (is_behind, self.next) {
            (false, _) => Some(0),
            (true, next) => next.map(|(_, written)| now.wall.0.saturating_sub(written.0).max(0)),
        };
        let lost = (found.log_start.min(found.high_watermark).0 - committed.0).max(0);
        let headroom_ms = if lost > 0 { Some(0) } else { self.headroom(found, now.wall).filter(|_| is_behind) };
        let stuck = self.stuck_since.filter(|_| holder.is_some()).map(|since| now.instant.since(since));
        let lag = Lag {
            records,
            age_ms,
            headroom_ms,
            lost,
            is_stalled: !limits.stall.is_zero() && stuck.is_some_and(|stuck| stuck >= limits.stall),
            is_handed_on: self.handed_on >= REASSIGNMENTS_MAX,
        };
        self.lag = Some(lag);
        self.warn(&lag, stuck, limits.headroom_ms(found.retention_ms))
    }

    fn note_next(&mut self, found: &LagFound) {
        if let Some(written) = found.next_written {
            self.next = Some((found.next, written));
        }
        self.next = self.next.filter(|(offset, _)| *offset == found.next);
    }

    /// Who has it, and since when without progress.
    fn note_holder(&mut self, committed: Offset, holder: Option<&Rc<str>>, is_behind: bool, now: Instant) {
        let has_moved = self.committed.replace(committed) != Some(committed);
        let is_another = holder.is_some() && self.holder.as_ref() != holder;
        let had_one = self.holder.is_some();
        if is_another {
            self.holder = holder.cloned();
        }
        if has_moved || !is_behind {
            self.handed_on = 0;
        } else if is_another && had_one {
            self.handed_on = self.handed_on.saturating_add(1);
        }
        if has_moved || !is_behind || (is_another && had_one) {
            (self.stuck_since, self.warned.stalled) = (None, false);
        }
        // Who has left for a while, as in a rebalance, and has it again had it all the time.
        if is_behind && holder.is_some() && self.stuck_since.is_none() {
            self.stuck_since = Some(now);
        }
    }

    /// Until retention deletes the next record.
    fn headroom(&self, found: &LagFound, now: WallTime) -> Option<i64> {
        let by_time = found.kept.until.map(|until| until.0.saturating_sub(now.0).max(0));
        let by_size = found.kept.bytes.and_then(|bytes| self.rate.until(bytes));
        match (by_time, by_size) {
            (Some(by_time), Some(by_size)) => Some(by_time.min(by_size)),
            (by_time, by_size) => by_time.or(by_size),
        }
    }

    fn warn(&mut self, lag: &Lag, stuck: Option<Duration>, threshold_ms: i64) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut say = |said: &mut bool, is_so: bool, is_over: bool, warning: Warning| {
            if is_so && !*said {
                warnings.push(warning);
            }
            *said = is_so || (*said && !is_over);
        };
        let headroom_ms = lag.headroom_ms.unwrap_or(i64::MAX);
        let (is_short, is_lost) = (headroom_ms < threshold_ms, lag.lost > 0);
        let has_recovered = headroom_ms / RECOVERED_QUARTERS >= threshold_ms / 4;
        say(&mut self.warned.lost, is_lost, !is_lost, Warning::Lost);
        // That it is too late was said just now.
        self.warned.headroom |= is_lost;
        say(&mut self.warned.headroom, is_short, has_recovered, Warning::Headroom { headroom_ms, threshold_ms });
        let for_ms = i64::try_from(stuck.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
        say(&mut self.warned.stalled, lag.is_stalled, false, Warning::Stalled { for_ms });
        let times = self.handed_on;
        say(&mut self.warned.handed_on, lag.is_handed_on, times == 0, Warning::HandedOn { times });
        warnings
    }
}

/// How fast a log grows, of late.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    last: Option<(u64, Instant)>,
    /// Bytes a millisecond; `None` until there were two looks.
    bytes_per_ms: Option<f64>,
}

impl Rate {
    fn note(&mut self, appended_bytes: u64, now: Instant) {
        let Some((before, at)) = self.last.replace((appended_bytes, now)) else { return };
        let elapsed = now.since(at);
        // A count that has gone back began anew, as the log was opened again.
        if elapsed.is_zero() || appended_bytes < before {
            return;
        }
        let latest = (appended_bytes - before) as f64 / (elapsed.as_secs_f64() * 1e3);
        let remembered = (-elapsed.as_secs_f64() / RATE_MEMORY.as_secs_f64()).exp();
        self.bytes_per_ms = Some(match self.bytes_per_ms {
            Some(known) => known * remembered + latest * (1.0 - remembered),
            None => latest,
        });
    }

    /// Milliseconds until so many more bytes have been appended; `None` where nothing is being appended, or that is not known.
    fn until(&self, bytes: u64) -> Option<i64> {
        if bytes == 0 {
            return Some(0);
        }
        let rate = self.bytes_per_ms.filter(|rate| *rate > 0.0)?;
        // Saturates.
        Some((bytes as f64 / rate) as i64)
    }
}
