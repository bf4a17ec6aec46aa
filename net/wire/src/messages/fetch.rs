//! Fetch (key 1): records from offsets on, for consumers and followers, with sessions (KIP-227).

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerId, Uuid};

use crate::{Array, ErrorCode, Records, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = Fetch, versions = "4-17", reply = FetchResponse<'r>)]
pub struct FetchRequest<'a> {
    #[wire(versions = "12+", nullable = "12+", tag = 0, ignorable)]
    pub cluster_id: Option<&'a str>,
    /// −1 from a consumer; from version 15 on in `replica_state`.
    #[wire(versions = "0-14", default = BrokerId(-1))]
    pub replica_id: BrokerId,
    #[wire(versions = "15+", tag = 1)]
    pub replica_state: ReplicaState,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    #[wire(versions = "3+", default = i32::MAX, ignorable)]
    pub max_bytes: i32,
    /// 0: read uncommitted; 1: read committed.
    #[wire(versions = "4+", ignorable)]
    pub isolation_level: i8,
    /// 0 for no session, or for a new one.
    #[wire(versions = "7+", ignorable)]
    pub session_id: i32,
    /// 0 opens a session, −1 closes it or does without.
    #[wire(versions = "7+", default = -1, ignorable)]
    pub session_epoch: i32,
    pub topics: Array<'a, FetchTopic<'a>>,
    /// What to take out of the session.
    #[wire(versions = "7+")]
    pub forgotten_topics_data: Array<'a, ForgottenTopic<'a>>,
    #[wire(versions = "11+", ignorable)]
    pub rack_id: &'a str,
}

/// Who the follower is; −1 from a consumer.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ReplicaState {
    #[wire(versions = "15+", default = BrokerId(-1))]
    pub replica_id: BrokerId,
    #[wire(versions = "15+", default = -1)]
    pub replica_epoch: i64,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct FetchTopic<'a> {
    #[wire(versions = "0-12", ignorable)]
    pub topic: &'a str,
    #[wire(versions = "13+", ignorable)]
    pub topic_id: Uuid,
    pub partitions: Array<'a, FetchPartition>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct FetchPartition {
    pub partition: PartitionIndex,
    /// What the client believes; −1 for unknown.
    #[wire(versions = "9+", default = LeaderEpoch(-1), ignorable)]
    pub current_leader_epoch: LeaderEpoch,
    pub fetch_offset: Offset,
    /// The epoch of the last record the reader has; −1 for none.
    #[wire(versions = "12+", default = LeaderEpoch(-1))]
    pub last_fetched_epoch: LeaderEpoch,
    /// The start of a follower's log; −1 from a consumer.
    #[wire(versions = "5+", default = Offset(-1), ignorable)]
    pub log_start_offset: Offset,
    pub partition_max_bytes: i32,
    /// The directory of a follower's log.
    #[wire(versions = "17+", tag = 0, ignorable)]
    pub replica_directory_id: Uuid,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct ForgottenTopic<'a> {
    #[wire(versions = "7-12", ignorable)]
    pub topic: &'a str,
    #[wire(versions = "13+", ignorable)]
    pub topic_id: Uuid,
    #[wire(versions = "7+")]
    pub partitions: Array<'a, PartitionIndex>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = Fetch, versions = "4-17")]
pub struct FetchResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    #[wire(versions = "7+", ignorable)]
    pub error_code: ErrorCode,
    /// 0 for no session.
    #[wire(versions = "7+")]
    pub session_id: i32,
    pub responses: Array<'a, FetchableTopicResponse<'a>>,
    /// Where the leaders named in the partitions are.
    #[wire(versions = "16+", tag = 0)]
    pub node_endpoints: Array<'a, NodeEndpoint<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct FetchableTopicResponse<'a> {
    #[wire(versions = "0-12", ignorable)]
    pub topic: &'a str,
    #[wire(versions = "13+", ignorable)]
    pub topic_id: Uuid,
    pub partitions: Array<'a, PartitionData<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct PartitionData<'a> {
    pub partition_index: PartitionIndex,
    pub error_code: ErrorCode,
    pub high_watermark: Offset,
    /// No transaction below it is open.
    #[wire(versions = "4+", default = Offset(-1), ignorable)]
    pub last_stable_offset: Offset,
    #[wire(versions = "5+", default = Offset(-1), ignorable)]
    pub log_start_offset: Offset,
    /// Where the reader's log leaves the leader's, if it does.
    #[wire(versions = "12+", tag = 0)]
    pub diverging_epoch: EpochEndOffset,
    #[wire(versions = "12+", tag = 1)]
    pub current_leader: LeaderIdAndEpoch,
    #[wire(versions = "12+", tag = 2)]
    pub snapshot_id: SnapshotId,
    /// The aborted transactions among these records, for a reader of committed ones; null for others.
    #[wire(versions = "4+", nullable = "4+", default = Some(Array::empty()), ignorable)]
    pub aborted_transactions: Option<Array<'a, AbortedTransaction>>,
    /// The replica to read from instead; −1 for none.
    #[wire(versions = "11+", default = BrokerId(-1))]
    pub preferred_read_replica: BrokerId,
    pub records: Records<'a>,
}

/// −1 for "does not diverge".
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct EpochEndOffset {
    #[wire(versions = "12+", default = LeaderEpoch(-1))]
    pub epoch: LeaderEpoch,
    #[wire(versions = "12+", default = Offset(-1))]
    pub end_offset: Offset,
}

/// The leader that a reader should turn to; −1 for unknown.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct LeaderIdAndEpoch {
    #[wire(versions = "12+", default = BrokerId(-1))]
    pub leader_id: BrokerId,
    #[wire(versions = "12+", default = LeaderEpoch(-1))]
    pub leader_epoch: LeaderEpoch,
}

/// The snapshot to fetch where the log starts later than asked for; −1 for none.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct SnapshotId {
    #[wire(default = Offset(-1))]
    pub end_offset: Offset,
    #[wire(default = LeaderEpoch(-1))]
    pub epoch: LeaderEpoch,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct AbortedTransaction {
    #[wire(versions = "4+")]
    pub producer_id: ProducerId,
    #[wire(versions = "4+")]
    pub first_offset: Offset,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct NodeEndpoint<'a> {
    #[wire(versions = "16+")]
    pub node_id: BrokerId,
    #[wire(versions = "16+")]
    pub host: &'a str,
    #[wire(versions = "16+")]
    pub port: i32,
    #[wire(versions = "16+", nullable = "16+")]
    pub rack: Option<&'a str>,
}
