//! Creating and deleting topics: the checks of Kafka's controller (`ReplicationControlManager`), in its order, and the
//! records that follow from them.

use std::fmt;

use base::{BrokerId, LeaderEpoch, PartitionIndex, Random, Uuid};

use super::image::Image;
use super::record::{ConfigRecord, MetadataRecord, PartitionRecord, ResourceKind, TopicRecord, TopicRemovalRecord};
use super::replica_plan::{candidates, plan_replicas};
use super::topic_name::{CLUSTER_METADATA_TOPIC, TopicNameError, check_topic_name, names_collide};

/// The most partitions that one request makes, as in Kafka: a plan is one batch of the metadata log.
pub const PARTITION_COUNT_MAX: usize = 10_000;
/// "Use the default" in a request (KIP-464).
const DEFAULT: i16 = -1;

/// The topic that a CreateTopics request asks for, as it stands in the request. Whether the settings are valid is for
/// the caller to check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSpec {
    pub name: String,
    /// −1 for the default; must be −1 with assignments.
    pub partition_count: i32,
    /// −1 for the default; must be −1 with assignments.
    pub replication_factor: i16,
    /// Replicas chosen by the caller; empty to have them chosen.
    pub assignments: Vec<Assignment>,
    pub configs: Vec<(String, String)>,
}

impl TopicSpec {
    /// A topic with the defaults for everything.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            partition_count: i32::from(DEFAULT),
            replication_factor: DEFAULT,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// The replicas that a caller wants for one partition, preferred leader first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    pub index: PartitionIndex,
    pub replicas: Vec<BrokerId>,
}

/// What stands in for −1: `num.partitions` and `default.replication.factor`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicDefaults {
    pub partition_count: i32,
    pub replication_factor: i16,
}

/// A topic that can be created: the records to propose and what the response says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreatedTopic {
    pub topic_id: Uuid,
    pub partition_count: i32,
    pub replication_factor: i16,
    pub records: Vec<MetadataRecord>,
}

/// Why a topic can't be created; each names the error that Kafka answers with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateTopicError {
    /// The metadata log. `INVALID_REQUEST`.
    Reserved { name: String },
    /// `INVALID_TOPIC_EXCEPTION`.
    Name(TopicNameError),
    /// `TOPIC_ALREADY_EXISTS`.
    Exists { name: String },
    /// A topic that differs only in '.' and '_'. `INVALID_TOPIC_EXCEPTION`.
    Collides { name: String, with: String },
    /// `INVALID_PARTITIONS`.
    PartitionCount { partition_count: i32 },
    /// More than [`PARTITION_COUNT_MAX`]. `POLICY_VIOLATION`.
    TooManyPartitions { partition_count: usize },
    /// 0, or negative and not −1. `INVALID_REPLICATION_FACTOR`.
    ReplicationFactor { replication_factor: i16 },
    /// `INVALID_REPLICATION_FACTOR`.
    NotEnoughBrokers { replication_factor: i16, broker_count: usize },
    /// A count beside an assignment. `INVALID_REQUEST`.
    AssignmentAndCounts,
    /// `INVALID_REPLICA_ASSIGNMENT`.
    Assignment(AssignmentError),
}

/// What is wrong with a caller's own assignment. `INVALID_REPLICA_ASSIGNMENT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignmentError {
    /// The partitions are not numbered from 0 without gaps.
    NotConsecutive,
    DuplicatePartition {
        index: PartitionIndex,
    },
    NoReplicas {
        index: PartitionIndex,
    },
    DuplicateReplica {
        index: PartitionIndex,
        broker: BrokerId,
    },
    UnknownBroker {
        index: PartitionIndex,
        broker: BrokerId,
    },
    /// All partitions must have as many replicas as the first.
    UnequalSizes {
        index: PartitionIndex,
        replicas: usize,
        expected: usize,
    },
    /// None of the brokers is alive.
    NoLiveReplica {
        index: PartitionIndex,
    },
}

