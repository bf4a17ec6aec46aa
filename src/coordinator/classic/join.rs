//! JoinGroup, and the phase in which members are gathered.

use std::time::Duration;

use wire::ErrorCode;

use super::{ClassicGroup, GroupConfig, Initial, Joining, Member, Moment, State, Waiting, millis};
use crate::coordinator::effects::{Effects, Timer};
use crate::coordinator::message::{GroupAnswer, Join, Joined, JoinedMember, Ticket};

/// How long a member that has not been in a generation may wait for its first: it can't be told from one that has gone.
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(300);

/// So many JoinGroups of one member are answered together; of more, the oldest fails.
const EARLIER_JOINS_MAX: usize = 8;

impl ClassicGroup {
    /// Takes a member in, or tells it how things stand. `id` is for a member that has none.
    pub fn join(
        &mut self,
        join: Join,
        id: String,
        ticket: Ticket,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) {
        let member_id = join.member_id.clone();
        if let Err(error) = self.try_join(join, id, ticket, config, now, effects) {
            effects.answer(ticket, GroupAnswer::Joined(Joined::failed(error, member_id)));
        }
    }

    fn try_join(
        &mut self,
        join: Join,
        id: String,
        ticket: Ticket,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) -> Result<(), ErrorCode> {
        self.check_room(&join, config)?;
        if !self.supports(&join) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if !join.member_id.is_empty() {
            return self.join_again(join, ticket, config, now, effects);
        }
        if let Some(instance) = join.instance_id.clone() {
            match self.instances.get(&instance).cloned() {
                Some(known) => self.replace(&known, &id, join, ticket, config, now, effects),
                None => self.add(id, join, ticket, config, now, effects),
            }
        } else if join.requires_member_id {
            let deadline = now.instant + millis(join.session_timeout_ms);
            effects.timers.push((deadline, Timer::Pending(id.clone())));
            self.pending.insert(id.clone(), deadline);
            effects.is_membership = true;
            effects.answer(ticket, GroupAnswer::Joined(Joined::failed(ErrorCode::MemberIdRequired, id)));
        } else {
            self.add(id, join, ticket, config, now, effects);
        }
        Ok(())
    }

    /// `group.max.size`: a new member finds no place in a full group, and while a full group gathers its members neither does an old one that
    /// comes after others have filled it.
    fn check_room(&self, join: &Join, config: &GroupConfig) -> Result<(), ErrorCode> {
        let known = self.members.get(&join.member_id);
        let has_room = match self.state {
            State::Empty => true,
            State::PreparingRebalance(_) => {
                known.is_some_and(Member::waits_for_join)
                    || self.members.values().filter(|member| member.waits_for_join()).count() < config.size_max
            }
            State::CompletingRebalance { .. } | State::Stable => {
                known.is_some() || self.members.len() < config.size_max
            }
        };
        if has_room { Ok(()) } else { Err(ErrorCode::GroupMaxSizeReached) }
    }

