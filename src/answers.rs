//! What answers on their way to slow readers may keep of the shards' memory.
//!
//! Owner: a shard, for its connections. A fetched record is sent from where it lies, in a log's tail or in a block read from disk,
//! so a reader that does not take its answer keeps that memory. Rule: one answer gets a quarter of what is left, and at least
//! [`SHARE_BYTES_MIN`], so that readers that have stopped slow the others down and starve nobody; the first batch of an answer comes
//! whatever its size. Bound: half of what the tails of one shard may have, over the readers of all shards.

use std::cell::Cell;
use std::rc::Rc;

/// The least that an answer is given.
const SHARE_BYTES_MIN: usize = 64 << 10;

/// The bytes of a shard's answers. Clones are the same.
#[derive(Clone)]
pub struct AnswerMemory(Rc<Inner>);

struct Inner {
    bytes_limit: usize,
    held_bytes: Cell<usize>,
}

/// Bytes that an answer keeps, until it is dropped.
pub struct Held {
    memory: AnswerMemory,
    bytes: usize,
}

impl AnswerMemory {
    #[must_use]
    pub fn new(bytes_limit: usize) -> Self {
        Self(Rc::new(Inner { bytes_limit, held_bytes: Cell::new(0) }))
    }

    /// What the next answer may take.
    #[must_use]
    pub fn share_bytes(&self) -> usize {
        (self.0.bytes_limit.saturating_sub(self.0.held_bytes.get()) / 4).max(SHARE_BYTES_MIN)
    }

    /// Counts an answer of `bytes`.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> Held {
        self.0.held_bytes.set(self.0.held_bytes.get() + bytes);
        Held { memory: self.clone(), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held_bytes = &self.memory.0.held_bytes;
        held_bytes.set(held_bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_what_is_left() {
        let memory = AnswerMemory::new(64 << 20);
        let mut held = Vec::new();
        for expected in [16 << 20, 12 << 20, 9 << 20] {
            assert_eq!(memory.share_bytes(), expected);
            held.push(memory.hold(expected));
        }
        held.extend((0..100).map(|_| memory.hold(memory.share_bytes())));
        assert_eq!(memory.share_bytes(), SHARE_BYTES_MIN);
        drop(held);
        assert_eq!(memory.share_bytes(), 16 << 20);
    }
}
