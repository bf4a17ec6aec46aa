//! What is told of a group: of all its partitions together, and of each. Pure.

use super::progress::Lag;
use crate::coordinator::message::TopicPartition;

/// All partitions of a group together, as of its last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupLag {
    /// Those that were looked at.
    pub partitions: usize,
    pub records_max: i64,
    /// The least known where some are not.
    pub age_ms_max: i64,
    /// `None` where retention will delete nothing that it has not read.
    pub headroom_ms_min: Option<i64>,
    pub lost: i64,
    pub stalled: usize,
    pub handed_on: usize,
}

/// One partition of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionLag {
    pub of: TopicPartition,
    pub lag: Lag,
}

impl GroupLag {
    pub fn add(&mut self, lag: &Lag) {
        self.partitions += 1;
        self.records_max = self.records_max.max(lag.records);
        self.age_ms_max = self.age_ms_max.max(lag.age_ms.unwrap_or(0));
        self.headroom_ms_min = match (self.headroom_ms_min, lag.headroom_ms) {
            (Some(least), Some(headroom)) => Some(least.min(headroom)),
            (least, headroom) => least.or(headroom),
        };
        self.lost = self.lost.saturating_add(lag.lost);
        self.stalled += usize::from(lag.is_stalled);
        self.handed_on += usize::from(lag.is_handed_on);
    }
}
