//! A batch on its way: records being gathered, then bytes being sent, and the one outcome that all its records share.
//!
//! Owner: the queue of its partition, or the request that carries it. A record's [`Delivery`] is a place in its batch's
//! outcome, so it costs no allocation.
//!
//! Invariant: a batch is resolved exactly once; one that is dropped unresolved is resolved as abandoned.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::{Instant, Offset, PartitionIndex, WallTime};
use record::{BatchBuilder, BatchHeader, BuildError, HEADER_BYTES, ProducerStamp};
use shard::Slice;
use shard::sync::{Event, Wait};
use wire::ErrorCode;

use super::queue::Verdict;
use crate::Error;

/// Where a record was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    pub partition: PartitionIndex,
    /// `None` where the broker does not say: without acknowledgements, or for a duplicate older than it remembers.
    pub offset: Option<Offset>,
    /// The record's own, or the broker's where the topic has append time.
    pub timestamp: WallTime,
}

/// Why a record was not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryError {
    /// The broker refused it: it was not written.
    Refused { code: ErrorCode, message: Option<String> },
    /// The time for its delivery ran out, with tries whose outcome is not known: it may have been written.
    Unknown { cause: Error },
    /// The time for its delivery ran out before it was sent, or with nothing but refusals: it was not written.
    Expired { cause: Option<Error> },
    /// The partition lacks records that were acknowledged before: the broker lost data. This record was not written.
    OutOfOrderSequence,
    /// Another producer has this one's identity, or the broker took it away; the producer is of no more use.
    Fenced { code: ErrorCode, may_have_been_written: bool },
    /// The producer got no identity from the cluster and is of no more use.
    NoIdentity { cause: Error },
    /// The producer was dropped first.
    Abandoned { may_have_been_written: bool },
    /// The record can't stand in a batch.
    Build(BuildError),
}

impl DeliveryError {
    /// Whether the record may stand in the log all the same.
    #[must_use]
    pub fn may_have_been_written(&self) -> bool {
        match self {
            Self::Unknown { .. } => true,
            Self::Abandoned { may_have_been_written } | Self::Fenced { may_have_been_written, .. } => {
                *may_have_been_written
            }
            Self::Refused { code, .. } => crate::error::may_have_happened(*code),
            Self::Expired { .. } | Self::OutOfOrderSequence | Self::NoIdentity { .. } | Self::Build(_) => false,
        }
    }
}

impl DeliveryError {
    /// What ended the producer, as said of a batch that was tried before or not.
    pub(super) fn for_batch(self, maybe_written: bool) -> Self {
        match self {
            Self::Fenced { code, .. } => Self::Fenced { code, may_have_been_written: maybe_written },
            Self::NoIdentity { cause } if maybe_written => Self::Unknown { cause },
            other => other,
        }
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message: Some(message) } => write!(f, "{message} ({} {})", code.name(), code.code()),
            Self::Refused { code, message: None } => code.fmt(f),
            Self::Unknown { cause } => write!(f, "not acknowledged in time, may have been written: {cause}"),
            Self::Expired { cause: Some(cause) } => write!(f, "not written in time: {cause}"),
            Self::Expired { cause: None } => f.write_str("not sent in time"),
            Self::OutOfOrderSequence => {
                f.write_str("the broker lacks records of this producer that it had acknowledged: data was lost")
            }
            Self::Fenced { code, .. } => write!(f, "this producer's identity is not valid any more: {code}"),
            Self::NoIdentity { cause } => write!(f, "no identity for an idempotent producer: {cause}"),
            Self::Abandoned { .. } => f.write_str("the producer was dropped before the acknowledgement"),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DeliveryError {}

/// What a broker said about a whole batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Acknowledged {
    pub base_offset: Option<Offset>,
    pub append_time: Option<WallTime>,
}

/// What became of a batch.
type Outcome = Result<Acknowledged, DeliveryError>;

/// The outcome, shared by a batch and its records' deliveries.
pub(super) struct Shared {
    pub partition: PartitionIndex,
    outcome: RefCell<Option<Outcome>>,
    resolved: Event,
}

impl Shared {
    /// Waits until the batch is resolved, however.
    pub(super) async fn settled(&self) {
        while self.outcome.borrow().is_none() {
            self.resolved.wait().await;
        }
    }
}

