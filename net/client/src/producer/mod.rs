//! The producer: records in, batches to the partitions' leaders, acknowledgements out.
//!
//! Owner: the shard of its client. Life cycle: [`Producer::open`] starts the sending task; [`Producer::send`] waits for memory,
//! never for the network once the topic is known; [`Producer::flush`] waits for all that was sent; dropping the last handle abandons what is left.
//!
//! Invariants
//! - Records of one partition are written in the order in which `send` accepted them, and each at most once, where the producer is
//!   idempotent (the default). Otherwise only while nothing has to be tried again.
//! - Memory is bounded by [`ProducerOptions::buffer_bytes`]: past it `send` waits.
//! - Every delivery ends: acknowledged, or with a [`DeliveryError`] that says whether the record may have been written.

mod batch;
mod partitioner;
mod queue;
#[cfg(test)]
mod queue_tests;
mod send_loop;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Instant, KIB, MIB, PartitionIndex, WallTime};
use record::{BatchOptions, BuildError, Compression, Header};
use shard::Task;
use shard::sync::{Event, Semaphore};

pub use batch::{BatchOutcome, Delivered, Delivery, DeliveryError};
pub use partitioner::Partitioner;

use partitioner::{Next, StickyState};
use queue::{Appending, IN_FLIGHT_MAX, Identity, PartitionQueue, QueueOptions};
use send_loop::LeaderState;

use crate::metadata::Topic;
use crate::{Client, Error, Lane};

/// Bytes that a record costs besides its key, value and headers: its lengths and deltas, and its share of a batch.
const RECORD_OVERHEAD_BYTES: usize = 32;

/// How many replicas must hold a record before it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acks {
    /// Nobody acknowledges: sent is all that is known.
    Zero,
    /// The leader.
    One,
    /// The in-sync set, at least `min.insync.replicas` of it.
    #[default]
    All,
}

/// How a producer behaves.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub acks: Acks,
    pub compression: Compression,
    /// The codec's own; `None` for its default.
    pub compression_level: Option<i32>,
    /// A batch is closed at this size, before compression.
    pub batch_bytes: usize,
    /// How long a batch waits for more records.
    pub linger: Duration,
    /// Batches in one request.
    pub request_bytes: usize,
    /// Bound of the records that are not acknowledged.
    pub buffer_bytes: usize,
    /// Repetitions are recognised (KIP-98). Wants acknowledgements and tries.
    pub idempotent: bool,
    /// Whether a batch is tried again.
    pub retries: bool,
    /// Unanswered requests to each broker; at most 5 where idempotent.
    pub requests_in_flight: usize,
    /// From `send` to a delivery's end; a request on its way then is still waited for.
    pub delivery_timeout: Duration,
    pub partitioner: Partitioner,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            compression: Compression::None,
            compression_level: None,
            batch_bytes: 128 * KIB,
            linger: Duration::from_millis(5),
            request_bytes: MIB,
            buffer_bytes: 32 * MIB,
            idempotent: true,
            retries: true,
            requests_in_flight: IN_FLIGHT_MAX,
            delivery_timeout: Duration::from_secs(120),
            partitioner: Partitioner::KeyHash,
        }
    }
}

/// A record to send; borrowed until `send` returns.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProducerRecord<'a> {
    pub topic: &'a str,
    /// `None`: the partitioner's choice.
    pub partition: Option<PartitionIndex>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    /// `None`: now.
    pub timestamp: Option<WallTime>,
}

