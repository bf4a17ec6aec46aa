//! All groups of one partition of `__consumer_offsets`. Pure: the host appends the records, waits for them and gives the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Instant, Uuid, WallTime};
use storage::LogId;
use wire::ErrorCode;
use wire::consumer_protocol::PROTOCOL_TYPE;

use super::classic::ClassicGroup;
use super::config::GroupConfig;
use super::consumer::{
    Change, ConsumerGroup, ConsumerHeartbeat, DescribedConsumerGroup, HeartbeatTold, JOINS, Rejection, Step,
};
use super::effects::{Effects, Record, Timer};
use super::group::{Group, Members};
use super::lag::PROGRESS_BYTES;
use super::message::{
    Commit, CommittedOffset, DescribedGroup, FetchOffsets, GroupAnswer, GroupRequest, Join, Joined, ListedGroup,
    Synced, Ticket, TopicPartition,
};
use super::offsets::Offsets;
use super::topics::Topics;
use crate::config::OwnSettingsOfGroups;

/// Now, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub instant: Instant,
    pub wall: WallTime,
}

/// The groups of one partition.
#[derive(Debug)]
pub struct GroupTable {
    config: GroupConfig,
    pub(super) groups: BTreeMap<String, Group>,
    timers: BTreeSet<(Instant, String, Timer)>,
    /// What all groups come to on the heap, about.
    bytes: usize,
    /// Nothing more is taken in: no group, no member, no offset of another partition.
    is_full: bool,
}

/// A group, besides its name, members and offsets.
const GROUP_BYTES: usize = 600;
/// An offset, besides the name of its topic and its metadata.
const OFFSET_BYTES: usize = 160 + PROGRESS_BYTES;

