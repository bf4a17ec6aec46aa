//! The task of a member: join, share out where it leads, fetch its share, keep its session, join again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use shard::sync::either;
use wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, PROTOCOL_TYPE, TopicPartition,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use wire::{ApiKey, ErrorCode, Request, Versioned};

use super::assign::{Subscriber, range};
use super::{GroupProtocol, Happened, Inner, Place};
use crate::Error;
use crate::connection::{Connection, Reply, Sending};

/// The one way of sharing out that this client knows.
const PROTOCOL: &str = "range";
/// The version of subscriptions and assignments that every client reads.
const PROTOCOL_VERSION: i16 = 0;
/// The first version whose members are several.
const LEAVE_BATCH_VERSION: i16 = 3;
/// Before another try to join, after a failure.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Keeps the membership until it ends.
pub(super) async fn keep(inner: Rc<Inner>) {
    while !inner.is_leaving.get() {
        let lasted = match inner.options.protocol {
            GroupProtocol::Classic => inner.generation().await,
            GroupProtocol::Consumer => inner.epochs().await,
        };
        match lasted {
            Ok(()) => {}
            Err(error) => match inner.failed(&error) {
                // The coordinator has forgotten it: it begins anew.
                Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedMemberEpoch) => {
                    if error.code() == Some(ErrorCode::UnknownMemberId) {
                        inner.member_id.borrow_mut().clear();
                    }
                    inner.lose_all();
                }
                Some(ErrorCode::RebalanceInProgress) => {}
                _ if error.is_retriable() || error.may_have_happened() => {
                    inner.client.shard().sleep(AGAIN_AFTER).await;
                }
                _ => {
                    inner.lose_all();
                    *inner.ended.borrow_mut() = Some(error);
                    inner.changed.notify_all();
                    return;
                }
            },
        }
    }
}

impl Inner {
    /// One generation, from joining to the next.
    async fn generation(&self) -> Result<(), Error> {
        self.unsettle();
        let shares = self.join().await?;
        let share = self.sync(shares).await?;
        self.take(share).await?;
        self.settle();
        loop {
            self.pause(self.options.heartbeat).await;
            if self.is_leaving.get() {
                return Ok(());
            }
            match self.heartbeat().await {
                ErrorCode::None => {}
                ErrorCode::RebalanceInProgress => return Ok(()),
                error => return Err(Error::refused(self.what(), error, None)),
            }
        }
    }

    /// The group gathers: nothing is handed out.
    pub(super) fn unsettle(&self) {
        if self.is_settled.replace(false) {
            self.tell(Happened::Gathering);
        }
        self.changed.notify_all();
    }

    /// What it has is its own from now on.
    pub(super) fn settle(&self) {
        if !self.is_settled.replace(true) {
            self.tell(Happened::Settled { generation: self.generation.get() });
        }
        self.changed.notify_all();
    }

    /// Waits, until it is to leave at most.
    pub(super) async fn pause(&self, time: Duration) {
        either(self.client.shard().sleep(time), async {
            while !self.is_leaving.get() {
                self.changed.wait().await;
            }
        })
        .await;
    }

    /// The code of a failure. The coordinator may be elsewhere now.
    fn failed(&self, error: &Error) -> Option<ErrorCode> {
        self.coordinator.set(None);
        error.code()
    }

    pub(super) fn what(&self) -> String {
        format!("membership of group {}", self.options.group)
    }

    /// Sends a request to the coordinator, on a connection of this member's: one that waits would hold up others.
    pub(super) async fn call<'q, R: Request<'q>>(&self, request: &R, wait: Duration) -> Result<Reply, Error> {
        let connection = self.connection().await?;
        let version = connection.version::<R>()?;
        let slot = connection.slot().await?;
        connection.start(slot, version, request, Sending { wait, ..Sending::default() })?.wait().await
    }

    /// The connection of this member's to the coordinator.
    pub(super) async fn connection(&self) -> Result<Connection, Error> {
        let broker = match self.coordinator.get() {
            Some(known) => known,
            None => self.client.coordinator_of(&self.options.group).await?,
        };
        self.coordinator.set(Some(broker));
        self.client.connection(broker, self.lane).await
    }

    /// Joins; what each member is to have, by member, where this one leads.
    async fn join(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let topics: Vec<&str> = self.options.topics.iter().map(String::as_str).collect();
        let subscription = ConsumerProtocolSubscription {
            topics: topics.into(),
            user_data: None,
            owned_partitions: Vec::new().into(),
            generation_id: -1,
            rack_id: None,
        };
        let key = ApiKey::JoinGroup;
        let metadata = subscription.to_bytes(PROTOCOL_VERSION).map_err(|error| Error::Encode { key, error })?;
        loop {
            let member_id = self.member_id.borrow().clone();
            let protocols = vec![JoinGroupRequestProtocol { name: PROTOCOL, metadata: &metadata }];
            let request = JoinGroupRequest {
                group_id: &self.options.group,
                session_timeout_ms: ms(self.options.session),
                rebalance_timeout_ms: ms(self.options.rebalance),
                member_id: &member_id,
                group_instance_id: self.options.instance.as_deref(),
                protocol_type: PROTOCOL_TYPE,
                protocols: protocols.into(),
                reason: None,
            };
            let reply = self.call(&request, self.options.rebalance).await?;
            let response: JoinGroupResponse<'_> = reply.decode()?;
            match response.error_code {
                ErrorCode::None => {}
                ErrorCode::MemberIdRequired => {
                    response.member_id.clone_into(&mut self.member_id.borrow_mut());
                    continue;
                }
                error => return Err(Error::refused(self.what(), error, None)),
            }
            response.member_id.clone_into(&mut self.member_id.borrow_mut());
            self.generation.set(response.generation_id);
            if response.leader != response.member_id || response.skip_assignment {
                return Ok(Vec::new());
            }
            return self.share_out(&response).await;
        }
    }

