//! The sparse indexes of a segment that is being written: offset to position, and timestamp to offset.
//!
//! Owner: the log, for its active segment. Pure: it says which bytes to write where, the checkpoint writes them.
//!
//! File formats, byte for byte Kafka's (all big-endian, offsets relative to the segment's base):
//! - `.index`: 4-byte offset of the *last* record of a batch, 4-byte position at which that batch begins;
//! - `.timeindex`: 8-byte timestamp, 4-byte offset of the last record of the first batch that has it; every record with a larger
//!   timestamp comes after that batch.
//!
//! Invariants: positions, offsets and timestamps rise from entry to entry; an entry follows once more than the interval has been
//! appended since the batch of the last one; what an index says is a hint, and its reader checks the batch header it points at.
//!
//! Bounds: in memory are the entries of the last block of each file, some 8 KiB together, and those not written yet.

use std::marker::PhantomData;
use std::ops::Range;

use base::{Offset, WallTime};
use record::{BatchHeader, NO_TIMESTAMP};

use super::{BLOCK_BYTES, FileKind, SegmentMeta};

/// A batch that the offset index knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetEntry {
    pub last_offset: Offset,
    pub position: u32,
}

/// A batch that the time index knows: the first with this maximum timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeEntry {
    pub timestamp: WallTime,
    pub last_offset: Offset,
}

/// How an entry stands in its file.
pub trait IndexEntry: Copy {
    const BYTES: usize;

    fn encode(&self, base: Offset, out: &mut Vec<u8>);

    /// # Panics
    /// When `bytes` are not [`IndexEntry::BYTES`] long.
    fn decode(base: Offset, bytes: &[u8]) -> Self;

    /// True when this entry can stand right after `previous` in a segment described by `meta`.
    fn follows(&self, previous: Option<&Self>, meta: &SegmentMeta) -> bool;
}

fn relative(base: Offset, offset: Offset) -> [u8; 4] {
    // The log rolls before an offset gets this far from its segment's base.
    i32::try_from(offset.0 - base.0).expect("an offset within 2^31 of the segment's base").to_be_bytes()
}

fn absolute(base: Offset, bytes: &[u8]) -> Offset {
    let relative = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Offset(base.0.saturating_add(i64::from(relative)))
}

impl IndexEntry for OffsetEntry {
    const BYTES: usize = 8;

    fn encode(&self, base: Offset, out: &mut Vec<u8>) {
        out.extend_from_slice(&relative(base, self.last_offset));
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(base: Offset, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        let position = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Self { last_offset: absolute(base, bytes), position }
    }

    fn follows(&self, previous: Option<&Self>, meta: &SegmentMeta) -> bool {
        previous.is_none_or(|last| last.last_offset < self.last_offset && last.position < self.position)
            && self.last_offset >= meta.base_offset
            && self.last_offset < meta.end_offset
            && u64::from(self.position) < meta.bytes
    }
}

impl IndexEntry for TimeEntry {
    const BYTES: usize = 12;

    fn encode(&self, base: Offset, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.0.to_be_bytes());
        out.extend_from_slice(&relative(base, self.last_offset));
    }

    fn decode(base: Offset, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        let mut timestamp = [0; 8];
        timestamp.copy_from_slice(&bytes[..8]);
        Self { timestamp: WallTime(i64::from_be_bytes(timestamp)), last_offset: absolute(base, &bytes[8..]) }
    }

    fn follows(&self, previous: Option<&Self>, meta: &SegmentMeta) -> bool {
        previous.is_none_or(|last| last.timestamp < self.timestamp && last.last_offset < self.last_offset)
            && self.timestamp > NO_TIMESTAMP
            && self.last_offset >= meta.base_offset
            && self.last_offset < meta.end_offset
    }
}

/// Where to go on looking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floor<E> {
    /// The last entry at or below what was asked for; `None`: the segment's first byte.
    Known(Option<E>),
    /// It is among the first `entries` of the file.
    InFile { entries: u32 },
}

/// Whole blocks to write to an index file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexWrite {
    pub kind: FileKind,
    /// A multiple of [`BLOCK_BYTES`].
    pub position: u64,
    /// A multiple of [`BLOCK_BYTES`] long, zeros after the last entry.
    pub bytes: Vec<u8>,
    /// For [`ActiveIndex::written`], once they are written.
    pub entries: u32,
}

/// What an index file says is not an index of its segment; it has to be built anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedIndex {
    pub kind: FileKind,
}

impl std::fmt::Display for DamagedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the .{} file does not fit its segment", self.kind.extension())
    }
}

impl std::error::Error for DamagedIndex {}

