//! Buffers lent to the kernel for receives: it picks one when bytes arrive, so that an idle connection holds none.
//!
//! Owner: one shard's driver. A ring of descriptors shared with the kernel names arena blocks; a completed receive takes its
//! block out (it becomes an ordinary slice) and a fresh one takes its place. Where the arena has none to give, the place stays
//! empty until memory returns. Invariants: every block the kernel may write to is owned by `buffers`; the tail moves only
//! after the entry is complete.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::ring::Ring;
use crate::buffer::{Arena, Buf};
use crate::driver::RECV_BYTES;

/// The one group of provided buffers a ring has.
pub(super) const GROUP: u16 = 0;

pub(super) struct Provided {
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    tail: u16,
    /// By buffer id; `None` where the arena had nothing to give.
    buffers: Vec<Option<Buf>>,
    empty: Vec<u16>,
}

impl Provided {
    /// `count` places, a power of two, none of them filled yet.
    pub fn new(ring: &Ring, count: u16) -> io::Result<Self> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "a buffer ring has 2^n places");
        let layout = Layout::array::<BufRingEntry>(usize::from(count))
            .and_then(|layout| layout.align_to(4096))
            .expect("at most 32,768 entries of 16 bytes");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(entries) = NonNull::new(memory.cast::<BufRingEntry>()) else { handle_alloc_error(layout) };
        let this = Self {
            entries,
            layout,
            tail: 0,
            buffers: (0..count).map(|_| None).collect(),
            empty: (0..count).rev().collect(),
        };
        // SAFETY: the memory is page-aligned, holds `count` entries, and lives until `release` has unregistered it (or for ever).
        unsafe { ring.submitter().register_buf_ring_with_flags(memory as u64, count, GROUP, 0)? };
        Ok(this)
    }

    /// Places that hold a block, as far as completions have told.
    pub fn filled(&self) -> usize {
        self.buffers.len() - self.empty.len()
    }

    pub fn is_full(&self) -> bool {
        self.empty.is_empty()
    }

    /// Fills empty places as far as the arena gives.
    pub fn refill(&mut self, arena: &Arena) {
        let before = self.tail;
        while let Some(&id) = self.empty.last() {
            let Some(mut buf) = arena.alloc(RECV_BYTES) else { break };
            self.empty.pop();
            let place = usize::from(self.tail) & (self.buffers.len() - 1);
            // SAFETY: `place` is below the count; the kernel does not read an entry at or beyond the tail, so this is the only reference.
            let entry = unsafe { self.entries.add(place).as_mut() };
            entry.set_addr(buf.as_mut_ptr() as u64);
            entry.set_len(RECV_BYTES as u32);
            entry.set_bid(id);
            self.buffers[usize::from(id)] = Some(buf);
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail != before {
            // SAFETY: the first entry's reserved field is the ring's tail, two bytes, aligned, shared with the kernel; an atomic store is
            // how both sides use it.
            let tail = unsafe { &*BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>() };
            tail.store(self.tail, Ordering::Release);
        }
    }

    /// The block of a completion that names it; its place is empty from here on.
    pub fn take(&mut self, id: u16) -> Buf {
        let buf = self.buffers[usize::from(id)].take().expect("the kernel returns each buffer once");
        self.empty.push(id);
        buf
    }

    /// Ends the kernel's use of the memory; nothing may be in flight, and nothing be lent afterwards.
    pub fn release(&mut self, ring: &Ring) {
        if ring.submitter().unregister_buf_ring(GROUP).is_err() {
            // The kernel still knows the blocks.
            return self.leak();
        }
        self.buffers.clear();
        // SAFETY: allocated in `new` with this layout, no longer registered, and `release` comes once, from the driver's drop.
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) };
    }

    /// Never gives the blocks back: the kernel may still write to them.
    pub fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.buffers));
    }
}