    async fn share_out(&self, joined: &JoinGroupResponse<'_>) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let key = ApiKey::JoinGroup;
        let mut subscribers = Vec::new();
        for member in &joined.members {
            let subscription =
                ConsumerProtocolSubscription::read(member.metadata).map_err(|error| Error::Decode { key, error })?;
            subscribers.push(Subscriber {
                member_id: member.member_id.to_owned(),
                instance_id: member.group_instance_id.map(str::to_owned),
                topics: subscription.topics.iter().map(str::to_owned).collect(),
            });
        }
        let topics: BTreeSet<&String> = subscribers.iter().flat_map(|subscriber| &subscriber.topics).collect();
        let mut counts = BTreeMap::new();
        for topic in topics {
            match self.client.topic(topic).await {
                Ok(found) => _ = counts.insert(topic.clone(), found.partitions.len()),
                // Nobody reads it as long as it is not there.
                Err(Error::NoTopic { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut shares = Vec::new();
        for (member, topics) in range(&subscribers, &counts) {
            let assigned: Vec<TopicPartition<'_>> =
                topics.iter().map(|(topic, run)| TopicPartition { topic, partitions: run.as_slice().into() }).collect();
            let assignment = ConsumerProtocolAssignment { assigned_partitions: assigned.into(), user_data: None };
            let bytes = assignment.to_bytes(PROTOCOL_VERSION).map_err(|error| Error::Encode { key, error })?;
            shares.push((member, bytes));
        }
        Ok(shares)
    }

    /// The partitions of this member.
    async fn sync(&self, shares: Vec<(String, Vec<u8>)>) -> Result<BTreeSet<Place>, Error> {
        let member_id = self.member_id.borrow().clone();
        let assignments: Vec<_> =
            shares.iter().map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment }).collect();
        let request = SyncGroupRequest {
            group_id: &self.options.group,
            generation_id: self.generation.get(),
            member_id: &member_id,
            group_instance_id: self.options.instance.as_deref(),
            protocol_type: Some(PROTOCOL_TYPE),
            protocol_name: Some(PROTOCOL),
            assignments: assignments.into(),
        };
        let reply = self.call(&request, self.options.rebalance).await?;
        let response: SyncGroupResponse<'_> = reply.decode()?;
        if response.error_code.is_error() {
            return Err(Error::refused(self.what(), response.error_code, None));
        }
        if response.assignment.is_empty() {
            return Ok(BTreeSet::new());
        }
        let assignment = ConsumerProtocolAssignment::read(response.assignment)
            .map_err(|error| Error::Decode { key: ApiKey::SyncGroup, error })?;
        let of = |topic: TopicPartition<'_>| -> Vec<Place> {
            topic.partitions.iter().map(|partition| (topic.topic.to_owned(), partition)).collect()
        };
        Ok(assignment.assigned_partitions.iter().flat_map(of).collect())
    }

    async fn heartbeat(&self) -> ErrorCode {
        let member_id = self.member_id.borrow().clone();
        let request = HeartbeatRequest {
            group_id: &self.options.group,
            generation_id: self.generation.get(),
            member_id: &member_id,
            group_instance_id: self.options.instance.as_deref(),
        };
        let beat = async {
            let reply = self.call(&request, Duration::ZERO).await?;
            let response: HeartbeatResponse = reply.decode()?;
            Ok::<_, Error>(response.error_code)
        };
        // A coordinator that can't be asked now is asked again: the session says when it is too late.
        match beat.await {
            Ok(error) if !error.is_retriable() || error == ErrorCode::RebalanceInProgress => error,
            Ok(_) | Err(_) => {
                self.coordinator.set(None);
                ErrorCode::None
            }
        }
    }

    pub(super) async fn tell_leave(&self) -> Result<(), Error> {
        if self.options.protocol == GroupProtocol::Consumer {
            return self.leave_epochs().await;
        }
        let member_id = self.member_id.borrow().clone();
        // A static member that goes comes back.
        if member_id.is_empty() || self.options.instance.is_some() {
            return Ok(());
        }
        let connection = self.connection().await?;
        let is_batch = connection.version::<LeaveGroupRequest<'_>>()? >= LEAVE_BATCH_VERSION;
        let member = MemberIdentity { member_id: &member_id, ..Default::default() };
        let request = LeaveGroupRequest {
            group_id: &self.options.group,
            member_id: if is_batch { "" } else { &member_id },
            members: if is_batch { vec![member].into() } else { Vec::new().into() },
        };
        let reply = connection.call(&request).await?;
        let response: LeaveGroupResponse<'_> = reply.decode()?;
        let of_member = response.members.iter().next().map_or(ErrorCode::None, |member| member.error_code);
        match [response.error_code, of_member].into_iter().find(|error| error.is_error()) {
            Some(error) if error != ErrorCode::UnknownMemberId => Err(Error::refused(self.what(), error, None)),
            _ => Ok(()),
        }
    }
}

pub(super) fn ms(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
