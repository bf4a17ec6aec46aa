//! The batches of one partition: what is gathered, what waits, what is on its way, and under which sequence numbers.
//!
//! Owner: one producer. A pure core: the time and random numbers come in, batches to send and outcomes go out.
//!
//! Invariants of an idempotent producer (KIP-98)
//! - A batch gets its sequence when it is first sent and keeps it for every further try, so the broker tells a repetition apart.
//! - Batches leave in order; after one has to be tried again, nothing leaves before all answers on their way are in.
//! - From the oldest unresolved batch to the newest with a number there are at most [`IN_FLIGHT_MAX`], whatever became of those
//!   between: the broker remembers no more, and a batch that it wrote and then forgot could not be told from a gap.
//! - Once a batch with a sequence is given up, its number may or may not be used up. The queue is then *broken*: batches that
//!   have a number end under it, those that the broker certainly did not write give it back, and when none is left
//!   the partition goes on under a new identity. Nothing is written twice on the way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::{BrokerId, Instant, PartitionIndex, ProducerEpoch, ProducerId, WallTime};
use record::{BatchBuilder, BatchOptions, BuildError, Header, ProducerStamp};
use wire::ErrorCode;

use super::batch::{Acknowledged, Batch, Delivery, DeliveryError};
use crate::Error;
use crate::wait::{Backoff, RetryOptions};

/// Batches of a producer that a broker remembers for each partition (KIP-98).
pub(super) const IN_FLIGHT_MAX: usize = 5;

/// How batches are made and sent.
#[derive(Clone, Debug)]
pub(super) struct QueueOptions {
    pub batch: BatchOptions,
    pub batch_bytes: usize,
    pub linger: Duration,
    pub delivery_timeout: Duration,
    pub idempotent: bool,
    pub in_flight_max: usize,
    pub retries: bool,
    pub retry: RetryOptions,
}

/// Who the producer is to the broker.
pub(super) type Identity = (ProducerId, ProducerEpoch);

/// The sequence numbers of a partition under one identity.
struct Sequence {
    identity: Identity,
    next: i32,
    /// Batches that were given a number so far.
    numbered_count: u64,
    /// Batches with a number and without an outcome: their id, and how many were numbered before them.
    unresolved: BTreeMap<u64, u64>,
    /// The newest batch that was acknowledged. The broker takes a number only after the one before, so it has written all
    /// that are older.
    acknowledged_id: Option<u64>,
    broken: bool,
}

impl Sequence {
    fn new(identity: Identity) -> Self {
        let (unresolved, acknowledged_id) = (BTreeMap::new(), None);
        Self { identity, next: 0, numbered_count: 0, unresolved, acknowledged_id, broken: false }
    }

    /// Whether another batch may be given a number.
    fn has_room(&self) -> bool {
        let oldest = self.unresolved.values().next();
        oldest.is_none_or(|before| self.numbered_count - before < IN_FLIGHT_MAX as u64)
    }

    fn number(&mut self, batch: &Batch) -> ProducerStamp {
        let (producer_id, producer_epoch) = self.identity;
        let stamp = ProducerStamp { producer_id, producer_epoch, base_sequence: self.next };
        self.next = record::last_sequence(self.next, batch.record_count());
        self.unresolved.insert(batch.id, self.numbered_count);
        self.numbered_count += 1;
        stamp
    }
}

/// A record to append.
pub(super) struct Appending<'a> {
    pub timestamp: WallTime,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    pub reserved_bytes: usize,
}

/// What came of a batch that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Acknowledged(Acknowledged),
    Refused {
        code: ErrorCode,
        message: Option<String>,
    },
    /// No answer about this batch.
    Failed(Error),
}

pub(super) struct PartitionQueue {
    partition: PartitionIndex,
    open: Option<Batch>,
    /// In order of their ids; those to try again are ahead.
    sealed: VecDeque<Batch>,
    in_flight: BTreeSet<u64>,
    in_flight_to: Option<BrokerId>,
    sequence: Option<Sequence>,
    /// A batch has to be tried again: nothing leaves until nothing is on its way.
    settling: bool,
    not_before: Instant,
    backoff: Backoff,
}

impl PartitionQueue {
    pub(super) fn new(partition: PartitionIndex, options: &QueueOptions) -> Self {
        Self {
            partition,
            open: None,
            sealed: VecDeque::new(),
            in_flight: BTreeSet::new(),
            in_flight_to: None,
            sequence: None,
            settling: false,
            not_before: Instant::default(),
            backoff: Backoff::new(options.retry),
        }
    }

