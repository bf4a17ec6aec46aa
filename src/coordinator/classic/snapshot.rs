//! A group as its log keeps it.

use base::WallTime;

use super::{ClassicGroup, Member, Moment, State, Waiting};
use crate::coordinator::effects::{Effects, GroupSnapshot, MemberSnapshot};
use crate::coordinator::message::Protocol;

impl ClassicGroup {
    #[must_use]
    pub fn snapshot(&self) -> GroupSnapshot {
        let member = |(id, member): (&String, &Member)| MemberSnapshot {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            metadata: member.metadata(self.protocol.as_deref()).to_vec(),
            assignment: member.assignment.clone(),
        };
        GroupSnapshot {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_since: self.state_since,
            members: self.members.iter().map(member).collect(),
        }
    }

    /// The group as its last record has it: its members have their shares, and until their sessions end to be heard of.
    #[must_use]
    pub fn restored(name: String, snapshot: GroupSnapshot) -> Self {
        let protocol = snapshot.protocol.clone();
        let mut group = Self::new(name, Moment { instant: base::Instant(0), wall: WallTime(0) });
        for member in snapshot.members {
            if let Some(instance) = &member.instance_id {
                group.instances.insert(instance.clone(), member.member_id.clone());
            }
            let name = protocol.clone().unwrap_or_default();
            let restored = Member {
                instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols: vec![Protocol { name, metadata: member.metadata }],
                assignment: member.assignment,
                waiting: Waiting::Nothing,
                earlier_joins: Vec::new(),
                is_new: false,
                has_synced: true,
                session_deadline: base::Instant(0),
                timer_at: None,
            };
            group.members.insert(member.member_id, restored);
        }
        group.generation = snapshot.generation;
        group.protocol_type = Some(snapshot.protocol_type).filter(|kind| !kind.is_empty());
        group.protocol = snapshot.protocol;
        group.leader = snapshot.leader;
        group.state = if group.members.is_empty() { State::Empty } else { State::Stable };
        group.state_since = snapshot.state_since;
        group
    }

    /// Once its log is read: from now on its members are expected.
    pub fn resume(&mut self, now: Moment, effects: &mut Effects) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        ids.iter().for_each(|id| self.heard_of(id, now, effects));
    }
}
