//! What frames that have not arrived whole may hold of a shard's memory.
//!
//! Owner: a shard, for its connections. Parts of what the arena has for received bytes, each with a line of its own:
//! - *trust*, 2/16: buffers for whole frames of up to a mebibyte, given as soon as they begin while there are any;
//! - *probation*, 2/16: where trust is given out, a frame gets [`PROBATION_BYTES`] first;
//! - *claims*, 2/16, and 1/16 for those up to [`SMALL_CLAIM_BYTES_MAX`]: who has filled that and has more waits for a buffer for all of it;
//! - *beginnings*, 1/16, and *turns*, 6/16: of a frame beyond a mebibyte the first one comes in, then it takes a turn for all of its length.
//!
//! So nobody waits for memory who holds any that the others in his line wait for: those that have a claim or a turn can end, and all
//! after them. What is left, an eighth at least, is for frames that arrived whole: no number of unfinished ones keeps those out. Who finds
//! no memory within [`TURN_LIMIT`] is closed with the reason; who has memory, is slow, and is waited for gives way ([`crate::Watch`]).

use std::time::Duration;

use base::Instant;
use shard::sync::{Permit, Semaphore};
use shard::{Buf, Shard};

use crate::progress::Shortage;

/// Frames beyond it take turns.
pub const SHORT_BYTES_MAX: usize = 1 << 20;

/// The first buffer of a frame that is not trusted.
pub const PROBATION_BYTES: usize = 16 << 10;

/// Frames up to it do not wait behind longer ones.
const SMALL_CLAIM_BYTES_MAX: usize = 128 << 10;

/// How long a frame waits for others to end.
pub const TURN_LIMIT: Duration = Duration::from_secs(30);

/// Clones are the same memory.
#[derive(Clone)]
pub struct FrameMemory {
    shard: Shard,
    trust: Semaphore,
    probation: Semaphore,
    small_claims: Semaphore,
    claims: Semaphore,
    beginnings: Semaphore,
    turns: Semaphore,
    turns_bytes: usize,
}

/// A buffer, and what it counts for while it is not full.
pub struct Step {
    pub buf: Buf,
    pub permit: Permit,
}

impl FrameMemory {
    #[must_use]
    pub fn new(shard: &Shard) -> Self {
        let sixteenth = shard.received().usage().limit_bytes / 16;
        let turns_bytes = sixteenth * 6;
        // One of the longest always fits, however small the arena.
        let line = |bytes: usize| Semaphore::new(bytes.max(SHORT_BYTES_MAX));
        Self {
            shard: shard.clone(),
            trust: Semaphore::new(sixteenth * 2),
            probation: line(sixteenth * 2),
            small_claims: line(sixteenth),
            claims: line(sixteenth * 2),
            beginnings: line(sixteenth),
            turns: Semaphore::new(turns_bytes),
            turns_bytes,
        }
    }

    /// The longest frame that fits in.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        self.turns_bytes
    }

    #[must_use]
    pub fn now(&self) -> Instant {
        self.shard.now()
    }

    /// What those who wait for memory need of others.
    #[must_use]
    pub fn shortage(&self) -> Shortage {
        let received = self.shard.received().usage();
        // Where all of it is taken the log is behind, and nobody who waits is to blame.
        let is_full = received.waiting > 0 || received.used_bytes > received.limit_bytes / 8 * 7;
        let first_lines = [&self.probation, &self.beginnings].iter().any(|line| line.waiting() > 0);
        let lines = [&self.small_claims, &self.claims, &self.turns].iter().any(|line| line.waiting() > 0);
        let bytes = if is_full || first_lines || lines { received.limit_bytes / 8 } else { 0 };
        Shortage { bytes, waiting_is_in_the_way: first_lines && !is_full }
    }

    /// A buffer for the beginning of a frame of `len` bytes, or for all of it; `None` when there is none in time.
    pub(crate) async fn first_step(&self, len: usize) -> Option<Step> {
        if len > SHORT_BYTES_MAX {
            return self.step(&self.beginnings, SHORT_BYTES_MAX).await;
        }
        if let Some(permit) = self.trust.try_acquire(len)
            && let Some(buf) = self.shard.received().alloc(len)
        {
            return Some(Step { buf, permit });
        }
        self.step(&self.probation, len.min(PROBATION_BYTES)).await
    }

    /// A buffer for all of a frame that has filled its first one.
    pub(crate) async fn whole(&self, len: usize) -> Option<Step> {
        let line = if len > SHORT_BYTES_MAX {
            &self.turns
        } else if len > SMALL_CLAIM_BYTES_MAX {
            &self.claims
        } else {
            &self.small_claims
        };
        self.step(line, len).await
    }

    async fn step(&self, line: &Semaphore, bytes: usize) -> Option<Step> {
        let received = self.shard.received();
        if let Some(permit) = line.try_acquire(bytes)
            && let Some(buf) = received.alloc(bytes)
        {
            return Some(Step { buf, permit });
        }
        let step = async {
            let permit = line.acquire(bytes).await.ok()?;
            Some(Step { buf: received.alloc_wait(bytes).await, permit })
        };
        self.shard.until(self.shard.now() + TURN_LIMIT, step).await?
    }
}
