//! A buffer that grows at its end while others read what is already there: the tail of a log.
//!
//! Owner: one writer on the arena's shard. Invariant: bytes below `len` are never written again, so slices of them, local or
//! foreign, stay valid while the writer goes on; the writer only touches bytes that no slice reaches.

use std::fmt;
use std::ops::RangeBounds;

use super::{Buf, Slice, block::BlockRef, bounds};

/// One writer appends; readers hold [`Slice`]s of the written prefix.
pub struct AppendBuf {
    block: BlockRef,
    len: usize,
}

impl AppendBuf {
    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.capacity() - self.len
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// When they do not fit: see [`AppendBuf::remaining`].
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.remaining(), "{} bytes into {} of room", bytes.len(), self.remaining());
        // SAFETY: the target lies within the block and beyond `len`, where no slice reaches and no other writer is (`&mut self` of
        // the only writer); `bytes` is elsewhere, as a reference into that part cannot exist. Raw copy: no `&mut` over bytes being read.
        unsafe {
            let end = self.block.data().as_ptr().add(self.len);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
        }
        self.len += bytes.len();
    }

    /// Part of what is written; it keeps the block alive.
    ///
    /// # Panics
    /// When the range does not lie within the written prefix.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice {
        let (start, end) = bounds(range, self.len);
        Slice::from_block(self.block.clone(), start, end - start)
    }
}

impl From<Buf> for AppendBuf {
    /// Goes on after the bytes in use.
    fn from(buf: Buf) -> Self {
        Self { block: buf.block, len: buf.len }
    }
}

impl fmt::Debug for AppendBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendBuf({} of {} bytes)", self.len, self.capacity())
    }
}
