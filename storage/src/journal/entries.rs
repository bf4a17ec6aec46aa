//! The entries of a commit: what each says and how it is written. Pure.
//!
//! Numbers of kinds are part of the format: never reused.

use base::{LeaderEpoch, Offset, PlacementEpoch, WallTime};

use super::frame::{ENTRY_HEAD_BYTES, FRAME_HEAD_BYTES, FrameHead, JOURNAL_BLOCK_BYTES, block_part, blocks_of};
use crate::bytes::{Reader, Short, put_log_id};
use crate::config::{LogId, is_topic_name};
use crate::segment::SegmentMeta;

pub(super) mod kind {
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
    pub const COMPACTED: u8 = 13;
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
    pub(super) fn put(&self, out: &mut Vec<u8>) {
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
    /// `segment`, whose files are final, replaces all that stand between its offsets. Compaction has seen all records below `cleaned_to`.
    Compacted {
        log: LogId,
        segment: SegmentMeta,
        cleaned_to: Offset,
    },
}

/// A control entry's kind and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedControl {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
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
            Self::Compacted { log, segment, cleaned_to } => {
                put_log_id(&mut body, *log);
                body.extend_from_slice(&cleaned_to.0.to_be_bytes());
                body.extend_from_slice(&segment.encode());
                kind::COMPACTED
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
    pub(super) fn are_apart_intact(mut self) -> bool {
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
        kind::COMPACTED => {
            let (log, cleaned_to) = (reader.log_id()?, reader.offset()?);
            let segment = SegmentMeta::decode(reader.array_ref()?).map_err(|_| Short)?;
            Control::Compacted { log, segment, cleaned_to }
        }
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
        Control::Compacted { segment, cleaned_to, .. } => {
            segment.sealed && segment.revision > 0 && !segment.is_empty() && cleaned_to.0 >= 0
        }
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
