//! ElectLeaders (key 43): has partitions elect their leaders anew (KIP-183, KIP-460).

use base::PartitionIndex;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ElectLeaders, versions = "0-2", reply = ElectLeadersResponse<'r>)]
pub struct ElectLeadersRequest<'a> {
    /// 0: the preferred replica; 1: any live one where none is in sync, which loses records.
    #[wire(versions = "1+")]
    pub election_type: i8,
    /// Null for all partitions.
    #[wire(nullable = "0+", default = Some(Array::empty()))]
    pub topic_partitions: Option<Array<'a, TopicPartitions<'a>>>,
    #[wire(default = 60_000)]
    pub timeout_ms: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicPartitions<'a> {
    pub topic: &'a str,
    pub partitions: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ElectLeaders, versions = "0-2")]
pub struct ElectLeadersResponse<'a> {
    pub throttle_time_ms: i32,
    /// Version 0 cannot carry an error: encoding one fails.
    #[wire(versions = "1+")]
    pub error_code: ErrorCode,
    pub replica_election_results: Array<'a, ReplicaElectionResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ReplicaElectionResult<'a> {
    pub topic: &'a str,
    pub partition_result: Array<'a, PartitionResult<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct PartitionResult<'a> {
    pub partition_id: PartitionIndex,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
}
