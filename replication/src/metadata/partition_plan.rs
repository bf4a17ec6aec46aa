//! Giving a topic more partitions: the checks of Kafka's controller (`ReplicationControlManager`), in its order, and the records that
//! follow from them.
//!
//! The partitions that are there stay as they are; but the partition that a key belongs to is its hash modulo their number, so the
//! records of a key may continue in another partition.

use std::fmt;

use base::{BrokerId, PartitionIndex, Random};

use super::image::Image;
use super::record::MetadataRecord;
use super::replica_plan::{candidates, plan_replicas};
use super::topic_plan::{AssignmentError, PARTITION_COUNT_MAX, check_replicas, new_partition};

/// What a CreatePartitions request asks for one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionsSpec {
    pub topic: String,
    /// Partitions that the topic is to have in the end.
    pub partition_count: i32,
    /// The replicas of each new partition, in order, preferred leader first; `None` to have them chosen.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// Why a topic does not get more partitions; each names the error that Kafka answers with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreatePartitionsError {
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    UnknownTopic { name: String },
    /// As many as there are, or fewer. `INVALID_PARTITIONS`.
    NoIncrease { name: String, current: usize, partition_count: i32 },
    /// More than [`PARTITION_COUNT_MAX`] at once. `POLICY_VIOLATION`.
    TooMany { added: usize },
    /// `INVALID_REPLICA_ASSIGNMENT`.
    AssignmentCount { added: usize, assignments: usize },
    /// `INVALID_REPLICA_ASSIGNMENT`.
    Assignment(AssignmentError),
    /// `INVALID_REPLICATION_FACTOR`.
    NotEnoughBrokers { replication_factor: usize, broker_count: usize },
}

impl fmt::Display for CreatePartitionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTopic { name } => write!(f, "there is no topic {name}"),
            Self::NoIncrease { name, current, partition_count } => write!(
                f,
                "topic {name} has {current} partitions, and {partition_count} would not be more: their number only grows"
            ),
            Self::TooMany { added } => {
                write!(f, "{added} more partitions; {PARTITION_COUNT_MAX} is the most in one request")
            }
            Self::AssignmentCount { added, assignments } => {
                write!(f, "{assignments} assignments of replicas for {added} new partitions")
            }
            Self::Assignment(error) => error.fmt(f),
            Self::NotEnoughBrokers { replication_factor, broker_count } => write!(
                f,
                "replication factor {replication_factor} needs that many brokers, and {broker_count} can take replicas"
            ),
        }
    }
}

impl std::error::Error for CreatePartitionsError {}

impl From<AssignmentError> for CreatePartitionsError {
    fn from(error: AssignmentError) -> Self {
        Self::Assignment(error)
    }
}

/// Plans the new partitions of a topic, with as many replicas as its first one has. `live` are the registered brokers that can take
/// replicas now.
///
/// # Errors
/// The first check that failed, in Kafka's order.
pub fn plan_create_partitions(
    image: &Image,
    spec: &PartitionsSpec,
    live: &[BrokerId],
    random: &mut Random,
) -> Result<Vec<MetadataRecord>, CreatePartitionsError> {
    let Some(topic) = image.topic(&spec.topic) else {
        return Err(CreatePartitionsError::UnknownTopic { name: spec.topic.clone() });
    };
    let current = topic.partitions.len();
    let added = usize::try_from(spec.partition_count).unwrap_or(0).saturating_sub(current);
    if added == 0 {
        let name = spec.topic.clone();
        return Err(CreatePartitionsError::NoIncrease { name, current, partition_count: spec.partition_count });
    }
    let replica_count = topic.partitions.first().map_or(1, |partition| partition.replicas.len());
    let new_indexes = || (0..).map(PartitionIndex).skip(current);
    let replicas = match &spec.assignments {
        Some(assignments) if assignments.len() != added => {
            return Err(CreatePartitionsError::AssignmentCount { added, assignments: assignments.len() });
        }
        _ if added > PARTITION_COUNT_MAX => return Err(CreatePartitionsError::TooMany { added }),
        Some(assignments) => {
            for (index, replicas) in new_indexes().zip(assignments) {
                check_replicas(image, index, replicas)?;
                if replicas.len() != replica_count {
                    let (replicas, expected) = (replicas.len(), replica_count);
                    return Err(AssignmentError::UnequalSizes { index, replicas, expected }.into());
                }
            }
            assignments.clone()
        }
        None => {
            let candidates = candidates(image, live);
            if candidates.len() < replica_count {
                let broker_count = candidates.len();
                return Err(CreatePartitionsError::NotEnoughBrokers {
                    replication_factor: replica_count,
                    broker_count,
                });
            }
            plan_replicas(&candidates, added, replica_count, random)
        }
    };
    new_indexes()
        .zip(replicas)
        .map(|(index, replicas)| Ok(MetadataRecord::Partition(new_partition(topic.id, index, replicas, live)?)))
        .collect()
}
