//! Every stream of the partitions that one thread, or one group, reads: each record delivered is held against what its producer was told.
//!
//! Owner: a thread of the generator. Pure. To a group a record may come again when its partition has changed hands: nobody had committed it.

use std::collections::HashMap;

use crate::payload::{self, Content, Stamp};
use crate::report::{Finding, FindingKind, Verified};
use crate::verify::{Ack, Ledger, Owner, Owners, Sighting};

/// Findings that are kept with their offsets; all are counted.
pub const FINDINGS_MAX: usize = 100;

/// What a producer was told of records of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    Acknowledged(Ack),
    /// They were not written.
    Refused {
        first: u64,
        count: u64,
    },
    /// They may have been written or not.
    Unknown {
        first: u64,
        count: u64,
    },
}

/// How streams are numbered: the partitions of all topics in one row, once for each producer.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// Partitions of all topics together.
    pub partitions: u32,
}

impl Numbering {
    /// The stream of a producer in a partition.
    #[must_use]
    pub fn stream(self, producer: u32, partition: u32) -> u32 {
        producer * self.partitions + partition
    }

    #[must_use]
    pub fn partition(self, stream: u32) -> u32 {
        stream % self.partitions
    }
}

/// What the judge goes by.
#[derive(Clone, Debug)]
pub struct Rules {
    pub run: u32,
    pub numbering: Numbering,
    /// Streams that there are.
    pub streams: u32,
    /// Whether contents and order are looked at; otherwise records are only told apart to be measured.
    pub enabled: bool,
    /// Records come once and in order whatever happens.
    pub idempotent: bool,
    /// Nobody else has written to the topics: what is not of this run is damaged.
    pub alone: bool,
}

/// A record that was delivered, for who measures it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    pub due_ns: u64,
    /// When it was acknowledged, if that is known yet.
    pub acknowledged_ns: Option<u64>,
}

/// How a partition is called, by its number in the row of all: a topic and an index.
pub type PartitionName = Box<dyn Fn(u32) -> (String, i32)>;

/// The judge of a thread, or of one of its groups.
pub struct Judge {
    rules: Rules,
    places: HashMap<u32, usize>,
    ledgers: Vec<(u32, Ledger)>,
    /// The stream looked at last: batches have records of one.
    last: Option<(u32, usize)>,
    found: Verified,
    /// Damaged records, by partition and offset, whose place in a stream is not known: no acknowledgement has told it yet.
    unplaced: Vec<(u32, i64)>,
    owners: Owners,
    name: PartitionName,
}

impl Judge {
    /// A judge that calls partitions by what `name` says.
    #[must_use]
    pub fn new(rules: Rules, name: PartitionName) -> Self {
        let found = Verified { enabled: rules.enabled, ..Verified::default() };
        let (places, owners) = (HashMap::new(), Owners::default());
        Self { rules, places, ledgers: Vec::new(), last: None, found, unplaced: Vec::new(), owners, name }
    }

    fn place(&mut self, stream: u32) -> usize {
        if let Some((last, place)) = self.last.filter(|(last, _)| *last == stream) {
            debug_assert_eq!(last, stream);
            return place;
        }
        let ledgers = &mut self.ledgers;
        let place = *self.places.entry(stream).or_insert_with(|| {
            ledgers.push((stream, Ledger::default()));
            ledgers.len() - 1
        });
        self.last = Some((stream, place));
        place
    }

    /// Takes in what a producer was told. Returns when those of the records were due that had been delivered before.
    pub fn told(&mut self, stream: u32, news: News) -> Vec<u64> {
        let place = self.place(stream);
        let ledger = &mut self.ledgers[place].1;
        match news {
            News::Acknowledged(ack) => {
                self.found.acknowledged += ack.count;
                let early = ledger.acknowledged(ack);
                if !self.unplaced.is_empty() {
                    let partition = self.rules.numbering.partition(stream);
                    self.unplaced.retain(|(its_partition, offset)| {
                        let number = ack.number_at(*offset).filter(|_| *its_partition == partition);
                        number.is_none_or(|number| ledger.delivered(number, 0).sighting == Sighting::Again)
                    });
                }
                return early;
            }
            News::Refused { first, count } => {
                let delivered = ledger.refused(first, count);
                for number in delivered {
                    self.find(FindingKind::Unexpected, self.rules.numbering.partition(stream), None, Some(number));
                }
            }
            News::Unknown { first, count } => ledger.unknown(first, count),
        }
        Vec::new()
    }

