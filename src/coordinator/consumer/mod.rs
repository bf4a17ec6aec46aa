//! One group whose coordinator assigns the partitions (KIP-848). Pure; Kafka's `ConsumerGroup` and its records are the reference.
//!
//! Three epochs chase each other. The *group epoch* grows when members, subscriptions or topics change; the *assignment epoch* is the group epoch
//! that the targets were computed for; a *member epoch* is the assignment epoch that the member has come to. Members come to their targets one
//! heartbeat at a time, each by itself: nobody waits but for partitions that others have to give up.
//!
//! Invariants
//! - What the log keeps changes by [`ConsumerGroup::apply`] alone, in a step as in a replay: a step that is not appended ends the term, and the
//!   group is read again.
//! - A partition is one member's from when it is told so until it says that it has given it up, or is fenced. A member owns what its record says:
//!   what is assigned, and what it has yet to give up.
//! - A member that speaks of an epoch that is neither its own nor, with an answer lost, the one before, is fenced.

mod changes;
mod classic_members;
mod describe;
mod heartbeat;
mod leave;
mod message;
mod migration;
mod reconcile;
mod records;
mod regex;
mod target;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, HashMap};

use base::Instant;
use storage::LogId;
use wire::ErrorCode;

pub use changes::Change;
pub use message::{ConsumerHeartbeat, DescribedConsumer, DescribedConsumerGroup, HeartbeatTold, JOINS, Rejection};
pub use records::{decode, encode};

use super::assignor::Partitions;
use super::config::{GroupConfig, millis};
use super::effects::{Effects, Record, Timer};
use super::message::Speaker;
use super::table::Moment;
use super::topics::Topics;
use changes::{Current, GroupEpoch, MemberState, Resolved, Said, TargetEpoch};
use message::LEAVES_FOR_A_WHILE;

/// What a step works with.
pub struct Step<'s> {
    pub topics: &'s dyn Topics,
    pub config: &'s GroupConfig,
    pub now: Moment,
    pub effects: &'s mut Effects,
}

/// A member: what the log keeps of it, and its deadlines.
#[derive(Clone, Debug, Default)]
struct Member {
    said: Said,
    target: Partitions,
    current: Current,
    /// Until when it must be heard of.
    session_deadline: Instant,
    /// The deadline that is in line for it, which may be an earlier one.
    timer_at: Option<Instant>,
    /// Until when it must have given up what it was told to.
    revoke_by: Option<Instant>,
    /// Until when it must have joined again, if it speaks the classic protocol and was told to.
    join_by: Option<Instant>,
    /// Until when it must have asked for its share, if it speaks the classic protocol and has joined.
    sync_by: Option<Instant>,
}

impl Member {
    fn has_left_for_a_while(&self) -> bool {
        self.current.epoch == LEAVES_FOR_A_WHILE
    }

    fn is_reconciled(&self, assignment_epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == assignment_epoch
    }
}

/// A group. Made without members; the table drops it once it is of no use.
#[derive(Clone, Debug, Default)]
pub struct ConsumerGroup {
    name: String,
    epoch: GroupEpoch,
    assignment: TargetEpoch,
    members: BTreeMap<String, Member>,
    regexes: BTreeMap<String, Resolved>,
    /// The member that stands for an instance; follows from the members.
    instances: BTreeMap<String, String>,
    /// Who may own a partition; follows from the members.
    owners: HashMap<LogId, String>,
    /// Of the topics that the targets were last held against; unknown after the log was read.
    topics_version: Option<u64>,
}

impl ConsumerGroup {
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    #[must_use]
    pub fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// What its members come to on the heap, about.
    #[must_use]
    pub fn members_bytes(&self) -> usize {
        const MEMBER_BYTES: usize = 900;
        const TOPIC_BYTES: usize = 64;
        // In the target, in what it has, and among the owners.
        const PARTITION_BYTES: usize = 250;
        let of_member = |(id, member): (&String, &Member)| {
            let topics: usize = member.said.topics.iter().map(|topic| TOPIC_BYTES + topic.len()).sum();
            let partitions = member.target.len() + member.current.assigned.len() + member.current.revoking.len();
            MEMBER_BYTES + 4 * id.len() + topics + partitions * PARTITION_BYTES
        };
        let of_regex = |(expression, found): (&String, &Resolved)| {
            TOPIC_BYTES + expression.len() + found.topics.iter().map(|topic| TOPIC_BYTES + topic.len()).sum::<usize>()
        };
        self.members.iter().map(of_member).sum::<usize>() + self.regexes.iter().map(of_regex).sum::<usize>()
    }

