//! The consumer without a group: partitions are assigned by hand, records come in the order of their offsets.
//!
//! Owner: the shard of its client. Life cycle: [`Consumer::new`] starts a task that knows the leaders; it starts one fetching task per
//! broker, with a connection of its own, for as long as that broker leads an assigned partition. All end with the last handle.
//!
//! Invariants
//! - Within a partition offsets only go up, and none that the log holds is passed over, unless [`OutOfRange`] says so.
//! - What was fetched and not yet read is bounded ([`ConsumerOptions::buffer_bytes`], and [`CHUNKS_MAX`] for each partition); past that
//!   nothing is fetched, which is the back-pressure.
//! - A partition that failed yields its error once, after all records before it, and stays silent until it is assigned again.

mod decode;
mod fetch_loop;
mod session;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, MIB, NO_EPOCH, Offset, PartitionIndex, WallTime};
use shard::sync::Event;
use shard::{Slice, Task};

pub use decode::{Corrupt, RecordBatch};

use crate::{Client, Error, Lane, OffsetSpec};

/// Responses of a partition that are fetched ahead of the reader: one is read while the next is on its way.
const CHUNKS_MAX: usize = 2;

/// What to do where the log does not hold the wanted offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutOfRange {
    /// Tell the reader.
    #[default]
    Fail,
    /// Go on with the oldest record.
    Beginning,
    /// Go on with what is written from now on.
    End,
}

/// How a consumer behaves.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// How long a broker holds a fetch that has too little to answer.
    pub max_wait: Duration,
    pub min_bytes: i32,
    /// Of one response; held to half of the longest answer the client takes.
    pub max_bytes: usize,
    /// Of one partition in a response.
    pub partition_bytes: usize,
    /// Bound of what was fetched and not yet read; one response more may be on its way from each broker.
    pub buffer_bytes: usize,
    /// Bound of one batch after decompression.
    pub inflated_bytes: usize,
    pub out_of_range: OutOfRange,
    /// Fetch sessions (KIP-227), where the broker has them.
    pub sessions: bool,
    /// After a change of leaders, ask whether what was read is still in the log (KIP-320).
    pub check_epochs: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 8 * MIB,
            partition_bytes: MIB,
            buffer_bytes: 16 * MIB,
            inflated_bytes: 256 * MIB,
            out_of_range: OutOfRange::Fail,
            sessions: true,
            check_epochs: true,
        }
    }
}

/// Where to begin in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    Beginning,
    End,
    Offset(Offset),
    /// The first record with this timestamp or a later one; the end where there is none.
    Time(WallTime),
}

/// A partition as it was found when it was assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// Where reading starts.
    pub start: Offset,
    /// The end of the log then: who reads up to it has seen everything that was there.
    pub end: Offset,
}

/// Records of a partition.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub topic: Rc<str>,
    pub partition: PartitionIndex,
    /// `None` where the log has no records for readers at these offsets.
    pub batch: Option<RecordBatch>,
    /// The offset to be read next.
    pub next_offset: Offset,
    /// The end of the log when this was fetched.
    pub high_watermark: Offset,
}

/// Why a partition can't be read any further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The log does not hold the offset.
    OutOfRange {
        wanted: Offset,
    },
    Corrupt(Corrupt),
    /// The log was truncated below what was read: records up to `read` were seen, and are gone from `end` on.
    Diverged {
        read: Offset,
        end: Offset,
    },
    Failed(Error),
}

/// A partition that can't be read any further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumeError {
    pub topic: Rc<str>,
    pub partition: PartitionIndex,
    pub fault: Fault,
}

