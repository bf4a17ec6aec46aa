//! The arena: blocks in power-of-two classes carved from lazily mapped slabs, under one bound.
//!
//! Owner: one shard. Blocks of 4 KiB to 4 MiB come from slabs of 32 MiB by a buddy allocator each; larger ones, and those that no
//! slab has room for in one piece, get a mapping of their own and count against the same bound. Slabs stay mapped and registered
//! once made, since registering costs far more than keeping; the bound limits the bytes in use, rounded up to classes. Who finds
//! the bound reached gets `None` or waits in line; while someone waits, nobody overtakes.
//!
//! Parts: uses that could take everything and then wait for each other have a bound of their own each (received requests wait for
//! the log, the log's memory waits for the disk, writes to the disk need memory). A part's blocks count against its own bound and
//! the whole's; each part has its own line, so one that is used up delays nobody else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Buf;
use super::block::{Block, BlockRef, Mapping, Place, release};
use super::buddy::Buddy;
use super::foreign::{Home, Node, new_header};
use crate::atomic::Ordering;
use crate::executor::signal::Signal;

/// The smallest block, and the alignment of all.
pub const BLOCK_BYTES: usize = 4 * base::KIB;
/// The largest block that is carved from a slab.
pub const CLASS_BYTES_MAX: usize = BLOCK_BYTES << ORDER_MAX;
/// What is mapped, and registered with the driver, at a time.
pub const SLAB_BYTES: usize = BLOCK_BYTES << SLAB_ORDER;

const ORDER_MAX: u8 = if cfg!(miri) { 4 } else { 10 };
const SLAB_ORDER: u8 = if cfg!(miri) { 5 } else { 13 };

/// Export nodes kept for the next export; more are freed. Enough for the slices that two shards keep in flight.
const SPARE_NODES_MAX: usize = 4096;

/// How full an arena, or a part of one, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaUsage {
    /// Bytes in blocks that are in use, rounded up to their class.
    pub used_bytes: usize,
    /// Named bound: of the whole, the arena's share of the `memory` setting.
    pub limit_bytes: usize,
    /// The most ever in use.
    pub used_bytes_max: usize,
    /// Requests that wait for returned blocks.
    pub waiting: usize,
}

/// A slab to be registered with the driver.
#[derive(Clone, Copy, Debug)]
pub struct SlabMemory {
    pub index: u16,
    pub data: NonNull<u8>,
    pub bytes: usize,
}

/// A shard's memory for buffers, or a part of it. A handle: clones are the same.
#[derive(Clone)]
pub struct Arena {
    core: Rc<ArenaCore>,
    part: u8,
}

/// The part that is the whole.
const WHOLE: u8 = 0;

pub(super) struct ArenaCore {
    pool: RefCell<Pool>,
    home: Arc<Home>,
    closed: Cell<bool>,
}

struct Pool {
    /// The first one is the whole: every block counts there.
    parts: Vec<Part>,
    slabs: Vec<Slab>,
    /// The slab that gave the last block: the next one likely comes from there too.
    slab_hint: usize,
    /// Slabs that the driver has not been told about start here.
    registered_upto: usize,
    spare_headers: Vec<NonNull<Block>>,
    spare_nodes: Vec<NonNull<Node>>,
    next_waiter: u64,
}

struct Part {
    limit_bytes: usize,
    used_bytes: usize,
    used_bytes_max: usize,
    waiters: VecDeque<Waiter>,
}

impl Part {
    fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: 0, used_bytes_max: 0, waiters: VecDeque::new() }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes + bytes <= self.limit_bytes
    }

    fn count(&mut self, bytes: usize) {
        self.used_bytes += bytes;
        self.used_bytes_max = self.used_bytes_max.max(self.used_bytes);
    }
}

struct Slab {
    buddy: Buddy,
    data: NonNull<u8>,
    registered: bool,
}

