//! Segments: the files a log is made of, what is known of each, and when the next one begins.
//!
//! Owner: the log, on its shard. A segment is born active with the first batch it takes, is sealed when the log rolls, and dies by
//! retention, truncation or removal of its log. Only the active one grows.

mod meta;
mod names;

pub use meta::{MetaError, SegmentMeta};
pub use names::{FileKind, file_name, parse_file_name};
