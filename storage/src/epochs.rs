//! Where each leader epoch of a log begins: Kafka's leader-epoch cache (KIP-101, KIP-320).
//!
//! Owner: the log, on its shard; pure. It lives in memory, goes into the manifest at a checkpoint, and is rebuilt above that from
//! the journal.
//!
//! Invariants: epochs and their start offsets both rise strictly; no epoch and no start offset is negative.

use std::ops::Range;

use base::{LeaderEpoch, NO_EPOCH, Offset};

/// An epoch and the first offset written under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// The answer to "where did this epoch end?".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochEnd {
    /// The log cannot tell: −1 and −1 on the wire.
    Unknown,
    /// The largest epoch at or below the one asked for, and the offset just past its last record.
    At { epoch: LeaderEpoch, end: Offset },
}

/// The epochs of one log, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EpochTable {
    entries: Vec<EpochStart>,
}

/// Entries that cannot be an epoch history: not rising, or negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidEpochs {
    /// The first entry that breaks the rule.
    pub index: usize,
}

impl std::fmt::Display for InvalidEpochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "leader epoch entry {} does not follow the one before it", self.index)
    }
}

impl std::error::Error for InvalidEpochs {}

impl EpochTable {
    /// Takes a stored history over, once it is seen to be one.
    pub fn from_entries(entries: Vec<EpochStart>) -> Result<Self, InvalidEpochs> {
        for (index, entry) in entries.iter().enumerate() {
            let follows =
                index == 0 || (entries[index - 1].epoch < entry.epoch && entries[index - 1].start < entry.start);
            if !follows || entry.epoch.0 < 0 || entry.start.0 < 0 {
                return Err(InvalidEpochs { index });
            }
        }
        Ok(Self { entries })
    }

    /// Oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest epoch, or [`NO_EPOCH`] for a log that never had one.
    #[must_use]
    pub fn latest(&self) -> LeaderEpoch {
        self.entries.last().map_or(NO_EPOCH, |entry| entry.epoch)
    }

