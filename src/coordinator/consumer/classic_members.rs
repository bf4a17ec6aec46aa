//! Members that speak the classic protocol to a group whose coordinator assigns the partitions: each joins, is told its share and joins again by
//! itself, whenever its heartbeat says so. None of them leads.

use storage::LogId;
use wire::ErrorCode;
use wire::consumer_protocol::PROTOCOL_TYPE;

use super::changes::{Classic, MemberState, Said};
use super::migration::{Subscribed, assignment};
use super::{ConsumerGroup, Member, Step, millis};
use crate::coordinator::effects::Timer;
use crate::coordinator::message::{Join, Joined, Leaving, Speaker, Sync, Synced};

impl ConsumerGroup {
    /// JoinGroup. `id` is for a member that has none.
    pub fn join(&mut self, join: Join, id: String, step: &mut Step<'_>) -> Joined {
        let member_id = join.member_id.clone();
        self.try_join(join, id, step).unwrap_or_else(|error| Joined::failed(error, member_id))
    }

    fn try_join(&mut self, join: Join, id: String, step: &mut Step<'_>) -> Result<Joined, ErrorCode> {
        if !self.members.contains_key(&join.member_id) && self.members.len() >= step.config.consumer.size_max {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if !self.supports(&join) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let subscribed = Subscribed::read(&join.protocols[0].metadata, step.topics)
            .map_err(|_| ErrorCode::InconsistentGroupProtocol)?;
        let is_new = join.member_id.is_empty();
        if is_new && join.instance_id.is_none() && join.requires_member_id {
            return Ok(Joined::failed(ErrorCode::MemberIdRequired, id));
        }
        let id = if is_new { id } else { join.member_id.clone() };
        if let Some(instance) = &join.instance_id {
            match self.instances.get(instance).cloned() {
                Some(known) if is_new => self.replace(&known, &id, step),
                Some(known) if known != id => return Err(ErrorCode::FencedInstanceId),
                None if !is_new => return Err(ErrorCode::UnknownMemberId),
                Some(_) | None => {}
            }
        }
        let (protocol, owned) = (join.protocols[0].name.clone(), subscribed.owned.clone());
        let rebalance_timeout = millis(join.rebalance_timeout_ms);
        let has_changed = self.note_said(&id, said(join, subscribed), step);
        self.update_targets(has_changed, step);
        self.reconcile(&id, Some(&owned), step);
        self.heard_of(&id, step);
        let sync_by = step.now.instant + rebalance_timeout;
        step.effects.timers.push((sync_by, Timer::MemberSync(id.clone())));
        let member = self.members.get_mut(&id).expect("it has just joined");
        (member.join_by, member.revoke_by, member.sync_by) = (None, None, Some(sync_by));
        Ok(Joined {
            error: ErrorCode::None,
            generation: member.current.epoch,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol: Some(protocol),
            leader: String::new(),
            skip_assignment: false,
            member_id: id,
            members: Vec::new(),
        })
    }

    /// Whether the classic members and this one have a protocol in common.
    fn supports(&self, join: &Join) -> bool {
        let knows = |classic: &Classic, name: &str| classic.protocols.iter().any(|known| known.name == name);
        let mut others = self.members.values().filter_map(|member| member.said.classic.as_ref()).peekable();
        let is_alone = others.peek().is_none();
        let others: Vec<_> = others.collect();
        join.protocol_type == PROTOCOL_TYPE
            && !join.protocols.is_empty()
            && (is_alone || join.protocols.iter().any(|asked| others.iter().all(|other| knows(other, &asked.name))))
    }

    /// SyncGroup.
    pub fn sync(&mut self, sync: &Sync, step: &mut Step<'_>) -> Synced {
        self.try_sync(sync, step).unwrap_or_else(Synced::failed)
    }

    fn try_sync(&mut self, sync: &Sync, step: &mut Step<'_>) -> Result<Synced, ErrorCode> {
        let id = self.check_classic(&sync.speaker)?;
        let member = &self.members[&id];
        let classic = member.said.classic.as_ref().expect("checked to be a classic member");
        let protocol = classic.protocols.first().map(|first| first.name.as_str());
        let differs = |said: &Option<String>, own| said.is_some() && said.as_deref() != own;
        if differs(&sync.protocol_type, Some(PROTOCOL_TYPE)) || differs(&sync.protocol, protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.is_behind(member) && member.current.state != MemberState::UnrevokedPartitions {
            self.expect_join(&id, step);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let assignment = assignment(&member.current.assigned, classic, step.topics);
        self.heard_of(&id, step);
        self.members.get_mut(&id).expect("checked to be a member").sync_by = None;
        let (protocol_type, protocol) = (sync.protocol_type.clone(), sync.protocol.clone());
        Ok(Synced { error: ErrorCode::None, protocol_type, protocol, assignment })
    }

    /// Heartbeat: whether the member is to join again, because there is a new epoch, because it has something to give up, or because it gets the
    /// rest of its share now.
    pub fn classic_heartbeat(&mut self, speaker: &Speaker, step: &mut Step<'_>) -> ErrorCode {
        let id = match self.check_classic(speaker) {
            Ok(id) => id,
            Err(error) => return error,
        };
        self.heard_of(&id, step);
        let member = &self.members[&id];
        let must_join = self.is_behind(member)
            || match member.current.state {
                MemberState::Stable => false,
                MemberState::UnrevokedPartitions => true,
                MemberState::UnreleasedPartitions => !self.waits(&id, member),
            };
        if must_join {
            self.expect_join(&id, step);
            return ErrorCode::RebalanceInProgress;
        }
        ErrorCode::None
    }

    /// LeaveGroup; what each is answered.
    pub fn classic_leave(&mut self, leaving: &[Leaving], step: &mut Step<'_>) -> Vec<ErrorCode> {
        let mut has_changed = false;
        let mut leave = |leaving: &Leaving, step: &mut Step<'_>| {
            let by_instance = leaving.instance_id.as_ref().map(|instance| self.instances.get(instance).cloned());
            let id = match by_instance {
                Some(None) => return ErrorCode::UnknownMemberId,
                Some(Some(known)) if !leaving.member_id.is_empty() && leaving.member_id != known => {
                    return ErrorCode::FencedInstanceId;
                }
                Some(Some(known)) => known,
                None => leaving.member_id.clone(),
            };
            if self.members.get(&id).is_none_or(|member| member.said.classic.is_none()) {
                return ErrorCode::UnknownMemberId;
            }
            self.remove(&id, step);
            has_changed = true;
            ErrorCode::None
        };
        let outcomes = leaving.iter().map(|leaving| leave(leaving, step)).collect();
        if has_changed {
            self.begin_epoch_of_the_others(step);
        }
        outcomes
    }

    /// Whether who speaks is a classic member of its epoch; its id.
    fn check_classic(&self, speaker: &Speaker) -> Result<String, ErrorCode> {
        if let Some(instance) = &speaker.instance_id {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if *known != speaker.member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        let member = self.members.get(&speaker.member_id).filter(|member| member.said.classic.is_some());
        let member = member.ok_or(ErrorCode::UnknownMemberId)?;
        if member.current.epoch != speaker.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok(speaker.member_id.clone())
    }

    fn is_behind(&self, member: &Member) -> bool {
        self.epoch.epoch > member.current.epoch
    }

    /// Whether others have yet to give up all that the member waits for.
    fn waits(&self, id: &str, member: &Member) -> bool {
        let is_missing = |of: &&LogId| !member.current.assigned.contains_key(of);
        member.target.iter().filter(is_missing).any(|of| self.owners.get(of).is_some_and(|owner| owner != id))
    }

    /// It has been told to join again, and must in time.
    fn expect_join(&mut self, id: &str, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(id).filter(|member| member.join_by.is_none()) else { return };
        let join_by = step.now.instant + millis(member.said.rebalance_timeout_ms);
        member.join_by = Some(join_by);
        step.effects.timers.push((join_by, Timer::MemberJoin(id.to_owned())));
    }
}

fn said(join: Join, subscribed: Subscribed) -> Said {
    Said {
        instance_id: join.instance_id,
        rack_id: subscribed.rack_id,
        client_id: join.client_id,
        client_host: join.client_host,
        topics: subscribed.topics.into_iter().collect(),
        regex: None,
        rebalance_timeout_ms: join.rebalance_timeout_ms,
        assignor: None,
        classic: Some(Classic { session_timeout_ms: join.session_timeout_ms, protocols: join.protocols }),
    }
}
