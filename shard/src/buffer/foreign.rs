//! Slices lent to other shards, and their way home.
//!
//! Owner: [`Home`] is shared by an arena and all slices exported from it; its memory outlives them all. The home shard alone
//! touches headers, slabs and counts; a foreign thread only reads bytes and pushes the node it was given on the return stack
//! (lock-free, no allocation). Life cycle: `export` counts and takes a node; a drop anywhere pushes the node; home drains the
//! stack each turn. Once home is gone the stack is closed: a node is then freed where it drops, and the last slice frees the memory.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::block::{Block, Mapping, Place};
use super::{Owner, Slice};
use crate::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use crate::executor::signal::Signal;
use crate::executor::waker::{Linked, Stack};

/// What an export travels home as.
pub(super) struct Node {
    next: AtomicPtr<Node>,
    block: NonNull<Block>,
}

// SAFETY: `next` is the one and only link, used by nothing but the stack.
unsafe impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl Node {
    pub(super) fn new(block: NonNull<Block>) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self { next: AtomicPtr::new(std::ptr::null_mut()), block })))
    }

    /// Points a drained node at another block.
    pub(super) fn reuse(node: NonNull<Self>, block: NonNull<Block>) {
        // SAFETY: a drained node is owned by the arena alone.
        unsafe { (*node.as_ptr()).block = block }
    }

    pub(super) fn block(node: NonNull<Self>) -> NonNull<Block> {
        // SAFETY: the arena owns a drained node.
        unsafe { node.as_ref().block }
    }

    pub(super) fn free(node: NonNull<Self>) {
        // SAFETY: nodes come from `Box::leak`; each is freed once, by its only owner: the arena's spare list, `Home`, or the
        // foreign slice that found the stack closed.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}

/// The memory of an arena, and the door that its exports come home by.
pub(super) struct Home {
    returned: Stack<Node>,
    /// Someone at home waits for memory: a return then wakes the shard.
    pub(super) wanted: AtomicBool,
    pub(super) signal: OnceLock<Arc<Signal>>,
    memory: std::cell::UnsafeCell<Memory>,
}

#[derive(Default)]
pub(super) struct Memory {
    pub(super) slabs: Vec<Mapping>,
    pub(super) headers: Vec<NonNull<Block>>,
}

// SAFETY: `memory` is touched by the home thread while `ArenaCore` (not `Send`) lives, and by `Drop` afterwards, which `Arc` orders
// after everything else. The other fields are made for sharing.
unsafe impl Send for Home {}
// SAFETY: see above.
unsafe impl Sync for Home {}

impl Home {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            returned: Stack::new(),
            wanted: AtomicBool::new(false),
            signal: OnceLock::new(),
            memory: std::cell::UnsafeCell::new(Memory::default()),
        })
    }

    /// Runs `f` on the memory lists.
    ///
    /// # Safety
    /// Only from the home thread, and `f` does not come back here.
    pub(super) unsafe fn with_memory<R>(&self, f: impl FnOnce(&mut Memory) -> R) -> R {
        // SAFETY: one thread, no re-entry: the reference is exclusive.
        f(unsafe { &mut *self.memory.get() })
    }

    /// Takes what came home. Order does not matter.
    pub(super) fn drain(&self, mut each: impl FnMut(NonNull<Node>)) {
        for node in self.returned.drain() {
            each(node);
        }
    }

    pub(super) fn has_returns(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Closes the door: later drops free their node where they are.
    pub(super) fn close(&self, mut each: impl FnMut(NonNull<Node>)) {
        for node in self.returned.close() {
            each(node);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.returned.drain().for_each(Node::free);
        for header in self.memory.get_mut().headers.drain(..) {
            // SAFETY: headers come from `Box::leak`; no handle is left, since each holds `Home` through `ArenaCore` or an `Arc`.
            drop(unsafe { Box::from_raw(header.as_ptr()) });
        }
    }
}

pub(super) fn new_header() -> NonNull<Block> {
    NonNull::from(Box::leak(Box::new(Block {
        refs: 0.into(),
        exports: 0.into(),
        data: NonNull::dangling().into(),
        capacity: 0.into(),
        part: 0.into(),
        place: Place::Nowhere.into(),
        core: std::cell::Cell::new(std::ptr::null()),
    })))
}

enum ForeignOwner {
    Block {
        node: NonNull<Node>,
        home: Arc<Home>,
    },
    Heap {
        _bytes: Arc<Vec<u8>>,
    },
    /// Exported once more by a shard that is not its home.
    Shared {
        _bytes: Arc<ForeignSlice>,
    },
    Static,
}

/// Read-only bytes of some shard, free to go to any other. Dropping it, anywhere, sends it home.
pub struct ForeignSlice {
    data: NonNull<u8>,
    len: usize,
    owner: ForeignOwner,
}

// SAFETY: the bytes are never written again and stay mapped until the slice is dropped; the node is owned by this slice and
// touched in `drop` only; `Home` and `Arc<Vec<u8>>` are shareable.
unsafe impl Send for ForeignSlice {}
// SAFETY: through a shared reference only the bytes are read.
unsafe impl Sync for ForeignSlice {}

impl ForeignSlice {
    pub(super) fn data(&self) -> NonNull<u8> {
        self.data
    }
}

pub(super) fn export(slice: &Slice) -> ForeignSlice {
    let owner = match &slice.owner {
        Owner::Block(block) => match block.core().export(block) {
            Some((node, home)) => ForeignOwner::Block { node, home },
            // The arena is closed, so nothing would come home: a copy instead.
            None => return export(&Slice::from_vec(slice.to_vec())),
        },
        Owner::Heap(bytes) => ForeignOwner::Heap { _bytes: bytes.clone() },
        Owner::Foreign(bytes) => ForeignOwner::Shared { _bytes: bytes.clone() },
        Owner::Static => ForeignOwner::Static,
    };
    ForeignSlice { data: slice.data, len: slice.len, owner }
}

impl Deref for ForeignSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within initialised bytes that `owner` keeps mapped and that nobody writes any more; what made them visible to
        // this thread is whatever brought the slice here.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl Drop for ForeignSlice {
    fn drop(&mut self) {
        let ForeignOwner::Block { node, home } = &self.owner else { return };
        // SAFETY: the node is ours alone until it is pushed, and not touched by us afterwards.
        match unsafe { home.returned.push(*node) } {
            Ok(()) => {
                // Pairs with the fence before the home shard parks: either it sees the node, or we see that it wants one.
                fence(Ordering::SeqCst);
                if home.wanted.load(Ordering::Relaxed)
                    && let Some(signal) = home.signal.get()
                {
                    signal.notify();
                }
            }
            Err(node) => Node::free(node),
        }
    }
}

impl fmt::Debug for ForeignSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignSlice({} bytes)", self.len)
    }
}
