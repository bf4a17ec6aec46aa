//! What is counted of groups and their members. Pure.
//!
//! Owner: each thread has a [`MemberTally`], each group [`Holders`].

use std::collections::HashMap;
use std::time::Duration;

use crate::measure::Window;
use crate::report::{GroupFigures, GroupHistograms, Latency};
use crate::workload::{Churn, Groups};

/// What members did.
#[derive(Clone, Debug, Default)]
pub struct MemberTally {
    pub histograms: GroupHistograms,
    pub rebalances: u64,
    pub partitions_moved: u64,
    pub left: u64,
    pub killed: u64,
    pub restarted: u64,
    /// In the measured time.
    pub commits: u64,
    pub commits_failed: u64,
}

impl MemberTally {
    /// A member has its share, so long after it asked for it: for the first time, or again.
    pub fn settled(&mut self, is_first: bool, took: Duration) {
        let histogram = if is_first { &mut self.histograms.join } else { &mut self.histograms.rebalance };
        histogram.record(took.as_nanos() as u64).expect("it grows");
    }

    /// A commit was answered at `at_ns`.
    pub fn committed(&mut self, window: &Window, at_ns: u64, took_ns: u64) {
        if window.has(at_ns) {
            self.commits += 1;
            self.histograms.commit.record(took_ns).expect("it grows");
        }
    }

    /// A member went.
    pub fn gone(&mut self, churn: Churn) {
        match churn {
            Churn::Leave => self.left += 1,
            Churn::Kill => self.killed += 1,
            Churn::Restart => self.restarted += 1,
        }
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.histograms.add(&other.histograms);
        self.rebalances += other.rebalances;
        self.partitions_moved += other.partitions_moved;
        self.left += other.left;
        self.killed += other.killed;
        self.restarted += other.restarted;
        self.commits += other.commits;
        self.commits_failed += other.commits_failed;
    }

    /// As it stands in the report, of so long a measured time.
    #[must_use]
    pub fn figures(&self, groups: &Groups, measured: Duration) -> GroupFigures {
        GroupFigures {
            groups: groups.count,
            members: groups.members,
            protocol: groups.kind.to_string(),
            join: Latency::of(&self.histograms.join),
            rebalance: Latency::of(&self.histograms.rebalance),
            rebalances: self.rebalances,
            partitions_moved: self.partitions_moved,
            left: self.left,
            killed: self.killed,
            restarted: self.restarted,
            commit: Latency::of(&self.histograms.commit),
            commits: self.commits,
            commits_per_s: self.commits as f64 / measured.as_secs_f64().max(1e-9),
            commits_failed: self.commits_failed,
        }
    }
}

/// Who had the partitions of a group last, and which generation it is in.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    generation: Option<i32>,
    held: HashMap<u32, u64>,
}

impl Holders {
    /// A member is settled in a generation: whether the group has moved on to it, from another.
    pub fn settled(&mut self, generation: i32) -> bool {
        let before = self.generation;
        self.generation = before.max(Some(generation));
        before.is_some_and(|before| before < generation)
    }

    /// A member has a partition: whether another had it last.
    pub fn gained(&mut self, partition: u32, member: u64) -> bool {
        self.held.insert(partition, member).is_some_and(|before| before != member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_after_the_first_are_rebalances_and_partitions_move_between_members() {
        let mut holders = Holders::default();
        let rebalances: Vec<bool> = [3, 3, 4, 3, 4, 6].map(|generation| holders.settled(generation)).into();
        assert_eq!(rebalances, [false, false, true, false, false, true]);
        let moved: Vec<bool> = [(0, 1), (1, 1), (0, 1), (0, 2), (0, 2)].map(|(at, who)| holders.gained(at, who)).into();
        assert_eq!(moved, [false, false, false, true, false]);
    }

    #[test]
    fn commits_count_in_the_measured_time() {
        let window = Window::new(Duration::from_secs(1), Duration::from_secs(2));
        let mut tally = MemberTally::default();
        for at_ns in [500_000_000, 1_000_000_000, 2_999_999_999, 3_000_000_000] {
            tally.committed(&window, at_ns, 1000);
        }
        tally.settled(true, Duration::from_millis(3));
        tally.settled(false, Duration::from_millis(5));
        let mut both = tally.clone();
        both.add(&tally);
        let histograms = &both.histograms;
        assert_eq!((both.commits, histograms.commit.len(), histograms.join.len()), (4, 4, 2));
        assert!(histograms.rebalance.max() >= 5_000_000);
    }
}
