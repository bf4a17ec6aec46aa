//! Consumer groups from outside: which there are, who is in them, how far they have read; each asked of the group's coordinator.
//!
//! Stateless, like the rest of administration.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Uuid};
use wire::consumer_protocol::{ConsumerProtocolAssignment, PROTOCOL_TYPE};
use wire::messages::consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use wire::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};
use wire::{ApiKey, Array, ErrorCode};

use crate::connection::Connection;
use crate::{Client, Error, Lane};

/// A group, of whatever protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedGroup {
    pub name: String,
    /// "consumer", "connect", or what its members agree on; empty where it has none.
    pub protocol_type: String,
    /// As brokers name it, "Stable"; empty from brokers that do not say.
    pub state: String,
    /// "classic" or "consumer"; empty from brokers that do not say.
    pub kind: String,
}

/// A group and its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedGroup {
    /// "Dead" where there is no such group.
    pub state: String,
    pub protocol_type: String,
    /// How the members share the partitions out.
    pub protocol: String,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedMember {
    pub id: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub host: String,
    /// What it reads; nothing of groups that share other things out than partitions.
    pub partitions: Vec<(String, PartitionIndex)>,
}

/// How far a group has read a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupOffset {
    pub topic: String,
    pub partition: PartitionIndex,
    /// The next offset to read.
    pub offset: Offset,
    /// −1 for unknown.
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
}

/// The state of a group that is not there.
const DEAD: &str = "Dead";

/// What an assignment of consumers says; nothing where it can't be read.
fn partitions(assignment: &[u8]) -> Vec<(String, PartitionIndex)> {
    let Ok(assignment) = ConsumerProtocolAssignment::read(assignment) else { return Vec::new() };
    let of = |topic: wire::consumer_protocol::TopicPartition<'_>| -> Vec<_> {
        topic.partitions.iter().map(|partition| (topic.topic.to_owned(), partition)).collect()
    };
    assignment.assigned_partitions.iter().flat_map(of).collect()
}

/// The first version that asks for several keys at once.
const COORDINATOR_KEYS_VERSION: i16 = 4;
/// The first version that asks for several groups at once.
pub(crate) const FETCH_GROUPS_VERSION: i16 = 8;
/// The versions whose topics go by their ids.
const TOPIC_ID_VERSION: i16 = 10;

impl Client {
    /// The broker that coordinates a group; the metadata knows it then. One attempt.
    ///
    /// # Errors
    /// There is none yet, or nobody answers.
    pub async fn coordinator_of(&self, group: &str) -> Result<BrokerId, Error> {
        let any = self.any_connection().await?;
        let by_keys = any.version::<FindCoordinatorRequest<'_>>()? >= COORDINATOR_KEYS_VERSION;
        let request = FindCoordinatorRequest {
            key: if by_keys { "" } else { group },
            coordinator_keys: if by_keys { vec![group].into() } else { Array::empty() },
            ..Default::default()
        };
        let reply = any.call(&request).await?;
        let response: FindCoordinatorResponse<'_> = reply.decode()?;
        let (id, code, message) = match response.coordinators.iter().next() {
            Some(found) => (found.node_id, found.error_code, found.error_message),
            None => (response.node_id, response.error_code, response.error_message),
        };
        if code.is_error() {
            return Err(Error::refused(format!("the coordinator of group {group}"), code, message));
        }
        if self.with_metadata(|metadata| metadata.broker(id).is_none()) {
            self.ask_for_metadata(Some(Array::empty())).await?;
        }
        Ok(id)
    }

    async fn coordinator(&self, group: &str) -> Result<Connection, Error> {
        let broker = self.coordinator_of(group).await?;
        self.connection(broker, Lane::CONTROL).await
    }

    /// Every group of every broker, by name.
    ///
    /// # Errors
    /// A broker refuses, or does not answer.
    pub async fn list_groups(&self) -> Result<Vec<ListedGroup>, Error> {
        let mut groups = self
            .retrying(self.deadline(), async || {
                self.ask_for_metadata(Some(Array::empty())).await?;
                let brokers: Vec<BrokerId> =
                    self.with_metadata(|known| known.brokers().map(|broker| broker.id).collect());
                let mut groups = Vec::new();
                for broker in brokers {
                    let reply = self.call(broker, &ListGroupsRequest::default()).await?;
                    let response: ListGroupsResponse<'_> = reply.decode()?;
                    if response.error_code.is_error() {
                        return Err(Error::refused(format!("groups of broker {broker}"), response.error_code, None));
                    }
                    groups.extend(response.groups.iter().map(|group| ListedGroup {
                        name: group.group_id.to_owned(),
                        protocol_type: group.protocol_type.to_owned(),
                        state: group.group_state.to_owned(),
                        kind: group.group_type.to_owned(),
                    }));
                }
                Ok(groups)
            })
            .await?;
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(groups)
    }

