//! What the sink does wrong on purpose: which fault falls on which record.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::units::NotAValue;

/// What is done to a record, or to the batch that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The record is acknowledged and never delivered: its offset stays empty, as compaction leaves it.
    Drop,
    /// The record is delivered twice: it is stored again, under a later offset.
    Duplicate,
    /// The record and the next one of its partition are delivered in each other's place. Until the next one has come, neither is.
    Swap,
    /// The last byte of the record's value is changed (a record without one gets one), and its batch's CRC fits.
    Corrupt,
    /// The last byte of the batch is changed, and its CRC does not fit.
    CorruptBatch,
    /// The batch is refused with `INVALID_RECORD` and not stored.
    Refuse,
    /// The batch is refused with `INVALID_RECORD` and stored all the same.
    RefuseAndKeep,
    /// The batch is answered once with `NOT_LEADER_OR_FOLLOWER` and not stored; the client may send it again.
    Retry,
}

const KINDS: [(FaultKind, &str); 8] = [
    (FaultKind::Drop, "drop"),
    (FaultKind::Duplicate, "duplicate"),
    (FaultKind::Swap, "swap"),
    (FaultKind::Corrupt, "corrupt"),
    (FaultKind::CorruptBatch, "corrupt-batch"),
    (FaultKind::Refuse, "refuse"),
    (FaultKind::RefuseAndKeep, "refuse-and-keep"),
    (FaultKind::Retry, "retry"),
];

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = KINDS.iter().find(|(kind, _)| kind == self).expect("every kind has a name");
        f.write_str(name)
    }
}

/// A fault, which happens once in each partition that it is meant for: `KIND@NUMBER` or `KIND@PARTITION/NUMBER`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    /// `None`: every partition, of every topic.
    pub partition: Option<i32>,
    /// The record's number among those that its partition took in, from 0. What was refused, or is a copy that the sink made, has none.
    pub number: u64,
}

impl FromStr for Fault {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let refused = || {
            let names: Vec<&str> = KINDS.iter().map(|(_, name)| *name).collect();
            NotAValue::new(
                text,
                &format!("a fault: KIND@NUMBER or KIND@PARTITION/NUMBER, with a kind of {}", names.join(", ")),
            )
        };
        let (kind, place) = text.split_once('@').ok_or_else(refused)?;
        let (kind, _) = KINDS.iter().find(|(_, name)| *name == kind).ok_or_else(refused)?;
        let (partition, number) = match place.split_once('/') {
            Some((partition, number)) => (Some(partition.parse().map_err(|_| refused())?), number),
            None => (None, place),
        };
        if partition.is_some_and(|partition: i32| partition < 0) {
            return Err(refused());
        }
        Ok(Self { kind: *kind, partition, number: number.parse().map_err(|_| refused())? })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.kind)?;
        if let Some(partition) = self.partition {
            write!(f, "{partition}/")?;
        }
        write!(f, "{}", self.number)
    }
}

/// A fault on a record of a batch that is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    pub kind: FaultKind,
    /// The record's place in its batch.
    pub index: usize,
}

/// The faults that are still to happen in one partition. Nearly always empty.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan(Vec<(FaultKind, u64)>);

impl FaultPlan {
    #[must_use]
    pub fn new(faults: &[Fault], partition: i32) -> Self {
        let here = faults.iter().filter(|fault| fault.partition.is_none_or(|only| only == partition));
        Self(here.map(|fault| (fault.kind, fault.number)).collect())
    }

    /// Takes one fault of this kind out that falls on one of these records.
    pub fn take(&mut self, kind: FaultKind, numbers: &Range<u64>) -> bool {
        let found = self.0.iter().position(|(planned, number)| *planned == kind && numbers.contains(number));
        found.map(|place| self.0.remove(place)).is_some()
    }

    /// Takes all faults out that fall on these records.
    pub fn take_all(&mut self, numbers: &Range<u64>) -> Vec<Hit> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let hits = self.0.extract_if(.., |(_, number)| numbers.contains(number));
        let index =
            |number: u64| usize::try_from(number - numbers.start).expect("a batch's records are counted in an i32");
        hits.map(|(kind, number)| Hit { kind, index: index(number) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for (text, kind, partition, number) in [
            ("drop@5", FaultKind::Drop, None, 5),
            ("corrupt-batch@3/0", FaultKind::CorruptBatch, Some(3), 0),
            ("refuse-and-keep@0/12", FaultKind::RefuseAndKeep, Some(0), 12),
        ] {
            let fault = Fault { kind, partition, number };
            assert_eq!(text.parse(), Ok(fault));
            assert_eq!(fault.to_string(), text);
        }
        for (kind, name) in KINDS {
            assert_eq!(format!("{name}@1").parse(), Ok(Fault { kind, partition: None, number: 1 }));
        }
        for text in ["", "drop", "drop@", "drop@x", "drop@-1", "drop@-1/1", "drop@1/", "lose@1", "drop@1/2/3"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_fault_happens_once_where_it_is_meant_to() {
        let faults: Vec<Fault> =
            ["drop@5", "retry@1/6", "swap@2/6"].iter().map(|text| text.parse().expect("a fault")).collect();
        let mut plan = FaultPlan::new(&faults, 1);
        assert!(!plan.take(FaultKind::Retry, &(0..6)));
        assert!(plan.take(FaultKind::Retry, &(6..7)));
        assert!(!plan.take(FaultKind::Retry, &(6..7)));
        assert_eq!(plan.take_all(&(0..5)), []);
        assert_eq!(plan.take_all(&(3..10)), [Hit { kind: FaultKind::Drop, index: 2 }]);
        assert_eq!(plan.take_all(&(3..10)), []);
    }
}
