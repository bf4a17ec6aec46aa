//! ConsumerGroupDescribe (key 69): groups whose coordinator assigns the partitions, and their members (KIP-848).

use base::{PartitionIndex, Uuid};

use super::metadata::NO_AUTHORIZED_OPERATIONS;
use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ConsumerGroupDescribe, versions = "0-1", reply = ConsumerGroupDescribeResponse<'r>)]
pub struct ConsumerGroupDescribeRequest<'a> {
    pub group_ids: Array<'a, &'a str>,
    pub include_authorized_operations: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ConsumerGroupDescribe, versions = "0-1")]
pub struct ConsumerGroupDescribeResponse<'a> {
    pub throttle_time_ms: i32,
    pub groups: Array<'a, DescribedGroup<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribedGroup<'a> {
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    pub group_id: &'a str,
    /// As Kafka names it, "Reconciling"; empty with an error.
    pub group_state: &'a str,
    pub group_epoch: i32,
    /// The group epoch for which the target assignment was computed.
    pub assignment_epoch: i32,
    pub assignor_name: &'a str,
    pub members: Array<'a, Member<'a>>,
    /// A bit per operation, where they were asked for.
    #[wire(default = NO_AUTHORIZED_OPERATIONS)]
    pub authorized_operations: i32,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct Member<'a> {
    pub member_id: &'a str,
    #[wire(nullable = "0+")]
    pub instance_id: Option<&'a str>,
    #[wire(nullable = "0+")]
    pub rack_id: Option<&'a str>,
    pub member_epoch: i32,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub subscribed_topic_names: Array<'a, &'a str>,
    #[wire(nullable = "0+")]
    pub subscribed_topic_regex: Option<&'a str>,
    /// What the member may read as of now.
    pub assignment: Assignment<'a>,
    /// What it is to read once others have given it up.
    pub target_assignment: Assignment<'a>,
    /// −1: unknown; 0: a classic member of a group on its way; 1: a consumer member.
    #[wire(versions = "1+", default = -1, ignorable)]
    pub member_type: i8,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct Assignment<'a> {
    pub topic_partitions: Array<'a, TopicPartitions<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicPartitions<'a> {
    pub topic_id: Uuid,
    pub topic_name: &'a str,
    pub partitions: Array<'a, PartitionIndex>,
}
