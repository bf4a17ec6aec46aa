//! The manifest of a shard: everything its logs were at a checkpoint. The codec, pure.
//!
//! Two copies alternate on disk, `manifest-a` and `manifest-b`; the newest valid one counts, and its becoming durable is the
//! moment a checkpoint, or a recovery, happens. A copy is a head block and, from [`PAYLOAD_AT`], one record for each log. The
//! checksum in the head covers both, so a copy that was being written when the power went is simply not valid. While a copy is being
//! written its head is blank, so that one whose checksums are wrong has rotted.
//!
//! Cost: the whole of it is written at each checkpoint, in pieces; about 100 bytes for each log, 65 for each segment and up to
//! 140 for each producer. 10,000 logs of two segments and one producer make 4 MB.

pub mod file;

use base::{Offset, PlacementEpoch, ShardId};

use crate::bytes::{Reader, Short, put_log_id};
use crate::config::{LogId, is_topic_name};
use crate::epochs::EpochStart;
use crate::journal::scan::JournalPosition;
use crate::segment::SegmentMeta;

/// Where the records begin; the head has the first block for itself and is written last.
pub const PAYLOAD_AT: usize = 4096;
/// A longer manifest is refused, by the writer and by the reader.
pub const MANIFEST_BYTES_MAX: usize = 1 << 30;
/// The file names of the two copies.
pub const COPY_NAMES: [&str; 2] = ["manifest-a", "manifest-b"];

const MAGIC: [u8; 4] = *b"TMM1";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 72;
const CHECKED_FROM: usize = 8;
const LOG_BYTES_MIN: usize = 4 + 20 + 2 + 1 + 8 + 1 + 3 * 8 + 3 * 4;
const EPOCH_BYTES: usize = 12;
const SEGMENT_BYTES: usize = SegmentMeta::ENCODED_BYTES;
const FLAG_OFFLINE: u8 = 1;
/// It ends with the offset that compaction has come to.
const FLAG_CLEANED: u8 = 2;

/// What the head of a manifest says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ManifestHead {
    pub shard: ShardId,
    /// Counts the manifests of a shard directory.
    pub version: u64,
    /// The generation of the journal that goes on from here.
    pub salt: u64,
    /// The first commit that this manifest does not cover.
    pub replay_from: JournalPosition,
}

/// Everything a shard's logs were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    pub head: ManifestHead,
    pub logs: Vec<LogRecord>,
}

/// A log at a checkpoint; also what is handed over when a log moves to another shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRecord {
    pub id: LogId,
    pub topic: String,
    pub placement: PlacementEpoch,
    /// A segment of it could not be written: what its journal held since this record is in its orphan file.
    pub offline: bool,
    pub start: Offset,
    /// Where the log ends, all of it in the segments and durable.
    pub end: Offset,
    pub high_watermark: Offset,
    pub epochs: Vec<EpochStart>,
    /// In order of base offset; the last one is active. Segments below the start are on their way out.
    pub segments: Vec<SegmentMeta>,
    /// The snapshot of the producer table, as that encodes itself.
    pub producers: Vec<u8>,
    /// Compaction has seen all records below; 0 for a log that has never been compacted.
    pub cleaned_to: Offset,
}

/// Bytes that are no valid manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManifestError {
    /// Not a manifest, cut short, or a wrong checksum from byte `at` on: perhaps torn by a crash.
    Invalid { at: u64 },
    /// Written by a newer release.
    Format { format: u32 },
    /// The checksum is right and the content cannot be.
    Malformed,
}

impl std::fmt::Display for ManifestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid { at } => write!(f, "not a whole manifest from byte {at} on"),
            Self::Format { format } => write!(f, "a manifest of format {format}; this release reads {FORMAT}"),
            Self::Malformed => f.write_str("the manifest's content makes no sense"),
        }
    }
}

impl std::error::Error for ManifestError {}

impl LogRecord {
    /// The record as it stands in a manifest and in a `Placed` entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let segments_bytes = self.segments.len() * SEGMENT_BYTES + self.epochs.len() * EPOCH_BYTES;
        let mut out = Vec::with_capacity(LOG_BYTES_MIN + self.topic.len() + segments_bytes + self.producers.len());
        put_log_id(&mut out, self.id);
        out.extend_from_slice(&(self.topic.len() as u16).to_be_bytes());
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(&self.placement.0.to_be_bytes());
        let cleaned = self.cleaned_to.0 > 0;
        out.push(if self.offline { FLAG_OFFLINE } else { 0 } | if cleaned { FLAG_CLEANED } else { 0 });
        for offset in [self.start, self.end, self.high_watermark] {
            out.extend_from_slice(&offset.0.to_be_bytes());
        }
        out.extend_from_slice(&(self.epochs.len() as u32).to_be_bytes());
        for entry in &self.epochs {
            out.extend_from_slice(&entry.epoch.0.to_be_bytes());
            out.extend_from_slice(&entry.start.0.to_be_bytes());
        }
        out.extend_from_slice(&(self.segments.len() as u32).to_be_bytes());
        for segment in &self.segments {
            out.extend_from_slice(&segment.encode());
        }
        out.extend_from_slice(&(self.producers.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.producers);
        if cleaned {
            out.extend_from_slice(&self.cleaned_to.0.to_be_bytes());
        }
        out
    }

