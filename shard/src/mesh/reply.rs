//! The way back of a reply: a parcel that is made with the request, travels with it, and comes home with the answer in it.
//!
//! Owner: the shard that asked makes and frees the parcel; in between it belongs to whoever holds the request. One lane per ordered
//! pair of shards, a lock-free stack that the answering shard pushes on. Nothing is allocated to answer, and nothing can be full:
//! memory for replies is what the requests now outstanding have brought along.
//!
//! This file is one of the homes of `unsafe`.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::atomic::AtomicPtr;
use crate::executor::waker::{Linked, Stack};

/// A request on its way there, a reply on its way back.
pub(super) struct Parcel<M> {
    next: AtomicPtr<Parcel<M>>,
    /// Which request, in the table of the shard that asked.
    pub slot: u32,
    /// The question there, the answer back; `None` on the way back when the handler went away without one.
    pub message: Option<M>,
}

// SAFETY: `next` is the one link, used by the stack only.
unsafe impl<M> Linked for Parcel<M> {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl<M> Parcel<M> {
    pub fn new(slot: u32, message: M) -> Box<Self> {
        Box::new(Self { next: AtomicPtr::new(std::ptr::null_mut()), slot, message: Some(message) })
    }
}

/// Parcels coming back from one shard to another.
pub(super) struct ReplyLane<M> {
    returned: Stack<Parcel<M>>,
}

impl<M: Send> ReplyLane<M> {
    pub fn new() -> Self {
        Self { returned: Stack::new() }
    }

    pub fn send(&self, parcel: Box<Parcel<M>>) {
        let parcel = NonNull::from(Box::leak(parcel));
        // SAFETY: just made from a box, so alive, ours, and on no stack; the stack owns it from here.
        let pushed = unsafe { self.returned.push(parcel) };
        assert!(pushed.is_ok(), "the lane is never closed");
    }

    pub fn is_empty(&self) -> bool {
        self.returned.is_empty()
    }

    /// Takes what came back, in the order it was sent.
    pub fn take(&self) -> impl Iterator<Item = Box<Parcel<M>>> + use<M> {
        // SAFETY: pushed by `send` from a box; each is yielded once.
        self.returned.drain().reversed().map(|parcel| unsafe { Box::from_raw(parcel.as_ptr()) })
    }
}

impl<M> Drop for ReplyLane<M> {
    fn drop(&mut self) {
        for parcel in self.returned.drain() {
            // SAFETY: as in `take`.
            drop(unsafe { Box::from_raw(parcel.as_ptr()) });
        }
    }
}