impl GroupTable {
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self { config, groups: BTreeMap::new(), timers: BTreeSet::new(), bytes: 0, is_full: false }
    }

    /// What all groups come to on the heap, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether more is taken in.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Takes the settings that single groups have of their own. All shards count who holds them, so only others than it has are taken.
    pub fn set_own_settings(&mut self, own: &Arc<OwnSettingsOfGroups>) {
        if !Arc::ptr_eq(&self.config.consumer.own, own) {
            self.config.consumer.own = own.clone();
        }
    }

    /// Takes up a request; `id` is a member's that has none yet.
    #[must_use]
    pub fn handle(
        &mut self,
        request: GroupRequest,
        ticket: Ticket,
        id: String,
        topics: &dyn Topics,
        now: Moment,
    ) -> Effects {
        let mut effects = Effects::default();
        let name = request.group().to_owned();
        match request {
            GroupRequest::Join(join) => self.join(join, ticket, id, topics, now, &mut effects),
            GroupRequest::Commit(commit) => {
                let outcomes = self.commit(commit, now, &mut effects);
                effects.answer(ticket, GroupAnswer::Committed(outcomes));
            }
            GroupRequest::FetchOffsets(asked) => effects.answer(ticket, self.offsets(asked)),
            GroupRequest::DeleteOffsets { partitions, .. } => {
                let (error, outcomes) = self.delete_offsets(&name, &partitions, &mut effects);
                effects.answer(ticket, GroupAnswer::OffsetsDeleted(error, outcomes));
            }
            GroupRequest::Describe { .. } => effects.answer(ticket, GroupAnswer::Described(self.describe(&name))),
            GroupRequest::Delete { .. } => {
                let outcome = self.delete(&name, &mut effects);
                effects.answer(ticket, GroupAnswer::Done(outcome));
            }
            GroupRequest::ConsumerHeartbeat(beat) => {
                let told = self.consumer_heartbeat(beat, id, topics, now, &mut effects);
                effects.answer(ticket, GroupAnswer::ConsumerHeartbeat(told));
            }
            GroupRequest::DescribeConsumer { .. } => {
                effects.answer(ticket, GroupAnswer::ConsumerDescribed(self.describe_consumer(&name)));
            }
            of_members => self.of_members(of_members, ticket, topics, now, &mut effects),
        }
        self.downgrade_if_due(&name, topics, now, &mut effects);
        self.settle(&name, &mut effects);
        effects
    }

    /// What only a member with the classic protocol asks.
    fn of_members(
        &mut self,
        request: GroupRequest,
        ticket: Ticket,
        topics: &dyn Topics,
        now: Moment,
        effects: &mut Effects,
    ) {
        let members = self.groups.get_mut(request.group()).map(|group| &mut group.members);
        let answer = match members {
            Some(Members::Classic(classic)) => match request {
                // Members may wait for one another here.
                GroupRequest::Sync(sync) => return classic.sync(sync, ticket, now, effects),
                GroupRequest::Heartbeat { speaker, .. } => GroupAnswer::Done(classic.heartbeat(&speaker, now, effects)),
                GroupRequest::Leave { members, .. } => {
                    GroupAnswer::Left(classic.leave(&members, &self.config, now, effects))
                }
                other => unreachable!("{other:?} is no request of a member"),
            },
            Some(Members::Consumer(consumer)) => {
                let step = &mut Step { topics, config: &self.config, now, effects };
                match request {
                    GroupRequest::Sync(sync) => GroupAnswer::Synced(consumer.sync(&sync, step)),
                    GroupRequest::Heartbeat { speaker, .. } => {
                        GroupAnswer::Done(consumer.classic_heartbeat(&speaker, step))
                    }
                    GroupRequest::Leave { members, .. } => GroupAnswer::Left(consumer.classic_leave(&members, step)),
                    other => unreachable!("{other:?} is no request of a member"),
                }
            }
            None => match request {
                GroupRequest::Sync(_) => GroupAnswer::Synced(Synced::failed(ErrorCode::UnknownMemberId)),
                GroupRequest::Leave { members, .. } => {
                    GroupAnswer::Left(vec![ErrorCode::UnknownMemberId; members.len()])
                }
                _ => GroupAnswer::Done(ErrorCode::UnknownMemberId),
            },
        };
        effects.answer(ticket, answer);
    }

    fn join(
        &mut self,
        join: Join,
        ticket: Ticket,
        id: String,
        topics: &dyn Topics,
        now: Moment,
        effects: &mut Effects,
    ) {
        let fail = |error| GroupAnswer::Joined(Joined::failed(error, join.member_id.clone()));
        if !self.config.session_timeout_ms.contains(&join.session_timeout_ms) {
            return effects.answer(ticket, fail(ErrorCode::InvalidSessionTimeout));
        }
        if self.is_full && join.member_id.is_empty() {
            return effects.answer(ticket, fail(ErrorCode::GroupMaxSizeReached));
        }
        let name = join.group.clone();
        if let Some(Group { members: Members::Consumer(consumer), .. }) = self.groups.get_mut(&name)
            && !consumer.is_empty()
        {
            let step = &mut Step { topics, config: &self.config, now, effects };
            let joined = consumer.join(join, id, step);
            return effects.answer(ticket, GroupAnswer::Joined(joined));
        }
        let is_known = self.groups.get(&name).is_some_and(|group| matches!(group.members, Members::Classic(_)));
        if !is_known && !join.member_id.is_empty() {
            return effects.answer(ticket, fail(ErrorCode::UnknownMemberId));
        }
        self.add(&name, || Group::classic(&name, now));
        let group = self.groups.get_mut(&name).expect("just put there");
        group.become_classic(&name, now, effects).join(join, id, ticket, &self.config, now, effects);
    }

    fn consumer_heartbeat(
        &mut self,
        mut beat: ConsumerHeartbeat,
        id: String,
        topics: &dyn Topics,
        now: Moment,
        effects: &mut Effects,
    ) -> Result<HeartbeatTold, Rejection> {
        beat.check_regex()?;
        if beat.member_id.is_empty() {
            beat.member_id = id;
        }
        let name = beat.group.clone();
        if beat.member_epoch == JOINS {
            if self.is_full && self.groups.get(&name).is_none_or(|group| !group.has_member(&beat.member_id)) {
                let reason = "the broker has no memory for more members of groups".to_owned();
                return Err(Rejection::new(ErrorCode::GroupMaxSizeReached, reason));
            }
            self.add(&name, || Group::consumer(&name));
            let group = self.groups.get_mut(&name).expect("just put there");
            let step = &mut Step { topics, config: &self.config, now, effects };
            group.become_consumer(&name, step)?;
        }
        let group = match self.groups.get_mut(&name) {
            Some(Group { members: Members::Consumer(group), .. }) => group,
            Some(_) => return Err(not_found(&name, "is not a consumer group")),
            None => return Err(not_found(&name, "not found")),
        };
        let step = &mut Step { topics, config: &self.config, now, effects };
        if beat.member_epoch < JOINS { group.leave(&beat, step) } else { group.heartbeat(&beat, step) }
    }

    /// Leaves a group whose members all speak the classic protocol to them, once the last other one has gone with this step.
    fn downgrade_if_due(&mut self, name: &str, topics: &dyn Topics, now: Moment, effects: &mut Effects) {
        let has_changed = effects.records.iter().any(|record| matches!(record, Record::Consumer { .. }));
        if has_changed && let Some(group) = self.groups.get_mut(name) {
            group.downgrade_if_due(name, &mut Step { topics, config: &self.config, now, effects });
        }
    }

    fn commit(&mut self, commit: Commit, now: Moment, effects: &mut Effects) -> Vec<ErrorCode> {
        let Commit { group: name, speaker, offsets, retention_ms, knows_epochs } = commit;
        let admitted = match self.groups.get_mut(&name).map(|group| &mut group.members) {
            Some(Members::Classic(classic)) => classic.admit_commit(&speaker, now, effects),
            Some(Members::Consumer(consumer)) => consumer.admit_commit(&speaker, knows_epochs),
            None if speaker.generation < 0 => Ok(()),
            None if knows_epochs => Err(ErrorCode::GroupIdNotFound),
            None => Err(ErrorCode::IllegalGeneration),
        };
        if let Err(error) = admitted {
            return vec![error; offsets.len()];
        }
        let group = self.groups.get(&name);
        let consumer = group.and_then(|group| match &group.members {
            Members::Classic(_) => None,
            Members::Consumer(consumer) => Some(consumer),
        });
        let known = group.map(|group| &group.offsets);
        let mut outcomes = Vec::with_capacity(offsets.len());
        for offset in offsets {
            if self.is_full && known.is_none_or(|known| known.get(&offset.topic, offset.partition).is_none()) {
                outcomes.push(ErrorCode::PolicyViolation);
                continue;
            }
            if offset.metadata.len() > self.config.metadata_bytes_max {
                outcomes.push(ErrorCode::OffsetMetadataTooLarge);
                continue;
            }
            let log = LogId { topic_id: offset.topic_id, partition: offset.partition };
            if consumer.is_some_and(|consumer| !consumer.admits_offset(&speaker, log)) {
                outcomes.push(ErrorCode::StaleMemberEpoch);
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

    fn offsets(&self, asked: FetchOffsets) -> GroupAnswer {
        let FetchOffsets { group, partitions, member_id, member_epoch } = asked;
        let group = self.groups.get(&group);
        if let Some(Group { members: Members::Consumer(consumer), .. }) = group
            && let Err(error) = consumer.admit_fetch(member_id.as_deref(), member_epoch)
        {
            return GroupAnswer::Unavailable(error);
        }
        let offsets = group.map(|group| &group.offsets);
        GroupAnswer::Offsets(match partitions {
            Some(asked) => {
                let found =
                    |of: &TopicPartition| offsets.and_then(|offsets| offsets.get(&of.topic, of.partition)).cloned();
                asked.into_iter().map(|of| (of.clone(), found(&of))).collect()
            }
            None => {
                let all = offsets.into_iter().flat_map(Offsets::iter);
                all.map(|(of, committed)| (of, Some(committed.clone()))).collect()
            }
        })
    }

    fn delete_offsets(
        &self,
        name: &str,
        partitions: &[TopicPartition],
        effects: &mut Effects,
    ) -> (ErrorCode, Vec<ErrorCode>) {
        let Some(group) = self.groups.get(name) else { return (ErrorCode::GroupIdNotFound, Vec::new()) };
        if !group.is_empty() && group.protocol_type() != PROTOCOL_TYPE {
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
            Some(Group { members: Members::Classic(classic), .. }) => classic.describe(),
            Some(_) | None => DescribedGroup { state: "Dead", ..DescribedGroup::failed(ErrorCode::GroupIdNotFound) },
        }
    }

    fn describe_consumer(&self, name: &str) -> Result<DescribedConsumerGroup, Rejection> {
        match self.groups.get(name) {
            Some(Group { members: Members::Consumer(consumer), .. }) => Ok(consumer.describe()),
            Some(_) => Err(not_found(name, "is not a consumer group")),
            None => Err(not_found(name, "not found")),
        }
    }

    fn delete(&self, name: &str, effects: &mut Effects) -> ErrorCode {
        let Some(group) = self.groups.get(name) else { return ErrorCode::GroupIdNotFound };
        if !group.is_empty() {
            return ErrorCode::NonEmptyGroup;
        }
        let offsets = group.offsets.iter().map(|(of, _)| Record::OffsetRemoved { group: name.to_owned(), of });
        effects.records.extend(offsets);
        effects.records.extend(group.tombstones(name));
        ErrorCode::None
    }

    /// All groups, by name.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> {
        self.groups.iter().map(|(name, group)| group.listed(name))
    }

    /// When the next deadline is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// The next deadline that has come, if there is one: called until there is none.
    pub fn tick(&mut self, topics: &dyn Topics, now: Moment) -> Option<Effects> {
        if self.next_deadline().is_none_or(|at| at > now.instant) {
            return None;
        }
        let (_, name, timer) = self.timers.pop_first()?;
        let mut effects = Effects::default();
        match self.groups.get_mut(&name).map(|group| &mut group.members) {
            Some(Members::Classic(classic)) => classic.on_timer(&timer, &self.config, now, &mut effects),
            Some(Members::Consumer(consumer)) => {
                let effects = &mut effects;
                consumer.on_timer(&timer, &mut Step { topics, config: &self.config, now, effects });
            }
            None => {}
        }
        self.downgrade_if_due(&name, topics, now, &mut effects);
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
            if !has_others && group.is_deserted() && group.is_recorded {
                effects.records.extend(group.tombstones(name));
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
        if effects.is_membership {
            self.weigh_members(name);
        }
        // What is to be in the log is not void.
        if effects.records.is_empty() {
            self.drop_if_void(name);
        }
    }

    fn drop_if_void(&mut self, name: &str) {
        if self.groups.get(name).is_some_and(Group::is_void)
            && let Some(removed) = self.groups.remove(name)
        {
            self.bytes -= bytes_of(name, &removed);
        }
    }

    /// The group, a new one where there is none.
    fn add(&mut self, name: &str, new: impl FnOnce() -> Group) -> &mut Group {
        if !self.groups.contains_key(name) {
            self.bytes += GROUP_BYTES + 2 * name.len();
            self.groups.insert(name.to_owned(), new());
        }
        self.groups.get_mut(name).expect("just put there")
    }

    /// Counts what the members of a group come to now.
    fn weigh_members(&mut self, name: &str) {
        if let Some(group) = self.groups.get_mut(name) {
            let bytes = group.members_bytes();
            self.bytes = self.bytes - std::mem::replace(&mut group.members_bytes, bytes) + bytes;
        }
    }

    /// Takes up what is in the log, or what was appended by a step that does not concern members.
    pub fn replay(&mut self, record: Record, now: Moment) {
        match record {
            Record::Group { group: name, snapshot } => {
                let group = self.add(&name, || Group::classic(&name, now));
                group.members = Members::Classic(ClassicGroup::restored(name.clone(), snapshot));
                group.is_recorded = true;
                self.weigh_members(&name);
            }
            Record::GroupRemoved { group: name } => {
                if let Some(group) = self.groups.get_mut(&name)
                    && let Members::Classic(classic) = &mut group.members
                {
                    *classic = ClassicGroup::new(name.clone(), now);
                    group.is_recorded = false;
                }
                self.weigh_members(&name);
                self.drop_if_void(&name);
            }
            Record::Consumer { group, change } => self.replay_change(group, change),
            Record::Offset { group: name, of, committed } => {
                self.bytes += offset_bytes(&of, &committed);
                if let Some(before) = self.add(&name, || Group::classic(&name, now)).offsets.set(&of, committed) {
                    self.bytes -= offset_bytes(&of, &before);
                }
            }
            Record::OffsetRemoved { group: name, of } => {
                if let Some(removed) = self.groups.get_mut(&name).and_then(|group| group.offsets.remove(&of)) {
                    self.bytes -= offset_bytes(&of, &removed);
                }
                self.drop_if_void(&name);
            }
        }
    }

    fn replay_change(&mut self, name: String, change: Change) {
        let is_tombstone = change.is_tombstone();
        match self.groups.get_mut(&name) {
            None if is_tombstone => return,
            Some(Group { members: Members::Classic(_), .. }) if is_tombstone => return,
            _ => {}
        }
        let group = self.add(&name, || Group::consumer(&name));
        if !matches!(group.members, Members::Consumer(_)) {
            group.members = Members::Consumer(ConsumerGroup::new(name.clone()));
        }
        let Members::Consumer(consumer) = &mut group.members else { unreachable!("just put there") };
        group.is_recorded = if is_tombstone { group.is_recorded && change != Change::Epoch(None) } else { true };
        consumer.apply(change);
        self.weigh_members(&name);
        self.drop_if_void(&name);
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
                Record::Consumer { group, change } if change != Change::Epoch(None) => {
                    if let Some(group) = self.groups.get_mut(&group) {
                        group.is_recorded |= !change.is_tombstone();
                    }
                }
                other => self.replay(other, now),
            }
        }
    }

    /// The log has been read: from now on the members are expected.
    pub fn resume(&mut self, topics: &dyn Topics, now: Moment) {
        let names: Vec<_> = self.groups.keys().cloned().collect();
        for name in names {
            self.resume_group(&name, topics, now, &mut Effects::default());
        }
    }

    fn resume_group(&mut self, name: &str, topics: &dyn Topics, now: Moment, effects: &mut Effects) {
        match self.groups.get_mut(name).map(|group| &mut group.members) {
            Some(Members::Classic(classic)) => classic.resume(now, effects),
            Some(Members::Consumer(consumer)) => {
                consumer.resume(&mut Step { topics, config: &self.config, now, effects });
            }
            None => {}
        }
        self.settle(name, effects);
    }

    /// A step of this group's members was refused by the log: the group is again what the log has of it, as `read` is, and its members that
    /// wait are told `error`. Deadlines of the members as they were are passed over when they come.
    #[must_use]
    pub fn revert(
        &mut self,
        name: &str,
        mut read: Self,
        error: ErrorCode,
        topics: &dyn Topics,
        now: Moment,
    ) -> Effects {
        let mut effects = Effects::default();
        if let Some(mut refused) = self.groups.remove(name) {
            self.bytes -= bytes_of(name, &refused);
            if let Members::Classic(classic) = &mut refused.members {
                classic.disband(error, &mut effects);
            }
        }
        if let Some(group) = read.groups.remove(name) {
            self.bytes += bytes_of(name, &group);
            self.groups.insert(name.to_owned(), group);
            self.resume_group(name, topics, now, &mut effects);
        }
        effects
    }
}

fn bytes_of(name: &str, group: &Group) -> usize {
    let offsets = group.offsets.iter().map(|(of, committed)| offset_bytes(&of, committed)).sum::<usize>();
    GROUP_BYTES + 2 * name.len() + group.members_bytes + offsets
}

fn offset_bytes(of: &TopicPartition, committed: &CommittedOffset) -> usize {
    OFFSET_BYTES + of.topic.len() + committed.metadata.len()
}

fn not_found(name: &str, what: &str) -> Rejection {
    Rejection::new(ErrorCode::GroupIdNotFound, format!("Group {name} {what}."))
}
