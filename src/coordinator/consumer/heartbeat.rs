//! ConsumerGroupHeartbeat: a member joins, says what has changed, and is told what has.

use std::collections::BTreeSet;

use base::Instant;
use storage::LogId;
use wire::ErrorCode;

use super::changes::{Change, Current, MemberState, Said};
use super::message::{ConsumerHeartbeat, HeartbeatTold, JOINS, LEAVES, LEAVES_FOR_A_WHILE, Rejection};
use super::{ConsumerGroup, Member, Step, millis, reconcile, regex};
use crate::coordinator::assignor::Assignor;
use crate::coordinator::effects::Timer;

impl ConsumerHeartbeat {
    /// All is as before, as most heartbeats say.
    fn adds_nothing_to(&self, known: &Said) -> bool {
        let says_nothing = self.instance_id.is_none()
            && self.rack_id.is_none()
            && self.rebalance_timeout_ms.is_none()
            && self.topics.is_none()
            && self.regex.is_none()
            && self.assignor.is_none();
        let is_same = self.client_id == known.client_id && self.client_host == known.client_host;
        says_nothing && is_same && known.classic.is_none()
    }

    /// What can be said of the request before anybody is asked.
    ///
    /// # Errors
    /// `INVALID_REQUEST`, `UNSUPPORTED_ASSIGNOR`.
    pub fn check(&self) -> Result<(), Rejection> {
        let invalid = |reason: &str| Err(Rejection::new(ErrorCode::InvalidRequest, reason));
        let is_blank = |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
        let needs_id = self.chooses_member_id || self.member_epoch > 0 || self.member_epoch == LEAVES;
        if needs_id && self.member_id.trim().is_empty() {
            return invalid("the member id is empty");
        }
        if self.group.trim().is_empty() {
            return invalid("the group id is empty");
        }
        if is_blank(&self.instance_id) {
            return invalid("the instance id is empty");
        }
        if is_blank(&self.rack_id) {
            return invalid("the rack id is empty");
        }
        match self.member_epoch {
            JOINS if self.rebalance_timeout_ms.is_none() => {
                return invalid("a member that joins must say its rebalance timeout");
            }
            JOINS if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) => {
                return invalid("a member that joins must own no partitions, and say so");
            }
            JOINS if self.topics.is_none() && self.regex.is_none() => {
                return invalid("a member that joins must subscribe, to names or with a regular expression");
            }
            LEAVES_FOR_A_WHILE if self.instance_id.is_none() => {
                return invalid("only a static member leaves for a while");
            }
            epoch if epoch < LEAVES_FOR_A_WHILE => return invalid("there is no such member epoch"),
            _ => {}
        }
        if let Some(name) = self.assignor.as_ref().filter(|name| Assignor::named(name).is_none()) {
            let known: Vec<_> = Assignor::ALL.into_iter().map(Assignor::name).collect();
            let reason = format!("the assignor {name} is not known here; these are: {}", known.join(", "));
            return Err(Rejection::new(ErrorCode::UnsupportedAssignor, reason));
        }
        Ok(())
    }

    /// # Errors
    /// `INVALID_REGULAR_EXPRESSION`.
    pub fn check_regex(&self) -> Result<(), Rejection> {
        match self.regex.as_ref().map(|expression| regex::compile(expression)) {
            Some(Err(reason)) => Err(Rejection::new(ErrorCode::InvalidRegularExpression, reason)),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

impl ConsumerGroup {
    /// Takes a checked heartbeat of one who joins or is a member.
    ///
    /// # Errors
    /// Why it is turned away; nothing has changed then.
    pub fn heartbeat(&mut self, beat: &ConsumerHeartbeat, step: &mut Step<'_>) -> Result<HeartbeatTold, Rejection> {
        let id = &beat.member_id;
        if !self.members.contains_key(id) && self.members.len() >= step.config.consumer.size_max {
            let reason = format!("the group has its {} members", step.config.consumer.size_max);
            return Err(Rejection::new(ErrorCode::GroupMaxSizeReached, reason));
        }
        self.admit(beat, step)?;
        let before = self.assigned(id);
        let has_changed = self.note(beat, step);
        self.update_targets(has_changed, step);
        self.reconcile(id, beat.owned.as_deref(), step);
        self.heard_of(id, step);
        let assigned = self.assigned(id);
        let member = self.members.get_mut(id).expect("it has just been heard of");
        // It may have spoken the classic protocol before.
        (member.join_by, member.sync_by) = (None, None);
        Ok(HeartbeatTold {
            member_id: id.clone(),
            member_epoch: member.current.epoch,
            heartbeat_interval_ms: step.config.consumer.heartbeat_interval_ms(&self.name),
            assignment: (beat.is_full() || assigned != before).then(|| assigned.into_iter().collect()),
        })
    }

    fn assigned(&self, member_id: &str) -> BTreeSet<LogId> {
        self.members.get(member_id).map(|member| member.current.assigned.keys().copied().collect()).unwrap_or_default()
    }

    /// Whether it is a member, of its epoch, or may become one.
    fn admit(&mut self, beat: &ConsumerHeartbeat, step: &mut Step<'_>) -> Result<(), Rejection> {
        let unknown = || Err(Rejection::new(ErrorCode::UnknownMemberId, "the group has no such member"));
        let joins = beat.member_epoch == JOINS;
        let Some(instance) = &beat.instance_id else {
            return match self.members.get(&beat.member_id) {
                Some(member) => member.check_epoch(beat),
                None if joins => Ok(()),
                None => unknown(),
            };
        };
        match self.instances.get(instance).cloned() {
            None if joins => Ok(()),
            None => unknown(),
            Some(known) if joins => {
                let member = &self.members[&known];
                let is_released = member.has_left_for_a_while() || member.said.classic.is_some();
                if is_released {
                    self.replace(&known, &beat.member_id, step);
                    Ok(())
                } else if known == beat.member_id {
                    Ok(())
                } else {
                    let reason = format!("the instance {instance} is the member {known}, which has not left");
                    Err(Rejection::new(ErrorCode::UnreleasedInstanceId, reason))
                }
            }
            Some(known) if known != beat.member_id => {
                let reason = format!("the instance {instance} is the member {known} by now");
                Err(Rejection::new(ErrorCode::FencedInstanceId, reason))
            }
            Some(known) => self.members[&known].check_epoch(beat),
        }
    }

    /// An instance is back as another member, which has all that the one before had.
    pub(super) fn replace(&mut self, old_id: &str, id: &str, step: &mut Step<'_>) {
        let Member { said, target, current, .. } = self.members[old_id].clone();
        self.remove(old_id, step);
        let current = Current { epoch: JOINS, previous_epoch: JOINS, ..current };
        let member_id = || id.to_owned();
        self.change(Change::Member { member_id: member_id(), said: Some(said) }, step.effects);
        self.change(Change::Target { member_id: member_id(), partitions: Some(target) }, step.effects);
        self.change(Change::Current { member_id: member_id(), current: Some(current) }, step.effects);
    }

    /// Takes up what a member says of itself; whether the group is another one with that.
    fn note(&mut self, beat: &ConsumerHeartbeat, step: &mut Step<'_>) -> bool {
        let known = self.members.get(&beat.member_id).map(|member| &member.said);
        if known.is_some_and(|known| beat.adds_nothing_to(known)) {
            return false;
        }
        let mut said = known.cloned().unwrap_or_default();
        let is_empty = |text: &String| text.is_empty();
        said.instance_id = beat.instance_id.clone().or(said.instance_id);
        said.rack_id = beat.rack_id.clone().or(said.rack_id);
        said.rebalance_timeout_ms = beat.rebalance_timeout_ms.unwrap_or(said.rebalance_timeout_ms);
        said.assignor = beat.assignor.clone().or(said.assignor);
        said.topics = beat.topics.as_ref().map_or(said.topics, |topics| topics.iter().cloned().collect());
        said.regex = beat.regex.clone().or(said.regex).filter(|regex| !is_empty(regex));
        said.client_id.clone_from(&beat.client_id);
        said.client_host.clone_from(&beat.client_host);
        said.classic = None;
        self.note_said(&beat.member_id, said, step)
    }

    /// The member says this from now on; whether it is new, or reads other topics than before.
    pub(super) fn note_said(&mut self, member_id: &str, said: Said, step: &mut Step<'_>) -> bool {
        let known = self.members.get(member_id).map(|member| &member.said);
        let reads_others = known.is_none_or(|known| known.topics != said.topics || known.regex != said.regex);
        if known != Some(&said) {
            self.change(Change::Member { member_id: member_id.to_owned(), said: Some(said) }, step.effects);
        }
        reads_others
    }

    /// Takes the member a step towards its target.
    pub(super) fn reconcile(&mut self, member_id: &str, owned: Option<&[LogId]>, step: &mut Step<'_>) {
        let member = &self.members[member_id];
        let goal = reconcile::Goal { target: &member.target, epoch: self.assignment.epoch };
        let is_free = |id: &LogId| self.owners.get(id).is_none_or(|owner| owner == member_id);
        let next = reconcile::next(&member.current, &goal, owned, is_free);
        if next == member.current {
            return;
        }
        // Members of the classic protocol give up by joining again, for which they have a time of its own.
        let must_revoke = next.state == MemberState::UnrevokedPartitions && member.said.classic.is_none();
        let deadline = must_revoke.then(|| step.now.instant + millis(member.said.rebalance_timeout_ms));
        self.change(Change::Current { member_id: member_id.to_owned(), current: Some(next) }, step.effects);
        self.revoke_by(member_id, deadline, step);
    }

    pub(super) fn revoke_by(&mut self, member_id: &str, deadline: Option<Instant>, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.revoke_by = deadline;
        step.effects.timers.extend(deadline.map(|deadline| (deadline, Timer::Revocation(member_id.to_owned()))));
    }
}

impl Member {
    /// Whether a heartbeat is of the member's epoch. One of the epoch before is, where the answer that told the new one may have been lost; so is
    /// one that joins again, as it owns nothing and is told all.
    fn check_epoch(&self, beat: &ConsumerHeartbeat) -> Result<(), Rejection> {
        let (epoch, current) = (beat.member_epoch, &self.current);
        let owns_its_own =
            || beat.owned.as_ref().is_some_and(|owned| owned.iter().all(|id| current.assigned.contains_key(id)));
        if epoch == current.epoch || epoch == JOINS || (epoch == current.previous_epoch && owns_its_own()) {
            return Ok(());
        }
        let reason = format!(
            "the member is in epoch {}, not in {epoch}; it must give up all partitions and join again",
            current.epoch
        );
        Err(Rejection::new(ErrorCode::FencedMemberEpoch, reason))
    }
}
