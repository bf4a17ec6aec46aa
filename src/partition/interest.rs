//! What one reader wants of the partitions of a shard, and which of them may have news for it. Pure: reading is the caller's.
//!
//! Owner: the shard of the partitions. A fetch costs what has changed, not what is wanted.
//!
//! Invariants
//! - A place that may have news is in the queue. One that is not was answered as its partition stands, or needed no answer, and its
//!   partition's next change is marked.
//! - The reader was told what an answer says only once its next fetch begins: an answer that was lost on the way is given again.
//! - Turns: what had records goes behind all others, so that none starves where there is not room for all.

use std::collections::VecDeque;

use base::Offset;
use shard::Slice;
use shard::sync::{Event, Mark, Marks};
use storage::LogId;

use crate::message::{FetchTarget, Fetched, Scope};

/// What a reader knows of a partition, so that an answer without news can be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    high_watermark: Offset,
    log_start: Offset,
}

struct Slot {
    target: FetchTarget,
    told: Option<Told>,
    is_queued: bool,
    /// Where its answer is among those of the fetch under way.
    answer: Option<u32>,
    mark: Option<Mark>,
}

/// The targets of one reader by place.
#[derive(Default)]
pub struct Interest {
    slots: Vec<Option<Slot>>,
    queue: VecDeque<u32>,
    /// Of the fetch under way.
    answers: Vec<Fetched<Slice>>,
    /// What the last fetch answered.
    sent: Vec<Sent>,
}

struct Sent {
    place: u32,
    log: LogId,
    /// `None` for what is to be told again whatever comes.
    told: Option<Told>,
}

/// The places of the queue that one look takes in: what joins meanwhile waits for the next.
pub struct Pass {
    left: usize,
    /// Had records or an error: behind all others.
    served: Vec<u32>,
}

impl Interest {
    /// Begins a fetch: the answer to the last one has come to the reader, or is given once more.
    pub fn begin(&mut self, scope: Scope) {
        self.abandon();
        for Sent { place, log, told } in std::mem::take(&mut self.sent) {
            let Some(slot) = self.slot_of(place, log) else { continue };
            if scope == Scope::Again {
                self.enqueue(place);
            } else {
                slot.told = told;
            }
        }
    }

    /// Wants these from now on. They may have news.
    pub fn set(&mut self, targets: Vec<FetchTarget>) {
        let places = targets.iter().map(|target| target.place as usize + 1).max().unwrap_or(0);
        self.slots.resize_with(places.max(self.slots.len()), || None);
        targets.into_iter().for_each(|target| self.set_one(target));
    }

    fn set_one(&mut self, target: FetchTarget) {
        let place = target.place;
        let index = place as usize;
        match &mut self.slots[index] {
            Some(slot) if slot.target.log == target.log => slot.target = target,
            slot => *slot = Some(Slot { target, told: None, is_queued: false, answer: None, mark: None }),
        }
        self.enqueue(place);
    }

