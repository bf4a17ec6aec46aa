//! Reading a log of the broker's own from its beginning: what its records add up to is kept in memory.

use std::fmt;

use base::Offset;
use record::{Batches, Record};
use storage::{Log, ReadError, ReadLimits};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;
/// A batch of these logs is as large as its largest plan: bounded by what one request asks for.
const DECODED_BYTES_LIMIT: usize = 64 << 20;

/// Why a log can't be read.
#[derive(Debug)]
pub enum ReplayError {
    Read(ReadError),
    /// A record that can't be understood or does not fit, at or behind this offset.
    Record {
        offset: Offset,
        reason: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "{error}"),
            Self::Record { offset, reason } => write!(f, "the record at offset {offset} is not valid: {reason}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Hands out every record from the log's start to `upto`.
///
/// # Errors
/// The log can't be read, or `take` says why a record does not fit.
pub async fn records(
    log: &Log,
    upto: Offset,
    mut take: impl FnMut(&Record<'_>) -> Result<(), String>,
) -> Result<(), ReplayError> {
    let mut next = log.start_offset();
    while next < upto {
        let limits = ReadLimits { max_bytes: READ_BYTES, at_least_one_batch: true, upto };
        let read = log.read(next, limits).await.map_err(ReplayError::Read)?;
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        // A compacted log may end in a gap.
        if bytes.is_empty() {
            return Ok(());
        }
        for batch in Batches::new(&bytes) {
            let invalid = |reason: String| ReplayError::Record { offset: next, reason };
            let batch = batch.map_err(|error| invalid(error.to_string()))?;
            let decoded =
                record::decode_records(&batch, DECODED_BYTES_LIMIT).map_err(|error| invalid(error.to_string()))?;
            for entry in decoded.records() {
                let entry = entry.map_err(|error| invalid(error.to_string()))?;
                take(&entry).map_err(invalid)?;
            }
            next = batch.last_offset().plus(1);
        }
    }
    Ok(())
}