    /// Reads what [`LogRecord::encode`] wrote.
    ///
    /// # Errors
    /// [`ManifestError::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        read_log(&mut Reader::new(bytes)).ok().filter(Self::is_sane).ok_or(ManifestError::Malformed)
    }

    /// What replay and the store rely on.
    fn is_sane(&self) -> bool {
        let cleaned = 0 <= self.cleaned_to.0 && self.cleaned_to <= self.end;
        let offsets = 0 <= self.start.0 && self.start <= self.end && self.high_watermark.0 >= 0 && cleaned;
        let rising = self.segments.is_sorted_by(|earlier, later| {
            earlier.sealed && earlier.end_offset <= later.base_offset && earlier.base_offset < later.base_offset
        });
        let within = self.segments.last().is_none_or(|last| !last.sealed && last.end_offset <= self.end);
        let epochs = crate::epochs::EpochTable::from_entries(self.epochs.clone()).is_ok();
        offsets && rising && within && epochs && is_topic_name(&self.topic) && self.id.partition.0 >= 0
    }
}

fn read_log(reader: &mut Reader<'_>) -> Result<LogRecord, Short> {
    let id = reader.log_id()?;
    let topic_bytes = usize::from(reader.u16()?);
    let topic = std::str::from_utf8(reader.bytes(topic_bytes)?).map_err(|_| Short)?.to_owned();
    let placement = reader.placement()?;
    let flags = reader.u8()?;
    let (start, end, high_watermark) = (reader.offset()?, reader.offset()?, reader.offset()?);
    let epoch_count = reader.count(EPOCH_BYTES)?;
    let mut epochs = Vec::with_capacity(epoch_count);
    for _ in 0..epoch_count {
        epochs.push(EpochStart { epoch: reader.leader_epoch()?, start: reader.offset()? });
    }
    let segment_count = reader.count(SEGMENT_BYTES)?;
    let mut segments = Vec::with_capacity(segment_count);
    for _ in 0..segment_count {
        segments.push(SegmentMeta::decode(reader.array_ref()?).map_err(|_| Short)?);
    }
    let producer_bytes = reader.u32()? as usize;
    let producers = reader.bytes(producer_bytes)?.to_vec();
    let cleaned_to = if flags & FLAG_CLEANED == 0 { Offset(0) } else { reader.offset()? };
    if !reader.is_empty() || flags & !(FLAG_OFFLINE | FLAG_CLEANED) != 0 {
        return Err(Short);
    }
    let offline = flags & FLAG_OFFLINE != 0;
    Ok(LogRecord { id, topic, placement, offline, start, end, high_watermark, epochs, segments, producers, cleaned_to })
}

/// Gathers the checksum of a manifest while its records are written, then makes the head block.
#[derive(Debug)]
pub struct ManifestSum {
    checksum: u32,
    payload_bytes: u64,
    log_count: u32,
}

impl Default for ManifestSum {
    fn default() -> Self {
        Self::new()
    }
}

impl ManifestSum {
    #[must_use]
    pub fn new() -> Self {
        Self { checksum: 0, payload_bytes: 0, log_count: 0 }
    }

    /// The next record, encoded; appends it with its length to `out`.
    pub fn add(&mut self, record: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&(record.len() as u32).to_be_bytes());
        out.extend_from_slice(record);
        self.checksum = checksum_of(self.checksum, &out[from..]);
        self.payload_bytes += (out.len() - from) as u64;
        self.log_count += 1;
    }

    /// The head, padded to its block. The checksum of the records goes into it, and its own checksum covers that.
    #[must_use]
    pub fn head(&self, head: &ManifestHead) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAYLOAD_AT);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&FORMAT.to_be_bytes());
        out.extend_from_slice(&self.log_count.to_be_bytes());
        out.extend_from_slice(&head.version.to_be_bytes());
        out.extend_from_slice(&head.salt.to_be_bytes());
        out.extend_from_slice(&head.replay_from.sequence.to_be_bytes());
        out.extend_from_slice(&head.replay_from.offset.to_be_bytes());
        out.extend_from_slice(&head.replay_from.file.to_be_bytes());
        out.extend_from_slice(&u32::from(head.shard.0).to_be_bytes());
        out.extend_from_slice(&self.payload_bytes.to_be_bytes());
        out.extend_from_slice(&self.checksum.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        assert_eq!(out.len(), HEAD_BYTES);
        let checksum = crc32c::crc32c(&out[CHECKED_FROM..]);
        out[4..8].copy_from_slice(&checksum.to_be_bytes());
        out.resize(PAYLOAD_AT, 0);
        out
    }
}

