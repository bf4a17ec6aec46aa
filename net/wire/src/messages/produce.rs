//! Produce (key 0): records for partitions, and where they were put.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Records, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = Produce, versions = "3-13", reply = ProduceResponse<'r>)]
pub struct ProduceRequest<'a> {
    /// Null unless the producer is transactional.
    #[wire(versions = "3+", nullable = "3+")]
    pub transactional_id: Option<&'a str>,
    /// 0: no response at all; 1: once the leader has it; −1: once the in-sync set has it.
    pub acks: i16,
    pub timeout_ms: i32,
    pub topic_data: Array<'a, TopicProduceData<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicProduceData<'a> {
    #[wire(versions = "0-12", ignorable)]
    pub name: &'a str,
    #[wire(versions = "13+", ignorable)]
    pub topic_id: Uuid,
    pub partition_data: Array<'a, PartitionProduceData<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct PartitionProduceData<'a> {
    pub index: PartitionIndex,
    pub records: Records<'a>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = Produce, versions = "3-13")]
pub struct ProduceResponse<'a> {
    pub responses: Array<'a, TopicProduceResponse<'a>>,
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    /// Where the leaders named in the partitions are.
    #[wire(versions = "10+", tag = 0)]
    pub node_endpoints: Array<'a, NodeEndpoint<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicProduceResponse<'a> {
    #[wire(versions = "0-12", ignorable)]
    pub name: &'a str,
    #[wire(versions = "13+", ignorable)]
    pub topic_id: Uuid,
    pub partition_responses: Array<'a, PartitionProduceResponse<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct PartitionProduceResponse<'a> {
    pub index: PartitionIndex,
    pub error_code: ErrorCode,
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The broker's time of the append, or −1 where the topic keeps the producer's timestamps.
    #[wire(versions = "2+", default = -1, ignorable)]
    pub log_append_time_ms: i64,
    #[wire(versions = "5+", default = Offset(-1), ignorable)]
    pub log_start_offset: Offset,
    /// The records that made the batch be refused.
    #[wire(versions = "8+", ignorable)]
    pub record_errors: Array<'a, BatchIndexAndErrorMessage<'a>>,
    #[wire(versions = "8+", nullable = "8+", ignorable)]
    pub error_message: Option<&'a str>,
    #[wire(versions = "10+", tag = 0)]
    pub current_leader: LeaderIdAndEpoch,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct BatchIndexAndErrorMessage<'a> {
    #[wire(versions = "8+")]
    pub batch_index: i32,
    #[wire(versions = "8+", nullable = "8+")]
    pub batch_index_error_message: Option<&'a str>,
}

/// The leader that a producer should turn to; −1 for unknown.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct LeaderIdAndEpoch {
    #[wire(versions = "10+", default = BrokerId(-1))]
    pub leader_id: BrokerId,
    #[wire(versions = "10+", default = LeaderEpoch(-1))]
    pub leader_epoch: LeaderEpoch,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct NodeEndpoint<'a> {
    #[wire(versions = "10+")]
    pub node_id: BrokerId,
    #[wire(versions = "10+")]
    pub host: &'a str,
    #[wire(versions = "10+")]
    pub port: i32,
    #[wire(versions = "10+", nullable = "10+")]
    pub rack: Option<&'a str>,
}