struct Waiter {
    id: u64,
    len: usize,
    waker: Option<Waker>,
    granted: Option<Buf>,
}

impl Arena {
    /// An empty arena that never has more than `limit_bytes` in use.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        let core = Rc::new(ArenaCore {
            pool: RefCell::new(Pool {
                parts: vec![Part::new(limit_bytes)],
                slabs: Vec::new(),
                slab_hint: 0,
                registered_upto: 0,
                spare_headers: Vec::new(),
                spare_nodes: Vec::new(),
                next_waiter: 0,
            }),
            home: Home::new(),
            closed: Cell::new(false),
        });
        Self { core, part: WHOLE }
    }

    /// A new part: of what is allocated through it never more than `limit_bytes` are in use.
    ///
    /// # Panics
    /// For the 256th part.
    #[must_use]
    pub fn part(&self, limit_bytes: usize) -> Self {
        let mut pool = self.core.pool.borrow_mut();
        let limit_bytes = limit_bytes.min(pool.part(WHOLE).limit_bytes);
        pool.parts.push(Part::new(limit_bytes));
        let part = u8::try_from(pool.parts.len() - 1).expect("an arena has a few parts");
        Self { core: self.core.clone(), part }
    }

    /// An empty buffer of at least `len` bytes of capacity, or `None` when the bound is reached or others already wait.
    #[must_use]
    pub fn alloc(&self, len: usize) -> Option<Buf> {
        if self.core.home.has_returns() && self.core.is_tight(self.part, len) {
            self.reclaim();
        }
        if !self.core.pool.borrow().part(self.part).waiters.is_empty() {
            return None;
        }
        self.core.try_alloc(self.part, len)
    }

    /// As [`Arena::alloc`], but waits in line for returned blocks. Dropping the future leaves the line.
    ///
    /// # Panics
    /// When `len` exceeds the whole bound: such a wait would never end.
    pub fn alloc_wait(&self, len: usize) -> AllocWait {
        let limit = self.core.pool.borrow().part(self.part).limit_bytes;
        assert!(class_bytes(len) <= limit, "{len} bytes never fit into an arena of {limit}");
        AllocWait { arena: self.clone(), len, waiter: None }
    }

    #[must_use]
    pub fn usage(&self) -> ArenaUsage {
        let pool = self.core.pool.borrow();
        let part = pool.part(self.part);
        ArenaUsage {
            used_bytes: part.used_bytes,
            limit_bytes: part.limit_bytes,
            used_bytes_max: part.used_bytes_max,
            waiting: part.waiters.len(),
        }
    }

    /// Takes back what other shards dropped. True when there was something.
    pub(crate) fn reclaim(&self) -> bool {
        let core = &self.core;
        let mut any = false;
        core.home.drain(|node| {
            any = true;
            core.take_home(node);
        });
        any
    }

    /// True when a parked shard must get up: a block came home and someone waits for memory.
    pub(crate) fn has_wanted_returns(&self) -> bool {
        self.core.home.wanted.load(Ordering::Relaxed) && self.core.home.has_returns()
    }

    pub(crate) fn set_signal(&self, signal: Arc<Signal>) {
        // Set once, by the shard that the arena was made for; a second shard would find its own arena.
        let _ = self.core.home.signal.set(signal);
    }

    /// Slabs that appeared since the last call, for the driver to register.
    pub(crate) fn new_slabs(&self) -> Vec<SlabMemory> {
        let mut pool = self.core.pool.borrow_mut();
        let count = pool.slabs.len();
        let from = std::mem::replace(&mut pool.registered_upto, count);
        (from..count)
            .map(|index| SlabMemory { index: index as u16, data: pool.slabs[index].data, bytes: SLAB_BYTES })
            .collect()
    }

    pub(crate) fn has_new_slabs(&self) -> bool {
        let pool = self.core.pool.borrow();
        pool.registered_upto < pool.slabs.len()
    }

    /// The driver took the slab as a fixed buffer of the same index.
    pub(crate) fn set_registered(&self, index: u16) {
        self.core.pool.borrow_mut().slabs[usize::from(index)].registered = true;
    }

    /// No thread will reclaim any more: exports that are out keep their memory until they are dropped, wherever that is.
    pub(crate) fn close(&self) {
        self.core.close();
    }
}

