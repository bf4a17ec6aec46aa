//! The records of one stream: what its producer was told of them, and what a consumer saw.
//!
//! Owner: the thread of the partition's consumer. Pure. News of acknowledgements and deliveries come in whatever order they do: a record may be
//! delivered before its acknowledgement is known.
//!
//! Invariants
//! - `next` is past every number that was delivered; `missing` has those below it that were not.
//! - An acknowledged range is kept until all of it was delivered, so what is left at the end is what is lost.

use std::collections::VecDeque;

use super::Ranges;

/// Records of a stream that were acknowledged together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Number of the first.
    pub first: u64,
    pub count: u64,
    /// Offset of the first, where the broker said it.
    pub offset: Option<i64>,
    pub at_ns: u64,
}

impl Ack {
    fn end(&self) -> u64 {
        self.first + self.count
    }

    /// The number of the record with an offset, if that is one of them.
    #[must_use]
    pub fn number_at(&self, offset: i64) -> Option<u64> {
        let place = u64::try_from(offset - self.offset?).ok()?;
        (place < self.count).then_some(self.first + place)
    }

    /// The offset of one of them.
    #[must_use]
    pub fn offset_of(&self, number: u64) -> Option<i64> {
        Some(self.offset? + (number - self.first) as i64)
    }
}

/// What a delivered record is to its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sighting {
    InTurn,
    /// A later one was delivered before it.
    Late,
    /// It was delivered before.
    Again,
}

/// A delivery, as far as is known when it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub sighting: Sighting,
    /// When it was acknowledged, if that is known yet.
    pub acknowledged_ns: Option<u64>,
    /// The broker had refused it.
    pub was_refused: bool,
}

struct Pending {
    ack: Ack,
    /// Of its records those that were not delivered.
    left: u64,
}

/// What is known of a stream.
#[derive(Default)]
pub struct Ledger {
    next: u64,
    missing: Ranges,
    pending: VecDeque<Pending>,
    /// Delivered, and their acknowledgement not known; by number, with when each was due.
    early: VecDeque<(u64, u64)>,
    refused: Ranges,
}

impl Ledger {
    /// Takes in an acknowledgement; returns when those of the records were due that had been delivered before it was known.
    pub fn acknowledged(&mut self, ack: Ack) -> Vec<u64> {
        let early = self.take_early(ack.first, ack.end());
        let left = ack.count - early.len() as u64;
        if left > 0 {
            // In order but for what was sent again without idempotence.
            let place = self.pending.partition_point(|pending| pending.ack.first < ack.first);
            self.pending.insert(place, Pending { ack, left });
        }
        early
    }

    /// Records were refused: they were not written. Returns those that were delivered all the same.
    pub fn refused(&mut self, first: u64, count: u64) -> Vec<u64> {
        self.refused.insert(first, first + count);
        self.take_early(first, first + count);
        (first..first + count).filter(|number| self.was_delivered(*number)).collect()
    }

    /// Nothing will be heard of the acknowledgement of these records any more; they may have been written or not.
    pub fn unknown(&mut self, first: u64, count: u64) {
        self.take_early(first, first + count);
    }

    fn take_early(&mut self, first: u64, end: u64) -> Vec<u64> {
        let from = self.early.partition_point(|(number, _)| *number < first);
        let to = self.early.partition_point(|(number, _)| *number < end);
        self.early.drain(from..to).map(|(_, due_ns)| due_ns).collect()
    }

    /// Takes in a delivery.
    pub fn delivered(&mut self, number: u64, due_ns: u64) -> Seen {
        let sighting = if number >= self.next {
            self.missing.insert(self.next, number);
            self.next = number + 1;
            Sighting::InTurn
        } else if self.missing.remove(number) {
            Sighting::Late
        } else {
            return Seen { sighting: Sighting::Again, acknowledged_ns: None, was_refused: false };
        };
        let was_refused = !self.refused.is_empty() && self.refused.contains(number);
        let acknowledged_ns = self.settle(number);
        if acknowledged_ns.is_none() && !was_refused {
            let place = self.early.partition_point(|(other, _)| *other < number);
            self.early.insert(place, (number, due_ns));
        }
        Seen { sighting, acknowledged_ns, was_refused }
    }

    /// Counts a delivered record off its acknowledgement.
    fn settle(&mut self, number: u64) -> Option<u64> {
        let place = match self.pending.front() {
            Some(front) if number < front.ack.end() => 0,
            _ => self.pending.partition_point(|pending| pending.ack.end() <= number),
        };
        let pending = self.pending.get_mut(place).filter(|pending| pending.ack.first <= number)?;
        pending.left -= 1;
        let at_ns = pending.ack.at_ns;
        if pending.left == 0 {
            self.pending.remove(place);
        }
        Some(at_ns)
    }

    /// Whether all that was acknowledged has been delivered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// The acknowledged range that has an offset, which is not delivered whole.
    #[must_use]
    pub fn range_at(&self, offset: i64) -> Option<Ack> {
        self.pending.iter().map(|pending| pending.ack).find(|ack| ack.number_at(offset).is_some())
    }

