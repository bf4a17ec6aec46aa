//! Blocks of segment and index files in memory: each is read once however many ask, and the least recently used leave first.
//!
//! Owner: a shard's store, for all its logs. A block is read by a background task under the shard's [`Budget`], so a reader that goes
//! away cancels nothing that another waits for. What is cached is a prefix of the block, as far as the file was known to hold batches
//! when it was read; who needs more has it read again.
//!
//! Bounds: the cache holds at most the bytes it was made with, in memory of its own account: it never makes a log's tail leave. When
//! the arena is used up it gives blocks back before it waits. Readers hold the slices they were given for as long as they need them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

use shard::sync::{Event, Permit};
use shard::{Account, Arena, Buf, Class, Shard, Slice};

use super::ReadError;
use crate::budget::{Budget, PIECE_BYTES_MAX};
use crate::config::LogId;
use crate::segment::{BLOCK_BYTES, FileKey, FileKind, FileTable, SegmentName};

/// Unit of reading and caching.
pub const READ_BLOCK_BYTES: u64 = PIECE_BYTES_MAX as u64;

/// A file whose bytes below some position do not change any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFile {
    pub key: FileKey,
    /// The log's directory.
    pub dir: Rc<Path>,
    /// Changes with each truncation of the log, and when it leaves the store and comes back: what was read before is not used after.
    pub generation: u32,
    /// The bytes that are known to stand in the file.
    pub readable_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct BlockKey {
    file: FileKey,
    generation: u32,
    index: u64,
}

/// The blocks of a shard. Clones are the same cache.
#[derive(Clone)]
pub struct BlockCache(Rc<Inner>);

struct Inner {
    shard: Shard,
    account: Account,
    files: FileTable,
    budget: Budget,
    /// The part of the arena for what is read: blocks, also those that an answer keeps that is still being sent.
    memory: Arena,
    state: RefCell<State>,
}

struct State {
    bytes: usize,
    bytes_limit: usize,
    blocks: BTreeMap<BlockKey, Block>,
    /// By last use, oldest first.
    order: BTreeMap<u64, BlockKey>,
    flights: BTreeMap<BlockKey, Rc<Flight>>,
    tick: u64,
    hits: u64,
    reads: u64,
}

struct Block {
    bytes: Slice,
    /// What the block takes of the arena.
    capacity: usize,
    used: u64,
}

/// A read under way.
struct Flight {
    /// How much of the block it will bring.
    valid_bytes: usize,
    done: Event,
    result: RefCell<Option<Result<Slice, Failure>>>,
}

/// `io::Error` as several waiters can have it.
#[derive(Clone, Copy)]
struct Failure {
    kind: io::ErrorKind,
    os_code: Option<i32>,
}

impl State {
    fn lookup(&mut self, key: &BlockKey, needed_bytes: usize) -> Option<Slice> {
        let block = self.blocks.get_mut(key).filter(|block| block.bytes.len() >= needed_bytes)?;
        self.tick += 1;
        self.order.remove(&block.used);
        block.used = self.tick;
        self.order.insert(self.tick, *key);
        Some(block.bytes.clone())
    }

    fn insert(&mut self, key: BlockKey, bytes: Slice, capacity: usize) {
        if let Some(old) = self.blocks.remove(&key) {
            self.order.remove(&old.used);
            self.bytes -= old.capacity;
        }
        while self.bytes + capacity > self.bytes_limit && self.evict_one() {}
        if self.bytes + capacity > self.bytes_limit {
            return;
        }
        self.tick += 1;
        self.bytes += capacity;
        self.order.insert(self.tick, key);
        self.blocks.insert(key, Block { bytes, capacity, used: self.tick });
    }

    fn evict_one(&mut self) -> bool {
        let Some((_, key)) = self.order.pop_first() else { return false };
        let block = self.blocks.remove(&key).expect("whatever is in the order is a block");
        self.bytes -= block.capacity;
        true
    }
}

impl BlockCache {
    /// A cache of at most the first number of bytes; 0 caches nothing, and still reads each block once for all who ask at a time. With
    /// what readers hold it is never more than the second.
    #[must_use]
    pub fn new(shard: Shard, files: FileTable, budget: Budget, (bytes_limit, read_bytes_max): (usize, usize)) -> Self {
        let state = State {
            bytes: 0,
            bytes_limit,
            blocks: BTreeMap::new(),
            order: BTreeMap::new(),
            flights: BTreeMap::new(),
            tick: 0,
            hits: 0,
            reads: 0,
        };
        let account = shard.account("disk reads");
        let memory = shard.arena().part(read_bytes_max);
        Self(Rc::new(Inner { shard, account, files, budget, memory, state: RefCell::new(state) }))
    }

    /// At least the first `needed_bytes` of a block, from memory or from the file.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than it is known to be.
    ///
    /// # Panics
    /// When the block does not have that many readable bytes.
    pub async fn get(&self, file: &BlockFile, index: u64, needed_bytes: usize) -> Result<Slice, ReadError> {
        let valid_bytes = valid_bytes(file, index);
        assert!(needed_bytes > 0 && needed_bytes <= valid_bytes, "{needed_bytes} of {valid_bytes} bytes");
        let key = BlockKey { file: file.key, generation: file.generation, index };
        loop {
            let (flight, wait) = {
                let mut state = self.0.state.borrow_mut();
                if let Some(bytes) = state.lookup(&key, needed_bytes) {
                    state.hits += 1;
                    return Ok(bytes);
                }
                match state.flights.get(&key) {
                    Some(flight) => (flight.clone(), flight.done.wait()),
                    None => {
                        let flight = self.start(&mut state, key, file, None);
                        let wait = flight.done.wait();
                        (flight, wait)
                    }
                }
            };
            wait.await;
            let result = flight.result.borrow().clone();
            match result {
                Some(Ok(bytes)) if bytes.len() >= needed_bytes => return Ok(bytes),
                // It was started when less was readable.
                Some(Ok(_)) if flight.valid_bytes < needed_bytes => {}
                Some(Ok(bytes)) => return Err(too_short(file, index * READ_BLOCK_BYTES + bytes.len() as u64)),
                Some(Err(failure)) => {
                    return Err(ReadError::Io {
                        file: file.key.path(&file.dir),
                        kind: failure.kind,
                        os_code: failure.os_code,
                    });
                }
                None => unreachable!("a flight sets its result before it notifies"),
            }
        }
    }