/// The head of a copy as it stands in its file, and what it says of the records behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredHead {
    pub head: ManifestHead,
    pub log_count: u32,
    /// Bytes of records from [`PAYLOAD_AT`] on.
    pub payload_bytes: u64,
    /// CRC-32C of those.
    pub payload_checksum: u32,
}

impl StoredHead {
    /// Reads the head at the start of a copy; its own checksum is seen to, that of the records is not.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let head = bytes.get(..HEAD_BYTES).ok_or(ManifestError::Invalid { at: 0 })?;
        let stored = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if head[..4] != MAGIC || crc32c::crc32c(&head[CHECKED_FROM..]) != stored {
            return Err(ManifestError::Invalid { at: 0 });
        }
        let (format, head) = read_head(Reader::new(&head[CHECKED_FROM..])).map_err(|Short| ManifestError::Malformed)?;
        if format == FORMAT { Ok(head) } else { Err(ManifestError::Format { format }) }
    }

    /// True where the head of a copy is still to be written: it was never, or a crash came while the copy was.
    #[must_use]
    pub fn is_blank(bytes: &[u8]) -> bool {
        bytes.iter().take(HEAD_BYTES).all(|&byte| byte == 0)
    }
}

/// The checksum of a manifest's records, `so_far` being that of what came before (0 at first).
#[must_use]
pub fn checksum_of(so_far: u32, records: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, records)
}

fn read_head(mut reader: Reader<'_>) -> Result<(u32, StoredHead), Short> {
    let (format, log_count) = (reader.u32()?, reader.u32()?);
    let (version, salt) = (reader.u64()?, reader.u64()?);
    let (sequence, offset, file) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let shard = ShardId(u16::try_from(reader.u32()?).map_err(|_| Short)?);
    let head = ManifestHead { shard, version, salt, replay_from: JournalPosition { sequence, file, offset } };
    let (payload_bytes, payload_checksum) = (reader.u64()?, reader.u32()?);
    Ok((format, StoredHead { head, log_count, payload_bytes, payload_checksum }))
}

impl Manifest {
    /// The whole of a copy, for small ones and for tests; the store writes it in pieces.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (mut sum, mut payload) = (ManifestSum::new(), Vec::new());
        for log in &self.logs {
            sum.add(&log.encode(), &mut payload);
        }
        let mut out = sum.head(&self.head);
        out.append(&mut payload);
        out
    }

    /// Reads a copy; what stands behind its records is not looked at.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let (head, log_count, payload) = check(bytes)?;
        let mut reader = Reader::new(payload);
        if log_count as usize > payload.len() / LOG_BYTES_MIN {
            return Err(ManifestError::Malformed);
        }
        let mut logs: Vec<LogRecord> = Vec::with_capacity(log_count as usize);
        for _ in 0..log_count {
            let record = reader.u32().and_then(|bytes| reader.bytes(bytes as usize));
            let log = LogRecord::decode(record.map_err(|Short| ManifestError::Malformed)?)?;
            if logs.last().is_some_and(|last| last.id >= log.id) {
                return Err(ManifestError::Malformed);
            }
            logs.push(log);
        }
        if reader.is_empty() { Ok(Self { head, logs }) } else { Err(ManifestError::Malformed) }
    }
}

/// The head, the number of records and their bytes, all checksums seen to.
fn check(bytes: &[u8]) -> Result<(ManifestHead, u32, &[u8]), ManifestError> {
    let stored = StoredHead::decode(bytes)?;
    let end = usize::try_from(stored.payload_bytes).ok().and_then(|bytes| bytes.checked_add(PAYLOAD_AT));
    // One checksum for all records: which of them is damaged nobody can tell.
    let invalid = ManifestError::Invalid { at: PAYLOAD_AT as u64 };
    let payload = end.and_then(|end| bytes.get(PAYLOAD_AT..end)).ok_or(invalid)?;
    let intact = checksum_of(0, payload) == stored.payload_checksum;
    if intact { Ok((stored.head, stored.log_count, payload)) } else { Err(invalid) }
}

#[cfg(test)]
mod tests;
