//! SyncGroup: the leader says who has what, and each member is told its share.

use wire::ErrorCode;

use super::{ClassicGroup, GroupConfig, Moment, State, Waiting};
use crate::coordinator::effects::{Effects, Timer};
use crate::coordinator::message::{GroupAnswer, Sync, Synced, Ticket};

impl ClassicGroup {
    /// Has a member wait for its share, or tells it.
    pub fn sync(&mut self, sync: Sync, ticket: Ticket, now: Moment, effects: &mut Effects) {
        if let Err(error) = self.try_sync(sync, ticket, now, effects) {
            effects.answer(ticket, GroupAnswer::Synced(Synced::failed(error)));
        }
    }

    fn try_sync(&mut self, sync: Sync, ticket: Ticket, now: Moment, effects: &mut Effects) -> Result<(), ErrorCode> {
        self.check_speaker(&sync.speaker)?;
        let differs = |said: &Option<String>, own: &Option<String>| said.is_some() && own.is_some() && said != own;
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let id = sync.speaker.member_id;
        match self.state {
            State::Empty => return Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance(_) => return Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance { .. } => {
                let member = self.members.get_mut(&id).expect("checked to be a member");
                member.fail(&id, ErrorCode::RebalanceInProgress, effects);
                (member.waiting, member.has_synced) = (Waiting::Sync(ticket), true);
                if self.leader.as_ref() == Some(&id) {
                    self.assign(sync.assignments, now, effects);
                }
            }
            State::Stable => {
                self.members.get_mut(&id).expect("checked to be a member").has_synced = true;
                self.tell_share(&id, ticket, now, effects);
            }
        }
        Ok(())
    }

    /// The shares are as the leader says, and nothing for those that it leaves out.
    fn assign(&mut self, mut assignments: Vec<(String, Vec<u8>)>, now: Moment, effects: &mut Effects) {
        effects.is_membership = true;
        assignments.sort_by(|one, other| one.0.cmp(&other.0));
        for (id, member) in &mut self.members {
            let found = assignments.binary_search_by(|(of, _)| of.cmp(id)).ok();
            member.assignment = found.map(|at| std::mem::take(&mut assignments[at].1)).unwrap_or_default();
        }
        self.enter(State::Stable, now);
        effects.records.push(self.record());
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let member = self.members.get_mut(&id).expect("one of the members");
            if let Waiting::Sync(ticket) = std::mem::replace(&mut member.waiting, Waiting::Nothing) {
                self.tell_share(&id, ticket, now, effects);
            }
        }
    }

    fn tell_share(&mut self, id: &str, ticket: Ticket, now: Moment, effects: &mut Effects) {
        let assignment = self.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default();
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        effects.answer(
            ticket,
            GroupAnswer::Synced(Synced { error: ErrorCode::None, protocol_type, protocol, assignment }),
        );
        self.heard_of(id, now, effects);
    }

    /// Those that have not asked for their share in time have gone.
    pub(super) fn sync_time_over(&mut self, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        if let State::CompletingRebalance { deadline } = self.state
            && now.instant < deadline
        {
            effects.timers.push((deadline, Timer::Sync));
            return;
        }
        if !matches!(self.state, State::CompletingRebalance { .. } | State::Stable) {
            return;
        }
        let late: Vec<_> =
            self.members.iter().filter(|(_, member)| !member.has_synced).map(|(id, _)| id.clone()).collect();
        for id in &late {
            self.drop_member(id, ErrorCode::UnknownMemberId, effects);
        }
        if !late.is_empty() {
            self.rebalance(config, now, effects);
        }
    }
}