    /// A member of the group reads a partition from here on.
    pub fn owned(&mut self, partition: u32, from: i64) -> Owner {
        let (owner, holds) = self.owners.begin(partition, from);
        if !holds {
            self.find(FindingKind::Regressed, partition, Some(from), None);
        }
        owner
    }

    /// It does so no longer.
    pub fn disowned(&mut self, owner: Owner) {
        self.owners.end(owner);
    }

    /// What it committed was taken.
    pub fn committed(&mut self, partition: u32, owner: Owner, offset: i64) {
        if !self.owners.committed(partition, owner, offset) {
            self.find(FindingKind::Regressed, partition, Some(offset), None);
        }
    }

    /// Takes in a record that was delivered, of a group with whose turn it is; `None` where it is not one to be measured.
    pub fn delivered(
        &mut self,
        (partition, owner): (u32, Option<Owner>),
        offset: i64,
        key: &[u8],
        value: &[u8],
    ) -> Option<Arrival> {
        let content = payload::inspect(value, key, self.rules.enabled);
        let Some(stamp) = self.own(partition, content) else {
            let is_foreign =
                !self.rules.alone && !matches!(content, Content::Intact(stamp) if stamp.run == self.rules.run);
            if is_foreign {
                self.found.foreign += 1;
            } else if self.rules.enabled {
                self.damaged(partition, offset);
            }
            return None;
        };
        self.found.delivered += 1;
        let place = self.place(stamp.stream);
        let seen = self.ledgers[place].1.delivered(stamp.number, stamp.due_ns);
        let in_turn = owner.is_none_or(|owner| self.owners.is_in_turn(owner, stamp.stream, stamp.number));
        let kind = match seen.sighting {
            Sighting::Again if owner.is_some() && in_turn => {
                self.found.redelivered += 1;
                None
            }
            Sighting::Again => Some(FindingKind::Duplicated),
            _ if seen.was_refused => Some(FindingKind::Unexpected),
            Sighting::Late => Some(FindingKind::Reordered),
            Sighting::InTurn => None,
        };
        if let Some(kind) = kind {
            self.find(kind, partition, Some(offset), Some(stamp.number));
        }
        let measured = seen.sighting != Sighting::Again && !seen.was_refused;
        measured.then_some(Arrival { due_ns: stamp.due_ns, acknowledged_ns: seen.acknowledged_ns })
    }

    /// The stamp, if it is of this run and stands where it may.
    fn own(&self, partition: u32, content: Content) -> Option<Stamp> {
        let Content::Intact(stamp) = content else { return None };
        let fits = stamp.run == self.rules.run
            && stamp.stream < self.rules.streams
            && self.rules.numbering.partition(stamp.stream) == partition;
        fits.then_some(stamp)
    }

    /// A record that was not sent so. The record that stood there was acknowledged with its offset: it did arrive, if not whole.
    fn damaged(&mut self, partition: u32, offset: i64) {
        let mut number = None;
        for (stream, ledger) in &mut self.ledgers {
            if self.rules.numbering.partition(*stream) == partition
                && let Some(damaged) = ledger.range_at(offset).and_then(|ack| ack.number_at(offset))
            {
                ledger.delivered(damaged, 0);
                number = Some(damaged);
                break;
            }
        }
        if number.is_none() {
            self.unplaced.push((partition, offset));
        }
        self.find(FindingKind::Corrupted, partition, Some(offset), number);
    }

    /// A batch can't be read. If it is known which records are in it, they count as corrupted, and reading can go on behind them at the
    /// offset that is returned.
    pub fn unreadable(&mut self, partition: u32, offset: i64) -> Option<i64> {
        let numbering = self.rules.numbering;
        let mut of_partition = self.ledgers.iter_mut().filter(|(stream, _)| numbering.partition(*stream) == partition);
        let (ack, numbers) = of_partition.find_map(|(_, ledger)| {
            let ack = ledger.range_at(offset)?;
            Some((ack, ledger.unreadable(&ack)))
        })?;
        for number in numbers {
            self.find(FindingKind::Corrupted, partition, ack.offset_of(number), Some(number));
        }
        ack.offset.map(|first| first + ack.count as i64)
    }

