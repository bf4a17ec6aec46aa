//! Metadata (key 3): brokers, topics, partitions and their leaders.

use base::{BrokerId, LeaderEpoch, PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Wire};

/// "Not asked for" in the fields of authorized operations.
pub const NO_AUTHORIZED_OPERATIONS: i32 = i32::MIN;

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = Metadata, versions = "0-13", reply = MetadataResponse<'r>)]
pub struct MetadataRequest<'a> {
    /// Null for all topics (from version 1 on); empty for none, but for all in version 0.
    #[wire(nullable = "1+", default = Some(Array::empty()))]
    pub topics: Option<Array<'a, MetadataRequestTopic<'a>>>,
    #[wire(versions = "4+", default = true)]
    pub allow_auto_topic_creation: bool,
    #[wire(versions = "8-10")]
    pub include_cluster_authorized_operations: bool,
    #[wire(versions = "8+")]
    pub include_topic_authorized_operations: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct MetadataRequestTopic<'a> {
    /// Versions 10 and 11 have it, but only from version 12 on may a topic be looked up by it.
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    #[wire(nullable = "10+")]
    pub name: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = Metadata, versions = "0-13")]
pub struct MetadataResponse<'a> {
    #[wire(versions = "3+", ignorable)]
    pub throttle_time_ms: i32,
    pub brokers: Array<'a, MetadataResponseBroker<'a>>,
    #[wire(versions = "2+", nullable = "2+", ignorable)]
    pub cluster_id: Option<&'a str>,
    #[wire(versions = "1+", default = BrokerId(-1), ignorable)]
    pub controller_id: BrokerId,
    pub topics: Array<'a, MetadataResponseTopic<'a>>,
    #[wire(versions = "8-10", default = NO_AUTHORIZED_OPERATIONS)]
    pub cluster_authorized_operations: i32,
    #[wire(versions = "13+", ignorable)]
    pub error_code: ErrorCode,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct MetadataResponseBroker<'a> {
    pub node_id: BrokerId,
    pub host: &'a str,
    pub port: i32,
    #[wire(versions = "1+", nullable = "1+", ignorable)]
    pub rack: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct MetadataResponseTopic<'a> {
    pub error_code: ErrorCode,
    /// Null where the topic was asked for by an id that does not exist.
    #[wire(nullable = "12+")]
    pub name: Option<&'a str>,
    /// Zero where the topic was asked for by a name that does not exist.
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    #[wire(versions = "1+", ignorable)]
    pub is_internal: bool,
    pub partitions: Array<'a, MetadataResponsePartition<'a>>,
    /// A bit per operation, where they were asked for.
    #[wire(versions = "8+", default = NO_AUTHORIZED_OPERATIONS)]
    pub topic_authorized_operations: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct MetadataResponsePartition<'a> {
    pub error_code: ErrorCode,
    pub partition_index: PartitionIndex,
    /// −1 where there is none.
    pub leader_id: BrokerId,
    #[wire(versions = "7+", default = LeaderEpoch(-1), ignorable)]
    pub leader_epoch: LeaderEpoch,
    pub replica_nodes: Array<'a, BrokerId>,
    pub isr_nodes: Array<'a, BrokerId>,
    #[wire(versions = "5+", ignorable)]
    pub offline_replicas: Array<'a, BrokerId>,
}
