//! ListPartitionReassignments (key 46): the partitions whose replicas are on the move (KIP-455).

use base::{BrokerId, PartitionIndex};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ListPartitionReassignments, versions = "0", reply = ListPartitionReassignmentsResponse<'r>)]
pub struct ListPartitionReassignmentsRequest<'a> {
    #[wire(default = 60_000)]
    pub timeout_ms: i32,
    /// Null for all topics.
    #[wire(nullable = "0+")]
    pub topics: Option<Array<'a, ListPartitionReassignmentsTopics<'a>>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ListPartitionReassignmentsTopics<'a> {
    pub name: &'a str,
    pub partition_indexes: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ListPartitionReassignments, versions = "0")]
pub struct ListPartitionReassignmentsResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    /// Only those with a reassignment under way.
    pub topics: Array<'a, OngoingTopicReassignment<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OngoingTopicReassignment<'a> {
    pub name: &'a str,
    pub partitions: Array<'a, OngoingPartitionReassignment<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct OngoingPartitionReassignment<'a> {
    pub partition_index: PartitionIndex,
    /// All replicas of the moment, those that come and those that go included.
    pub replicas: Array<'a, BrokerId>,
    pub adding_replicas: Array<'a, BrokerId>,
    pub removing_replicas: Array<'a, BrokerId>,
}