    /// Takes a change up: the one place where what the log keeps becomes another.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Epoch(Some(epoch)) => self.epoch = epoch,
            // The group is gone, and whoever makes it again begins from nothing.
            Change::Epoch(None) => *self = Self::new(std::mem::take(&mut self.name)),
            Change::TargetEpoch(epoch) => self.assignment = epoch.unwrap_or_default(),
            Change::Member { member_id, said: Some(said) } => {
                self.stand_down(&member_id);
                if let Some(instance) = &said.instance_id {
                    self.instances.insert(instance.clone(), member_id.clone());
                }
                self.members.entry(member_id).or_default().said = said;
            }
            Change::Member { member_id, said: None } => {
                self.own(&member_id, Current::default());
                self.stand_down(&member_id);
                self.members.remove(&member_id);
            }
            Change::Target { member_id, partitions: Some(partitions) } => {
                self.members.entry(member_id).or_default().target = partitions;
            }
            Change::Target { member_id, partitions: None } => {
                if let Some(member) = self.members.get_mut(&member_id) {
                    member.target = Partitions::new();
                }
            }
            Change::Current { member_id, current: Some(current) } => {
                self.members.entry(member_id.clone()).or_default();
                self.own(&member_id, current);
            }
            Change::Current { member_id, current: None } => self.own(&member_id, Current::default()),
            Change::Regex { expression, resolved: Some(resolved) } => _ = self.regexes.insert(expression, resolved),
            Change::Regex { expression, resolved: None } => _ = self.regexes.remove(&expression),
        }
    }

    /// The member stands for no instance.
    fn stand_down(&mut self, member_id: &str) {
        let instance = self.members.get(member_id).and_then(|member| member.said.instance_id.as_ref());
        if let Some(instance) = instance
            && self.instances.get(instance).is_some_and(|known| known == member_id)
        {
            self.instances.remove(instance);
        }
    }

    /// The member has this from now on, and owns what it says.
    fn own(&mut self, member_id: &str, current: Current) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let before = std::mem::replace(&mut member.current, current);
        for id in before.assigned.keys().chain(before.revoking.keys()) {
            if self.owners.get(id).is_some_and(|owner| owner == member_id) {
                self.owners.remove(id);
            }
        }
        for id in member.current.assigned.keys().chain(member.current.revoking.keys()) {
            self.owners.insert(*id, member_id.to_owned());
        }
    }

    /// A change of this step: for the log, and at once.
    fn change(&mut self, change: Change, effects: &mut Effects) {
        effects.is_membership = true;
        effects.records.push(Record::Consumer { group: self.name.clone(), change: change.clone() });
        self.apply(change);
    }

    /// Whether a member says that it reads the topic.
    #[must_use]
    pub fn reads(&self, topic: &str) -> bool {
        let by_regex = |regex: &String| self.regexes.get(regex).is_some_and(|found| found.topics.contains(topic));
        self.members
            .values()
            .any(|member| member.said.topics.contains(topic) || member.said.regex.as_ref().is_some_and(by_regex))
    }

    /// Whether offsets of this speaker are taken, for all partitions or for those that [`ConsumerGroup::admits_offset`] says.
    ///
    /// # Errors
    /// What its commit is answered with.
    pub fn admit_commit(&self, speaker: &Speaker, knows_epochs: bool) -> Result<(), ErrorCode> {
        if speaker.generation < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.members.get(&speaker.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if member.said.classic.is_none() && !knows_epochs {
            return Err(ErrorCode::UnsupportedVersion);
        }
        member.check_offsets_of(speaker.generation)
    }

    /// Whether a member that was told to commit may commit this: with an epoch from before, what it has had since then (KIP-1251).
    #[must_use]
    pub fn admits_offset(&self, speaker: &Speaker, of: LogId) -> bool {
        let Some(member) = self.members.get(&speaker.member_id) else { return true };
        let current = &member.current;
        let since = current.assigned.get(&of).or_else(|| current.revoking.get(&of));
        speaker.generation == current.epoch || since.is_some_and(|since| *since <= speaker.generation)
    }

    /// Whether a member may be told offsets. Who names none, as an administrator does, is told.
    ///
    /// # Errors
    /// What it is answered with.
    pub fn admit_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let Some(member_id) = member_id.filter(|id| epoch >= 0 || !id.is_empty()) else { return Ok(()) };
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if epoch == member.current.epoch { Ok(()) } else { Err(member.of_another_epoch()) }
    }

    fn heard_of(&mut self, member_id: &str, step: &mut Step<'_>) {
        if let Some(member) = self.members.get_mut(member_id) {
            let timeout = match &member.said.classic {
                Some(classic) => millis(classic.session_timeout_ms),
                None => step.config.consumer.session_timeout(&self.name),
            };
            member.expect(member_id, step.now.instant + timeout, step.effects);
        }
    }
}

impl Member {
    /// Must be heard of by then.
    fn expect(&mut self, member_id: &str, deadline: Instant, effects: &mut Effects) {
        self.session_deadline = deadline;
        if self.timer_at.is_none_or(|at| at > deadline) {
            self.timer_at = Some(deadline);
            effects.timers.push((deadline, Timer::Session(member_id.to_owned())));
        }
    }

    /// What is wrong with another epoch than the member's, in the words of its protocol.
    fn of_another_epoch(&self) -> ErrorCode {
        if self.said.classic.is_some() { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch }
    }

    fn check_offsets_of(&self, epoch: i32) -> Result<(), ErrorCode> {
        let is_from_before = self.said.classic.is_none() && (0..self.current.epoch).contains(&epoch);
        if epoch == self.current.epoch || is_from_before { Ok(()) } else { Err(self.of_another_epoch()) }
    }
}