    /// Adds a record; a batch that it opens gets the id. The flag says whether a batch was opened or sealed, which the sender wants to know.
    pub(super) fn append(
        &mut self,
        record: &Appending<'_>,
        id: u64,
        now: Instant,
        options: &QueueOptions,
    ) -> Result<(Delivery, bool), BuildError> {
        let fits = self.open.as_mut().and_then(Batch::builder).is_some_and(|builder| {
            let bytes = builder.size_bytes_estimate_with(record.key, record.value, record.headers);
            bytes <= options.batch_bytes
        });
        let opened = !fits;
        if opened {
            self.seal();
        }
        let mut batch =
            self.open.take().unwrap_or_else(|| Batch::new(id, self.partition, now, BatchBuilder::new(options.batch)));
        let builder = batch.builder().expect("an open batch is gathering");
        let added = builder.add(record.timestamp, record.key, record.value, record.headers);
        if let Err(error) = added {
            // A batch that it would have opened is dropped.
            self.open = Some(batch).filter(|batch| batch.record_count() > 0);
            return Err(error);
        }
        let delivery = batch.added(record.timestamp, record.reserved_bytes);
        let full = batch.bytes() >= options.batch_bytes;
        self.open = Some(batch);
        if full {
            self.seal();
        }
        Ok((delivery, opened || full))
    }

    /// The newest batch: the one a record was just appended to.
    pub(super) fn newest(&self) -> Option<&Batch> {
        self.open.as_ref().or(self.sealed.back())
    }

    /// Takes no more records into the open batch.
    pub(super) fn seal(&mut self) {
        self.sealed.extend(self.open.take());
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_none() && self.sealed.is_empty()
    }

    /// The next batch that may be sent to `leader` now; it counts as on its way. `urgent`: records do not linger.
    pub(super) fn take(
        &mut self,
        leader: BrokerId,
        now: Instant,
        urgent: bool,
        options: &QueueOptions,
    ) -> Option<Batch> {
        if self.in_flight.is_empty() {
            self.settling = false;
        } else if self.settling || self.in_flight_to != Some(leader) {
            return None;
        }
        if now < self.not_before || self.in_flight.len() >= options.in_flight_max {
            return None;
        }
        if self.sealed.is_empty()
            && self.open.as_ref().is_some_and(|open| urgent || open.created + options.linger <= now)
        {
            self.seal();
        }
        let place = self.next_place(options)?;
        let mut batch = self.sealed.remove(place)?;
        if let Some(sequence) = self.sequence.as_mut().filter(|_| options.idempotent && batch.stamp.is_none()) {
            batch.stamp = Some(sequence.number(&batch));
        }
        batch.tries += 1;
        self.in_flight.insert(batch.id);
        self.in_flight_to = Some(leader);
        Some(batch)
    }

    /// Which of the sealed batches is next.
    fn next_place(&self, options: &QueueOptions) -> Option<usize> {
        let first = self.sealed.front()?;
        if !options.idempotent {
            return Some(0);
        }
        let sequence = self.sequence.as_ref()?;
        if sequence.broken {
            // Those that still have a number end under it; the others wait for a new identity, whatever their place.
            return self.sealed.iter().position(|batch| batch.stamp.is_some());
        }
        (first.stamp.is_some() || sequence.has_room()).then_some(0)
    }

    /// Takes in what came of a batch. Returns it once it is resolved; otherwise it will be tried again.
    pub(super) fn answered(
        &mut self,
        mut batch: Batch,
        verdict: Verdict,
        now: Instant,
        random: u64,
        options: &QueueOptions,
    ) -> Option<Batch> {
        self.in_flight.remove(&batch.id);
        match verdict {
            Verdict::Acknowledged(acknowledged) => Some(self.acknowledge(batch, acknowledged)),
            Verdict::Refused { code: ErrorCode::DuplicateSequenceNumber, .. } if batch.stamp.is_some() => {
                Some(self.acknowledge(batch, Acknowledged { base_offset: None, append_time: None }))
            }
            Verdict::Refused { code, .. } if is_about_sequence(code) && batch.stamp.is_some() => {
                self.out_of_sequence(batch, code)
            }
            Verdict::Refused { code, .. } if is_about_identity(code) => {
                let may_have_been_written = batch.maybe_written;
                Some(self.fail(batch, DeliveryError::Fenced { code, may_have_been_written }))
            }
            Verdict::Refused { code, message } if code.is_retriable() && options.retries => {
                batch.maybe_written |= crate::error::may_have_happened(code);
                batch.last_error =
                    Some(Error::Refused { what: format!("partition {}", self.partition), code, message });
                self.retry(batch, now, random);
                None
            }
            // Refused now, but perhaps not an earlier time.
            Verdict::Refused { code, message } if batch.maybe_written => {
                let cause = Error::Refused { what: format!("partition {}", self.partition), code, message };
                Some(self.fail(batch, DeliveryError::Unknown { cause }))
            }
            Verdict::Refused { code, message } => Some(self.fail(batch, DeliveryError::Refused { code, message })),
            Verdict::Failed(error) => {
                batch.maybe_written |= error.may_have_happened();
                // A request that can't be put into bytes never will be; whatever else went wrong may go well next time.
                if options.retries && !matches!(error, Error::Encode { .. } | Error::Unsupported { .. }) {
                    batch.last_error = Some(error);
                    self.retry(batch, now, random);
                    return None;
                }
                let outcome = given_up(batch.maybe_written, Some(error));
                Some(self.fail(batch, outcome))
            }
        }
    }