    /// Notes that `epoch` begins at `start`. Says whether the table changed.
    ///
    /// A repeated epoch keeps its first start. Entries that the new one contradicts (an epoch as high, or a start as high) are
    /// removed: they were of a leadership that wrote nothing, or whose records have been truncated.
    ///
    /// # Panics
    /// On a negative epoch or start: the caller must not pass [`NO_EPOCH`] on.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        assert!(epoch.0 >= 0 && start.0 >= 0, "leader epoch {epoch} at offset {start}");
        if self.entries.last().is_some_and(|last| last.epoch == epoch && last.start <= start) {
            return false;
        }
        while self.entries.last().is_some_and(|last| last.epoch >= epoch || last.start >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochStart { epoch, start });
        true
    }

    /// The log now ends at `end`: epochs that begin there or later never were.
    pub fn truncate_from_end(&mut self, end: Offset) {
        let keep = self.entries.partition_point(|entry| entry.start < end);
        self.entries.truncate(keep);
    }

    /// The log now starts at `start`: the epoch in force there begins there, older ones are forgotten.
    pub fn truncate_from_start(&mut self, start: Offset) {
        let at_or_below = self.entries.partition_point(|entry| entry.start <= start);
        if at_or_below > 0 {
            self.entries.drain(..at_or_below - 1);
            self.entries[0].start = start;
        }
    }

    /// The epoch under which the record at `offset` was written.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let above = self.entries.partition_point(|entry| entry.start <= offset);
        above.checked_sub(1).map(|index| self.entries[index].epoch)
    }

    /// What of the history says under which epochs the records of `offsets` were written.
    #[must_use]
    pub fn part(&self, offsets: Range<Offset>) -> Self {
        let first = self.entries.partition_point(|entry| entry.start <= offsets.start).saturating_sub(1);
        let end = self.entries.partition_point(|entry| entry.start < offsets.end).max(first);
        Self { entries: self.entries[first..end].to_vec() }
    }

    /// Where `epoch` ended, for a log that ends at `log_end` (`OffsetForLeaderEpoch`).
    ///
    /// An epoch older than all that are known is answered with itself and the start of the oldest known one: its records are
    /// gone from the log, and a follower goes on from there.
    #[must_use]
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> EpochEnd {
        if epoch.0 < 0 {
            return EpochEnd::Unknown;
        }
        if epoch == self.latest() {
            return EpochEnd::At { epoch, end: log_end };
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let Some(next) = self.entries.get(higher) else {
            return EpochEnd::Unknown;
        };
        let floor = higher.checked_sub(1).map_or(epoch, |index| self.entries[index].epoch);
        EpochEnd::At { epoch: floor, end: next.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: &[(i32, i64)]) -> EpochTable {
        let mut table = EpochTable::default();
        for &(epoch, start) in entries {
            table.assign(LeaderEpoch(epoch), Offset(start));
        }
        table
    }

    fn pairs(table: &EpochTable) -> Vec<(i32, i64)> {
        table.entries().iter().map(|entry| (entry.epoch.0, entry.start.0)).collect()
    }

    #[test]
    fn assign_keeps_both_columns_rising() {
        for (assigned, expected) in [
            (&[(0, 0), (1, 10), (4, 20)][..], &[(0, 0), (1, 10), (4, 20)][..]),
            (&[(0, 0), (0, 5)], &[(0, 0)]),
            // Nobody wrote under epoch 1: epoch 2 takes its place.
            (&[(0, 0), (1, 10), (2, 10)], &[(0, 0), (2, 10)]),
            // A start below the one that is known replaces what it contradicts.
            (&[(0, 0), (1, 10), (2, 5)], &[(0, 0), (2, 5)]),
            (&[(0, 0), (3, 10), (2, 12)], &[(0, 0), (2, 12)]),
            (&[(2, 10), (2, 8)], &[(2, 8)]),
        ] {
            assert_eq!(pairs(&table(assigned)), expected, "after {assigned:?}");
        }
    }

    #[test]
    fn end_of_an_epoch() {
        let known = table(&[(2, 10), (5, 20), (7, 30)]);
        let at = |epoch, end| EpochEnd::At { epoch: LeaderEpoch(epoch), end: Offset(end) };
        for (asked, expected) in [
            (-1, EpochEnd::Unknown),
            (0, at(0, 10)),
            (1, at(1, 10)),
            (2, at(2, 20)),
            (4, at(2, 20)),
            (5, at(5, 30)),
            (6, at(5, 30)),
            (7, at(7, 42)),
            (8, EpochEnd::Unknown),
        ] {
            assert_eq!(known.end_offset_for(LeaderEpoch(asked), Offset(42)), expected, "epoch {asked}");
        }
        assert_eq!(EpochTable::default().end_offset_for(LeaderEpoch(0), Offset(3)), EpochEnd::Unknown);
        assert_eq!(EpochTable::default().end_offset_for(NO_EPOCH, Offset(3)), EpochEnd::Unknown);
    }

    #[test]
    fn truncation_at_both_ends() {
        for (cut, expected) in
            [(0, &[][..]), (10, &[]), (11, &[(2, 10)]), (20, &[(2, 10)]), (31, &[(2, 10), (5, 20), (7, 30)])]
        {
            let mut known = table(&[(2, 10), (5, 20), (7, 30)]);
            known.truncate_from_end(Offset(cut));
            assert_eq!(pairs(&known), expected, "end {cut}");
        }
        for (cut, expected) in [
            (5, &[(2, 10), (5, 20), (7, 30)][..]),
            (10, &[(2, 10), (5, 20), (7, 30)]),
            (19, &[(2, 19), (5, 20), (7, 30)]),
            (20, &[(5, 20), (7, 30)]),
            (99, &[(7, 99)]),
        ] {
            let mut known = table(&[(2, 10), (5, 20), (7, 30)]);
            known.truncate_from_start(Offset(cut));
            assert_eq!(pairs(&known), expected, "start {cut}");
        }
    }

    #[test]
    fn stored_entries_are_checked() {
        let entry = |epoch, start| EpochStart { epoch: LeaderEpoch(epoch), start: Offset(start) };
        assert!(EpochTable::from_entries(vec![entry(0, 0), entry(1, 4)]).is_ok());
        for (bad, index) in [
            (vec![entry(-1, 0)], 0),
            (vec![entry(0, -1)], 0),
            (vec![entry(0, 0), entry(1, 0)], 1),
            (vec![entry(1, 0), entry(1, 4)], 1),
        ] {
            assert_eq!(EpochTable::from_entries(bad), Err(InvalidEpochs { index }));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write { records: i64 },
        Lead { skip: i32 },
        TruncateEnd { back: i64 },
        TruncateStart { forth: i64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..4i64).prop_map(|records| Step::Write { records }),
            (1..3i32).prop_map(|skip| Step::Lead { skip }),
            (0..6i64).prop_map(|back| Step::TruncateEnd { back }),
            (0..4i64).prop_map(|forth| Step::TruncateStart { forth }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Against a log that remembers the epoch of every record it ever held.
        #[test]
        fn agrees_with_a_log_of_records(steps in proptest::collection::vec(step(), 1..40)) {
            let (mut records, mut start): (Vec<i32>, usize) = (Vec::new(), 0);
            let (mut known, mut epoch) = (EpochTable::default(), 0);
            for step in steps {
                match step {
                    Step::Write { records: count } => {
                        known.assign(LeaderEpoch(epoch), Offset(records.len() as i64));
                        records.extend(std::iter::repeat_n(epoch, count as usize));
                    }
                    Step::Lead { skip } => epoch += skip,
                    Step::TruncateEnd { back } => {
                        let end = records.len().saturating_sub(back as usize).max(start);
                        records.truncate(end);
                        known.truncate_from_end(Offset(end as i64));
                        epoch += 1;
                    }
                    Step::TruncateStart { forth } => {
                        start = (start + forth as usize).min(records.len());
                        known.truncate_from_start(Offset(start as i64));
                    }
                }
                for (offset, &epoch) in records.iter().enumerate().skip(start) {
                    prop_assert_eq!(known.epoch_at(Offset(offset as i64)), Some(LeaderEpoch(epoch)));
                }
                prop_assert!(EpochTable::from_entries(known.entries().to_vec()).is_ok());
                // The end of every epoch that still has records, and is not the latest, is where a later one begins.
                for &asked in &records[start..] {
                    let end = records.iter().rposition(|&of| of <= asked).map_or(0, |last| last as i64 + 1);
                    prop_assert_eq!(
                        known.end_offset_for(LeaderEpoch(asked), Offset(records.len() as i64)),
                        EpochEnd::At { epoch: LeaderEpoch(asked), end: Offset(end) }
                    );
                }
            }
        }
    }
}
