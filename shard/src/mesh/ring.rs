//! A bounded queue from one shard to another: one producer, one consumer, no lock.
//!
//! Owner: the two shards at its ends. Positions only grow; a slot is the producer's from `head + capacity` to its release of `tail`,
//! and the consumer's from there to its release of `head`. Each side keeps a copy of the other's position and looks again only
//! when the copy says full or empty.
//!
//! This file is one of the homes of `unsafe`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::atomic::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// Two cache lines, since processors fetch lines in pairs.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Next position to pop; written by the consumer.
    head: Padded<AtomicUsize>,
    /// Next position to push; written by the producer.
    tail: Padded<AtomicUsize>,
}

// SAFETY: a slot is accessed by one side at a time, handed over by the release and acquire of `tail` and `head`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: see above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Ordering::Acquire), self.tail.0.load(Ordering::Acquire));
        let mut position = head;
        while position != tail {
            // SAFETY: both ends are gone; positions from head to tail hold values that nobody popped.
            self.slot(position).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            position = position.wrapping_add(1);
        }
    }
}

/// The end that pushes.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: Cell<usize>,
    head_seen: Cell<usize>,
}

/// The end that pops.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: Cell<usize>,
    tail_seen: Cell<usize>,
}

/// A ring with room for at least `capacity` items, rounded up to a power of two.
pub(crate) fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let (head, tail) = (Padded(AtomicUsize::new(0)), Padded(AtomicUsize::new(0)));
    let shared = Arc::new(Shared { slots, head, tail });
    let producer = Producer { shared: shared.clone(), tail: 0.into(), head_seen: 0.into() };
    (producer, Consumer { shared, head: 0.into(), tail_seen: 0.into() })
}

impl<T> Producer<T> {
    pub(crate) fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// How many items were popped so far, as a position that only grows.
    pub(crate) fn popped(&self) -> usize {
        self.head_seen.set(self.shared.head.0.load(Ordering::Acquire));
        self.head_seen.get()
    }

    /// Appends, or gives the item back when there is no room.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let tail = self.tail.get();
        let is_full = |head: usize| tail.wrapping_sub(head) == self.shared.slots.len();
        if is_full(self.head_seen.get()) && is_full(self.popped()) {
            return Err(item);
        }
        // SAFETY: the slot is free (its last item was popped before `head` was released, which we acquired), and only this end, which
        // is neither `Sync` nor `Clone`, writes it.
        self.shared.slot(tail).with_mut(|slot| unsafe {
            (*slot).write(item);
        });
        self.tail.set(tail.wrapping_add(1));
        self.shared.tail.0.store(self.tail.get(), Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.get();
        if head != self.tail_seen.get() {
            return false;
        }
        self.tail_seen.set(self.shared.tail.0.load(Ordering::Acquire));
        head == self.tail_seen.get()
    }

    /// Items to pop; the producer may add to them at any time.
    pub(crate) fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head.get())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let head = self.head.get();
        // SAFETY: the producer wrote the slot before it released `tail`, which we acquired, and writes it again only after our
        // release of `head` below; this end is neither `Sync` nor `Clone`.
        let item = self.shared.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head.set(head.wrapping_add(1));
        self.shared.head.0.store(self.head.get(), Ordering::Release);
        Some(item)
    }
}
