//! A member with the classic protocol: joins, shares out where it leads, reads and commits its share; and misbehaves in every way that a
//! member can.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::PartitionIndex;
use shard::Class;
use sim::groups::Place;
use sim::groups::classic::Shares;
use sim::groups::commits::Speaker;
use wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, PROTOCOL_TYPE, TopicPartition,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use wire::{ErrorCode, Versioned};

use crate::model::{Share, TOPICS_READ};
use crate::seat::{Committed, HEARTBEAT_MS, REBALANCE, SESSION, Seat, commit};

/// The one way of sharing out that these members know.
const PROTOCOL: &str = "turns";

/// Who a member is to its coordinator.
#[derive(Clone, PartialEq, Eq, Default)]
struct Identity {
    /// Empty until it was given one.
    member_id: String,
    generation: i32,
}

/// Where a member goes from here.
enum Next {
    /// It joins as who it is.
    Join,
    /// It is nobody any more: it joins as a new member.
    Anew,
    /// Another stands for its instance.
    Fenced,
}

/// What a leader hands in, by member; by who they are for the judge.
type Plan = (Vec<(String, Vec<u8>)>, Shares);

impl Seat {
    /// One life after another, until all is over.
    pub async fn classic_loop(mut self) {
        let mut identity = Identity::default();
        while !self.link.is_over() {
            let next = self.classic_generation(&mut identity).await;
            match next {
                Next::Join => {}
                Next::Anew => {
                    self.lose_all();
                    identity = Identity::default();
                }
                Next::Fenced => {
                    self.lose_all();
                    identity = Identity::default();
                    self.link.hit("instance fenced by another");
                    if self.link.is_calm() {
                        break;
                    }
                    // Its twin has its time first.
                    self.link.pause(9000).await;
                }
            }
            self.link.pause(50).await;
        }
        self.lose_all();
        self.link.model.borrow_mut().working -= 1;
    }

    fn speaker(identity: &Identity) -> Speaker {
        Speaker { member: identity.member_id.clone(), epoch: identity.generation }
    }

    /// Who it is to the judge: instances live on as other members.
    fn who<'a>(instance: Option<&'a str>, member_id: &'a str) -> &'a str {
        instance.unwrap_or(member_id)
    }

    /// From joining to the end of a generation, or of its life.
    async fn classic_generation(&mut self, identity: &mut Identity) -> Next {
        if self.link.mischief(6) && !self.reading.is_empty() {
            self.commit_meanwhile(identity);
        }
        let before = identity.clone();
        let plan = match self.join(identity).await {
            Ok(plan) => plan,
            Err(next) => return next,
        };
        if before != *identity {
            // What it had was of the generation before.
            self.reading.clear();
        }
        if self.link.mischief(25) {
            self.link.hit("member that does not fetch its share");
            self.link.pause(2 * REBALANCE.as_millis() as u64).await;
        }
        let share = match self.sync(identity, plan).await {
            Ok(share) => share,
            Err(next) => return next,
        };
        // In a generation that goes on, so does what it has read: a commit of it may be under way.
        let goes_on = before == *identity && self.reading.keys().eq(&share);
        let places: Vec<Place> = if goes_on { Vec::new() } else { share.iter().copied().collect() };
        if !goes_on {
            self.reading.clear();
        }
        if self.begin(&places, None).await.is_err() {
            return Next::Join;
        }
        let share = Share { epoch: identity.generation, places: share };
        self.link.model.borrow_mut().groups[self.group].shares.insert(self.number, share);
        loop {
            if let Some(next) = self.classic_turn(identity).await {
                return next;
            }
            self.link.pause(HEARTBEAT_MS).await;
        }
    }

    /// One round of what a member does.
    async fn classic_turn(&mut self, identity: &mut Identity) -> Option<Next> {
        if self.link.is_over() {
            return Some(Next::Anew);
        }
        if self.link.mischief(60) {
            self.link.hit("member stalled");
            self.link.pause(2 * SESSION.as_millis() as u64).await;
        }
        if self.link.mischief(90) {
            self.link.hit("member crashed");
            self.link.hang_up();
            self.link.pause(4000).await;
            return Some(Next::Anew);
        }
        if self.link.mischief(90) {
            return Some(self.leave(identity).await);
        }
        self.read_on().await;
        // What is behind it may be committed late, when it is another's.
        if self.link.mischief(20) {
            self.link.pause(1500).await;
        }
        if !self.link.mischief(3)
            && let Committed::Refused(code) = self.commit(&Self::speaker(identity)).await
        {
            self.link.hit("commit of an old member refused");
            return self.turned_away(code, identity, "a commit");
        }
        let asked = self.link.model.borrow_mut().now();
        let request = HeartbeatRequest {
            group_id: self.name(),
            generation_id: identity.generation,
            member_id: &identity.member_id,
            group_instance_id: self.instance,
        };
        let reply = self.link.call(&request, Duration::ZERO).await?;
        let response: HeartbeatResponse = reply.decode().expect("an answer of the protocol");
        match response.error_code {
            code @ (ErrorCode::None | ErrorCode::RebalanceInProgress) => {
                let mut model = self.link.model.borrow_mut();
                let finding = model.groups[self.group].confirm_generation(identity.generation, asked);
                model.judge(self.group, finding);
                (code != ErrorCode::None).then_some(Next::Join)
            }
            code => self.turned_away(code, identity, "a heartbeat"),
        }
    }