/// Why a record was not accepted; nothing was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The topic or partition can't be had.
    Topic(Error),
    /// Larger than the memory for all records.
    TooLarge { bytes: usize, bytes_limit: usize },
    /// The record can't stand in a batch.
    Build(BuildError),
    /// The producer is of no more use.
    Ended(DeliveryError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(error) => error.fmt(f),
            Self::TooLarge { bytes, bytes_limit } => {
                write!(f, "a record of {bytes} bytes, where {bytes_limit} are the bound for all that wait")
            }
            Self::Build(error) => error.fmt(f),
            Self::Ended(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

/// Options that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionsError(&'static str);

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for OptionsError {}

/// A producer. Clones are the same one.
#[derive(Clone)]
pub struct Producer(Rc<Handle>);

/// Ends the sending task with the last handle.
struct Handle {
    inner: Rc<Inner>,
    sending: RefCell<Option<Task<()>>>,
}

struct Inner {
    client: Client,
    lane: Lane,
    options: ProducerOptions,
    queue_options: QueueOptions,
    topics: RefCell<BTreeMap<Rc<str>, TopicState>>,
    /// The partitions that have something to send: a producer may know ten thousand and write to a few at a time.
    active: RefCell<BTreeSet<PartitionKey>>,
    leaders: RefCell<BTreeMap<BrokerId, LeaderState>>,
    memory: Semaphore,
    /// Batches without an outcome, for who waits for all of them.
    unresolved: RefCell<BTreeMap<u64, Rc<batch::Shared>>>,
    next_batch_id: Cell<u64>,
    identity: Cell<Option<Identity>>,
    /// Why the producer is of no more use.
    ended: RefCell<Option<DeliveryError>>,
    /// Nothing lingers while somebody flushes.
    flushing: Cell<usize>,
    refreshing: Cell<bool>,
    woken: Cell<bool>,
    wake: Event,
    watcher: RefCell<Option<Watcher>>,
}

type PartitionKey = (Rc<str>, PartitionIndex);
type Watcher = Rc<dyn Fn(BatchOutcome)>;

#[derive(Default)]
struct TopicState {
    sticky: StickyState,
    queues: BTreeMap<PartitionIndex, PartitionQueue>,
}

impl Producer {
    /// Starts a producer. The identity of an idempotent one is asked for with its first batch.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn open(client: &Client, options: ProducerOptions) -> Result<Self, OptionsError> {
        if options.idempotent && (options.acks != Acks::All || !options.retries) {
            return Err(OptionsError("an idempotent producer needs acks=all and retries"));
        }
        let in_flight_max = options.requests_in_flight.max(1);
        let in_flight_max = if options.idempotent { in_flight_max.min(IN_FLIGHT_MAX) } else { in_flight_max };
        let (compression, compression_level) = (options.compression, options.compression_level);
        let queue_options = QueueOptions {
            batch: BatchOptions { compression, compression_level, ..BatchOptions::default() },
            batch_bytes: options.batch_bytes,
            linger: options.linger,
            delivery_timeout: options.delivery_timeout,
            idempotent: options.idempotent,
            in_flight_max,
            retries: options.retries,
            retry: client.options().retry,
        };
        let inner = Rc::new(Inner {
            client: client.clone(),
            lane: client.new_lane(),
            memory: Semaphore::new(options.buffer_bytes),
            options,
            queue_options,
            topics: RefCell::default(),
            active: RefCell::default(),
            leaders: RefCell::default(),
            unresolved: RefCell::default(),
            next_batch_id: Cell::new(0),
            identity: Cell::new(None),
            ended: RefCell::default(),
            flushing: Cell::new(0),
            refreshing: Cell::new(false),
            woken: Cell::new(false),
            wake: Event::new(),
            watcher: RefCell::default(),
        });
        let class = client.options().connection.class;
        let sending = client.shard().spawn(class, client.account(), send_loop::run(inner.clone()));
        Ok(Self(Rc::new(Handle { inner, sending: Some(sending).into() })))
    }

    /// Accepts a record: it is sent whether or not the delivery is waited for. Waits while the topic is not known and while the
    /// memory for records is used up; when the future is dropped the record was not accepted.
    ///
    /// # Errors
    /// No such topic or partition, a record that is too large, a producer that has ended.
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        let inner = &self.0.inner;
        inner.check_ended()?;
        let mut now = inner.client.shard().now();
        let topic = match inner.client.known_topic_at(record.topic, now) {
            Some(topic) => topic,
            None => inner.client.topic(record.topic).await.map_err(SendError::Topic)?,
        };
        let header_bytes = record.headers.iter().map(|h| 10 + h.key.len() + h.value.map_or(0, <[u8]>::len));
        let content_bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let bytes = RECORD_OVERHEAD_BYTES + content_bytes + header_bytes.sum::<usize>();
        if bytes > inner.options.buffer_bytes {
            return Err(SendError::TooLarge { bytes, bytes_limit: inner.options.buffer_bytes });
        }
        let permit = match inner.memory.try_acquire(bytes) {
            Some(permit) => permit,
            None => {
                // What lingers is sent now, for its memory is wanted.
                let wanted = inner.memory.acquire(bytes);
                inner.wake();
                let permit = wanted.await.expect("never closed");
                now = inner.client.shard().now();
                permit
            }
        };
        inner.check_ended()?;
        let delivery = inner.append(&topic, &record, bytes, now)?;
        permit.forget();
        Ok(delivery)
    }

    /// Waits until every record accepted so far has an outcome; nothing lingers meanwhile.
    pub async fn flush(&self) {
        let inner = &self.0.inner;
        let unresolved: Vec<_> = inner.unresolved.borrow().values().cloned().collect();
        if unresolved.is_empty() {
            return;
        }
        let _flushing = Flushing::start(inner);
        for batch in unresolved {
            batch.settled().await;
        }
    }

    /// From now on `watcher` is told of each batch as soon as its outcome is known: who sends millions of records need not keep a
    /// [`Delivery`] for each. It is called while the producer works, so it must not wait.
    pub fn watch(&self, watcher: impl Fn(BatchOutcome) + 'static) {
        self.0.inner.watcher.replace(Some(Rc::new(watcher)));
    }

    /// Bytes of records that have no outcome yet.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        let inner = &self.0.inner;
        inner.options.buffer_bytes.saturating_sub(inner.memory.available())
    }
}

