//! The segment that takes appends: its description and its indexes, kept in step.
//!
//! Owner: the log, on its shard. Pure.

use base::{Offset, WallTime};
use record::{BatchHeader, NO_TIMESTAMP};

use super::index::Floor;
use super::{ActiveIndex, SegmentMeta};

/// What the files of a segment hold and will hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActiveSegment {
    pub meta: SegmentMeta,
    pub index: ActiveIndex,
}

impl ActiveSegment {
    /// An empty one. `created` counts until its first batch comes.
    #[must_use]
    pub fn new(base_offset: Offset, created: WallTime, index_interval_bytes: u64) -> Self {
        Self {
            meta: SegmentMeta::new(base_offset, created),
            index: ActiveIndex::new(base_offset, index_interval_bytes),
        }
    }

    /// Takes in a batch that now stands at the segment's end; `header` as it stands there.
    pub fn note(&mut self, header: &BatchHeader, now: WallTime) {
        let position = self.meta.bytes;
        if self.meta.is_empty() {
            // An empty segment does not age: rolled while idle, it may wait for days.
            self.meta.created = now;
        }
        self.meta.note(header, now);
        self.index.note(position, header, &self.meta);
    }

    /// The segment takes no more batches. Its last index entries are still to be written, then its files cut to their exact lengths.
    pub fn seal(&mut self) {
        self.index.seal(&self.meta);
        self.meta.sealed = true;
    }

    /// Cuts the segment to `bytes`, a batch boundary with `end_offset` next. Returns the position from which the caller feeds what is
    /// left to [`ActiveSegment::refold`], batch by batch, so that the largest timestamp is exact again; `None` when the entries
    /// needed are on disk only: then the segment is loaded from its files.
    #[must_use]
    pub fn truncate(&mut self, end_offset: Offset, bytes: u64) -> Option<u64> {
        self.meta.end_offset = end_offset;
        self.meta.bytes = bytes;
        self.meta.sealed = false;
        if !self.index.truncate(&self.meta) {
            return None;
        }
        // At each entry of the offset index the time index holds the largest timestamp so far.
        (self.meta.max_timestamp, self.meta.max_timestamp_offset) = match self.index.time_floor(WallTime(i64::MAX)) {
            Floor::Known(Some(entry)) => (entry.timestamp, entry.last_offset),
            Floor::Known(None) => (NO_TIMESTAMP, self.meta.base_offset),
            Floor::InFile { .. } => return None,
        };
        match self.index.floor(Offset(i64::MAX)) {
            Floor::Known(entry) => Some(entry.map_or(0, |entry| u64::from(entry.position))),
            Floor::InFile { .. } => None,
        }
    }

    /// Takes in the largest timestamp of a batch that stayed in the segment.
    pub fn refold(&mut self, header: &BatchHeader) {
        if header.max_timestamp > self.meta.max_timestamp {
            self.meta.max_timestamp = header.max_timestamp;
            self.meta.max_timestamp_offset = header.last_offset();
        }
    }
}