impl ArenaCore {
    /// True when an allocation of `len` needs what others hold.
    fn is_tight(&self, part: u8, len: usize) -> bool {
        let pool = self.pool.borrow();
        let is_tight =
            |part: &Part| !part.waiters.is_empty() || part.used_bytes + class_bytes(len) > part.limit_bytes / 2;
        is_tight(pool.part(WHOLE)) || is_tight(pool.part(part))
    }

    fn try_alloc(self: &Rc<Self>, part: u8, len: usize) -> Option<Buf> {
        let (header, bytes) = self.pool.borrow_mut().take(&self.home, part, len)?;
        // SAFETY: `take` set the header to a block of `bytes` that stays mapped until it is given back to the pool.
        let block = unsafe { BlockRef::first(header, self.clone()) };
        debug_assert!(bytes >= len);
        Some(Buf::new(block, 0))
    }

    /// The last handle of a block is gone.
    pub(super) fn free(self: Rc<Self>, header: NonNull<Block>, place: Place, capacity: usize) {
        {
            let mut pool = self.pool.borrow_mut();
            match place {
                // The arena closed while an export was out: the memory stays with `Home`.
                Place::Nowhere => return,
                Place::Slab { slab, unit, order } => pool.slabs[usize::from(slab)].buddy.give_back(unit, order),
                Place::Direct(mapping) => drop(mapping),
            }
            // SAFETY: headers live as long as `Home`, which `self` holds.
            let part = unsafe { header.as_ref() }.part.get();
            pool.uncount(part, capacity);
            pool.spare_headers.push(header);
        }
        self.serve();
    }