    /// Wants this no longer.
    pub fn forget(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place as usize) {
            *slot = None;
        }
        // Its turn stays in the queue and is passed over; they must not pile up.
        if self.queue.len() > 2 * self.slots.len() {
            let is_queued = |place: &u32| self.slots[*place as usize].as_ref().is_some_and(|slot| slot.is_queued);
            self.queue.retain(is_queued);
        }
    }

    /// Its partition has changed.
    pub fn changed(&mut self, place: u32) {
        if let Some(slot) = self.slot(place) {
            slot.mark = None;
            self.enqueue(place);
        }
    }

    fn slot(&mut self, place: u32) -> Option<&mut Slot> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    /// The slot, if it is still of that log.
    fn slot_of(&mut self, place: u32, log: LogId) -> Option<&mut Slot> {
        self.slot(place).filter(|slot| slot.target.log == log)
    }

    fn enqueue(&mut self, place: u32) {
        if let Some(slot) = self.slot(place)
            && !std::mem::replace(&mut slot.is_queued, true)
        {
            self.queue.push_back(place);
        }
    }

    pub fn pass(&self) -> Pass {
        Pass { left: self.queue.len(), served: Vec::new() }
    }

    /// The next target that may have news.
    pub fn next(&mut self, pass: &mut Pass) -> Option<FetchTarget> {
        while pass.left > 0 {
            pass.left -= 1;
            let place = self.queue.pop_front()?;
            if let Some(slot) = self.slot(place)
                && std::mem::take(&mut slot.is_queued)
            {
                return Some(slot.target);
            }
        }
        None
    }

    /// Has the partition's next change noted, before it is looked at.
    pub fn watch(&mut self, place: u32, changed: &Event, marks: &Marks) {
        if let Some(slot) = self.slot(place)
            && slot.mark.is_none()
        {
            slot.mark = Some(changed.mark(marks, place));
        }
    }

    /// What a look at the target came to.
    pub fn answer(&mut self, pass: &mut Pass, target: &FetchTarget, answer: Fetched<Slice>) {
        // It may have been forgotten or replaced during a read of the disk.
        let next_answer = u32::try_from(self.answers.len()).expect("places are counted in a u32");
        let Some(slot) = self.slot_of(target.place, answer.log) else { return };
        let (is_told, at) = (slot.told == answer.told(), slot.answer);
        let (has_records, is_remarkable) = (answer.bytes > 0, answer.is_remarkable());
        let is_unread = !has_records && !is_remarkable && answer.high_watermark > target.offset;
        match at {
            Some(at) => self.answers[at as usize] = answer,
            None if has_records || is_remarkable || !is_told => {
                slot.answer = Some(next_answer);
                self.answers.push(answer);
            }
            None => {}
        }
        if has_records || is_remarkable {
            pass.served.push(target.place);
        } else if is_unread {
            self.enqueue(target.place);
        }
    }

    /// Ends a look. Those that it did not come to keep their turn.
    pub fn end(&mut self, pass: Pass) {
        pass.served.into_iter().for_each(|place| self.enqueue(place));
    }

    /// The answers so far of the fetch under way.
    pub fn answers(&self) -> &[Fetched<Slice>] {
        &self.answers
    }

    /// Lets go of the records of the answers so far: their places are in the queue and read again.
    pub fn release_records(&mut self) {
        self.answers.iter_mut().for_each(|answer| answer.slices.clear());
    }

    /// Ends the fetch: what it answers.
    pub fn finish(&mut self) -> Vec<Fetched<Slice>> {
        let answers = std::mem::take(&mut self.answers);
        self.sent = Vec::with_capacity(answers.len());
        for answer in &answers {
            if let Some(slot) = self.slot_of(answer.place, answer.log) {
                slot.answer = None;
                self.sent.push(Sent { place: answer.place, log: answer.log, told: answer.told() });
            }
        }
        answers
    }

    /// Ends the fetch without an answer: all of it is given to the next.
    pub fn abandon(&mut self) {
        for answer in std::mem::take(&mut self.answers) {
            if let Some(slot) = self.slot_of(answer.place, answer.log) {
                slot.answer = None;
                self.enqueue(answer.place);
            }
        }
    }
}

