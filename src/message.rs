//! The one closed enum that crosses the mesh: what a shard asks of another, and the answers.
//!
//! Everything here is owned and `Send`; batch bytes travel as foreign slices, which go home when dropped. A handler that serves
//! one of these awaits no other mesh request, so shards cannot wait for each other in a circle.

use std::net::SocketAddr;
use std::sync::Arc;

use base::{Instant, LeaderEpoch, Offset, PartitionIndex, WallTime};
use shard::{ForeignSlice, PassedSocket};
use storage::retention::Kept;
use storage::{ActiveProducer, LogId, RecoveredShard};
use wire::ErrorCode;

use crate::cluster::{AdminReply, AdminRequest, LogSpec, View};
use crate::connections::Port;
use crate::coordinator::message::{GroupAnswer, GroupRequest, ListedGroup};
use crate::observe::Exposition;

/// A request to a shard, or its answer.
pub enum Message {
    Produce(ProduceTask),
    Produced(Vec<Produced>),
    Fetch(FetchTask),
    Fetched(Vec<Fetched<ForeignSlice>>),
    /// This fetch is to answer with what there is and wait for no more, or nobody wants its answer. One way.
    CancelFetch(FetchId),
    /// This reader has gone. One way.
    ForgetReader(ReaderId),
    /// To the coordinator of a group.
    Group {
        partition: PartitionIndex,
        request: Box<GroupRequest>,
    },
    GroupAnswered(Box<GroupAnswer>),
    ListGroups,
    GroupsListed(Result<Vec<ListedGroup>, ErrorCode>),
    ListOffsets(Vec<ListOffset>),
    ListedOffsets(Vec<ListedOffset>),
    MeasureLag(Vec<LagQuery>),
    /// In the order of the request; `None` where the partition is not here.
    LagMeasured(Vec<Option<LagFound>>),
    EpochEnds(Vec<EpochEndQuery>),
    EpochEndsFound(Vec<EpochEndFound>),
    DeleteRecords(Vec<RecordsDeletion>),
    /// The start of each log now, in the order of the request.
    RecordsDeleted(Vec<Result<Offset, ErrorCode>>),
    DescribeProducers(Vec<LogId>),
    ProducersDescribed(Vec<Result<Vec<ActiveProducer>, ErrorCode>>),
    /// How large every log of the shard is.
    MeasureLogs,
    LogsMeasured(Vec<(LogId, u64)>),
    /// To shard 0, whose controller alone proposes metadata records.
    Admin(AdminRequest),
    Admitted(AdminReply),
    /// From the controller: open (create where missing) these logs.
    OpenLogs(Vec<LogSpec>),
    /// From the controller: these topics are gone.
    RemoveLogs(Vec<LogId>),
    /// The answer to the two above and to [`Message::Publish`]; an error is a sentence for the log.
    Done(Result<(), String>),
    /// From the controller: what every shard knows of the cluster from now on.
    Publish(Arc<View>),
    /// From the boot of shard 0: what this shard owns. Answered by [`Message::Done`] once its store is open.
    Recovered {
        recovered: Box<RecoveredShard>,
        view: Arc<View>,
    },
    /// From the accepting shard: serve this connection. One way.
    Connection {
        port: Port,
        socket: PassedSocket,
        peer: SocketAddr,
    },
    /// To the accepting shard: a connection it passed on has ended. One way.
    ConnectionClosed(Port),
    /// Are you there? Answered by [`Message::Done`].
    Ping,
    /// Tell what you know of yourself.
    RenderMetrics,
    MetricsRendered(Exposition),
    /// Take no further request and answer those that are under way. Answered by [`Message::Done`].
    Drain,
    /// Close the store and end. Answered by [`Message::Done`].
    Stop,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Produce(_) => "Produce",
            Self::Produced(_) => "Produced",
            Self::Fetch(_) => "Fetch",
            Self::Fetched(_) => "Fetched",
            Self::CancelFetch(_) => "CancelFetch",
            Self::ForgetReader(_) => "ForgetReader",
            Self::Group { .. } => "Group",
            Self::GroupAnswered(_) => "GroupAnswered",
            Self::ListGroups => "ListGroups",
            Self::GroupsListed(_) => "GroupsListed",
            Self::ListOffsets(_) => "ListOffsets",
            Self::ListedOffsets(_) => "ListedOffsets",
            Self::MeasureLag(_) => "MeasureLag",
            Self::LagMeasured(_) => "LagMeasured",
            Self::EpochEnds(_) => "EpochEnds",
            Self::EpochEndsFound(_) => "EpochEndsFound",
            Self::DeleteRecords(_) => "DeleteRecords",
            Self::RecordsDeleted(_) => "RecordsDeleted",
            Self::DescribeProducers(_) => "DescribeProducers",
            Self::ProducersDescribed(_) => "ProducersDescribed",
            Self::MeasureLogs => "MeasureLogs",
            Self::LogsMeasured(_) => "LogsMeasured",
            Self::Admin(_) => "Admin",
            Self::Admitted(_) => "Admitted",
            Self::OpenLogs(_) => "OpenLogs",
            Self::RemoveLogs(_) => "RemoveLogs",
            Self::Done(_) => "Done",
            Self::Publish(_) => "Publish",
            Self::Recovered { .. } => "Recovered",
            Self::Connection { .. } => "Connection",
            Self::ConnectionClosed(_) => "ConnectionClosed",
            Self::Ping => "Ping",
            Self::RenderMetrics => "RenderMetrics",
            Self::MetricsRendered(_) => "MetricsRendered",
            Self::Drain => "Drain",
            Self::Stop => "Stop",
        };
        f.write_str(name)
    }
}

