//! Operations in flight: each owns what the kernel reads or writes for it until its terminal completion.
//!
//! Owner: one shard's driver. A flight is made when the shard submits an operation and leaves when its one [`Completion`] is
//! handed out. Its place is the slot of its [`OpId`], so a completion finds it without a search, and the generation must
//! match. Invariant: memory the kernel may touch lives in the arena (buffers, slices) or in a [`Scratch`] on the heap at a
//! fixed address; moving a flight moves neither.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;

use base::ShardId;

use crate::buffer::{Buf, Slice};
use crate::driver::{OpId, WriteSync};

/// Where an operation stands.
pub(super) enum State {
    Read {
        file: u32,
        offset: u64,
        buf: Buf,
        len: usize,
        filled: usize,
    },
    Write {
        file: u32,
        offset: u64,
        data: Gather,
        sync: WriteSync,
    },
    Datasync {
        file: u32,
    },
    /// In the janitor's hands; the answer comes through the return queue.
    Fs,
    /// Queued for, or run by, the helper thread.
    Offload,
    /// A bound socket on its way into the descriptor table.
    Listen {
        socket: Installing,
        local_addr: std::net::SocketAddr,
    },
    /// In the listener's queue of those who wait.
    Accept {
        listener: u32,
    },
    /// A socket on its way into the descriptor table, to be connected there.
    ConnectInstall {
        socket: Installing,
    },
    Connect {
        socket: u32,
        scratch: Stable,
    },
    /// Not in the kernel while `starved`: no buffer could be provided.
    Recv {
        socket: u32,
        starved: bool,
    },
    RecvInto {
        socket: u32,
        buf: Buf,
        filled: usize,
        until: usize,
    },
    Send {
        socket: u32,
        data: Gather,
    },
    Shutdown {
        socket: u32,
    },
    /// On its way into the table of the ring with this descriptor.
    Pass {
        socket: u32,
        to: ShardId,
        ring: RawFd,
    },
    Close {
        index: u32,
    },
}

impl State {
    /// The table place that a kernel worker looks up only when it gets to the operation.
    pub fn looked_up_late(&self) -> Option<u32> {
        match self {
            Self::Datasync { file: index } | Self::Shutdown { socket: index } => Some(*index),
            _ => None,
        }
    }

    /// Makes bytes durable, which the kernel finishes on a worker that needs this core.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Datasync { .. } | Self::Write { sync: WriteSync::Data, .. })
    }
}

pub(super) struct Flight {
    pub id: OpId,
    /// The shard asked for an early end: no further step is started.
    pub cancelled: bool,
    pub state: State,
}

/// The flights of a driver, by the slot of their operation.
#[derive(Default)]
pub(super) struct Flights {
    slots: Vec<Option<Flight>>,
    count: usize,
}

impl Flights {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn insert(&mut self, flight: Flight) {
        let slot = flight.id.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with((slot + 1).next_power_of_two(), || None);
        }
        let place = &mut self.slots[slot];
        assert!(place.is_none(), "an operation slot is used again before its completion was handed out");
        *place = Some(flight);
        self.count += 1;
    }

    pub fn get_mut(&mut self, id: OpId) -> Option<&mut Flight> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|flight| flight.id == id)
    }

    /// Takes the flight out; it is put back with [`Flights::insert`] where a further step follows.
    pub fn take(&mut self, id: OpId) -> Option<Flight> {
        let taken = self.slots.get_mut(id.slot as usize)?.take_if(|flight| flight.id == id)?;
        self.count -= 1;
        Some(taken)
    }

    pub fn ids(&self) -> Vec<OpId> {
        self.slots.iter().flatten().map(|flight| flight.id).collect()
    }
}

/// Slices to be written or sent one after another, and how far the kernel has come.
pub(super) struct Gather {
    slices: Vec<Slice>,
    /// The first slice with bytes left, and how many of its bytes are done.
    next: usize,
    skip: usize,
    done_bytes: u64,
    pub scratch: Option<Stable>,
}

/// The kernel takes at most this many pieces at once (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

impl Gather {
    pub fn new(slices: Vec<Slice>) -> Self {
        let mut gather = Self { slices, next: 0, skip: 0, done_bytes: 0, scratch: None };
        gather.advance(0);
        gather
    }

    pub fn is_done(&self) -> bool {
        self.next == self.slices.len()
    }

    /// Counts `bytes` more as done. Empty slices are passed over.
    pub fn advance(&mut self, bytes: usize) {
        self.done_bytes += bytes as u64;
        self.skip += bytes;
        while let Some(slice) = self.slices.get(self.next) {
            if self.skip < slice.len() {
                return;
            }
            self.skip -= slice.len();
            self.next += 1;
        }
        assert_eq!(self.skip, 0, "the kernel took more bytes than it was given");
    }

    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Counts the last `bytes` as not done after all.
    pub fn retreat(&mut self, bytes: usize) {
        self.done_bytes -= bytes as u64;
        let mut left = bytes;
        while left > self.skip {
            left -= self.skip;
            self.next -= 1;
            self.skip = self.slices[self.next].len();
        }
        self.skip -= left;
    }

