//! The one table from the controller's refusals to Kafka's error codes.

use replication::metadata::{CreatePartitionsError, CreateTopicError};
use wire::ErrorCode;

/// What Kafka answers for a topic that can't be created.
#[must_use]
pub fn create_topic(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::Name(_) | CreateTopicError::Collides { .. } => ErrorCode::InvalidTopicException,
        CreateTopicError::Exists { .. } => ErrorCode::TopicAlreadyExists,
        CreateTopicError::PartitionCount { .. } => ErrorCode::InvalidPartitions,
        CreateTopicError::TooManyPartitions { .. } => ErrorCode::PolicyViolation,
        CreateTopicError::ReplicationFactor { .. } | CreateTopicError::NotEnoughBrokers { .. } => {
            ErrorCode::InvalidReplicationFactor
        }
        CreateTopicError::Reserved { .. } | CreateTopicError::AssignmentAndCounts => ErrorCode::InvalidRequest,
        CreateTopicError::Assignment(_) => ErrorCode::InvalidReplicaAssignment,
    }
}

/// What Kafka answers for a topic that can't get more partitions.
#[must_use]
pub fn create_partitions(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::UnknownTopic { .. } => ErrorCode::UnknownTopicOrPartition,
        CreatePartitionsError::NoIncrease { .. } => ErrorCode::InvalidPartitions,
        CreatePartitionsError::TooMany { .. } => ErrorCode::PolicyViolation,
        CreatePartitionsError::AssignmentCount { .. } | CreatePartitionsError::Assignment(_) => {
            ErrorCode::InvalidReplicaAssignment
        }
        CreatePartitionsError::NotEnoughBrokers { .. } => ErrorCode::InvalidReplicationFactor,
    }
}
