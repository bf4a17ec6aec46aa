//! The topics, their logs, and the bound on what all of them keep.
//!
//! Pure but for the events on which readers wait.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use base::{Instant, Offset, PartitionIndex, Uuid};
use shard::sync::Event;
use wire::ErrorCode;

use super::fault::{Fault, FaultPlan};
use super::log::{Append, Log, Stored};

/// Partitions of all topics together; each costs a few hundred bytes.
pub const PARTITIONS_MAX: usize = 200_000;

/// The longest name of a topic.
const NAME_BYTES_MAX: usize = 249;

/// A partition and who waits for it.
pub struct Partition {
    pub log: Log,
    /// There is more to read, or will be; or the topic is gone.
    pub changed: Event,
}

pub struct Topic {
    pub name: Rc<str>,
    pub id: Uuid,
    pub partitions: Vec<Partition>,
}

/// A topic as a request names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicKey {
    Name(Rc<str>),
    Id(Uuid),
}

impl TopicKey {
    /// What a topic that does not exist is answered with.
    #[must_use]
    pub fn unknown(&self) -> ErrorCode {
        match self {
            Self::Name(_) => ErrorCode::UnknownTopicOrPartition,
            Self::Id(_) => ErrorCode::UnknownTopicId,
        }
    }
}

/// What bounds a store, and what its logs do wrong.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub keep_bytes: usize,
    pub faults: Vec<Fault>,
}

pub struct Store {
    options: StoreOptions,
    topics: HashMap<Uuid, Topic>,
    ids: BTreeMap<Rc<str>, Uuid>,
    partition_count: usize,
    kept_bytes: usize,
    next_serial: u64,
    /// Where the batches of each append are that are still kept, oldest first.
    order: BTreeMap<u64, (Uuid, PartitionIndex)>,
}

impl Store {
    #[must_use]
    pub fn new(options: StoreOptions) -> Self {
        Self {
            options,
            topics: HashMap::new(),
            ids: BTreeMap::new(),
            partition_count: 0,
            kept_bytes: 0,
            next_serial: 0,
            order: BTreeMap::new(),
        }
    }

    /// Whether a topic could be created.
    ///
    /// # Errors
    /// Why not.
    pub fn check_new(&self, name: &str, partitions: usize) -> Result<(), ErrorCode> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || matches!(name, "." | "..") || !name.chars().all(is_allowed)
        {
            return Err(ErrorCode::InvalidTopicException);
        }
        if self.ids.contains_key(name) {
            return Err(ErrorCode::TopicAlreadyExists);
        }
        if partitions == 0 || partitions > PARTITIONS_MAX - self.partition_count {
            return Err(ErrorCode::InvalidPartitions);
        }
        Ok(())
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// As [`Store::check_new`].
    pub fn create(&mut self, name: &str, id: Uuid, partitions: usize) -> Result<&Topic, ErrorCode> {
        self.check_new(name, partitions)?;
        let name: Rc<str> = name.into();
        let partition =
            |index| Partition { log: Log::new(FaultPlan::new(&self.options.faults, index)), changed: Event::new() };
        let logs = (0..).take(partitions).map(partition).collect();
        self.partition_count += partitions;
        self.ids.insert(name.clone(), id);
        Ok(self.topics.entry(id).or_insert(Topic { name, id, partitions: logs }))
    }

    /// Deletes a topic and all that it kept.
    ///
    /// # Errors
    /// There is none of that name or id.
    pub fn delete(&mut self, key: &TopicKey) -> Result<(Rc<str>, Uuid), ErrorCode> {
        let id = self.topic(key).ok_or_else(|| key.unknown())?.id;
        let topic = self.topics.remove(&id).expect("it was found");
        self.ids.remove(&topic.name);
        self.partition_count -= topic.partitions.len();
        for partition in &topic.partitions {
            self.kept_bytes -= partition.log.cost_bytes();
            for serial in partition.log.serials() {
                self.order.remove(&serial);
            }
            partition.changed.notify_all();
        }
        Ok((topic.name, id))
    }