/// What became of a batch: all its records share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchOutcome {
    /// As [`Delivery::batch`] says.
    pub batch: u64,
    /// How often it was sent.
    pub tries: u32,
    /// The offset of its first record, where the broker says it.
    pub result: Result<Option<Offset>, DeliveryError>,
}

/// A future of what becomes of a record. Dropping it does not take the record back.
pub struct Delivery {
    batch: Rc<Shared>,
    batch_id: u64,
    index: usize,
    timestamp: WallTime,
    wait: Option<Wait>,
}

impl Delivery {
    /// The batch that the record is in: counts up within the producer.
    #[must_use]
    pub fn batch(&self) -> u64 {
        self.batch_id
    }

    fn outcome(&self) -> Option<Result<Delivered, DeliveryError>> {
        let outcome = self.batch.outcome.borrow();
        Some(outcome.as_ref()?.clone().map(|acknowledged| Delivered {
            partition: self.batch.partition,
            offset: acknowledged.base_offset.map(|base| Offset(base.0.saturating_add(self.index as i64))),
            timestamp: acknowledged.append_time.unwrap_or(self.timestamp),
        }))
    }

    /// What became of it, if that is known.
    #[must_use]
    pub fn try_outcome(&self) -> Option<Result<Delivered, DeliveryError>> {
        self.outcome()
    }
}

impl Future for Delivery {
    type Output = Result<Delivered, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(outcome) = self.outcome() {
                self.wait = None;
                return Poll::Ready(outcome);
            }
            let this = &mut *self;
            let wait = this.wait.get_or_insert_with(|| this.batch.resolved.wait());
            std::task::ready!(Pin::new(wait).poll(context));
            self.wait = None;
        }
    }
}

enum Content {
    Gathering(Box<BatchBuilder>),
    Encoded(Slice),
}

/// Records for one partition, in order.
pub(super) struct Batch {
    /// Counts up within the producer: the order of batches of a partition.
    pub id: u64,
    pub created: Instant,
    /// Memory to give back when the batch is resolved.
    pub reserved_bytes: usize,
    /// What an idempotent producer put on it, once it was first sent.
    pub stamp: Option<ProducerStamp>,
    /// How often it was sent.
    pub tries: u32,
    /// Some try of it ended without a clear answer.
    pub maybe_written: bool,
    pub last_error: Option<Error>,
    record_count: usize,
    content: Content,
    shared: Rc<Shared>,
}

impl Batch {
    pub(super) fn new(id: u64, partition: PartitionIndex, created: Instant, builder: BatchBuilder) -> Self {
        let shared = Shared { partition, outcome: RefCell::default(), resolved: Event::new() };
        Self {
            id,
            created,
            reserved_bytes: 0,
            stamp: None,
            tries: 0,
            maybe_written: false,
            last_error: None,
            record_count: 0,
            content: Content::Gathering(Box::new(builder)),
            shared: Rc::new(shared),
        }
    }

    pub(super) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    pub(super) fn record_count(&self) -> i32 {
        i32::try_from(self.record_count).expect("a builder counts its records in 32 bits")
    }

    /// The records, while they are still gathered.
    pub(super) fn builder(&mut self) -> Option<&mut BatchBuilder> {
        match &mut self.content {
            Content::Gathering(builder) => Some(builder),
            Content::Encoded(_) => None,
        }
    }

