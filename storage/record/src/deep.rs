//! Questions that need the records themselves: time look-ups, and the checks that a topic's settings ask for.
//!
//! Off the hot path: they decompress. Work on more than 64 KiB belongs on a helper thread.

use std::fmt;

use base::{Offset, WallTime};

use crate::attributes::{Compression, TimestampType};
use crate::batch::BatchView;
use crate::compression::DecompressError;
use crate::header::NO_TIMESTAMP;
use crate::records::{DecodeError, Decoded, decode_records};

/// A record's place and its timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampOffset {
    pub timestamp: WallTime,
    pub offset: Offset,
}

/// The first record of `batch` at or after `at`, of those at offset `from` or later: what ListOffsets by time asks for.
///
/// # Errors
/// The records don't decompress within `bytes_limit`, or don't decode.
pub fn find_timestamp(
    batch: &BatchView<'_>,
    at: WallTime,
    from: Offset,
    bytes_limit: usize,
) -> Result<Option<TimestampOffset>, DecodeError> {
    if batch.header().max_timestamp < at {
        return Ok(None);
    }
    for record in decode_records(batch, bytes_limit)?.records() {
        let record = record?;
        if record.timestamp >= at && record.offset >= from {
            return Ok(Some(TimestampOffset { timestamp: record.timestamp, offset: record.offset }));
        }
    }
    Ok(None)
}

/// The first record of `batch` that bears the batch's maximum timestamp (KIP-734); `None` when none does, which only a
/// lying producer or compaction brings about. A batch with append time answers without being decompressed.
///
/// # Errors
/// As [`find_timestamp`].
pub fn find_max_timestamp(batch: &BatchView<'_>, bytes_limit: usize) -> Result<Option<TimestampOffset>, DecodeError> {
    let header = batch.header();
    let timestamp = header.max_timestamp;
    if header.timestamp_type() == TimestampType::LogAppendTime && header.record_count > 0 {
        // Every record bears it; compaction keeps the base offset even when its record is gone, and a reader that starts
        // there meets the first record that is left.
        return Ok(Some(TimestampOffset { timestamp, offset: header.base_offset }));
    }
    for record in decode_records(batch, bytes_limit)?.records() {
        let record = record?;
        if record.timestamp == timestamp {
            return Ok(Some(TimestampOffset { timestamp, offset: record.offset }));
        }
    }
    Ok(None)
}

/// How far a record's timestamp may lie from the broker's clock: `message.timestamp.before.max.ms` and `after.max.ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampBounds {
    pub now: WallTime,
    pub before_ms_max: i64,
    pub after_ms_max: i64,
}

impl TimestampBounds {
    /// True when `timestamp` lies within the bounds or is "none".
    #[must_use]
    pub fn hold(&self, timestamp: WallTime) -> bool {
        let age_ms = i128::from(self.now.0) - i128::from(timestamp.0);
        timestamp == NO_TIMESTAMP
            || (age_ms <= i128::from(self.before_ms_max) && -age_ms <= i128::from(self.after_ms_max))
    }
}

/// What a topic's settings demand of each record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordRules {
    /// Only for topics with create time.
    pub timestamps: Option<TimestampBounds>,
    /// Compacted topics need keys.
    pub key_required: bool,
}

impl RecordRules {
    fn broken_by(&self, has_place: bool, has_key: bool, timestamp: WallTime) -> Option<RefusalReason> {
        if !has_place {
            return Some(RefusalReason::OffsetDelta);
        }
        if self.key_required && !has_key {
            return Some(RefusalReason::NoKey);
        }
        let bounds = self.timestamps.filter(|bounds| !bounds.hold(timestamp))?;
        Some(RefusalReason::Timestamp { timestamp, bounds })
    }
}

/// Why one record was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// `INVALID_TIMESTAMP`.
    Timestamp { timestamp: WallTime, bounds: TimestampBounds },
    /// `INVALID_RECORD`.
    NoKey,
    /// The record does not say the offset that its place gives it. `INVALID_RECORD`. (Kafka renumbers compressed batches
    /// of such records and takes uncompressed ones as they are.)
    OffsetDelta,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timestamp { timestamp, bounds } => {
                let (first, last) = (
                    bounds.now.0.saturating_sub(bounds.before_ms_max),
                    bounds.now.0.saturating_add(bounds.after_ms_max),
                );
                write!(f, "the timestamp {timestamp} is not within [{first}, {last}]")
            }
            Self::NoKey => f.write_str("a compacted topic takes no record without a key"),
            Self::OffsetDelta => f.write_str("the records of a batch must be numbered from 0 without gaps"),
        }
    }
}

