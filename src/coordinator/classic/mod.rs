//! One group with the classic protocol: members join, one of them leads and shares the partitions out, each fetches its share (KIP-62, KIP-345,
//! KIP-394, KIP-814). Pure; Kafka's `ClassicGroup` is the reference for every code and time-out.
//!
//! Invariants
//! - A generation begins with the members whose JoinGroup waits, and with all static ones; each of the former is answered then.
//! - A member waits for one thing at a time. Who asks to join again while that waits is answered both times, with the same generation;
//!   any other request takes the place of the earlier one, which fails.
//! - Shares are kept in the log before anybody is told of them.

mod join;
mod leave;
mod migration;
mod snapshot;
mod sync;
mod timers;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use base::{Instant, WallTime};
use wire::ErrorCode;
use wire::consumer_protocol::PROTOCOL_TYPE;

pub use migration::{ClassicMember, Takeover};

use super::config::{GroupConfig, millis};
use super::effects::{Effects, Record, Timer};
use super::message::{DescribedGroup, DescribedMember, GroupAnswer, Joined, Protocol, Speaker, Synced, Ticket};
use super::table::Moment;

/// Where a group is in its life.
#[derive(Clone, Debug)]
enum State {
    /// No members.
    Empty,
    /// Members are asked to join.
    PreparingRebalance(Joining),
    /// The generation has begun; its leader is to share the partitions out.
    CompletingRebalance { deadline: Instant },
    /// Each has its share.
    Stable,
}

/// How long a group waits for members.
#[derive(Clone, Debug)]
struct Joining {
    deadline: Instant,
    /// Set for a group that had no members: others that start at the same time are waited for (`group.initial.rebalance.delay.ms`).
    initial: Option<Initial>,
}

#[derive(Clone, Debug)]
struct Initial {
    /// How much longer it may take in all.
    left: Duration,
    member_added: bool,
}

/// What a member waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    Nothing,
    Join(Ticket),
    Sync(Ticket),
}

#[derive(Clone, Debug)]
struct Member {
    instance_id: Option<String>,
    client_id: String,
    client_host: String,
    rebalance_timeout_ms: i32,
    session_timeout_ms: i32,
    protocols: Vec<Protocol>,
    assignment: Vec<u8>,
    waiting: Waiting,
    /// JoinGroups that came before the one that it waits for, the oldest first: [`join::EARLIER_JOINS_MAX`] at most.
    earlier_joins: Vec<Ticket>,
    /// It has not been in a generation yet.
    is_new: bool,
    /// It has asked for its share of this generation.
    has_synced: bool,
    /// Until when it must be heard of.
    session_deadline: Instant,
    /// The deadline that is in line for it, which may be an earlier one.
    timer_at: Option<Instant>,
}

impl Member {
    fn metadata(&self, protocol: Option<&str>) -> &[u8] {
        let known = self.protocols.iter().find(|known| Some(known.name.as_str()) == protocol);
        known.map_or(&[], |known| &known.metadata)
    }

    fn waits_for_join(&self) -> bool {
        matches!(self.waiting, Waiting::Join(_))
    }

    /// Answers what it waits for, if it does, with a failure.
    fn fail(&mut self, member_id: &str, error: ErrorCode, effects: &mut Effects) {
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => {}
            Waiting::Join(ticket) => {
                for ticket in self.earlier_joins.drain(..).chain([ticket]) {
                    effects.answer(ticket, GroupAnswer::Joined(Joined::failed(error, member_id.to_owned())));
                }
            }
            Waiting::Sync(ticket) => effects.answer(ticket, GroupAnswer::Synced(Synced::failed(error))),
        }
    }
}

/// A group. Made without members; the table drops it once it is of no use.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    name: String,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    state: State,
    state_since: WallTime,
    members: BTreeMap<String, Member>,
    /// The member that stands for an instance.
    instances: BTreeMap<String, String>,
    /// Ids that were given to somebody who is to come again with it, and until when.
    pending: BTreeMap<String, Instant>,
}

impl ClassicGroup {
    #[must_use]
    pub fn new(name: String, now: Moment) -> Self {
        Self {
            name,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            state: State::Empty,
            state_since: now.wall,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.state, State::Empty)
    }

    /// Without members and nobody on the way.
    #[must_use]
    pub fn is_deserted(&self) -> bool {
        self.is_empty() && self.pending.is_empty()
    }

    #[must_use]
    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    #[must_use]
    pub fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// What its members come to on the heap, about.
    #[must_use]
    pub fn members_bytes(&self) -> usize {
        const MEMBER_BYTES: usize = 700;
        let of_protocols = |member: &Member| -> usize {
            member.protocols.iter().map(|known| 64 + known.name.len() + known.metadata.len()).sum()
        };
        let of_member = |(id, member): (&String, &Member)| {
            let texts = member.client_id.len() + member.client_host.len() + 3 * id.len();
            MEMBER_BYTES + texts + of_protocols(member) + member.assignment.len()
        };
        self.members.iter().map(of_member).sum::<usize>() + self.pending.len() * MEMBER_BYTES
    }

