//! The chunks of one log's tail and the marks that make batches findable in them.
//!
//! Owner: [`super::Tail`], and for eviction [`super::TailCache`]. Only plain data and slices: nothing here waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use base::Offset;
use record::{BatchHeader, HEADER_BYTES};
use shard::{AppendBuf, Slice};

use super::{Address, CHUNK_BYTES_MIN, DestageDone, DestagePiece, SegmentPosition, TailAppend, TailCache};
use crate::read::{Read, ReadLimits, Walk};
use crate::segment::BLOCK_BYTES;

struct Chunk {
    start: u64,
    place: SegmentPosition,
    buf: AppendBuf,
    /// What counts of `buf`: less than it holds after a truncation.
    len: usize,
    /// In the cache's queue of what may be dropped.
    queued: bool,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.len as u64
    }
}

struct Mark {
    at: u64,
    base_offset: Offset,
}

pub(super) struct Inner {
    chunks: VecDeque<Chunk>,
    marks: VecDeque<Mark>,
    /// Where the next byte goes.
    pub(super) end: u64,
    pub(super) place: SegmentPosition,
    pub(super) end_offset: Offset,
    pub(super) destaged: u64,
    pub(super) chunk_bytes_next: usize,
    /// Truncations so far: addresses above a cut are used again.
    cuts: u32,
}

