//! A shard's memory for frames: slots of one size in one registered buffer. Those for receiving are handed out last in, first out, so
//! that what is used is what is still in the cache; those that frames are copied to, if they are, first in, first out, as a broker's
//! memory of the newest records is.
//!
//! Invariant: a slot is in the hands of one frame, or free. The memory never moves while the ring lives.

use std::collections::VecDeque;

use benches::aligned::{AlignedBuf, round_up};

pub const SLOT_BYTES: usize = 1 << 20;

pub struct Slots {
    memory: AlignedBuf,
    receiving: usize,
    free: Vec<usize>,
    copies_free: VecDeque<usize>,
}

impl Slots {
    /// `copies` of them are for copies.
    pub fn new(receiving: usize, copies: usize) -> Self {
        let memory = AlignedBuf::huge((receiving + copies) * SLOT_BYTES);
        let copies_free = (receiving..receiving + copies).collect();
        Self { memory, receiving, free: (0..receiving).rev().collect(), copies_free }
    }

    /// The whole memory, to register.
    pub fn vector(&mut self) -> libc::iovec {
        libc::iovec { iov_base: self.memory.as_mut_ptr().cast(), iov_len: self.memory.len() }
    }

    pub fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// One for a copy.
    pub fn take_for_copy(&mut self) -> Option<usize> {
        self.copies_free.pop_front()
    }

    pub fn give_back(&mut self, slot: usize) {
        if slot < self.receiving { self.free.push(slot) } else { self.copies_free.push_back(slot) }
    }

    /// Copies the first `len` bytes of a slot to another.
    pub fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.memory.copy_within(from * SLOT_BYTES..from * SLOT_BYTES + len, to * SLOT_BYTES);
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
