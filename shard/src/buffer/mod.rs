//! Memory for bytes that move: one arena per shard, unique buffers, shared slices, and slices lent to other shards.
//!
//! Owner: the shard whose [`Arena`] it is; nothing here is `Send` but [`ForeignSlice`]. Life of a block: `alloc` gives a unique
//! [`Buf`] (or [`AppendBuf`]); `freeze` makes it a shared, read-only [`Slice`]; the last handle gives the block back to the
//! arena. Reference counts are not atomic: a slice that crosses to another shard is exported, which counts at home, and its drop
//! over there only pushes a node on the home arena's return stack.
//!
//! Invariants: a byte that a `Slice` can reach is never written again; arena memory is initialised (zeroed by the kernel) from the
//! moment it is mapped; a block goes back to the arena when no handle, local or foreign, is left, and exactly once.
//!
//! This folder is one of the homes of `unsafe`: `block.rs`, `append.rs`, `foreign.rs` and this file.
#![allow(unsafe_code)]

mod append;
mod arena;
mod block;
mod buddy;
mod foreign;

use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::Arc;

pub use append::AppendBuf;
pub use arena::{AllocWait, Arena, ArenaUsage, BLOCK_BYTES, CLASS_BYTES_MAX, SLAB_BYTES, SlabMemory};
pub use foreign::ForeignSlice;

use block::BlockRef;

/// A unique, writable buffer: 4 KiB aligned, `len` of its `capacity` bytes in use. Dropping it returns the block.
pub struct Buf {
    block: BlockRef,
    len: usize,
}

impl Buf {
    fn new(block: BlockRef, len: usize) -> Self {
        assert!(len <= block.capacity());
        Self { block, len }
    }

    /// Bytes that fit; at least what was asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Sets how many bytes are in use. Bytes beyond the old length hold whatever was last there.
    ///
    /// # Panics
    /// When `len` exceeds the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length {len} exceeds the capacity {}", self.capacity());
        self.len = len;
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.set_len(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Appends zeros up to the next multiple of `alignment`; direct writes want whole blocks.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn pad_to(&mut self, alignment: usize) {
        let start = self.len;
        self.set_len(start.next_multiple_of(alignment));
        self[start..].fill(0);
    }

    /// Makes the bytes in use read-only and shareable, without a copy.
    #[must_use]
    pub fn freeze(self) -> Slice {
        Slice { data: self.block.data(), len: self.len, owner: Owner::Block(self.block) }
    }

    /// Where the block starts, for a driver that hands it to the kernel; valid for `capacity()` bytes while the buffer lives.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.block.data().as_ptr()
    }

    /// The index of the registered buffer that the block lies in, if its slab is registered with the driver.
    #[must_use]
    pub fn fixed_index(&self) -> Option<u16> {
        self.block.fixed_index()
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: arena memory is initialised and `len <= capacity`; `Buf` is the block's only handle, so nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.block.data().as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` of the only handle makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.block.data().as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len, self.capacity())
    }
}

/// What keeps a slice's bytes alive.
#[derive(Clone)]
enum Owner {
    Block(BlockRef),
    Heap(Arc<Vec<u8>>),
    Foreign(Arc<ForeignSlice>),
    Static,
}

/// Shared, read-only bytes. Cloning and slicing copy nothing and keep the whole block alive.
#[derive(Clone)]
pub struct Slice {
    data: NonNull<u8>,
    len: usize,
    owner: Owner,
}

impl Slice {
    /// Bytes on the heap: for small encoded headers, not bounded by the arena.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Self { data: NonNull::from(bytes.as_slice()).cast(), len: bytes.len(), owner: Owner::Heap(bytes) }
    }

    #[must_use]
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self { data: NonNull::from(bytes).cast(), len: bytes.len(), owner: Owner::Static }
    }

    /// Bytes of another shard, usable here as one's own without a copy: to send what a partition elsewhere holds.
    #[must_use]
    pub fn from_foreign(bytes: ForeignSlice) -> Self {
        let (data, len) = (bytes.data(), bytes.len());
        Self { data, len, owner: Owner::Foreign(Arc::new(bytes)) }
    }

    fn from_block(block: BlockRef, start: usize, len: usize) -> Self {
        assert!(start + len <= block.capacity());
        // SAFETY: `start` is within the block, as just asserted.
        let data = unsafe { block.data().add(start) };
        Self { data, len, owner: Owner::Block(block) }
    }

    /// A part of it; no copy.
    ///
    /// # Panics
    /// When the range does not lie within the slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = bounds(range, self.len);
        // SAFETY: `start <= end <= len`, so the pointer stays within the bytes that `owner` keeps alive.
        let data = unsafe { self.data.add(start) };
        Self { data, len: end - start, owner: self.owner.clone() }
    }

    /// Takes the first `at` bytes off the front and returns them.
    ///
    /// # Panics
    /// When `at` exceeds the length.
    #[must_use]
    pub fn split_to(&mut self, at: usize) -> Self {
        let front = self.slice(..at);
        *self = self.slice(at..);
        front
    }

    /// The whole block as a buffer again, empty, if this is the last handle on it.
    ///
    /// # Errors
    /// The slice: others still read the block, or it is not of an arena.
    pub fn into_buf(self) -> Result<Buf, Self> {
        match self.owner {
            Owner::Block(block) if block.is_unique() => Ok(Buf::new(block, 0)),
            owner => Err(Self { data: self.data, len: self.len, owner }),
        }
    }

    /// The same bytes as something that may go to another shard. Home keeps the block until the foreign slice is dropped.
    #[must_use]
    pub fn export(&self) -> ForeignSlice {
        foreign::export(self)
    }

    /// The index of the registered buffer that the bytes lie in, if their slab is registered with this shard's driver.
    #[must_use]
    pub fn fixed_index(&self) -> Option<u16> {
        match &self.owner {
            Owner::Block(block) => block.fixed_index(),
            Owner::Heap(_) | Owner::Foreign(_) | Owner::Static => None,
        }
    }

    /// True when the bytes belong to another shard's arena: what is held of them counts against that shard's memory.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self.owner, Owner::Foreign(_))
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `data` and `len` lie within initialised bytes that `owner` keeps alive and that nobody writes any more.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::from_static(&[])
    }
}

impl From<Buf> for Slice {
    fn from(buf: Buf) -> Self {
        buf.freeze()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}

/// Resolves a range against a length.
fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} of {len} bytes");
    (start, end)
}

#[cfg(test)]
mod tests;
