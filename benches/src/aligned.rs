//! Memory for O_DIRECT: aligned to 4 KiB or more, of a length that never changes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What O_DIRECT needs on every common device: positions, lengths and addresses in multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// A huge page on x86-64 and, as a rule, on arm64.
const HUGE_BYTES: usize = 2 << 20;

/// `bytes` rounded up to whole blocks.
#[must_use]
pub fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Zeroed memory that begins at a block boundary.
#[derive(Debug)]
pub struct AlignedBuf {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory alone, as a `Vec` does.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// # Panics
    /// For a length of zero, or above `isize::MAX`.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::with_alignment(len, BLOCK_BYTES)
    }

    /// Memory that the kernel is asked to back with huge pages, for what is pinned once and written to disk often.
    ///
    /// # Panics
    /// As `zeroed`.
    #[must_use]
    pub fn huge(len: usize) -> Self {
        let buf = Self::with_alignment(len, HUGE_BYTES);
        // SAFETY: the range is this buffer's own. The advice may be ignored, and changes no content.
        unsafe { libc::madvise(buf.start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        buf
    }

    fn with_alignment(len: usize, alignment: usize) -> Self {
        assert!(len > 0, "an empty buffer");
        let layout = Layout::from_size_align(len, alignment).expect("a length that fits the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for the layout's size in initialised bytes, for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably, so nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
