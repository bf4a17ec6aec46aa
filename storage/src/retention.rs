//! Which segments of a log may go: by age, by size, and below the log start. Pure.
//!
//! Owner: the log, on its shard; the store's retention loop asks and carries out. Segments go from the front only, whole, and never
//! above the high watermark.
//!
//! Age goes by the largest record timestamp, as in Kafka, but by no later time than the broker's own clock at the segment's last
//! append: a record from the year 3000 must not keep its segment for ever. A wall clock that jumps pauses deletion by age
//! ([`crate::clock`]).

use base::{Offset, WallTime};

use crate::segment::SegmentMeta;

/// From the topic's settings; `None` is no limit (−1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetentionLimits {
    /// `retention.ms`.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`, for each partition.
    pub retention_bytes: Option<u64>,
    /// `retention.topic.bytes` divided by the topic's partitions.
    pub topic_share_bytes: Option<u64>,
}

impl RetentionLimits {
    /// What one partition may hold.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match (self.retention_bytes, self.topic_share_bytes) {
            (Some(own), Some(share)) => Some(own.min(share)),
            (own, share) => own.or(share),
        }
    }
}

/// What a log looks like to retention.
#[derive(Clone, Copy, Debug)]
pub struct LogExtent<'a> {
    /// In offset order; the last one is active.
    pub segments: &'a [SegmentMeta],
    pub log_start: Offset,
    pub high_watermark: Offset,
}

/// What goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetentionPlan {
    /// Leading segments to delete.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Where the log starts then: not below where it starts now.
    pub log_start: Offset,
    /// The active segment is among them: the log rolls first.
    pub rolls: bool,
    /// How many of them for their age; then, how many more for size; the rest lie below the log start.
    pub by_time: usize,
    pub by_size: usize,
}

/// Chooses. `now` is `None` while the wall clock is not to be trusted: nothing goes for its age then.
#[must_use]
pub fn retention_plan(log: &LogExtent, limits: &RetentionLimits, now: Option<WallTime>) -> RetentionPlan {
    let mut plan = RetentionPlan { log_start: log.log_start, ..RetentionPlan::default() };
    let mut bytes_left: u64 = log.segments.iter().map(|segment| segment.bytes).sum();
    for (index, segment) in log.segments.iter().enumerate() {
        if segment.is_empty() || segment.end_offset > log.high_watermark {
            break;
        }
        let below_start = segment.end_offset <= log.log_start;
        let expired = now.zip(limits.retention_ms).is_some_and(|(now, limit)| age_ms(segment, now) > limit);
        // As in Kafka the log stays at or above its limit: a segment goes for size when what is left is enough without it.
        let surplus = limits.bytes().is_some_and(|limit| bytes_left - segment.bytes >= limit);
        match (below_start, expired, surplus) {
            (true, _, _) => {}
            (_, true, _) => plan.by_time += 1,
            (_, _, true) => plan.by_size += 1,
            _ => break,
        }
        bytes_left -= segment.bytes;
        plan.segments = index + 1;
        plan.bytes += segment.bytes;
        plan.log_start = plan.log_start.max(segment.end_offset);
        plan.rolls |= !segment.sealed;
    }
    plan
}

fn age_ms(segment: &SegmentMeta, now: WallTime) -> i64 {
    now.0.saturating_sub(newest(segment).0)
}

/// The time a segment ages from.
fn newest(segment: &SegmentMeta) -> WallTime {
    if segment.max_timestamp.0 >= 0 { segment.max_timestamp.min(segment.last_append) } else { segment.last_append }
}

/// How long a record stays, as things stand: until the first of the two has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Until the broker's clock is past this, later where more comes into its segment; `None` where its age does not count.
    pub until: Option<WallTime>,
    /// Until so many more bytes have been appended; `None` where the size of the log does not count.
    pub bytes: Option<u64>,
}