impl fmt::Display for CreateTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { name } => write!(f, "the topic {name} belongs to the cluster itself"),
            Self::Name(error) => error.fmt(f),
            Self::Exists { name } => write!(f, "topic {name} already exists"),
            Self::Collides { name, with } => {
                write!(f, "topic {name} collides with topic {with}: '.' and '_' count as the same")
            }
            Self::PartitionCount { partition_count } => {
                write!(f, "{partition_count} partitions; say a positive number, or -1 for the default")
            }
            Self::TooManyPartitions { partition_count } => {
                write!(f, "{partition_count} partitions; {PARTITION_COUNT_MAX} is the most in one request")
            }
            Self::ReplicationFactor { replication_factor } => {
                write!(f, "replication factor {replication_factor}; say a positive number, or -1 for the default")
            }
            Self::NotEnoughBrokers { replication_factor, broker_count } => write!(
                f,
                "replication factor {replication_factor} needs that many brokers, and {broker_count} can take replicas"
            ),
            Self::AssignmentAndCounts => f.write_str(
                "with an assignment of replicas the number of partitions and the replication factor must be -1",
            ),
            Self::Assignment(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for AssignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the assignment of replicas ")?;
        match self {
            Self::NotConsecutive => f.write_str("must number the partitions from 0 without gaps"),
            Self::DuplicatePartition { index } => write!(f, "names partition {index} twice"),
            Self::NoReplicas { index } => write!(f, "gives partition {index} no replicas"),
            Self::DuplicateReplica { index, broker } => write!(f, "names broker {broker} twice for partition {index}"),
            Self::UnknownBroker { index, broker } => {
                write!(f, "names broker {broker} for partition {index}, and no such broker is registered")
            }
            Self::UnequalSizes { index, replicas, expected } => {
                write!(f, "gives partition {index} {replicas} replicas and those before it {expected}")
            }
            Self::NoLiveReplica { index } => write!(f, "gives partition {index} only brokers that are not alive"),
        }
    }
}

impl std::error::Error for CreateTopicError {}
impl std::error::Error for AssignmentError {}

impl From<TopicNameError> for CreateTopicError {
    fn from(error: TopicNameError) -> Self {
        Self::Name(error)
    }
}

impl From<AssignmentError> for CreateTopicError {
    fn from(error: AssignmentError) -> Self {
        Self::Assignment(error)
    }
}

/// Checks a topic that a client wants and plans it. `live` are the registered brokers that can take replicas now; to
/// validate only, drop the records.
///
/// # Errors
/// The first check that failed, in Kafka's order.
pub fn plan_create_topic(
    image: &Image,
    spec: &TopicSpec,
    defaults: TopicDefaults,
    live: &[BrokerId],
    random: &mut Random,
) -> Result<CreatedTopic, CreateTopicError> {
    check_name(image, &spec.name)?;
    let replicas = if spec.assignments.is_empty() {
        chosen_replicas(image, spec, defaults, live, random)?
    } else {
        assigned_replicas(image, spec)?
    };
    let topic_id = new_topic_id(image, random);
    let replication_factor = replicas.first().map_or(0, Vec::len);
    let mut records = vec![MetadataRecord::Topic(TopicRecord { id: topic_id, name: spec.name.clone() })];
    for (index, replicas) in (0..).map(PartitionIndex).zip(replicas) {
        records.push(MetadataRecord::Partition(new_partition(topic_id, index, replicas, live)?));
    }
    let partition_count = records.len() - 1;
    records.extend(spec.configs.iter().map(|(key, value)| {
        MetadataRecord::Config(ConfigRecord {
            resource: ResourceKind::Topic,
            resource_name: spec.name.clone(),
            key: key.clone(),
            value: Some(value.clone()),
        })
    }));
    Ok(CreatedTopic {
        topic_id,
        partition_count: i32::try_from(partition_count).unwrap_or(i32::MAX),
        replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
        records,
    })
}

fn check_name(image: &Image, name: &str) -> Result<(), CreateTopicError> {
    if name == CLUSTER_METADATA_TOPIC {
        return Err(CreateTopicError::Reserved { name: name.to_owned() });
    }
    check_topic_name(name)?;
    if image.topic(name).is_some() {
        return Err(CreateTopicError::Exists { name: name.to_owned() });
    }
    if name.contains(['.', '_'])
        && let Some(other) = image.topics().find(|topic| names_collide(&topic.name, name))
    {
        return Err(CreateTopicError::Collides { name: name.to_owned(), with: other.name.to_string() });
    }
    Ok(())
}

fn chosen_replicas(
    image: &Image,
    spec: &TopicSpec,
    defaults: TopicDefaults,
    live: &[BrokerId],
    random: &mut Random,
) -> Result<Vec<Vec<BrokerId>>, CreateTopicError> {
    let replication_factor =
        if spec.replication_factor == DEFAULT { defaults.replication_factor } else { spec.replication_factor };
    let replica_count = match usize::try_from(replication_factor) {
        Ok(count) if count > 0 => count,
        _ => return Err(CreateTopicError::ReplicationFactor { replication_factor }),
    };
    let partition_count =
        if spec.partition_count == i32::from(DEFAULT) { defaults.partition_count } else { spec.partition_count };
    let partition_count = match usize::try_from(partition_count) {
        Ok(count) if count > PARTITION_COUNT_MAX => {
            return Err(CreateTopicError::TooManyPartitions { partition_count: count });
        }
        Ok(count) if count > 0 => count,
        _ => return Err(CreateTopicError::PartitionCount { partition_count }),
    };
    let candidates = candidates(image, live);
    if replica_count > candidates.len() {
        return Err(CreateTopicError::NotEnoughBrokers { replication_factor, broker_count: candidates.len() });
    }
    Ok(plan_replicas(&candidates, partition_count, replica_count, random))
}

