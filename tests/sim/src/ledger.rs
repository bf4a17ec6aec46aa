//! What must be true of a partition, as clients on the far side of a network know it: they send batches, are told of some where
//! they are, and read.
//!
//! Owner: the test, outside the simulated brokers. Unlike a log's own caller, a client does not see the order in which a partition
//! takes what several of them send; what it was told or has read is for good. A time-out means "unknown", never "failed".

use std::collections::BTreeMap;

use crate::batches::{Mark, content};
use crate::judge::check_sequences;

/// One partition of one incarnation of a topic.
#[derive(Clone, Default, Debug)]
pub struct Ledger {
    /// Everything that was ever sent to it, by content, and where it was found to be.
    sent: BTreeMap<u64, Option<i64>>,
    /// What an answer or a read has shown, by first offset.
    known: BTreeMap<i64, Mark>,
    acknowledged: u64,
}

impl Ledger {
    /// A batch goes out, again perhaps.
    pub fn send(&mut self, batch: &[u8]) {
        self.sent.entry(content(batch)).or_insert(None);
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Where what is known ends.
    pub fn known_end(&self) -> i64 {
        self.known.last_key_value().map_or(0, |(_, mark)| mark.last + 1)
    }

    /// A batch was answered with its place.
    pub fn acknowledge(&mut self, mark: Mark) -> Result<(), String> {
        self.acknowledged += 1;
        self.learn(mark).map_err(|why| format!("an answer: {why}"))
    }

    /// A batch is known to be somewhere: nothing else is there, and it is nowhere else.
    fn learn(&mut self, mark: Mark) -> Result<(), String> {
        match self.sent.get_mut(&mark.content) {
            None => return Err(format!("{mark:?} was never sent")),
            Some(Some(other)) if *other != mark.base => {
                return Err(format!("{mark:?} is at offset {other} too"));
            }
            Some(place) => *place = Some(mark.base),
        }
        if let Some(known) = self.known.get(&mark.base) {
            let same = (known.content, known.last) == (mark.content, mark.last);
            return if same { Ok(()) } else { Err(format!("{mark:?} is where {known:?} was")) };
        }
        if let Some((_, before)) = self.known.range(..mark.base).next_back()
            && before.last >= mark.base
        {
            return Err(format!("{mark:?} overlaps {before:?}"));
        }
        if let Some((_, after)) = self.known.range(mark.base..).next()
            && after.base <= mark.last
        {
            return Err(format!("{mark:?} overlaps {after:?}"));
        }
        self.known.insert(mark.base, mark);
        Ok(())
    }

    /// A read from `from` gave `found`: the first batch holds `from`, and nothing is skipped. Gives where to read on.
    pub fn read(&mut self, from: i64, found: &[Mark]) -> Result<i64, String> {
        let mut at = from;
        for (index, mark) in found.iter().enumerate() {
            let follows = if index == 0 { mark.base <= at && at <= mark.last } else { mark.base == at };
            if !follows {
                return Err(format!("a read from {from} gave {mark:?} where offset {at} comes next"));
            }
            self.learn(*mark).map_err(|why| format!("a read from {from}: {why}"))?;
            at = mark.last + 1;
        }
        Ok(at)
    }

    /// The whole partition, from `start` to its end, after the last recovery.
    pub fn check_all(&mut self, start: i64, end: i64, found: &[Mark]) -> Result<(), String> {
        let upto = if found.is_empty() { start } else { self.read(start, found)? };
        if upto != end {
            return Err(format!("the partition ends at {end}, and reads end at {upto}"));
        }
        let found_at: BTreeMap<i64, &Mark> = found.iter().map(|mark| (mark.base, mark)).collect();
        for mark in self.known.values().filter(|mark| mark.last >= start) {
            if !found_at.contains_key(&mark.base) {
                return Err(format!("{mark:?} was there, and is gone; the partition is {start}..{end}"));
            }
        }
        check_sequences(found)
    }
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, WallTime};

    use super::*;
    use crate::batches::{Recipe, placed};

    fn batch(tag: u64) -> Vec<u8> {
        Recipe { tag, records: 2, value_bytes: 10, stamp: None, timestamp: WallTime(1), keys: 0 }.build()
    }

    fn at(tag: u64, base: i64) -> Mark {
        placed(&batch(tag), base, LeaderEpoch(3))
    }

    /// Batches 1 to 4 were sent; 1 is known at 0 and 3 at 4.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        (1..5).for_each(|tag| ledger.send(&batch(tag)));
        ledger.acknowledge(at(1, 0)).unwrap();
        ledger.acknowledge(at(3, 4)).unwrap();
        ledger
    }

    #[test]
    fn answers_and_reads_agree() {
        let table: [(&str, Vec<Mark>, bool); 8] = [
            ("all of it", vec![at(1, 0), at(2, 2), at(3, 4)], true),
            ("one whose answer was lost", vec![at(1, 0), at(4, 2), at(3, 4), at(2, 6)], true),
            ("lost", vec![at(1, 0), at(2, 2)], false),
            ("changed", vec![at(1, 0), at(2, 2), at(4, 4)], false),
            ("a phantom", vec![at(1, 0), at(9, 2), at(3, 4)], false),
            ("twice", vec![at(1, 0), at(2, 2), at(3, 4), at(2, 6)], false),
            ("a hole", vec![at(1, 0), at(3, 4)], false),
            ("moved", vec![at(1, 0), at(3, 2)], false),
        ];
        for (name, found, ok) in table {
            let end = found.last().map_or(0, |mark| mark.last + 1);
            assert_eq!(ledger().check_all(0, end, &found).is_ok(), ok, "{name}");
        }
    }

    #[test]
    fn an_answer_that_contradicts_another_is_refused() {
        assert!(ledger().acknowledge(at(1, 2)).is_err());
        assert!(ledger().acknowledge(at(2, 1)).is_err());
        assert!(ledger().acknowledge(at(2, 3)).is_err());
        assert!(ledger().acknowledge(at(2, 2)).is_ok());
    }
}
