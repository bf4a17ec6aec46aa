//! The heap that requests come to while they are worked on and until their answers are taken.
//!
//! Owner: a shard, for its connections. An answer can be many times as long as its question, and what is built on the way to it longer
//! still; so a request takes what it may come to at the worst (`api::kafka::cost`) before it is decoded, and gives it back when its answer
//! is sent. Lanes: producers, readers, members of groups and all others each have a bound and a line of their own, so that a flood of one kind delays no
//! other. Within a lane first come is first served.

use std::fmt;

use shard::sync::{Permit, Semaphore};

/// Which requests wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    Produce,
    Fetch,
    /// Members of groups: they wait for one another.
    Group,
    Other,
}

/// A request that would take more than its lane has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMuchWork {
    pub needed_bytes: usize,
    pub limit_bytes: usize,
}

impl fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "to answer it may take {} bytes of memory, where {} are set aside for that: ask for less at once, or raise memory-bytes",
            self.needed_bytes, self.limit_bytes
        )
    }
}

impl std::error::Error for TooMuchWork {}

/// The lanes of a shard. A handle: clones are the same.
#[derive(Clone)]
pub struct WorkMemory {
    produce: LaneMemory,
    fetch: LaneMemory,
    group: LaneMemory,
    other: LaneMemory,
}

#[derive(Clone)]
struct LaneMemory {
    free_bytes: Semaphore,
    limit_bytes: usize,
}

impl LaneMemory {
    fn new(limit_bytes: usize) -> Self {
        Self { free_bytes: Semaphore::new(limit_bytes), limit_bytes }
    }
}

impl WorkMemory {
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            produce: LaneMemory::new(limit_bytes / 5),
            fetch: LaneMemory::new(limit_bytes / 5),
            group: LaneMemory::new(limit_bytes / 5),
            other: LaneMemory::new(limit_bytes / 5 * 2),
        }
    }

    fn lane(&self, lane: Lane) -> &LaneMemory {
        match lane {
            Lane::Produce => &self.produce,
            Lane::Fetch => &self.fetch,
            Lane::Group => &self.group,
            Lane::Other => &self.other,
        }
    }

    /// The most that one request may come to.
    #[must_use]
    pub fn limit_bytes(&self, lane: Lane) -> usize {
        self.lane(lane).limit_bytes
    }

    /// Waits for memory for a request that may come to `bytes`.
    ///
    /// # Errors
    /// More than there ever is.
    pub async fn acquire(&self, lane: Lane, bytes: usize) -> Result<Permit, TooMuchWork> {
        let memory = self.lane(lane);
        let too_much = TooMuchWork { needed_bytes: bytes, limit_bytes: memory.limit_bytes };
        if bytes > memory.limit_bytes {
            return Err(too_much);
        }
        Ok(memory.free_bytes.acquire(bytes).await.expect("a lane is never closed"))
    }

    /// Three quarters of what readers have are taken: who has come now is answered at once rather than left waiting for records.
    #[must_use]
    pub fn is_crowded_with_readers(&self) -> bool {
        self.fetch.free_bytes.available() < self.fetch.limit_bytes / 4
    }

    /// What must come back for those who wait; 0 when nobody does.
    #[must_use]
    pub fn short_bytes(&self) -> usize {
        let short = |lane: &LaneMemory| if lane.free_bytes.waiting() > 0 { lane.limit_bytes / 4 } else { 0 };
        short(&self.produce) + short(&self.fetch) + short(&self.group) + short(&self.other)
    }
}