/// One file's entries: those before `dropped` are on disk only, the rest here, as they stand in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Column<E> {
    base: Offset,
    dropped: u32,
    bytes: Vec<u8>,
    written: u32,
    entry: PhantomData<E>,
}

impl<E: IndexEntry> Column<E> {
    fn new(base: Offset) -> Self {
        Self { base, dropped: 0, bytes: Vec::new(), written: 0, entry: PhantomData }
    }

    fn held(&self) -> usize {
        self.bytes.len() / E::BYTES
    }

    fn count(&self) -> u32 {
        self.dropped + self.held() as u32
    }

    fn get(&self, index: usize) -> E {
        E::decode(self.base, &self.bytes[index * E::BYTES..(index + 1) * E::BYTES])
    }

    fn last(&self) -> Option<E> {
        self.held().checked_sub(1).map(|index| self.get(index))
    }

    fn push(&mut self, entry: &E) {
        entry.encode(self.base, &mut self.bytes);
    }

    /// How many of the entries held are ahead of the first that is not `below`.
    fn partition_point(&self, below: impl Fn(&E) -> bool) -> usize {
        let (mut low, mut high) = (0, self.held());
        while low < high {
            let middle = low.midpoint(high);
            if below(&self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// First byte of the block in which entry number `count` begins or will.
    fn block_of(count: u32) -> usize {
        let byte = count as usize * E::BYTES;
        byte - byte % BLOCK_BYTES
    }

    fn pending(&self, kind: FileKind) -> Option<IndexWrite> {
        if self.written == self.count() {
            return None;
        }
        let block = Self::block_of(self.written);
        let mut bytes = self.bytes[block - self.dropped as usize * E::BYTES..].to_vec();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        Some(IndexWrite { kind, position: block as u64, bytes, entries: self.count() })
    }

    fn written(&mut self, entries: u32) {
        // A truncation may have taken back some of what was being written.
        self.written = self.written.max(entries.min(self.count()));
        let keep_from = Self::first_kept(self.written);
        if keep_from > self.dropped {
            self.bytes.drain(..(keep_from - self.dropped) as usize * E::BYTES);
            self.bytes.shrink_to_fit();
            self.dropped = keep_from;
        }
        // It grew by doubling meanwhile, whether or not a block is full by now.
        self.bytes.shrink_to(BLOCK_BYTES);
    }

    fn floor(&self, at_or_below: impl Fn(&E) -> bool) -> Floor<E> {
        match self.partition_point(at_or_below).checked_sub(1) {
            Some(index) => Floor::Known(Some(self.get(index))),
            None if self.dropped > 0 => Floor::InFile { entries: self.dropped },
            None => Floor::Known(None),
        }
    }

    /// False when what is dropped may have to go too.
    fn truncate(&mut self, keep: impl Fn(&E) -> bool) -> bool {
        let kept = self.partition_point(keep);
        self.bytes.truncate(kept * E::BYTES);
        self.written = self.written.min(self.count());
        kept > 0 || self.dropped == 0
    }

    /// The first entry that stays in memory when `count` are written: the one whose bytes begin the block that is written next, and
    /// at least one, so that the last is known.
    fn first_kept(count: u32) -> u32 {
        ((Self::block_of(count) / E::BYTES) as u32).min(count.saturating_sub(1))
    }

    fn restore(count: u32, tail: &[u8], meta: &SegmentMeta) -> Option<Self> {
        let dropped = Self::first_kept(count);
        if tail.len() != (count - dropped) as usize * E::BYTES {
            return None;
        }
        let base = meta.base_offset;
        let column = Self { base, dropped, bytes: tail.to_vec(), written: count, entry: PhantomData };
        let mut previous = None;
        for index in 0..column.held() {
            let entry = column.get(index);
            if !entry.follows(previous.as_ref(), meta) {
                return None;
            }
            previous = Some(entry);
        }
        Some(column)
    }

    fn tail_range(count: u32) -> Range<u64> {
        u64::from(Self::first_kept(count)) * E::BYTES as u64..u64::from(count) * E::BYTES as u64
    }
}

/// Both indexes of one active segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActiveIndex {
    interval_bytes: u64,
    offsets: Column<OffsetEntry>,
    times: Column<TimeEntry>,
    last_time: WallTime,
    /// Appended since the batch of the last offset entry began.
    since_last_bytes: u64,
}

impl ActiveIndex {
    /// The indexes of an empty segment.
    #[must_use]
    pub fn new(base: Offset, interval_bytes: u64) -> Self {
        Self {
            interval_bytes,
            offsets: Column::new(base),
            times: Column::new(base),
            last_time: NO_TIMESTAMP,
            since_last_bytes: 0,
        }
    }

    /// The bytes of an index file that [`ActiveIndex::restore`] needs when it holds `entries`.
    #[must_use]
    pub fn tail_range(kind: FileKind, entries: u32) -> Range<u64> {
        match kind {
            FileKind::TimeIndex => Column::<TimeEntry>::tail_range(entries),
            FileKind::Index | FileKind::Log => Column::<OffsetEntry>::tail_range(entries),
        }
    }

    /// Goes on with a segment's index files, from their tails; `meta` describes the segment as of when they were written.
    ///
    /// # Errors
    /// The tails are no entries of that segment.
    pub fn restore(
        meta: &SegmentMeta,
        interval_bytes: u64,
        index_tail: &[u8],
        time_index_tail: &[u8],
    ) -> Result<Self, DamagedIndex> {
        let offsets =
            Column::restore(meta.index_entries, index_tail, meta).ok_or(DamagedIndex { kind: FileKind::Index })?;
        let times = Column::restore(meta.time_index_entries, time_index_tail, meta)
            .ok_or(DamagedIndex { kind: FileKind::TimeIndex })?;
        let mut index = Self { offsets, times, ..Self::new(meta.base_offset, interval_bytes) };
        index.recount(meta);
        Ok(index)
    }

    /// Takes in a batch that now stands at `position`; `meta` has taken it in already.
    pub fn note(&mut self, position: u64, header: &BatchHeader, meta: &SegmentMeta) {
        if self.since_last_bytes > self.interval_bytes {
            let position = u32::try_from(position).expect("a segment is smaller than 2 GiB");
            self.offsets.push(&OffsetEntry { last_offset: header.last_offset(), position });
            self.note_time(meta);
            self.since_last_bytes = 0;
        }
        self.since_last_bytes += header.size_bytes() as u64;
    }

    /// The segment takes no more batches: the time index ends with its largest timestamp, as Kafka's does.
    pub fn seal(&mut self, meta: &SegmentMeta) {
        self.note_time(meta);
    }

    fn note_time(&mut self, meta: &SegmentMeta) {
        if meta.max_timestamp > self.last_time {
            self.last_time = meta.max_timestamp;
            self.times.push(&TimeEntry { timestamp: meta.max_timestamp, last_offset: meta.max_timestamp_offset });
        }
    }

    /// Where to start looking for `offset`.
    #[must_use]
    pub fn floor(&self, offset: Offset) -> Floor<OffsetEntry> {
        self.offsets.floor(|entry| entry.last_offset <= offset)
    }

    /// The last entry with a timestamp below `at`: no record before that batch's end is at `at` or later.
    #[must_use]
    pub fn time_floor(&self, at: WallTime) -> Floor<TimeEntry> {
        self.times.floor(|entry| entry.timestamp < at)
    }

    /// Entries of a file, written or not.
    #[must_use]
    pub fn entries(&self, kind: FileKind) -> u32 {
        match kind {
            FileKind::Log => 0,
            FileKind::Index => self.offsets.count(),
            FileKind::TimeIndex => self.times.count(),
        }
    }

    /// What a checkpoint has to write.
    #[must_use]
    pub fn pending(&self) -> Vec<IndexWrite> {
        let offsets = self.offsets.pending(FileKind::Index);
        let times = self.times.pending(FileKind::TimeIndex);
        offsets.into_iter().chain(times).collect()
    }

    /// An [`IndexWrite`] is in its file.
    pub fn written(&mut self, kind: FileKind, entries: u32) {
        match kind {
            FileKind::Log => {}
            FileKind::Index => self.offsets.written(entries),
            FileKind::TimeIndex => self.times.written(entries),
        }
    }

    /// The segment ends at `meta.end_offset` and `meta.bytes` now. False when entries that are on disk only have to go too: then the
    /// caller restores from the files, cut to what is below, or rebuilds.
    #[must_use]
    pub fn truncate(&mut self, meta: &SegmentMeta) -> bool {
        let exact = self.offsets.truncate(|entry| u64::from(entry.position) < meta.bytes)
            & self.times.truncate(|entry| entry.last_offset < meta.end_offset);
        self.recount(meta);
        exact
    }

    fn recount(&mut self, meta: &SegmentMeta) {
        self.last_time = self.times.last().map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        let last_position = self.offsets.last().map_or(0, |entry| u64::from(entry.position));
        self.since_last_bytes = meta.bytes.saturating_sub(last_position);
    }

    /// Memory held by entries.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.offsets.bytes.capacity() + self.times.bytes.capacity()
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
