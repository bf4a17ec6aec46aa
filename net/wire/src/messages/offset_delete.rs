//! OffsetDelete (key 47): a group forgets how far it has read topics that it is not subscribed to (KIP-496).

use base::PartitionIndex;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = OffsetDelete, versions = "0", reply = OffsetDeleteResponse<'r>)]
pub struct OffsetDeleteRequest<'a> {
    pub group_id: &'a str,
    pub topics: Array<'a, OffsetDeleteRequestTopic<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetDeleteRequestTopic<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, OffsetDeleteRequestPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetDeleteRequestPartition {
    pub partition_index: PartitionIndex,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = OffsetDelete, versions = "0")]
pub struct OffsetDeleteResponse<'a> {
    pub error_code: ErrorCode,
    pub throttle_time_ms: i32,
    pub topics: Array<'a, OffsetDeleteResponseTopic<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OffsetDeleteResponseTopic<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, OffsetDeleteResponsePartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct OffsetDeleteResponsePartition {
    pub partition_index: PartitionIndex,
    pub error_code: ErrorCode,
}
