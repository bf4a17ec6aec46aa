//! What one client reads: partitions as it names them, each with its place and with the shard that owns it. Pure.
//!
//! A place is what the owners call a partition by (`partition::fetch`). It is given to another partition once its own is forgotten, so an answer is
//! the partition's only where its log is, too. A request costs what it names, not what is read.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{PartitionIndex, ShardId, Uuid};
use storage::LogId;
use wire::ErrorCode;
use wire::messages::fetch::FetchPartition;

use crate::message::FetchTarget;
use crate::router::FetchPart;

/// A topic as the client names it. Its partitions share the name, which may be long.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TopicKey {
    Name(Rc<str>),
    Id(Uuid),
}

/// One partition that a client reads.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub topic: TopicKey,
    pub partition: FetchPartition,
}

/// The owner and the log of a partition, or why it can't be read.
pub type Located = Result<(ShardId, LogId), ErrorCode>;

struct Entry {
    wanted: Wanted,
    located: Located,
}

/// The partitions that a client reads.
#[derive(Default)]
pub struct Reading {
    /// By place.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    places: BTreeMap<(TopicKey, PartitionIndex), u32>,
    failed: BTreeMap<u32, ErrorCode>,
    /// How many partitions each shard owns, shards with none left out.
    owned: BTreeMap<ShardId, usize>,
    weight: usize,
}

/// What the owners are to be told.
#[derive(Default, Debug)]
pub struct Changes(BTreeMap<ShardId, FetchPart>);

impl Changes {
    fn of(&mut self, owner: ShardId) -> &mut FetchPart {
        self.0.entry(owner).or_insert_with(|| FetchPart { owner, forgotten: Vec::new(), targets: Vec::new() })
    }
}

/// A name counts as a partition for each so many bytes of it.
const NAME_BYTES_PER_PARTITION: usize = 256;

impl Wanted {
    /// What it counts for: one, and a long name besides.
    fn weight(&self) -> usize {
        let name_bytes = if let TopicKey::Name(name) = &self.topic { name.len() } else { 0 };
        1 + name_bytes / NAME_BYTES_PER_PARTITION
    }

    fn target(&self, place: u32, log: LogId) -> FetchTarget {
        FetchTarget {
            place,
            log,
            offset: self.partition.fetch_offset,
            max_bytes: usize::try_from(self.partition.partition_max_bytes).unwrap_or(0),
            current_epoch: self.partition.current_leader_epoch,
            last_fetched_epoch: self.partition.last_fetched_epoch,
        }
    }
}

impl Entry {
    /// Tells the owner.
    fn ask(&self, place: u32, changes: &mut Changes) {
        if let Ok((owner, log)) = self.located {
            changes.of(owner).targets.push(self.wanted.target(place, log));
        }
    }
}

impl Reading {
    /// How many partitions are read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// What they count for among all sessions.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Takes up what a request says. What is named twice is read once, from where it was named last; what is forgotten and named again is as new.
    /// Where `has_moved`, all is looked for anew: what there is may have changed.
    pub fn update(
        &mut self,
        wanted: Vec<Wanted>,
        forgotten: &[(TopicKey, PartitionIndex)],
        has_moved: bool,
        mut locate: impl FnMut(&TopicKey, PartitionIndex) -> Located,
    ) -> Changes {
        let mut changes = Changes::default();
        let moved = if has_moved { self.relocate(&mut changes, &mut locate) } else { Vec::new() };
        for key in forgotten {
            if let Some(place) = self.places.remove(key) {
                let entry = self.entries[place as usize].take().expect("what has a place is there");
                self.weight -= entry.wanted.weight();
                self.unplace(place, entry.located, &mut changes);
                self.free.push(place);
            }
        }
        if self.entries.is_empty() {
            self.entries.reserve(wanted.len());
        }
        for wanted in wanted {
            let place = self.place_of(&wanted, &mut locate);
            let entry = self.entries[place as usize].as_mut().expect("what has a place is there");
            entry.wanted.partition = wanted.partition;
            entry.ask(place, &mut changes);
        }
        for place in moved {
            if let Some(entry) = &self.entries[place as usize] {
                entry.ask(place, &mut changes);
            }
        }
        changes
    }

