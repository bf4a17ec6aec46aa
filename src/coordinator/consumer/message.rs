//! What members of a consumer group ask, and what they and administrators are told: owned, so that it can cross the mesh.

use storage::LogId;
use wire::ErrorCode;

/// The member epoch of one who joins, and of those who leave.
pub const JOINS: i32 = 0;
pub const LEAVES: i32 = -1;
/// Of a static member that will be back within its session.
pub const LEAVES_FOR_A_WHILE: i32 = -2;

/// ConsumerGroupHeartbeat. `None`: as before.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeat {
    pub group: String,
    /// Empty for one that is to be given an id, which version 0 alone allows.
    pub member_id: String,
    pub member_epoch: i32,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: Option<i32>,
    pub topics: Option<Vec<String>>,
    /// Empty for none.
    pub regex: Option<String>,
    pub assignor: Option<String>,
    /// What the member owns.
    pub owned: Option<Vec<LogId>>,
    /// From version 1 on (KIP-1082).
    pub chooses_member_id: bool,
}

impl ConsumerHeartbeat {
    /// It says all there is to say, as a member does that may have missed an answer; it is told all as well.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.member_epoch == JOINS
            || (self.rebalance_timeout_ms.is_some()
                && (self.topics.is_some() || self.regex.is_some())
                && self.owned.is_some())
    }
}

/// The answer to [`ConsumerHeartbeat`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeartbeatTold {
    pub member_id: String,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    /// All that the member may own; `None`: as before.
    pub assignment: Option<Vec<LogId>>,
}

/// Why a member is turned away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    pub error: ErrorCode,
    pub reason: String,
}

impl Rejection {
    pub fn new(error: ErrorCode, reason: impl Into<String>) -> Self {
        Self { error, reason: wire::cut_to_string(reason) }
    }
}

/// A group as ConsumerGroupDescribe shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedConsumerGroup {
    pub state: &'static str,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub assignor: &'static str,
    pub members: Vec<DescribedConsumer>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedConsumer {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub member_epoch: i32,
    pub client_id: String,
    pub client_host: String,
    pub topics: Vec<String>,
    pub regex: Option<String>,
    pub assigned: Vec<LogId>,
    pub target: Vec<LogId>,
    pub is_classic: bool,
}
