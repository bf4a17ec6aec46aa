//! Which journal files are in use and where the next commit goes. Pure.
//!
//! Files are taken in the order in which they were freed; a commit never spans two. Files are freed whole, oldest first, once a
//! durable manifest covers every commit in them.
//!
//! Room is promised before it is used: [`RingState::reserve`] admits an entry only if the commits it may need fit into what is
//! free now. So a queue of admitted entries always drains, with no help from a checkpoint, and a checkpoint may wait for the
//! queue. Each entry is charged as if it stood alone in its commit; grouping only ever needs less.

use std::collections::VecDeque;

use super::codec::{EntryRoom, FRAME_BYTES_MAX, JOURNAL_BLOCK_BYTES};
use super::scan::JournalPosition;

const BLOCK: u64 = JOURNAL_BLOCK_BYTES as u64;

/// The longest commit in files of `file_bytes`: a quarter of one, for what a file's end may waste, and never more than a frame.
#[must_use]
pub fn frame_bytes_max(file_bytes: u64) -> usize {
    let quarter = (file_bytes / 4).min(FRAME_BYTES_MAX as u64) as usize;
    quarter - quarter % JOURNAL_BLOCK_BYTES
}

/// The largest batch that fits into a commit: head, entry and the prefix of a block take two blocks at most, and where an append begins
/// and ends inside blocks it touches two more.
#[must_use]
pub fn batch_bytes_max(file_bytes: u64) -> usize {
    frame_bytes_max(file_bytes) - 4 * JOURNAL_BLOCK_BYTES
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct UsedFile {
    file: u32,
    /// Highest sequence in it.
    last_sequence: u64,
}

/// A place for one commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlace {
    pub file: u32,
    pub offset: u64,
    pub sequence: u64,
}

/// The state of a ring of equal files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingState {
    file_bytes: u64,
    frame_bytes_max: u64,
    /// Oldest first; the last one is the head, where commits go.
    used: VecDeque<UsedFile>,
    free: VecDeque<u32>,
    head_filled: u64,
    next_sequence: u64,
    /// Promised to queued entries, not yet placed.
    reserved_bytes: u64,
    file_count: u32,
}

impl RingState {
    /// A ring in which nothing is live.
    ///
    /// # Panics
    /// Without files, or with files too small for a commit.
    #[must_use]
    pub fn new(files: Vec<u32>, file_bytes: u64, next_sequence: u64) -> Self {
        let frame_bytes_max = frame_bytes_max(file_bytes) as u64;
        assert!(frame_bytes_max > 0 && file_bytes.is_multiple_of(BLOCK), "journal files of {file_bytes} bytes");
        let file_count = files.len() as u32;
        let mut free = VecDeque::from(files);
        let head = free.pop_front().expect("a journal has at least one file");
        let used = VecDeque::from([UsedFile { file: head, last_sequence: 0 }]);
        Self { file_bytes, frame_bytes_max, used, free, head_filled: 0, next_sequence, reserved_bytes: 0, file_count }
    }

    fn head(&self) -> &UsedFile {
        self.used.back().expect("there is always a head")
    }

    /// The sequence of the next commit.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Where the next commit would go: what a manifest notes.
    #[must_use]
    pub fn next_position(&self) -> JournalPosition {
        JournalPosition { sequence: self.next_sequence, file: self.head().file, offset: self.head_filled }
    }

