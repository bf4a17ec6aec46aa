//! What the files of a log must be beside each other: batches one after another, index entries beside the batches that they name. Pure.
//!
//! Owner: whoever checks files at rest. The reader of a running store asks less: it believes an index only as far as the batch it points
//! at bears it out, and looks at no more batches than it returns.

use std::fmt;

use base::{LeaderEpoch, NO_EPOCH, Offset, WallTime};
use record::{BatchView, NO_TIMESTAMP, crc_of};

use crate::epochs::EpochTable;
use crate::segment::{IndexEntry, OffsetEntry, SegmentMeta, SegmentName, TimeEntry};

/// A sound batch, as far as indexes speak of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    pub position: u64,
    pub last_offset: Offset,
    pub max_timestamp: WallTime,
    /// The largest timestamp of the segment up to the end of this batch.
    pub max_timestamp_so_far: WallTime,
}

/// What is wrong with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchFault {
    Checksum { stored: u32, computed: u32 },
    Offset { found: Offset, expected: Offset },
    Count { records: i32, last_offset_delta: i32 },
    Compression { code: u8 },
    Epoch { found: LeaderEpoch, expected: LeaderEpoch },
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } => {
                write!(f, "the checksum of the batch is {stored:08x}, and its bytes have {computed:08x}")
            }
            Self::Offset { found, expected } => write!(f, "a batch of offset {found}, where {expected} should follow"),
            Self::Count { records, last_offset_delta } => {
                write!(f, "a batch of {records} records at {} offsets", i64::from(*last_offset_delta) + 1)
            }
            Self::Compression { code } => write!(f, "a batch with compression {code}, which does not exist"),
            Self::Epoch { found, expected } => {
                write!(f, "a batch of leader epoch {found}, where {expected} wrote")
            }
        }
    }
}

/// Goes through the batches of one segment.
#[derive(Clone, Debug)]
pub struct BatchAudit<'a> {
    epochs: &'a EpochTable,
    log_start: Offset,
    /// It was compacted: offsets may be missing, and batches be without records.
    compacted: bool,
    /// `None` after a batch whose end is in doubt.
    next: Option<Offset>,
    epoch: LeaderEpoch,
    max_timestamp: WallTime,
    max_timestamp_offset: Offset,
}

impl<'a> BatchAudit<'a> {
    /// `epochs` are what is known of the log from `log_start` on.
    #[must_use]
    pub fn new(segment: SegmentName, epochs: &'a EpochTable, log_start: Offset) -> Self {
        Self {
            epochs,
            log_start,
            compacted: segment.revision > 0,
            next: Some(segment.base),
            epoch: NO_EPOCH,
            max_timestamp: NO_TIMESTAMP,
            max_timestamp_offset: segment.base,
        }
    }

    /// The next batch, which stands at `position`. After a fault the one behind it is taken wherever it begins.
    ///
    /// # Errors
    /// What is wrong with it. Base offset and leader epoch lie outside the checksum, so they are compared with what is known.
    pub fn batch(&mut self, position: u64, batch: &BatchView<'_>) -> Result<Passed, BatchFault> {
        let expected = self.next.take();
        let header = batch.header();
        if !batch.has_valid_crc() {
            return Err(BatchFault::Checksum { stored: header.crc, computed: crc_of(batch.bytes()) });
        }
        let follows =
            |expected: Offset| header.base_offset == expected || self.compacted && header.base_offset > expected;
        if let Some(expected) = expected.filter(|&expected| !follows(expected)) {
            return Err(BatchFault::Offset { found: header.base_offset, expected });
        }
        let (records, last_offset_delta) = (header.record_count, header.last_offset_delta);
        let least = i32::from(!self.compacted);
        if last_offset_delta < 0 || records < least || i64::from(records) > i64::from(last_offset_delta) + 1 {
            return Err(BatchFault::Count { records, last_offset_delta });
        }
        if header.compression().is_none() {
            return Err(BatchFault::Compression { code: header.attributes.compression_code() });
        }
        // What is left of it is good to go on from.
        self.next = Some(header.next_offset());
        let known = self.epochs.epoch_at(header.base_offset).filter(|_| header.base_offset >= self.log_start);
        let expected = known.unwrap_or(header.leader_epoch.max(self.epoch));
        if header.leader_epoch != expected {
            return Err(BatchFault::Epoch { found: header.leader_epoch, expected });
        }
        self.epoch = header.leader_epoch;
        if header.max_timestamp > self.max_timestamp {
            (self.max_timestamp, self.max_timestamp_offset) = (header.max_timestamp, header.last_offset());
        }
        Ok(Passed {
            position,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
            max_timestamp_so_far: self.max_timestamp,
        })
    }