    /// Since when it has no members, and none is expected.
    #[must_use]
    pub fn empty_since(&self) -> Option<WallTime> {
        self.is_empty().then_some(self.state_since)
    }

    /// As ListGroups and DescribeGroups name it.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Empty => "Empty",
            State::PreparingRebalance(_) => "PreparingRebalance",
            State::CompletingRebalance { .. } => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    /// The member that comes next by its id, and its share, which it has from generation to generation until it has asked for another one.
    #[must_use]
    pub fn share_after(&self, member_id: Option<&str>) -> Option<(&str, &[u8])> {
        if self.protocol_type() != Some(PROTOCOL_TYPE) {
            return None;
        }
        let from = member_id.map_or(Unbounded, Excluded);
        let (id, member) = self.members.range::<str, _>((from, Unbounded)).next()?;
        Some((id, &member.assignment))
    }

    /// What a member calls itself, and where it is.
    #[must_use]
    pub fn client_of(&self, member_id: &str) -> Option<(&str, &str)> {
        self.members.get(member_id).map(|member| (member.client_id.as_str(), member.client_host.as_str()))
    }

    /// What the members said to the protocol that was chosen.
    pub fn subscriptions(&self) -> impl Iterator<Item = &[u8]> {
        self.members.values().map(|member| member.metadata(self.protocol.as_deref()))
    }

    /// As DescribeGroups shows it: what members said and have only while that holds.
    #[must_use]
    pub fn describe(&self) -> DescribedGroup {
        let is_stable = matches!(self.state, State::Stable);
        let protocol = self.protocol.as_deref().filter(|_| is_stable);
        let member = |(id, member): (&String, &Member)| DescribedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(protocol).to_vec(),
            assignment: if is_stable { member.assignment.clone() } else { Vec::new() },
        };
        DescribedGroup {
            error: ErrorCode::None,
            state: self.state_name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().to_owned(),
            members: self.members.iter().map(member).collect(),
        }
    }

    /// Whether who speaks is a member, and the one that stands for its instance.
    fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance_id {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if known != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// As [`ClassicGroup::check_member`], and of this generation.
    fn check_speaker(&self, speaker: &Speaker) -> Result<(), ErrorCode> {
        self.check_member(&speaker.member_id, speaker.instance_id.as_deref())?;
        if speaker.generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    /// Whether offsets of this speaker are taken. An offset from a member proves that it is alive.
    ///
    /// # Errors
    /// What its commit is answered with.
    pub fn admit_commit(&mut self, speaker: &Speaker, now: Moment, effects: &mut Effects) -> Result<(), ErrorCode> {
        let Speaker { member_id, instance_id, generation } = speaker;
        if *generation < 0 && self.is_empty() {
            return Ok(());
        }
        if *generation < 0 && member_id.is_empty() && instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_speaker(speaker)?;
        if let State::CompletingRebalance { .. } = self.state {
            return Err(ErrorCode::RebalanceInProgress);
        }
        self.heard_of(member_id, now, effects);
        Ok(())
    }

    /// A sign of life.
    pub fn heartbeat(&mut self, speaker: &Speaker, now: Moment, effects: &mut Effects) -> ErrorCode {
        if let Err(error) = self.check_speaker(speaker) {
            return error;
        }
        self.heard_of(&speaker.member_id, now, effects);
        if let State::PreparingRebalance(_) = self.state { ErrorCode::RebalanceInProgress } else { ErrorCode::None }
    }

    fn heard_of(&mut self, member_id: &str, now: Moment, effects: &mut Effects) {
        if let Some(member) = self.members.get_mut(member_id) {
            let timeout = millis(member.session_timeout_ms);
            member.expect(member_id, now.instant + timeout, effects);
        }
    }

    fn enter(&mut self, state: State, now: Moment) {
        self.state = state;
        self.state_since = now.wall;
    }

    /// The longest that any member may take to join.
    fn rebalance_timeout(&self) -> Duration {
        millis(self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0))
    }

    fn record(&self) -> Record {
        Record::Group { group: self.name.clone(), snapshot: self.snapshot() }
    }

    /// The protocol that all members know and most want first; ties go to the one that comes first by name.
    fn choose_protocol(&self) -> Option<String> {
        let of_all =
            |name: &str| self.members.values().all(|member| member.protocols.iter().any(|known| known.name == name));
        let first = self.members.values().next()?;
        let candidates: Vec<_> =
            first.protocols.iter().map(|known| known.name.as_str()).filter(|name| of_all(name)).collect();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let choice = member.protocols.iter().find(|known| candidates.contains(&known.name.as_str()));
            *votes.entry(&choice?.name).or_default() += 1;
        }
        votes.into_iter().rev().max_by_key(|(_, votes)| *votes).map(|(name, _)| name.to_owned())
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
}