    /// Bytes so far, before compression; what will be sent, once it is encoded.
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            Content::Gathering(builder) => builder.size_bytes_estimate(),
            Content::Encoded(bytes) => bytes.len(),
        }
    }

    /// The delivery of the record that was just added.
    pub(super) fn added(&mut self, timestamp: WallTime, reserved_bytes: usize) -> Delivery {
        let index = self.record_count;
        self.record_count += 1;
        self.reserved_bytes += reserved_bytes;
        Delivery { batch: self.shared.clone(), batch_id: self.id, index, timestamp, wait: None }
    }

    /// The bytes to send, under the present stamp. Encoded once; a changed stamp is patched in.
    pub(super) fn encode(&mut self) -> Result<Slice, BuildError> {
        let bytes = match &mut self.content {
            Content::Gathering(builder) => {
                let mut builder = std::mem::replace(&mut **builder, BatchBuilder::new(Default::default()));
                builder.set_producer(self.stamp);
                Slice::from_vec(builder.finish()?)
            }
            Content::Encoded(bytes) => restamped(bytes, self.stamp),
        };
        self.content = Content::Encoded(bytes.clone());
        Ok(bytes)
    }

    /// What became of it, once it is resolved.
    pub(super) fn outcome(&self) -> Option<BatchOutcome> {
        let outcome = self.shared.outcome.borrow();
        let result = outcome.as_ref()?.clone().map(|acknowledged| acknowledged.base_offset);
        Some(BatchOutcome { batch: self.id, tries: self.tries, result })
    }

    /// Why it was not acknowledged, if it was not.
    pub(super) fn error(&self) -> Option<DeliveryError> {
        self.shared.outcome.borrow().as_ref()?.as_ref().err().cloned()
    }

    /// Takes in what came of its request after its producer was dropped: nobody tries again.
    pub(super) fn orphaned(mut self, verdict: Verdict) {
        let code = match verdict {
            Verdict::Acknowledged(acknowledged) => return self.resolve(Ok(acknowledged)),
            Verdict::Refused { code, .. } => code,
            Verdict::Failed(error) => {
                self.maybe_written |= error.may_have_happened();
                return;
            }
        };
        // A duplicate number says that an earlier try of this batch was written.
        let is_repeated = code == ErrorCode::DuplicateSequenceNumber && self.stamp.is_some();
        self.maybe_written |= is_repeated || crate::error::may_have_happened(code);
    }

    pub(super) fn resolve(&mut self, outcome: Outcome) {
        let before = self.shared.outcome.replace(Some(outcome));
        assert!(before.is_none(), "a batch is resolved once");
        self.shared.resolved.notify_all();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.shared.outcome.borrow().is_none() {
            self.resolve(Err(DeliveryError::Abandoned { may_have_been_written: self.maybe_written }));
        }
    }
}

/// The batch with another producer's stamp, which lies under the CRC.
fn restamped(bytes: &Slice, stamp: Option<ProducerStamp>) -> Slice {
    let mut header = BatchHeader::parse(bytes).expect("encoded by this producer");
    let current = header.has_producer().then_some(ProducerStamp {
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
    });
    let Some(stamp) = stamp.filter(|stamp| current != Some(*stamp)) else { return bytes.clone() };
    header.producer_id = stamp.producer_id;
    header.producer_epoch = stamp.producer_epoch;
    header.base_sequence = stamp.base_sequence;
    let mut copy = bytes.to_vec();
    copy[..HEADER_BYTES].copy_from_slice(&header.encode());
    header.crc = record::crc_of(&copy);
    copy[..HEADER_BYTES].copy_from_slice(&header.encode());
    Slice::from_vec(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ProducerEpoch, ProducerId};
    use record::BatchView;

    #[test]
    fn a_batch_is_encoded_once_and_a_new_stamp_is_patched_in() {
        let mut builder = BatchBuilder::new(Default::default());
        builder.add(WallTime(5), Some(b"k"), Some(b"v"), &[]).expect("small");
        let mut batch = Batch::new(1, PartitionIndex(0), Instant(0), builder);
        let stamp = |id, base_sequence| {
            Some(ProducerStamp { producer_id: ProducerId(id), producer_epoch: ProducerEpoch(0), base_sequence })
        };
        for stamp in [stamp(7, 3), stamp(7, 3), stamp(8, 0)] {
            batch.stamp = stamp;
            let bytes = batch.encode().expect("has a record");
            let view = BatchView::parse(&bytes).expect("a batch");
            let (header, expected) = (view.header(), stamp.expect("set above"));
            assert!(view.has_valid_crc());
            assert_eq!((header.producer_id, header.base_sequence), (expected.producer_id, expected.base_sequence));
        }
    }

    #[test]
    fn a_dropped_batch_is_abandoned() {
        let mut batch = Batch::new(1, PartitionIndex(0), Instant(0), BatchBuilder::new(Default::default()));
        let delivery = batch.added(WallTime(0), 0);
        assert_eq!(delivery.try_outcome(), None);
        drop(batch);
        let abandoned = DeliveryError::Abandoned { may_have_been_written: false };
        assert_eq!(delivery.try_outcome(), Some(Err(abandoned)));
    }
}
