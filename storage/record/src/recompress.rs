//! Storing a batch with another codec than its producer chose: `compression.type` of its topic.
//!
//! The records themselves stay as they are, byte for byte: their bytes are expanded and compressed again, and of the header only
//! what tells of that changes (codec, length, largest timestamp, checksum). So offsets, sequences, keys, headers and timestamps are
//! the producer's. Off the hot path; work on more than 64 KiB belongs on a helper thread.

use crate::attributes::Compression;
use crate::batch::BatchView;
use crate::builder::{BATCH_BYTES_MAX, seal};
use crate::compression::{OutOfRoom, compress};
use crate::deep::{RecordRules, RefusedRecords, check_decoded};
use crate::header::{BatchHeader, HEADER_BYTES};
use crate::records::decode_records;

/// How the batches of a topic are to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recompression {
    pub codec: Compression,
    /// The codec's own level; `None` for its default, and for codecs that have none.
    pub level: Option<i32>,
}

impl Recompression {
    /// True when a batch has to be rebuilt. One that has the codec already is stored as sent, whatever its level; a control batch
    /// always is.
    #[must_use]
    pub fn applies_to(&self, header: &BatchHeader) -> bool {
        header.compression() != Some(self.codec) && !header.is_control()
    }

    /// True for a level that takes many times as long as the codec's default.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        const GZIP_DEFAULT: i32 = 6;
        const ZSTD_DEFAULT: i32 = 3;
        match (self.codec, self.level) {
            (Compression::Gzip, Some(level)) => level > GZIP_DEFAULT,
            (Compression::Zstd, Some(level)) => level > ZSTD_DEFAULT,
            _ => false,
        }
    }
}

/// What a rebuilt batch may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecompressLimits {
    /// Bytes of the records once expanded.
    pub records_bytes_max: usize,
    /// Bytes of the batch as it is stored, header included: `max.message.bytes` holds for that too.
    pub batch_bytes_max: usize,
}

/// The batch with its records, which are held to `rules`, compressed as `to` says. Takes memory for the expanded records, as much
/// again at most while they grow, and for the new batch; the codec's own tables come on top.
///
/// # Errors
/// The records don't decompress within the limit, don't decode, or one breaks a rule; or the new batch is too large.
pub fn recompress(
    batch: &BatchView<'_>,
    to: Recompression,
    rules: &RecordRules,
    limits: &RecompressLimits,
) -> Result<Vec<u8>, RefusedRecords> {
    let decoded = decode_records(batch, limits.records_bytes_max)?;
    let mut header = *batch.header();
    // The one that the records bear, not the one that the producer claims.
    header.max_timestamp = check_decoded(&decoded, rules)?;
    header.attributes = header.attributes.with_compression(to.codec);
    let bytes_max = limits.batch_bytes_max.min(BATCH_BYTES_MAX);
    let mut rebuilt = vec![0; HEADER_BYTES];
    compress(to.codec, to.level, decoded.body(), &mut rebuilt, bytes_max)
        .map_err(|OutOfRoom| RefusedRecords::TooLarge { codec: to.codec, bytes_max })?;
    seal(&mut rebuilt, header);
    Ok(rebuilt)
}
