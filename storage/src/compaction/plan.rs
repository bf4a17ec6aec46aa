//! Which logs need compaction, and how far. Pure.
//!
//! A log has a clean part, of which compaction has seen everything, and a dirty one above; what is too young, not committed or not in
//! finished segments is neither. Lags go by the broker's own clock: by the last append of a segment for the least one, by the first for
//! the greatest.

use std::ops::Range;

use base::{Offset, WallTime};

use crate::config::CompactionConfig;
use crate::segment::SegmentMeta;

/// What a log looks like to compaction.
#[derive(Clone, Copy, Debug)]
pub struct LogExtent<'a> {
    /// Those that a checkpoint has finished, in offset order.
    pub segments: &'a [SegmentMeta],
    pub log_start: Offset,
    pub high_watermark: Offset,
    /// Compaction has seen all records below.
    pub cleaned_to: Offset,
}

/// What there is to compact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionPlan {
    /// Of the segments given, those that may be written anew.
    pub segments: Range<usize>,
    /// The dirty records, the end excluded.
    pub dirty: Range<Offset>,
    pub dirty_bytes: u64,
    /// Of all that may be written anew.
    pub bytes: u64,
}

impl CompactionPlan {
    /// How much of the log is dirty, in millionths: the dirtiest log goes first.
    #[must_use]
    pub fn dirty_ppm(&self) -> u64 {
        (u128::from(self.dirty_bytes) * 1_000_000 / u128::from(self.bytes.max(1))) as u64
    }
}

/// Decides; `None` when nothing is to be done yet. `now` is a clock that is trusted.
#[must_use]
pub fn compaction_plan(log: &LogExtent<'_>, config: &CompactionConfig, now: WallTime) -> Option<CompactionPlan> {
    let since = |then: WallTime| now.0.saturating_sub(then.0);
    let first = log.segments.iter().take_while(|segment| segment.end_offset <= log.log_start).count();
    let is_cleanable = |segment: &&SegmentMeta| {
        segment.end_offset <= log.high_watermark
            && (config.min_lag_ms <= 0 || since(segment.last_append) >= config.min_lag_ms)
    };
    let cleanable = &log.segments[first..];
    let cleanable = &cleanable[..cleanable.iter().take_while(is_cleanable).count()];
    let (from, to) = (cleanable.first()?.base_offset, cleanable.last()?.end_offset);
    let dirty = from.max(log.cleaned_to).max(log.log_start)..to;
    let clean = cleanable.partition_point(|segment| segment.end_offset <= dirty.start);
    let oldest = cleanable.get(clean)?;
    let bytes_of = |segments: &[SegmentMeta]| segments.iter().map(|segment| segment.bytes).sum();
    let plan = CompactionPlan {
        segments: first..first + cleanable.len(),
        dirty,
        dirty_bytes: bytes_of(&cleanable[clean..]),
        bytes: bytes_of(cleanable),
    };
    let is_overdue = since(oldest.created) > config.max_lag_ms;
    // As in Kafka the ratio must be exceeded.
    let is_dirty = u128::from(plan.dirty_bytes) * 1_000_000 > u128::from(plan.bytes) * u128::from(config.min_dirty_ppm);
    (is_overdue || is_dirty).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten offsets and 100 bytes each, created at ten times its number, appended to last five later.
    fn segments(count: i64) -> Vec<SegmentMeta> {
        let segment = |index: i64| SegmentMeta {
            end_offset: Offset(index * 10 + 10),
            bytes: 100,
            last_append: WallTime(index * 10 + 5),
            sealed: true,
            ..SegmentMeta::new(Offset(index * 10), WallTime(index * 10))
        };
        (0..count).map(segment).collect()
    }

    const ANY: CompactionConfig =
        CompactionConfig { delete_retention_ms: 0, min_lag_ms: 0, max_lag_ms: i64::MAX, min_dirty_ppm: 0 };
    const HALF: CompactionConfig = CompactionConfig { min_dirty_ppm: 500_000, ..ANY };
    const NEVER: CompactionConfig = CompactionConfig { min_dirty_ppm: 1_000_000, ..ANY };

    #[test]
    fn what_is_cleaned_and_when() {
        // Segments, log start, high watermark, cleaned up to; now; segments of the plan and where its dirty part begins.
        type Row = (&'static str, (i64, i64, i64, i64), CompactionConfig, i64, Option<(Range<usize>, i64)>);
        let overdue = CompactionConfig { max_lag_ms: 50, ..NEVER };
        let young = CompactionConfig { min_lag_ms: 20, ..ANY };
        let table: [Row; 18] = [
            ("nothing there", (0, 0, 0, 0), ANY, 100, None),
            ("all dirty", (4, 0, 40, 0), HALF, 100, Some((0..4, 0))),
            ("all clean", (4, 0, 40, 40), ANY, 100, None),
            ("half is not more than half", (4, 0, 40, 20), HALF, 100, None),
            ("more than half", (4, 0, 40, 15), HALF, 100, Some((0..4, 15))),
            ("a byte is enough", (4, 0, 40, 39), ANY, 100, Some((0..4, 39))),
            ("ended within a segment, which counts as dirty", (4, 0, 40, 19), HALF, 100, Some((0..4, 19))),
            ("a ratio of 1 is never exceeded", (4, 0, 40, 0), NEVER, 100, None),
            ("the last one is not committed", (4, 0, 39, 0), ANY, 100, Some((0..3, 0))),
            ("nothing is committed", (4, 0, 9, 0), ANY, 100, None),
            ("what is below the start is on its way out", (4, 20, 40, 0), ANY, 100, Some((2..4, 20))),
            ("the start within a segment", (4, 25, 40, 0), ANY, 100, Some((2..4, 25))),
            ("all below the start", (4, 40, 40, 0), ANY, 100, None),
            ("too young from the third on", (4, 0, 40, 0), young, 44, Some((0..2, 0))),
            ("all too young", (4, 0, 40, 0), young, 24, None),
            ("not overdue yet", (4, 0, 40, 20), overdue, 70, None),
            ("overdue", (4, 0, 40, 20), overdue, 71, Some((0..4, 20))),
            ("a clock that went back", (4, 0, 40, 0), young, i64::MIN, None),
        ];
        for (name, (count, start, watermark, cleaned), config, now, expected) in table {
            let segments = segments(count);
            let log = LogExtent {
                segments: &segments,
                log_start: Offset(start),
                high_watermark: Offset(watermark),
                cleaned_to: Offset(cleaned),
            };
            let plan = compaction_plan(&log, &config, WallTime(now));
            let found = plan.as_ref().map(|plan| (plan.segments.clone(), plan.dirty.start.0));
            assert_eq!(found, expected, "{name}");
            if let Some(plan) = plan {
                assert_eq!(plan.dirty.end, segments[plan.segments.end - 1].end_offset, "{name}");
                assert_eq!(plan.bytes, 100 * plan.segments.len() as u64, "{name}");
            }
        }
    }

    #[test]
    fn the_dirtiest_goes_first() {
        let plan =
            |dirty_bytes, bytes| CompactionPlan { segments: 0..1, dirty: Offset(0)..Offset(1), dirty_bytes, bytes };
        let ppm: Vec<u64> = [(0, 0), (1, 3), (u64::MAX / 2, u64::MAX), (u64::MAX, u64::MAX)]
            .map(|(dirty, bytes)| plan(dirty, bytes).dirty_ppm())
            .to_vec();
        assert_eq!(ppm, [0, 333_333, 499_999, 1_000_000]);
    }
}
