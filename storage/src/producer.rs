//! What a log remembers of its idempotent producers (KIP-98): enough to answer a repeated batch with the offset it already has,
//! and to refuse one that leaves a gap or comes from a fenced epoch.
//!
//! Owner: the log, on its shard; pure. Its life: [`ProducerTable::check`] before a batch gets its offset, [`ProducerTable::note`]
//! once it is in the tail; a snapshot goes into the manifest at each checkpoint and journal replay notes what came after it.
//!
//! Rules, as Kafka 4's leader applies them to what clients send:
//! - a batch whose epoch and whole sequence range equal one of the last five of its producer is a duplicate;
//! - an epoch below the producer's is fenced; a higher one must start at sequence 0;
//! - otherwise the first sequence must follow the last one, 0 after 2^31 − 1;
//! - a producer with no state (never seen, expired, evicted) may start anywhere.
//!
//! Bounds: [`ProducerLimits::producers_max`] producers of at most [`BATCHES_RETAINED`] batches each. Above it the longest idle are
//! forgotten, as if they had expired early.

use std::collections::BTreeMap;
use std::fmt;

use base::{Offset, ProducerEpoch, ProducerId, WallTime};
use record::BatchHeader;

/// Batches remembered for each producer: clients keep at most this many in flight.
pub const BATCHES_RETAINED: usize = 5;

/// How long and how many producers are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerLimits {
    /// `producer.id.expiration.ms`, counted from the broker's clock at the producer's last append.
    pub expiration_ms: i64,
    pub producers_max: usize,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        Self { expiration_ms: 86_400_000, producers_max: 10_000 }
    }
}

/// The producer fields of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerBatch {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    /// Negative for a batch that carries none (control batches).
    pub first_sequence: i32,
    pub last_sequence: i32,
}

impl ProducerBatch {
    /// The producer fields of a batch; `None` when its producer is not idempotent.
    #[must_use]
    pub fn of(header: &BatchHeader) -> Option<Self> {
        header.has_producer().then(|| Self {
            id: header.producer_id,
            epoch: header.producer_epoch,
            first_sequence: if header.is_control() { -1 } else { header.base_sequence },
            last_sequence: header.last_sequence(),
        })
    }
}

/// Where a batch stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// The batch's maximum timestamp; its append time when the topic says so.
    pub timestamp: WallTime,
}

/// What to do with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Append,
    /// It is in the log already, or on its way there: answer as the first time, once that is durable.
    Duplicate(Placed),
}

/// Why a batch is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProducerError {
    /// `INVALID_PRODUCER_EPOCH`: a newer incarnation of the producer has written.
    Fenced { id: ProducerId, epoch: ProducerEpoch, current: ProducerEpoch },
    /// `OUT_OF_ORDER_SEQUENCE_NUMBER`: records are missing before it, or it repeats what is no longer remembered.
    OutOfOrder { id: ProducerId, first_sequence: i32, expected: i32 },
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { id, epoch, current } => {
                write!(f, "producer {id} has epoch {epoch}, and {current} has written since")
            }
            Self::OutOfOrder { id, first_sequence, expected } => {
                write!(f, "producer {id} sent sequence {first_sequence} where {expected} follows")
            }
        }
    }
}

impl std::error::Error for ProducerError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Retained {
    last_sequence: i32,
    /// Records less one: offsets and sequences of a producer's batch run side by side.
    delta: i32,
    last_offset: Offset,
    timestamp: WallTime,
}

impl Retained {
    fn first_sequence(&self) -> i32 {
        self.last_sequence.wrapping_sub(self.delta) & i32::MAX
    }

