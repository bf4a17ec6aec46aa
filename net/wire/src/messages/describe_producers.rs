//! DescribeProducers (key 61): what a partition's leader knows of the producers that write to it (KIP-664).

use base::{Offset, PartitionIndex, ProducerId};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DescribeProducers, versions = "0", reply = DescribeProducersResponse<'r>)]
pub struct DescribeProducersRequest<'a> {
    pub topics: Array<'a, TopicRequest<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicRequest<'a> {
    pub name: &'a str,
    pub partition_indexes: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeProducers, versions = "0")]
pub struct DescribeProducersResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Array<'a, TopicResponse<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicResponse<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, PartitionResponse<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct PartitionResponse<'a> {
    pub partition_index: PartitionIndex,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    pub active_producers: Array<'a, ProducerState>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ProducerState {
    pub producer_id: ProducerId,
    /// 32 bits here, where every other message gives a [`base::ProducerEpoch`] its 16.
    pub producer_epoch: i32,
    /// The sequence number of its last record; −1 for none.
    #[wire(default = -1)]
    pub last_sequence: i32,
    /// In milliseconds since 1970; −1 for none.
    #[wire(default = -1)]
    pub last_timestamp: i64,
    /// The epoch of the coordinator that last ended a transaction here; negative for none.
    pub coordinator_epoch: i32,
    /// Where the open transaction starts; −1 for none.
    #[wire(default = Offset(-1))]
    pub current_txn_start_offset: Offset,
}
