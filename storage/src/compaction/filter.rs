//! What becomes of a batch when its log is compacted. Pure.
//!
//! The rules are Kafka's (`LogCleaner`, KIP-534), but that a batch gets its delete horizon only once a cleaning has got to its end, and that batches
//! of transactions are not taken in: see docs/adr/0011-compaction.md.

use std::collections::BTreeSet;
use std::fmt;

use base::{Offset, WallTime};
use record::{BatchView, DecodeError, Record, decode_records, emptied, retain, select};

use super::KeyMap;

/// Why a log cannot be compacted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uncleanable {
    /// The records of a batch cannot be read.
    Records { offset: Offset, error: DecodeError },
    /// A transaction wrote it: whether it was aborted nobody knows here yet.
    Transaction { offset: Offset },
}

impl fmt::Display for Uncleanable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records { offset, error } => write!(f, "the batch at offset {offset} cannot be read: {error}"),
            Self::Transaction { offset } => {
                write!(f, "the batch at offset {offset} is part of a transaction, which is not compacted yet")
            }
        }
    }
}

impl std::error::Error for Uncleanable {}

fn check_kind(batch: &BatchView<'_>) -> Result<(), Uncleanable> {
    let header = batch.header();
    let is_data_of_transaction = header.is_transactional() && !header.is_control();
    if is_data_of_transaction { Err(Uncleanable::Transaction { offset: header.base_offset }) } else { Ok(()) }
}

/// Notes the keys of a batch, of its records at `from` and above. Where the map is full, gives the first offset that it does not know:
/// the beginning of the batch, unless the batch alone is too much for it.
///
/// # Errors
/// Whether keys of the batch have been noted is then open.
pub fn note_batch(
    keys: &mut KeyMap,
    batch: &BatchView<'_>,
    from: Offset,
    expanded_bytes_max: usize,
) -> Result<Option<Offset>, Uncleanable> {
    check_kind(batch)?;
    let header = batch.header();
    if header.is_control() || header.record_count == 0 || header.last_offset() < from {
        return Ok(None);
    }
    let begins_with_none = keys.keys() == 0;
    let failed = |error| Uncleanable::Records { offset: header.base_offset, error };
    let decoded = decode_records(batch, expanded_bytes_max).map_err(failed)?;
    for record in decoded.records() {
        let record = record.map_err(|error| failed(error.into()))?;
        let Some(key) = record.key.filter(|_| record.offset >= from) else { continue };
        if !keys.put(key, record.offset) {
            let alone_too_much = begins_with_none || header.base_offset < from;
            return Ok(Some(if alone_too_much { record.offset } else { header.base_offset }));
        }
    }
    Ok(None)
}

/// What becomes of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It stays as it is.
    Stays,
    /// This takes its place.
    Becomes(Vec<u8>),
    Goes,
}

/// By what one pass decides.
#[derive(Clone, Debug)]
pub struct Cleaning {
    /// Of the dirty records below `upto`.
    pub keys: KeyMap,
    /// Nothing at or above is looked at.
    pub upto: Offset,
    pub now: WallTime,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// Last offsets of the last batches of remembered producers: those batches stay, with records or without.
    pub producer_ends: BTreeSet<Offset>,
    pub expanded_bytes_max: usize,
}

impl Cleaning {
    /// Decides on a batch. `ends_segment`: it is the last one of the segment that is being written, and says where that ends.
    ///
    /// # Errors
    /// See [`Uncleanable`].
    pub fn fate(&self, batch: &BatchView<'_>, ends_segment: bool) -> Result<Fate, Uncleanable> {
        check_kind(batch)?;
        let header = batch.header();
        if header.base_offset >= self.upto || header.is_control() {
            return Ok(Fate::Stays);
        }
        let must_stay = ends_segment || self.producer_ends.contains(&header.last_offset());
        if header.record_count == 0 {
            return Ok(if must_stay { Fate::Stays } else { Fate::Goes });
        }
        let failed = |error| Uncleanable::Records { offset: header.base_offset, error };
        let decoded = decode_records(batch, self.expanded_bytes_max).map_err(failed)?;
        let horizon = header.delete_horizon();
        let mut has_tombstones = false;
        let selection = select(&decoded, |record| {
            let stays = self.stays(record, horizon);
            has_tombstones |= stays && record.value.is_none();
            stays
        });
        let selection = selection.map_err(failed)?;
        // One for all of its tombstones: it waits until the last of them has been seen.
        let new_horizon = (has_tombstones && horizon.is_none() && header.last_offset() < self.upto)
            .then(|| WallTime(self.now.0.saturating_add(self.delete_retention_ms.max(0))));
        match selection.kept() {
            0 if must_stay => Ok(Fate::Becomes(emptied(header))),
            0 => Ok(Fate::Goes),
            _ if selection.keeps_all() && new_horizon.is_none() => Ok(Fate::Stays),
            _ => retain(&decoded, &selection, new_horizon).map(Fate::Becomes).map_err(failed),
        }
    }

    fn stays(&self, record: &Record<'_>, horizon: Option<WallTime>) -> bool {
        if record.offset >= self.upto {
            return true;
        }
        // As in Kafka one without a key goes: what the topic took before it was compacted has nothing that it could be found by.
        let Some(key) = record.key else { return false };
        let is_last = self.keys.last(key).is_none_or(|last| last <= record.offset);
        let is_spent = record.value.is_none() && horizon.is_some_and(|horizon| horizon <= self.now);
        is_last && !is_spent
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