    /// Whether the members and this one have a protocol in common.
    fn supports(&self, join: &Join) -> bool {
        if self.is_empty() {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        let knows = |member: &Member, name: &str| member.protocols.iter().any(|known| known.name == name);
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && join.protocols.iter().any(|asked| self.members.values().all(|member| knows(member, &asked.name)))
    }

    /// Of one who says to have been here before.
    fn join_again(
        &mut self,
        join: Join,
        ticket: Ticket,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) -> Result<(), ErrorCode> {
        let id = join.member_id.clone();
        if join.instance_id.is_none() && self.pending.remove(&id).is_some() {
            self.add(id, join, ticket, config, now, effects);
            return Ok(());
        }
        self.check_member(&id, join.instance_id.as_deref())?;
        let matches = self.members.get(&id).is_some_and(|member| member.protocols == join.protocols);
        let leads = self.leader.as_ref() == Some(&id);
        match self.state {
            // It missed the answer.
            State::CompletingRebalance { .. } if matches => self.tell_generation(&id, ticket, leads, effects),
            State::Stable if matches && !leads => self.tell_generation(&id, ticket, false, effects),
            State::Empty => return Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance(_) | State::CompletingRebalance { .. } | State::Stable => {
                self.update(&id, join, ticket, effects);
                self.rebalance_or_go_on(config, now, effects);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: String,
        join: Join,
        ticket: Ticket,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) {
        effects.is_membership = true;
        if let State::PreparingRebalance(Joining { initial: Some(initial), .. }) = &mut self.state {
            initial.member_added = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        if let Some(instance) = &join.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.leader.get_or_insert_with(|| id.clone());
        let mut member = Member {
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: Vec::new(),
            waiting: Waiting::Join(ticket),
            earlier_joins: Vec::new(),
            is_new: true,
            has_synced: false,
            session_deadline: now.instant,
            timer_at: None,
        };
        member.expect(&id, now.instant + NEW_MEMBER_TIMEOUT, effects);
        self.members.insert(id, member);
        self.rebalance_or_go_on(config, now, effects);
    }

    /// The member waits for the next generation, as what it says of itself now. librdkafka sends a JoinGroup behind the one that waits when it
    /// learns of more of its topics. Kafka reads the second only once the first is answered, and it tells the application of a failure.
    fn update(&mut self, id: &str, join: Join, ticket: Ticket, effects: &mut Effects) {
        effects.is_membership = true;
        let member = self.members.get_mut(id).expect("checked to be a member");
        if let Waiting::Join(earlier) = member.waiting {
            if member.earlier_joins.len() == EARLIER_JOINS_MAX {
                let failed = Joined::failed(ErrorCode::RebalanceInProgress, id.to_owned());
                effects.answer(member.earlier_joins.remove(0), GroupAnswer::Joined(failed));
            }
            member.earlier_joins.push(earlier);
        } else {
            member.fail(id, ErrorCode::RebalanceInProgress, effects);
        }
        member.protocols = join.protocols;
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        member.session_timeout_ms = join.session_timeout_ms;
        member.waiting = Waiting::Join(ticket);
    }

    /// An instance has started again: it has the place of the member that stood for it (KIP-345).
    #[expect(clippy::too_many_arguments, reason = "who, in whose place, and what every step of a group has")]
    fn replace(
        &mut self,
        old_id: &str,
        id: &str,
        join: Join,
        ticket: Ticket,
        config: &GroupConfig,
        now: Moment,
        effects: &mut Effects,
    ) {
        let old_leader = self.leader.clone();
        let mut member = self.members.remove(old_id).expect("an instance is a member");
        member.fail(old_id, ErrorCode::FencedInstanceId, effects);
        (member.timer_at, member.is_new) = (None, false);
        let may_skip = join.may_skip_assignment;
        if let Some(instance) = &join.instance_id {
            self.instances.insert(instance.clone(), id.to_owned());
        }
        self.members.insert(id.to_owned(), member);
        if self.leader.as_deref() == Some(old_id) {
            self.leader = Some(id.to_owned());
        }
        self.update(id, join, ticket, effects);
        self.heard_of(id, now, effects);
        match self.state {
            State::Stable if self.choose_protocol() == self.protocol => {
                let leads = self.leader.as_deref() == Some(id);
                effects.records.push(self.record());
                self.members.get_mut(id).expect("just put there").waiting = Waiting::Nothing;
                // One that leads may keep what it had shared out; an older client is told that the one before it leads, which it is not.
                let told_leader = if may_skip { self.leader.clone() } else { old_leader };
                let mut joined = self.joined(id, may_skip && leads);
                joined.leader = told_leader.unwrap_or_default();
                joined.skip_assignment = may_skip && leads;
                effects.answer(ticket, GroupAnswer::Joined(joined));
            }
            State::Stable => self.rebalance_or_go_on(config, now, effects),
            // The leader shares out to the one that was replaced.
            State::CompletingRebalance { .. } => self.rebalance(config, now, effects),
            State::PreparingRebalance(_) => self.go_on_if_all_joined(now, effects),
            State::Empty => unreachable!("a group with a member is not empty"),
        }
    }

    fn tell_generation(&mut self, id: &str, ticket: Ticket, with_members: bool, effects: &mut Effects) {
        let joined = self.joined(id, with_members);
        effects.answer(ticket, GroupAnswer::Joined(joined));
    }

    /// What a member is told of the generation.
    fn joined(&self, id: &str, with_members: bool) -> Joined {
        let member = |(id, member): (&String, &Member)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(self.protocol.as_deref()).to_vec(),
        };
        Joined {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: id.to_owned(),
            members: if with_members { self.members.iter().map(member).collect() } else { Vec::new() },
        }
    }

    /// Members have changed: a rebalance begins, or the one that is under way may be complete.
    pub(super) fn rebalance_or_go_on(&mut self, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        match self.state {
            State::PreparingRebalance(_) => self.go_on_if_all_joined(now, effects),
            State::Empty | State::CompletingRebalance { .. } | State::Stable => self.rebalance(config, now, effects),
        }
    }

    /// Asks all members to join.
    pub(super) fn rebalance(&mut self, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        effects.is_membership = true;
        for (id, member) in self.members.iter_mut().filter(|(_, member)| matches!(member.waiting, Waiting::Sync(_))) {
            member.fail(id, ErrorCode::RebalanceInProgress, effects);
        }
        let timeout = self.rebalance_timeout();
        let (wait, initial) = if self.is_empty() {
            let wait = config.initial_delay;
            (wait, Some(Initial { left: timeout.saturating_sub(wait), member_added: false }))
        } else {
            (timeout, None)
        };
        let deadline = now.instant + wait;
        self.enter(State::PreparingRebalance(Joining { deadline, initial }), now);
        effects.timers.push((deadline, Timer::Join));
        self.go_on_if_all_joined(now, effects);
    }

    /// Begins the generation if nobody is missing. A group that is new waits its time, as others may be starting.
    pub(super) fn go_on_if_all_joined(&mut self, now: Moment, effects: &mut Effects) {
        if let State::PreparingRebalance(Joining { initial: None, .. }) = self.state
            && self.pending.is_empty()
            && self.members.values().all(Member::waits_for_join)
        {
            self.begin_generation(now, effects);
        }
    }

    /// The time for joining is over.
    pub(super) fn join_time_over(&mut self, config: &GroupConfig, now: Moment, effects: &mut Effects) {
        let State::PreparingRebalance(joining) = &mut self.state else { return };
        if now.instant < joining.deadline {
            effects.timers.push((joining.deadline, Timer::Join));
            return;
        }
        if let Some(initial) = &mut joining.initial
            && std::mem::take(&mut initial.member_added)
            && !initial.left.is_zero()
        {
            let more = config.initial_delay.min(initial.left);
            initial.left -= more;
            joining.deadline = now.instant + more;
            effects.timers.push((joining.deadline, Timer::Join));
            return;
        }
        self.begin_generation(now, effects);
    }

    fn begin_generation(&mut self, now: Moment, effects: &mut Effects) {
        effects.is_membership = true;
        let is_missing = |member: &Member| !member.waits_for_join() && member.instance_id.is_none();
        self.members.retain(|_, member| !is_missing(member));
        let has_joined = |id: &String, member: &Member| member.waits_for_join().then(|| id.clone());
        let leads_on =
            self.leader.as_ref().and_then(|leader| self.members.get(leader)).is_some_and(Member::waits_for_join);
        if !leads_on {
            let joined = self.members.iter().find_map(|(id, member)| has_joined(id, member));
            if joined.is_none() && !self.members.is_empty() {
                // Static members alone, none of which has come back: they are waited for.
                let deadline = now.instant + self.rebalance_timeout();
                self.state = State::PreparingRebalance(Joining { deadline, initial: None });
                effects.timers.push((deadline, Timer::Join));
                return;
            }
            self.leader = joined;
        }
        self.generation = if self.generation == i32::MAX { 1 } else { self.generation + 1 };
        if self.members.is_empty() {
            (self.protocol, self.leader) = (None, None);
            self.enter(State::Empty, now);
            effects.records.push(self.record());
            return;
        }
        self.protocol = self.choose_protocol();
        let deadline = now.instant + self.rebalance_timeout();
        self.enter(State::CompletingRebalance { deadline }, now);
        effects.timers.push((deadline, Timer::Sync));
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let leads = self.leader.as_ref() == Some(&id);
            let joined = self.joined(&id, leads);
            let member = self.members.get_mut(&id).expect("one of the members");
            (member.is_new, member.has_synced, member.assignment) = (false, false, Vec::new());
            if let Waiting::Join(ticket) = std::mem::replace(&mut member.waiting, Waiting::Nothing) {
                for ticket in member.earlier_joins.drain(..).chain([ticket]) {
                    effects.answer(ticket, GroupAnswer::Joined(joined.clone()));
                }
            }
            self.heard_of(&id, now, effects);
        }
    }
}
