//! The bytes of the journal: commits (frames) and the entries in them. Pure.
//!
//! A frame is one commit: a head of [`FRAME_HEAD_BYTES`], then entries, then zeros up to the next [`JOURNAL_BLOCK_BYTES`]. The
//! checksum covers everything after itself up to the end of the entries. The generation salt is random and never leaves the
//! data directory, so neither a frame of an earlier generation nor bytes that a client sent can pass for a frame of this one.
//!
//! Numbers of entry kinds are part of the format: never reused.

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
/// What a block prefix adds to its bytes, entry head included.
pub const PREFIX_OVERHEAD_BYTES: usize = ENTRY_HEAD_BYTES + LOG_ID_BYTES + 16;

const MAGIC: [u8; 4] = *b"TMJ1";
const CHECKED_FROM: usize = 8;
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
}

impl FrameHead {
    /// Bytes the frame takes in its file, padding included.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
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
            if reader.rest().iter().any(|&byte| byte != 0) {
                return Ok(None);
            }
            Ok(Some(Self { salt, sequence, durable_sequence, manifest_version, entry_count, payload_bytes }))
        };
        let head = parse(&mut reader).ok().flatten()?;
        let fits = FRAME_HEAD_BYTES + head.payload_bytes as usize <= FRAME_BYTES_MAX;
        (fits && head.sequence > 0 && head.durable_sequence < head.sequence).then_some(head)
    }
}

/// The frame at the start of `bytes`, whole and with the right checksum: its head and its entries' bytes. `salt` is checked
/// first, so that bytes of other generations and of clients cost no checksum.
#[must_use]
pub fn frame_at(bytes: &[u8], salt: u64) -> Option<(FrameHead, &[u8])> {
    let head = FrameHead::parse(bytes).filter(|head| head.salt == salt)?;
    let checked = bytes.get(CHECKED_FROM..FRAME_HEAD_BYTES + head.payload_bytes as usize)?;
    let stored = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    (crc32c::crc32c(checked) == stored).then(|| (head, &checked[FRAME_HEAD_BYTES - CHECKED_FROM..]))
}

/// Writes one frame into memory that will be written as it is.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    space: &'a mut [u8],
    filled: usize,
    entry_count: u32,
}

impl<'a> FrameWriter<'a> {
    /// `space` is the whole of a commit buffer; what it held does not matter.
    ///
    /// # Panics
    /// If `space` is shorter than a block or longer than a frame may be.
    pub fn new(space: &'a mut [u8]) -> Self {
        assert!((JOURNAL_BLOCK_BYTES..=FRAME_BYTES_MAX).contains(&space.len()), "a commit buffer of {}", space.len());
        Self { space, filled: FRAME_HEAD_BYTES, entry_count: 0 }
    }

    /// Bytes of entries that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.space.len() - self.filled
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
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
        put_log_id(&mut fixed, at.log);
        for field in [at.segment.0, at.position as i64, at.first.0, at.last.0] {
            fixed.extend_from_slice(&field.to_be_bytes());
        }
        self.entry(kind::APPEND, &fixed, parts);
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

    /// Writes the head, the checksum and the padding; returns how many bytes of the space are the frame.
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

/// One entry of a commit. Leader epochs are not repeated here: every batch carries its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// Contiguous batches of one log in one segment.
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
}

impl<'a> Entries<'a> {
    #[must_use]
    pub fn new(head: &FrameHead, payload: &'a [u8]) -> Self {
        Self { payload: Reader::new(payload), payload_bytes: payload.len(), left: head.entry_count }
    }

    /// Bytes of the payload taken by the entries returned so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.payload_bytes - self.payload.remaining()
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
        let entry = decode_body(kind, body).map_err(|Short| EntryError::Malformed { kind })?;
        entry.ok_or(EntryError::UnknownKind { kind })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let over = !self.payload.is_empty();
            self.payload.rest();
            return over.then_some(Err(EntryError::Count));
        }
        self.left -= 1;
        let entry = self.read();
        if entry.is_err() {
            self.left = 0;
            self.payload.rest();
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

fn decode_append(mut reader: Reader<'_>) -> Result<Entry<'_>, Short> {
    let at = AppendAt {
        log: reader.log_id()?,
        segment: reader.offset()?,
        position: reader.u64()?,
        first: reader.offset()?,
        last: reader.offset()?,
    };
    let bytes = reader.rest();
    let sane = at.segment.0 >= 0 && at.segment <= at.first && at.first <= at.last && at.last.0 < i64::MAX;
    if sane && at.position <= SEGMENT_BYTES_MAX && !bytes.is_empty() {
        Ok(Entry::Append { at, bytes })
    } else {
        Err(Short)
    }
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
