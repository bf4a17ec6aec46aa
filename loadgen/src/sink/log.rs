//! The log of one partition: batches with their offsets, in memory. A pure core.
//!
//! Invariants
//! - Base offsets go up; what is acknowledged is what the log has. Offsets without a record belong to the batch around them.
//! - Readers see batches in order, each from its time on. A batch whose last record waits to be swapped has no time yet, and everything
//!   behind it waits with it.

use std::collections::VecDeque;
use std::ops::Range;

use base::{Instant, LeaderEpoch, Offset, WallTime};
use record::{BatchHeader, BatchMut, BatchView, TimestampOffset, find_max_timestamp, find_timestamp};
use shard::Slice;
use wire::ErrorCode;

use super::fault::{FaultKind, FaultPlan, Hit};
use super::producers::{ProducerTable, Verdict};
use super::rebuild::{OwnedRecord, Parts, Unreadable, build_single};

/// What a batch costs besides its bytes.
const BATCH_OVERHEAD_BYTES: usize = 128;

/// The longest that a batch may be after decompression, when a time is looked for in it.
const INFLATED_BYTES_MAX: usize = 256 << 20;

/// A batch in the log.
#[derive(Debug)]
pub struct Stored {
    base_offset: Offset,
    next_offset: Offset,
    max_timestamp: WallTime,
    /// `None`: not before the batch after it.
    readable_at: Option<Instant>,
    /// Which append it came with, over all logs.
    pub serial: u64,
    bytes: Slice,
}

impl Stored {
    /// What it counts for.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        self.bytes.len() + BATCH_OVERHEAD_BYTES
    }

    fn view(&self) -> Option<BatchView<'_>> {
        BatchView::parse(&self.bytes).ok()
    }
}

/// A batch to append.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    pub batch: &'a [u8],
    pub serial: u64,
    pub readable_at: Instant,
}

/// What a reader gets.
#[derive(Debug, Default)]
pub struct Read {
    pub slices: Vec<Slice>,
    pub bytes: usize,
}

/// The log of one partition.
#[derive(Debug, Default)]
pub struct Log {
    batches: VecDeque<Stored>,
    start: Offset,
    end: Offset,
    /// How many of the batches can be read, and where they end.
    readable: usize,
    high_watermark: Offset,
    cost_bytes: usize,
    /// Records taken in: the number of the next one.
    numbered: u64,
    /// The last record of some batch waits for the next one.
    holds: bool,
    faults: FaultPlan,
    producers: ProducerTable,
}

impl Log {
    #[must_use]
    pub fn new(faults: FaultPlan) -> Self {
        Self { faults, ..Self::default() }
    }

    #[must_use]
    pub fn start(&self) -> Offset {
        self.start
    }