/// When an append may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Not at all.
    None,
    /// Once the leader holds it; with `durability = "disk"` that is once it is flushed.
    Leader,
    /// Once the in-sync set holds it.
    All,
}

/// Batches for partitions of one shard.
#[derive(Debug)]
pub struct ProduceTask {
    pub acks: Acks,
    /// Answered with `REQUEST_TIMED_OUT` when not held by then.
    pub deadline: Instant,
    pub batches: Vec<BatchTask<ForeignSlice>>,
}

/// One checked batch for one partition; `B` is how its bytes are held.
#[derive(Debug)]
pub struct BatchTask<B> {
    pub log: LogId,
    pub batch: B,
}

/// The answer for one [`BatchTask`], in the order of the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Produced {
    pub error: ErrorCode,
    pub base_offset: Offset,
    /// Set for `LogAppendTime`, else −1.
    pub append_time: WallTime,
    pub log_start: Offset,
    /// In words, where there is more to say than the code does.
    pub reason: Option<String>,
    /// The records that the batch is refused for, where it is for some: by their index from 0, each with what is wrong with it.
    pub refused_records: Vec<(u32, String)>,
}

impl Produced {
    /// An answer without an offset.
    #[must_use]
    pub fn failed(error: ErrorCode, reason: Option<String>) -> Self {
        Self {
            error,
            base_offset: Offset(-1),
            append_time: WallTime(-1),
            log_start: Offset(-1),
            reason,
            refused_records: Vec::new(),
        }
    }
}

/// Names a fetch on the shard that serves it: the asking shard and its count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FetchId {
    pub shard: base::ShardId,
    pub number: u64,
}

/// Names who reads the same partitions with fetch after fetch, on the shards that serve it: the asking shard and its count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReaderId {
    pub shard: base::ShardId,
    pub number: u64,
}

/// What to read from partitions of one shard.
#[derive(Debug)]
pub struct FetchTask {
    pub id: FetchId,
    /// The shard keeps what this reader wants, and what it was told, until [`Message::ForgetReader`]; without one that is over with the fetch.
    pub reader: Option<ReaderId>,
    /// Places that are read no longer.
    pub forgotten: Vec<u32>,
    /// What is read from now on, besides what the reader wants already; after the forgotten.
    pub targets: Vec<FetchTarget>,
    pub scope: Scope,
    /// For all targets together; the first batch found is returned whole all the same.
    pub max_bytes: usize,
    pub patience: Patience,
    /// Answer by then in any case.
    pub deadline: Instant,
}

