//! OffsetCommit (key 8): a group keeps how far it has read; topics by name, and from version 10 on by id (KIP-848).

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = OffsetCommit, versions = "2-10", reply = OffsetCommitResponse<'r>)]
pub struct OffsetCommitRequest<'a> {
    pub group_id: &'a str,
    /// The generation of a classic member, or the epoch of a consumer member (version 9+); −1 from who is neither.
    #[wire(default = -1)]
    pub generation_id_or_member_epoch: i32,
    /// Empty from who is no member.
    pub member_id: &'a str,
    #[wire(versions = "7+", nullable = "7+")]
    pub group_instance_id: Option<&'a str>,
    /// −1 for what the broker is set to.
    #[wire(versions = "2-4", default = -1, ignorable)]
    pub retention_time_ms: i64,
    pub topics: Array<'a, OffsetCommitRequestTopic<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetCommitRequestTopic<'a> {
    #[wire(versions = "0-9", ignorable)]
    pub name: &'a str,
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    pub partitions: Array<'a, OffsetCommitRequestPartition<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetCommitRequestPartition<'a> {
    pub partition_index: PartitionIndex,
    /// The next offset to read.
    pub committed_offset: Offset,
    /// The epoch of the last record that was read; −1 for unknown.
    #[wire(versions = "6+", default = LeaderEpoch(-1), ignorable)]
    pub committed_leader_epoch: LeaderEpoch,
    /// Kept for the client; null as much as empty.
    #[wire(nullable = "0+")]
    pub committed_metadata: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = OffsetCommit, versions = "2-10")]
pub struct OffsetCommitResponse<'a> {
    #[wire(versions = "3+", ignorable)]
    pub throttle_time_ms: i32,
    pub topics: Array<'a, OffsetCommitResponseTopic<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetCommitResponseTopic<'a> {
    #[wire(versions = "0-9", ignorable)]
    pub name: &'a str,
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    pub partitions: Array<'a, OffsetCommitResponsePartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetCommitResponsePartition {
    pub partition_index: PartitionIndex,
    pub error_code: ErrorCode,
}