impl fmt::Display for ConsumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}: ", self.topic, self.partition)?;
        match &self.fault {
            Fault::OutOfRange { wanted } => write!(f, "the log does not hold offset {wanted}"),
            Fault::Corrupt(corrupt) => corrupt.fmt(f),
            Fault::Diverged { read, end } => {
                write!(f, "the log was truncated to offset {end} after it was read up to {read}")
            }
            Fault::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConsumeError {}

/// A consumer. Clones are the same one; each record goes to one of them.
#[derive(Clone)]
pub struct Consumer(Rc<Handle>);

struct Handle {
    inner: Rc<Inner>,
    supervisor: RefCell<Option<Task<()>>>,
}

type PartitionKey = (Rc<str>, PartitionIndex);

struct Inner {
    client: Client,
    lane: Lane,
    options: ConsumerOptions,
    partitions: RefCell<BTreeMap<PartitionKey, PartitionState>>,
    /// Brokers that a task fetches from.
    fetching: RefCell<BTreeMap<BrokerId, Task<()>>>,
    ready: RefCell<VecDeque<Ready>>,
    ready_event: Event,
    buffered_bytes: Cell<usize>,
    /// Something about the partitions changed, or there is room again.
    changed: Event,
    /// Counts the times that a partition's leader, or whether it is read at all, has changed.
    leadership: Cell<u64>,
    /// The partitions about which something has changed since each broker that is fetched from was last asked.
    touched: RefCell<BTreeMap<BrokerId, BTreeSet<PartitionKey>>>,
    /// Some partition may be out of range.
    any_out_of_range: Cell<bool>,
    next_assignment: Cell<u64>,
    closed: Cell<bool>,
}

struct PartitionState {
    /// Tells an answer for an earlier assignment apart.
    assignment: u64,
    /// To be read next.
    position: Offset,
    /// To be fetched next.
    fetch_from: Offset,
    /// The leader epoch of what was fetched last.
    fetched_epoch: LeaderEpoch,
    leader: Option<(BrokerId, LeaderEpoch)>,
    chunks: usize,
    /// The log does not hold `fetch_from`: reading goes on from one of its ends.
    out_of_range: bool,
    failed: bool,
}

/// What awaits the reader.
enum Ready {
    Chunk(Chunk),
    Failed { assignment: u64, error: ConsumeError },
}

/// Whole batches of one response.
struct Chunk {
    key: PartitionKey,
    assignment: u64,
    bytes: Slice,
    high_watermark: Offset,
}

impl Consumer {
    /// Starts a consumer without partitions.
    #[must_use]
    pub fn new(client: &Client, options: ConsumerOptions) -> Self {
        let inner = Rc::new(Inner {
            client: client.clone(),
            lane: client.new_lane(),
            options,
            partitions: RefCell::default(),
            fetching: RefCell::default(),
            ready: RefCell::default(),
            ready_event: Event::new(),
            buffered_bytes: Cell::new(0),
            changed: Event::new(),
            leadership: Cell::new(0),
            touched: RefCell::default(),
            any_out_of_range: Cell::new(false),
            next_assignment: Cell::new(0),
            closed: Cell::new(false),
        });
        let class = client.options().connection.class;
        let supervisor = client.shard().spawn(class, client.account(), fetch_loop::supervise(inner.clone()));
        Self(Rc::new(Handle { inner, supervisor: Some(supervisor).into() }))
    }

    /// Begins to read a partition, or reads it from another place on.
    ///
    /// # Errors
    /// The partition does not exist, or its leader does not answer.
    pub async fn assign(&self, topic: &str, partition: PartitionIndex, start: Start) -> Result<Assigned, Error> {
        let all = self.assign_all(topic, &[partition], start).await?;
        Ok(all[0])
    }

    /// As [`Consumer::assign`], for several partitions of a topic; answered in their order.
    ///
    /// # Errors
    /// As [`Consumer::assign`]; nothing is assigned then.
    pub async fn assign_all(
        &self,
        topic: &str,
        partitions: &[PartitionIndex],
        start: Start,
    ) -> Result<Vec<Assigned>, Error> {
        let client = &self.0.inner.client;
        let name = client.topic(topic).await?.name.clone();
        let ask = |spec: OffsetSpec| partitions.iter().map(|partition| (topic, *partition, spec)).collect::<Vec<_>>();
        let ends = client.list_offsets(&ask(OffsetSpec::Latest)).await?;
        let found = match start {
            Start::Beginning => client.list_offsets(&ask(OffsetSpec::Earliest)).await?,
            Start::Time(at) => client.list_offsets(&ask(OffsetSpec::Time(at))).await?,
            Start::End | Start::Offset(_) => ends.clone(),
        };
        let mut assigned = Vec::with_capacity(partitions.len());
        for ((partition, end), found) in partitions.iter().zip(ends).zip(found) {
            let end = end.offset.unwrap_or_default();
            let start = match start {
                Start::Offset(offset) => offset,
                _ => found.offset.unwrap_or(end),
            };
            self.0.inner.put(&name, *partition, start);
            assigned.push(Assigned { start, end });
        }
        Ok(assigned)
    }

    /// Begins to read at an offset, without a question to the broker.
    pub fn assign_at(&self, topic: &str, partition: PartitionIndex, offset: Offset) {
        self.0.inner.put(&topic.into(), partition, offset);
    }

    /// Stops reading a partition; what was fetched of it is dropped.
    pub fn unassign(&self, topic: &str, partition: PartitionIndex) {
        let inner = &self.0.inner;
        let key = (Rc::from(topic), partition);
        inner.partitions.borrow_mut().remove(&key);
        inner.touch(&key);
        inner.leadership_changed();
    }

    /// The offset that is to be read next.
    #[must_use]
    pub fn position(&self, topic: &str, partition: PartitionIndex) -> Option<Offset> {
        let partitions = self.0.inner.partitions.borrow();
        partitions.get(&(Rc::from(topic), partition)).map(|state| state.position)
    }

    /// The next batch of some partition; waits for one. Loses nothing when the future is dropped.
    ///
    /// # Errors
    /// A partition that can't be read any further; the others can.
    pub async fn next(&self) -> Result<Fetched, ConsumeError> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            self.0.inner.ready_event.wait().await;
        }
    }

    /// The next batch, if one is there.
    #[must_use]
    pub fn try_next(&self) -> Option<Result<Fetched, ConsumeError>> {
        loop {
            let ready = self.0.inner.ready.borrow_mut().pop_front()?;
            let next = match ready {
                Ready::Chunk(chunk) => self.0.inner.read(chunk),
                Ready::Failed { assignment, error } => {
                    let key = (error.topic.clone(), error.partition);
                    let current = self.0.inner.partitions.borrow().get(&key).map(|state| state.assignment);
                    (current == Some(assignment)).then_some(Err(error))
                }
            };
            if next.is_some() {
                return next;
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.closed.set(true);
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.cancel();
        }
        self.inner.fetching.take().into_values().for_each(Task::cancel);
        self.inner.ready.take();
    }
}

