//! All groups of one partition of `__consumer_offsets`. Pure: the host appends the records, waits for them and gives the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Instant, Uuid, WallTime};
use wire::ErrorCode;
use wire::consumer_protocol::{ConsumerProtocolSubscription, PROTOCOL_TYPE};

use super::classic::ClassicGroup;
use super::effects::{Effects, Record, Timer};
use super::message::{
    Commit, CommittedOffset, DescribedGroup, GroupAnswer, GroupRequest, Join, Joined, ListedGroup, Synced, Ticket,
    TopicPartition,
};
use super::offsets::{Idle, Offsets};

/// Settings of the coordinators, with Kafka's names and defaults.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`
    pub initial_delay: Duration,
    /// `group.min.session.timeout.ms`, `group.max.session.timeout.ms`
    pub session_timeout_ms: std::ops::RangeInclusive<i32>,
    /// `group.max.size`
    pub size_max: usize,
    /// `offset.metadata.max.bytes`
    pub metadata_bytes_max: usize,
    /// `offsets.retention.minutes`, in milliseconds
    pub retention_ms: i64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(3),
            session_timeout_ms: 6_000..=1_800_000,
            size_max: usize::MAX,
            metadata_bytes_max: 4096,
            retention_ms: 7 * 24 * 60 * 60 * 1000,
        }
    }
}

/// Now, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub instant: Instant,
    pub wall: WallTime,
}

#[derive(Debug)]
struct Group {
    classic: ClassicGroup,
    offsets: Offsets,
    /// Its members are, or were, in its log: it is there even without offsets.
    is_recorded: bool,
}

/// The groups of one partition.
#[derive(Debug)]
pub struct GroupTable {
    config: GroupConfig,
    groups: BTreeMap<String, Group>,
    timers: BTreeSet<(Instant, String, Timer)>,
}