    fn find(&mut self, kind: FindingKind, partition: u32, offset: Option<i64>, number: Option<u64>) {
        if !self.rules.enabled {
            return;
        }
        let count = match kind {
            FindingKind::Lost => &mut self.found.lost,
            FindingKind::Duplicated | FindingKind::Reordered if !self.rules.idempotent => {
                self.found.allowed += 1;
                return;
            }
            FindingKind::Duplicated => &mut self.found.duplicated,
            FindingKind::Reordered => &mut self.found.reordered,
            FindingKind::Corrupted => &mut self.found.corrupted,
            FindingKind::Unexpected => &mut self.found.unexpected,
            FindingKind::Regressed => &mut self.found.regressed,
        };
        *count += 1;
        if self.found.findings.len() < FINDINGS_MAX {
            let (topic, partition) = (self.name)(partition);
            self.found.findings.push(Finding { kind, topic, partition, offset, number });
        }
    }

    /// Whether all that was acknowledged has been delivered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ledgers.iter().all(|(_, ledger)| ledger.is_settled())
    }

    /// How many records were delivered: it stands still when no more come.
    #[must_use]
    pub fn delivered_count(&self) -> u64 {
        self.found.delivered + self.found.corrupted
    }

    /// What was found, once. What was acknowledged and has not come by now is lost.
    #[must_use]
    pub fn verdict(&mut self) -> Verified {
        let numbering = self.rules.numbering;
        let lost: Vec<(u32, u64, Option<i64>)> = self
            .ledgers
            .iter()
            .flat_map(|(stream, ledger)| {
                ledger.lost().map(|(number, offset)| (numbering.partition(*stream), number, offset))
            })
            .collect();
        for (partition, number, offset) in lost {
            self.find(FindingKind::Lost, partition, offset, Some(number));
        }
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u32 = 5;

    fn judge(idempotent: bool, alone: bool) -> Judge {
        let numbering = Numbering { partitions: 2 };
        let rules = Rules { run: RUN, numbering, streams: 4, enabled: true, idempotent, alone };
        Judge::new(rules, Box::new(|partition| ("t".into(), partition as i32)))
    }

    fn value(stream: u32, number: u64) -> Vec<u8> {
        let mut value = vec![1; 40];
        payload::stamp(&mut value, &Stamp { run: RUN, stream, number, due_ns: 7 }, b"");
        value
    }

    fn acknowledged(judge: &mut Judge, stream: u32, first: u64, count: u64, offset: i64) {
        judge.told(stream, News::Acknowledged(Ack { first, count, offset: Some(offset), at_ns: 9 }));
    }

    /// The kinds that were found, each with its partition, offset and number.
    fn findings(mut judge: Judge) -> Vec<(FindingKind, i32, Option<i64>, Option<u64>)> {
        let found = judge.verdict().findings;
        found.into_iter().map(|f| (f.kind, f.partition, f.offset, f.number)).collect()
    }

    #[test]
    fn streams_of_two_producers_are_told_apart() {
        let mut judge = judge(true, true);
        acknowledged(&mut judge, 1, 0, 2, 0);
        acknowledged(&mut judge, 3, 0, 1, 2);
        for (offset, stream, number) in [(0, 1, 0), (1, 1, 1), (2, 3, 0)] {
            let arrival = judge.delivered((1, None), offset, b"", &value(stream, number)).expect("to be measured");
            assert_eq!(arrival, Arrival { due_ns: 7, acknowledged_ns: Some(9) });
        }
        assert!(judge.is_settled());
        let found = judge.verdict();
        assert_eq!((found.acknowledged, found.delivered), (3, 3));
        assert!(found.holds() && found.findings.is_empty());
    }

    #[test]
    fn what_is_wrong_is_found_with_its_offset() {
        let mut judge = judge(true, true);
        acknowledged(&mut judge, 0, 0, 6, 10);
        judge.told(0, News::Refused { first: 6, count: 1 });
        let mut damaged = value(0, 4);
        damaged[35] ^= 1;
        for (offset, value) in [
            (10, value(0, 0)),
            (12, value(0, 2)),
            (13, value(0, 1)),
            (14, value(0, 2)),
            (15, damaged),
            (16, value(0, 5)),
            (17, value(0, 6)),
        ] {
            judge.delivered((0, None), offset, b"", &value);
        }
        // What was to be at offset 14 is the record that offset 13 was acknowledged for.
        assert_eq!(
            findings(judge),
            [
                (FindingKind::Reordered, 0, Some(13), Some(1)),
                (FindingKind::Duplicated, 0, Some(14), Some(2)),
                (FindingKind::Corrupted, 0, Some(15), Some(5)),
                (FindingKind::Duplicated, 0, Some(16), Some(5)),
                (FindingKind::Unexpected, 0, Some(17), Some(6)),
                (FindingKind::Lost, 0, Some(13), Some(3)),
                (FindingKind::Lost, 0, Some(14), Some(4)),
            ]
        );
    }

    #[test]
    fn a_damaged_record_is_not_lost_as_well_whichever_comes_first() {
        for acknowledged_first in [true, false] {
            let mut judge = judge(true, true);
            if acknowledged_first {
                acknowledged(&mut judge, 0, 0, 1, 10);
            }
            judge.delivered((0, None), 10, b"", b"short");
            if !acknowledged_first {
                acknowledged(&mut judge, 0, 0, 1, 10);
            }
            let number = acknowledged_first.then_some(0);
            assert_eq!(findings(judge), [(FindingKind::Corrupted, 0, Some(10), number)]);
        }
    }

    #[test]
    fn a_batch_that_can_t_be_read_is_passed_over_once_it_is_known() {
        let mut judge = judge(true, true);
        assert_eq!(judge.unreadable(1, 20), None);
        acknowledged(&mut judge, 1, 0, 2, 20);
        assert_eq!(judge.unreadable(1, 20), Some(22));
        assert_eq!(
            findings(judge),
            [(FindingKind::Corrupted, 1, Some(20), Some(0)), (FindingKind::Corrupted, 1, Some(21), Some(1)),]
        );
    }

    #[test]
    fn records_of_others_are_left_alone_where_others_may_be() {
        let mut judge = judge(true, false);
        assert_eq!(judge.delivered((0, None), 1, b"", b"somebody else's record"), None);
        let found = judge.verdict();
        assert_eq!((found.foreign, found.holds()), (1, true));
    }

    #[test]
    fn without_idempotence_records_may_come_again() {
        let mut judge = judge(false, true);
        acknowledged(&mut judge, 0, 0, 1, 0);
        judge.delivered((0, None), 0, b"", &value(0, 0));
        judge.delivered((0, None), 1, b"", &value(0, 0));
        let found = judge.verdict();
        assert_eq!((found.allowed, found.duplicated, found.holds()), (1, 0, true));
    }

    #[test]
    fn a_group_may_see_again_what_was_not_committed_when_the_partition_changed_hands() {
        let mut judge = judge(true, true);
        acknowledged(&mut judge, 0, 0, 4, 10);
        let first = judge.owned(0, 10);
        for number in 0..3 {
            judge.delivered((0, Some(first)), 10 + number as i64, b"", &value(0, number));
        }
        judge.committed(0, first, 11);
        let second = judge.owned(0, 11);
        judge.disowned(first);
        for number in [1, 2, 3, 2] {
            judge.delivered((0, Some(second)), 10 + number as i64, b"", &value(0, number));
        }
        assert!(judge.is_settled());
        judge.owned(0, 10);
        let found = judge.verdict();
        assert_eq!((found.delivered, found.redelivered, found.duplicated, found.regressed), (7, 2, 1, 1));
        let kinds: Vec<_> = found.findings.iter().map(|found| (found.kind, found.offset)).collect();
        assert_eq!(kinds, [(FindingKind::Duplicated, Some(12)), (FindingKind::Regressed, Some(10))]);
    }
}
