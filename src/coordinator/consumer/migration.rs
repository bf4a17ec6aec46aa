//! A group that changes its protocol while it has members: it begins as a classic one's heir, and leaves a classic one behind when its last member
//! that speaks the consumer protocol has gone.

use std::collections::BTreeMap;

use storage::LogId;
use wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition as Named, version_of,
};
use wire::{Array, DecodeError, ErrorCode, Versioned};

use super::changes::{Change, Classic, Current, GroupEpoch, MemberState, Said, Since, TargetEpoch};
use super::{ConsumerGroup, Member, Rejection, Step};
use crate::coordinator::classic::{ClassicMember, Takeover};
use crate::coordinator::effects::MemberSnapshot;
use crate::coordinator::topics::Topics;

/// What a classic member says to its assignor, as far as it matters here.
pub struct Subscribed {
    pub topics: Vec<String>,
    pub rack_id: Option<String>,
    pub owned: Vec<LogId>,
}

impl Subscribed {
    /// # Errors
    /// Bytes that are no subscription.
    pub fn read(bytes: &[u8], topics: &dyn Topics) -> Result<Self, DecodeError> {
        let said = ConsumerProtocolSubscription::read(bytes)?;
        Ok(Self {
            topics: said.topics.iter().map(str::to_owned).collect(),
            rack_id: said.rack_id.map(str::to_owned),
            owned: by_id(&said.owned_partitions, topics),
        })
    }
}

/// Partitions by the ids of their topics; those of topics that are gone are left out.
fn by_id(named: &Array<'_, Named<'_>>, topics: &dyn Topics) -> Vec<LogId> {
    let of_topic = |named: Named<'_>| {
        let topic = topics.topic(named.topic);
        let id = |partition| Some(LogId { topic_id: topic?.id, partition });
        named.partitions.iter().filter_map(id).collect::<Vec<_>>()
    };
    named.iter().flat_map(of_topic).collect()
}

/// A share as members of the classic protocol read it, in the version that this one speaks.
pub fn assignment(assigned: &Since, classic: &Classic, topics: &dyn Topics) -> Vec<u8> {
    let mut named: BTreeMap<&str, Vec<base::PartitionIndex>> = BTreeMap::new();
    for id in assigned.keys() {
        if let Some(name) = topics.name(id.topic_id) {
            named.entry(name).or_default().push(id.partition);
        }
    }
    let topic = |(topic, partitions): (_, Vec<_>)| Named { topic, partitions: partitions.into() };
    let assignment =
        ConsumerProtocolAssignment { assigned_partitions: named.into_iter().map(topic).collect(), user_data: None };
    let version = classic.protocols.first().and_then(|first| version_of(&first.metadata).ok()).unwrap_or(0);
    assignment.to_bytes(version).expect("names of topics are short enough")
}

impl ConsumerGroup {
    /// A group with the members of a classic one, each with what it had there.
    ///
    /// # Errors
    /// What members said can't be read.
    pub fn upgraded(
        name: &str,
        generation: i32,
        members: &[ClassicMember],
        step: &mut Step<'_>,
    ) -> Result<Self, Rejection> {
        let malformed = |error: DecodeError| {
            let reason = format!("The members of group {name} can't be understood: {error}.");
            Rejection::new(ErrorCode::GroupIdNotFound, reason)
        };
        let read: Vec<(Said, Since)> = members
            .iter()
            .map(|member| read_member(member, generation, step.topics))
            .collect::<Result<_, _>>()
            .map_err(malformed)?;
        let mut group = Self::new(name.to_owned());
        let epoch = GroupEpoch { epoch: generation, topics_hash: 0 };
        group.change(Change::Epoch(Some(epoch)), step.effects);
        for (member, (said, assigned)) in members.iter().zip(read) {
            let member_id = || member.snapshot.member_id.clone();
            let partitions = Some(assigned.keys().copied().collect());
            group.change(Change::Member { member_id: member_id(), said: Some(said) }, step.effects);
            group.change(Change::Target { member_id: member_id(), partitions }, step.effects);
            let current = Current {
                epoch: generation,
                previous_epoch: generation,
                state: MemberState::Stable,
                assigned,
                revoking: Since::new(),
            };
            group.change(Change::Current { member_id: member_id(), current: Some(current) }, step.effects);
            group.heard_of(&member_id(), step);
        }
        let epoch = TargetEpoch { epoch: generation, since: step.now.wall };
        group.change(Change::TargetEpoch(Some(epoch)), step.effects);
        Ok(group)
    }

    /// What is left to a classic group, where all members speak that protocol.
    #[must_use]
    pub fn left_to_classic(&self, topics: &dyn Topics) -> Option<Takeover> {
        let member = |(id, member): (&String, &Member)| {
            let classic = member.said.classic.as_ref()?;
            let snapshot = MemberSnapshot {
                member_id: id.clone(),
                instance_id: member.said.instance_id.clone(),
                client_id: member.said.client_id.clone(),
                client_host: member.said.client_host.clone(),
                rebalance_timeout_ms: member.said.rebalance_timeout_ms,
                session_timeout_ms: classic.session_timeout_ms,
                metadata: classic.protocols.first().map(|first| first.metadata.clone()).unwrap_or_default(),
                assignment: assignment(&member.current.assigned, classic, topics),
            };
            Some(ClassicMember { snapshot, protocols: classic.protocols.clone() })
        };
        let members: Vec<_> = self.members.iter().map(member).collect::<Option<_>>()?;
        if members.is_empty() {
            return None;
        }
        // Most are in the newest epoch that any is in: they are asked to join again, others are told that theirs is over.
        let generation = self.members.values().map(|member| member.current.epoch).max().unwrap_or_default();
        Some(Takeover { generation, members, is_settled: self.state_name() == "Stable" })
    }
}

fn read_member(member: &ClassicMember, generation: i32, topics: &dyn Topics) -> Result<(Said, Since), DecodeError> {
    let ClassicMember { snapshot, protocols } = member;
    let subscribed = Subscribed::read(&snapshot.metadata, topics)?;
    // Between two generations it has what it says that it has kept, if it has kept anything.
    let assigned = if snapshot.assignment.is_empty() {
        subscribed.owned
    } else {
        by_id(&ConsumerProtocolAssignment::read(&snapshot.assignment)?.assigned_partitions, topics)
    };
    let said = Said {
        instance_id: snapshot.instance_id.clone(),
        rack_id: subscribed.rack_id,
        client_id: snapshot.client_id.clone(),
        client_host: snapshot.client_host.clone(),
        topics: subscribed.topics.into_iter().collect(),
        regex: None,
        rebalance_timeout_ms: snapshot.rebalance_timeout_ms,
        assignor: None,
        classic: Some(Classic { session_timeout_ms: snapshot.session_timeout_ms, protocols: protocols.clone() }),
    };
    Ok((said, assigned.into_iter().map(|id| (id, generation)).collect()))
}