impl GroupTable {
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self { config, groups: BTreeMap::new(), timers: BTreeSet::new() }
    }

    /// Takes up a request; `id` is a member's that has none yet.
    #[must_use]
    pub fn handle(&mut self, request: GroupRequest, ticket: Ticket, id: String, now: Moment) -> Effects {
        let mut effects = Effects::default();
        let name = request.group().to_owned();
        match request {
            GroupRequest::Join(join) => self.join(join, ticket, id, now, &mut effects),
            GroupRequest::Commit(commit) => {
                let outcomes = self.commit(commit, now, &mut effects);
                effects.answer(ticket, GroupAnswer::Committed(outcomes));
            }
            GroupRequest::FetchOffsets { partitions, .. } => {
                effects.answer(ticket, GroupAnswer::Offsets(self.offsets(&name, partitions)));
            }
            GroupRequest::DeleteOffsets { partitions, .. } => {
                let (error, outcomes) = self.delete_offsets(&name, &partitions, &mut effects);
                effects.answer(ticket, GroupAnswer::OffsetsDeleted(error, outcomes));
            }
            GroupRequest::Describe { .. } => effects.answer(ticket, GroupAnswer::Described(self.describe(&name))),
            GroupRequest::Delete { .. } => {
                let outcome = self.delete(&name, &mut effects);
                effects.answer(ticket, GroupAnswer::Done(outcome));
            }
            of_members => self.of_members(of_members, ticket, now, &mut effects),
        }
        self.settle(&name, &mut effects);
        effects
    }

    /// What only a member asks.
    fn of_members(&mut self, request: GroupRequest, ticket: Ticket, now: Moment, effects: &mut Effects) {
        let group = self.groups.get_mut(request.group());
        let unknown = ErrorCode::UnknownMemberId;
        match (request, group) {
            (GroupRequest::Sync(sync), Some(group)) => group.classic.sync(sync, ticket, now, effects),
            (GroupRequest::Sync(_), None) => effects.answer(ticket, GroupAnswer::Synced(Synced::failed(unknown))),
            (GroupRequest::Heartbeat { speaker, .. }, group) => {
                let outcome = group.map_or(unknown, |group| group.classic.heartbeat(&speaker, now, effects));
                effects.answer(ticket, GroupAnswer::Done(outcome));
            }
            (GroupRequest::Leave { members, .. }, group) => {
                let outcomes = match group {
                    Some(group) => group.classic.leave(&members, &self.config, now, effects),
                    None => vec![unknown; members.len()],
                };
                effects.answer(ticket, GroupAnswer::Left(outcomes));
            }
            (other, _) => unreachable!("{other:?} is no request of a member"),
        }
    }

    fn join(&mut self, join: Join, ticket: Ticket, id: String, now: Moment, effects: &mut Effects) {
        let fail = |error| GroupAnswer::Joined(Joined::failed(error, join.member_id.clone()));
        if !self.config.session_timeout_ms.contains(&join.session_timeout_ms) {
            return effects.answer(ticket, fail(ErrorCode::InvalidSessionTimeout));
        }
        let name = join.group.clone();
        if !self.groups.contains_key(&name) {
            if !join.member_id.is_empty() {
                return effects.answer(ticket, fail(ErrorCode::UnknownMemberId));
            }
            self.groups.insert(name.clone(), Group::new(&name, now));
        }
        let group = self.groups.get_mut(&name).expect("just put there");
        group.classic.join(join, id, ticket, &self.config, now, effects);
    }

    fn commit(&mut self, commit: Commit, now: Moment, effects: &mut Effects) -> Vec<ErrorCode> {
        let Commit { group: name, speaker, offsets, retention_ms } = commit;
        let admitted = match self.groups.get_mut(&name) {
            Some(group) => group.classic.admit_commit(&speaker, now, effects),
            None if speaker.generation < 0 => Ok(()),
            None => Err(ErrorCode::IllegalGeneration),
        };
        if let Err(error) = admitted {
            return vec![error; offsets.len()];
        }
        let mut outcomes = Vec::with_capacity(offsets.len());
        for offset in offsets {
            if offset.metadata.len() > self.config.metadata_bytes_max {
                outcomes.push(ErrorCode::OffsetMetadataTooLarge);
                continue;
            }
            outcomes.push(ErrorCode::None);
            let committed = CommittedOffset {
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                metadata: offset.metadata,
                committed_at: now.wall,
                expires_at: retention_ms.map(|retention_ms| WallTime(now.wall.0.saturating_add(retention_ms))),
                topic_id: offset.topic_id,
            };
            let of = TopicPartition { topic: offset.topic, partition: offset.partition };
            effects.records.push(Record::Offset { group: name.clone(), of, committed });
        }
        outcomes
    }

    fn offsets(
        &self,
        name: &str,
        asked: Option<Vec<TopicPartition>>,
    ) -> Vec<(TopicPartition, Option<CommittedOffset>)> {
        let offsets = self.groups.get(name).map(|group| &group.offsets);
        match asked {
            Some(asked) => {
                let found =
                    |of: &TopicPartition| offsets.and_then(|offsets| offsets.get(&of.topic, of.partition)).cloned();
                asked.into_iter().map(|of| (of.clone(), found(&of))).collect()
            }
            None => {
                let all = offsets.into_iter().flat_map(Offsets::iter);
                all.map(|(of, committed)| (of, Some(committed.clone()))).collect()
            }
        }
    }

    fn delete_offsets(
        &self,
        name: &str,
        partitions: &[TopicPartition],
        effects: &mut Effects,
    ) -> (ErrorCode, Vec<ErrorCode>) {
        let Some(group) = self.groups.get(name) else { return (ErrorCode::GroupIdNotFound, Vec::new()) };
        if !group.classic.is_empty() && group.classic.protocol_type() != Some(PROTOCOL_TYPE) {
            return (ErrorCode::NonEmptyGroup, Vec::new());
        }
        let outcome = |of: &TopicPartition| {
            if group.reads(&of.topic) {
                return ErrorCode::GroupSubscribedToTopic;
            }
            if group.offsets.get(&of.topic, of.partition).is_some() {
                effects.records.push(Record::OffsetRemoved { group: name.to_owned(), of: of.clone() });
            }
            ErrorCode::None
        };
        (ErrorCode::None, partitions.iter().map(outcome).collect())
    }

    fn describe(&self, name: &str) -> DescribedGroup {
        match self.groups.get(name) {
            Some(group) => group.classic.describe(),
            None => DescribedGroup { state: "Dead", ..DescribedGroup::failed(ErrorCode::GroupIdNotFound) },
        }
    }

    fn delete(&self, name: &str, effects: &mut Effects) -> ErrorCode {
        let Some(group) = self.groups.get(name) else { return ErrorCode::GroupIdNotFound };
        if !group.classic.is_empty() {
            return ErrorCode::NonEmptyGroup;
        }
        let offsets = group.offsets.iter().map(|(of, _)| Record::OffsetRemoved { group: name.to_owned(), of });
        effects.records.extend(offsets);
        effects.records.push(Record::GroupRemoved { group: name.to_owned() });
        ErrorCode::None
    }

    /// All groups, by name.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> {
        self.groups.iter().map(|(name, group)| ListedGroup {
            group: name.clone(),
            protocol_type: group.classic.protocol_type().unwrap_or_default().to_owned(),
            state: group.classic.state_name(),
            kind: "classic",
        })
    }

    /// When the next deadline is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// The next deadline that has come, if there is one: called until there is none.
    pub fn tick(&mut self, now: Moment) -> Option<Effects> {
        if self.next_deadline().is_none_or(|at| at > now.instant) {
            return None;
        }
        let (_, name, timer) = self.timers.pop_first()?;
        let mut effects = Effects::default();
        if let Some(group) = self.groups.get_mut(&name) {
            group.classic.on_timer(&timer, &self.config, now, &mut effects);
        }
        self.settle(&name, &mut effects);
        Some(effects)
    }

    /// Forgets what no group needs any more: offsets that are due, and groups that have none left.
    #[must_use]
    pub fn expire(&self, now: Moment) -> Effects {
        let mut effects = Effects::default();
        for (name, group) in &self.groups {
            let due = group.offsets.due(|topic| group.idle(topic), self.config.retention_ms, now.wall);
            let has_others = group.offsets.iter().count() > due.len();
            let removed = due.into_iter().map(|of| Record::OffsetRemoved { group: name.clone(), of });
            effects.records.extend(removed);
            if !has_others && group.classic.is_deserted() && group.is_recorded {
                effects.records.push(Record::GroupRemoved { group: name.clone() });
            }
        }
        effects
    }

    /// Forgets what was committed of topics that are gone: who reads one that is created anew begins anew. `is_there` is asked with the name
    /// and the id of what was committed; a log of an older version has no ids.
    #[must_use]
    pub fn forget_topics(&self, is_there: impl Fn(&str, Uuid) -> bool) -> Effects {
        let mut effects = Effects::default();
        for (name, group) in &self.groups {
            let gone = group.offsets.iter().filter(|(of, committed)| !is_there(&of.topic, committed.topic_id));
            effects.records.extend(gone.map(|(of, _)| Record::OffsetRemoved { group: name.clone(), of }));
        }
        effects
    }

    /// Puts the deadlines of a step in line, and drops a group that has come to nothing.
    fn settle(&mut self, name: &str, effects: &mut Effects) {
        let timers = std::mem::take(&mut effects.timers);
        self.timers.extend(timers.into_iter().map(|(at, timer)| (at, name.to_owned(), timer)));
        // What is to be in the log is not void.
        if effects.records.is_empty() {
            self.drop_if_void(name);
        }
    }

    fn drop_if_void(&mut self, name: &str) {
        if self.groups.get(name).is_some_and(Group::is_void) {
            self.groups.remove(name);
        }
    }

    /// Takes up what is in the log, or what was appended by a step that does not concern members.
    pub fn replay(&mut self, record: Record, now: Moment) {
        match record {
            Record::Group { group: name, snapshot } => {
                let group = self.groups.entry(name.clone()).or_insert_with(|| Group::new(&name, now));
                group.classic = ClassicGroup::restored(name, snapshot);
                group.is_recorded = true;
            }
            Record::GroupRemoved { group: name } => {
                if let Some(group) = self.groups.get_mut(&name) {
                    group.classic = ClassicGroup::new(name.clone(), now);
                    group.is_recorded = false;
                }
                self.drop_if_void(&name);
            }
            Record::Offset { group: name, of, committed } => {
                let group = self.groups.entry(name.clone()).or_insert_with(|| Group::new(&name, now));
                group.offsets.set(&of, committed);
            }
            Record::OffsetRemoved { group: name, of } => {
                if let Some(group) = self.groups.get_mut(&name) {
                    group.offsets.remove(&of);
                }
                self.drop_if_void(&name);
            }
        }
    }

    /// The records of a step have been appended.
    pub fn appended(&mut self, records: Vec<Record>, now: Moment) {
        for record in records {
            match record {
                // Its members are as the record says already.
                Record::Group { group, .. } => {
                    if let Some(group) = self.groups.get_mut(&group) {
                        group.is_recorded = true;
                    }
                }
                other => self.replay(other, now),
            }
        }
    }

    /// The log has been read: from now on the members are expected.
    pub fn resume(&mut self, now: Moment) {
        let names: Vec<_> = self.groups.keys().cloned().collect();
        for name in names {
            let mut effects = Effects::default();
            self.groups.get_mut(&name).expect("one of them").classic.resume(now, &mut effects);
            self.settle(&name, &mut effects);
        }
    }
}

