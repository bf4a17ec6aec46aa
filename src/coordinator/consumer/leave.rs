//! Members leave, for good or for a while, or are fenced.

use wire::ErrorCode;

use super::changes::{Change, Current, Since};
use super::message::{ConsumerHeartbeat, HeartbeatTold, LEAVES_FOR_A_WHILE, Rejection};
use super::{ConsumerGroup, Step};

impl ConsumerGroup {
    /// Lets a member go.
    ///
    /// # Errors
    /// Why it is none.
    pub fn leave(&mut self, beat: &ConsumerHeartbeat, step: &mut Step<'_>) -> Result<HeartbeatTold, Rejection> {
        let id = &beat.member_id;
        if let Some(instance) = &beat.instance_id {
            match self.instances.get(instance) {
                None => return Err(Rejection::new(ErrorCode::UnknownMemberId, "the group has no such instance")),
                Some(known) if known != id => {
                    let reason = format!("the instance {instance} is the member {known} by now");
                    return Err(Rejection::new(ErrorCode::FencedInstanceId, reason));
                }
                Some(_) => {}
            }
        } else if !self.members.contains_key(id) {
            return Err(Rejection::new(ErrorCode::UnknownMemberId, "the group has no such member"));
        }
        if beat.member_epoch == LEAVES_FOR_A_WHILE {
            // What it has stays its own until it is back, or its session is over.
            let current = self.members[id].current.clone();
            let current = Current { epoch: LEAVES_FOR_A_WHILE, revoking: Since::new(), ..current };
            self.change(Change::Current { member_id: id.clone(), current: Some(current) }, step.effects);
            self.revoke_by(id, None, step);
        } else {
            self.fence(id, step);
        }
        let member_epoch = beat.member_epoch;
        Ok(HeartbeatTold { member_id: id.clone(), member_epoch, heartbeat_interval_ms: 0, assignment: None })
    }

    /// Takes a member out; its partitions are free for the others.
    pub(super) fn fence(&mut self, member_id: &str, step: &mut Step<'_>) {
        self.remove(member_id, step);
        self.begin_epoch_of_the_others(step);
    }

    pub(super) fn remove(&mut self, member_id: &str, step: &mut Step<'_>) {
        let member_id = || member_id.to_owned();
        self.change(Change::Current { member_id: member_id(), current: None }, step.effects);
        self.change(Change::Target { member_id: member_id(), partitions: None }, step.effects);
        self.change(Change::Member { member_id: member_id(), said: None }, step.effects);
    }

    /// What takes all that is left of the group out of the log.
    #[must_use]
    pub fn tombstones(&self) -> Vec<Change> {
        let ids = || self.members.keys().cloned();
        let mut changes: Vec<Change> = ids().map(|member_id| Change::Current { member_id, current: None }).collect();
        changes.extend(ids().map(|member_id| Change::Target { member_id, partitions: None }));
        changes.push(Change::TargetEpoch(None));
        changes.extend(ids().map(|member_id| Change::Member { member_id, said: None }));
        changes.extend(self.regexes.keys().cloned().map(|expression| Change::Regex { expression, resolved: None }));
        changes.push(Change::Epoch(None));
        changes
    }
}
