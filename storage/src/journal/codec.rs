//! The bytes of the journal: commits (frames) and the entries in them. Pure.
//!
//! A frame is one commit: a head of [`FRAME_HEAD_BYTES`], then entries, then zeros up to the next [`JOURNAL_BLOCK_BYTES`], then the
//! blocks of appends that stand *apart*. The checksum covers everything after itself up to the end of the entries. The generation
//! salt is random and never leaves the data directory, so neither a frame of an earlier generation nor bytes that a client sent
//! can pass for a frame of this one.
//!
//! A large append stands apart so that its bytes are written from where they are, in whole blocks as its segment has them: from the
//! block that it begins in to the one that it ends in. What surrounds it in those two blocks means nothing. Its entry holds a
//! [`record::RunChecksum`], which leaves the batches' bodies to their own CRCs.
//!
//! The measures of a frame are in [`super::frame`], what stands in it in [`super::entries`].

use std::ops::Range;

use base::Offset;

use super::entries::kind;
pub use super::entries::{AppendAt, Control, EncodedControl, Entries, Entry, EntryError, SEGMENT_BYTES_MAX};
pub use super::frame::{
    APART_ENTRY_BYTES, APPEND_OVERHEAD_BYTES, ENTRY_HEAD_BYTES, EntryRoom, FRAME_BYTES_MAX, FRAME_HEAD_BYTES,
    FrameHead, JOURNAL_BLOCK_BYTES, PREFIX_OVERHEAD_BYTES,
};
use super::frame::{CHECKED_FROM, MAGIC, blocks_of};
use crate::bytes::put_log_id;
use crate::config::LogId;

/// The frame at the start of `bytes`, whole and with the right checksums: its head and its body, for [`Entries`]. `salt` is checked
/// first, so that bytes of other generations and of clients cost no checksum.
#[must_use]
pub fn frame_at(bytes: &[u8], salt: u64) -> Option<(FrameHead, &[u8])> {
    let head = FrameHead::parse(bytes).filter(|head| head.salt == salt)?;
    let frame = bytes.get(..head.frame_bytes())?;
    let stored = u32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
    let checked = &frame[CHECKED_FROM..FRAME_HEAD_BYTES + head.payload_bytes as usize];
    let body = &frame[FRAME_HEAD_BYTES..];
    (crc32c::crc32c(checked) == stored && Entries::new(&head, body).are_apart_intact()).then_some((head, body))
}

/// Writes one frame into memory that will be written as it is, the blocks of appends that stand apart behind it.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    space: &'a mut [u8],
    filled: usize,
    entry_count: u32,
    /// Of appends that stand apart.
    blocks: usize,
    /// Blocks at the end of the space in use for the last blocks of such appends.
    last_blocks: usize,
}

impl<'a> FrameWriter<'a> {
    /// `space` is a commit buffer as far as the frame may be long; what it held does not matter.
    ///
    /// # Panics
    /// If `space` is shorter than a block or longer than a frame may be.
    pub fn new(space: &'a mut [u8]) -> Self {
        assert!((JOURNAL_BLOCK_BYTES..=FRAME_BYTES_MAX).contains(&space.len()), "a commit buffer of {}", space.len());
        Self { space, filled: FRAME_HEAD_BYTES, entry_count: 0, blocks: 0, last_blocks: 0 }
    }

