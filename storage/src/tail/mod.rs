//! The end of a log in memory: what is appended and not yet in its segment, and, while there is room, what is.
//!
//! Owner: the log, on its shard. Life cycle: an append copies a batch in once; commits, destage and readers take slices of it; once
//! destaged, chunks stay as a cache until the shard's [`TailCache`] needs the room, oldest destaged first, whichever log they are of.
//!
//! Layout: chunks of [`AppendBuf`] from 4 KiB to 256 KiB, each holding bytes of one segment from a position that is a multiple of
//! [`BLOCK_BYTES`], so destage writes whole blocks straight from here. A byte's *address* counts on over segments; it means nothing
//! outside this module but its order.
//!
//! Invariants:
//! - addresses of the chunks are contiguous; only the last chunk grows;
//! - where the segment does not end on a block boundary, the whole last block is in memory, for it is written again when it fills;
//! - the first batch that begins in each block of a chunk has a mark, so dropping chunks from the front leaves a batch findable;
//! - bytes handed out never change: truncation copies what it keeps of a block into a new chunk.
//!
//! Bounds: chunks together stay under [`TailCache`]'s limit as far as destage keeps up; an idle log holds one block.

mod cache;
mod chunks;

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use base::Offset;
use shard::{AppendBuf, Slice};

use crate::read::{Read, ReadLimits};
use crate::segment::BLOCK_BYTES;

pub use cache::TailCache;
use chunks::Inner;

const CHUNK_BYTES_MIN: usize = BLOCK_BYTES;
const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// The place of a byte in its log's tail; larger is later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub u64);

/// A place in a segment file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentPosition {
    /// The segment's base offset.
    pub segment: Offset,
    pub position: u64,
}

/// What [`Tail::append`] did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TailAppend {
    pub addresses: Range<Address>,
    /// Where the first byte goes in its segment.
    pub place: SegmentPosition,
}

/// Bytes to write to a segment next.
#[derive(Clone, Debug)]
pub struct DestagePiece {
    /// Of the first byte; the position is a multiple of [`BLOCK_BYTES`].
    pub place: SegmentPosition,
    /// Whole blocks, each slice a multiple of [`BLOCK_BYTES`] long.
    pub blocks: Vec<Slice>,
    /// The block they end in, as far as it is filled: to be written as a whole block, the rest zeros.
    pub partial: Option<Slice>,
    /// For [`Tail::mark_destaged`] once it is written.
    pub done: DestageDone,
}

/// How far a [`DestagePiece`] reaches, in the history of the log that it is of: after a truncation it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestageDone {
    end: Address,
    cuts: u32,
}

impl DestageDone {
    #[must_use]
    pub fn end(&self) -> Address {
        self.end
    }
}

/// The arena has no block to spare: the append must wait for destage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shard's memory for log tails is used up")
    }
}

impl std::error::Error for NoMemory {}

/// The tail of one log.
pub struct Tail {
    inner: Rc<RefCell<Inner>>,
    cache: TailCache,
}

impl Tail {
    /// The tail of a log that ends at `end_offset`, which is `place` in its active segment; `prefix` is what the segment's last,
    /// unfilled block holds already.
    ///
    /// # Errors
    /// No memory for the block.
    ///
    /// # Panics
    /// When `prefix` is not that block's content by its length.
    pub fn new(cache: &TailCache, place: SegmentPosition, prefix: &[u8], end_offset: Offset) -> Result<Self, NoMemory> {
        let tail = Self { inner: Rc::new(RefCell::new(Inner::new())), cache: cache.clone() };
        cache.note_tails(1);
        tail.reset(place, prefix, end_offset)?;
        Ok(tail)
    }

    /// Forgets everything and goes on from `place`: after a truncation below what is in memory. Arguments as for [`Tail::new`].
    pub fn reset(&self, place: SegmentPosition, prefix: &[u8], end_offset: Offset) -> Result<(), NoMemory> {
        assert_eq!(prefix.len() as u64, place.position % BLOCK_BYTES as u64, "prefix of the block at {place:?}");
        let block = if prefix.is_empty() { None } else { Some(self.cache.alloc(CHUNK_BYTES_MIN)?) };
        let freed = self.inner.borrow_mut().reset(place, prefix, block, end_offset);
        self.cache.released(freed);
        Ok(())
    }

