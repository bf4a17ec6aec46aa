//! What waits for the next commit, in the order in which it will stand in the journal. Pure but for the handles it keeps.
//!
//! Invariant: everything here has room in the journal promised (see [`RingState::reserve`]), so the queue always drains.
//!
//! [`RingState::reserve`]: crate::journal::ring::RingState::reserve

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use base::Offset;
use record::{HEADER_BYTES, RunChecksum};
use shard::sync::oneshot;

use crate::journal::codec::{EncodedControl, EntryRoom};
use crate::journal::ring::RingState;
use crate::log::LogInner;
use crate::tail::Address;

/// Appends of one log grow together in the queue up to this, so that a commit can still be cut between them.
const ENTRY_BYTES_MAX: usize = 512 * 1024;

/// Batches of one log, one after another in memory and in their segment.
pub(crate) struct PendingAppend {
    pub log: Rc<LogInner>,
    /// Base offset of the segment.
    pub segment: Offset,
    pub position: u64,
    pub first: Offset,
    pub last: Offset,
    pub addresses: Range<Address>,
    /// Of its batches.
    pub checksum: RunChecksum,
}

impl PendingAppend {
    pub(crate) fn bytes(&self) -> usize {
        (self.addresses.end.0 - self.addresses.start.0) as usize
    }
}

pub(crate) enum Pending {
    Append(PendingAppend),
    Control { encoded: EncodedControl, durable: oneshot::Sender<()> },
}

impl Pending {
    /// What a control entry takes in a frame.
    pub(crate) fn room_of(encoded: &EncodedControl) -> EntryRoom {
        EntryRoom { entry_bytes: encoded.entry_bytes(), blocks: 0 }
    }

    /// What must be reserved for a control entry.
    pub(crate) fn charge_of(encoded: &EncodedControl) -> u64 {
        RingState::charge_for(Self::room_of(encoded))
    }
}

/// The queue of a store.
pub(crate) struct CommitQueue {
    entries: VecDeque<Pending>,
    /// Entries do not grow beyond this: half the longest commit at most, so that each fits into one.
    entry_bytes_max: usize,
    /// Appends of so many bytes stand apart in their frame.
    apart_bytes: usize,
    /// Entries ever taken: the index of the first one here.
    taken: u64,
    bytes: usize,
}

impl CommitQueue {
    /// For commits of at most `frame_bytes_max`; appends from `apart_bytes` on stand apart.
    pub(crate) fn new(frame_bytes_max: usize, apart_bytes: usize) -> Self {
        let entry_bytes_max = ENTRY_BYTES_MAX.min(frame_bytes_max / 2);
        Self { entries: VecDeque::new(), entry_bytes_max, apart_bytes, taken: 0, bytes: 0 }
    }

    /// The most that an append takes in a frame: with the prefix of its block, whether that will be needed or not.
    fn append_room(&self, bytes: usize, position: u64) -> EntryRoom {
        let room = match bytes >= self.apart_bytes {
            true => EntryRoom::of_append_apart(bytes, position),
            false => EntryRoom::of_append(bytes),
        };
        room.and_prefix(position)
    }

    fn append_charge(&self, bytes: usize, position: u64) -> u64 {
        RingState::charge_for(self.append_room(bytes, position))
    }

    /// The most that an entry takes in a frame: what was reserved for it is the charge of that.
    pub(crate) fn room(&self, pending: &Pending) -> EntryRoom {
        match pending {
            Pending::Append(append) => self.append_room(append.bytes(), append.position),
            Pending::Control { encoded, .. } => Pending::room_of(encoded),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries ever pushed: everything below is here or has been taken.
    pub(crate) fn pushed(&self) -> u64 {
        self.taken + self.entries.len() as u64
    }

    /// Bytes that all entries here take at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the next entry takes in a frame.
    pub(crate) fn front_room(&self) -> Option<EntryRoom> {
        self.entries.front().map(|pending| self.room(pending))
    }

    pub(crate) fn push(&mut self, pending: Pending) -> u64 {
        self.bytes += self.room(&pending).bytes();
        self.entries.push_back(pending);
        self.pushed() - 1
    }

    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let pending = self.entries.pop_front()?;
        self.taken += 1;
        self.bytes -= self.room(&pending).bytes();
        Some(pending)
    }

    fn extendable(&self, index: u64, segment: Offset) -> Option<&PendingAppend> {
        match self.entries.get(index.checked_sub(self.taken)? as usize)? {
            Pending::Append(append) if append.segment == segment => Some(append),
            _ => None,
        }
    }

    /// What must be reserved for `bytes` at `position` of `segment`: the difference it makes to entry number `last` if it can go
    /// on there, an entry of its own otherwise. `last` is the newest entry of the same log.
    pub(crate) fn charge(&self, last: Option<u64>, segment: Offset, position: u64, bytes: usize) -> (u64, bool) {
        let known = last.and_then(|index| self.extendable(index, segment));
        match known.filter(|append| append.bytes() + bytes <= self.entry_bytes_max) {
            Some(append) => {
                let longer = self.append_charge(append.bytes() + bytes, append.position);
                (longer - self.append_charge(append.bytes(), append.position), true)
            }
            None => (self.append_charge(bytes, position), false),
        }
    }

    /// Makes entry number `index` longer: its log appended one more batch, whose header this is, right behind it.
    pub(crate) fn extend(&mut self, index: u64, last: Offset, end: Address, header: &[u8; HEADER_BYTES]) {
        let entry = index.checked_sub(self.taken).and_then(|at| self.entries.get_mut(at as usize));
        let Some(Pending::Append(append)) = entry else { panic!("entry {index} was found a moment ago") };
        let (position, before) = (append.position, append.bytes());
        append.last = last;
        append.addresses.end = end;
        append.checksum.add(header);
        let after = append.bytes();
        self.bytes -= self.append_room(before, position).bytes();
        self.bytes += self.append_room(after, position).bytes();
    }
}