    /// Where a member goes that was refused something; nowhere where that passes.
    fn turned_away(&self, code: ErrorCode, identity: &mut Identity, what: &str) -> Option<Next> {
        match code {
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::NotCoordinator => None,
            ErrorCode::RebalanceInProgress => Some(Next::Join),
            ErrorCode::IllegalGeneration => {
                self.link.hit("member of an old generation");
                Some(Next::Join)
            }
            ErrorCode::UnknownMemberId => {
                self.link.hit("member that was taken for dead");
                identity.member_id.clear();
                Some(Next::Anew)
            }
            ErrorCode::FencedInstanceId => Some(Next::Fenced),
            code => {
                self.link.model.borrow_mut().fail(format!("{} was refused {what}: {code:?}", self.name()));
                Some(Next::Anew)
            }
        }
    }

    /// Commits on another connection while this one joins.
    fn commit_meanwhile(&mut self, identity: &Identity) {
        let (mut link, group, instance, speaker) =
            (self.link.fork(), self.group, self.instance, Self::speaker(identity));
        let due: Vec<(Place, i64)> = self.reading.iter().map(|(place, reading)| (*place, reading.position)).collect();
        let (shard, account) = (link.shard.clone(), link.shard.account("client"));
        shard.spawn_detached(Class::Normal, account, async move {
            link.pause(600).await;
            match commit(&mut link, group, instance, &speaker, &due).await {
                Committed::Taken => link.hit("commit taken while its member joined"),
                Committed::Refused(_) => link.hit("commit refused while its member joined"),
                Committed::Unknown => {}
            }
        });
    }

    /// Joins; what it is to hand in, where it leads.
    async fn join(&mut self, identity: &mut Identity) -> Result<Plan, Next> {
        let topics: Vec<&str> = crate::model::TOPICS[..TOPICS_READ].iter().map(|(name, _)| *name).collect();
        let subscription = ConsumerProtocolSubscription {
            topics: topics.into(),
            user_data: None,
            owned_partitions: Vec::new().into(),
            generation_id: -1,
            rack_id: None,
        };
        let metadata = subscription.to_bytes(0).expect("short");
        while !self.link.is_over() {
            let member_id = identity.member_id.clone();
            let request = JoinGroupRequest {
                group_id: self.name(),
                session_timeout_ms: SESSION.as_millis() as i32,
                rebalance_timeout_ms: REBALANCE.as_millis() as i32,
                member_id: &member_id,
                group_instance_id: self.instance,
                protocol_type: PROTOCOL_TYPE,
                protocols: vec![JoinGroupRequestProtocol { name: PROTOCOL, metadata: &metadata }].into(),
                reason: None,
            };
            let Some(reply) = self.link.call(&request, 3 * REBALANCE).await else { continue };
            let response: JoinGroupResponse<'_> = reply.decode().expect("an answer of the protocol");
            match response.error_code {
                ErrorCode::None => {}
                ErrorCode::MemberIdRequired => {
                    response.member_id.clone_into(&mut identity.member_id);
                    if self.link.mischief(12) {
                        self.link.hit("member that was given an id and did not come");
                        identity.member_id.clear();
                        self.link.pause(4000).await;
                    }
                    continue;
                }
                code => match self.turned_away(code, identity, "joining") {
                    Some(Next::Join) => continue,
                    Some(next) => return Err(next),
                    None => {
                        self.link.pause(100).await;
                        continue;
                    }
                },
            }
            response.member_id.clone_into(&mut identity.member_id);
            identity.generation = response.generation_id;
            if self.instance.is_some() && response.skip_assignment {
                self.link.hit("leader that came back and kept the shares");
            }
            return Ok(match response.leader == response.member_id && !response.skip_assignment {
                true => self.share_out(&response),
                false => Plan::default(),
            });
        }
        Err(Next::Anew)
    }