/// While it lives, records do not linger.
struct Flushing<'a>(&'a Inner);

impl<'a> Flushing<'a> {
    fn start(inner: &'a Inner) -> Self {
        inner.flushing.set(inner.flushing.get() + 1);
        inner.wake();
        Self(inner)
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.flushing.set(self.0.flushing.get() - 1);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.cancel();
        }
        let abandoned = DeliveryError::Abandoned { may_have_been_written: false };
        self.inner.ended.borrow_mut().get_or_insert(abandoned);
        let topics = self.inner.topics.take();
        drop(topics);
    }
}

impl Inner {
    fn check_ended(&self) -> Result<(), SendError> {
        match &*self.ended.borrow() {
            Some(error) => Err(SendError::Ended(error.clone())),
            None => Ok(()),
        }
    }

    /// Has the sending task look again.
    fn wake(&self) {
        self.woken.set(true);
        self.wake.notify_one();
    }

    fn append(
        &self,
        topic: &Rc<Topic>,
        record: &ProducerRecord<'_>,
        bytes: usize,
        now: Instant,
    ) -> Result<Delivery, SendError> {
        let shard = self.client.shard();
        let partition_count = topic.partitions.len();
        let mut topics = self.topics.borrow_mut();
        let state = match topics.get_mut(&*topic.name) {
            Some(state) => state,
            None => topics.entry(topic.name.clone()).or_default(),
        };
        let partition = record.partition.unwrap_or_else(|| {
            let usable = |index| topic.partition(index).is_some_and(|partition| partition.leader.is_some());
            let next =
                Next { bytes, batch_bytes: self.options.batch_bytes, usable: &usable, random: &|| shard.random() };
            self.options.partitioner.choose(record.key, partition_count, &mut state.sticky, next)
        });
        if topic.partition(partition).is_none() {
            let (topic, partition) = (topic.name.to_string(), partition.0);
            return Err(SendError::Topic(Error::NoPartition { topic, partition, partition_count }));
        }
        let appending = Appending {
            timestamp: record.timestamp.unwrap_or_else(|| shard.wall()),
            key: record.key,
            value: record.value,
            headers: record.headers,
            reserved_bytes: bytes,
        };
        let queue =
            state.queues.entry(partition).or_insert_with(|| PartitionQueue::new(partition, &self.queue_options));
        let id = self.next_batch_id.get();
        let appended = queue.append(&appending, id, now, &self.queue_options);
        let (delivery, changed) = appended.map_err(SendError::Build)?;
        if let Some(batch) = queue.newest().filter(|batch| batch.id == id) {
            self.unresolved.borrow_mut().insert(id, batch.shared().clone());
            self.next_batch_id.set(id + 1);
        }
        drop(topics);
        if changed {
            self.active.borrow_mut().insert((topic.name.clone(), partition));
            self.wake();
        }
        Ok(delivery)
    }
}
