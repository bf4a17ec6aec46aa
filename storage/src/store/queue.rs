//! What waits for the next commit, in the order in which it will stand in the journal. Pure but for the handles it keeps.
//!
//! Invariant: everything here has room in the journal promised (see [`RingState::reserve`]), so the queue always drains.
//!
//! [`RingState::reserve`]: crate::journal::ring::RingState::reserve

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use base::Offset;
use shard::sync::oneshot;

use crate::journal::codec::{APPEND_OVERHEAD_BYTES, EncodedControl, JOURNAL_BLOCK_BYTES, PREFIX_OVERHEAD_BYTES};
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
}

impl PendingAppend {
    pub(crate) fn bytes(&self) -> usize {
        (self.addresses.end.0 - self.addresses.start.0) as usize
    }

    /// The most that it takes in a frame: with the prefix of its block, whether that will be needed or not.
    fn entry_bytes_max(bytes: usize, position: u64) -> usize {
        let prefix = (position % JOURNAL_BLOCK_BYTES as u64) as usize;
        APPEND_OVERHEAD_BYTES + bytes + if prefix > 0 { PREFIX_OVERHEAD_BYTES + prefix } else { 0 }
    }

    fn charge(bytes: usize, position: u64) -> u64 {
        RingState::charge_for(Self::entry_bytes_max(bytes, position))
    }
}

pub(crate) enum Pending {
    Append(PendingAppend),
    Control { encoded: EncodedControl, durable: oneshot::Sender<()> },
}

impl Pending {
    /// The most that it takes in a frame.
    pub(crate) fn entry_bytes_max(&self) -> usize {
        match self {
            Self::Append(append) => PendingAppend::entry_bytes_max(append.bytes(), append.position),
            Self::Control { encoded, .. } => encoded.entry_bytes(),
        }
    }

    /// What must be reserved for a control entry.
    pub(crate) fn charge_of(encoded: &EncodedControl) -> u64 {
        RingState::charge_for(encoded.entry_bytes())
    }

    /// What was reserved for it.
    pub(crate) fn charge(&self) -> u64 {
        RingState::charge_for(self.entry_bytes_max())
    }
}

/// The queue of a store.
pub(crate) struct CommitQueue {
    entries: VecDeque<Pending>,
    /// Entries do not grow beyond this: half the longest commit at most, so that each fits into one.
    entry_bytes_max: usize,
    /// Entries ever taken: the index of the first one here.
    taken: u64,
    bytes: usize,
}

impl CommitQueue {
    /// For commits of at most `frame_bytes_max`.
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        let entry_bytes_max = ENTRY_BYTES_MAX.min(frame_bytes_max / 2);
        Self { entries: VecDeque::new(), entry_bytes_max, taken: 0, bytes: 0 }
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

    pub(crate) fn front(&self) -> Option<&Pending> {
        self.entries.front()
    }

    pub(crate) fn push(&mut self, pending: Pending) -> u64 {
        self.bytes += pending.entry_bytes_max();
        self.entries.push_back(pending);
        self.pushed() - 1
    }

    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let pending = self.entries.pop_front()?;
        self.taken += 1;
        self.bytes -= pending.entry_bytes_max();
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
                let longer = PendingAppend::charge(append.bytes() + bytes, append.position);
                (longer - PendingAppend::charge(append.bytes(), append.position), true)
            }
            None => (PendingAppend::charge(bytes, position), false),
        }
    }

    /// Makes entry number `index` longer: its log appended right behind it.
    pub(crate) fn extend(&mut self, index: u64, last: Offset, end: Address) {
        let entry = index.checked_sub(self.taken).and_then(|at| self.entries.get_mut(at as usize));
        let Some(Pending::Append(append)) = entry else { panic!("entry {index} was found a moment ago") };
        self.bytes += (end.0 - append.addresses.end.0) as usize;
        append.last = last;
        append.addresses.end = end;
    }
}
