//! A read of a segment's files: find the batch, take whole batches, check them, read ahead.
//!
//! Owner: the task of the reader; the bytes come from the shard's [`BlockCache`]. What an index says is believed only once the batch
//! header it points at has been seen to be the one it names; else the segment is walked from its first byte.
//!
//! Bounds: a read takes at most [`DISK_READ_BYTES_MAX`], or one batch that is larger, whatever its limits allow.

use std::collections::BTreeMap;
use std::ops::Range;

use base::Offset;
use record::{BatchHeader, HEADER_BYTES};
use shard::Slice;

use super::blocks::{BlockCache, BlockFile, READ_BLOCK_BYTES};
use super::choice::{ChooseError, Chosen, Start, choose};
use super::view::{DiskPlan, SegmentOnDisk};
use super::{Corruption, Read, ReadError, ReadLimits, Walk};
use crate::segment::{FileKind, Floor, IndexEntry, OffsetEntry, TimeEntry};

/// What one read from disk returns at most, so that many readers share the memory.
pub const DISK_READ_BYTES_MAX: usize = 1 << 20;

/// Blocks under way at once for one reader, at most.
const BLOCKS_AHEAD: usize = 8;

/// What a read from disk found.
#[derive(Clone, Debug)]
pub struct DiskRead {
    pub read: Read,
    /// The offset after the last batch returned or passed over, and where that begins in the segment.
    pub next: (Offset, u64),
    /// It got to the end of what the segment has on disk.
    pub at_end: bool,
    /// The index does not fit its segment and should be built anew.
    pub index_damaged: bool,
}

impl DiskPlan {
    /// Carries the read out. What stands before damage is returned; the next read, which begins with it, yields the error.
    ///
    /// # Errors
    /// The file cannot be read, or what it holds is damaged.
    pub async fn run(&self, cache: &BlockCache) -> Result<DiskRead, ReadError> {
        let mut blocks = Blocks::new(cache, &self.segment.file);
        let (mut chosen, index_damaged) = self.choose(cache, &mut blocks).await?;
        let read = chosen.load(&mut blocks).await?;
        self.read_ahead(cache, chosen.next.1);
        Ok(DiskRead { read, next: chosen.next, at_end: chosen.at_end, index_damaged })
    }

    /// What to return, and whether the index was found to lie.
    async fn choose(&self, cache: &BlockCache, blocks: &mut Blocks<'_>) -> Result<(Chosen, bool), ReadError> {
        let limits = ReadLimits { max_bytes: self.limits.max_bytes.min(DISK_READ_BYTES_MAX), ..self.limits };
        let (mut start, mut index_damaged) = match self.known_start() {
            Some(start) => (start, false),
            None => self.indexed_start(cache, self.floor, self.from).await,
        };
        let mut starts = 0;
        loop {
            let error = match (choose(blocks, self, limits, start).await, start.claim) {
                (Ok(chosen), _) => return Ok((chosen, index_damaged || starts > 0)),
                (Err(ChooseError::Read(error)), _) => return Err(error),
                (Err(ChooseError::Claim(error)), _) => error,
            };
            index_damaged |= error.is_none();
            starts += 1;
            // The entry lies, or the batch that it names is damaged: from the batch of the entry before, whose sound header leads to
            // either, one need not walk far. If that is not what it should be either, from the front.
            start = match (start.claim, self.floor) {
                (Some(claim), Floor::InFile { .. }) if starts == 1 => {
                    self.indexed_start(cache, self.floor, Offset(claim.last_offset.0 - 1)).await.0
                }
                _ => self.start_at(None),
            };
        }
    }

    /// Where the reader's last read ended.
    fn known_start(&self) -> Option<Start> {
        let known = self.cursor.at.filter(|(_, position)| *position < self.segment.file.readable_bytes);
        known.map(|(_, position)| Start { position, least: self.from, claim: None })
    }

    /// Where to begin for an offset, and whether the index could not be used.
    async fn indexed_start(&self, cache: &BlockCache, floor: Floor<OffsetEntry>, offset: Offset) -> (Start, bool) {
        let below = |entry: &OffsetEntry| entry.last_offset <= offset;
        match floor_entry(cache, &self.segment, floor, FileKind::Index, below).await {
            Ok(entry) => (self.start_at(entry), false),
            Err(_) => (self.start_at(None), true),
        }
    }

    fn start_at(&self, entry: Option<OffsetEntry>) -> Start {
        let base = self.segment.meta.base_offset;
        // A position past what may be read here is of batches that are in memory: `from` comes before them.
        match entry.filter(|entry| u64::from(entry.position) < self.segment.file.readable_bytes) {
            Some(entry) => Start { position: u64::from(entry.position), least: base, claim: Some(entry) },
            None => Start { position: 0, least: base, claim: None },
        }
    }

    /// Has the blocks after `position` read for a reader that goes from front to back.
    fn read_ahead(&self, cache: &BlockCache, position: u64) {
        let first = position / READ_BLOCK_BYTES;
        for index in first..first + u64::from(self.cursor.window_blocks) {
            if !cache.prefetch(&self.segment.file, index) {
                return;
            }
        }
    }
}

