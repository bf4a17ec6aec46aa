//! ConsumerGroupHeartbeat (key 68): joins, keeps and leaves a group whose coordinator assigns the partitions (KIP-848).
//!
//! Both sides say only what has changed: null is "as before", which an empty list or text is not.

use base::{PartitionIndex, Uuid};

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ConsumerGroupHeartbeat, versions = "0-1", reply = ConsumerGroupHeartbeatResponse<'r>)]
pub struct ConsumerGroupHeartbeatRequest<'a> {
    pub group_id: &'a str,
    /// Chosen by the member from version 1 on (KIP-1082); before, empty to be given one.
    pub member_id: &'a str,
    /// 0 joins, −1 leaves, −2 leaves for a while as a static member.
    pub member_epoch: i32,
    /// The name of a static member; null for none, or as before.
    #[wire(nullable = "0+")]
    pub instance_id: Option<&'a str>,
    /// Null for none, or as before.
    #[wire(nullable = "0+")]
    pub rack_id: Option<&'a str>,
    /// How long the member may take to give partitions up; −1: as before.
    #[wire(default = -1)]
    pub rebalance_timeout_ms: i32,
    /// Null: as before.
    #[wire(nullable = "0+")]
    pub subscribed_topic_names: Option<Array<'a, &'a str>>,
    /// An RE2 expression; empty for none, null: as before.
    #[wire(versions = "1+", nullable = "1+")]
    pub subscribed_topic_regex: Option<&'a str>,
    /// Null for the group's own choice, or as before.
    #[wire(nullable = "0+")]
    pub server_assignor: Option<&'a str>,
    /// What the member owns; null: as before.
    #[wire(nullable = "0+")]
    pub topic_partitions: Option<Array<'a, TopicPartitions<'a>>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicPartitions<'a> {
    pub topic_id: Uuid,
    pub partitions: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ConsumerGroupHeartbeat, versions = "0-1")]
pub struct ConsumerGroupHeartbeatResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    #[wire(nullable = "0+")]
    pub member_id: Option<&'a str>,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    /// Null: as before.
    #[wire(nullable = "0+")]
    pub assignment: Option<Assignment<'a>>,
}

/// What the member may read as of now.
#[derive(Clone, PartialEq, Debug, Wire)]
pub struct Assignment<'a> {
    pub topic_partitions: Array<'a, TopicPartitions<'a>>,
}
