//! What came of groups: members that joined, rebalances, commits.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Latency, new_histogram};

/// The groups of a run. Counts are of the whole run, but for the commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    pub groups: u32,
    /// Of each group.
    pub members: u32,
    /// `classic` or `consumer`.
    pub protocol: String,
    /// From a member's first request to its first assignment.
    pub join: Latency,
    /// From when a member stopped reading, because its group gathers, to its next assignment. With `consumer` members stop only while they
    /// take over what they are given.
    pub rebalance: Latency,
    /// Generations of all groups, without the first of each.
    pub rebalances: u64,
    /// Partitions that another member had before.
    pub partitions_moved: u64,
    /// Members that left, were killed, were restarted.
    pub left: u64,
    pub killed: u64,
    pub restarted: u64,
    /// From the request to the answer, of commits of all partitions of a member on which something was read.
    pub commit: Latency,
    /// In the measured time.
    pub commits: u64,
    pub commits_per_s: f64,
    /// Refused, as those of a generation that is over are, or not answered.
    pub commits_failed: u64,
}

/// The distributions, in nanoseconds.
#[derive(Clone, Debug)]
pub struct GroupHistograms {
    pub join: Histogram<u64>,
    pub rebalance: Histogram<u64>,
    pub commit: Histogram<u64>,
}

impl Default for GroupHistograms {
    fn default() -> Self {
        Self { join: new_histogram(), rebalance: new_histogram(), commit: new_histogram() }
    }
}

impl GroupHistograms {
    /// Each with the name that the report has for it.
    #[must_use]
    pub fn named(&self) -> [(&'static str, &Histogram<u64>); 3] {
        [("join", &self.join), ("rebalance", &self.rebalance), ("commit", &self.commit)]
    }

    /// Takes in what others have measured.
    pub fn add(&mut self, other: &Self) {
        let ours = [&mut self.join, &mut self.rebalance, &mut self.commit];
        for (ours, (_, theirs)) in ours.into_iter().zip(other.named()) {
            ours.add(theirs).expect("a histogram that grows takes another in");
        }
    }
}
