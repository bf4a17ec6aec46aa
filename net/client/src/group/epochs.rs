//! The task of a member whose coordinator shares the partitions out (KIP-848): it says by heartbeats what it has, and is told what it may have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{PartitionIndex, Uuid};
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use wire::{Array, ErrorCode};

use super::membership::ms;
use super::{Inner, Place};
use crate::Error;

/// The epoch of a member that joins.
const JOINS: i32 = 0;
/// The epoch of one that leaves.
const LEAVES: i32 = -1;
/// The epoch of a static member that comes back.
const LEAVES_FOR_A_WHILE: i32 = -2;
/// The first version whose members choose their ids (KIP-1082).
const MEMBER_ID_VERSION: i16 = 1;
/// Before another heartbeat, after one that was not answered.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How much a heartbeat says; what it does not say is as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Everything,
    WhatItHas,
    Nothing,
}

/// What a heartbeat was answered.
struct Told {
    heartbeat: Duration,
    share: Option<BTreeSet<Place>>,
}

impl Inner {
    /// The membership from joining on, until the coordinator refuses it.
    pub(super) async fn epochs(&self) -> Result<(), Error> {
        self.unsettle();
        self.generation.set(JOINS);
        if self.member_id.borrow().is_empty() {
            let shard = self.client.shard();
            *self.member_id.borrow_mut() = Uuid::from_random(shard.random(), shard.random()).to_string();
        }
        let mut says = Says::Everything;
        while !self.is_leaving.get() {
            let told = match self.beat(says).await {
                Ok(told) => told,
                Err(error) if error.is_retriable() || error.may_have_happened() => {
                    self.coordinator.set(None);
                    self.pause(AGAIN_AFTER).await;
                    // The coordinator may not have heard what was said.
                    says = Says::Everything;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_new = told.share.as_ref().is_some_and(|share| !self.assigned.borrow().keys().eq(share.iter()));
            if let Some(share) = told.share.filter(|_| is_new) {
                self.unsettle();
                self.take(share).await?;
            }
            self.settle();
            // What it has given up may go to others, at once.
            says = if is_new { Says::WhatItHas } else { Says::Nothing };
            if !is_new {
                self.pause(told.heartbeat).await;
            }
        }
        Ok(())
    }

    async fn beat(&self, says: Says) -> Result<Told, Error> {
        let mut owned: BTreeMap<String, Vec<PartitionIndex>> = BTreeMap::new();
        for (topic, partition) in self.assigned.borrow().keys() {
            owned.entry(topic.clone()).or_default().push(*partition);
        }
        let mut with_ids = Vec::with_capacity(owned.len());
        for (topic, partitions) in &owned {
            let topic_id = self.client.topic(topic).await?.id;
            with_ids.push(TopicPartitions { topic_id, partitions: partitions.as_slice().into() });
        }
        let topics: Vec<&str> = self.options.topics.iter().map(String::as_str).collect();
        let is_whole = says == Says::Everything;
        let version = self.connection().await?.version::<ConsumerGroupHeartbeatRequest<'_>>()?;
        let is_named = version >= MEMBER_ID_VERSION || self.generation.get() != JOINS;
        let member_id = self.member_id.borrow().clone();
        let request = ConsumerGroupHeartbeatRequest {
            group_id: &self.options.group,
            member_id: if is_named { &member_id } else { "" },
            member_epoch: self.generation.get(),
            instance_id: self.options.instance.as_deref(),
            rack_id: None,
            rebalance_timeout_ms: if is_whole { ms(self.options.rebalance) } else { -1 },
            subscribed_topic_names: is_whole.then(|| topics.into()),
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: (says != Says::Nothing).then(|| with_ids.into()),
        };
        let reply = self.call(&request, Duration::ZERO).await?;
        let response: ConsumerGroupHeartbeatResponse<'_> = reply.decode()?;
        if response.error_code.is_error() {
            return Err(Error::refused(self.what(), response.error_code, response.error_message));
        }
        if let Some(member_id) = response.member_id {
            member_id.clone_into(&mut self.member_id.borrow_mut());
        }
        self.generation.set(response.member_epoch);
        let heartbeat = Duration::from_millis(response.heartbeat_interval_ms.max(1) as u64);
        let share = match &response.assignment {
            Some(assignment) => Some(self.named(&assignment.topic_partitions).await?),
            None => None,
        };
        Ok(Told { heartbeat, share })
    }

    /// Partitions whose topics go by their ids.
    async fn named(&self, topics: &Array<'_, TopicPartitions<'_>>) -> Result<BTreeSet<Place>, Error> {
        let mut places = BTreeSet::new();
        for topic in topics {
            let name = self.client.name_of(topic.topic_id).await?;
            places.extend(topic.partitions.iter().map(|partition| (name.clone(), partition)));
        }
        Ok(places)
    }

    pub(super) async fn leave_epochs(&self) -> Result<(), Error> {
        let member_id = self.member_id.borrow().clone();
        let is_static = self.options.instance.is_some();
        let request = ConsumerGroupHeartbeatRequest {
            group_id: &self.options.group,
            member_id: &member_id,
            member_epoch: if is_static { LEAVES_FOR_A_WHILE } else { LEAVES },
            instance_id: self.options.instance.as_deref(),
            rack_id: None,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: None,
        };
        let reply = self.call(&request, Duration::ZERO).await?;
        let response: ConsumerGroupHeartbeatResponse<'_> = reply.decode()?;
        match response.error_code {
            ErrorCode::None | ErrorCode::UnknownMemberId => Ok(()),
            error => Err(Error::refused(self.what(), error, response.error_message)),
        }
    }
}
