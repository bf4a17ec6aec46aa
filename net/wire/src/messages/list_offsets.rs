//! ListOffsets (key 2): the offset of a time, or of an end of the log.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ListOffsets, versions = "1-10", reply = ListOffsetsResponse<'r>)]
pub struct ListOffsetsRequest<'a> {
    /// −1 from a consumer.
    pub replica_id: BrokerId,
    /// 0: read uncommitted; 1: read committed.
    #[wire(versions = "2+")]
    pub isolation_level: i8,
    pub topics: Array<'a, ListOffsetsTopic<'a>>,
    /// How long remote storage may be asked.
    #[wire(versions = "10+", ignorable)]
    pub timeout_ms: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ListOffsetsTopic<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, ListOffsetsPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ListOffsetsPartition {
    pub partition_index: PartitionIndex,
    #[wire(versions = "4+", default = LeaderEpoch(-1), ignorable)]
    pub current_leader_epoch: LeaderEpoch,
    /// A time in milliseconds, or one of the negative codes of KIP-79 and its followers.
    pub timestamp: i64,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ListOffsets, versions = "1-10")]
pub struct ListOffsetsResponse<'a> {
    #[wire(versions = "2+", ignorable)]
    pub throttle_time_ms: i32,
    pub topics: Array<'a, ListOffsetsTopicResponse<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ListOffsetsTopicResponse<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, ListOffsetsPartitionResponse>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ListOffsetsPartitionResponse {
    pub partition_index: PartitionIndex,
    pub error_code: ErrorCode,
    /// The timestamp of the record found; −1 where none was looked for or found.
    #[wire(versions = "1+", default = -1)]
    pub timestamp: i64,
    #[wire(versions = "1+", default = Offset(-1))]
    pub offset: Offset,
    #[wire(versions = "4+", default = LeaderEpoch(-1))]
    pub leader_epoch: LeaderEpoch,
}
