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
//! Numbers of entry kinds are part of the format: never reused.

use std::ops::Range;

use base::{LeaderEpoch, Offset, PlacementEpoch, WallTime};

use crate::bytes::{Reader, Short, put_log_id};
use crate::config::{LogId, is_topic_name};
use crate::segment::SegmentMeta;

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

const MAGIC: [u8; 4] = *b"TMJ1";
const CHECKED_FROM: usize = 8;
const FRAME_BLOCKS_MAX: usize = FRAME_BYTES_MAX / JOURNAL_BLOCK_BYTES;
const LOG_ID_BYTES: usize = 20;

mod kind {
    pub const APPEND: u8 = 1;
    pub const BLOCK_PREFIX: u8 = 2;
    pub const CREATE: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const TRUNCATE: u8 = 5;
    pub const START_MOVED: u8 = 6;
    pub const EPOCH_ADOPTED: u8 = 7;
    pub const PLACED: u8 = 8;
    pub const ROLL: u8 = 9;
    /// Reserved for appends whose bytes are in the segment already: {segment, position, length, CRC}. Not written yet; met by
    /// this release it is an unknown kind.
    #[cfg_attr(not(test), expect(dead_code, reason = "a number that must stay taken"))]
    pub const REF: u8 = 10;
    pub const RELEASED: u8 = 11;
    pub const APPEND_APART: u8 = 12;
}

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
fn block_part(position: u64) -> usize {
    (position % JOURNAL_BLOCK_BYTES as u64) as usize
}

/// Blocks of a segment that `bytes` at `position` touch.
fn blocks_of(position: u64, bytes: usize) -> usize {
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
    fn blocks_at(&self) -> usize {
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

/// Where an append goes and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendAt {
    pub log: LogId,
    /// Base offset of its segment.
    pub segment: Offset,
    /// Position of its first byte in the segment.
    pub position: u64,
    pub first: Offset,
    pub last: Offset,
}

impl AppendAt {
    fn put(&self, out: &mut Vec<u8>) {
        put_log_id(out, self.log);
        for field in [self.segment.0, self.position as i64, self.first.0, self.last.0] {
            out.extend_from_slice(&field.to_be_bytes());
        }
    }
}

/// One entry of a commit. Leader epochs are not repeated here: every batch carries its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// Contiguous batches of one log in one segment, wherever in the frame they stand.
    Append {
        at: AppendAt,
        bytes: &'a [u8],
    },
    /// The first append into a partial block after a checkpoint brings the block's earlier bytes along, so that a torn
    /// write of that block loses nothing. `position` is the block's.
    BlockPrefix {
        log: LogId,
        segment: Offset,
        position: u64,
        bytes: &'a [u8],
    },
    Control(Control<'a>),
}

/// Entries that carry no batches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control<'a> {
    /// `created` is when, on the broker's clock.
    Create {
        log: LogId,
        placement: PlacementEpoch,
        created: WallTime,
        topic: &'a str,
    },
    Remove {
        log: LogId,
    },
    /// The log ends at `end`, and its last segment is `segment`, as it is after the cut.
    Truncate {
        log: LogId,
        end: Offset,
        segment: SegmentMeta,
    },
    StartMoved {
        log: LogId,
        start: Offset,
    },
    EpochAdopted {
        log: LogId,
        epoch: LeaderEpoch,
        start: Offset,
    },
    /// A log arrived from another shard: its whole record as a manifest holds it.
    Placed {
        record: &'a [u8],
    },
    /// `segment` begins; the one before it ends with `sealed_bytes`.
    Roll {
        log: LogId,
        segment: Offset,
        sealed_bytes: u64,
        created: WallTime,
    },
    /// The log now lives elsewhere under `placement`; this shard forgets it.
    Released {
        log: LogId,
        placement: PlacementEpoch,
    },
}

/// A control entry's kind and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedControl {
    kind: u8,
    body: Vec<u8>,
}

impl EncodedControl {
    /// Bytes it takes in a frame.
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        ENTRY_HEAD_BYTES + self.body.len()
    }
}

