//! What must be true of a log: its history as a client saw it, and what a recovery may have left of it.
//!
//! Owner: the test, outside the simulated processes, so it survives them. A log's history is one line of changes (append,
//! truncate), in the order the log took them. Once a change is acknowledged, it and all before it are for good. After a crash the
//! log must stand exactly as after some change at or behind the last acknowledged one: that one rule holds "nothing acknowledged
//! is lost", "no phantom", "nothing comes back", "all or nothing for each batch" and "in order".

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::batches::{Mark, Stamp};

/// As many batches of a producer are remembered for answers to repeats.
const RETAINED: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Append(Mark),
    /// The log ends here now.
    Truncate(i64),
}

/// Names a change until a crash settles what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeId(u64);

/// How a log stands after its changes.
#[derive(Clone, Default)]
struct View {
    /// All batches ever kept, those below the log's start too.
    batches: Vec<Mark>,
    producers: Producers,
}

/// The last batches of each idempotent producer, oldest first.
pub type Producers = BTreeMap<i64, VecDeque<(Stamp, Mark)>>;

impl View {
    fn end(&self) -> i64 {
        self.batches.last().map_or(0, |mark| mark.last + 1)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Append(mark) => {
                self.batches.push(mark);
                self.note(mark);
            }
            Change::Truncate(end) => {
                self.batches.retain(|mark| mark.last < end);
                self.producers.clear();
                for index in 0..self.batches.len() {
                    self.note(self.batches[index]);
                }
            }
        }
    }

    fn note(&mut self, mark: Mark) {
        if let Some(stamp) = mark.stamp {
            let batches = self.producers.entry(stamp.producer).or_default();
            if batches.len() == RETAINED {
                batches.pop_front();
            }
            batches.push_back((stamp, mark));
        }
    }

    /// The batches that a reader from `start` sees.
    fn from(&self, start: i64) -> &[Mark] {
        let first = self.batches.partition_point(|mark| mark.last < start);
        &self.batches[first..]
    }
}

/// One log's history.
#[derive(Clone, Default)]
pub struct History {
    /// As of the last acknowledged change.
    settled: View,
    /// As of the last change.
    current: View,
    /// Changes that are not acknowledged, in order.
    open: VecDeque<(u64, Change)>,
    next: u64,
    /// First offset and content of every batch that was ever appended.
    ever: BTreeSet<(i64, u64)>,
    /// The start that was promised, and the furthest that was asked for.
    start: i64,
    start_asked: i64,
}

/// What a crash left, for the register.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Changes that nobody had been told of, and that are there.
    pub kept: usize,
    pub lost: usize,
}

impl History {
    pub fn end(&self) -> i64 {
        self.current.end()
    }

    pub fn start(&self) -> i64 {
        self.start
    }

    /// Where the acknowledged part ends.
    pub fn settled_end(&self) -> i64 {
        self.settled.end()
    }

    pub fn batch_count(&self) -> usize {
        self.current.batches.len()
    }

    fn change(&mut self, change: Change) -> ChangeId {
        self.current.apply(change);
        self.next += 1;
        self.open.push_back((self.next, change));
        ChangeId(self.next)
    }

    /// The log took a batch. It must stand right behind the last one.
    pub fn append(&mut self, mark: Mark) -> Result<ChangeId, String> {
        if mark.base != self.end() {
            return Err(format!("a batch got offset {} where the log ends at {}", mark.base, self.end()));
        }
        self.ever.insert((mark.base, mark.content));
        Ok(self.change(Change::Append(mark)))
    }

    /// Each of these batches was appended just there at some time, and they follow each other. All that can be asked of a log whose
    /// journal has rotted where a crash may have torn it.
    pub fn check_genuine(&self, found: &[Mark]) -> Result<(), String> {
        for (index, mark) in found.iter().enumerate() {
            if !self.ever.contains(&(mark.base, mark.content)) {
                return Err(format!("{mark:?} was never appended"));
            }
            if index > 0 && found[index - 1].last + 1 != mark.base {
                return Err(format!("{mark:?} follows {:?}", found[index - 1]));
            }
        }
        Ok(())
    }

    /// The log was told to end at `end`.
    pub fn truncate(&mut self, end: i64) -> ChangeId {
        self.change(Change::Truncate(end))
    }

    /// A change was acknowledged: it and all before it are for good.
    pub fn acknowledge(&mut self, id: ChangeId) {
        while self.open.front().is_some_and(|(open, _)| *open <= id.0) {
            let (_, change) = self.open.pop_front().expect("looked at just now");
            self.settled.apply(change);
        }
    }