    /// Everybody in turn, beginning with another one in each generation: so each share is told from that of the generation before.
    fn share_out(&self, joined: &JoinGroupResponse<'_>) -> Plan {
        let members = joined.members.to_vec();
        let mut of: BTreeMap<usize, BTreeSet<Place>> = BTreeMap::new();
        let places = self.link.model.borrow().places();
        for (index, place) in places.into_iter().enumerate() {
            of.entry((index + joined.generation_id as usize) % members.len()).or_default().insert(place);
        }
        let mut plan = Plan::default();
        for (index, member) in members.iter().enumerate() {
            let share = of.remove(&index).unwrap_or_default();
            let who = Self::who(member.group_instance_id, member.member_id);
            plan.0.push((member.member_id.to_owned(), self.assignment(&share)));
            plan.1.insert(who.to_owned(), share);
        }
        plan
    }

    fn assignment(&self, share: &BTreeSet<Place>) -> Vec<u8> {
        let mut by_topic: BTreeMap<usize, Vec<PartitionIndex>> = BTreeMap::new();
        for (topic, index) in share {
            by_topic.entry(*topic).or_default().push(PartitionIndex(*index));
        }
        let model = self.link.model.borrow();
        let assigned: Vec<TopicPartition<'_>> = by_topic
            .iter()
            .map(|(topic, run)| TopicPartition { topic: model.topics[*topic].name, partitions: run.as_slice().into() })
            .collect();
        let assignment = ConsumerProtocolAssignment { assigned_partitions: assigned.into(), user_data: None };
        assignment.to_bytes(0).expect("short")
    }

    /// Fetches its share.
    async fn sync(&mut self, identity: &mut Identity, plan: Plan) -> Result<BTreeSet<Place>, Next> {
        let (assignments, shares) = plan;
        if !assignments.is_empty() {
            self.link.model.borrow_mut().groups[self.group].generations.hand_in(identity.generation, shares);
        }
        while !self.link.is_over() {
            let asked = self.link.model.borrow_mut().now();
            let member_id = identity.member_id.clone();
            let assignments: Vec<_> = assignments
                .iter()
                .map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment })
                .collect();
            let request = SyncGroupRequest {
                group_id: self.name(),
                generation_id: identity.generation,
                member_id: &member_id,
                group_instance_id: self.instance,
                protocol_type: Some(PROTOCOL_TYPE),
                protocol_name: Some(PROTOCOL),
                assignments: assignments.into(),
            };
            let Some(reply) = self.link.call(&request, 2 * REBALANCE).await else { continue };
            let response: SyncGroupResponse<'_> = reply.decode().expect("an answer of the protocol");
            if response.error_code.is_error() {
                match self.turned_away(response.error_code, identity, "its share") {
                    Some(next) => return Err(next),
                    None => {
                        self.link.pause(100).await;
                        continue;
                    }
                }
            }
            let share = self.share_in(response.assignment);
            self.told_share(identity, &share, asked);
            return Ok(share);
        }
        Err(Next::Anew)
    }

    fn told_share(&self, identity: &Identity, share: &BTreeSet<Place>, asked: u64) {
        let mut model = self.link.model.borrow_mut();
        let told = model.now();
        let who = Self::who(self.instance, &identity.member_id);
        let group = &mut model.groups[self.group];
        let finding = group.generations.told(identity.generation, who, share, asked, told);
        for place in share {
            group.commits.granted(*place, Self::speaker(identity), asked, told);
        }
        model.judge(self.group, finding);
        model.register.hit("share of a generation");
    }

    fn share_in(&self, assignment: &[u8]) -> BTreeSet<Place> {
        if assignment.is_empty() {
            return BTreeSet::new();
        }
        let assignment = ConsumerProtocolAssignment::read(assignment).expect("as a leader made it");
        let model = self.link.model.borrow();
        let mut share = BTreeSet::new();
        for topic in &assignment.assigned_partitions {
            let number = model.topic_named(topic.topic).expect("one of those that are read");
            share.extend(topic.partitions.iter().map(|index| (number, index.0)));
        }
        share
    }

    async fn leave(&mut self, identity: &mut Identity) -> Next {
        let member = MemberIdentity { member_id: &identity.member_id, group_instance_id: self.instance, reason: None };
        let request = LeaveGroupRequest { group_id: self.name(), member_id: "", members: vec![member].into() };
        if let Some(reply) = self.link.call(&request, Duration::ZERO).await {
            let response: LeaveGroupResponse<'_> = reply.decode().expect("an answer of the protocol");
            if !response.error_code.is_error() {
                self.link.hit("member left");
            }
        }
        self.lose_all();
        self.link.pause(4000).await;
        Next::Anew
    }
}
