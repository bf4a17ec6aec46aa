//! DescribeTopicPartitions (key 75): partitions with their eligible leader replicas, in pages (KIP-966).

use base::{BrokerId, LeaderEpoch, PartitionIndex, Uuid};

use super::metadata::NO_AUTHORIZED_OPERATIONS;
use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DescribeTopicPartitions, versions = "0", reply = DescribeTopicPartitionsResponse<'r>)]
pub struct DescribeTopicPartitionsRequest<'a> {
    /// Empty for all topics.
    pub topics: Array<'a, TopicRequest<'a>>,
    /// The most partitions to answer with; the broker may have a lower limit of its own.
    #[wire(default = 2_000)]
    pub response_partition_limit: i32,
    /// Null to start at the first of the topics.
    #[wire(nullable = "0+")]
    pub cursor: Option<Cursor<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct TopicRequest<'a> {
    pub name: &'a str,
}

/// Where a page starts, topics in the order of their names. Kafka defines it twice, for the request and the response.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct Cursor<'a> {
    pub topic_name: &'a str,
    pub partition_index: PartitionIndex,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeTopicPartitions, versions = "0")]
pub struct DescribeTopicPartitionsResponse<'a> {
    #[wire(ignorable)]
    pub throttle_time_ms: i32,
    pub topics: Array<'a, DescribeTopicPartitionsResponseTopic<'a>>,
    /// Where the next page starts; null where there is none.
    #[wire(nullable = "0+")]
    pub next_cursor: Option<Cursor<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeTopicPartitionsResponseTopic<'a> {
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub name: Option<&'a str>,
    /// Zero where there is no such topic.
    #[wire(ignorable)]
    pub topic_id: Uuid,
    #[wire(ignorable)]
    pub is_internal: bool,
    pub partitions: Array<'a, DescribeTopicPartitionsResponsePartition<'a>>,
    /// A bit per operation.
    #[wire(default = NO_AUTHORIZED_OPERATIONS)]
    pub topic_authorized_operations: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeTopicPartitionsResponsePartition<'a> {
    pub error_code: ErrorCode,
    pub partition_index: PartitionIndex,
    /// −1 where there is none.
    pub leader_id: BrokerId,
    #[wire(default = LeaderEpoch(-1), ignorable)]
    pub leader_epoch: LeaderEpoch,
    pub replica_nodes: Array<'a, BrokerId>,
    pub isr_nodes: Array<'a, BrokerId>,
    /// Out of sync, but with every committed record: these may lead where no replica is in sync.
    #[wire(nullable = "0+")]
    pub eligible_leader_replicas: Option<Array<'a, BrokerId>>,
    /// The last that were eligible, where none is any more.
    #[wire(nullable = "0+")]
    pub last_known_elr: Option<Array<'a, BrokerId>>,
    #[wire(ignorable)]
    pub offline_replicas: Array<'a, BrokerId>,
}
