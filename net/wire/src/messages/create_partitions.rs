//! CreatePartitions (key 37): adds partitions to topics (KIP-195).

use base::BrokerId;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = CreatePartitions, versions = "0-3", reply = CreatePartitionsResponse<'r>)]
pub struct CreatePartitionsRequest<'a> {
    pub topics: Array<'a, CreatePartitionsTopic<'a>>,
    pub timeout_ms: i32,
    /// Check everything, create nothing.
    pub validate_only: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CreatePartitionsTopic<'a> {
    pub name: &'a str,
    /// How many partitions the topic is to have in the end, the old ones included.
    pub count: i32,
    /// One for each new partition, in order; null where the choice is the cluster's.
    #[wire(nullable = "0+", default = Some(Array::empty()))]
    pub assignments: Option<Array<'a, CreatePartitionsAssignment<'a>>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CreatePartitionsAssignment<'a> {
    /// The replicas, the preferred leader first.
    pub broker_ids: Array<'a, BrokerId>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = CreatePartitions, versions = "0-3")]
pub struct CreatePartitionsResponse<'a> {
    pub throttle_time_ms: i32,
    pub results: Array<'a, CreatePartitionsTopicResult<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct CreatePartitionsTopicResult<'a> {
    pub name: &'a str,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
}