    /// Copies one whole batch in, given in parts that follow one another: usually the patched header and the rest.
    /// The batch's offsets follow those before it; a hole is allowed.
    ///
    /// # Errors
    /// No memory; nothing has changed.
    ///
    /// # Panics
    /// When the offsets go back.
    pub fn append(&self, parts: &[&[u8]], base_offset: Offset, last_offset: Offset) -> Result<TailAppend, NoMemory> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        {
            let inner = self.inner.borrow();
            assert!(base_offset >= inner.end_offset && last_offset >= base_offset, "append of {base_offset}");
        }
        let mut fresh: Vec<AppendBuf> = Vec::new();
        loop {
            // Each time anew: making room may have shrunk the last chunk of this very log.
            let (room, least) = {
                let inner = self.inner.borrow();
                (inner.room(), inner.chunk_bytes_next)
            };
            let missing = bytes.saturating_sub(room + fresh.iter().map(AppendBuf::capacity).sum::<usize>());
            if missing == 0 {
                break;
            }
            let least = least.min(self.cache.chunk_bytes_max());
            let fitting = missing.next_power_of_two().clamp(least, CHUNK_BYTES_MAX);
            match self.cache.alloc(fitting) {
                Ok(buf) => fresh.push(buf),
                Err(error) => {
                    fresh.iter().for_each(|buf| self.cache.released(buf.capacity()));
                    return Err(error);
                }
            }
        }
        let mut inner = self.inner.borrow_mut();
        if let Some(last) = fresh.last() {
            inner.chunk_bytes_next = (last.capacity() * 2).min(CHUNK_BYTES_MAX);
        }
        Ok(inner.append(parts, fresh, base_offset, last_offset))
    }

    /// The next batch begins the segment of base offset `segment`.
    pub fn roll(&self, segment: Offset) {
        let mut inner = self.inner.borrow_mut();
        assert!(segment >= inner.end_offset && segment > inner.place.segment, "roll to {segment}");
        inner.place = SegmentPosition { segment, position: 0 };
    }

    /// The first offset that can be read here; the end offset when nothing can.
    #[must_use]
    pub fn start_offset(&self) -> Offset {
        self.inner.borrow().start_offset()
    }

    /// Where the first batch that can be read here stands in its segment. All before it is in the segment files, though perhaps not
    /// durably.
    #[must_use]
    pub fn start_place(&self) -> SegmentPosition {
        self.inner.borrow().start_place()
    }

    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.inner.borrow().end_offset
    }

    /// Where the next byte goes.
    #[must_use]
    pub fn end(&self) -> (Address, SegmentPosition) {
        let inner = self.inner.borrow();
        (Address(inner.end), inner.place)
    }

    /// What lies below is in its segment file.
    #[must_use]
    pub fn destaged(&self) -> Address {
        Address(self.inner.borrow().destaged)
    }

    /// Bytes that are in no segment yet.
    #[must_use]
    pub fn undestaged_bytes(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.end - inner.destaged
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.inner.borrow().memory_bytes()
    }

    /// Reads as a fetch does; `None` when `from` lies below what is in memory.
    #[must_use]
    pub fn read(&self, from: Offset, limits: &ReadLimits) -> Option<Read> {
        let inner = self.inner.borrow();
        if from >= inner.end_offset {
            return Some(Read::default());
        }
        let chosen = inner.choose(from, limits)?;
        Some(chosen.map_or_else(Read::default, |range| inner.slices(range)))
    }

    /// The bytes of a range of addresses, all of which are in memory.
    #[must_use]
    pub fn slices(&self, range: Range<Address>) -> Vec<Slice> {
        self.inner.borrow().slices(range.start.0..range.end.0).slices
    }

    /// The same as blocks of the segment, from the one that the range begins in: whole ones, and what the last one holds if it is not
    /// filled. The range is of one segment.
    #[must_use]
    pub fn in_blocks(&self, range: Range<Address>) -> (Vec<Slice>, Option<Slice>) {
        self.inner.borrow().appended_in_blocks(range.start.0..range.end.0)
    }

    /// What the block that `at`, the address of a byte in memory, lies in holds before it, with the place of the block; `None` at a
    /// block's first byte. The first append into a partial block after a checkpoint journals this too, so that a torn destage of the
    /// block loses nothing.
    #[must_use]
    pub fn block_prefix(&self, at: Address) -> Option<(SegmentPosition, Slice)> {
        self.inner.borrow().block_prefix(at.0)
    }

    /// The next bytes to write to a segment, at most about `bytes_max`, never of two segments and never above `upto`, which is how far
    /// the journal holds them; `None` when all of those are written.
    #[must_use]
    pub fn destage_next(&self, bytes_max: usize, upto: Address) -> Option<DestagePiece> {
        self.inner.borrow().destage_next(bytes_max, upto.0)
    }

    /// A piece is in its segment now, and what lies below it may be dropped from memory. Of no effect when the log was truncated since
    /// the piece was taken: its bytes may not be the log's any more.
    pub fn mark_destaged(&self, done: DestageDone) {
        let droppable = self.inner.borrow_mut().mark_destaged(done);
        for chunk in droppable {
            self.cache.droppable(Rc::downgrade(&self.inner), chunk);
        }
    }

    /// Cuts the log at `end`: the batch that holds it, and all after it, go. Returns the new end offset, which is that batch's base
    /// offset; `None` when the batch is not in memory: then the caller loads the block and calls [`Tail::reset`].
    ///
    /// # Errors
    /// No memory for the block that is cut; nothing has changed.
    pub fn truncate(&self, end: Offset) -> Result<Option<Offset>, NoMemory> {
        if end >= self.end_offset() {
            return Ok(Some(self.end_offset()));
        }
        // First, since making room may drop chunks of this very log.
        let block = self.cache.alloc(CHUNK_BYTES_MIN)?;
        let found = self.inner.borrow().find(end);
        let Some((at, base_offset)) = found else {
            self.cache.released(block.capacity());
            return Ok(None);
        };
        let freed = self.inner.borrow_mut().cut(at, base_offset, block);
        self.cache.released(freed);
        Ok(Some(base_offset))
    }

    /// Gives back all memory but the last block, for a log that has been idle; keeps what is not destaged.
    pub fn shrink(&self) {
        self.shrink_below(Offset(i64::MAX));
    }

    /// Gives back what holds offsets below `offset`, which the segment files have otherwise now, as far as [`Tail::shrink`] would.
    pub fn shrink_below(&self, offset: Offset) {
        while self.start_offset() < offset {
            let front = self.inner.borrow().first_chunk();
            let Some(start) = front else { return };
            let freed = Inner::evict(&self.inner, start, &self.cache);
            if freed == 0 {
                return;
            }
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.cache.note_tails(-1);
        self.cache.released(self.memory_bytes());
    }
}

#[cfg(test)]
mod tests;
