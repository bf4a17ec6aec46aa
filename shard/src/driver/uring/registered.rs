//! Which slabs of the arena the kernel has pinned, so that reads and writes in them need no look-up of pages.
//!
//! Owner: one shard's driver. Pinning a slab faults in every page of it (32 MiB: 10 ms and more), so the helper thread touches
//! the pages first, huge ones where the kernel has them, and the shard then registers what is already there (30 µs; 0.9 ms of
//! small pages). Until that is done, and for ever where the right to
//! lock memory is missing, operations go unregistered: slower, never wrong. Invariant: the arena calls a slab registered only
//! after the kernel has taken it, under the slab's own index.

use std::io;
use std::ptr::NonNull;

use rustix::mm::Advice;

use super::ring::Ring;
use crate::buffer::{Arena, SLAB_BYTES, SlabMemory};

pub(super) struct Registered {
    places: usize,
    /// Said once, then never tried again.
    refused: bool,
    count: usize,
}

/// A slab's memory on its way to the helper and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TouchSlab {
    index: u16,
    address: usize,
    bytes: usize,
}

impl TouchSlab {
    /// Faults in the pages, on the helper thread.
    pub fn run(self) {
        let Some(start) = NonNull::new(self.address as *mut std::ffi::c_void) else { return };
        for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
            // SAFETY: neither changes any content, and where the memory was unmapped meanwhile the call fails or touches a stranger's
            // pages without changing them. A kernel that refuses leaves the faults to the registration.
            let _ = unsafe { rustix::mm::madvise(start.as_ptr(), self.bytes, advice) };
        }
    }
}

impl Registered {
    /// A table with a place for each slab the arena can have.
    pub fn new(ring: &mut Ring, arena: &Arena, wanted: bool) -> Self {
        let places = arena.usage().limit_bytes.div_ceil(SLAB_BYTES).clamp(1, 1 << 14);
        let mut this = Self { places, refused: !wanted, count: 0 };
        if wanted && let Err(error) = ring.submitter().register_buffers_sparse(places as u32) {
            this.refuse(&error);
        }
        this
    }

    /// Slabs that appeared since the last call: to be touched, then given to [`Registered::touched`].
    pub fn to_touch(&self, arena: &Arena) -> Vec<TouchSlab> {
        let slabs = arena.new_slabs();
        let worth = |slab: &SlabMemory| !self.refused && usize::from(slab.index) < self.places;
        let touch =
            |slab: SlabMemory| TouchSlab { index: slab.index, address: slab.data.as_ptr() as usize, bytes: slab.bytes };
        slabs.into_iter().filter(worth).map(touch).collect()
    }

    /// The slab's pages are there: pins them.
    pub fn touched(&mut self, ring: &mut Ring, arena: &Arena, touched: TouchSlab) {
        if self.refused {
            return;
        }
        let piece = libc::iovec { iov_base: touched.address as *mut _, iov_len: touched.bytes };
        ring.stats.other_calls += 1;
        // SAFETY: a slab stays mapped as long as its arena, which the driver keeps until the ring has let go of the buffers.
        match unsafe { ring.submitter().register_buffers_update(u32::from(touched.index), &[piece], None) } {
            Ok(()) => {
                self.count += 1;
                arena.set_registered(touched.index);
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn refuse(&mut self, error: &io::Error) {
        static SAID: std::sync::Once = std::sync::Once::new();
        self.refused = true;
        SAID.call_once(|| {
            tracing::warn!(
                "buffers stay unregistered, which costs CPU on every disk operation: the kernel refuses to lock memory \
                 ({error}); raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l) or grant CAP_IPC_LOCK"
            );
        });
    }

    pub fn count(&self) -> usize {
        self.count
    }
}