    /// The place of a partition, which has one from now on.
    fn place_of(&mut self, wanted: &Wanted, locate: &mut impl FnMut(&TopicKey, PartitionIndex) -> Located) -> u32 {
        let key = (wanted.topic.clone(), wanted.partition.partition);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let (topic, index) = (self.shared(key.0), key.1);
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("a request's partitions are counted in an i32")
        });
        self.places.insert((topic.clone(), index), place);
        self.weight += wanted.weight();
        let located = locate(&topic, index);
        self.count(place, located);
        self.entries[place as usize] = Some(Entry { wanted: Wanted { topic, ..*wanted }, located });
        place
    }

    /// The name of a topic as partitions have it that are read already, so that all share it.
    fn shared(&self, topic: TopicKey) -> TopicKey {
        if let TopicKey::Id(_) = topic {
            return topic;
        }
        let first = (topic, PartitionIndex(i32::MIN));
        match self.places.range(&first..).next() {
            Some(((known, _), _)) if *known == first.0 => known.clone(),
            _ => first.0,
        }
    }

    /// Looks for every partition anew. The places of those that are elsewhere now.
    fn relocate(
        &mut self,
        changes: &mut Changes,
        locate: &mut impl FnMut(&TopicKey, PartitionIndex) -> Located,
    ) -> Vec<u32> {
        let mut moved = Vec::new();
        for (place, index) in (0_u32..).zip(0..self.entries.len()) {
            let Some(entry) = &mut self.entries[index] else { continue };
            let located = locate(&entry.wanted.topic, entry.wanted.partition.partition);
            let before = std::mem::replace(&mut entry.located, located);
            if located != before {
                self.unplace(place, before, changes);
                self.count(place, located);
                moved.push(place);
            }
        }
        moved
    }

    fn count(&mut self, place: u32, located: Located) {
        match located {
            Ok((owner, _)) => *self.owned.entry(owner).or_default() += 1,
            Err(error) => _ = self.failed.insert(place, error),
        }
    }

    fn unplace(&mut self, place: u32, located: Located, changes: &mut Changes) {
        let Ok((owner, _)) = located else {
            self.failed.remove(&place);
            return;
        };
        changes.of(owner).forgotten.push(place);
        if let Some(count) = self.owned.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&owner);
            }
        }
    }

    /// What each owner is asked: all that own something, and those that are to forget something.
    #[must_use]
    pub fn parts(&self, mut changes: Changes) -> Vec<FetchPart> {
        for owner in self.owned.keys() {
            changes.of(*owner);
        }
        changes.0.into_values().collect()
    }

    /// What can't be read, in the order of the places.
    pub fn failed(&self) -> impl ExactSizeIterator<Item = (u32, ErrorCode)> {
        self.failed.iter().map(|(place, error)| (*place, *error))
    }

    /// What an answer is about; none where it has been forgotten.
    #[must_use]
    pub fn named(&self, place: u32, log: LogId) -> Option<&Wanted> {
        let entry = self.entries.get(place as usize)?.as_ref()?;
        entry.located.is_ok_and(|(_, located)| located == log).then_some(&entry.wanted)
    }

    /// What a failure is about.
    #[must_use]
    pub fn at(&self, place: u32) -> Option<&Wanted> {
        Some(&self.entries.get(place as usize)?.as_ref()?.wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use base::{Offset, PartitionIndex, Random, ShardId, Uuid};
    use storage::LogId;
    use wire::ErrorCode;
    use wire::messages::fetch::FetchPartition;

    use super::{Located, Reading, TopicKey, Wanted};

    /// What the owners know after each request is what is read, wherever it has gone meanwhile.
    #[test]
    fn the_owners_know_what_is_read() {
        for seed in 0..200 {
            let random = &mut Random::new(seed);
            let mut reading = Reading::default();
            let mut known: BTreeMap<(ShardId, u32), (LogId, Offset)> = BTreeMap::new();
            let mut read: BTreeMap<(TopicKey, PartitionIndex), Offset> = BTreeMap::new();
            let mut generation = 0;
            for _ in 0..60 {
                let mut key = || {
                    let name = if random.below(2) == 0 { "a" } else { "b" };
                    (TopicKey::Name(name.into()), PartitionIndex(random.below(6) as i32))
                };
                let forgotten: Vec<_> = (0..2).map(|_| key()).collect();
                let named: Vec<_> = (0..3).map(|_| key()).collect();
                let has_moved = random.below(4) == 0;
                generation += u64::from(has_moved);
                // Some are nowhere; where the others are, and under which id, changes with each generation.
                let locate = |topic: &TopicKey, index: PartitionIndex| -> Located {
                    let TopicKey::Name(name) = topic else { unreachable!() };
                    let place = generation / 2 * 7 + name.len() as u64 + index.0 as u64;
                    if place.is_multiple_of(5) {
                        return Err(ErrorCode::UnknownTopicOrPartition);
                    }
                    let topic_id = Uuid::from_random(u64::from(name.as_bytes()[0]), generation / 3);
                    Ok((ShardId((place % 3) as u16), LogId { topic_id, partition: index }))
                };
                let wanted = named.iter().map(|(topic, partition)| {
                    let fetch_offset = Offset(random.below(1000) as i64);
                    let partition = FetchPartition { partition: *partition, fetch_offset, ..FetchPartition::default() };
                    Wanted { topic: topic.clone(), partition }
                });
                let wanted: Vec<_> = wanted.collect();
                for key in &forgotten {
                    read.remove(key);
                }
                for Wanted { topic, partition } in &wanted {
                    read.insert((topic.clone(), partition.partition), partition.fetch_offset);
                }
                let changes = reading.update(wanted, &forgotten, has_moved, locate);
                let parts = reading.parts(changes);
                for part in &parts {
                    part.forgotten.iter().for_each(|place| _ = known.remove(&(part.owner, *place)));
                    let told = part.targets.iter().map(|told| ((part.owner, told.place), (told.log, told.offset)));
                    known.extend(told);
                }
                let expected: BTreeSet<_> = read
                    .iter()
                    .filter_map(|((topic, index), offset)| Some((locate(topic, *index).ok()?, *offset)))
                    .map(|((owner, log), offset)| (owner, log, offset))
                    .collect();
                let told: BTreeSet<_> =
                    known.iter().map(|((owner, _), (log, offset))| (*owner, *log, *offset)).collect();
                assert_eq!(told, expected, "seed {seed}");
                assert_eq!(known.len(), expected.len(), "seed {seed}: one place each");
                assert_eq!((reading.len(), reading.weight()), (read.len(), read.len()));
                assert_eq!(reading.failed().len(), read.len() - expected.len(), "seed {seed}");
                let owners: BTreeSet<_> = parts.iter().map(|part| part.owner).collect();
                assert!(expected.iter().all(|(owner, ..)| owners.contains(owner)), "seed {seed}: all are asked");
                for ((_, place), (log, offset)) in &known {
                    let wanted = reading.named(*place, *log).expect("what is known is read");
                    assert_eq!(wanted.partition.fetch_offset, *offset);
                }
            }
        }
    }
}