/// So many records of a batch are named at most: an answer is not to be much larger than what it answers.
pub const REFUSED_RECORDS_MAX: usize = 1000;

/// Why the records of a batch were refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusedRecords {
    /// They can't be read. `INVALID_RECORD`.
    Unreadable(DecodeError),
    /// These records, by their index from 0, break a rule: the first [`REFUSED_RECORDS_MAX`] that do. (Kafka lists all of them.)
    Records(Vec<(u32, RefusalReason)>),
    /// All records hold, and the header names a largest timestamp that is out of bounds. `INVALID_TIMESTAMP`.
    MaxTimestamp { timestamp: WallTime },
    /// Compressed as the topic asks, the batch is larger than it may be. `MESSAGE_TOO_LARGE`.
    TooLarge { codec: Compression, bytes_max: usize },
}

impl RefusedRecords {
    /// True when the records expand to more than the caller allows: with a larger limit they may be sound.
    #[must_use]
    pub fn is_beyond_limit(&self) -> bool {
        matches!(self, Self::Unreadable(DecodeError::Decompress(DecompressError::TooLarge { .. })))
    }
}

impl fmt::Display for RefusedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Records(refused) => match refused.as_slice() {
                [] => f.write_str("no record is at fault"),
                [(index, reason)] => write!(f, "record {index}: {reason}"),
                [(index, reason), others @ ..] => write!(f, "record {index}: {reason}; {} more", others.len()),
            },
            Self::MaxTimestamp { timestamp } => {
                write!(f, "the batch's largest timestamp {timestamp} is out of bounds")
            }
            Self::TooLarge { codec: Compression::None, bytes_max } => {
                write!(f, "the batch is stored uncompressed and is larger than {bytes_max} bytes then")
            }
            Self::TooLarge { codec, bytes_max } => {
                write!(f, "the batch is stored with {codec} and is larger than {bytes_max} bytes then")
            }
        }
    }
}

impl std::error::Error for RefusedRecords {}

impl From<DecodeError> for RefusedRecords {
    fn from(error: DecodeError) -> Self {
        Self::Unreadable(error)
    }
}

/// Reads every record of a produced batch and holds it to `rules`, and then the header's largest timestamp.
///
/// # Errors
/// The records don't decompress within `bytes_limit`, don't decode, or one breaks a rule.
pub fn check_records(batch: &BatchView<'_>, rules: &RecordRules, bytes_limit: usize) -> Result<(), RefusedRecords> {
    check_decoded(&decode_records(batch, bytes_limit)?, rules)?;
    let timestamp = batch.header().max_timestamp;
    match rules.timestamps {
        Some(bounds) if !bounds.hold(timestamp) => Err(RefusedRecords::MaxTimestamp { timestamp }),
        _ => Ok(()),
    }
}

/// The same of records that are decompressed already; gives their largest timestamp.
pub(crate) fn check_decoded(decoded: &Decoded<'_>, rules: &RecordRules) -> Result<WallTime, RefusedRecords> {
    let base_offset = decoded.header().base_offset;
    let mut max_timestamp = NO_TIMESTAMP;
    let mut refused = Vec::new();
    for (index, record) in (0u32..).zip(decoded.records()) {
        let record = record.map_err(DecodeError::from)?;
        let has_place = record.offset.0 == base_offset.0.wrapping_add(i64::from(index));
        if let Some(reason) = rules.broken_by(has_place, record.key.is_some(), record.timestamp) {
            refused.push((index, reason));
            if refused.len() == REFUSED_RECORDS_MAX {
                break;
            }
        }
        max_timestamp = max_timestamp.max(record.timestamp);
    }
    if refused.is_empty() { Ok(max_timestamp) } else { Err(RefusedRecords::Records(refused)) }
}
