//! What a consumer group is made of, and the changes of it that its log keeps; a change to nothing is a tombstone.

use std::collections::{BTreeMap, BTreeSet};

use base::WallTime;
use storage::LogId;

use crate::coordinator::assignor::Partitions;
use crate::coordinator::message::Protocol;

/// A change of a consumer group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Epoch(Option<GroupEpoch>),
    Member { member_id: String, said: Option<Said> },
    TargetEpoch(Option<TargetEpoch>),
    Target { member_id: String, partitions: Option<Partitions> },
    Current { member_id: String, current: Option<Current> },
    Regex { expression: String, resolved: Option<Resolved> },
}

impl Change {
    /// What it is about is gone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Epoch(epoch) => epoch.is_none(),
            Self::Member { said, .. } => said.is_none(),
            Self::TargetEpoch(epoch) => epoch.is_none(),
            Self::Target { partitions, .. } => partitions.is_none(),
            Self::Current { current, .. } => current.is_none(),
            Self::Regex { resolved, .. } => resolved.is_none(),
        }
    }
}

/// Grows with each change of the members, of their subscriptions or of the topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupEpoch {
    pub epoch: i32,
    /// Of the topics that members read, with their ids and sizes; 0 for none.
    pub topics_hash: i64,
}

/// For which group epoch the targets are, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetEpoch {
    pub epoch: i32,
    pub since: WallTime,
}

/// What a member says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Said {
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topics: BTreeSet<String>,
    pub regex: Option<String>,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    pub assignor: Option<String>,
    /// Of a member that speaks the classic protocol.
    pub classic: Option<Classic>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classic {
    pub session_timeout_ms: i32,
    pub protocols: Vec<Protocol>,
}

/// Partitions, and the member epoch since which the member has each.
pub type Since = BTreeMap<LogId, i32>;

/// What a member may own as of now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    pub epoch: i32,
    /// Also taken from the member, which may have missed the answer that told it the new one.
    pub previous_epoch: i32,
    pub state: MemberState,
    pub assigned: Since,
    /// It was told to give these up and may own them still.
    pub revoking: Since,
}

impl Default for Current {
    fn default() -> Self {
        Self {
            epoch: 0,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: Since::new(),
            revoking: Since::new(),
        }
    }
}

/// Where a member is on its way to its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemberState {
    /// It has the target of its epoch.
    #[default]
    Stable,
    /// It has partitions to give up before it may have others.
    UnrevokedPartitions,
    /// It waits for partitions that others have to give up.
    UnreleasedPartitions,
}

/// The topics that a regular expression stands for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resolved {
    pub topics: BTreeSet<String>,
    /// Of the topics among which they were found. It says nothing once the broker has started again.
    pub version: i64,
    pub at: WallTime,
}
