//! The measures of a frame: its head, and what an entry takes of it. Pure.

use crate::bytes::{Reader, Short};

/// Frames start at multiples of this, and no acknowledged block is rewritten.
pub const JOURNAL_BLOCK_BYTES: usize = 4096;
/// Bytes before the first entry of a frame.
pub const FRAME_HEAD_BYTES: usize = 64;
/// A frame is at most this long, head and padding included: one write, and what recovery must hold to check it.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// Kind, zeros and length before an entry's body.
pub const ENTRY_HEAD_BYTES: usize = 8;
/// What an append adds to its batches' bytes, entry head included.
pub const APPEND_OVERHEAD_BYTES: usize = ENTRY_HEAD_BYTES + LOG_ID_BYTES + 32;
/// What an append that stands apart takes among the entries, entry head included.
pub const APART_ENTRY_BYTES: usize = APPEND_OVERHEAD_BYTES + 8;
/// What a block prefix adds to its bytes, entry head included.
pub const PREFIX_OVERHEAD_BYTES: usize = ENTRY_HEAD_BYTES + LOG_ID_BYTES + 16;

pub(super) const MAGIC: [u8; 4] = *b"TMJ1";
/// Where in the head the checksum begins to cover the frame.
pub(super) const CHECKED_FROM: usize = 8;
const FRAME_BLOCKS_MAX: usize = FRAME_BYTES_MAX / JOURNAL_BLOCK_BYTES;
const LOG_ID_BYTES: usize = 20;

/// What an entry takes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryRoom {
    /// Among the entries.
    pub entry_bytes: usize,
    /// Behind them, where it stands apart.
    pub blocks: usize,
}

impl EntryRoom {
    /// An append of `bytes` at `position` of its segment that stands among the entries.
    #[must_use]
    pub fn of_append(bytes: usize) -> Self {
        Self { entry_bytes: APPEND_OVERHEAD_BYTES + bytes, blocks: 0 }
    }

    /// The same, standing apart.
    #[must_use]
    pub fn of_append_apart(bytes: usize, position: u64) -> Self {
        Self { entry_bytes: APART_ENTRY_BYTES, blocks: blocks_of(position, bytes) }
    }

    /// With an entry for the prefix of the block that `position` lies in.
    #[must_use]
    pub fn and_prefix(self, position: u64) -> Self {
        match block_part(position) {
            0 => self,
            prefix => Self { entry_bytes: self.entry_bytes + PREFIX_OVERHEAD_BYTES + prefix, ..self },
        }
    }

    #[must_use]
    pub fn bytes(self) -> usize {
        self.entry_bytes + self.blocks * JOURNAL_BLOCK_BYTES
    }

    /// What a frame of this entry alone takes in its file.
    #[must_use]
    pub fn frame_bytes(self) -> usize {
        (FRAME_HEAD_BYTES + self.entry_bytes).next_multiple_of(JOURNAL_BLOCK_BYTES) + self.blocks * JOURNAL_BLOCK_BYTES
    }
}

/// How far into its block a position lies.
pub(super) fn block_part(position: u64) -> usize {
    (position % JOURNAL_BLOCK_BYTES as u64) as usize
}

/// Blocks of a segment that `bytes` at `position` touch.
pub(super) fn blocks_of(position: u64, bytes: usize) -> usize {
    (block_part(position) + bytes).div_ceil(JOURNAL_BLOCK_BYTES)
}

/// What the head of a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// The generation that wrote it: one for each recovery.
    pub salt: u64,
    /// Counts the frames of a journal, across generations, from 1.
    pub sequence: u64,
    /// Every frame up to this one was durable when this one was written.
    pub durable_sequence: u64,
    /// The newest durable manifest when this frame was written: a frame of this generation that knows of a newer manifest than
    /// can be found proves that one was lost.
    pub manifest_version: u64,
    pub entry_count: u32,
    /// Bytes of entries after the head.
    pub payload_bytes: u32,
    /// Blocks of appends that stand apart.
    pub blocks: u32,
}

impl FrameHead {
    /// Bytes the frame takes in its file, padding included.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.blocks_at() + self.blocks as usize * JOURNAL_BLOCK_BYTES
    }

    /// The same without the head.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.frame_bytes() - FRAME_HEAD_BYTES
    }

    /// Where in the frame the blocks of appends that stand apart begin.
    pub(super) fn blocks_at(&self) -> usize {
        (FRAME_HEAD_BYTES + self.payload_bytes as usize).next_multiple_of(JOURNAL_BLOCK_BYTES)
    }

    /// Reads the head at the start of `bytes` without looking at the checksum; `None` where no frame of ours can be.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.get(..FRAME_HEAD_BYTES)?);
        let parse = |reader: &mut Reader<'_>| -> Result<Option<Self>, Short> {
            if reader.bytes(4)? != MAGIC {
                return Ok(None);
            }
            let _checksum = reader.u32()?;
            let payload_bytes = reader.u32()?;
            let entry_count = reader.u32()?;
            let (salt, sequence) = (reader.u64()?, reader.u64()?);
            let (durable_sequence, manifest_version) = (reader.u64()?, reader.u64()?);
            let blocks = reader.u32()?;
            if reader.rest().iter().any(|&byte| byte != 0) {
                return Ok(None);
            }
            Ok(Some(Self { salt, sequence, durable_sequence, manifest_version, entry_count, payload_bytes, blocks }))
        };
        let head = parse(&mut reader).ok().flatten()?;
        let fits = head.payload_bytes as usize <= FRAME_BYTES_MAX && head.blocks as usize <= FRAME_BLOCKS_MAX;
        let fits = fits && head.frame_bytes() <= FRAME_BYTES_MAX;
        (fits && head.sequence > 0 && head.durable_sequence < head.sequence).then_some(head)
    }
}
