//! What there is to look at in the groups of a partition, and where what was seen is kept. Pure.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use base::{Offset, PartitionIndex, Uuid};
use storage::LogId;
use wire::consumer_protocol::ConsumerProtocolAssignment;

use super::progress::{LagLimits, Look, Warning};
use super::summary::{GroupLag, PartitionLag};
use crate::coordinator::group::Members;
use crate::coordinator::message::TopicPartition;
use crate::coordinator::table::GroupTable;
use crate::coordinator::topics::Topics;

/// A partition that a group has committed an offset of.
#[derive(Clone, Debug)]
pub struct ToLookAt {
    pub of: TopicPartition,
    /// `None` where the topic is gone.
    pub log: Option<LogId>,
    pub committed: Offset,
    /// The record whose timestamp is known.
    pub next_known: Option<Offset>,
    /// The member that has it.
    pub holder: Option<Rc<str>>,
}

/// Who has what in one group: each name once, however many partitions it has.
#[derive(Debug, Default)]
pub struct Holders {
    /// Of a group whose members share the partitions out.
    shares: HashMap<TopicPartition, Rc<str>>,
    names: BTreeSet<Rc<str>>,
}

impl Holders {
    fn name(&mut self, id: &str) -> Rc<str> {
        if let Some(known) = self.names.get(id) {
            return known.clone();
        }
        let name: Rc<str> = Rc::from(id);
        self.names.insert(name.clone());
        name
    }

    /// Takes up what a member has; as many partitions as that is.
    pub fn add(&mut self, id: &str, assignment: &[u8]) -> usize {
        // What can't be read shares nothing out.
        let Ok(assignment) = ConsumerProtocolAssignment::read(assignment) else { return 0 };
        let name = self.name(id);
        let before = self.shares.len();
        for topic in &assignment.assigned_partitions {
            let of = |partition| TopicPartition { topic: topic.topic.to_owned(), partition };
            self.shares.extend(topic.partitions.iter().map(|partition| (of(partition), name.clone())));
        }
        self.shares.len() - before
    }
}

impl GroupTable {
    /// The group that comes next by name.
    #[must_use]
    pub fn group_after(&self, name: Option<&str>) -> Option<String> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = name.map_or(Unbounded, Excluded);
        self.groups.range::<str, _>((from, Unbounded)).next().map(|(name, _)| name.clone())
    }

    /// The member that comes next by its id, and its share, of a group whose members share the partitions out.
    #[must_use]
    pub fn share_after(&self, group: &str, member: Option<&str>) -> Option<(String, Vec<u8>)> {
        match &self.groups.get(group)?.members {
            Members::Classic(classic) => {
                classic.share_after(member).map(|(id, assignment)| (id.to_owned(), assignment.to_vec()))
            }
            Members::Consumer(_) => None,
        }
    }

    /// The next partitions of a group behind one of them, at most so many.
    pub fn to_look_at(
        &self,
        group: &str,
        after: Option<&TopicPartition>,
        count_max: usize,
        holders: &mut Holders,
        topics: &dyn Topics,
    ) -> Vec<ToLookAt> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let mut found = Vec::new();
        for (topic, partition, kept) in group.offsets.after(after).take(count_max) {
            let of = TopicPartition { topic: topic.to_owned(), partition };
            let log = log_of(&of, kept.committed.topic_id, topics);
            let holder = match &group.members {
                Members::Classic(_) => holders.shares.get(&of).cloned(),
                Members::Consumer(consumer) => log.and_then(|log| consumer.owner(log)).map(|owner| holders.name(owner)),
            };
            let (committed, next_known) = (kept.committed.offset, kept.progress.next_known());
            found.push(ToLookAt { of, log, committed, next_known, holder });
        }
        found
    }

    /// Takes up what was found of a partition, unless the group has it no more. `None`: nobody has the partition.
    pub fn seen(
        &mut self,
        group: &str,
        of: &TopicPartition,
        look: Option<&Look<'_>>,
        limits: &LagLimits,
        sums: &mut GroupLag,
    ) -> Vec<Warning> {
        let group = self.groups.get_mut(group);
        let Some(progress) = group.and_then(|group| group.offsets.progress_mut(of)) else { return Vec::new() };
        let Some(look) = look else {
            progress.unknown();
            return Vec::new();
        };
        let warnings = progress.look(look, limits);
        progress.lag().into_iter().for_each(|lag| sums.add(lag));
        warnings
    }

    /// All partitions of a group have been looked at.
    pub fn seen_all(&mut self, group: &str, sums: GroupLag) {
        if let Some(group) = self.groups.get_mut(group) {
            group.lag = (sums.partitions > 0).then_some(sums);
        }
    }

    /// How far a group is behind; `None` where that is not known.
    #[must_use]
    pub fn lag(&self, group: &str) -> Option<GroupLag> {
        self.groups.get(group)?.lag
    }

    /// The next partitions of a group behind one of them, at most so many, of which it is known how far behind they are; and the last that
    /// was passed, `None` at the end.
    #[must_use]
    pub fn partition_lags(
        &self,
        group: &str,
        after: Option<&TopicPartition>,
        count_max: usize,
    ) -> (Vec<PartitionLag>, Option<TopicPartition>) {
        let Some(group) = self.groups.get(group) else { return (Vec::new(), None) };
        let (mut lags, mut last) = (Vec::new(), None);
        for (topic, partition, kept) in group.offsets.after(after).take(count_max) {
            let of = TopicPartition { topic: topic.to_owned(), partition };
            lags.extend(kept.progress.lag().map(|lag| PartitionLag { of: of.clone(), lag: *lag }));
            last = Some(of);
        }
        (lags, last)
    }

    /// What a member calls itself, and where it is.
    #[must_use]
    pub fn client_of(&self, group: &str, member: &str) -> Option<(String, String)> {
        let (id, host) = match &self.groups.get(group)?.members {
            Members::Classic(classic) => classic.client_of(member),
            Members::Consumer(consumer) => consumer.client_of(member),
        }?;
        Some((id.to_owned(), host.to_owned()))
    }
}

/// The log of a partition that an offset was committed of; a log of an older version has no ids.
fn log_of(of: &TopicPartition, committed_id: Uuid, topics: &dyn Topics) -> Option<LogId> {
    let info = topics.topic(&of.topic)?;
    let is_there = (PartitionIndex(0)..PartitionIndex(info.partitions)).contains(&of.partition);
    let is_same = committed_id == Uuid::ZERO || committed_id == info.id;
    (is_there && is_same).then_some(LogId { topic_id: info.id, partition: of.partition })
}
