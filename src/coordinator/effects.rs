//! What a step of a coordinator comes to.

use base::{Instant, WallTime};

use super::consumer::Change;
use super::message::{CommittedOffset, GroupAnswer, Ticket, TopicPartition};

/// A change of what a group is, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// The members of a generation; written when each has its assignment, and when the last has gone.
    Group {
        group: String,
        snapshot: GroupSnapshot,
    },
    GroupRemoved {
        group: String,
    },
    Offset {
        group: String,
        of: TopicPartition,
        committed: CommittedOffset,
    },
    OffsetRemoved {
        group: String,
        of: TopicPartition,
    },
    /// Of a group whose coordinator assigns the partitions.
    Consumer {
        group: String,
        change: Change,
    },
}

impl Record {
    /// The group that it is about.
    #[must_use]
    pub fn group(&self) -> &str {
        match self {
            Self::Group { group, .. }
            | Self::GroupRemoved { group }
            | Self::Offset { group, .. }
            | Self::OffsetRemoved { group, .. }
            | Self::Consumer { group, .. } => group,
        }
    }
}

/// A classic group as its log keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSnapshot {
    pub protocol_type: String,
    pub generation: i32,
    pub protocol: Option<String>,
    pub leader: Option<String>,
    pub state_since: WallTime,
    pub members: Vec<MemberSnapshot>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberSnapshot {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub metadata: Vec<u8>,
    pub assignment: Vec<u8>,
}

/// What a deadline of a group is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// A member has not been heard of.
    Session(String),
    /// An id was given to somebody who did not come back with it.
    Pending(String),
    /// Not all have joined.
    Join,
    /// Not all have asked for their assignments.
    Sync,
    /// A member was told to give partitions up and has not said that it has.
    Revocation(String),
    /// A classic member among others was told to join again and has not.
    MemberJoin(String),
    /// A classic member among others has joined and not asked for its share.
    MemberSync(String),
}

/// What a step comes to.
#[derive(Default, Debug)]
pub struct Effects {
    /// One batch for the log.
    pub records: Vec<Record>,
    /// Given once the records are committed.
    pub answers: Vec<(Ticket, GroupAnswer)>,
    /// Deadlines of the group that the step was about. One that has moved since is passed over when it comes.
    pub timers: Vec<(Instant, Timer)>,
    /// Members have changed with the step already, whatever becomes of its records.
    pub is_membership: bool,
}

impl Effects {
    pub fn answer(&mut self, ticket: Ticket, answer: GroupAnswer) {
        self.answers.push((ticket, answer));
    }
}