/// The last entry that is `below`, wherever it is.
///
/// # Errors
/// The index file cannot be read as far as it is known to go, or the entry is of no batch of the segment.
pub(super) async fn floor_entry<E: IndexEntry>(
    cache: &BlockCache,
    segment: &SegmentOnDisk,
    floor: Floor<E>,
    kind: FileKind,
    below: impl Fn(&E) -> bool,
) -> Result<Option<E>, ReadError> {
    let entries = match floor {
        Floor::Known(entry) => return Ok(entry),
        Floor::InFile { entries } => entries,
    };
    let file = segment.index_file(kind, entries);
    let mut blocks = Blocks::new(cache, &file);
    let (mut low, mut high, mut found): (u32, u32, Option<E>) = (0, entries, None);
    let mut bytes = [0; TimeEntry::BYTES];
    while low < high {
        let middle = low.midpoint(high);
        let bytes = &mut bytes[..E::BYTES];
        blocks.fill(u64::from(middle) * E::BYTES as u64, bytes).await?;
        let entry = E::decode(segment.meta.base_offset, bytes);
        if below(&entry) {
            found = Some(entry);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    match found.filter(|entry| !entry.follows(None, &segment.meta)) {
        Some(_) => Err(blocks.corrupt(u64::from(low.saturating_sub(1)) * E::BYTES as u64, Corruption::IndexEntry)),
        None => Ok(found),
    }
}

/// Walks all batch headers of a segment file from a batch boundary, `start` being its position and the least offset there, to the end
/// of what is readable.
///
/// # Errors
/// The file cannot be read, or a header cannot stand where it does.
pub async fn scan_headers(
    cache: &BlockCache,
    file: &BlockFile,
    start: (u64, Offset),
    mut each: impl FnMut(u64, &BatchHeader),
) -> Result<(), ReadError> {
    let mut blocks = Blocks::new(cache, file);
    let nothing = ReadLimits { max_bytes: 0, at_least_one_batch: false, upto: Offset(i64::MAX) };
    let mut walk = Walk::new(Offset(i64::MAX), nothing, start.0, file.readable_bytes, start.1);
    while let Some(at) = walk.next_header() {
        let header = blocks.header(at).await?;
        walk.see(&header).map_err(|misplaced| blocks.corrupt(at, Corruption::Misplaced(misplaced)))?;
        blocks.forget_below(at);
        let block = at / READ_BLOCK_BYTES;
        if walk.reached().1 / READ_BLOCK_BYTES > block {
            let _ = cache.prefetch(file, walk.reached().1 / READ_BLOCK_BYTES + 1);
            cache.shard().yield_now().await;
        }
        each(at, &header);
    }
    Ok(())
}

/// The blocks of one file that one reader holds.
pub(super) struct Blocks<'a> {
    cache: &'a BlockCache,
    file: &'a BlockFile,
    held: BTreeMap<u64, Slice>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(cache: &'a BlockCache, file: &'a BlockFile) -> Self {
        Self { cache, file, held: BTreeMap::new() }
    }

    /// Makes sure that the bytes of `range` are held.
    pub(super) async fn load(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        let needed = |index: u64| (range.end - index * READ_BLOCK_BYTES).min(READ_BLOCK_BYTES) as usize;
        let indexes = range.start / READ_BLOCK_BYTES..range.end.div_ceil(READ_BLOCK_BYTES);
        let missing: Vec<u64> =
            indexes.filter(|index| self.held.get(index).is_none_or(|block| block.len() < needed(*index))).collect();
        for (at, &index) in missing.iter().enumerate() {
            // Those after it get under way meanwhile, as far as the budget goes.
            for &ahead in missing[at + 1..].iter().take(BLOCKS_AHEAD) {
                if !self.cache.prefetch(self.file, ahead) {
                    break;
                }
            }
            let block = self.cache.get(self.file, index, needed(index)).await?;
            self.held.insert(index, block);
        }
        Ok(())
    }

    /// Copies bytes out, for headers and index entries.
    pub(super) async fn fill(&mut self, at: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let end = at + out.len() as u64;
        if end > self.file.readable_bytes {
            return Err(self.corrupt(at, Corruption::Short { expected_bytes: self.file.readable_bytes }));
        }
        self.load(at..end).await?;
        let mut filled = 0;
        for slice in self.slices(at..end).slices {
            out[filled..filled + slice.len()].copy_from_slice(&slice);
            filled += slice.len();
        }
        Ok(())
    }

    pub(super) async fn header(&mut self, at: u64) -> Result<BatchHeader, ReadError> {
        let mut bytes = [0; HEADER_BYTES];
        self.fill(at, &mut bytes).await?;
        BatchHeader::decode(&bytes).map_err(|error| self.corrupt(at, Corruption::Header(error)))
    }

    /// Bytes that are held, all of them.
    pub(super) fn slices(&self, range: Range<u64>) -> Read {
        let mut read = Read::default();
        let mut at = range.start;
        while at < range.end {
            let index = at / READ_BLOCK_BYTES;
            let within = (at % READ_BLOCK_BYTES) as usize;
            let block = &self.held[&index];
            let len = (range.end - at).min((READ_BLOCK_BYTES as usize - within) as u64) as usize;
            read.slices.push(block.slice(within..within + len));
            read.bytes += len;
            at += len as u64;
        }
        read
    }

    /// Lets go of blocks that end at or below a position.
    pub(super) fn forget_below(&mut self, position: u64) {
        let index = position / READ_BLOCK_BYTES;
        self.held.retain(|&held, _| held >= index);
    }

    pub(super) fn corrupt(&self, position: u64, reason: Corruption) -> ReadError {
        ReadError::Corrupt { file: self.file.key.path(&self.file.dir), position, reason }
    }
}