    /// Starts to read a block if it is not there, the budget has room, and nothing more urgent waits. Says whether the caller may go on
    /// to the next one.
    pub fn prefetch(&self, file: &BlockFile, index: u64) -> bool {
        let valid_bytes = valid_bytes(file, index);
        let key = BlockKey { file: file.key, generation: file.generation, index };
        let mut state = self.0.state.borrow_mut();
        let present = state.blocks.get(&key).is_some_and(|block| block.bytes.len() >= valid_bytes);
        if valid_bytes == 0 || present || state.flights.contains_key(&key) {
            return valid_bytes > 0;
        }
        let Some(permit) = self.0.budget.try_read(PIECE_BYTES_MAX) else { return false };
        let _ = self.start(&mut state, key, file, Some(permit));
        true
    }

    fn start(&self, state: &mut State, key: BlockKey, file: &BlockFile, permit: Option<Permit>) -> Rc<Flight> {
        let valid_bytes = valid_bytes(file, key.index);
        let flight = Rc::new(Flight { valid_bytes, done: Event::new(), result: RefCell::new(None) });
        state.flights.insert(key, flight.clone());
        state.reads += 1;
        let (cache, file, of_flight) = (self.clone(), file.clone(), flight.clone());
        let task = async move {
            let result = cache.read(&file, key.index, valid_bytes, permit).await;
            let mut state = cache.0.state.borrow_mut();
            state.flights.remove(&key);
            let result = result.map(|(bytes, capacity)| {
                state.insert(key, bytes.clone(), capacity);
                bytes
            });
            *of_flight.result.borrow_mut() = Some(result);
            drop(state);
            of_flight.done.notify_all();
        };
        // Detached: it ends by itself, and others may be waiting for it by then.
        drop(self.0.shard.spawn(Class::Background, self.0.account.clone(), task));
        flight
    }

    async fn read(
        &self,
        file: &BlockFile,
        index: u64,
        valid_bytes: usize,
        permit: Option<Permit>,
    ) -> Result<(Slice, usize), Failure> {
        let _permit = match permit {
            Some(permit) => permit,
            None => self.0.budget.read(valid_bytes).await,
        };
        let failure = |error: io::Error| Failure { kind: error.kind(), os_code: error.raw_os_error() };
        let open = self.0.files.open(file.key, &file.dir).await.map_err(failure)?;
        let len = valid_bytes.next_multiple_of(open.alignment().max(BLOCK_BYTES)).min(READ_BLOCK_BYTES as usize);
        let buf = self.memory(len).await;
        let buf = open.read_into(index * READ_BLOCK_BYTES, buf, len).await.map_err(failure)?;
        let capacity = buf.capacity();
        let bytes = buf.freeze();
        Ok((bytes.slice(..valid_bytes.min(bytes.len())), capacity))
    }

    /// Arena memory, from blocks that are not needed now where there is no other.
    async fn memory(&self, len: usize) -> Buf {
        loop {
            if let Some(buf) = self.0.memory.alloc(len) {
                return buf;
            }
            if !self.0.state.borrow_mut().evict_one() {
                return self.0.memory.alloc_wait(len).await;
            }
        }
    }

    /// Drops one block; false when there is none.
    #[cfg(test)]
    pub(super) fn evict_one(&self) -> bool {
        self.0.state.borrow_mut().evict_one()
    }

    /// A segment's index files are replaced: what is known of the old ones goes.
    pub fn forget_indexes(&self, log: LogId, segment: SegmentName) {
        let mut state = self.0.state.borrow_mut();
        for kind in [FileKind::Index, FileKind::TimeIndex] {
            let file = FileKey { log, segment, kind };
            let (first, last) =
                (BlockKey { file, generation: 0, index: 0 }, BlockKey { file, generation: u32::MAX, index: u64::MAX });
            let keys: Vec<_> = state.blocks.range(first..=last).map(|(key, block)| (*key, block.used)).collect();
            for (key, used) in keys {
                state.order.remove(&used);
                let block = state.blocks.remove(&key).expect("it was there just now");
                state.bytes -= block.capacity;
            }
        }
    }

    /// The shard that reads.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.0.shard
    }

    #[must_use]
    pub fn files(&self) -> &FileTable {
        &self.0.files
    }

    /// Memory held by the cache.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.state.borrow().bytes
    }

    /// Blocks found in memory so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.0.state.borrow().hits
    }

    /// Blocks read from files so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.0.state.borrow().reads
    }
}

/// Bytes of a block that are known to stand in the file.
fn valid_bytes(file: &BlockFile, index: u64) -> usize {
    file.readable_bytes.saturating_sub(index.saturating_mul(READ_BLOCK_BYTES)).min(READ_BLOCK_BYTES) as usize
}

fn too_short(file: &BlockFile, position: u64) -> ReadError {
    let expected_bytes = file.readable_bytes;
    let reason = super::Corruption::Short { expected_bytes };
    ReadError::Corrupt { file: file.key.path(&file.dir), position, reason }
}
