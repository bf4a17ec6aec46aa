//! What one group has committed, and when that is forgotten (KIP-211). Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound::{Excluded, Included, Unbounded};

use base::{PartitionIndex, WallTime};

use super::lag::Progress;
use super::message::{CommittedOffset, TopicPartition};

/// The offsets of a group, by topic and partition.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    topics: BTreeMap<String, BTreeMap<PartitionIndex, Kept>>,
}

/// An offset, and what was seen of how the group gets on from there: of this broker's run, and of no effect on anything kept.
#[derive(Clone, Debug)]
pub struct Kept {
    pub committed: CommittedOffset,
    pub progress: Progress,
}

/// From when on the offsets of a group may be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// From each one's commit on: no member was ever known, or none reads the topic.
    SinceCommit,
    /// From when the last member left, or the commit, whichever is later.
    Since(WallTime),
}

impl Offsets {
    #[must_use]
    pub fn get(&self, topic: &str, partition: PartitionIndex) -> Option<&CommittedOffset> {
        self.topics.get(topic)?.get(&partition).map(|kept| &kept.committed)
    }

    pub fn progress_mut(&mut self, of: &TopicPartition) -> Option<&mut Progress> {
        self.topics.get_mut(&of.topic)?.get_mut(&of.partition).map(|kept| &mut kept.progress)
    }

    /// What was there before.
    pub fn set(&mut self, of: &TopicPartition, committed: CommittedOffset) -> Option<CommittedOffset> {
        if !self.topics.contains_key(&of.topic) {
            self.topics.insert(of.topic.clone(), BTreeMap::new());
        }
        match self.topics.get_mut(&of.topic)?.entry(of.partition) {
            Entry::Vacant(place) => {
                place.insert(Kept { committed, progress: Progress::default() });
                None
            }
            Entry::Occupied(place) => Some(std::mem::replace(&mut place.into_mut().committed, committed)),
        }
    }

    pub fn remove(&mut self, of: &TopicPartition) -> Option<CommittedOffset> {
        let partitions = self.topics.get_mut(&of.topic)?;
        let removed = partitions.remove(&of.partition);
        if partitions.is_empty() {
            self.topics.remove(&of.topic);
        }
        removed.map(|kept| kept.committed)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// All of them, by topic and partition.
    pub fn iter(&self) -> impl Iterator<Item = (TopicPartition, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            let of = |partition: &PartitionIndex| TopicPartition { topic: topic.clone(), partition: *partition };
            partitions.iter().map(move |(partition, kept)| (of(partition), &kept.committed))
        })
    }

    /// Those behind a partition, all without one, by topic and partition.
    pub fn after(&self, last: Option<&TopicPartition>) -> impl Iterator<Item = (&str, PartitionIndex, &Kept)> {
        let from = last.map_or("", |last| last.topic.as_str());
        self.topics.range::<str, _>((Included(from), Unbounded)).flat_map(move |(topic, partitions)| {
            let from = match last {
                Some(last) if last.topic == *topic => Excluded(last.partition),
                _ => Unbounded,
            };
            partitions.range((from, Unbounded)).map(|(partition, kept)| (topic.as_str(), *partition, kept))
        })
    }

    /// The offsets that are due to be forgotten: kept for `retention_ms` since their group has been idle, or until the client said.
    pub fn due(&self, idle: impl Fn(&str) -> Option<Idle>, retention_ms: i64, now: WallTime) -> Vec<TopicPartition> {
        let is_due = |idle: Idle, committed: &CommittedOffset| {
            let since = match idle {
                Idle::SinceCommit => committed.committed_at,
                Idle::Since(since) => since.max(committed.committed_at),
            };
            match committed.expires_at {
                Some(expires_at) => expires_at <= now,
                None => now.0.saturating_sub(since.0) >= retention_ms,
            }
        };
        let mut due = Vec::new();
        for (topic, partitions) in &self.topics {
            let Some(idle) = idle(topic) else { continue };
            let of_topic = partitions.iter().filter(|(_, kept)| is_due(idle, &kept.committed));
            due.extend(of_topic.map(|(partition, _)| TopicPartition { topic: topic.clone(), partition: *partition }));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, Offset, PartitionIndex, Uuid, WallTime};

    use super::{Idle, Offsets};
    use crate::coordinator::message::{CommittedOffset, TopicPartition};

    fn committed(at: i64, expires_at: Option<i64>) -> CommittedOffset {
        CommittedOffset {
            offset: Offset(at),
            leader_epoch: LeaderEpoch(-1),
            metadata: String::new(),
            committed_at: WallTime(at),
            expires_at: expires_at.map(WallTime),
            topic_id: Uuid::ZERO,
        }
    }

    #[test]
    fn offsets_are_forgotten_only_when_nobody_has_needed_them_for_long() {
        let of = |topic: &str| TopicPartition { topic: topic.into(), partition: PartitionIndex(0) };
        let mut offsets = Offsets::default();
        offsets.set(&of("early"), committed(100, None));
        offsets.set(&of("late"), committed(500, None));
        offsets.set(&of("own"), committed(100, Some(5000)));
        let due = |idle: Option<Idle>, now| {
            let due = offsets.due(|_| idle, 1000, WallTime(now));
            due.into_iter().map(|of| of.topic).collect::<Vec<_>>()
        };
        assert!(due(None, i64::MAX).is_empty(), "members keep them");
        assert!(due(Some(Idle::SinceCommit), 1099).is_empty());
        assert_eq!(due(Some(Idle::SinceCommit), 1100), ["early"]);
        assert_eq!(due(Some(Idle::SinceCommit), 5000), ["early", "late", "own"]);
        assert!(due(Some(Idle::Since(WallTime(300))), 1299).is_empty());
        assert_eq!(due(Some(Idle::Since(WallTime(300))), 1300), ["early"]);
        assert_eq!(due(Some(Idle::Since(WallTime(300))), 1500), ["early", "late"]);
        assert!(due(Some(Idle::SinceCommit), -5000).is_empty(), "a clock that went back");
    }

    #[test]
    fn they_are_gone_through_some_at_a_time() {
        let mut offsets = Offsets::default();
        let all: Vec<_> =
            ["a", "b", "c"].iter().flat_map(|topic| [0, 1, 7].map(|partition| (*topic, partition))).collect();
        for (topic, partition) in &all {
            let of = TopicPartition { topic: (*topic).to_owned(), partition: PartitionIndex(*partition) };
            offsets.set(&of, committed(1, None));
        }
        for count in 1..=all.len() {
            let (mut met, mut last) = (Vec::new(), None);
            loop {
                let some: Vec<_> = offsets.after(last.as_ref()).take(count).collect();
                let Some((topic, partition, _)) = some.last() else { break };
                last = Some(TopicPartition { topic: (*topic).to_owned(), partition: *partition });
                met.extend(some.iter().map(|(topic, partition, _)| (*topic, partition.0)));
            }
            assert_eq!(met, all, "{count} at a time");
        }
    }

    #[test]
    fn the_last_offset_of_a_topic_takes_it_along() {
        let of = TopicPartition { topic: "t".into(), partition: PartitionIndex(3) };
        let mut offsets = Offsets::default();
        assert_eq!(offsets.set(&of, committed(1, None)), None);
        assert_eq!(offsets.set(&of, committed(2, None)), Some(committed(1, None)));
        assert_eq!(offsets.iter().map(|(of, at)| (of.partition.0, at.offset.0)).collect::<Vec<_>>(), [(3, 2)]);
        assert_eq!(offsets.remove(&of), Some(committed(2, None)));
        assert!(offsets.is_empty() && offsets.remove(&of).is_none());
    }
}