impl Control<'_> {
    #[must_use]
    pub fn encode(&self) -> EncodedControl {
        let mut body = Vec::new();
        let kind = match self {
            Self::Create { log, placement, created, topic } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&placement.0.to_be_bytes());
                body.extend_from_slice(&created.0.to_be_bytes());
                body.extend_from_slice(topic.as_bytes());
                kind::CREATE
            }
            Self::Remove { log } => {
                put_log_id(&mut body, *log);
                kind::REMOVE
            }
            Self::Truncate { log, end, segment } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&end.0.to_be_bytes());
                body.extend_from_slice(&segment.encode());
                kind::TRUNCATE
            }
            Self::StartMoved { log, start } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&start.0.to_be_bytes());
                kind::START_MOVED
            }
            Self::EpochAdopted { log, epoch, start } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&epoch.0.to_be_bytes());
                body.extend_from_slice(&start.0.to_be_bytes());
                kind::EPOCH_ADOPTED
            }
            Self::Placed { record } => {
                body.extend_from_slice(record);
                kind::PLACED
            }
            Self::Roll { log, segment, sealed_bytes, created } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&segment.0.to_be_bytes());
                body.extend_from_slice(&sealed_bytes.to_be_bytes());
                body.extend_from_slice(&created.0.to_be_bytes());
                kind::ROLL
            }
            Self::Released { log, placement } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&placement.0.to_be_bytes());
                kind::RELEASED
            }
        };
        EncodedControl { kind, body }
    }
}

/// Bytes with the right checksum that this release cannot read: written by a newer one, or by a defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryError {
    UnknownKind {
        kind: u8,
    },
    /// A field is missing or cannot be right.
    Malformed {
        kind: u8,
    },
    /// The payload ends inside an entry, or holds more or fewer than the head says.
    Count,
}

impl std::fmt::Display for EntryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind { kind } => write!(f, "journal entry of unknown kind {kind}"),
            Self::Malformed { kind } => write!(f, "malformed journal entry of kind {kind}"),
            Self::Count => f.write_str("the entries do not fill the commit as its head says"),
        }
    }
}

impl std::error::Error for EntryError {}

/// Walks the entries of a frame. After an error it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    payload: Reader<'a>,
    payload_bytes: usize,
    left: u32,
    /// Of appends that stand apart, as far as they were not walked yet, and where they end in the body.
    blocks: Reader<'a>,
    body_bytes: usize,
    /// Where in the body the bytes of the last append or prefix end.
    bytes_end: usize,
    /// Of the last entry, if it is an append that stands apart.
    apart_checksum: Option<u32>,
}

impl<'a> Entries<'a> {
    /// `body` is what follows the head in the frame.
    #[must_use]
    pub fn new(head: &FrameHead, body: &'a [u8]) -> Self {
        let payload = body.get(..head.payload_bytes as usize).unwrap_or(body);
        let blocks = body.get(head.blocks_at() - FRAME_HEAD_BYTES..head.body_bytes()).unwrap_or(&[]);
        Self {
            payload: Reader::new(payload),
            payload_bytes: payload.len(),
            left: head.entry_count,
            blocks: Reader::new(blocks),
            body_bytes: head.body_bytes(),
            bytes_end: 0,
            apart_checksum: None,
        }
    }

    /// Where in the body the bytes of the append or prefix that was returned last end.
    #[must_use]
    pub fn bytes_end(&self) -> usize {
        self.bytes_end
    }

    /// True when the batches of every append that stands apart are those that were written, up to the first entry that makes no sense.
    fn are_apart_intact(mut self) -> bool {
        while let Some(Ok(entry)) = self.next() {
            if let (Entry::Append { bytes, .. }, Some(checksum)) = (entry, self.apart_checksum)
                && !record::run_is_intact(bytes, checksum)
            {
                return false;
            }
        }
        true
    }

    fn read(&mut self) -> Result<Entry<'a>, EntryError> {
        let head = |reader: &mut Reader<'a>| -> Result<(u8, &'a [u8]), Short> {
            let kind = reader.u8()?;
            let zeros = reader.bytes(3)?;
            let body_bytes = reader.u32()? as usize;
            let body = reader.bytes(body_bytes)?;
            if zeros == [0; 3] { Ok((kind, body)) } else { Err(Short) }
        };
        let (kind, body) = head(&mut self.payload).map_err(|Short| EntryError::Count)?;
        self.bytes_end = self.payload_bytes - self.payload.remaining();
        self.apart_checksum = None;
        let entry = match kind {
            kind::APPEND_APART => self.append_apart(Reader::new(body)).map(Some),
            _ => decode_body(kind, body),
        };
        entry.map_err(|Short| EntryError::Malformed { kind })?.ok_or(EntryError::UnknownKind { kind })
    }

    fn append_apart(&mut self, mut reader: Reader<'a>) -> Result<Entry<'a>, Short> {
        let at = append_at(&mut reader)?;
        let (bytes, checksum) = (reader.u32()? as usize, reader.u32()?);
        if bytes == 0 || !reader.is_empty() {
            return Err(Short);
        }
        let blocks = self.blocks.bytes(blocks_of(at.position, bytes) * JOURNAL_BLOCK_BYTES)?;
        let (start, end) = (block_part(at.position), block_part(at.position) + bytes);
        self.bytes_end = self.body_bytes - self.blocks.remaining() - (blocks.len() - end);
        self.apart_checksum = Some(checksum);
        Ok(Entry::Append { at, bytes: &blocks[start..end] })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let over = !self.payload.is_empty() || !self.blocks.is_empty();
            self.payload.rest();
            self.blocks.rest();
            return over.then_some(Err(EntryError::Count));
        }
        self.left -= 1;
        let entry = self.read();
        if entry.is_err() {
            self.left = 0;
            self.payload.rest();
            self.blocks.rest();
        }
        Some(entry)
    }
}

