//! Kafka record batches, magic 2 (KIP-98): what a log holds and what clients send, as bytes.
//!
//! Pure and shared by every shard and by the client: no I/O, no clock, no state. A batch is a slice that somebody
//! else owns; views borrow from it and nothing is decoded before it is asked for.
//!
//! Invariants:
//! - bytes from a peer or a disk never panic here: every reader answers with a typed error;
//! - no length in the bytes is trusted: parsing and walking records allocates nothing, and decompression is bounded by
//!   a limit that the caller names;
//! - a batch's bytes are never changed but for the header fields that [`BatchMut`] and [`BatchHeader::encode`] name.
//!
//! | to | use |
//! | --- | --- |
//! | read the header of a batch | [`BatchHeader::parse`], [`BatchView::parse`] |
//! | walk a run of batches | [`Batches`] |
//! | accept what a producer sent | [`validate_for_produce`] |
//! | place a batch in a log | [`BatchMut`] |
//! | read records | [`decode_records`], then [`Decoded::records`] |
//! | write records | [`BatchBuilder`] |
//! | look into records | [`find_timestamp`], [`find_max_timestamp`], [`check_records`] |
//! | store a batch with another codec | [`recompress`] |
//! | take records out of a batch | [`select`], [`retain`], [`emptied`] |
//! | choose a partition | [`partition_for_key`] |

mod attributes;
mod batch;
mod builder;
mod checksum;
mod compression;
mod deep;
mod header;
mod partitioner;
mod patch;
mod produce;
mod recompress;
mod records;
mod retain;
mod varint;

pub use attributes::{Attributes, Compression, TimestampType};
pub use batch::{BatchView, Batches};
pub use builder::{BatchBuilder, BatchOptions, BuildError, ProducerStamp};
pub use checksum::{BatchCrc, RunChecksum, crc_of, run_is_intact};
pub use compression::{DecompressError, decompress};
pub use deep::{
    REFUSED_RECORDS_MAX, RecordRules, RefusalReason, RefusedRecords, TimestampBounds, TimestampOffset, check_records,
    find_max_timestamp, find_timestamp,
};
pub use header::{BatchError, BatchHeader, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, NO_TIMESTAMP, last_sequence};
pub use partitioner::{murmur2, partition_for_key};
pub use patch::BatchMut;
pub use produce::{InvalidBatch, ProduceLimits, RefusalKind, Sequences, Summary, validate_for_produce};
pub use recompress::{RecompressLimits, Recompression, recompress};
pub use records::{DecodeError, Decoded, Header, Headers, Record, RecordError, Records, decode_records};
pub use retain::{Selection, emptied, retain, select};