/// Which of a reader's targets are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All that are new, room or not, and those with news.
    All,
    /// Those with news since what the last fetch answered, as far as there is room.
    News,
    /// As before, and what the last fetch answered once more: it did not come to the client.
    Again,
}

/// What a fetch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Nothing.
    None,
    /// This many bytes, or an error.
    Bytes(usize),
    /// A change of any target since it was last read.
    Change,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FetchTarget {
    /// What the reader calls it by.
    pub place: u32,
    pub log: LogId,
    pub offset: Offset,
    pub max_bytes: usize,
    /// The epoch the client believes in; `NO_EPOCH` when it has none.
    pub current_epoch: LeaderEpoch,
    /// The epoch of the last record the client has (KIP-595); `NO_EPOCH` when it has none.
    pub last_fetched_epoch: LeaderEpoch,
}

/// The answer for one [`FetchTarget`]; `S` is how slices of batches are held.
#[derive(Debug)]
pub struct Fetched<S> {
    pub place: u32,
    pub log: LogId,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub log_start: Offset,
    pub slices: Vec<S>,
    pub bytes: usize,
    /// The client's log diverges from here (KIP-595): the epoch and its end offset.
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

impl<S> Fetched<S> {
    #[must_use]
    pub fn failed(place: u32, log: LogId, error: ErrorCode) -> Self {
        let (high_watermark, log_start) = (Offset(-1), Offset(-1));
        Self { place, log, error, high_watermark, log_start, slices: Vec::new(), bytes: 0, diverging: None }
    }

    /// Always worth telling: an error, or where the client's log diverges.
    #[must_use]
    pub fn is_remarkable(&self) -> bool {
        self.error.is_error() || self.diverging.is_some()
    }

    /// The same answer with its slices held another way.
    #[must_use]
    pub fn map<T>(self, hold: impl FnMut(S) -> T) -> Fetched<T> {
        Fetched {
            place: self.place,
            log: self.log,
            error: self.error,
            high_watermark: self.high_watermark,
            log_start: self.log_start,
            slices: self.slices.into_iter().map(hold).collect(),
            bytes: self.bytes,
            diverging: self.diverging,
        }
    }
}

/// Which offset is asked for (KIP-79, KIP-734, KIP-405).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetSpec {
    Earliest,
    Latest,
    /// The first record with the largest timestamp.
    MaxTimestamp,
    /// The first record at or after this time.
    AtTime(WallTime),
}

#[derive(Clone, Copy, Debug)]
pub struct ListOffset {
    pub log: LogId,
    pub spec: OffsetSpec,
    pub current_epoch: LeaderEpoch,
}

/// The answer for one [`ListOffset`]; offset −1 when there is no such record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedOffset {
    pub error: ErrorCode,
    pub offset: Offset,
    pub timestamp: WallTime,
    pub epoch: LeaderEpoch,
}

/// How far is who has committed this behind?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LagQuery {
    pub log: LogId,
    /// The next offset that it will read.
    pub committed: Offset,
    /// The record there is known: it is not read again.
    pub next_known: Option<Offset>,
}

/// The answer for one [`LagQuery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LagFound {
    pub log_start: Offset,
    pub high_watermark: Offset,
    /// From where on there is something to read: what was committed, or the log's start where that is above it.
    pub next: Offset,
    /// The timestamp of the first record from there on; `None` where there is none, or it is known, or has no timestamp, or can't be read.
    pub next_written: Option<WallTime>,
    /// How long that record stays; empty where there is none.
    pub kept: Kept,
    /// By the log, since it was opened.
    pub appended_bytes: u64,
    pub retention_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub struct EpochEndQuery {
    pub log: LogId,
    pub epoch: LeaderEpoch,
    pub current_epoch: LeaderEpoch,
}

/// The answer for one [`EpochEndQuery`] (KIP-101, KIP-279).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEndFound {
    pub error: ErrorCode,
    pub epoch: LeaderEpoch,
    pub end: Offset,
}

/// Records of one log that are to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordsDeletion {
    pub log: LogId,
    /// Those below this; `None` for all that are committed.
    pub before: Option<Offset>,
}
