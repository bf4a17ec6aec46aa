//! CreateTopics (key 19).

use base::{BrokerId, PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = CreateTopics, versions = "2-7", reply = CreateTopicsResponse<'r>)]
pub struct CreateTopicsRequest<'a> {
    pub topics: Array<'a, CreatableTopic<'a>>,
    #[wire(default = 60_000)]
    pub timeout_ms: i32,
    /// Check everything, create nothing.
    #[wire(versions = "1+")]
    pub validate_only: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CreatableTopic<'a> {
    pub name: &'a str,
    /// −1 for the broker's default, or where `assignments` say it.
    pub num_partitions: i32,
    /// −1 for the broker's default, or where `assignments` say it.
    pub replication_factor: i16,
    pub assignments: Array<'a, CreatableReplicaAssignment<'a>>,
    pub configs: Array<'a, CreatableTopicConfig<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CreatableReplicaAssignment<'a> {
    pub partition_index: PartitionIndex,
    pub broker_ids: Array<'a, BrokerId>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct CreatableTopicConfig<'a> {
    pub name: &'a str,
    #[wire(nullable = "0+")]
    pub value: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = CreateTopics, versions = "2-7")]
pub struct CreateTopicsResponse<'a> {
    #[wire(versions = "2+", ignorable)]
    pub throttle_time_ms: i32,
    pub topics: Array<'a, CreatableTopicResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CreatableTopicResult<'a> {
    pub name: &'a str,
    #[wire(versions = "7+", ignorable)]
    pub topic_id: Uuid,
    pub error_code: ErrorCode,
    #[wire(versions = "1+", nullable = "0+", ignorable)]
    pub error_message: Option<&'a str>,
    /// Why `configs` is null, if it is.
    #[wire(versions = "5+", tag = 0, ignorable)]
    pub topic_config_error_code: ErrorCode,
    #[wire(versions = "5+", default = -1, ignorable)]
    pub num_partitions: i32,
    #[wire(versions = "5+", default = -1, ignorable)]
    pub replication_factor: i16,
    #[wire(versions = "5+", nullable = "5+", default = Some(Array::empty()), ignorable)]
    pub configs: Option<Array<'a, CreatableTopicConfigs<'a>>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct CreatableTopicConfigs<'a> {
    #[wire(versions = "5+")]
    pub name: &'a str,
    #[wire(versions = "5+", nullable = "5+")]
    pub value: Option<&'a str>,
    #[wire(versions = "5+")]
    pub read_only: bool,
    /// As in DescribeConfigs: 1 is the topic's own, 5 the broker's built-in default.
    #[wire(versions = "5+", default = -1, ignorable)]
    pub config_source: i8,
    #[wire(versions = "5+")]
    pub is_sensitive: bool,
}