    /// A group of either protocol.
    ///
    /// # Errors
    /// The coordinator's refusal, or it does not answer.
    pub async fn describe_group(&self, group: &str) -> Result<DescribedGroup, Error> {
        let described = self.describe_classic_group(group).await?;
        if described.state != DEAD {
            return Ok(described);
        }
        match self.describe_consumer_group(group).await {
            // It is there in neither form, or the broker knows one only.
            Err(Error::Unsupported { .. }) => Ok(described),
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => Ok(described),
            found => found,
        }
    }

    /// A group whose coordinator assigns the partitions (KIP-848).
    async fn describe_consumer_group(&self, group: &str) -> Result<DescribedGroup, Error> {
        self.retrying(self.deadline(), async || {
            let request = ConsumerGroupDescribeRequest { group_ids: vec![group].into(), ..Default::default() };
            let reply = self.coordinator(group).await?.call(&request).await?;
            let response: ConsumerGroupDescribeResponse<'_> = reply.decode()?;
            let missing = Error::Nonsense { key: ApiKey::ConsumerGroupDescribe, what: "the group is missing" };
            let found = response.groups.iter().next().ok_or(missing)?;
            if found.error_code.is_error() {
                return Err(Error::refused(format!("group {group}"), found.error_code, found.error_message));
            }
            let member = |member: wire::messages::consumer_group_describe::Member<'_>| {
                let of = |topic: wire::messages::consumer_group_describe::TopicPartitions<'_>| -> Vec<_> {
                    topic.partitions.iter().map(|partition| (topic.topic_name.to_owned(), partition)).collect()
                };
                DescribedMember {
                    id: member.member_id.to_owned(),
                    instance: member.instance_id.map(str::to_owned),
                    client_id: member.client_id.to_owned(),
                    host: member.client_host.to_owned(),
                    partitions: member.assignment.topic_partitions.iter().flat_map(of).collect(),
                }
            };
            Ok(DescribedGroup {
                state: found.group_state.to_owned(),
                protocol_type: PROTOCOL_TYPE.to_owned(),
                protocol: found.assignor_name.to_owned(),
                members: found.members.iter().map(member).collect(),
            })
        })
        .await
    }

    async fn describe_classic_group(&self, group: &str) -> Result<DescribedGroup, Error> {
        self.retrying(self.deadline(), async || {
            let request = DescribeGroupsRequest { groups: vec![group].into(), ..Default::default() };
            let reply = self.coordinator(group).await?.call(&request).await?;
            let response: DescribeGroupsResponse<'_> = reply.decode()?;
            let missing = Error::Nonsense { key: ApiKey::DescribeGroups, what: "the group is missing" };
            let found = response.groups.iter().next().ok_or(missing)?;
            let is_missing = found.error_code == ErrorCode::GroupIdNotFound;
            if found.error_code.is_error() && !is_missing {
                return Err(Error::refused(format!("group {group}"), found.error_code, found.error_message));
            }
            let shares_partitions = found.protocol_type == PROTOCOL_TYPE;
            let member = |member: wire::messages::describe_groups::DescribedGroupMember<'_>| DescribedMember {
                id: member.member_id.to_owned(),
                instance: member.group_instance_id.map(str::to_owned),
                client_id: member.client_id.to_owned(),
                host: member.client_host.to_owned(),
                partitions: if shares_partitions { partitions(member.member_assignment) } else { Vec::new() },
            };
            Ok(DescribedGroup {
                state: if is_missing { DEAD } else { found.group_state }.to_owned(),
                protocol_type: found.protocol_type.to_owned(),
                protocol: found.protocol_data.to_owned(),
                members: found.members.iter().map(member).collect(),
            })
        })
        .await
    }

    /// All offsets that a group has committed, by topic and partition.
    ///
    /// # Errors
    /// The coordinator's refusal, or it does not answer.
    pub async fn group_offsets(&self, group: &str) -> Result<Vec<GroupOffset>, Error> {
        let mut offsets = self
            .retrying(self.deadline(), async || {
                let connection = self.coordinator(group).await?;
                let version = connection.version::<OffsetFetchRequest<'_>>()?;
                let is_batch = version >= FETCH_GROUPS_VERSION;
                let asked = OffsetFetchRequestGroup { group_id: group, topics: None, ..Default::default() };
                let request = OffsetFetchRequest {
                    group_id: if is_batch { "" } else { group },
                    topics: if is_batch { Some(Array::empty()) } else { None },
                    groups: if is_batch { vec![asked].into() } else { Array::empty() },
                    require_stable: false,
                };
                let reply = connection.call(&request).await?;
                self.read_offsets(group, &reply.decode()?, version).await
            })
            .await?;
        let key = |offset: &GroupOffset| (offset.topic.clone(), offset.partition);
        offsets.sort_by_key(key);
        Ok(offsets)
    }

    pub(crate) async fn read_offsets(
        &self,
        group: &str,
        response: &OffsetFetchResponse<'_>,
        version: i16,
    ) -> Result<Vec<GroupOffset>, Error> {
        let refused = |code: ErrorCode| match code.is_error() {
            true => Err(Error::refused(format!("offsets of group {group}"), code, None)),
            false => Ok(()),
        };
        refused(response.error_code)?;
        let mut offsets = Vec::new();
        let mut take = |topic: &str, partition, offset, leader_epoch, metadata: Option<&str>| {
            let (topic, metadata) = (topic.to_owned(), metadata.unwrap_or_default().to_owned());
            offsets.push(GroupOffset { topic, partition, offset, leader_epoch, metadata });
        };
        for topic in &response.topics {
            for found in &topic.partitions {
                refused(found.error_code)?;
                let epoch = found.committed_leader_epoch;
                take(topic.name, found.partition_index, found.committed_offset, epoch, found.metadata);
            }
        }
        for told in &response.groups {
            refused(told.error_code)?;
            for topic in &told.topics {
                let by_id = version >= TOPIC_ID_VERSION;
                let name = if by_id { self.name_of(topic.topic_id).await? } else { topic.name.to_owned() };
                for found in &topic.partitions {
                    refused(found.error_code)?;
                    let epoch = found.committed_leader_epoch;
                    take(&name, found.partition_index, found.committed_offset, epoch, found.metadata);
                }
            }
        }
        offsets.retain(|offset| offset.offset.0 >= 0);
        Ok(offsets)
    }

    /// The name of a topic that a broker spoke of by its id.
    pub(crate) async fn name_of(&self, id: Uuid) -> Result<String, Error> {
        let known = |client: &Self| client.with_metadata(|metadata| metadata.name_of(id).map(str::to_owned));
        if let Some(name) = known(self) {
            return Ok(name);
        }
        self.ask_for_metadata(None).await?;
        known(self).ok_or_else(|| Error::refused(format!("topic id {id}"), ErrorCode::UnknownTopicId, None))
    }

    /// Sets offsets of a group that has no members.
    ///
    /// # Errors
    /// The group has members (`UNKNOWN_MEMBER_ID`), a partition is refused, or the coordinator does not answer.
    pub async fn set_group_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<(), Error> {
        for offset in offsets {
            self.topic(&offset.topic).await?;
        }
        self.retrying(self.deadline(), async || {
            let mut topics: Vec<OffsetCommitRequestTopic<'_>> = Vec::new();
            for of_topic in offsets.chunk_by(|one, other| one.topic == other.topic) {
                let name = of_topic[0].topic.as_str();
                let partition = |offset: &'_ GroupOffset| (offset.partition, offset.offset, offset.leader_epoch);
                let partitions = of_topic.iter().map(|offset| {
                    let (partition_index, committed_offset, committed_leader_epoch) = partition(offset);
                    OffsetCommitRequestPartition {
                        partition_index,
                        committed_offset,
                        committed_leader_epoch,
                        committed_metadata: Some(&offset.metadata),
                    }
                });
                let topic_id = self.topic(name).await?.id;
                topics.push(OffsetCommitRequestTopic { name, topic_id, partitions: partitions.collect() });
            }
            let request = OffsetCommitRequest { group_id: group, topics: topics.into(), ..Default::default() };
            let reply = self.coordinator(group).await?.call(&request).await?;
            let response: OffsetCommitResponse<'_> = reply.decode()?;
            for topic in &response.topics {
                let refused = topic.partitions.iter().find(|partition| partition.error_code.is_error());
                if let Some(refused) = refused {
                    let what = format!("the offset of partition {} in group {group}", refused.partition_index);
                    return Err(Error::refused(what, refused.error_code, None));
                }
            }
            Ok(())
        })
        .await
    }

    /// Deletes a group without members, with its offsets.
    ///
    /// # Errors
    /// The group has members or does not exist, or the coordinator does not answer.
    pub async fn delete_group(&self, group: &str) -> Result<(), Error> {
        self.retrying(self.deadline(), async || {
            let request = DeleteGroupsRequest { groups_names: vec![group].into() };
            let reply = self.coordinator(group).await?.call(&request).await?;
            let response: DeleteGroupsResponse<'_> = reply.decode()?;
            let missing = Error::Nonsense { key: ApiKey::DeleteGroups, what: "the group is missing" };
            let result = response.results.iter().next().ok_or(missing)?;
            match result.error_code.is_error() {
                true => Err(Error::refused(format!("group {group}"), result.error_code, result.error_message)),
                false => Ok(()),
            }
        })
        .await
    }
}