    /// Records of a range that can't be read: they count as delivered from now on. Returns their numbers.
    pub fn unreadable(&mut self, ack: &Ack) -> Vec<u64> {
        let numbers: Vec<u64> = (ack.first..ack.end()).filter(|number| !self.was_delivered(*number)).collect();
        numbers.iter().for_each(|number| {
            self.delivered(*number, 0);
        });
        numbers
    }

    fn was_delivered(&self, number: u64) -> bool {
        number < self.next && !self.missing.contains(number)
    }

    /// Acknowledged and not delivered: their numbers and offsets.
    pub fn lost(&self) -> impl Iterator<Item = (u64, Option<i64>)> + '_ {
        self.pending.iter().flat_map(move |pending| {
            let ack = pending.ack;
            (ack.first..ack.end())
                .filter(move |number| !self.was_delivered(*number))
                .map(move |number| (number, ack.offset_of(number)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(first: u64, count: u64) -> Ack {
        Ack { first, count, offset: Some(100 + first as i64), at_ns: 10 * first }
    }

    /// Tells a story, `a0+3` (acknowledged: three from 0), `d1` (delivered: 1), `r0+2` (refused), `u0+2` (unknown), and what each said.
    fn told(story: &str) -> (Ledger, Vec<String>) {
        let (mut ledger, mut said) = (Ledger::default(), Vec::new());
        for word in story.split_whitespace() {
            let (verb, rest) = word.split_at(1);
            let (first, count) = rest.split_once('+').unwrap_or((rest, "1"));
            let (first, count): (u64, u64) = (first.parse().expect("a number"), count.parse().expect("a count"));
            said.push(match verb {
                "a" => format!("early {:?}", ledger.acknowledged(ack(first, count))),
                "r" => format!("{:?}", ledger.refused(first, count)),
                "u" => {
                    ledger.unknown(first, count);
                    "-".into()
                }
                _ => {
                    let seen = ledger.delivered(first, 100 + first);
                    let known = seen.acknowledged_ns.map_or("?".into(), |at| at.to_string());
                    format!("{:?} {known}{}", seen.sighting, if seen.was_refused { " refused" } else { "" })
                }
            });
        }
        (ledger, said)
    }

    #[test]
    fn stories_end_as_they_should() {
        let cases: &[(&str, &[&str], &[u64])] = &[
            ("a0+2 d0 d1", &["early []", "InTurn 0", "InTurn 0"], &[]),
            ("d0 d1 a0+2", &["InTurn ?", "InTurn ?", "early [100, 101]"], &[]),
            ("d0 a0+2 d1", &["InTurn ?", "early [100]", "InTurn 0"], &[]),
            ("a0+3 d0 d2", &["early []", "InTurn 0", "InTurn 0"], &[1]),
            ("a0+3 d0 d2 d1", &["early []", "InTurn 0", "InTurn 0", "Late 0"], &[]),
            ("a0+2 d0 d1 d1", &["early []", "InTurn 0", "InTurn 0", "Again ?"], &[]),
            ("a0+2 d0 d0 d1", &["early []", "InTurn 0", "Again ?", "InTurn 0"], &[]),
            (
                "a5+2 a0+5 d0 d1 d2 d3 d4 d5 d6",
                &[
                    "early []",
                    "early []",
                    "InTurn 0",
                    "InTurn 0",
                    "InTurn 0",
                    "InTurn 0",
                    "InTurn 0",
                    "InTurn 50",
                    "InTurn 50",
                ],
                &[],
            ),
            ("r0+2 a2+1 d2", &["[]", "early []", "InTurn 20"], &[]),
            ("r0+2 d1 a2+1", &["[]", "InTurn ? refused", "early []"], &[2]),
            ("d0 d1 r1+2", &["InTurn ?", "InTurn ?", "[1]"], &[]),
            ("u0+2 d1 a2+1 d2", &["-", "InTurn ?", "early []", "InTurn 20"], &[]),
            ("a0+2", &["early []"], &[0, 1]),
        ];
        for (story, expected, lost) in cases {
            let (ledger, said) = told(story);
            assert_eq!(said, *expected, "{story}");
            let left: Vec<u64> = ledger.lost().map(|(number, _)| number).collect();
            assert_eq!(left, *lost, "{story}");
            assert_eq!(ledger.is_settled(), lost.is_empty(), "{story}");
        }
    }

    #[test]
    fn what_can_t_be_read_is_found_by_its_offset() {
        let (mut ledger, _) = told("a0+2 a2+3 d0 d1");
        let range = ledger.range_at(103).expect("acknowledged there");
        assert_eq!(range, ack(2, 3));
        assert_eq!(ledger.unreadable(&range), [2, 3, 4]);
        assert!(ledger.is_settled() && ledger.range_at(103).is_none());
        assert_eq!(ledger.lost().count(), 0);
    }
}
