//! A group that changes its protocol while it has members (KIP-848): what it leaves to a group whose coordinator assigns the partitions, and how
//! it takes such a group over.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::consumer_protocol::PROTOCOL_TYPE;

use super::{ClassicGroup, GroupConfig, Member, Moment, State, Waiting};
use crate::coordinator::effects::{Effects, MemberSnapshot};
use crate::coordinator::message::Protocol;

/// A member with all that it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicMember {
    pub snapshot: MemberSnapshot,
    pub protocols: Vec<Protocol>,
}

/// A group that goes over to the classic protocol.
pub struct Takeover {
    pub generation: i32,
    pub members: Vec<ClassicMember>,
    /// Each has what it is to have: nobody need join again.
    pub is_settled: bool,
}

impl ClassicGroup {
    #[must_use]
    pub fn generation(&self) -> i32 {
        self.generation
    }

    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The members, with what each said to the protocol that was chosen, or to its own first where none was yet.
    #[must_use]
    pub fn members(&self) -> Vec<ClassicMember> {
        let snapshots = self.snapshot().members;
        let with_protocols = |(snapshot, member): (MemberSnapshot, &Member)| {
            let protocols = member.protocols.clone();
            let first = protocols.first().map(|first| first.metadata.clone()).unwrap_or_default();
            let metadata = if self.protocol.is_some() { snapshot.metadata.clone() } else { first };
            ClassicMember { snapshot: MemberSnapshot { metadata, ..snapshot }, protocols }
        };
        snapshots.into_iter().zip(self.members.values()).map(with_protocols).collect()
    }

    /// The group is not what its members take it for any more: whoever waits is told so.
    pub fn disband(&mut self, error: ErrorCode, effects: &mut Effects) {
        for (id, member) in &mut self.members {
            member.fail(id, error, effects);
        }
    }

    /// A group of members that spoke the classic protocol to a consumer group, and are alone now.
    #[must_use]
    pub fn taken_over(
        name: String,
        takeover: Takeover,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) -> Self {
        let mut group = Self::new(name, now);
        let instance =
            |member: &ClassicMember| Some((member.snapshot.instance_id.clone()?, member.snapshot.member_id.clone()));
        group.instances = takeover.members.iter().filter_map(instance).collect();
        group.members = takeover.members.into_iter().map(restored).collect::<BTreeMap<_, _>>();
        group.generation = takeover.generation;
        group.protocol_type = Some(PROTOCOL_TYPE.to_owned());
        group.protocol = group.choose_protocol();
        group.leader = group.members.keys().next().cloned();
        group.enter(State::Stable, now);
        group.resume(now, effects);
        effects.records.push(group.record());
        if !takeover.is_settled {
            group.rebalance(config, now, effects);
        }
        group
    }
}

fn restored(member: ClassicMember) -> (String, Member) {
    let ClassicMember { snapshot, protocols } = member;
    let member = Member {
        instance_id: snapshot.instance_id,
        client_id: snapshot.client_id,
        client_host: snapshot.client_host,
        rebalance_timeout_ms: snapshot.rebalance_timeout_ms,
        session_timeout_ms: snapshot.session_timeout_ms,
        protocols,
        assignment: snapshot.assignment,
        waiting: Waiting::Nothing,
        earlier_joins: Vec::new(),
        is_new: false,
        has_synced: true,
        session_deadline: base::Instant(0),
        timer_at: None,
    };
    (snapshot.member_id, member)
}