impl Group {
    fn new(name: &str, now: Moment) -> Self {
        Self { classic: ClassicGroup::new(name.to_owned(), now), offsets: Offsets::default(), is_recorded: false }
    }

    /// It has come to nothing: neither members, nor offsets, nor a record that says it is there.
    fn is_void(&self) -> bool {
        self.classic.is_deserted() && self.offsets.is_empty() && !self.is_recorded
    }

    /// Whether a member says that it reads the topic. Of members whose word can't be read, all topics are.
    fn reads(&self, topic: &str) -> bool {
        self.classic.protocol_type() == Some(PROTOCOL_TYPE)
            && self.classic.subscriptions().any(|said| match ConsumerProtocolSubscription::read(said) {
                Ok(subscription) => subscription.topics.iter().any(|known| known == topic),
                Err(_) => true,
            })
    }

    /// From when on the offsets of a topic are idle; `None` while members keep them.
    fn idle(&self, topic: &str) -> Option<Idle> {
        match (self.classic.empty_since(), self.classic.protocol_type()) {
            (Some(_), None) => Some(Idle::SinceCommit),
            (Some(since), Some(_)) => Some(Idle::Since(since)),
            (None, Some(PROTOCOL_TYPE)) if !self.reads(topic) => Some(Idle::SinceCommit),
            (None, _) => None,
        }
    }
}
