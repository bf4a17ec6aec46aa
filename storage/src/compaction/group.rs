//! Which neighbouring segments become one when they are compacted. Pure.
//!
//! By what they hold before: what is left of them is smaller. So the small segments that earlier compactions left grow together again.

use std::ops::Range;

use crate::segment::{IndexEntry, OffsetEntry, SegmentMeta, TimeEntry};

/// What a segment may come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// `segment.bytes`.
    pub segment_bytes: u64,
    /// `segment.index.bytes`, for each of the two index files.
    pub index_bytes: u64,
}

/// Divides segments, which are in order, into runs. One that is too large by itself stays alone.
#[must_use]
pub fn group_segments(segments: &[SegmentMeta], limits: &GroupLimits) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    for end in 1..=segments.len() {
        if end == segments.len() || !fits(&segments[start..=end], limits) {
            groups.push(start..end);
            start = end;
        }
    }
    groups
}

fn fits(run: &[SegmentMeta], limits: &GroupLimits) -> bool {
    let (first, last) = (&run[0], &run[run.len() - 1]);
    let sum = |part: fn(&SegmentMeta) -> u64| run.iter().map(part).sum::<u64>();
    sum(|meta| meta.bytes) <= limits.segment_bytes.min(i32::MAX as u64)
        && sum(|meta| u64::from(meta.index_entries) * OffsetEntry::BYTES as u64) <= limits.index_bytes
        && sum(|meta| u64::from(meta.time_index_entries) * TimeEntry::BYTES as u64) <= limits.index_bytes
        // As an append to the first one would ask for.
        && last.end_offset.0 - 1 - first.base_offset.0 <= i64::from(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Offset, WallTime};

    const LIMITS: GroupLimits = GroupLimits { segment_bytes: 100, index_bytes: 48 };

    #[test]
    fn runs_that_fit() {
        // Bytes, entries of each index, offsets, of each segment; segments of each run.
        type Row = (&'static str, &'static [(u64, u32, i64)], &'static [usize]);
        let table: [Row; 7] = [
            ("none", &[], &[]),
            ("one", &[(500, 0, 10)], &[1]),
            ("just full", &[(60, 0, 10), (40, 0, 10), (1, 0, 1)], &[2, 1]),
            ("too large by itself", &[(10, 0, 1), (500, 9, 1), (10, 0, 1), (10, 0, 1)], &[1, 1, 2]),
            ("the time index is full first", &[(1, 2, 1), (1, 2, 1), (1, 1, 1)], &[2, 1]),
            ("offsets too far apart", &[(1, 0, 5), (1, 0, 1 << 31), (1, 0, 1)], &[1, 1, 1]),
            ("offsets just near enough", &[(1, 0, 1), (1, 0, (1 << 31) - 1)], &[2]),
        ];
        for (name, rows, expected) in table {
            let mut base = 7;
            let segments: Vec<_> = rows
                .iter()
                .map(|&(bytes, entries, offsets)| {
                    base += offsets;
                    SegmentMeta {
                        end_offset: Offset(base),
                        bytes,
                        index_entries: entries,
                        time_index_entries: entries,
                        sealed: true,
                        ..SegmentMeta::new(Offset(base - offsets), WallTime(0))
                    }
                })
                .collect();
            let groups = group_segments(&segments, &LIMITS);
            assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start), "{name}");
            let lengths: Vec<usize> = groups.iter().map(ExactSizeIterator::len).collect();
            assert_eq!(lengths, expected, "{name}");
        }
    }
}
