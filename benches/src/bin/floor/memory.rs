//! A shard's memory for frames: slots of one size in one registered buffer, handed out last in, first out, so that what is
//! used is what is still in the cache.
//!
//! Invariant: a slot is in the hands of one frame, or free. The memory never moves while the ring lives.

use benches::aligned::{AlignedBuf, round_up};

pub const SLOT_BYTES: usize = 1 << 20;

pub struct Slots {
    memory: AlignedBuf,
    free: Vec<usize>,
}

impl Slots {
    pub fn new(count: usize) -> Self {
        Self { memory: AlignedBuf::huge(count * SLOT_BYTES), free: (0..count).rev().collect() }
    }

    /// The whole memory, to register.
    pub fn vector(&mut self) -> libc::iovec {
        libc::iovec { iov_base: self.memory.as_mut_ptr().cast(), iov_len: self.memory.len() }
    }

    pub fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    pub fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot * SLOT_BYTES..(slot + 1) * SLOT_BYTES]
    }

    /// The first `len` bytes of a slot in whole blocks, to write.
    pub fn blocks(&mut self, slot: usize, len: usize) -> libc::iovec {
        let bytes = &mut self.bytes(slot)[..round_up(len)];
        libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
    }
}
