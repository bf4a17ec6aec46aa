//! When a log begins its next segment. Pure.
//!
//! By size before the append that would exceed it; by age at any time, so that the segment of an idle log can fall to retention; and
//! before an index overflows. Age is the broker's: record timestamps may be of any year.

use base::{Offset, Random, WallTime};

use super::{ActiveSegment, FileKind};

/// From the topic's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RollLimits {
    /// `segment.bytes`.
    pub segment_bytes: u64,
    /// `segment.ms`, less this segment's share of `segment.jitter.ms`: see [`jittered_ms`].
    pub segment_ms: i64,
    /// `segment.index.bytes`, for each of the two index files.
    pub index_bytes: u64,
}

/// Why a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RollReason {
    Bytes,
    Age,
    IndexFull,
    /// The batch's last offset is too far from the base for the index's 4 bytes.
    OffsetOverflow,
}

/// A batch that asks to be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    pub bytes: u64,
    pub last_offset: Offset,
}

/// The age at which one segment rolls: up to `jitter_ms` early, always the same for the same segment, so that segments created
/// together do not end together.
#[must_use]
pub fn jittered_ms(segment_ms: i64, jitter_ms: i64, seed: u64, base: Offset) -> i64 {
    let early = Random::new(seed ^ base.0 as u64).below(jitter_ms.max(0) as u64 + 1);
    segment_ms.saturating_sub(early as i64).max(1)
}

/// Why the active segment must end before `incoming` (`None`: now, without an append); `None` when it goes on. An empty segment
/// goes on: a batch that is larger than a segment gets one of its own.
#[must_use]
pub fn roll_reason(
    active: &ActiveSegment,
    limits: &RollLimits,
    incoming: Option<Incoming>,
    now: WallTime,
) -> Option<RollReason> {
    let meta = &active.meta;
    if meta.is_empty() {
        return None;
    }
    if let Some(incoming) = incoming {
        if meta.bytes.saturating_add(incoming.bytes) > limits.segment_bytes.min(i32::MAX as u64) {
            return Some(RollReason::Bytes);
        }
        if incoming.last_offset.0 - meta.base_offset.0 > i64::from(i32::MAX) {
            return Some(RollReason::OffsetOverflow);
        }
        // One entry of the time index is for sealing.
        let index_full = u64::from(active.index.entries(FileKind::Index) + 1) * 8 > limits.index_bytes
            || u64::from(active.index.entries(FileKind::TimeIndex) + 2) * 12 > limits.index_bytes;
        if index_full {
            return Some(RollReason::IndexFull);
        }
    }
    (now.0.saturating_sub(meta.created.0) >= limits.segment_ms).then_some(RollReason::Age)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::header;

    const LIMITS: RollLimits = RollLimits { segment_bytes: 1000, segment_ms: 500, index_bytes: 1 << 20 };

    /// A segment from offset 100 with one batch of 600 bytes, appended at 50.
    fn active() -> ActiveSegment {
        let mut active = ActiveSegment::new(Offset(100), WallTime(0), 0);
        active.note(&header(100, 5, 600, 7), WallTime(50));
        active
    }

    #[test]
    fn reasons() {
        let batch = |bytes, last| Some(Incoming { bytes, last_offset: Offset(last) });
        for (incoming, now, expected) in [
            (batch(400, 105), 60, None),
            (batch(401, 105), 60, Some(RollReason::Bytes)),
            (batch(u64::MAX, 105), 60, Some(RollReason::Bytes)),
            (batch(100, 100 + i64::from(i32::MAX)), 60, None),
            (batch(100, 101 + i64::from(i32::MAX)), 60, Some(RollReason::OffsetOverflow)),
            (None, 549, None),
            (None, 550, Some(RollReason::Age)),
            (batch(100, 105), 550, Some(RollReason::Age)),
            // A clock that went back, as far as it can.
            (None, i64::MIN, None),
        ] {
            assert_eq!(roll_reason(&active(), &LIMITS, incoming, WallTime(now)), expected, "{incoming:?} at {now}");
        }
        let empty = ActiveSegment::new(Offset(100), WallTime(0), 0);
        assert_eq!(roll_reason(&empty, &LIMITS, batch(5000, 105), WallTime(i64::MAX)), None);
    }

    #[test]
    fn a_full_index_rolls() {
        let limits = RollLimits { segment_bytes: 1 << 30, index_bytes: 40, ..LIMITS };
        let mut active = active();
        let mut batches = 0;
        while roll_reason(&active, &limits, Some(Incoming { bytes: 100, last_offset: Offset(200) }), WallTime(60))
            .is_none()
        {
            active.note(&header(active.meta.end_offset.0, 1, 100, 8 + batches), WallTime(60));
            batches += 1;
        }
        // 40 bytes: three time entries, one of them for sealing.
        assert_eq!((active.index.entries(FileKind::Index), active.index.entries(FileKind::TimeIndex)), (2, 2));
        active.seal();
        assert!(active.index.entries(FileKind::TimeIndex) * 12 <= 40);
    }

    #[test]
    fn jitter_is_within_bounds_and_the_same_again() {
        let mut seen = std::collections::BTreeSet::new();
        for base in 0..200 {
            let ms = jittered_ms(1000, 100, 7, Offset(base));
            assert!((900..=1000).contains(&ms));
            assert_eq!(ms, jittered_ms(1000, 100, 7, Offset(base)));
            seen.insert(ms);
        }
        assert!(seen.len() > 50, "spread");
        assert_eq!(jittered_ms(1000, 0, 7, Offset(3)), 1000);
        assert_eq!(jittered_ms(5, 1000, 7, Offset(i64::MAX)).max(1), jittered_ms(5, 1000, 7, Offset(i64::MAX)));
    }
}