fn decode_body(kind: u8, body: &[u8]) -> Result<Option<Entry<'_>>, Short> {
    let mut reader = Reader::new(body);
    let entry = match kind {
        kind::APPEND => return decode_append(reader).map(Some),
        kind::BLOCK_PREFIX => return decode_block_prefix(reader).map(Some),
        kind::CREATE => {
            let (log, placement) = (reader.log_id()?, reader.placement()?);
            let created = WallTime(reader.i64()?);
            let topic = std::str::from_utf8(reader.rest()).map_err(|_| Short)?;
            Control::Create { log, placement, created, topic }
        }
        kind::REMOVE => Control::Remove { log: reader.log_id()? },
        kind::TRUNCATE => {
            let (log, end) = (reader.log_id()?, reader.offset()?);
            let segment = SegmentMeta::decode(reader.array_ref()?).map_err(|_| Short)?;
            Control::Truncate { log, end, segment }
        }
        kind::START_MOVED => Control::StartMoved { log: reader.log_id()?, start: reader.offset()? },
        kind::EPOCH_ADOPTED => {
            let log = reader.log_id()?;
            Control::EpochAdopted { log, epoch: reader.leader_epoch()?, start: reader.offset()? }
        }
        kind::PLACED => Control::Placed { record: reader.rest() },
        kind::ROLL => {
            let (log, segment, sealed_bytes) = (reader.log_id()?, reader.offset()?, reader.u64()?);
            Control::Roll { log, segment, sealed_bytes, created: WallTime(reader.i64()?) }
        }
        kind::RELEASED => Control::Released { log: reader.log_id()?, placement: reader.placement()? },
        _ => return Ok(None),
    };
    if !reader.is_empty() || !control_is_sane(&entry) {
        return Err(Short);
    }
    Ok(Some(Entry::Control(entry)))
}

/// Offsets and positions that no log can have are refused here, so that replay need not look again.
fn control_is_sane(control: &Control<'_>) -> bool {
    match control {
        Control::Truncate { end, segment, .. } => *end >= segment.end_offset && !segment.sealed,
        Control::StartMoved { start, .. } => start.0 >= 0,
        Control::EpochAdopted { epoch, start, .. } => epoch.0 >= 0 && start.0 >= 0,
        Control::Roll { segment, sealed_bytes, .. } => segment.0 >= 0 && *sealed_bytes <= SEGMENT_BYTES_MAX,
        Control::Create { topic, .. } => is_topic_name(topic),
        Control::Remove { .. } | Control::Placed { .. } | Control::Released { .. } => true,
    }
}

/// No segment is longer: index positions are 31 bits, as Kafka's are.
pub const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

fn append_at(reader: &mut Reader<'_>) -> Result<AppendAt, Short> {
    let at = AppendAt {
        log: reader.log_id()?,
        segment: reader.offset()?,
        position: reader.u64()?,
        first: reader.offset()?,
        last: reader.offset()?,
    };
    let sane = at.segment.0 >= 0 && at.segment <= at.first && at.first <= at.last && at.last.0 < i64::MAX;
    if sane && at.position <= SEGMENT_BYTES_MAX { Ok(at) } else { Err(Short) }
}

fn decode_append(mut reader: Reader<'_>) -> Result<Entry<'_>, Short> {
    let at = append_at(&mut reader)?;
    let bytes = reader.rest();
    if bytes.is_empty() { Err(Short) } else { Ok(Entry::Append { at, bytes }) }
}

fn decode_block_prefix(mut reader: Reader<'_>) -> Result<Entry<'_>, Short> {
    let (log, segment, position) = (reader.log_id()?, reader.offset()?, reader.u64()?);
    let bytes = reader.rest();
    let aligned = position.is_multiple_of(JOURNAL_BLOCK_BYTES as u64) && position <= SEGMENT_BYTES_MAX;
    let sane = segment.0 >= 0 && aligned && !bytes.is_empty() && bytes.len() < JOURNAL_BLOCK_BYTES;
    if sane { Ok(Entry::BlockPrefix { log, segment, position, bytes }) } else { Err(Short) }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