    #[must_use]
    pub fn file_count(&self) -> u32 {
        self.file_count
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.file_count) * self.file_bytes
    }

    /// Bytes of files that hold live commits, the head's filled part included.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        (self.used.len() as u64 - 1) * self.file_bytes + self.head_filled
    }

    /// What commits may certainly still take. The end of a file is lost to a commit that does not fit, so each file counts less
    /// the longest one.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let usable = |bytes: u64| bytes.saturating_sub(self.frame_bytes_max);
        usable(self.file_bytes - self.head_filled) + self.free.len() as u64 * usable(self.file_bytes)
    }

    /// What is charged for an entry: a commit of its own.
    #[must_use]
    pub fn charge_for(entry: EntryRoom) -> u64 {
        entry.frame_bytes() as u64
    }

    /// Promises room for a commit of `charge` bytes; false when there is none now. `keep_free` is left to more urgent entries.
    pub fn reserve(&mut self, charge: u64, keep_free: u64) -> bool {
        let fits = self.reserved_bytes + charge + keep_free <= self.room_bytes();
        if fits {
            self.reserved_bytes += charge;
        }
        fits
    }

    /// Gives back what [`RingState::reserve`] promised: the entry was placed, or will not be.
    pub fn release(&mut self, charge: u64) {
        assert!(charge <= self.reserved_bytes, "releasing {charge} of {} reserved", self.reserved_bytes);
        self.reserved_bytes -= charge;
    }

    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// How long the next commit may be when its first entry needs `first_bytes` (head and padding included): the rest of the
    /// head file if that is enough for the entry, else a fresh file.
    #[must_use]
    pub fn frame_limit(&self, first_bytes: usize) -> usize {
        let rest = (self.file_bytes - self.head_filled) as usize;
        let most = self.frame_bytes_max as usize;
        if rest >= first_bytes { rest.min(most) } else { most }
    }

    /// Places a commit of `frame_bytes`. `None` when the ring is full, which reservation rules out.
    pub fn place(&mut self, frame_bytes: usize) -> Option<FramePlace> {
        let fits = frame_bytes as u64 <= self.frame_bytes_max && frame_bytes.is_multiple_of(JOURNAL_BLOCK_BYTES);
        assert!(fits, "a commit of {frame_bytes} bytes");
        if self.head_filled + frame_bytes as u64 > self.file_bytes {
            let file = self.free.pop_front()?;
            self.used.push_back(UsedFile { file, last_sequence: 0 });
            self.head_filled = 0;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let offset = self.head_filled;
        self.head_filled += frame_bytes as u64;
        let head = self.used.back_mut().expect("there is always a head");
        head.last_sequence = sequence;
        Some(FramePlace { file: head.file, offset, sequence })
    }

    /// A durable manifest covers every commit below `sequence`: frees the files that hold nothing else. The head stays.
    pub fn free_below(&mut self, sequence: u64) -> usize {
        let before = self.free.len();
        while self.used.len() > 1 && self.used[0].last_sequence < sequence {
            let freed = self.used.pop_front().expect("there is more than the head");
            self.free.push_back(freed.file);
        }
        self.free.len() - before
    }

    /// A new file, zeroed and durable, joins.
    pub fn grow(&mut self, file: u32) {
        self.free.push_back(file);
        self.file_count += 1;
    }

    /// Files with live commits, oldest first.
    pub fn live_files(&self) -> impl Iterator<Item = u32> + '_ {
        self.used.iter().map(|used| used.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: u64 = 64 << 10;
    const FRAME: usize = 16 << 10;
    const BLOCK: usize = JOURNAL_BLOCK_BYTES;

    #[test]
    fn commits_fill_files_in_turn_and_only_covered_files_come_back() {
        let mut ring = RingState::new(vec![0, 1], FILE, 1);
        let place = |ring: &mut RingState, bytes| ring.place(bytes).map(|at| (at.file, at.offset, at.sequence));
        for sequence in 1..4 {
            assert_eq!(place(&mut ring, FRAME), Some((0, (sequence - 1) * FRAME as u64, sequence)));
        }
        assert_eq!(place(&mut ring, BLOCK), Some((0, 3 * FRAME as u64, 4)));
        // Does not fit any more: the end of the file is left.
        for sequence in 5..9 {
            assert_eq!(place(&mut ring, FRAME), Some((1, (sequence - 5) * FRAME as u64, sequence)));
        }
        assert_eq!(place(&mut ring, BLOCK), None, "both files are live");
        assert_eq!(ring.free_below(4), 0, "commit 4 is in the first file");
        assert_eq!(ring.free_below(5), 1);
        assert_eq!(place(&mut ring, BLOCK), Some((0, 0, 9)));
        // Growth joins behind what is free, wherever the head is.
        ring.grow(2);
        for sequence in 10..13 {
            assert_eq!(place(&mut ring, FRAME).map(|at| (at.0, at.2)), Some((0, sequence)));
        }
        assert_eq!(place(&mut ring, FRAME), Some((2, 0, 13)));
        assert_eq!(ring.free_below(13), 2);
        assert_eq!(ring.free_below(100), 0, "the head stays");
        assert_eq!(ring.live_files().collect::<Vec<_>>(), [2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever was reserved can be placed, in whatever groups, without freeing anything.
        #[test]
        fn reserved_entries_always_find_their_place(
            sizes in proptest::collection::vec((1..FRAME / 2, 0..2usize), 1..200),
            groups in proptest::collection::vec(1..20usize, 200),
            files in 1..5u32,
        ) {
            let mut ring = RingState::new((0..files).collect(), FILE, 1);
            let mut queue = VecDeque::new();
            for (size, blocks) in sizes {
                let entry = EntryRoom { entry_bytes: size, blocks };
                let charge = RingState::charge_for(entry);
                if ring.reserve(charge, 0) {
                    queue.push_back((entry, charge));
                }
            }
            for group in groups {
                let Some(&(first, _)) = queue.front() else { break };
                let limit = ring.frame_limit(RingState::charge_for(first) as usize);
                let mut all = EntryRoom::default();
                let mut taken = 0;
                let with = |all: EntryRoom, entry: EntryRoom| EntryRoom {
                    entry_bytes: all.entry_bytes + entry.entry_bytes,
                    blocks: all.blocks + entry.blocks,
                };
                while taken < group && queue.front().is_some_and(|&(entry, _)| with(all, entry).frame_bytes() <= limit) {
                    let (entry, charge) = queue.pop_front().expect("seen above");
                    all = with(all, entry);
                    ring.release(charge);
                    taken += 1;
                }
                prop_assert!(taken > 0);
                prop_assert!(ring.place(all.frame_bytes()).is_some());
            }
            prop_assert!(queue.is_empty() || ring.reserved_bytes() > 0);
        }
    }
}
