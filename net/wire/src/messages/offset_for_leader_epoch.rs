//! OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that a reader finds out that its log diverged (KIP-101,
//! KIP-320).

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = OffsetForLeaderEpoch, versions = "2-4", reply = OffsetForLeaderEpochResponse<'r>)]
pub struct OffsetForLeaderEpochRequest<'a> {
    /// −1 from a consumer. Version 2 does not say, which −2 stands for.
    #[wire(versions = "3+", default = BrokerId(-2), ignorable)]
    pub replica_id: BrokerId,
    pub topics: Array<'a, OffsetForLeaderTopic<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetForLeaderTopic<'a> {
    pub topic: &'a str,
    pub partitions: Array<'a, OffsetForLeaderPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetForLeaderPartition {
    pub partition: PartitionIndex,
    /// What the client believes, to be fenced by.
    #[wire(versions = "2+", default = LeaderEpoch(-1), ignorable)]
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch whose end is asked for.
    pub leader_epoch: LeaderEpoch,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = OffsetForLeaderEpoch, versions = "2-4")]
pub struct OffsetForLeaderEpochResponse<'a> {
    #[wire(versions = "2+", ignorable)]
    pub throttle_time_ms: i32,
    pub topics: Array<'a, OffsetForLeaderTopicResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetForLeaderTopicResult<'a> {
    pub topic: &'a str,
    pub partitions: Array<'a, EpochEndOffset>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct EpochEndOffset {
    pub error_code: ErrorCode,
    pub partition: PartitionIndex,
    #[wire(versions = "1+", default = LeaderEpoch(-1), ignorable)]
    pub leader_epoch: LeaderEpoch,
    #[wire(default = Offset(-1))]
    pub end_offset: Offset,
}