impl Inner {
    fn put(&self, topic: &Rc<str>, partition: PartitionIndex, offset: Offset) {
        let assignment = self.next_assignment.get();
        self.next_assignment.set(assignment + 1);
        let state = PartitionState {
            assignment,
            position: offset,
            fetch_from: offset,
            fetched_epoch: NO_EPOCH,
            leader: None,
            chunks: 0,
            out_of_range: false,
            failed: false,
        };
        let key = (topic.clone(), partition);
        self.touch(&key);
        self.partitions.borrow_mut().insert(key, state);
        self.leadership_changed();
    }

    /// Something about the partition has changed: brokers that it is fetched from are told with the next request.
    fn touch(&self, key: &PartitionKey) {
        for touched in self.touched.borrow_mut().values_mut() {
            touched.insert(key.clone());
        }
    }

    /// A partition has another leader, or none, or is not read any more, or has begun to be.
    fn leadership_changed(&self) {
        self.leadership.set(self.leadership.get() + 1);
        self.changed.notify_all();
    }

    /// Takes the first batch off a chunk and puts the rest back in front.
    fn read(&self, mut chunk: Chunk) -> Option<Result<Fetched, ConsumeError>> {
        let mut partitions = self.partitions.borrow_mut();
        let current = partitions.get_mut(&chunk.key).filter(|state| state.assignment == chunk.assignment);
        let Some(state) = current.filter(|state| !state.failed || state.position < state.fetch_from) else {
            drop(partitions);
            self.release(chunk.bytes.len());
            return None;
        };
        let (topic, partition) = chunk.key.clone();
        let (batch, header) = match RecordBatch::take(&chunk.bytes, state.position, self.options.inflated_bytes) {
            Ok(taken) => taken,
            Err(corrupt) => {
                state.failed = true;
                // What follows in other chunks is not read either.
                state.fetch_from = state.position;
                drop(partitions);
                self.touch(&chunk.key);
                self.leadership_changed();
                self.release(chunk.bytes.len());
                return Some(Err(ConsumeError { topic, partition, fault: Fault::Corrupt(corrupt) }));
            }
        };
        state.position = state.position.max(header.next_offset());
        let fetched =
            Fetched { topic, partition, batch, next_offset: state.position, high_watermark: chunk.high_watermark };
        let taken = chunk.bytes.split_to(header.size_bytes()).len();
        if chunk.bytes.is_empty() {
            state.chunks = state.chunks.saturating_sub(1);
            self.touch(&chunk.key);
        } else {
            self.ready.borrow_mut().push_front(Ready::Chunk(chunk));
        }
        drop(partitions);
        self.release(taken);
        Some(Ok(fetched))
    }

    /// Bytes were read or dropped: there is room.
    fn release(&self, bytes: usize) {
        self.buffered_bytes.set(self.buffered_bytes.get() - bytes);
        self.changed.notify_all();
    }

    fn make_ready(&self, ready: Ready) {
        if let Ready::Chunk(chunk) = &ready {
            self.buffered_bytes.set(self.buffered_bytes.get() + chunk.bytes.len());
        }
        self.ready.borrow_mut().push_back(ready);
        self.ready_event.notify_one();
    }

    /// The partition yields `fault` and nothing more.
    fn fail(&self, key: &PartitionKey, assignment: u64, fault: Fault) {
        let mut partitions = self.partitions.borrow_mut();
        let Some(state) = partitions.get_mut(key).filter(|state| state.assignment == assignment && !state.failed)
        else {
            return;
        };
        state.failed = true;
        drop(partitions);
        self.touch(key);
        let error = ConsumeError { topic: key.0.clone(), partition: key.1, fault };
        self.make_ready(Ready::Failed { assignment, error });
        self.leadership_changed();
    }

    /// Brokers that lead a partition which is being read.
    fn leaders(&self) -> BTreeSet<BrokerId> {
        let partitions = self.partitions.borrow();
        partitions.values().filter(|state| !state.failed).filter_map(|state| Some(state.leader?.0)).collect()
    }
}