    fn placed(&self) -> Placed {
        Placed {
            base_offset: Offset(self.last_offset.0.wrapping_sub(i64::from(self.delta))),
            last_offset: self.last_offset,
            timestamp: self.timestamp,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Producer {
    epoch: ProducerEpoch,
    last_seen: WallTime,
    /// At most [`BATCHES_RETAINED`], oldest first; none after an epoch came without one. Most producers of a topic that has many send
    /// few batches, so room for five is not taken ahead.
    batches: Vec<Retained>,
}

impl Producer {
    fn expected(&self) -> i32 {
        self.batches.last().map_or(0, |last| last.last_sequence.wrapping_add(1) & i32::MAX)
    }

    fn adopt(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn push(&mut self, batch: Retained) {
        if self.batches.len() == BATCHES_RETAINED {
            self.batches.remove(0);
        }
        if self.batches.len() == self.batches.capacity() {
            self.batches.reserve_exact(1);
        }
        self.batches.push(batch);
    }
}

/// A producer as an operator sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveProducer {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    /// −1: none in this epoch yet.
    pub last_sequence: i32,
    /// The largest timestamp of its last batch; −1: none in this epoch yet.
    pub last_timestamp: WallTime,
}

/// The producers of one log. Empty, it holds no memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProducerTable {
    // A tree, not a hash map: its order is part of snapshots and evictions, which must not differ from run to run.
    producers: BTreeMap<ProducerId, Producer>,
}

impl ProducerTable {
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Every producer that is remembered, by id.
    pub fn active(&self) -> impl Iterator<Item = ActiveProducer> {
        self.producers.iter().map(|(&id, producer)| ActiveProducer {
            id,
            epoch: producer.epoch,
            last_sequence: producer.batches.last().map_or(-1, |batch| batch.last_sequence),
            last_timestamp: producer.batches.last().map_or(WallTime(-1), |batch| batch.timestamp),
        })
    }

    /// The last offset of each producer's last batch: compaction leaves that batch, or its header.
    pub fn last_offsets(&self) -> impl Iterator<Item = Offset> {
        self.producers.values().filter_map(|producer| producer.batches.last().map(|batch| batch.last_offset))
    }

    /// Decides on a batch that a client sent. Changes nothing.
    pub fn check(&self, batch: &ProducerBatch) -> Result<Verdict, ProducerError> {
        let Some(producer) = self.producers.get(&batch.id) else {
            return Ok(Verdict::Append);
        };
        if batch.epoch < producer.epoch {
            return Err(ProducerError::Fenced { id: batch.id, epoch: batch.epoch, current: producer.epoch });
        }
        let same_epoch = batch.epoch == producer.epoch;
        if same_epoch {
            let repeats = |kept: &&Retained| {
                kept.last_sequence == batch.last_sequence && kept.first_sequence() == batch.first_sequence
            };
            if let Some(kept) = producer.batches.iter().find(repeats) {
                return Ok(Verdict::Duplicate(kept.placed()));
            }
        }
        let expected = if same_epoch { producer.expected() } else { 0 };
        if batch.first_sequence == expected {
            Ok(Verdict::Append)
        } else {
            Err(ProducerError::OutOfOrder { id: batch.id, first_sequence: batch.first_sequence, expected })
        }
    }

    /// Remembers a batch that is in the log: one that was just checked, one replayed, or one that a leader sent. Trusts the log:
    /// nothing is refused here.
    pub fn note(&mut self, batch: &ProducerBatch, placed: &Placed, now: WallTime, limits: &ProducerLimits) {
        if !self.producers.contains_key(&batch.id) && self.producers.len() >= limits.producers_max {
            self.evict_idlest(limits.producers_max);
        }
        let producer = self.producers.entry(batch.id).or_insert_with(|| Producer {
            epoch: batch.epoch,
            last_seen: now,
            batches: Vec::new(),
        });
        producer.adopt(batch.epoch);
        producer.last_seen = producer.last_seen.max(now);
        if batch.first_sequence >= 0 {
            producer.push(Retained {
                last_sequence: batch.last_sequence,
                delta: batch.last_sequence.wrapping_sub(batch.first_sequence) & i32::MAX,
                last_offset: placed.last_offset,
                timestamp: placed.timestamp,
            });
        }
    }

    /// Forgets who has not written for [`ProducerLimits::expiration_ms`]; returns how many. The caller holds it back while the
    /// wall clock is not to be trusted (see `retention`).
    pub fn expire(&mut self, now: WallTime, limits: &ProducerLimits) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, producer| now.0.saturating_sub(producer.last_seen.0) < limits.expiration_ms);
        before - self.producers.len()
    }

    /// The log now ends at `end`: batches at and above it never were. False when the table may now know less than the log: then
    /// the caller restores the last snapshot at or below `end` and notes the batches from there.
    #[must_use]
    pub fn truncate(&mut self, end: Offset) -> bool {
        let mut exact = true;
        self.producers.retain(|_, producer| {
            if producer.batches.is_empty() {
                // Where its epoch came from is not remembered; keeping it fences rather too much than too little.
                exact = false;
                return true;
            }
            let kept = producer.batches.partition_point(|batch| batch.last_offset < end);
            if kept < producer.batches.len() {
                // A full row has pushed older batches out; an emptied one may have pushed out an older epoch.
                exact &= producer.batches.len() < BATCHES_RETAINED && kept > 0;
                producer.batches.truncate(kept);
            }
            kept > 0
        });
        exact
    }

