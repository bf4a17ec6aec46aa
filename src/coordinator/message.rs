//! What is asked of a group coordinator, and what it answers: owned, so that it can cross the mesh.

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid, WallTime};
use wire::ErrorCode;

use super::consumer::{ConsumerHeartbeat, DescribedConsumerGroup, HeartbeatTold, Rejection};

/// Names a request that waits for its answer.
pub type Ticket = u64;

/// One way of sharing partitions out that a member knows, with what it says to it (opaque to the broker but for "consumer" groups).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Protocol {
    pub name: String,
    pub metadata: Vec<u8>,
}

/// JoinGroup.
#[derive(Clone, Debug)]
pub struct Join {
    pub group: String,
    /// Empty for a member without an id.
    pub member_id: String,
    /// Of a static member (KIP-345).
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocol_type: String,
    pub protocols: Vec<Protocol>,
    /// A new dynamic member is given an id and asked to come again with it (KIP-394; from version 4 on).
    pub requires_member_id: bool,
    /// A leader may be told that the partitions stay as they are (KIP-814; from version 9 on).
    pub may_skip_assignment: bool,
}

/// The answer to [`Join`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined {
    pub error: ErrorCode,
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub leader: String,
    pub skip_assignment: bool,
    pub member_id: String,
    /// For the leader alone.
    pub members: Vec<JoinedMember>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub metadata: Vec<u8>,
}

impl Joined {
    /// An answer without a generation.
    #[must_use]
    pub fn failed(error: ErrorCode, member_id: String) -> Self {
        Self {
            error,
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: String::new(),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

/// Who speaks, and of which generation; in most requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speaker {
    pub member_id: String,
    pub instance_id: Option<String>,
    /// −1 for who is not a member.
    pub generation: i32,
}

/// SyncGroup.
#[derive(Clone, Debug)]
pub struct Sync {
    pub group: String,
    pub speaker: Speaker,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    /// By member id; from the leader alone.
    pub assignments: Vec<(String, Vec<u8>)>,
}

/// The answer to [`Sync`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synced {
    pub error: ErrorCode,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub assignment: Vec<u8>,
}

impl Synced {
    #[must_use]
    pub fn failed(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol: None, assignment: Vec::new() }
    }
}

/// Who leaves: by member id, or by instance id with an empty member id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaving {
    pub member_id: String,
    pub instance_id: Option<String>,
}

/// One offset to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetToCommit {
    pub topic: String,
    pub topic_id: Uuid,
    pub partition: PartitionIndex,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
}

/// OffsetCommit.
#[derive(Clone, Debug)]
pub struct Commit {
    pub group: String,
    pub speaker: Speaker,
    pub offsets: Vec<OffsetToCommit>,
    /// Asked for by the client for all of them (versions 2 to 4); milliseconds.
    pub retention_ms: Option<i64>,
    /// The client knows of member epochs (KIP-848; from version 9 on).
    pub knows_epochs: bool,
}

/// OffsetFetch, of one group.
#[derive(Clone, Debug)]
pub struct FetchOffsets {
    pub group: String,
    /// `None` for all that the group has offsets of.
    pub partitions: Option<Vec<TopicPartition>>,
    /// Who asks as a member of a group whose coordinator assigns the partitions (KIP-848; from version 9 on).
    pub member_id: Option<String>,
    pub member_epoch: i32,
}

/// An offset that a group has committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedOffset {
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
    pub committed_at: WallTime,
    /// Set where the client asked for it.
    pub expires_at: Option<WallTime>,
    pub topic_id: Uuid,
}

/// A partition by the name of its topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: PartitionIndex,
}

/// A group as DescribeGroups shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedGroup {
    pub error: ErrorCode,
    pub state: &'static str,
    pub protocol_type: String,
    pub protocol: String,
    pub members: Vec<DescribedMember>,
}

impl DescribedGroup {
    #[must_use]
    pub fn failed(error: ErrorCode) -> Self {
        let (protocol_type, protocol, members) = (String::new(), String::new(), Vec::new());
        Self { error, state: "", protocol_type, protocol, members }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub metadata: Vec<u8>,
    pub assignment: Vec<u8>,
}

/// A group as ListGroups shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedGroup {
    pub group: String,
    pub protocol_type: String,
    pub state: &'static str,
    pub kind: &'static str,
}

/// What is asked of the coordinator of one group.
#[derive(Clone, Debug)]
pub enum GroupRequest {
    Join(Join),
    Sync(Sync),
    Heartbeat { group: String, speaker: Speaker },
    Leave { group: String, members: Vec<Leaving> },
    Commit(Commit),
    FetchOffsets(FetchOffsets),
    DeleteOffsets { group: String, partitions: Vec<TopicPartition> },
    Describe { group: String },
    Delete { group: String },
    ConsumerHeartbeat(ConsumerHeartbeat),
    DescribeConsumer { group: String },
}

impl GroupRequest {
    #[must_use]
    pub fn group(&self) -> &str {
        match self {
            Self::Join(Join { group, .. })
            | Self::Sync(Sync { group, .. })
            | Self::Heartbeat { group, .. }
            | Self::Leave { group, .. }
            | Self::Commit(Commit { group, .. })
            | Self::FetchOffsets(FetchOffsets { group, .. })
            | Self::DeleteOffsets { group, .. }
            | Self::Describe { group }
            | Self::Delete { group }
            | Self::ConsumerHeartbeat(ConsumerHeartbeat { group, .. })
            | Self::DescribeConsumer { group } => group,
        }
    }
}

/// The answer to a [`GroupRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupAnswer {
    Joined(Joined),
    Synced(Synced),
    /// Of Heartbeat and Delete.
    Done(ErrorCode),
    /// For each who leaves, in the order of the request.
    Left(Vec<ErrorCode>),
    /// For each offset, in the order of the request.
    Committed(Vec<ErrorCode>),
    /// In the order of the request, or of the topics where all were asked for; `None` where there is no offset.
    Offsets(Vec<(TopicPartition, Option<CommittedOffset>)>),
    /// For the whole, then for each partition in the order of the request.
    OffsetsDeleted(ErrorCode, Vec<ErrorCode>),
    Described(DescribedGroup),
    ConsumerHeartbeat(Result<HeartbeatTold, Rejection>),
    ConsumerDescribed(Result<DescribedConsumerGroup, Rejection>),
    /// The coordinator does not say: it is loading, or not here, or who asks is not to be told.
    Unavailable(ErrorCode),
}
