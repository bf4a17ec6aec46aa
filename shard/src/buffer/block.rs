//! Blocks and the memory they lie in: mappings, headers, the local reference count.
//!
//! Owner: the arena's shard. A header outlives its block: headers are recycled while the arena lives and freed with [`super::foreign::Home`].

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;

use super::arena::ArenaCore;

/// Memory of one slab, or of one block too large for a slab. All bytes are zero, hence initialised, when it is new.
pub(super) struct Mapping {
    data: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` (a multiple of 4 KiB) of zeroed memory; pages come into being when first touched.
    #[cfg(not(miri))]
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let data = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if data == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let data = NonNull::new(data.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { data, bytes })
    }

    #[cfg(miri)]
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: the layout is not empty.
        let data = unsafe { std::alloc::alloc_zeroed(Self::layout(bytes)) };
        Ok(Self { data: NonNull::new(data).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }

    #[cfg(miri)]
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, super::BLOCK_BYTES).expect("a multiple of the block size")
    }

    pub(super) fn data(&self) -> NonNull<u8> {
        self.data
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        // SAFETY: the mapping is our own and whole, and whoever drops it knows that no block in it is in use.
        let code = unsafe { libc::munmap(self.data.as_ptr().cast(), self.bytes) };
        #[cfg(not(miri))]
        debug_assert_eq!(code, 0, "unmapping our own mapping does not fail");
        #[cfg(miri)]
        // SAFETY: allocated by `new` with this layout; see above.
        unsafe {
            std::alloc::dealloc(self.data.as_ptr(), Self::layout(self.bytes));
        }
    }
}

/// Where a block's memory comes from and goes back to.
pub(super) enum Place {
    Slab {
        slab: u16,
        unit: u16,
        order: u8,
    },
    /// Larger than the largest class: a mapping of its own.
    Direct(Mapping),
    /// No block: the header is spare, or its arena is gone and its memory belongs to `Home` for good.
    Nowhere,
}

/// The header of a block.
pub(super) struct Block {
    /// Handles: local ones, and one for each export that has not come home.
    pub(super) refs: Cell<u32>,
    /// Exports that have not come home.
    pub(super) exports: Cell<u32>,
    pub(super) data: Cell<NonNull<u8>>,
    pub(super) capacity: Cell<usize>,
    /// The part of the arena that it counts against.
    pub(super) part: Cell<u8>,
    pub(super) place: Cell<Place>,
    /// `Rc::into_raw` while `refs > 0`; null otherwise.
    pub(super) core: Cell<*const ArenaCore>,
}

/// One local handle on a block.
pub(super) struct BlockRef(NonNull<Block>);

impl BlockRef {
    /// A first handle on the block behind `header`, whose count must be zero.
    ///
    /// # Safety
    /// `header` lives as long as `core`'s `Home`, and its data and capacity are set to memory that stays mapped until it is freed.
    pub(super) unsafe fn first(header: NonNull<Block>, core: Rc<ArenaCore>) -> Self {
        // SAFETY: the caller vouches that the header is alive; headers are only reached from their home thread.
        let block = unsafe { header.as_ref() };
        assert_eq!(block.refs.replace(1), 0, "a block is allocated once at a time");
        block.core.set(Rc::into_raw(core));
        Self(header)
    }

    fn header(&self) -> &Block {
        // SAFETY: a header is freed with `Home` only, which the `ArenaCore` held by this block (refs > 0) keeps alive, or, after the
        // arena closed, `ArenaCore` still: local handles hold it through `core`.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn as_ptr(&self) -> NonNull<Block> {
        self.0
    }

    pub(super) fn data(&self) -> NonNull<u8> {
        self.header().data.get()
    }

    pub(super) fn capacity(&self) -> usize {
        self.header().capacity.get()
    }

    pub(super) fn core(&self) -> &ArenaCore {
        // SAFETY: `core` was made by `Rc::into_raw` and is given back only when the count falls to zero, that is after this handle.
        unsafe { &*self.header().core.get() }
    }

    pub(super) fn fixed_index(&self) -> Option<u16> {
        let block = self.header();
        let place = block.place.replace(Place::Nowhere);
        let slab = if let Place::Slab { slab, .. } = place { Some(slab) } else { None };
        block.place.set(place);
        slab.filter(|&slab| self.core().is_registered(slab))
    }

    /// No other handle, local or export, reads the block.
    pub(super) fn is_unique(&self) -> bool {
        self.header().refs.get() == 1
    }

    /// Counts one more export, which holds the block as a handle does.
    pub(super) fn count_export(&self) {
        let block = self.header();
        block.refs.set(block.refs.get() + 1);
        block.exports.set(block.exports.get() + 1);
    }
}

impl Clone for BlockRef {
    fn clone(&self) -> Self {
        let refs = &self.header().refs;
        refs.set(refs.get().checked_add(1).expect("fewer than 2^32 handles on one block"));
        Self(self.0)
    }
}

impl Drop for BlockRef {
    fn drop(&mut self) {
        // SAFETY: this handle is counted, and it is not used after this call.
        unsafe { release(self.0, 1) }
    }
}

/// Gives up `handles` counted handles; the last one frees the block.
///
/// # Safety
/// The header is alive, the caller is on its home thread, and owns that many handles, which it no longer uses.
pub(super) unsafe fn release(header: NonNull<Block>, handles: u32) {
    // SAFETY: alive, by the contract above.
    let block = unsafe { header.as_ref() };
    let refs = block.refs.get().checked_sub(handles).expect("a handle is given up once");
    block.refs.set(refs);
    if refs == 0 {
        let core = block.core.replace(std::ptr::null());
        // SAFETY: from `Rc::into_raw` in `first`; replaced by null, so it is taken back once.
        let core = unsafe { Rc::from_raw(core) };
        core.free(header, block.place.replace(Place::Nowhere), block.capacity.get());
    }
}