    /// Makes room for one more and for some time to come: a sixteenth goes at once, so that the scan is rare.
    fn evict_idlest(&mut self, producers_max: usize) {
        let target = producers_max - (producers_max / 16).max(1).min(producers_max);
        let surplus = self.producers.len().saturating_sub(target).min(self.producers.len());
        let mut by_age: Vec<_> = self.producers.iter().map(|(&id, producer)| (producer.last_seen, id)).collect();
        if surplus > 0 && surplus < by_age.len() {
            by_age.select_nth_unstable(surplus - 1);
        }
        for (_, id) in &by_age[..surplus] {
            self.producers.remove(id);
        }
    }

    /// Every producer as bytes: for the manifest.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(5 + self.producers.len() * (HEAD_BYTES + BATCHES_RETAINED * BATCH_BYTES));
        out.push(SNAPSHOT_VERSION);
        out.extend_from_slice(&(self.producers.len() as u32).to_be_bytes());
        for (id, producer) in &self.producers {
            out.extend_from_slice(&id.0.to_be_bytes());
            out.extend_from_slice(&producer.epoch.0.to_be_bytes());
            out.extend_from_slice(&producer.last_seen.0.to_be_bytes());
            out.push(producer.batches.len() as u8);
            for batch in &producer.batches {
                out.extend_from_slice(&batch.last_sequence.to_be_bytes());
                out.extend_from_slice(&batch.delta.to_be_bytes());
                out.extend_from_slice(&batch.last_offset.0.to_be_bytes());
                out.extend_from_slice(&batch.timestamp.0.to_be_bytes());
            }
        }
        out
    }

    /// Reads what [`ProducerTable::encode`] wrote. The bytes are whole or damaged: anything left over is an error too.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut input = bytes;
        let version = u8::from_be_bytes(take(&mut input)?);
        if version != SNAPSHOT_VERSION {
            return Err(SnapshotError::Version { version });
        }
        let count = u32::from_be_bytes(take(&mut input)?);
        let mut producers = BTreeMap::new();
        for _ in 0..count {
            let id = ProducerId(i64::from_be_bytes(take(&mut input)?));
            let epoch = ProducerEpoch(i16::from_be_bytes(take(&mut input)?));
            let last_seen = WallTime(i64::from_be_bytes(take(&mut input)?));
            let retained = u8::from_be_bytes(take(&mut input)?);
            if usize::from(retained) > BATCHES_RETAINED {
                return Err(SnapshotError::Malformed);
            }
            let mut batches = Vec::with_capacity(usize::from(retained));
            for _ in 0..retained {
                let batch = Retained {
                    last_sequence: i32::from_be_bytes(take(&mut input)?),
                    delta: i32::from_be_bytes(take(&mut input)?),
                    last_offset: Offset(i64::from_be_bytes(take(&mut input)?)),
                    timestamp: WallTime(i64::from_be_bytes(take(&mut input)?)),
                };
                if batch.last_sequence < 0 || batch.delta < 0 {
                    return Err(SnapshotError::Malformed);
                }
                batches.push(batch);
            }
            if producers.insert(id, Producer { epoch, last_seen, batches }).is_some() {
                return Err(SnapshotError::Malformed);
            }
        }
        if input.is_empty() { Ok(Self { producers }) } else { Err(SnapshotError::Malformed) }
    }
}

const SNAPSHOT_VERSION: u8 = 1;
const HEAD_BYTES: usize = 19;
const BATCH_BYTES: usize = 24;

/// Bytes that are no producer snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// Written by a newer release.
    Version {
        version: u8,
    },
    Malformed,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version } => {
                write!(f, "producer snapshot of version {version}; this release reads {SNAPSHOT_VERSION}")
            }
            Self::Malformed => f.write_str("the producer snapshot is damaged"),
        }
    }
}

impl std::error::Error for SnapshotError {}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], SnapshotError> {
    let (head, rest) = input.split_first_chunk().ok_or(SnapshotError::Malformed)?;
    *input = rest;
    Ok(*head)
}

#[cfg(test)]
#[path = "producer_tests.rs"]
mod tests;
