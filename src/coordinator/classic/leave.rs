//! LeaveGroup: members go by their word, or are taken out by an administrator.

use wire::ErrorCode;

use super::{ClassicGroup, GroupConfig, Moment, State};
use crate::coordinator::effects::Effects;
use crate::coordinator::message::Leaving;

impl ClassicGroup {
    /// Lets each go; what each is answered.
    pub fn leave(
        &mut self,
        leaving: &[Leaving],
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) -> Vec<ErrorCode> {
        let mut changed = false;
        let outcomes = leaving.iter().map(|leaving| self.leave_one(leaving, &mut changed, effects)).collect();
        if changed {
            self.after_departure(config, now, effects);
        }
        outcomes
    }

    fn leave_one(&mut self, leaving: &Leaving, changed: &mut bool, effects: &mut Effects) -> ErrorCode {
        let mut id = leaving.member_id.clone();
        if id.is_empty() {
            let known = leaving.instance_id.as_ref().and_then(|instance| self.instances.get(instance));
            let Some(known) = known else { return ErrorCode::UnknownMemberId };
            id.clone_from(known);
        } else if self.pending.remove(&id).is_some() {
            *changed = true;
            effects.is_membership = true;
            return ErrorCode::None;
        }
        if let Err(error) = self.check_member(&id, leaving.instance_id.as_deref()) {
            return error;
        }
        self.drop_member(&id, ErrorCode::UnknownMemberId, effects);
        *changed = true;
        ErrorCode::None
    }

    /// Takes a member out. What it waits for is answered with the error.
    pub(super) fn drop_member(&mut self, id: &str, error: ErrorCode, effects: &mut Effects) {
        let Some(mut member) = self.members.remove(id) else { return };
        effects.is_membership = true;
        member.fail(id, error, effects);
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Some have gone: the others share anew, or are complete now.
    pub(super) fn after_departure(&mut self, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        match self.state {
            State::Empty => {}
            State::PreparingRebalance(_) => self.go_on_if_all_joined(now, effects),
            State::CompletingRebalance { .. } | State::Stable => self.rebalance(config, now, effects),
        }
    }
}
