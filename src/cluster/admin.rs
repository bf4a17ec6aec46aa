//! What any shard may ask of the controller, and its answers.

use base::{BrokerId, PartitionIndex, Uuid};
use replication::metadata::{PartitionsSpec, ResourceKind};
use wire::ErrorCode;

/// A change that the controller is asked for.
#[derive(Clone, Debug)]
pub enum AdminRequest {
    CreateTopics {
        topics: Vec<NewTopic>,
        validate_only: bool,
    },
    DeleteTopics(Vec<TopicName>),
    CreatePartitions {
        topics: Vec<PartitionsSpec>,
        validate_only: bool,
    },
    AlterSettings {
        changes: Vec<ResourceChange>,
        validate_only: bool,
    },
    /// A block of producer ids for one shard.
    AllocateProducerIds,
}

/// The answer to the request of the same name, in its order.
#[derive(Clone, Debug)]
pub enum AdminReply {
    CreateTopics(Vec<Result<CreatedTopic, AdminError>>),
    DeleteTopics(Vec<Result<DeletedTopic, AdminError>>),
    CreatePartitions(Vec<Result<(), AdminError>>),
    AlterSettings(Vec<Result<(), AdminError>>),
    ProducerIds(Result<std::ops::Range<i64>, AdminError>),
}

impl AdminReply {
    /// The answer to `request` when the controller has stopped.
    #[must_use]
    pub fn unavailable(request: &AdminRequest) -> Self {
        fn stopped<T>() -> Result<T, AdminError> {
            Err(AdminError::new(ErrorCode::CoordinatorNotAvailable, "the broker is stopping"))
        }
        match request {
            AdminRequest::CreateTopics { topics, .. } => Self::CreateTopics(topics.iter().map(|_| stopped()).collect()),
            AdminRequest::DeleteTopics(topics) => Self::DeleteTopics(topics.iter().map(|_| stopped()).collect()),
            AdminRequest::CreatePartitions { topics, .. } => {
                Self::CreatePartitions(topics.iter().map(|_| stopped()).collect())
            }
            AdminRequest::AlterSettings { changes, .. } => {
                Self::AlterSettings(changes.iter().map(|_| stopped()).collect())
            }
            AdminRequest::AllocateProducerIds => Self::ProducerIds(stopped()),
        }
    }
}

/// A topic to be created, as the client asked for it.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    /// −1: the broker's default.
    pub partitions: i32,
    /// −1: the broker's default.
    pub replication_factor: i16,
    pub assignments: Vec<(PartitionIndex, Vec<BrokerId>)>,
    pub settings: Vec<(String, Option<String>)>,
}

/// Changes of one resource's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceChange {
    /// A topic or a group.
    pub kind: ResourceKind,
    pub name: String,
    pub settings: SettingsChange,
}

/// How the settings of a resource change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingsChange {
    /// These are its own from now on, and no others (AlterConfigs).
    Replace(Vec<(String, Option<String>)>),
    /// One after another (IncrementalAlterConfigs, KIP-339).
    Each(Vec<(String, SettingOperation)>),
}

/// What becomes of one setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingOperation {
    Set(Option<String>),
    /// Back to the default.
    Delete,
    /// These values join a list.
    Append(String),
    /// These values leave a list.
    Subtract(String),
}

/// A topic as created, or as it would be.
#[derive(Clone, Debug)]
pub struct CreatedTopic {
    pub id: Uuid,
    pub partitions: i32,
    pub replication_factor: i16,
    /// Every setting: name, value, whether it is the topic's own.
    pub settings: Vec<(&'static str, String, bool)>,
}

/// A topic to be deleted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TopicName {
    Name(String),
    Id(Uuid),
}

#[derive(Clone, Debug)]
pub struct DeletedTopic {
    pub name: String,
    pub id: Uuid,
}

/// Why one item of a request was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdminError {
    pub code: ErrorCode,
    pub reason: String,
}

impl AdminError {
    #[must_use]
    pub fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: wire::cut_to_string(reason) }
    }

    /// The error code and message of an outcome, as most answers have them.
    #[must_use]
    pub fn parts<T>(outcome: &Result<T, Self>) -> (ErrorCode, Option<&str>) {
        match outcome {
            Ok(_) => (ErrorCode::None, None),
            Err(error) => (error.code, Some(&error.reason)),
        }
    }
}
