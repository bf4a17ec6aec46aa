//! Deadlines of a group. One that comes may have moved since, or be about who has gone: then it is passed over.

use base::Instant;

use super::changes::MemberState;
use super::{ConsumerGroup, Member, Step, millis};
use crate::coordinator::effects::Timer;

impl ConsumerGroup {
    /// A deadline has come.
    pub fn on_timer(&mut self, timer: &Timer, step: &mut Step<'_>) {
        match timer {
            Timer::Session(id) => self.session_over(id, step),
            Timer::Revocation(id) => self.time_over(id, |member| member.revoke_by, step),
            Timer::MemberJoin(id) => self.time_over(id, |member| member.join_by, step),
            Timer::MemberSync(id) => self.time_over(id, |member| member.sync_by, step),
            // Of the group as it was before, with the classic protocol.
            Timer::Pending(_) | Timer::Join | Timer::Sync => {}
        }
    }

    fn time_over(&mut self, id: &str, deadline: impl Fn(&Member) -> Option<Instant>, step: &mut Step<'_>) {
        let deadline = self.members.get(id).and_then(deadline);
        if deadline.is_some_and(|deadline| deadline <= step.now.instant) {
            self.fence(id, step);
        }
    }

    fn session_over(&mut self, id: &str, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.timer_at = None;
        if step.now.instant < member.session_deadline {
            member.expect(id, member.session_deadline, step.effects);
        } else {
            self.fence(id, step);
        }
    }

    /// Once its log is read: from now on its members are expected, and what they are to give up.
    pub fn resume(&mut self, step: &mut Step<'_>) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            self.heard_of(&id, step);
            let member = &self.members[&id];
            if member.current.state == MemberState::UnrevokedPartitions && member.said.classic.is_none() {
                let deadline = step.now.instant + millis(member.said.rebalance_timeout_ms);
                self.revoke_by(&id, Some(deadline), step);
            }
        }
    }
}