impl Inner {
    pub(super) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            marks: VecDeque::new(),
            end: 0,
            place: SegmentPosition { segment: Offset(0), position: 0 },
            end_offset: Offset(0),
            destaged: 0,
            chunk_bytes_next: CHUNK_BYTES_MIN,
            cuts: 0,
        }
    }

    /// See [`super::Tail::reset`]; `block` is there when there is a prefix. Returns the bytes freed.
    pub(super) fn reset(
        &mut self,
        place: SegmentPosition,
        prefix: &[u8],
        block: Option<AppendBuf>,
        end_offset: Offset,
    ) -> usize {
        let freed = self.memory_bytes();
        self.chunks.clear();
        self.marks.clear();
        // Addresses go on, so that what the cache's queue still says of the old chunks finds nothing.
        let start = self.end.next_multiple_of(BLOCK_BYTES as u64);
        if let Some(mut buf) = block {
            buf.append(prefix);
            let block_place = SegmentPosition { position: place.position - prefix.len() as u64, ..place };
            self.chunks.push_back(Chunk { start, place: block_place, len: prefix.len(), buf, queued: false });
        }
        self.end = start + prefix.len() as u64;
        self.destaged = self.end;
        self.place = place;
        self.end_offset = end_offset;
        self.cuts = self.cuts.wrapping_add(1);
        self.chunk_bytes_next = CHUNK_BYTES_MIN;
        freed
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.buf.capacity()).sum()
    }

    pub(super) fn start_offset(&self) -> Offset {
        self.marks.front().map_or(self.end_offset, |mark| mark.base_offset)
    }

    /// See [`super::Tail::start_place`].
    pub(super) fn start_place(&self) -> SegmentPosition {
        let Some(mark) = self.marks.front() else { return self.place };
        let index = self.chunks.partition_point(|chunk| chunk.start <= mark.at) - 1;
        let chunk = &self.chunks[index];
        SegmentPosition { position: chunk.place.position + (mark.at - chunk.start), ..chunk.place }
    }

    /// True while the chunk that begins at `start` waits in the cache's queue.
    pub(super) fn holds(&self, start: u64) -> bool {
        let index = self.chunks.partition_point(|chunk| chunk.start < start);
        self.chunks.get(index).is_some_and(|chunk| chunk.start == start && chunk.queued)
    }

    /// Address of the oldest byte in memory.
    pub(super) fn first_chunk(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.start)
    }

    /// See [`super::Tail::block_prefix`].
    pub(super) fn block_prefix(&self, at: u64) -> Option<(SegmentPosition, Slice)> {
        let index = self.chunks.partition_point(|chunk| chunk.start <= at).checked_sub(1)?;
        let chunk = Some(&self.chunks[index]).filter(|chunk| at < chunk.end())?;
        let within = (at - chunk.start) as usize;
        let block = within - within % BLOCK_BYTES;
        let place = SegmentPosition { position: chunk.place.position + block as u64, ..chunk.place };
        (block < within).then(|| (place, chunk.buf.slice(block..within)))
    }

    /// Notes that all below a piece's end is in its segment; returns the chunks that may be dropped from now on.
    pub(super) fn mark_destaged(&mut self, done: DestageDone) -> Vec<u64> {
        if done.cuts != self.cuts {
            return Vec::new();
        }
        self.destaged = self.destaged.max(done.end.0);
        let (last, current) = (self.chunks.len().wrapping_sub(1), self.place.segment);
        // A chunk that cannot go yet is not offered: it would leave the queue, and those behind it could never go either.
        let whole = self.destaged_batches_end();
        let mut droppable = Vec::new();
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            if chunk.end() > whole {
                break;
            }
            let is_idle_block = index == last && chunk.place.segment == current && chunk.buf.capacity() == BLOCK_BYTES;
            if !chunk.queued && !is_idle_block {
                chunk.queued = true;
                droppable.push(chunk.start);
            }
        }
        droppable
    }

    /// Where the last batch ends that is in its segment whole.
    fn destaged_batches_end(&self) -> u64 {
        if self.destaged == self.end {
            return self.end;
        }
        let after = self.marks.partition_point(|mark| mark.at <= self.destaged);
        after.checked_sub(1).and_then(|last| self.marks.get(last)).map_or(0, |mark| mark.at)
    }

    /// Bytes that the last chunk still takes.
    pub(super) fn room(&self) -> usize {
        match self.chunks.back() {
            // A chunk that was cut short by a truncation is full: what follows in its buffer is still read by somebody.
            Some(last) if last.place.segment == self.place.segment && last.len == last.buf.len() => {
                last.buf.capacity() - last.len
            }
            _ => 0,
        }
    }

    /// True when no batch begins yet in the block that the next byte goes to.
    fn begins_block(&self) -> bool {
        match self.chunks.back() {
            Some(last) if self.room() > 0 => {
                let block = last.start + (last.len - last.len % BLOCK_BYTES) as u64;
                self.marks.back().is_none_or(|mark| mark.at < block)
            }
            _ => true,
        }
    }

    pub(super) fn append(
        &mut self,
        parts: &[&[u8]],
        fresh: Vec<AppendBuf>,
        base_offset: Offset,
        last_offset: Offset,
    ) -> TailAppend {
        let (start, place) = (self.end, self.place);
        if self.begins_block() {
            self.marks.push_back(Mark { at: start, base_offset });
        }
        let mut fresh = fresh.into_iter();
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                if self.room() == 0 {
                    let buf = fresh.next().expect("enough was allocated for all parts");
                    assert_eq!(self.place.position % BLOCK_BYTES as u64, 0, "a chunk begins with a block");
                    self.chunks.push_back(Chunk { start: self.end, place: self.place, buf, len: 0, queued: false });
                }
                let room = self.room();
                let last = self.chunks.back_mut().expect("a chunk with room");
                let (now, later) = rest.split_at(rest.len().min(room));
                last.buf.append(now);
                last.len += now.len();
                self.end += now.len() as u64;
                self.place.position += now.len() as u64;
                rest = later;
            }
        }
        self.end_offset = Offset(last_offset.0 + 1);
        TailAppend { addresses: Address(start)..Address(self.end), place }
    }

    pub(super) fn slices(&self, range: Range<u64>) -> Read {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= range.start);
        let mut read = Read::default();
        for chunk in self.chunks.range(first..).take_while(|chunk| chunk.start < range.end) {
            let from = range.start.max(chunk.start) - chunk.start;
            let to = range.end.min(chunk.end()) - chunk.start;
            if from < to {
                read.slices.push(chunk.buf.slice(from as usize..to as usize));
                read.bytes += (to - from) as usize;
            }
        }
        assert_eq!(read.bytes as u64, range.end - range.start, "addresses {range:?} are in memory");
        read
    }

    fn header(&self, at: u64) -> BatchHeader {
        let mut bytes = [0; HEADER_BYTES];
        let mut filled = 0;
        for slice in self.slices(at..at + HEADER_BYTES as u64).slices {
            bytes[filled..filled + slice.len()].copy_from_slice(&slice);
            filled += slice.len();
        }
        BatchHeader::decode(&bytes).expect("a whole, valid batch was appended here")
    }

    /// The last mark that `of` says is at or below what is sought.
    fn mark_at_or_below(&self, of: impl Fn(&Mark) -> bool) -> Option<&Mark> {
        self.marks.partition_point(of).checked_sub(1).map(|index| &self.marks[index])
    }

    /// Chooses whole batches; outer `None`: `from` is not in memory.
    pub(super) fn choose(&self, from: Offset, limits: &ReadLimits) -> Option<Option<Range<u64>>> {
        let mark = self.mark_at_or_below(|mark| mark.base_offset <= from)?;
        let mut walk = Walk::new(from, *limits, mark.at, self.end, mark.base_offset);
        let mut skipped = false;
        while let Some(at) = walk.next_header() {
            if let Some(chosen) = walk.chosen().filter(|_| !skipped) {
                // Everything below the last mark within the limits is chosen without a look at it.
                skipped = true;
                let most = chosen.start.saturating_add(limits.max_bytes as u64);
                let far = self.mark_at_or_below(|mark| mark.at <= most && mark.base_offset <= limits.upto);
                if let Some(mark) = far.filter(|mark| mark.at > at) {
                    walk.skip_to(mark.at, mark.base_offset);
                    continue;
                }
            }
            walk.see(&self.header(at)).expect("batches in memory follow one another");
        }
        Some(walk.chosen())
    }

    /// Address and base offset of the batch that holds `offset`, or of the first above it.
    pub(super) fn find(&self, offset: Offset) -> Option<(u64, Offset)> {
        let mut at = self.mark_at_or_below(|mark| mark.base_offset <= offset)?.at;
        while at < self.end {
            let header = self.header(at);
            if header.last_offset() >= offset {
                return Some((at, header.base_offset));
            }
            at += header.size_bytes() as u64;
        }
        Some((self.end, self.end_offset))
    }

    /// What `range`, which begins with a block, has of whole blocks, and of the block it ends in if that is not filled.
    fn in_blocks(&self, range: Range<u64>) -> (Vec<Slice>, Option<Slice>) {
        let partial_bytes = (range.end - range.start) % BLOCK_BYTES as u64;
        let whole = range.end - partial_bytes;
        let partial = (partial_bytes > 0).then(|| self.slices(whole..range.end).slices.remove(0));
        (self.slices(range.start..whole).slices, partial)
    }

    /// See [`super::Tail::in_blocks`].
    pub(super) fn appended_in_blocks(&self, range: Range<u64>) -> (Vec<Slice>, Option<Slice>) {
        let index = self.chunks.partition_point(|chunk| chunk.start <= range.start) - 1;
        let within = (range.start - self.chunks[index].start) % BLOCK_BYTES as u64;
        self.in_blocks(range.start - within..range.end)
    }

    pub(super) fn destage_next(&self, bytes_max: usize, upto: u64) -> Option<DestagePiece> {
        let upto = upto.min(self.end);
        if self.destaged >= upto {
            return None;
        }
        let first = self.chunks.partition_point(|chunk| chunk.end() <= self.destaged);
        let chunk = &self.chunks[first];
        // The block that was written in part goes again, whole.
        let within = (self.destaged - chunk.start) as usize;
        let start = chunk.start + (within - within % BLOCK_BYTES) as u64;
        let place = SegmentPosition { position: chunk.place.position + (start - chunk.start), ..chunk.place };
        let last_of_segment = self
            .chunks
            .range(first..)
            .take_while(|next| next.place.segment == place.segment)
            .last()
            .expect("the first");
        let most = start + (bytes_max - bytes_max % BLOCK_BYTES).max(BLOCK_BYTES) as u64;
        let end = last_of_segment.end().min(most).min(upto);
        let (blocks, partial) = self.in_blocks(start..end);
        Some(DestagePiece { place, blocks, partial, done: DestageDone { end: Address(end), cuts: self.cuts } })
    }

    /// Cuts at address `at`, a batch boundary; `block` is to hold what is kept of the block there. Returns the bytes freed.
    pub(super) fn cut(&mut self, at: u64, base_offset: Offset, mut block: AppendBuf) -> usize {
        let mut freed = 0;
        while self.chunks.back().is_some_and(|chunk| chunk.start > at) {
            freed += self.chunks.pop_back().map_or(0, |chunk| chunk.buf.capacity());
        }
        let chunk = self.chunks.back_mut().expect("the batch that is cut is in memory");
        let within = (at - chunk.start) as usize;
        let whole = within - within % BLOCK_BYTES;
        self.place = SegmentPosition { position: chunk.place.position + within as u64, ..chunk.place };
        if whole < within {
            block.append(&chunk.buf.slice(whole..within));
            let kept = Chunk {
                start: chunk.start + whole as u64,
                place: SegmentPosition { position: chunk.place.position + whole as u64, ..chunk.place },
                len: within - whole,
                buf: block,
                queued: false,
            };
            chunk.len = whole;
            self.chunks.push_back(kept);
        } else {
            chunk.len = whole;
            freed += block.capacity();
        }
        let emptied = self.chunks.iter().position(|chunk| chunk.len == 0);
        if let Some(chunk) = emptied.and_then(|index| self.chunks.remove(index)) {
            freed += chunk.buf.capacity();
        }
        while self.marks.back().is_some_and(|mark| mark.at >= at) {
            self.marks.pop_back();
        }
        self.end = at;
        self.end_offset = base_offset;
        self.destaged = self.destaged.min(at);
        self.cuts = self.cuts.wrapping_add(1);
        self.chunk_bytes_next = CHUNK_BYTES_MIN;
        freed
    }

    /// Drops the front chunk if it begins at `start` and is in its segment; of the last chunk, the unfilled block stays. Returns the
    /// bytes freed.
    pub(super) fn evict(this: &RefCell<Self>, start: u64, cache: &TailCache) -> usize {
        let mut inner = this.borrow_mut();
        let inner = &mut *inner;
        let only_chunk = inner.chunks.len() == 1;
        let Some(index) = inner.chunks.iter().position(|chunk| chunk.start == start) else { return 0 };
        let front = &mut inner.chunks[index];
        // It left the queue; the next destage of this log offers it again.
        front.queued = false;
        if index > 0 {
            return 0;
        }
        // A batch that goes on in the next chunk must be in its segment whole, or it could be read from neither.
        let end = front.end();
        let next_batch = inner.marks.get(inner.marks.partition_point(|mark| mark.at < end));
        if next_batch.map_or(inner.end, |mark| mark.at) > inner.destaged {
            return 0;
        }
        let capacity = front.buf.capacity();
        let is_last = only_chunk && front.place.segment == inner.place.segment;
        let partial = if is_last { front.len % BLOCK_BYTES } else { 0 };
        if partial > 0 && capacity == BLOCK_BYTES {
            return 0;
        }
        let kept = if partial > 0 {
            // Straight from the arena: the cache is in the middle of making room.
            let Some(mut buf) = cache.alloc_exact(CHUNK_BYTES_MIN) else { return 0 };
            let whole = front.len - partial;
            buf.append(&front.buf.slice(whole..front.len));
            let place = SegmentPosition { position: front.place.position + whole as u64, ..front.place };
            Some(Chunk { start: front.start + whole as u64, place, len: partial, buf, queued: false })
        } else {
            None
        };
        inner.chunks.pop_front();
        if let Some(kept) = kept {
            inner.chunks.push_front(kept);
            inner.chunk_bytes_next = CHUNK_BYTES_MIN;
        }
        let begin = inner.chunks.front().map_or(inner.end, |chunk| chunk.start);
        while inner.marks.front().is_some_and(|mark| mark.at < begin) {
            inner.marks.pop_front();
        }
        cache.released(capacity);
        capacity
    }
}
