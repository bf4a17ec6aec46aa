//! OffsetFetch (key 9): how far groups have read; one group up to version 7, several from version 8 on (KIP-709), with
//! topics by id from version 10 on (KIP-848).

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = OffsetFetch, versions = "1-10", reply = OffsetFetchResponse<'r>)]
pub struct OffsetFetchRequest<'a> {
    #[wire(versions = "0-7")]
    pub group_id: &'a str,
    /// Null for all topics (from version 2 on).
    #[wire(versions = "0-7", nullable = "2-7", default = Some(Array::empty()))]
    pub topics: Option<Array<'a, OffsetFetchRequestTopic<'a>>>,
    #[wire(versions = "8+")]
    pub groups: Array<'a, OffsetFetchRequestGroup<'a>>,
    /// Partitions with offsets of open transactions get UNSTABLE_OFFSET_COMMIT in place of an older offset (KIP-447).
    #[wire(versions = "7+")]
    pub require_stable: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchRequestTopic<'a> {
    #[wire(versions = "0-7")]
    pub name: &'a str,
    #[wire(versions = "0-7")]
    pub partition_indexes: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchRequestGroup<'a> {
    #[wire(versions = "8+")]
    pub group_id: &'a str,
    /// Null from who is no member of a consumer group.
    #[wire(versions = "9+", nullable = "9+", ignorable)]
    pub member_id: Option<&'a str>,
    #[wire(versions = "9+", default = -1, ignorable)]
    pub member_epoch: i32,
    /// Null for all topics.
    #[wire(versions = "8+", nullable = "8+", default = Some(Array::empty()))]
    pub topics: Option<Array<'a, OffsetFetchRequestTopics<'a>>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchRequestTopics<'a> {
    #[wire(versions = "8-9", ignorable)]
    pub name: &'a str,
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    #[wire(versions = "8+")]
    pub partition_indexes: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = OffsetFetch, versions = "1-10")]
pub struct OffsetFetchResponse<'a> {
    #[wire(versions = "3+", ignorable)]
    pub throttle_time_ms: i32,
    #[wire(versions = "0-7")]
    pub topics: Array<'a, OffsetFetchResponseTopic<'a>>,
    /// The group's; version 1 says it of every partition instead.
    #[wire(versions = "2-7", ignorable)]
    pub error_code: ErrorCode,
    #[wire(versions = "8+")]
    pub groups: Array<'a, OffsetFetchResponseGroup<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchResponseTopic<'a> {
    #[wire(versions = "0-7")]
    pub name: &'a str,
    #[wire(versions = "0-7")]
    pub partitions: Array<'a, OffsetFetchResponsePartition<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetFetchResponsePartition<'a> {
    #[wire(versions = "0-7")]
    pub partition_index: PartitionIndex,
    /// −1 where there is none.
    #[wire(versions = "0-7")]
    pub committed_offset: Offset,
    #[wire(versions = "5-7", default = LeaderEpoch(-1), ignorable)]
    pub committed_leader_epoch: LeaderEpoch,
    #[wire(versions = "0-7", nullable = "0-7")]
    pub metadata: Option<&'a str>,
    #[wire(versions = "0-7")]
    pub error_code: ErrorCode,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchResponseGroup<'a> {
    #[wire(versions = "8+")]
    pub group_id: &'a str,
    #[wire(versions = "8+")]
    pub topics: Array<'a, OffsetFetchResponseTopics<'a>>,
    #[wire(versions = "8+")]
    pub error_code: ErrorCode,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetFetchResponseTopics<'a> {
    #[wire(versions = "8-9", ignorable)]
    pub name: &'a str,
    #[wire(versions = "10+", ignorable)]
    pub topic_id: Uuid,
    #[wire(versions = "8+")]
    pub partitions: Array<'a, OffsetFetchResponsePartitions<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetFetchResponsePartitions<'a> {
    #[wire(versions = "8+")]
    pub partition_index: PartitionIndex,
    /// −1 where there is none.
    #[wire(versions = "8+")]
    pub committed_offset: Offset,
    #[wire(versions = "8+", default = LeaderEpoch(-1), ignorable)]
    pub committed_leader_epoch: LeaderEpoch,
    #[wire(versions = "8+", nullable = "8+")]
    pub metadata: Option<&'a str>,
    #[wire(versions = "8+")]
    pub error_code: ErrorCode,
}
