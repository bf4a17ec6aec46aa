//! Building a batch out of records: the producing side of clients, and the broker's internal topics.

use std::fmt;

use base::{LeaderEpoch, NO_EPOCH, Offset, ProducerEpoch, ProducerId, WallTime};

use crate::attributes::{Attributes, Compression};
use crate::checksum::crc_of;
use crate::compression::{OutOfRoom, compress};
use crate::header::{BatchHeader, HEADER_BYTES, LENGTH_PREFIX_BYTES, NO_TIMESTAMP};
use crate::records::Header;
use crate::varint::{put_i32, put_i64, size_i32, size_i64};

/// The largest batch that its 32-bit length can describe.
pub(crate) const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// What an idempotent producer stamps on a batch (KIP-98).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerStamp {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// The sequence number of the batch's first record.
    pub base_sequence: i32,
}

/// Everything about a batch but its records. The default is an uncompressed batch of a producer that is not idempotent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchOptions {
    pub compression: Compression,
    /// gzip 0 to 9, zstd −131072 to 22; the others have none. What lies outside is moved to the nearest end.
    pub compression_level: Option<i32>,
    pub producer: Option<ProducerStamp>,
    /// Part of a transaction; needs a producer.
    pub transactional: bool,
    /// Holds a commit or abort marker, not data; only a broker writes these.
    pub control: bool,
    /// 0 in what a client sends.
    pub base_offset: Offset,
    /// Unknown in what a client sends.
    pub leader_epoch: LeaderEpoch,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            compression_level: None,
            producer: None,
            transactional: false,
            control: false,
            base_offset: Offset(0),
            leader_epoch: NO_EPOCH,
        }
    }
}

/// Why a record or a batch could not be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// A batch needs at least one record.
    Empty,
    /// The batch would not fit the 2 GiB that its length field can describe.
    TooLarge,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a batch needs at least one record",
            Self::TooLarge => "a batch can't be larger than 2 GiB",
        })
    }
}

impl std::error::Error for BuildError {}

/// Gathers records and lays them out as one batch. Offsets are consecutive from the base offset, but for gaps that are asked for.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Room for the header, then the records uncompressed: an uncompressed batch is finished in place.
    buffer: Vec<u8>,
    record_count: i32,
    /// Of the next record; ahead of the count where there are gaps.
    next_offset_delta: i32,
    base_timestamp: WallTime,
    max_timestamp: WallTime,
}

impl BatchBuilder {
    #[must_use]
    pub fn new(options: BatchOptions) -> Self {
        Self::with_capacity(options, HEADER_BYTES)
    }

    /// A builder that has room for a batch of `bytes` from the start: the producer's `batch.size`, say.
    #[must_use]
    pub fn with_capacity(options: BatchOptions, bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(bytes.max(HEADER_BYTES));
        buffer.resize(HEADER_BYTES, 0);
        let (base_timestamp, max_timestamp) = (NO_TIMESTAMP, NO_TIMESTAMP);
        Self { options, buffer, record_count: 0, next_offset_delta: 0, base_timestamp, max_timestamp }
    }

