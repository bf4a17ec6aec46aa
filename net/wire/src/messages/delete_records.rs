//! DeleteRecords (key 21): raises the start of a partition's log (KIP-107).

use base::{Offset, PartitionIndex};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DeleteRecords, versions = "0-2", reply = DeleteRecordsResponse<'r>)]
pub struct DeleteRecordsRequest<'a> {
    pub topics: Array<'a, DeleteRecordsTopic<'a>>,
    pub timeout_ms: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DeleteRecordsTopic<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, DeleteRecordsPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DeleteRecordsPartition {
    pub partition_index: PartitionIndex,
    /// The first offset to keep; −1 for the high watermark.
    pub offset: Offset,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DeleteRecords, versions = "0-2")]
pub struct DeleteRecordsResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Array<'a, DeleteRecordsTopicResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DeleteRecordsTopicResult<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, DeleteRecordsPartitionResult>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DeleteRecordsPartitionResult {
    pub partition_index: PartitionIndex,
    /// The lowest log start offset among the live replicas; −1 with an error.
    pub low_watermark: Offset,
    pub error_code: ErrorCode,
}
