//! Segments: the files a log is made of, what is known of each, and when the next one begins.
//!
//! Owner: the log, on its shard. A segment is born active with the first batch it takes, is sealed when the log rolls, and dies by
//! retention, truncation, compaction or removal of its log. Only the active one grows.

mod active;
mod files;
mod index;
mod meta;
mod names;
mod rebuild;
mod roll;

pub use active::ActiveSegment;
pub use files::{FileKey, FileTable};
pub use index::{ActiveIndex, DamagedIndex, Floor, IndexEntry, IndexWrite, OffsetEntry, TimeEntry};
pub use meta::{MetaError, SegmentMeta};
pub use names::{FileKind, SegmentName, parse_file_name};
pub use rebuild::{rebuild_index, write_index_files};
pub use roll::{Incoming, RollLimits, RollReason, jittered_ms, roll_reason};

/// Segment and index files are written in whole blocks of this size, at positions that are multiples of it.
pub const BLOCK_BYTES: usize = 4096;