    /// Adds a record at the end. Deltas of timestamps count from the first record's.
    ///
    /// # Errors
    /// The batch would grow past 2 GiB; it stays as it was.
    pub fn add(
        &mut self,
        timestamp: WallTime,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<(), BuildError> {
        let first = self.record_count == 0;
        let base_timestamp = if first { timestamp } else { self.base_timestamp };
        // Wrapping on purpose: reading adds it up with the same wrapping.
        let timestamp_delta = timestamp.0.wrapping_sub(base_timestamp.0);
        let content_bytes = content_size(timestamp_delta, self.next_offset_delta, key, value, headers);
        let total = content_bytes.and_then(|content| content.checked_add(self.buffer.len() + 5));
        let (Some(content_bytes), Some(..=BATCH_BYTES_MAX)) = (content_bytes, total) else {
            return Err(BuildError::TooLarge);
        };
        let out = &mut self.buffer;
        put_length(out, content_bytes);
        out.push(0);
        put_i64(out, timestamp_delta);
        put_i32(out, self.next_offset_delta);
        put_nullable(out, key);
        put_nullable(out, value);
        put_length(out, headers.len());
        for header in headers {
            put_nullable(out, Some(header.key));
            put_nullable(out, header.value);
        }
        self.base_timestamp = base_timestamp;
        self.max_timestamp = if first { timestamp } else { self.max_timestamp.max(timestamp) };
        self.record_count += 1;
        self.next_offset_delta += 1;
        Ok(())
    }

    /// Leaves the next offset without a record, as compaction does where it removes one. A batch may consist of gaps alone.
    pub fn leave_gap(&mut self) {
        self.next_offset_delta += 1;
    }

    #[must_use]
    pub fn record_count(&self) -> usize {
        self.record_count.cast_unsigned() as usize
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Bytes of the batch so far before compression: exact for an uncompressed one, and for all practical input no less
    /// than the compressed one's.
    #[must_use]
    pub fn size_bytes_estimate(&self) -> usize {
        self.buffer.len()
    }

    /// [`BatchBuilder::size_bytes_estimate`] after one more record, at most 20 bytes too large: what a producer compares
    /// with `batch.size` before it adds.
    #[must_use]
    pub fn size_bytes_estimate_with(&self, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) -> usize {
        const OVERHEAD_BYTES_MAX: usize = 5 + 1 + 10 + 5;
        let fixed = content_size(0, 0, key, value, headers).unwrap_or(usize::MAX);
        self.buffer.len().saturating_add(fixed).saturating_add(OVERHEAD_BYTES_MAX - 3)
    }

    /// Names the producer; a client does so when it sends, since a batch's sequence depends on those before it.
    pub fn set_producer(&mut self, producer: Option<ProducerStamp>) {
        self.options.producer = producer;
    }

    /// The finished batch.
    ///
    /// # Errors
    /// There is neither record nor gap, or compression made the batch larger than 2 GiB.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        let options = self.options;
        if self.next_offset_delta == 0 {
            return Err(BuildError::Empty);
        }
        let mut batch = self.buffer;
        if options.compression != Compression::None {
            let mut compressed = Vec::with_capacity(HEADER_BYTES + batch.len() / 2);
            compressed.resize(HEADER_BYTES, 0);
            let (codec, level) = (options.compression, options.compression_level);
            compress(codec, level, &batch[HEADER_BYTES..], &mut compressed, BATCH_BYTES_MAX)
                .map_err(|OutOfRoom| BuildError::TooLarge)?;
            batch = compressed;
        }
        let producer = options.producer.unwrap_or(ProducerStamp {
            producer_id: ProducerId(-1),
            producer_epoch: ProducerEpoch(-1),
            base_sequence: -1,
        });
        let header = BatchHeader {
            base_offset: options.base_offset,
            batch_length: 0,
            leader_epoch: options.leader_epoch,
            crc: 0,
            attributes: Attributes::new(options.compression)
                .with_transactional(options.transactional)
                .with_control(options.control),
            last_offset_delta: self.next_offset_delta - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            base_sequence: producer.base_sequence,
            record_count: self.record_count,
        };
        seal(&mut batch, header);
        Ok(batch)
    }
}

/// Writes `header` over the first bytes of a finished `batch`, with the length and the checksum that belong to it.
pub(crate) fn seal(batch: &mut [u8], mut header: BatchHeader) {
    header.batch_length =
        i32::try_from(batch.len() - LENGTH_PREFIX_BYTES).expect("whoever lays out a batch keeps it under 2 GiB");
    batch[..HEADER_BYTES].copy_from_slice(&header.encode());
    header.crc = crc_of(batch);
    batch[..HEADER_BYTES].copy_from_slice(&header.encode());
}

/// Bytes of a record after its length field; `None` past what a 32-bit length can describe.
fn content_size(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[Header<'_>],
) -> Option<usize> {
    let mut size = 1 + size_i64(timestamp_delta) + size_i32(offset_delta);
    size = size.checked_add(nullable_size(key)?)?.checked_add(nullable_size(value)?)?;
    size = size.checked_add(size_i32(i32::try_from(headers.len()).ok()?))?;
    for header in headers {
        size = size.checked_add(nullable_size(Some(header.key))?)?.checked_add(nullable_size(header.value)?)?;
    }
    i32::try_from(size).is_ok().then_some(size)
}

fn nullable_size(field: Option<&[u8]>) -> Option<usize> {
    let Some(field) = field else { return Some(1) };
    Some(size_i32(i32::try_from(field.len()).ok()?) + field.len())
}

fn put_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => put_i32(out, -1),
        Some(field) => {
            put_length(out, field.len());
            out.extend_from_slice(field);
        }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_i32(out, i32::try_from(length).expect("`content_size` refused what 32 bits can't describe"));
}
