//! The memory of all tails of a shard: what it is bounded by, and the order in which destaged chunks leave it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use shard::{AppendBuf, Arena};

use super::chunks::Inner;
use super::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, NoMemory};

/// What all tails of a shard may hold together, and the order in which they give it up.
#[derive(Clone)]
pub struct TailCache {
    state: Rc<RefCell<CacheState>>,
    arena: Arena,
}

struct CacheState {
    bytes: usize,
    /// How many tails share the memory.
    tails: usize,
    bytes_limit: usize,
    /// Destaged chunks, oldest first, by the address they begin at; an entry whose chunk is gone finds nothing.
    queue: VecDeque<(Weak<RefCell<Inner>>, u64)>,
    /// A longer queue is cleared of entries that find nothing.
    queue_limit: usize,
}

const QUEUE_LIMIT_MIN: usize = 1024;
/// Chunks of one tail: the one that is filled, those that are destaged, and one to spare.
const CHUNKS_EACH: usize = 4;

impl TailCache {
    /// `bytes_limit` is what remains in memory when destage keeps up; what is not destaged is never dropped.
    #[must_use]
    pub fn new(arena: Arena, bytes_limit: usize) -> Self {
        let state =
            CacheState { bytes: 0, tails: 0, bytes_limit, queue: VecDeque::new(), queue_limit: QUEUE_LIMIT_MIN };
        Self { state: Rc::new(RefCell::new(state)), arena }
    }

    /// Resolves when somebody has given back `bytes` of what tails may hold.
    pub(crate) async fn wait_for(&self, bytes: usize) {
        drop(self.arena.alloc_wait(bytes).await);
    }

    /// Memory that tails hold now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.borrow().bytes
    }

    #[must_use]
    pub fn bytes_limit(&self) -> usize {
        self.state.borrow().bytes_limit
    }

    /// One tail more, or one less.
    pub(super) fn note_tails(&self, change: isize) {
        let mut state = self.state.borrow_mut();
        state.tails = state.tails.checked_add_signed(change).expect("a tail ends once");
    }

    /// How large a chunk may be that is not filled yet: so that every tail may have [`CHUNKS_EACH`]. Ten thousand tails that take a record
    /// now and then would otherwise fill the memory with room that none of the others can have.
    pub(super) fn chunk_bytes_max(&self) -> usize {
        let state = self.state.borrow();
        let share = state.bytes_limit / (CHUNKS_EACH * state.tails.max(1));
        share.checked_ilog2().map_or(0, |log| 1 << log).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.state.borrow().queue.len()
    }

    pub(super) fn alloc(&self, bytes: usize) -> Result<AppendBuf, NoMemory> {
        while self.bytes() + bytes > self.bytes_limit() && self.evict_one() {}
        loop {
            if let Some(buf) = self.alloc_exact(bytes) {
                return Ok(buf);
            }
            if !self.evict_one() {
                return Err(NoMemory);
            }
        }
    }

    pub(super) fn alloc_exact(&self, bytes: usize) -> Option<AppendBuf> {
        let mut buf = self.arena.alloc(bytes)?;
        buf.set_len(0);
        self.state.borrow_mut().bytes += buf.capacity();
        Some(AppendBuf::from(buf))
    }

    /// Drops one destaged chunk; false when there is none. An entry that turns out to be in use again only leaves the queue.
    fn evict_one(&self) -> bool {
        loop {
            let next = self.state.borrow_mut().queue.pop_front();
            let Some((tail, start)) = next else { return false };
            if tail.upgrade().is_some_and(|inner| Inner::evict(&inner, start, self) > 0) {
                return true;
            }
        }
    }

    pub(super) fn droppable(&self, tail: Weak<RefCell<Inner>>, start: u64) {
        let mut state = self.state.borrow_mut();
        state.queue.push_back((tail, start));
        if state.queue.len() > state.queue_limit {
            state.queue.retain(|(tail, start)| tail.upgrade().is_some_and(|inner| inner.borrow().holds(*start)));
            state.queue_limit = (state.queue.len() * 2).max(QUEUE_LIMIT_MIN);
        }
    }

    pub(super) fn released(&self, bytes: usize) {
        self.state.borrow_mut().bytes -= bytes;
    }
}