impl Fetched<Slice> {
    /// What its reader knows then.
    fn told(&self) -> Option<Told> {
        let told = Told { high_watermark: self.high_watermark, log_start: self.log_start };
        (!self.is_remarkable()).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use base::{NO_EPOCH, Offset, PartitionIndex, Random, Uuid};
    use shard::Slice;
    use shard::sync::{Event, Marks};
    use storage::LogId;
    use wire::ErrorCode;

    use super::Interest;
    use crate::message::{FetchTarget, Fetched, Scope};

    /// A log whose records are a byte each.
    #[derive(Default)]
    struct Log {
        start: i64,
        end: i64,
        is_broken: bool,
        changed: Event,
    }

    #[derive(Default)]
    struct World {
        logs: BTreeMap<u32, Log>,
        marks: Marks,
        interest: Interest,
        wanted: BTreeMap<u32, i64>,
        /// What the client was told, as all fetches of Kafka's would have it.
        told: BTreeMap<u32, Option<(i64, i64)>>,
    }

    fn target(place: u32, offset: i64) -> FetchTarget {
        let log = LogId { topic_id: Uuid::ZERO, partition: PartitionIndex(place as i32) };
        let (current_epoch, last_fetched_epoch) = (NO_EPOCH, NO_EPOCH);
        FetchTarget { place, log, offset: Offset(offset), max_bytes: 100, current_epoch, last_fetched_epoch }
    }

    impl World {
        fn new() -> Self {
            Self { logs: (0..8).map(|place| (place, Log::default())).collect(), ..Self::default() }
        }

        fn want(&mut self, place: u32, offset: i64) {
            self.interest.set(vec![target(place, offset)]);
            self.wanted.insert(place, offset);
        }

        fn forget(&mut self, place: u32) {
            self.interest.forget(place);
            self.wanted.remove(&place);
            self.told.remove(&place);
        }

        fn look(&self, target: &FetchTarget, left: i64) -> Fetched<Slice> {
            let log = &self.logs[&target.place];
            if log.is_broken || target.offset.0 < log.start {
                return Fetched::failed(target.place, target.log, ErrorCode::OffsetOutOfRange);
            }
            let mut answer = Fetched::failed(target.place, target.log, ErrorCode::None);
            (answer.high_watermark, answer.log_start) = (Offset(log.end), Offset(log.start));
            answer.bytes = (log.end - target.offset.0).clamp(0, left) as usize;
            answer
        }

        fn read(&mut self, scope: Scope, room: i64) {
            for place in self.marks.take() {
                self.interest.changed(place);
            }
            let (mut left, mut pass) = (room, self.interest.pass());
            while scope == Scope::All || left > 0 {
                let Some(target) = self.interest.next(&mut pass) else { break };
                self.interest.watch(target.place, &self.logs[&target.place].changed, &self.marks);
                let answer = self.look(&target, left);
                left -= answer.bytes as i64;
                self.interest.answer(&mut pass, &target, answer);
            }
            self.interest.end(pass);
        }

        /// The places that a look at everything would tell of.
        fn news(&self) -> BTreeSet<u32> {
            let is_news = |(place, offset): (&u32, &i64)| {
                let answer = self.look(&target(*place, *offset), i64::MAX);
                let told = Some((answer.high_watermark.0, answer.log_start.0));
                answer.is_remarkable() || answer.bytes > 0 || self.told.get(place).copied().flatten() != told
            };
            self.wanted.iter().filter(|wanted| is_news(*wanted)).map(|(place, _)| *place).collect()
        }

        fn note(&mut self, answers: &[Fetched<Slice>]) {
            for answer in answers {
                let told = (answer.high_watermark.0, answer.log_start.0);
                self.told.insert(answer.place, (!answer.is_remarkable()).then_some(told));
            }
        }

        fn happens(&mut self, random: &mut Random) {
            let place = random.below(8) as u32;
            let log = self.logs.get_mut(&place).expect("one of eight");
            match random.below(8) {
                0 => log.start = log.end.min(log.start + 3),
                1 => log.is_broken = !log.is_broken,
                _ => log.end += random.below(5) as i64,
            }
            log.changed.notify_all();
        }
    }

    fn places(answers: &[Fetched<Slice>]) -> BTreeSet<u32> {
        answers.iter().map(|answer| answer.place).collect()
    }

    #[test]
    fn what_changed_is_told_as_if_all_were_looked_at() {
        for seed in 0..400 {
            let random = &mut Random::new(seed);
            let mut world = World::new();
            let mut scope = Scope::All;
            for _ in 0..80 {
                (0..random.below(4)).for_each(|_| world.happens(random));
                let is_lost = random.below(6) == 0;
                world.interest.begin(scope);
                for _ in 0..random.below(4) {
                    let place = random.below(8) as u32;
                    if random.below(4) == 0 { world.forget(place) } else { world.want(place, random.below(40) as i64) }
                }
                let expected = world.news();
                world.read(scope, i64::MAX);
                if random.below(3) == 0 {
                    // It waits: what happens meanwhile is told as well, and nothing of the rest is lost.
                    world.interest.release_records();
                    (0..2).for_each(|_| world.happens(random));
                    let still = world.news();
                    world.read(scope, i64::MAX);
                    let answered = places(world.interest.answers());
                    assert!(still.is_subset(&answered) && answered.is_subset(&(&still | &expected)), "seed {seed}");
                } else {
                    assert_eq!(places(world.interest.answers()), expected, "seed {seed}");
                }
                if is_lost && random.below(2) == 0 {
                    world.interest.abandon();
                    continue;
                }
                let answers = world.interest.finish();
                assert_eq!(answers.len(), places(&answers).len(), "seed {seed}: one answer each");
                if !is_lost {
                    world.note(&answers);
                }
                scope = if is_lost { Scope::Again } else { Scope::News };
            }
        }
    }

    #[test]
    fn all_have_their_turn_where_there_is_room_for_one() {
        let mut world = World::new();
        for place in 0..8 {
            world.want(place, 0);
            world.logs.get_mut(&place).expect("one of eight").end = 1000;
        }
        let mut turns = BTreeMap::<u32, u32>::new();
        for _ in 0..80 {
            world.interest.begin(Scope::News);
            world.read(Scope::News, 1);
            let answers = world.interest.finish();
            let [answer] = &answers[..] else { panic!("room for one") };
            *turns.entry(answer.place).or_default() += 1;
            world.want(answer.place, world.wanted[&answer.place] + 1);
        }
        assert!(turns.len() == 8 && turns.values().all(|turns| *turns == 10), "{turns:?}");
    }

    #[test]
    fn what_is_idle_is_not_looked_at_and_what_was_forgotten_leaves_nothing() {
        let mut world = World::new();
        (0..8).for_each(|place| world.want(place, 0));
        world.interest.begin(Scope::All);
        world.read(Scope::All, 100);
        assert_eq!(world.interest.finish().len(), 8);
        for _ in 0..1000 {
            world.interest.begin(Scope::News);
            assert!(world.interest.queue.iter().all(|place| *place == 3), "the others have no news");
            world.forget(3);
            world.want(3, 0);
            // There is no room, so nothing is looked at.
            world.read(Scope::News, 0);
            assert!(world.interest.finish().is_empty());
            assert!(world.interest.queue.len() <= 2 * 8 + 1, "turns that are void pile up");
        }
        let log = &world.logs[&5];
        assert!(log.changed.has_waiters());
        let World { interest, .. } = world;
        drop(interest);
        assert!(!world.logs[&5].changed.has_waiters());
    }
}
