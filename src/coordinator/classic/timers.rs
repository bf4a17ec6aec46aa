//! Deadlines of a group. One that comes may have moved since, or be about who has gone: then it is passed over.

use wire::ErrorCode;

use super::{ClassicGroup, GroupConfig, Moment};
use crate::coordinator::effects::{Effects, Timer};

impl ClassicGroup {
    /// A deadline has come.
    pub fn on_timer(&mut self, timer: &Timer, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        match timer {
            Timer::Session(id) => self.session_over(id, config, now, effects),
            Timer::Pending(id) => {
                if self.pending.get(id).is_some_and(|deadline| *deadline <= now.instant) {
                    self.pending.remove(id);
                    self.go_on_if_all_joined(now, effects);
                }
            }
            Timer::Join => self.join_time_over(config, now, effects),
            Timer::Sync => self.sync_time_over(config, now, effects),
            // Of the group as it was before, when its coordinator assigned the partitions.
            Timer::Revocation(_) | Timer::MemberJoin(_) | Timer::MemberSync(_) => {}
        }
    }

    fn session_over(&mut self, id: &str, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.timer_at = None;
        if now.instant < member.session_deadline {
            member.expect(id, member.session_deadline, effects);
            return;
        }
        // Who waits for an answer sends no heartbeats; his time begins again with the answer.
        if member.waiting != super::Waiting::Nothing && !member.is_new {
            return;
        }
        self.drop_member(id, ErrorCode::UnknownMemberId, effects);
        self.after_departure(config, now, effects);
    }
}