    /// The offset of the next record.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    /// The offset after the last record that can be read.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// What all its batches count for.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        self.cost_bytes
    }

    /// The appends that its batches came with.
    pub fn serials(&self) -> impl Iterator<Item = u64> {
        self.batches.iter().map(|stored| stored.serial)
    }

    /// Stores a batch, unless it is a repetition or a fault says otherwise. Yields the offset to acknowledge.
    ///
    /// # Errors
    /// What to refuse it with. A batch that is refused may be stored all the same, where a fault says so.
    pub fn append(&mut self, append: &Append<'_>) -> Result<Offset, ErrorCode> {
        let (batch, count) = check_batch(append.batch)?;
        match self.producers.check(batch.header()) {
            Verdict::Append => {}
            Verdict::Duplicate(base_offset) => return Ok(base_offset),
            Verdict::Refuse(code) => return Err(code),
        }
        let numbers: Range<u64> = self.numbered..self.numbered + count;
        if self.faults.take(FaultKind::Retry, &numbers) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if self.faults.take(FaultKind::Refuse, &numbers) {
            return Err(ErrorCode::InvalidRecord);
        }
        let base_offset = self.end;
        let hits = self.faults.take_all(&numbers);
        self.store(&batch, append, &hits).map_err(|Unreadable| ErrorCode::CorruptMessage)?;
        self.numbered = numbers.end;
        self.producers.note(batch.header(), base_offset);
        if has(&hits, FaultKind::RefuseAndKeep) { Err(ErrorCode::InvalidRecord) } else { Ok(base_offset) }
    }

    /// Puts the batch at the end, as it is or as faults make it.
    fn store(&mut self, batch: &BatchView<'_>, append: &Append<'_>, hits: &[Hit]) -> Result<(), Unreadable> {
        if hits.is_empty() && !self.holds {
            self.push(append, as_sent(batch, self.end), Some(append.readable_at));
            return Ok(());
        }
        let mut parts = Parts::of(batch)?;
        let again = parts.apply(hits);
        if self.holds {
            self.exchange(&mut parts, append.readable_at);
        }
        let mut bytes = parts.build(self.end);
        if has(hits, FaultKind::CorruptBatch)
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 0xff;
        }
        let last = parts.places.len() - 1;
        self.holds = hits.iter().any(|hit| hit.kind == FaultKind::Swap && hit.index == last);
        self.push(append, bytes, (!self.holds).then_some(append.readable_at));
        for record in again {
            self.push(append, build_single(record, self.end), Some(append.readable_at));
        }
        Ok(())
    }

    /// Exchanges the last record of the batch that waits with the first of one that comes.
    fn exchange(&mut self, coming: &mut Parts, readable_at: Instant) {
        // Only second copies of its own records can stand behind it; it may be gone for want of room.
        let Some(held) = self.batches.iter().rposition(|stored| stored.readable_at.is_none()) else { return };
        let stored = &mut self.batches[held];
        stored.readable_at = Some(readable_at);
        let Some(mut parts) = stored.view().and_then(|view| Parts::of(&view).ok()) else { return };
        let (Some(last), Some(first)) = (parts.places.last_mut(), coming.places.first_mut()) else { return };
        std::mem::swap::<Option<OwnedRecord>>(last, first);
        let bytes = Slice::from_vec(parts.build(stored.base_offset));
        self.cost_bytes = self.cost_bytes - stored.bytes.len() + bytes.len();
        stored.bytes = bytes;
        stored.max_timestamp = stored.view().expect("built here").header().max_timestamp;
        // What stands behind it can't be read earlier.
        for behind in self.batches.range_mut(held + 1..) {
            behind.readable_at = behind.readable_at.max(Some(readable_at));
        }
    }

    fn push(&mut self, append: &Append<'_>, bytes: Vec<u8>, readable_at: Option<Instant>) {
        let header = BatchHeader::parse(&bytes).expect("a batch that was checked, or built here");
        // Nothing can be read before what stands in front of it.
        let before = self.batches.back().and_then(|last| last.readable_at);
        let stored = Stored {
            base_offset: header.base_offset,
            next_offset: header.next_offset(),
            max_timestamp: header.max_timestamp,
            readable_at: readable_at.map(|at| before.map_or(at, |before| before.max(at))),
            serial: append.serial,
            bytes: Slice::from_vec(bytes),
        };
        self.end = stored.next_offset;
        self.cost_bytes += stored.cost_bytes();
        self.batches.push_back(stored);
    }

    /// Lets readers see what they may see by now.
    pub fn advance(&mut self, now: Instant) {
        while let Some(next) = self.batches.get(self.readable)
            && next.readable_at.is_some_and(|at| at <= now)
        {
            self.readable += 1;
            self.high_watermark = next.next_offset;
        }
    }

    /// When readers will see more, as far as that is known.
    #[must_use]
    pub fn next_readable_at(&self) -> Option<Instant> {
        self.batches.get(self.readable)?.readable_at
    }

    /// Whole batches from the one that holds this offset on, up to so many bytes; the first one in any case, if `at_least_one`.
    ///
    /// # Errors
    /// The log does not hold the offset.
    pub fn read(&self, from: Offset, bytes_max: usize, at_least_one: bool) -> Result<Read, ErrorCode> {
        if from < self.start || from > self.end {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let first = self.batches.partition_point(|stored| stored.next_offset <= from);
        let mut read = Read::default();
        for stored in self.batches.range(first.min(self.readable)..self.readable) {
            let fits = read.bytes + stored.bytes.len() <= bytes_max;
            let is_due = at_least_one && read.slices.is_empty();
            if !(fits || is_due) {
                break;
            }
            read.bytes += stored.bytes.len();
            read.slices.push(stored.bytes.clone());
        }
        Ok(read)
    }

    /// Moves the start up to this offset (`None`: to the high watermark). Yields the batches that are gone.
    ///
    /// # Errors
    /// Readers have not come so far.
    pub fn delete_before(&mut self, offset: Option<Offset>) -> Result<Vec<Stored>, ErrorCode> {
        let offset = offset.unwrap_or(self.high_watermark);
        if offset.0 < 0 || offset > self.high_watermark {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        self.start = self.start.max(offset);
        let start = self.start;
        Ok(self.drop_front(|stored| stored.next_offset <= start))
    }

    /// Lets go of the batches that came with this append or before. Yields them.
    pub fn evict_through(&mut self, serial: u64) -> Vec<Stored> {
        self.drop_front(|stored| stored.serial <= serial)
    }

    fn drop_front(&mut self, goes: impl Fn(&Stored) -> bool) -> Vec<Stored> {
        let count = self.batches.iter().take_while(|stored| goes(stored)).count();
        let gone: Vec<Stored> = self.batches.drain(..count).collect();
        if let Some(last) = gone.last() {
            self.start = self.start.max(last.next_offset);
            self.high_watermark = self.high_watermark.max(last.next_offset);
        }
        self.readable = self.readable.saturating_sub(count);
        self.cost_bytes -= gone.iter().map(Stored::cost_bytes).sum::<usize>();
        gone
    }

    /// The first record with this timestamp or a later one.
    #[must_use]
    pub fn find_time(&self, at: WallTime) -> Option<TimestampOffset> {
        let found = |view: &BatchView<'_>| find_timestamp(view, at, self.start, INFLATED_BYTES_MAX).ok().flatten();
        self.batches.range(..self.readable).find_map(|stored| stored.view().and_then(|view| found(&view)))
    }

    /// The first record with the largest timestamp.
    #[must_use]
    pub fn find_latest(&self) -> Option<TimestampOffset> {
        let readable = self.batches.range(..self.readable);
        let latest = readable.rev().max_by_key(|stored| stored.max_timestamp)?;
        find_max_timestamp(&latest.view()?, INFLATED_BYTES_MAX).ok().flatten()
    }
}

fn has(hits: &[Hit], kind: FaultKind) -> bool {
    hits.iter().any(|hit| hit.kind == kind)
}

/// The one batch that these bytes must be, by its header alone, and how many records it has.
fn check_batch(bytes: &[u8]) -> Result<(BatchView<'_>, u64), ErrorCode> {
    let batch = BatchView::parse(bytes).map_err(|_| ErrorCode::CorruptMessage)?;
    let header = batch.header();
    let count = u64::try_from(header.record_count).unwrap_or(0);
    let is_numbered = i64::from(header.last_offset_delta) + 1 == i64::from(header.record_count);
    let is_sent_by_client = !header.is_control() && !header.is_transactional();
    let sound = batch.bytes().len() == bytes.len() && count > 0 && is_numbered && is_sent_by_client;
    if sound { Ok((batch, count)) } else { Err(ErrorCode::InvalidRecord) }
}

/// The batch with its base offset; that and the epoch lie outside its CRC.
fn as_sent(batch: &BatchView<'_>, base_offset: Offset) -> Vec<u8> {
    let mut bytes = batch.bytes().to_vec();
    let mut placed = BatchMut::parse(&mut bytes).expect("it was parsed before");
    placed.set_base_offset(base_offset);
    placed.set_leader_epoch(LeaderEpoch(0));
    bytes
}