    /// The batch that begins at `base` was said to be held: the change that put it there is acknowledged.
    pub fn acknowledge_batch(&mut self, base: i64) {
        let put = |change: &Change| matches!(change, Change::Append(mark) if mark.base == base);
        let last = self.open.iter().rev().find(|(_, change)| put(change)).map(|(id, _)| ChangeId(*id));
        if let Some(id) = last {
            self.acknowledge(id);
        }
    }

    /// The log was asked to forget what is below `start`.
    pub fn ask_start(&mut self, start: i64) {
        self.start_asked = self.start_asked.max(start);
    }

    /// It said that it did.
    pub fn promise_start(&mut self, start: i64) {
        self.start = self.start.max(start);
        self.start_asked = self.start_asked.max(start);
    }

    /// Where a truncation may cut: the beginning of a batch, chosen by `pick` among those that lie wholly above the log's start and
    /// `least`.
    pub fn a_cut(&self, least: i64, pick: impl FnOnce(usize) -> usize) -> Option<i64> {
        let least = least.max(self.start_asked);
        let batches = self.current.from(least);
        let batches = &batches[batches.partition_point(|mark| mark.base < least)..];
        (!batches.is_empty()).then(|| batches[pick(batches.len())].base)
    }

    /// The batch that begins at an offset.
    pub fn batch_at(&self, base: i64) -> Option<Mark> {
        self.current.from(base).first().filter(|mark| mark.base == base).copied()
    }

    /// The batches that a reader from an offset may see, as appended.
    pub fn batches_from(&self, from: i64) -> &[Mark] {
        self.current.from(from)
    }

    /// What was ever appended at an offset, by content.
    pub fn contents_at(&self, base: i64) -> impl Iterator<Item = u64> {
        self.ever.range((base, 0)..=(base, u64::MAX)).map(|(_, content)| *content)
    }

    /// A read from `from` gave `found`.
    pub fn check_read(&self, from: i64, found: &[Mark]) -> Result<(), String> {
        let expected = self.current.from(from);
        if found.is_empty() {
            return Ok(());
        }
        match first_difference(expected, found) {
            Some(index) if index < found.len() => Err(format!(
                "a read from {from}: batch {index} is {:?} where the log has {:?}",
                found[index],
                expected.get(index)
            )),
            _ => Ok(()),
        }
    }

    /// The whole log after a recovery: `found` are its batches from `start` on. Settles what became of open changes.
    pub fn check_recovered(
        &mut self,
        start: i64,
        end: i64,
        found: &[Mark],
        retention: bool,
    ) -> Result<Outcome, String> {
        let outcome = self.settle(start, end, retention, |batches| first_difference(batches, found).is_none())?;
        outcome.ok_or_else(|| self.describe(start, end, found))
    }

    /// The same where `is_found` says of the batches from `start` on, as appended, whether they are what was found; `None` for a log that
    /// stands as after no change.
    pub fn settle(
        &mut self,
        start: i64,
        end: i64,
        retention: bool,
        mut is_found: impl FnMut(&[Mark]) -> bool,
    ) -> Result<Option<Outcome>, String> {
        if start < self.start {
            return Err(format!("the log starts at {start}, and {} was promised", self.start));
        }
        if start > self.start_asked && !retention {
            return Err(format!("the log starts at {start}, and only {} was asked for", self.start_asked));
        }
        let mut view = self.settled.clone();
        let mut kept = 0;
        loop {
            if view.end().max(start) == end && is_found(view.from(start)) {
                break;
            }
            match self.open.get(kept) {
                Some((_, change)) => view.apply(*change),
                None => return Ok(None),
            }
            kept += 1;
        }
        let outcome = Outcome { kept, lost: self.open.len() - kept };
        self.open.clear();
        self.settled = view.clone();
        self.current = view;
        self.start = start;
        self.start_asked = start;
        Ok(Some(outcome))
    }