fn assigned_replicas(image: &Image, spec: &TopicSpec) -> Result<Vec<Vec<BrokerId>>, CreateTopicError> {
    if spec.replication_factor != DEFAULT || spec.partition_count != i32::from(DEFAULT) {
        return Err(CreateTopicError::AssignmentAndCounts);
    }
    let partition_count = spec.assignments.len();
    if partition_count > PARTITION_COUNT_MAX {
        return Err(CreateTopicError::TooManyPartitions { partition_count });
    }
    let mut by_index: Vec<Option<Vec<BrokerId>>> = vec![None; partition_count];
    let expected = spec.assignments[0].replicas.len();
    for Assignment { index, replicas } in &spec.assignments {
        let index = *index;
        check_replicas(image, index, replicas)?;
        if replicas.len() != expected {
            return Err(AssignmentError::UnequalSizes { index, replicas: replicas.len(), expected }.into());
        }
        let place = usize::try_from(index.0).ok().and_then(|at| by_index.get_mut(at));
        match place {
            None => return Err(AssignmentError::NotConsecutive.into()),
            Some(Some(_)) => return Err(AssignmentError::DuplicatePartition { index }.into()),
            Some(place) => *place = Some(replicas.clone()),
        }
    }
    // As many places as assignments, none taken twice: every place is taken.
    Ok(by_index.into_iter().flatten().collect())
}

pub(super) fn check_replicas(
    image: &Image,
    index: PartitionIndex,
    replicas: &[BrokerId],
) -> Result<(), AssignmentError> {
    if replicas.is_empty() {
        return Err(AssignmentError::NoReplicas { index });
    }
    for (at, &broker) in replicas.iter().enumerate() {
        // Also keeps the comparison below short: there are no more different ones than brokers.
        if image.broker(broker).is_none() {
            return Err(AssignmentError::UnknownBroker { index, broker });
        }
        if replicas[..at].contains(&broker) {
            return Err(AssignmentError::DuplicateReplica { index, broker });
        }
    }
    Ok(())
}

/// A partition's first state: the live replicas are in sync, since there is nothing to copy yet, and the first leads.
pub(super) fn new_partition(
    topic_id: Uuid,
    index: PartitionIndex,
    replicas: Vec<BrokerId>,
    live: &[BrokerId],
) -> Result<PartitionRecord, AssignmentError> {
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(|broker| live.contains(broker)).collect();
    let leader = *isr.first().ok_or(AssignmentError::NoLiveReplica { index })?;
    Ok(PartitionRecord {
        topic_id,
        index,
        replicas,
        isr,
        leader: Some(leader),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
    })
}

/// An id that no topic has, and whose text does not start with '-', which a command line would take for an option.
fn new_topic_id(image: &Image, random: &mut Random) -> Uuid {
    loop {
        let id = Uuid::from_random(random.next_u64(), random.next_u64());
        if image.topic_by_id(id).is_none() && !id.to_string().starts_with('-') {
            return id;
        }
    }
}

/// How a DeleteTopics request names a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicRef<'a> {
    Name(&'a str),
    Id(Uuid),
}

/// Why a topic can't be deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeleteTopicError {
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    UnknownName { name: String },
    /// `UNKNOWN_TOPIC_ID`.
    UnknownId { id: Uuid },
}

impl fmt::Display for DeleteTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName { name } => write!(f, "there is no topic {name}"),
            Self::UnknownId { id } => write!(f, "there is no topic with the id {id}"),
        }
    }
}

impl std::error::Error for DeleteTopicError {}

/// Plans the removal of a topic; its partitions and settings go with it.
///
/// # Errors
/// There is no such topic.
pub fn plan_delete_topic(image: &Image, topic: TopicRef<'_>) -> Result<Vec<MetadataRecord>, DeleteTopicError> {
    let found = match topic {
        TopicRef::Name(name) => {
            image.topic(name).ok_or_else(|| DeleteTopicError::UnknownName { name: name.to_owned() })
        }
        TopicRef::Id(id) => image.topic_by_id(id).ok_or(DeleteTopicError::UnknownId { id }),
    };
    Ok(vec![MetadataRecord::TopicRemoval(TopicRemovalRecord { topic_id: found?.id })])
}