    #[must_use]
    pub fn topic(&self, key: &TopicKey) -> Option<&Topic> {
        match key {
            TopicKey::Name(name) => self.topic_named(name),
            TopicKey::Id(id) => self.topics.get(id),
        }
    }

    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.topics.get(self.ids.get(name)?)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.ids.values().map(|id| &self.topics[id])
    }

    /// A partition, with what can be read of it by now.
    ///
    /// # Errors
    /// There is no such topic, or it has no such partition.
    pub fn partition(
        &mut self,
        key: &TopicKey,
        index: PartitionIndex,
        now: Instant,
    ) -> Result<&mut Partition, ErrorCode> {
        let id = self.topic(key).ok_or_else(|| key.unknown())?.id;
        let partition = partition(&mut self.topics, id, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.log.advance(now);
        Ok(partition)
    }

    /// Stores a batch; what does not find room any more goes. Yields the offset to acknowledge and where the log starts.
    ///
    /// # Errors
    /// What the batch is refused with.
    pub fn append(
        &mut self,
        id: Uuid,
        index: PartitionIndex,
        batch: &[u8],
        readable_at: Instant,
    ) -> Result<(Offset, Offset), ErrorCode> {
        let serial = self.next_serial;
        let partition = partition(&mut self.topics, id, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (end, cost_bytes) = (partition.log.end(), partition.log.cost_bytes());
        let answer = partition.log.append(&Append { batch, serial, readable_at });
        let start = partition.log.start();
        if partition.log.end() > end {
            self.next_serial += 1;
            self.kept_bytes = self.kept_bytes - cost_bytes + partition.log.cost_bytes();
            self.order.insert(serial, (id, index));
            partition.changed.notify_all();
            self.make_room();
        }
        answer.map(|base_offset| (base_offset, start))
    }

    fn make_room(&mut self) {
        while self.kept_bytes > self.options.keep_bytes {
            let Some((serial, (id, index))) = self.order.pop_first() else { return };
            if let Some(partition) = partition(&mut self.topics, id, index) {
                self.kept_bytes -= partition.log.evict_through(serial).iter().map(Stored::cost_bytes).sum::<usize>();
            }
        }
    }

    /// Moves the start of a log. Yields where it starts then.
    ///
    /// # Errors
    /// There is no such partition, or readers have not come so far.
    pub fn delete_records(
        &mut self,
        key: &TopicKey,
        index: PartitionIndex,
        before: Option<Offset>,
        now: Instant,
    ) -> Result<Offset, ErrorCode> {
        let log = &mut self.partition(key, index, now)?.log;
        let gone = log.delete_before(before)?;
        let (start, oldest_left) = (log.start(), log.serials().next());
        for stored in gone {
            self.kept_bytes -= stored.cost_bytes();
            // An append may have come to several batches, of which some are left.
            if Some(stored.serial) != oldest_left {
                self.order.remove(&stored.serial);
            }
        }
        Ok(start)
    }
}

fn partition(topics: &mut HashMap<Uuid, Topic>, id: Uuid, index: PartitionIndex) -> Option<&mut Partition> {
    topics.get_mut(&id)?.partitions.get_mut(usize::try_from(index.0).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WallTime;
    use record::{BatchBuilder, BatchOptions};

    const A: Uuid = Uuid([1; 16]);
    const B: Uuid = Uuid([2; 16]);

    fn batch(value_bytes: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.add(WallTime(0), None, Some(&vec![7; value_bytes]), &[]).expect("small");
        builder.finish().expect("has a record")
    }

    fn store(keep_bytes: usize, faults: &[&str]) -> Store {
        let faults = faults.iter().map(|text| text.parse().expect("a fault")).collect();
        let mut store = Store::new(StoreOptions { keep_bytes, faults });
        store.create("a", A, 2).expect("a new topic");
        store.create("b", B, 1).expect("a new topic");
        store
    }

    fn append(store: &mut Store, id: Uuid, partition: i32) -> Result<i64, ErrorCode> {
        store.append(id, PartitionIndex(partition), &batch(1000), Instant(0)).map(|(offset, _)| offset.0)
    }

    /// The start and the end of each log.
    fn ends(store: &mut Store) -> Vec<(i64, i64)> {
        let logs = [(A, 0), (A, 1), (B, 0)];
        let mut end = |(id, partition)| {
            let found = store.partition(&TopicKey::Id(id), PartitionIndex(partition), Instant(0));
            found.map_or((-1, -1), |found| (found.log.start().0, found.log.high_watermark().0))
        };
        logs.into_iter().map(&mut end).collect()
    }

    #[test]
    fn the_oldest_batches_go_wherever_they_are() {
        let mut probe = store(usize::MAX, &[]);
        append(&mut probe, A, 0).expect("stored");
        let one = probe.kept_bytes;
        let mut store = store(3 * one, &[]);
        for (id, partition, expected) in [
            (A, 0, [(0, 1), (0, 0), (0, 0)]),
            (B, 0, [(0, 1), (0, 0), (0, 1)]),
            (A, 0, [(0, 2), (0, 0), (0, 1)]),
            (A, 1, [(1, 2), (0, 1), (0, 1)]),
            (A, 1, [(1, 2), (0, 2), (1, 1)]),
            (A, 1, [(2, 2), (0, 3), (1, 1)]),
            (A, 1, [(2, 2), (1, 4), (1, 1)]),
        ] {
            append(&mut store, id, partition).expect("stored");
            assert_eq!(ends(&mut store), expected);
            assert!(store.kept_bytes <= 3 * one);
        }
    }

    #[test]
    fn what_is_deleted_makes_room() {
        let mut store = store(usize::MAX, &["duplicate@0/0"]);
        for (id, partition) in [(A, 0), (A, 0), (A, 1), (B, 0)] {
            append(&mut store, id, partition).expect("stored");
        }
        assert_eq!(ends(&mut store), [(0, 3), (0, 1), (0, 2)]);
        let delete = |store: &mut Store, before| {
            let before: Option<i64> = before;
            store.delete_records(&TopicKey::Id(A), PartitionIndex(0), before.map(Offset), Instant(0))
        };
        // The record goes and its second copy, which came with it, stays.
        assert_eq!(delete(&mut store, Some(1)), Ok(Offset(1)));
        assert_eq!(store.order.len(), 4);
        assert_eq!(delete(&mut store, None), Ok(Offset(3)));
        assert_eq!(store.order.len(), 2);
        assert_eq!(delete(&mut store, Some(4)), Err(ErrorCode::OffsetOutOfRange));
        assert_eq!(store.delete(&TopicKey::Name("a".into())), Ok(("a".into(), A)));
        assert_eq!(store.delete(&TopicKey::Id(A)), Err(ErrorCode::UnknownTopicId));
        assert_eq!(ends(&mut store), [(-1, -1), (-1, -1), (0, 2)]);
        assert_eq!((store.order.len(), store.partition_count), (1, 1));
        store.delete(&TopicKey::Id(B)).expect("it is there");
        assert_eq!((store.kept_bytes, store.order.len(), store.partition_count), (0, 0, 0));
    }

    #[test]
    fn a_topic_is_created_once_under_a_fit_name() {
        let store = store(usize::MAX, &[]);
        for (name, partitions, expected) in [
            ("c", 1, Ok(())),
            ("a", 1, Err(ErrorCode::TopicAlreadyExists)),
            ("c", 0, Err(ErrorCode::InvalidPartitions)),
            ("c", PARTITIONS_MAX, Err(ErrorCode::InvalidPartitions)),
            ("", 1, Err(ErrorCode::InvalidTopicException)),
            ("..", 1, Err(ErrorCode::InvalidTopicException)),
            ("a b", 1, Err(ErrorCode::InvalidTopicException)),
            (&"x".repeat(NAME_BYTES_MAX + 1), 1, Err(ErrorCode::InvalidTopicException)),
        ] {
            assert_eq!(store.check_new(name, partitions), expected, "{name}");
        }
    }
}