    /// Hands free memory to those in line, first come first served in each part.
    fn serve(self: &Rc<Self>) {
        let parts = self.pool.borrow().parts.len() as u8;
        let mut all_served = true;
        for part in 0..parts {
            all_served &= self.serve_part(part);
        }
        if all_served && self.home.wanted.load(Ordering::Relaxed) {
            self.home.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// True when nobody is left in the part's line.
    fn serve_part(self: &Rc<Self>, part: u8) -> bool {
        loop {
            let waiting = {
                let pool = self.pool.borrow();
                let waiters = &pool.part(part).waiters;
                // Those granted but not yet gone are always in front.
                waiters.iter().position(|waiter| waiter.granted.is_none()).map(|index| (index, waiters[index].len))
            };
            let Some((index, len)) = waiting else { return true };
            let Some(buf) = self.try_alloc(part, len) else { return false };
            let waker = {
                let mut pool = self.pool.borrow_mut();
                let waiter = &mut pool.part_mut(part).waiters[index];
                waiter.granted = Some(buf);
                waiter.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Counts an export; `None` once the arena is closed.
    pub(super) fn export(&self, block: &BlockRef) -> Option<(NonNull<Node>, Arc<Home>)> {
        if self.closed.get() {
            return None;
        }
        block.count_export();
        let spare = self.pool.borrow_mut().spare_nodes.pop();
        let node = match spare {
            Some(node) => {
                Node::reuse(node, block.as_ptr());
                node
            }
            None => Node::new(block.as_ptr()),
        };
        Some((node, self.home.clone()))
    }

    /// An export came home.
    fn take_home(&self, node: NonNull<Node>) {
        let header = Node::block(node);
        {
            let mut pool = self.pool.borrow_mut();
            if pool.spare_nodes.len() < SPARE_NODES_MAX && !self.closed.get() {
                pool.spare_nodes.push(node);
            } else {
                Node::free(node);
            }
        }
        // SAFETY: the export counted one handle, which ends here; headers live as long as `Home`, which `self` holds.
        unsafe {
            let exports = &header.as_ref().exports;
            exports.set(exports.get() - 1);
            release(header, 1);
        }
    }

    fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        self.home.close(|node| self.take_home(node));
        // What is still out never comes home: let go of its counts and leave its memory to `Home`.
        // SAFETY: home thread (`self` is not `Send`); the closure only copies pointers.
        let headers: Vec<_> = unsafe { self.home.with_memory(|memory| memory.headers.clone()) };
        for header in headers {
            // SAFETY: headers live as long as `Home`.
            let block = unsafe { header.as_ref() };
            let exports = block.exports.replace(0);
            if exports == 0 {
                continue;
            }
            if let Place::Direct(mapping) = block.place.replace(Place::Nowhere) {
                // SAFETY: as above.
                unsafe { self.home.with_memory(|memory| memory.slabs.push(mapping)) };
            }
            // SAFETY: these handles were the exports', which no longer count.
            unsafe { release(header, exports) };
        }
    }

    pub(super) fn is_registered(&self, slab: u16) -> bool {
        self.pool.borrow().slabs[usize::from(slab)].registered
    }
}

impl Drop for ArenaCore {
    fn drop(&mut self) {
        self.pool.get_mut().spare_nodes.drain(..).for_each(Node::free);
    }
}

impl Pool {
    fn part(&self, part: u8) -> &Part {
        &self.parts[usize::from(part)]
    }

    fn part_mut(&mut self, part: u8) -> &mut Part {
        &mut self.parts[usize::from(part)]
    }

    fn count(&mut self, part: u8, bytes: usize) {
        self.part_mut(WHOLE).count(bytes);
        if part != WHOLE {
            self.part_mut(part).count(bytes);
        }
    }

    fn uncount(&mut self, part: u8, bytes: usize) {
        self.part_mut(WHOLE).used_bytes -= bytes;
        if part != WHOLE {
            self.part_mut(part).used_bytes -= bytes;
        }
    }

    /// Sets up a header for a block of at least `len` bytes; `None` at a bound.
    fn take(&mut self, home: &Home, part: u8, len: usize) -> Option<(NonNull<Block>, usize)> {
        let bytes = class_bytes(len);
        if !self.part(WHOLE).has_room(bytes) || !self.part(part).has_room(bytes) {
            return None;
        }
        let is_class = bytes <= CLASS_BYTES_MAX;
        let carved = if is_class { self.carve(home, (bytes / BLOCK_BYTES).ilog2() as u8) } else { None };
        // Slabs full of small blocks must not refuse a large one that the bound allows: who waits for it, and all behind him, might
        // wait for ever. It gets a mapping of its own.
        let (place, data) = carved.or_else(|| direct(bytes))?;
        self.count(part, bytes);
        let header = self.spare_headers.pop().unwrap_or_else(|| {
            let header = new_header();
            // SAFETY: home thread; the closure only pushes.
            unsafe { home.with_memory(|memory| memory.headers.push(header)) };
            header
        });
        // SAFETY: headers live as long as `Home`; a spare one has no handle.
        let block = unsafe { header.as_ref() };
        block.data.set(data);
        block.capacity.set(bytes);
        block.part.set(part);
        block.place.set(place);
        Some((header, bytes))
    }

    fn carve(&mut self, home: &Home, order: u8) -> Option<(Place, NonNull<u8>)> {
        let count = self.slabs.len();
        let found = (0..count).map(|step| (self.slab_hint + step) % count).find_map(|index| {
            let buddy = &mut self.slabs[index].buddy;
            if buddy.free_units() < 1 << order { None } else { buddy.take(order).map(|unit| (index, unit)) }
        });
        let (index, unit) = match found {
            Some(found) => found,
            None => {
                self.map_slab(home)?;
                let unit = self.slabs[count].buddy.take(order).expect("a new slab is larger than any class");
                (count, unit)
            }
        };
        self.slab_hint = index;
        // SAFETY: the buddy hands out units of this slab only.
        let data = unsafe { self.slabs[index].data.add(usize::from(unit) * BLOCK_BYTES) };
        Some((Place::Slab { slab: index as u16, unit, order }, data))
    }

    /// One more slab. Refused beyond what the bound can fill, so that fragmentation cannot grow the arena without limit.
    fn map_slab(&mut self, home: &Home) -> Option<()> {
        let slabs_max = self.part(WHOLE).limit_bytes.div_ceil(SLAB_BYTES).min(usize::from(u16::MAX));
        if self.slabs.len() >= slabs_max {
            return None;
        }
        let mapping = map(SLAB_BYTES)?;
        self.slabs.push(Slab { buddy: Buddy::new(SLAB_ORDER), data: mapping.data(), registered: false });
        // SAFETY: home thread; the closure only pushes.
        unsafe { home.with_memory(|memory| memory.slabs.push(mapping)) };
        Some(())
    }
}

fn direct(bytes: usize) -> Option<(Place, NonNull<u8>)> {
    let mapping = map(bytes)?;
    let data = mapping.data();
    Some((Place::Direct(mapping), data))
}

fn map(bytes: usize) -> Option<Mapping> {
    match Mapping::new(bytes) {
        Ok(mapping) => Some(mapping),
        Err(error) => {
            tracing::warn!(bytes, %error, "no memory for buffers; lower the `memory` setting or free memory on this host");
            None
        }
    }
}

/// What an allocation of `len` bytes counts as.
fn class_bytes(len: usize) -> usize {
    if len > CLASS_BYTES_MAX {
        len.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(usize::MAX)
    } else {
        len.max(BLOCK_BYTES).next_power_of_two()
    }
}

/// Waits in line for memory.
pub struct AllocWait {
    arena: Arena,
    len: usize,
    /// The place in line, once the bound was met.
    waiter: Option<u64>,
}

impl Future for AllocWait {
    type Output = Buf;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Buf> {
        let this = &mut *self;
        if this.waiter.is_none() {
            if let Some(buf) = this.arena.alloc(this.len) {
                return Poll::Ready(buf);
            }
            this.join_line(context);
            // A block may have come home between the try and the wish being made known.
            this.arena.core.home.wanted.store(true, Ordering::SeqCst);
            this.arena.reclaim();
            this.arena.core.serve();
        }
        let mut pool = this.arena.core.pool.borrow_mut();
        let waiters = &mut pool.part_mut(this.arena.part).waiters;
        let index = waiters.iter().position(|waiter| Some(waiter.id) == this.waiter).expect("in line until served");
        if waiters[index].granted.is_none() {
            waiters[index].waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        this.waiter = None;
        let granted = waiters.remove(index).and_then(|waiter| waiter.granted);
        Poll::Ready(granted.expect("just seen"))
    }
}

impl AllocWait {
    fn join_line(&mut self, context: &mut Context<'_>) {
        let mut pool = self.arena.core.pool.borrow_mut();
        let id = pool.next_waiter;
        pool.next_waiter += 1;
        self.waiter = Some(id);
        let waker = Some(context.waker().clone());
        pool.part_mut(self.arena.part).waiters.push_back(Waiter { id, len: self.len, waker, granted: None });
    }
}

impl Drop for AllocWait {
    fn drop(&mut self) {
        let Some(id) = self.waiter else { return };
        let left = {
            let mut pool = self.arena.core.pool.borrow_mut();
            let waiters = &mut pool.part_mut(self.arena.part).waiters;
            let index = waiters.iter().position(|waiter| waiter.id == id);
            index.and_then(|index| waiters.remove(index))
        };
        // A block that was granted goes back first, outside the borrow; either way the next in line may fit now.
        drop(left);
        self.arena.core.serve();
    }
}