    fn describe(&self, start: i64, end: i64, found: &[Mark]) -> String {
        let settled = self.settled.from(start);
        let mut text = format!(
            "recovered {start}..{end} ({} batches); acknowledged up to {}, {} open changes, appended up to {}",
            found.len(),
            self.settled.end(),
            self.open.len(),
            self.current.end()
        );
        if let Some(index) = first_difference(settled, found) {
            text += &format!("; first difference at batch {index}: acknowledged {:?}", settled.get(index));
            text += &format!(", appended {:?}", self.current.from(start).get(index));
            text += &format!(", found {:?}", found.get(index));
        }
        let open: Vec<String> = self
            .open
            .iter()
            .take(8)
            .map(|(_, change)| match change {
                Change::Append(mark) => format!("append {}..={}", mark.base, mark.last),
                Change::Truncate(end) => format!("truncate to {end}"),
            })
            .collect();
        text + &format!("; open: {}", open.join(", "))
    }

    /// What each idempotent producer must be remembered for.
    pub fn producers(&self) -> &Producers {
        &self.current.producers
    }

    /// No producer's sequence is in the log twice, and none is skipped.
    pub fn check_sequences(&self) -> Result<(), String> {
        check_sequences(&self.current.batches)
    }
}

/// In one log's batches, no producer's sequence is there twice, and none is skipped.
pub fn check_sequences(batches: &[Mark]) -> Result<(), String> {
    let mut last: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
    for mark in batches {
        let Some(stamp) = mark.stamp else { continue };
        let next_sequence = stamp.sequence + mark.records() as i32;
        if let Some((epoch, next)) = last.insert(stamp.producer, (stamp.epoch, next_sequence)) {
            let follows = if stamp.epoch == epoch { stamp.sequence == next } else { stamp.sequence == 0 };
            if stamp.epoch < epoch || !follows {
                return Err(format!("{stamp:?} at offset {} follows epoch {epoch}, sequence {next}", mark.base));
            }
        }
    }
    Ok(())
}

/// The first place where two runs of batches differ, a missing one included.
fn first_difference(expected: &[Mark], found: &[Mark]) -> Option<usize> {
    let same = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    (same < expected.len().max(found.len())).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(base: i64, tag: u64) -> Mark {
        Mark { base, last: base + 1, bytes: 100, epoch: 0, stamp: None, codec: 0, content: tag }
    }

    /// Appends 0, 2, 4; cuts at 2; appends another 2. Acknowledged up to `acknowledged` changes.
    fn history(acknowledged: usize) -> History {
        let mut history = History::default();
        let mut ids = Vec::new();
        for base in [0, 2, 4] {
            ids.push(history.append(mark(base, base as u64)).unwrap());
        }
        ids.push(history.truncate(2));
        ids.push(history.append(mark(2, 9)).unwrap());
        if acknowledged > 0 {
            history.acknowledge(ids[acknowledged - 1]);
        }
        history
    }

    #[test]
    fn a_recovered_log_is_one_of_the_states_since_the_last_acknowledgement() {
        let (old, new) = (mark(2, 2), mark(2, 9));
        type Row = (&'static str, usize, i64, Vec<Mark>, Option<Outcome>);
        let table: [Row; 8] = [
            ("nothing was promised, nothing is there", 0, 0, vec![], Some(Outcome { kept: 0, lost: 5 })),
            ("a prefix", 0, 4, vec![mark(0, 0), old], Some(Outcome { kept: 2, lost: 3 })),
            ("all", 0, 4, vec![mark(0, 0), new], Some(Outcome { kept: 5, lost: 0 })),
            ("cut away again, beyond what was promised", 2, 2, vec![mark(0, 0)], Some(Outcome { kept: 2, lost: 1 })),
            ("before what was acknowledged", 3, 4, vec![mark(0, 0), old], None),
            ("what was cut came back", 4, 4, vec![mark(0, 0), old], None),
            ("the cut without the append", 4, 2, vec![mark(0, 0)], Some(Outcome { kept: 0, lost: 1 })),
            ("a hole", 0, 4, vec![old], None),
        ];
        for (name, acknowledged, end, found, expected) in table {
            let mut history = history(acknowledged);
            let outcome = history.check_recovered(0, end, &found, false);
            assert_eq!(outcome.as_ref().ok(), expected.as_ref(), "{name}: {outcome:?}");
        }
    }

    #[test]
    fn an_offset_that_does_not_follow_is_refused() {
        assert!(history(0).append(mark(5, 5)).is_err());
    }

    #[test]
    fn starts_move_between_promised_and_asked() {
        for (start, ok) in [(0, false), (2, true), (4, true)] {
            let mut history = history(5);
            history.promise_start(2);
            history.ask_start(4);
            let found = history.current.from(start).to_vec();
            assert_eq!(history.check_recovered(start, 4, &found, false).is_ok(), ok, "{start}");
        }
    }
}