    /// What is left, when it lies in one piece.
    pub fn single(&self) -> Option<(&Slice, &[u8])> {
        let slice = self.slices.get(self.next)?;
        let alone = self.slices[self.next + 1..].iter().all(|later| later.is_empty());
        alone.then(|| (slice, &slice[self.skip..]))
    }

    /// Lists what is left for the kernel, at most [`PIECES_MAX`] pieces, in the scratch that `spare` lends.
    pub fn list(&mut self, spare: &mut Spare) -> &mut Scratch {
        let scratch = self.scratch.get_or_insert_with(|| spare.take());
        scratch.pieces.clear();
        let mut skip = self.skip;
        for slice in self.slices[self.next..].iter().filter(|slice| !slice.is_empty()).take(PIECES_MAX) {
            let piece = &slice[skip..];
            scratch.pieces.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
            skip = 0;
        }
        scratch
    }
}

/// A descriptor on its way into the table: the kernel reads the number and writes the index over it.
pub(super) struct Installing {
    /// Closed once the table holds its own reference.
    pub descriptor: OwnedFd,
    pub scratch: Stable,
}

/// Small memory that the kernel reads or writes beside the buffers.
pub(super) struct Scratch {
    pub pieces: Vec<libc::iovec>,
    pub message: libc::msghdr,
    pub address: libc::sockaddr_storage,
    pub address_len: libc::socklen_t,
    pub descriptor: i32,
    /// What a doorbell's counter stood at.
    pub rings: u64,
}

/// A [`Scratch`] at a fixed address, owned like a box. (A `Box` that moves claims to be the only way to its content, which
/// the kernel's pointer contradicts.)
pub(super) struct Stable(NonNull<Scratch>);

impl Stable {
    fn new() -> Self {
        let scratch = Box::new(Scratch {
            pieces: Vec::new(),
            // SAFETY: both are plain C structs of integers and pointers, for which all zeros is a value.
            message: unsafe { std::mem::zeroed() },
            // SAFETY: as above.
            address: unsafe { std::mem::zeroed() },
            address_len: 0,
            descriptor: -1,
            rings: 0,
        });
        Self(NonNull::from(Box::leak(scratch)))
    }
}

impl Deref for Stable {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        // SAFETY: the pointer comes from a leaked box that only `drop` frees; the driver looks only while the kernel does not write.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Stable {
    fn deref_mut(&mut self) -> &mut Scratch {
        // SAFETY: as for `deref`, and `&mut self` makes this the only reference on our side.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Stable {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box and is freed nowhere else; the flight that owned it has had its completion.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Scratches between two uses, so that a send allocates nothing. Bounded: a burst may have made many.
#[derive(Default)]
pub(super) struct Spare(VecDeque<Stable>);

const SPARE_MAX: usize = 256;

impl Spare {
    pub fn take(&mut self) -> Stable {
        self.0.pop_back().unwrap_or_else(Stable::new)
    }

    pub fn give_back(&mut self, scratch: Stable) {
        if self.0.len() < SPARE_MAX {
            self.0.push_back(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gather, Spare};
    use crate::buffer::Slice;

    fn gather(parts: &[&str]) -> Gather {
        Gather::new(parts.iter().map(|part| Slice::from_vec(part.as_bytes().to_vec())).collect())
    }

    #[track_caller]
    fn check(parts: &[&str], advance: usize, pieces: &[usize], single: Option<&str>) {
        let mut gather = gather(parts);
        gather.advance(advance);
        assert_eq!(gather.is_done(), pieces.is_empty());
        assert_eq!(gather.single().map(|(_, bytes)| std::str::from_utf8(bytes).unwrap()), single);
        let mut spare = Spare::default();
        let listed: Vec<usize> = gather.list(&mut spare).pieces.iter().map(|piece| piece.iov_len).collect();
        assert_eq!(listed, pieces);
    }

    #[test]
    fn a_gather_continues_anywhere() {
        check(&[], 0, &[], None);
        check(&["", ""], 0, &[], None);
        check(&["abc"], 0, &[3], Some("abc"));
        check(&["abc"], 2, &[1], Some("c"));
        check(&["abc", "", "de"], 0, &[3, 2], None);
        check(&["abc", "", "de"], 1, &[2, 2], None);
        check(&["abc", "", "de"], 3, &[2], Some("de"));
        check(&["abc", "", "de", ""], 4, &[1], Some("e"));
        check(&["abc", "", "de"], 5, &[], None);
    }

    #[test]
    fn a_long_list_is_cut_at_what_the_kernel_takes() {
        let mut gather = gather(&vec!["x"; 3000]);
        let mut spare = Spare::default();
        assert_eq!(gather.list(&mut spare).pieces.len(), 1024);
        gather.advance(1024);
        gather.advance(1024);
        assert_eq!(gather.list(&mut spare).pieces.len(), 952);
    }
}
