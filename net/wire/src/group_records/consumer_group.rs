//! A consumer group: its epochs, its members, and the assignments that its coordinator makes (KIP-848).

use base::{PartitionIndex, Uuid};

use super::Value;
use crate::{Array, Wire};

/// The values of [`ConsumerGroupCurrentMemberAssignmentValue::state`].
pub mod member_state {
    /// The member has what it is to have.
    pub const STABLE: i8 = 0;
    /// It has partitions to give up.
    pub const UNREVOKED_PARTITIONS: i8 = 1;
    /// It waits for partitions that others have to give up.
    pub const UNRELEASED_PARTITIONS: i8 = 2;
}

/// Grows with each change of the members, of their subscriptions or of the topics.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupMetadataValue {
    pub epoch: i32,
    /// Of the topics that the group reads, to see when they change; 0 for unknown (KIP-1101).
    #[wire(tag = 0)]
    pub metadata_hash: i64,
}

/// The topics that a group reads. Kafka 4.1 and later leave it out, and put a tombstone in place of one they find.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupPartitionMetadataValue<'a> {
    pub topics: Array<'a, TopicMetadata<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TopicMetadata<'a> {
    pub topic_id: Uuid,
    pub topic_name: &'a str,
    pub num_partitions: i32,
    /// Empty where the racks are unknown.
    pub partition_metadata: Array<'a, PartitionMetadata<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct PartitionMetadata<'a> {
    pub partition: PartitionIndex,
    pub racks: Array<'a, &'a str>,
}

/// What a member said of itself.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupMemberMetadataValue<'a> {
    #[wire(nullable = "0+")]
    pub instance_id: Option<&'a str>,
    #[wire(nullable = "0+")]
    pub rack_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    /// In order; empty where it gave a regular expression alone.
    pub subscribed_topic_names: Array<'a, &'a str>,
    /// Null, or empty, for none.
    #[wire(nullable = "0+")]
    pub subscribed_topic_regex: Option<&'a str>,
    #[wire(default = -1)]
    pub rebalance_timeout_ms: i32,
    /// Null for the group's own choice.
    #[wire(nullable = "0+")]
    pub server_assignor: Option<&'a str>,
    /// Null for a member that speaks the consumer protocol. Not the default: a record that does not say so is read, by Kafka
    /// too, as one of a classic member of which nothing is known.
    #[wire(nullable = "0+", tag = 0, default = Some(ClassicMemberMetadata::default()))]
    pub classic_member_metadata: Option<ClassicMemberMetadata<'a>>,
}

/// A member that speaks the classic protocol to a consumer group.
#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ClassicMemberMetadata<'a> {
    pub session_timeout_ms: i32,
    pub supported_protocols: Array<'a, ClassicProtocol<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ClassicProtocol<'a> {
    pub name: &'a str,
    pub metadata: &'a [u8],
}

/// The group epoch for which the target assignment was computed.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupTargetAssignmentMetadataValue {
    pub assignment_epoch: i32,
    /// When that was done, in milliseconds since 1970; 0 for unknown.
    #[wire(tag = 0, ignorable)]
    pub assignment_timestamp: i64,
}

/// What a member is to read once others have given it up.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupTargetAssignmentMemberValue<'a> {
    pub topic_partitions: Array<'a, TargetPartitions<'a>>,
}

/// Kafka calls it `TopicPartition` here.
#[derive(Clone, PartialEq, Debug, Wire)]
pub struct TargetPartitions<'a> {
    pub topic_id: Uuid,
    pub partitions: Array<'a, PartitionIndex>,
}

/// What a member may read as of now, and what it has yet to give up.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupCurrentMemberAssignmentValue<'a> {
    pub member_epoch: i32,
    /// Also taken from the member, which may have missed the answer that told it the new one.
    pub previous_member_epoch: i32,
    /// One of [`member_state`].
    pub state: i8,
    pub assigned_partitions: Array<'a, CurrentPartitions<'a>>,
    pub partitions_pending_revocation: Array<'a, CurrentPartitions<'a>>,
}

/// Kafka calls it `TopicPartitions` here.
#[derive(Clone, PartialEq, Debug, Wire)]
pub struct CurrentPartitions<'a> {
    pub topic_id: Uuid,
    pub partitions: Array<'a, PartitionIndex>,
    /// The member epoch at which it was given each of `partitions`, so that commits from before can be told (KIP-1251);
    /// empty or null for unknown.
    #[wire(nullable = "0+", tag = 0, default = Some(Array::empty()))]
    pub assignment_epochs: Option<Array<'a, i32>>,
}

/// The topics that matched a regular expression.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0", flexible = "0+")]
pub struct ConsumerGroupRegularExpressionValue<'a> {
    /// In order.
    pub topics: Array<'a, &'a str>,
    /// The version of the metadata image in which they were looked up.
    pub version: i64,
    /// When, in milliseconds since 1970.
    pub timestamp: i64,
}

impl Value<'_> for ConsumerGroupMetadataValue {}
impl<'a> Value<'a> for ConsumerGroupPartitionMetadataValue<'a> {}
impl<'a> Value<'a> for ConsumerGroupMemberMetadataValue<'a> {}
impl Value<'_> for ConsumerGroupTargetAssignmentMetadataValue {}
impl<'a> Value<'a> for ConsumerGroupTargetAssignmentMemberValue<'a> {}
impl<'a> Value<'a> for ConsumerGroupCurrentMemberAssignmentValue<'a> {}
impl<'a> Value<'a> for ConsumerGroupRegularExpressionValue<'a> {}