/// How long the record at `offset` stays. It goes with its segment, which goes once all before it have, and not before it has rolled: at
/// `roll_bytes`, unless its age makes it roll earlier.
#[must_use]
pub fn kept(log: &LogExtent, limits: &RetentionLimits, roll_bytes: u64, offset: Offset) -> Kept {
    let Some(holder) = log.segments.iter().position(|segment| segment.end_offset > offset) else {
        return Kept::default();
    };
    let up_to = log.segments[..=holder].iter().filter(|segment| segment.end_offset > log.log_start);
    let newest = up_to.map(newest).max();
    let until = newest.zip(limits.retention_ms).map(|(newest, limit)| WallTime(newest.0.saturating_add(limit)));
    let rest: u64 = log.segments[holder + 1..].iter().map(|segment| segment.bytes).sum();
    let to_roll = match holder + 1 == log.segments.len() {
        true => roll_bytes.saturating_sub(log.segments[holder].bytes),
        false => 0,
    };
    let bytes = limits.bytes().map(|limit| match limit {
        // Even the active segment is more than enough.
        0 => 0,
        limit => limit.saturating_sub(rest).saturating_add(to_roll),
    });
    Kept { until, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A segment of ten records and 100 bytes: the largest timestamp and the broker's clock at the last append.
    fn segment(index: i64, max_timestamp: i64, last_append: i64) -> SegmentMeta {
        SegmentMeta {
            end_offset: Offset(index * 10 + 10),
            bytes: 100,
            max_timestamp: WallTime(max_timestamp),
            last_append: WallTime(last_append),
            sealed: true,
            ..SegmentMeta::new(Offset(index * 10), WallTime(0))
        }
    }

    fn plan(segments: &[SegmentMeta], start: i64, watermark: i64, limits: RetentionLimits, now: i64) -> (usize, i64) {
        let log = LogExtent { segments, log_start: Offset(start), high_watermark: Offset(watermark) };
        let plan = retention_plan(&log, &limits, Some(WallTime(now)));
        assert_eq!(plan.bytes, 100 * plan.segments as u64);
        (plan.segments, plan.log_start.0)
    }

    const NONE: RetentionLimits =
        RetentionLimits { retention_ms: None, retention_bytes: None, topic_share_bytes: None };

    #[test]
    fn by_time() {
        let limits = RetentionLimits { retention_ms: Some(1000), ..NONE };
        let aged = [segment(0, 10, 10), segment(1, 20, 20), segment(2, 30, 30)];
        for (now, watermark, expected) in [
            (1010, 30, (0, 0)),
            (1011, 30, (1, 10)),
            (1025, 30, (2, 20)),
            (9000, 30, (3, 30)),
            (9000, 29, (2, 20)),
            (9000, 9, (0, 0)),
            (-9000, 30, (0, 0)),
        ] {
            assert_eq!(plan(&aged, 0, watermark, limits, now), expected, "at {now}");
        }
        // A timestamp from the future counts as of its append; none at all, too; an old one as it is.
        assert_eq!(plan(&[segment(0, i64::MAX, 10)], 0, 10, limits, 1011), (1, 10));
        assert_eq!(plan(&[segment(0, -1, 10)], 0, 10, limits, 1011), (1, 10));
        assert_eq!(plan(&[segment(0, 5, 5000)], 0, 10, limits, 1011), (1, 10));
        // Only from the front.
        assert_eq!(plan(&[segment(0, 5000, 5000), segment(1, 10, 10)], 0, 20, limits, 1011), (0, 0));
    }

    #[test]
    fn by_size_and_share() {
        let four: Vec<_> = (0..4).map(|index| segment(index, 10, 10)).collect();
        for (own, share, expected) in [
            (None, None, (0, 0)),
            (Some(400), None, (0, 0)),
            (Some(399), None, (0, 0)),
            (Some(300), None, (1, 10)),
            (Some(301), None, (0, 0)),
            (Some(0), None, (4, 40)),
            (None, Some(150), (2, 20)),
            (Some(300), Some(150), (2, 20)),
            (Some(100), Some(350), (3, 30)),
        ] {
            let limits = RetentionLimits { retention_bytes: own, topic_share_bytes: share, ..NONE };
            assert_eq!(plan(&four, 0, 40, limits, 0), expected, "{own:?} {share:?}");
        }
    }

    #[test]
    fn below_the_log_start_and_the_active_one() {
        let three: Vec<_> = (0..3).map(|index| segment(index, 10, 10)).collect();
        assert_eq!(plan(&three, 19, 30, NONE, 0), (1, 19), "a segment that holds the start stays");
        assert_eq!(plan(&three, 20, 30, NONE, 0), (2, 20));
        let mut with_active = three.clone();
        with_active[2].sealed = false;
        let limits = RetentionLimits { retention_ms: Some(0), ..NONE };
        let log = LogExtent { segments: &with_active, log_start: Offset(0), high_watermark: Offset(30) };
        let plan = retention_plan(&log, &limits, Some(WallTime(50)));
        assert_eq!((plan.segments, plan.rolls, plan.by_time), (3, true, 3));
        assert_eq!(retention_plan(&log, &limits, None).segments, 0, "the clock is not trusted");
        let empty = [SegmentMeta::new(Offset(0), WallTime(0))];
        let log = LogExtent { segments: &empty, log_start: Offset(0), high_watermark: Offset(0) };
        assert_eq!(retention_plan(&log, &limits, Some(WallTime(50))).segments, 0, "nothing to roll");
    }

    #[test]
    fn how_long_a_record_stays() {
        let mut log = [segment(0, 10, 10), segment(1, 50, 50), segment(2, 30, 30), segment(3, 60, 60)];
        log[3].sealed = false;
        let of = |limits: &RetentionLimits, start: i64, offset: i64| {
            let extent = LogExtent { segments: &log, log_start: Offset(start), high_watermark: Offset(40) };
            let kept = kept(&extent, limits, 250, Offset(offset));
            (kept.until.map(|until| until.0), kept.bytes)
        };
        let by_time = RetentionLimits { retention_ms: Some(1000), ..NONE };
        // The third goes once the second has.
        for (offset, until) in [(0, 1010), (9, 1010), (10, 1050), (25, 1050), (30, 1060), (39, 1060)] {
            assert_eq!(of(&by_time, 0, offset), (Some(until), None), "offset {offset}");
        }
        assert_eq!(of(&by_time, 20, 25), (Some(1030), None), "what lies below the start holds nothing up");
        assert_eq!(of(&by_time, 0, 40), (None, None), "nothing is there yet");
        assert_eq!(of(&NONE, 0, 5), (None, None));
        let by_size = |bytes| RetentionLimits { retention_bytes: Some(bytes), ..NONE };
        for (limit, offset, bytes) in
            [(350, 5, 50), (300, 5, 0), (100, 5, 0), (350, 15, 150), (350, 35, 500), (0, 35, 0)]
        {
            assert_eq!(of(&by_size(limit), 0, offset), (None, Some(bytes)), "{limit} bytes, offset {offset}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A segment goes by time just after it was said to, and by size with the byte it was said to.
        #[test]
        fn what_is_kept_is_what_the_plan_keeps(
            times in proptest::collection::vec(0..300i64, 2..8), offset in 0..60i64,
            retention_ms in 0..400i64, limit in 1..900u64,
        ) {
            let segments: Vec<_> = times.iter().enumerate().map(|(index, &time)| segment(index as i64, time, time)).collect();
            let end = segments.len() as i64 * 10;
            let offset = offset.min(end - 11);
            let log = LogExtent { segments: &segments, log_start: Offset(0), high_watermark: Offset(end) };
            let goes = |log: &LogExtent, limits, now| retention_plan(log, &limits, Some(WallTime(now))).log_start.0 > offset;
            let by_time = RetentionLimits { retention_ms: Some(retention_ms), ..NONE };
            let until = kept(&log, &by_time, 100, Offset(offset)).until.expect("there is a limit").0;
            prop_assert!(!goes(&log, by_time, until) && goes(&log, by_time, until + 1));
            let by_size = RetentionLimits { retention_bytes: Some(limit), ..NONE };
            let bytes = kept(&log, &by_size, 100, Offset(offset)).bytes.expect("there is a limit");
            let mut grown = segments.clone();
            grown.push(SegmentMeta { bytes, ..segment(segments.len() as i64, 0, 0) });
            let more = LogExtent { segments: &grown, log_start: Offset(0), high_watermark: Offset(end) };
            prop_assert!(goes(&more, by_size, 0), "{bytes} bytes are enough");
            if bytes > 0 {
                grown.last_mut().expect("just put there").bytes = bytes - 1;
                let less = LogExtent { segments: &grown, log_start: Offset(0), high_watermark: Offset(end) };
                prop_assert!(!goes(&less, by_size, 0), "one less is not");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever the plan, each of its segments had a reason and the first that stays has none.
        #[test]
        fn every_segment_that_goes_had_to(
            times in proptest::collection::vec((-1..300i64, 0..300i64), 1..8),
            start in 0..90i64, watermark in 0..90i64,
            retention_ms in proptest::option::of(0..400i64), bytes in proptest::option::of(0..900u64), now in 0..500i64,
        ) {
            let segments: Vec<_> = times.iter().enumerate().map(|(index, &(max, last))| segment(index as i64, max, last)).collect();
            let watermark = watermark.max(start);
            let limits = RetentionLimits { retention_ms, retention_bytes: bytes, topic_share_bytes: None };
            let log = LogExtent { segments: &segments, log_start: Offset(start), high_watermark: Offset(watermark) };
            let plan = retention_plan(&log, &limits, Some(WallTime(now)));
            let may_go = |index: usize| {
                let segment = &segments[index];
                let basis = if segment.max_timestamp.0 < 0 { segment.last_append.0 } else { segment.max_timestamp.0.min(segment.last_append.0) };
                let rest = (segments.len() - index - 1) as u64 * 100;
                segment.end_offset.0 <= watermark
                    && (segment.end_offset.0 <= start
                        || retention_ms.is_some_and(|limit| now - basis > limit)
                        || bytes.is_some_and(|limit| rest >= limit))
            };
            for index in 0..plan.segments {
                prop_assert!(may_go(index));
            }
            prop_assert!(plan.segments == segments.len() || !may_go(plan.segments));
            prop_assert!(plan.log_start.0 >= start && plan.log_start.0 <= watermark);
        }
    }
}