    /// Bytes of entries that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        (self.space.len() - self.blocks * JOURNAL_BLOCK_BYTES).saturating_sub(self.filled)
    }

    #[must_use]
    pub fn has_room(&self, wanted: EntryRoom) -> bool {
        let entries = (self.filled + wanted.entry_bytes).next_multiple_of(JOURNAL_BLOCK_BYTES);
        entries + (self.blocks + wanted.blocks) * JOURNAL_BLOCK_BYTES <= self.space.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Blocks that are to follow what [`FrameWriter::finish`] tells the length of.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    fn put(&mut self, bytes: &[u8]) {
        self.space[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    fn entry(&mut self, kind: u8, fixed: &[u8], body: &[&[u8]]) {
        let body_bytes = fixed.len() + body.iter().map(|part| part.len()).sum::<usize>();
        assert!(ENTRY_HEAD_BYTES + body_bytes <= self.room(), "the caller asks for room first");
        self.put(&[kind, 0, 0, 0]);
        self.put(&(body_bytes as u32).to_be_bytes());
        self.put(fixed);
        for part in body {
            self.put(part);
        }
        self.entry_count += 1;
    }

    /// An append of whole batches; `parts` one after another are its bytes.
    pub fn append(&mut self, at: &AppendAt, parts: &[&[u8]]) {
        let mut fixed = Vec::with_capacity(APPEND_OVERHEAD_BYTES);
        at.put(&mut fixed);
        self.entry(kind::APPEND, &fixed, parts);
    }

    /// An append of `bytes` whose blocks the caller writes behind the frame, in the order of these calls. Its last block, where it is
    /// not filled, is to be a copy, for it goes on to be filled: `last` is what it holds, and what is returned is where in the space
    /// the copy stands.
    pub fn append_apart(
        &mut self,
        at: &AppendAt,
        bytes: usize,
        checksum: u32,
        last: Option<&[u8]>,
    ) -> Option<Range<usize>> {
        assert!(self.has_room(EntryRoom::of_append_apart(bytes, at.position)), "the caller asks for room first");
        let mut fixed = Vec::with_capacity(APART_ENTRY_BYTES);
        at.put(&mut fixed);
        fixed.extend_from_slice(&(bytes as u32).to_be_bytes());
        fixed.extend_from_slice(&checksum.to_be_bytes());
        self.entry(kind::APPEND_APART, &fixed, &[]);
        self.blocks += blocks_of(at.position, bytes);
        let last = last?;
        self.last_blocks += 1;
        let start = self.space.len() - self.last_blocks * JOURNAL_BLOCK_BYTES;
        let block = &mut self.space[start..start + JOURNAL_BLOCK_BYTES];
        block[..last.len()].copy_from_slice(last);
        block[last.len()..].fill(0);
        Some(start..start + JOURNAL_BLOCK_BYTES)
    }

    /// The bytes of a segment's block below the position of the append that follows.
    pub fn block_prefix(&mut self, log: LogId, segment: Offset, position: u64, parts: &[&[u8]]) {
        let mut fixed = Vec::with_capacity(PREFIX_OVERHEAD_BYTES);
        put_log_id(&mut fixed, log);
        fixed.extend_from_slice(&segment.0.to_be_bytes());
        fixed.extend_from_slice(&position.to_be_bytes());
        self.entry(kind::BLOCK_PREFIX, &fixed, parts);
    }

    /// An entry already encoded by [`Control::encode`].
    pub fn control(&mut self, encoded: &EncodedControl) {
        self.entry(encoded.kind, &encoded.body, &[]);
    }

    /// Any entry, as it was read: for copying entries from one journal to another.
    pub fn copy(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Append { at, bytes } => self.append(at, &[bytes]),
            Entry::BlockPrefix { log, segment, position, bytes } => {
                self.block_prefix(*log, *segment, *position, &[bytes])
            }
            Entry::Control(control) => self.control(&control.encode()),
        }
    }

    /// Writes the head, the checksum and the padding; returns how many bytes of the space are the frame, or its beginning where
    /// appends stand apart.
    pub fn finish(self, salt: u64, sequence: u64, durable_sequence: u64, manifest_version: u64) -> usize {
        assert!(sequence > 0 && durable_sequence < sequence, "frame {sequence} after durable {durable_sequence}");
        let payload_bytes = self.filled - FRAME_HEAD_BYTES;
        let end = self.filled.next_multiple_of(JOURNAL_BLOCK_BYTES);
        self.space[self.filled..end].fill(0);
        let head = &mut self.space[..FRAME_HEAD_BYTES];
        head.fill(0);
        head[..4].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&(payload_bytes as u32).to_be_bytes());
        head[12..16].copy_from_slice(&self.entry_count.to_be_bytes());
        head[16..24].copy_from_slice(&salt.to_be_bytes());
        head[24..32].copy_from_slice(&sequence.to_be_bytes());
        head[32..40].copy_from_slice(&durable_sequence.to_be_bytes());
        head[40..48].copy_from_slice(&manifest_version.to_be_bytes());
        head[48..52].copy_from_slice(&(self.blocks as u32).to_be_bytes());
        let checksum = crc32c::crc32c(&self.space[CHECKED_FROM..self.filled]);
        self.space[4..8].copy_from_slice(&checksum.to_be_bytes());
        end
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
