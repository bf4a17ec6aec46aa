//! Reading a log: what of it comes from memory and what from disk.
//!
//! Owner: the log whose batches they are, on its shard; memory for blocks read from disk is the shard's. Offsets that the tail has are
//! answered from there at once; older ones from the segment files, block by block, checked against the CRC.
//!
//! Invariants: a read returns whole batches, the first of them the one that holds the offset asked for; bytes from disk that are
//! not sound yield an error that names file and position, never a batch.

mod blocks;
mod choice;
mod cursors;
mod disk;
mod plan;
mod times;
mod view;

use std::fmt;
use std::io;
use std::path::PathBuf;

use base::Offset;
use record::{BatchError, DecodeError};

pub use blocks::{BlockCache, BlockFile, READ_BLOCK_BYTES};
pub use cursors::{Cursor, Cursors};
pub use disk::{DISK_READ_BYTES_MAX, DiskRead, scan_headers};
pub use plan::{Misplaced, Passed, Read, ReadLimits, Walk};
pub use times::{max_timestamp, offset_for_time, record_at};
pub use view::{DiskPlan, LogSource, LogView, ReadPlan, SegmentOnDisk};

/// Why a read found nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// `OFFSET_OUT_OF_RANGE`: the log holds `start` to `end`.
    OutOfRange { start: Offset, end: Offset },
    /// The segment file is damaged there.
    Corrupt { file: PathBuf, position: u64, reason: Corruption },
    /// The log takes no part in anything until it is repaired.
    Offline,
    /// The file cannot be read.
    Io { file: PathBuf, kind: io::ErrorKind, os_code: Option<i32> },
    /// The records of a batch do not decode, so their timestamps are not known.
    Records { offset: Offset, error: DecodeError },
}

/// How a segment file is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corruption {
    Header(BatchError),
    Misplaced(Misplaced),
    Crc {
        stored: u32,
        computed: u32,
    },
    /// An index names what its segment does not hold.
    IndexEntry,
    /// The file ends before the bytes that were written to it.
    Short {
        expected_bytes: u64,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Misplaced(error) => error.fmt(f),
            Self::Crc { stored, computed } => {
                write!(f, "the batch's checksum is {computed:08x} where {stored:08x} is stored")
            }
            Self::IndexEntry => f.write_str("the index entry names what its segment does not hold"),
            Self::Short { expected_bytes } => write!(f, "the file ends before byte {expected_bytes}"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { start, end } => write!(f, "the log holds offsets {start} to {end}"),
            Self::Corrupt { file, position, reason } => {
                write!(f, "{} is damaged at byte {position}: {reason}", file.display())
            }
            Self::Offline => f.write_str("the log is offline after a failed write"),
            Self::Io { file, kind, os_code } => match os_code {
                Some(code) => write!(f, "{}: {}", file.display(), io::Error::from_raw_os_error(*code)),
                None => write!(f, "{}: {kind}", file.display()),
            },
            Self::Records { offset, error } => write!(f, "the batch at offset {offset} does not decode: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads as a fetch does: from memory when it can, else from disk; what follows in memory is added where there is room.
///
/// `damaged_index` hears of a segment whose index should be built anew.
///
/// # Errors
/// See [`ReadError`].
pub async fn read_log(
    log: &impl LogSource,
    cache: &BlockCache,
    from: Offset,
    limits: &ReadLimits,
    damaged_index: impl Fn(Offset),
) -> Result<Read, ReadError> {
    let mut from = from;
    loop {
        let plan = match log.view(|view| view.plan(from, limits))? {
            ReadPlan::Memory(read) => return Ok(read),
            ReadPlan::Disk(plan) => plan,
        };
        let segment = plan.segment.meta.base_offset;
        let result = plan.run(cache).await;
        // Meanwhile the log may have been cut, or the segment have fallen to retention or been compacted: then it is looked up again.
        let unchanged = log.view(|view| {
            let of = view.segment_of(plan.from).map(|of| view.meta(of).name());
            view.generation == plan.segment.file.generation
                && of == Some(plan.segment.meta.name())
                && view.start <= plan.from
        });
        let mut got = match result {
            Ok(got) => got,
            Err(_) if !unchanged => continue,
            Err(error) => return Err(error),
        };
        if got.index_damaged {
            damaged_index(segment);
        }
        if !got.read.is_empty() {
            if unchanged {
                log.view(|view| view.cursors.borrow_mut().put(&plan.cursor, got.next.0, (segment, got.next.1)));
                add_from_memory(log, &mut got, limits);
            }
            return Ok(got.read);
        }
        if !got.at_end {
            return Ok(Read::default());
        }
        // A hole, which compaction may leave: what comes next begins above `from`.
        from = plan.segment.resume;
    }
}

/// Goes on in memory after a read that ended where memory begins.
fn add_from_memory(log: &impl LogSource, got: &mut DiskRead, limits: &ReadLimits) {
    if !got.at_end {
        return;
    }
    let room = limits.max_bytes.saturating_sub(got.read.bytes);
    let limits = ReadLimits { max_bytes: room, at_least_one_batch: false, ..*limits };
    if let Some(more) = log.view(|view| view.tail.read(got.next.0, &limits)) {
        got.read.bytes += more.bytes;
        got.read.slices.extend(more.slices);
    }
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