    /// All batches were sound, and the last one ends at `position`: whether that is what the segment is known to hold.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn end(&self, meta: &SegmentMeta, position: u64) -> Result<(), String> {
        if position != meta.bytes || self.next != Some(meta.end_offset) {
            let next = self.next.map_or_else(|| "nowhere known".to_owned(), |next| next.to_string());
            return Err(format!(
                "the batches end at offset {next} and byte {position}, where offset {} and byte {} should",
                meta.end_offset, meta.bytes
            ));
        }
        let (found, known) = (self.max_timestamp, meta.max_timestamp);
        if found != known {
            return Err(format!("the largest timestamp is {}, where {} is known", found.0, known.0));
        }
        Ok(())
    }

    #[must_use]
    pub fn max_timestamp(&self) -> WallTime {
        self.max_timestamp
    }
}

/// What is wrong with an index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryFault {
    /// It does not come after the one before it, or lies outside its segment.
    Order,
    /// No batch begins at the position.
    NoBatchAt { position: u32 },
    /// The batch of its offset begins elsewhere.
    Position { named: u32, found: u64 },
    /// A batch begins there and ends with another offset.
    LastOffset { named: Offset, found: Offset },
    /// No batch ends with the offset.
    NoBatchOf { last_offset: Offset },
    /// The batch, or the segment up to it, has another largest timestamp.
    Timestamp { named: WallTime, of_batch: WallTime, so_far: WallTime },
}

impl fmt::Display for EntryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order => f.write_str("it does not follow the entry before it, or lies outside the segment"),
            Self::NoBatchAt { position } => write!(f, "no batch begins at byte {position}"),
            Self::Position { named, found } => {
                write!(f, "it names byte {named}, and the batch of its offset begins at byte {found}")
            }
            Self::LastOffset { named, found } => {
                write!(f, "it names offset {named}, and the batch meant ends with {found}")
            }
            Self::NoBatchOf { last_offset } => write!(f, "no batch ends with offset {last_offset}"),
            Self::Timestamp { named, of_batch, so_far } => write!(
                f,
                "it names timestamp {}, the batch's largest is {}, and the segment's up to there {}",
                named.0, of_batch.0, so_far.0
            ),
        }
    }
}

/// An entry beside a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// It speaks of a later batch.
    Later,
    /// It names this one, rightly.
    Right,
    Wrong(EntryFault),
}

/// Entries that can be held to the batches of their segment, which come in order.
pub trait AuditedEntry: IndexEntry {
    fn beside(&self, batch: &Passed) -> Beside;

    /// The batches have ended, and this entry was never met.
    fn beyond(&self) -> EntryFault;
}

impl AuditedEntry for OffsetEntry {
    fn beside(&self, batch: &Passed) -> Beside {
        match u64::from(self.position).cmp(&batch.position) {
            std::cmp::Ordering::Greater if self.last_offset > batch.last_offset => Beside::Later,
            std::cmp::Ordering::Greater => {
                Beside::Wrong(EntryFault::Position { named: self.position, found: batch.position })
            }
            std::cmp::Ordering::Less => Beside::Wrong(self.beyond()),
            std::cmp::Ordering::Equal if self.last_offset == batch.last_offset => Beside::Right,
            std::cmp::Ordering::Equal => {
                Beside::Wrong(EntryFault::LastOffset { named: self.last_offset, found: batch.last_offset })
            }
        }
    }

    fn beyond(&self) -> EntryFault {
        EntryFault::NoBatchAt { position: self.position }
    }
}

impl AuditedEntry for TimeEntry {
    fn beside(&self, batch: &Passed) -> Beside {
        match self.last_offset.cmp(&batch.last_offset) {
            std::cmp::Ordering::Greater if self.timestamp > batch.max_timestamp_so_far => Beside::Later,
            // The first batch that has its timestamp has been.
            std::cmp::Ordering::Greater => {
                Beside::Wrong(EntryFault::LastOffset { named: self.last_offset, found: batch.last_offset })
            }
            std::cmp::Ordering::Less => Beside::Wrong(self.beyond()),
            std::cmp::Ordering::Equal
                if self.timestamp == batch.max_timestamp && self.timestamp == batch.max_timestamp_so_far =>
            {
                Beside::Right
            }
            std::cmp::Ordering::Equal => Beside::Wrong(EntryFault::Timestamp {
                named: self.timestamp,
                of_batch: batch.max_timestamp,
                so_far: batch.max_timestamp_so_far,
            }),
        }
    }

    fn beyond(&self) -> EntryFault {
        EntryFault::NoBatchOf { last_offset: self.last_offset }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