    fn acknowledge(&mut self, mut batch: Batch, acknowledged: Acknowledged) -> Batch {
        if let Some(sequence) = &mut self.sequence {
            sequence.unresolved.remove(&batch.id);
            sequence.acknowledged_id = sequence.acknowledged_id.max(Some(batch.id));
        }
        self.backoff.reset();
        batch.resolve(Ok(acknowledged));
        batch
    }

    /// The broker expected another number: it wrote this batch long ago, or not at all.
    fn out_of_sequence(&mut self, mut batch: Batch, code: ErrorCode) -> Option<Batch> {
        let sequence = self.sequence.as_mut().expect("a batch with a number has a sequence");
        if sequence.acknowledged_id > Some(batch.id) {
            return Some(self.acknowledge(batch, Acknowledged { base_offset: None, append_time: None }));
        }
        let is_first = sequence.unresolved.first_key_value().is_some_and(|(first, _)| *first == batch.id);
        if !sequence.broken && is_first && code == ErrorCode::OutOfOrderSequenceNumber {
            // All before it was acknowledged, and the broker does not have it.
            return Some(self.fail(batch, DeliveryError::OutOfOrderSequence));
        }
        batch.maybe_written = false;
        if sequence.broken || is_first {
            sequence.broken = true;
            sequence.unresolved.remove(&batch.id);
            batch.stamp = None;
        }
        // Otherwise it follows one that has to be tried again, and goes after it.
        self.put_back(batch);
        None
    }

    fn retry(&mut self, batch: Batch, now: Instant, random: u64) {
        if now >= self.not_before {
            self.not_before = now + self.backoff.next(random);
        }
        self.put_back(batch);
    }

    fn put_back(&mut self, batch: Batch) {
        let place = self.sealed.partition_point(|other| other.id < batch.id);
        self.sealed.insert(place, batch);
        self.settling = true;
    }

    /// Resolves a batch as not acknowledged; its number is lost.
    pub(super) fn fail(&mut self, mut batch: Batch, error: DeliveryError) -> Batch {
        self.in_flight.remove(&batch.id);
        if let Some(sequence) = self.sequence.as_mut().filter(|_| batch.stamp.is_some()) {
            sequence.unresolved.remove(&batch.id);
            sequence.broken = true;
        }
        batch.resolve(Err(error));
        batch
    }

    /// Gives up the batches here whose time has run out; those on their way have their request's time.
    pub(super) fn expire(&mut self, now: Instant, options: &QueueOptions) -> Vec<Batch> {
        if self.open.as_ref().is_some_and(|open| open.created + options.delivery_timeout <= now) {
            self.seal();
        }
        let mut expired = Vec::new();
        while let Some(batch) = self.sealed.pop_front_if(|front| front.created + options.delivery_timeout <= now) {
            let (maybe_written, cause) = (batch.maybe_written, batch.last_error.clone());
            expired.push(self.fail(batch, given_up(maybe_written, cause)));
        }
        expired
    }

    /// Gives up everything that is not on its way.
    pub(super) fn fail_all(&mut self, error: &DeliveryError) -> Vec<Batch> {
        self.seal();
        let all = std::mem::take(&mut self.sealed).into_iter();
        all.map(|batch| {
            let error = error.clone().for_batch(batch.maybe_written);
            self.fail(batch, error)
        })
        .collect()
    }

    /// The identity that the queue must not go on with, where it needs another.
    pub(super) fn wants_identity(&self) -> Wants {
        match &self.sequence {
            None => Wants::Any,
            Some(sequence) if sequence.broken && sequence.unresolved.is_empty() => Wants::OtherThan(sequence.identity),
            Some(_) => Wants::Nothing,
        }
    }

    /// Goes on under this identity, from sequence 0.
    pub(super) fn set_identity(&mut self, identity: Identity) {
        assert!(self.wants_identity() != Wants::Nothing, "no number of the old identity is in use");
        self.sequence = Some(Sequence::new(identity));
    }

    /// When the queue has something to do by itself; what depends on an answer is not in it.
    pub(super) fn deadline(&self, now: Instant, options: &QueueOptions) -> Option<Instant> {
        let open = self.open.as_ref().map(|open| open.created + options.linger);
        let oldest = self.sealed.front().or(self.open.as_ref()).map(|batch| batch.created + options.delivery_timeout);
        let retry = (!self.sealed.is_empty()).then_some(self.not_before);
        [open, retry].into_iter().flatten().filter(|at| *at > now).chain(oldest).min()
    }
}

/// What a queue needs before it can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wants {
    Nothing,
    Any,
    OtherThan(Identity),
}

fn is_about_sequence(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId)
}

fn is_about_identity(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced | ErrorCode::InvalidProducerIdMapping)
}

/// The outcome of a batch that is not tried any more.
fn given_up(maybe_written: bool, cause: Option<Error>) -> DeliveryError {
    match cause {
        Some(cause) if maybe_written => DeliveryError::Unknown { cause },
        cause => DeliveryError::Expired { cause },
    }
}
