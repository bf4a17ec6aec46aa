//! What a broker checks in a produced batch without decoding a record.
//!
//! Runs on the connection's shard, on bytes straight from a client. The order of the checks is Kafka's
//! (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator.validateBatch`), so a batch
//! that is wrong in two ways gets the same answer.
//!
//! Two differences from Kafka, both stricter, neither met by any client: bytes after the batch that are too few for
//! another one are refused (Kafka drops them), and a batch that claims append time is always refused (Kafka does so on
//! topics with append time and rewrites the batch on others).

use std::fmt;

use base::{ProducerEpoch, ProducerId};

use crate::attributes::{Compression, TimestampType};
use crate::batch::BatchView;
use crate::checksum::crc_of;
use crate::header::{BatchError, BatchHeader, LENGTH_PREFIX_BYTES};

/// What a topic and the version of the request allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProduceLimits {
    /// `max.message.bytes`: the largest batch, header included.
    pub message_bytes_max: usize,
    /// False for Produce below version 7, in which zstd may not be used (KIP-110).
    pub zstd_allowed: bool,
}

/// What the broker goes on to need of a batch that was found good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    pub header: BatchHeader,
    pub compression: Compression,
    /// Bytes of the batch, header included.
    pub size_bytes: usize,
    /// At least 1.
    pub record_count: u32,
    /// Present when the producer is idempotent.
    pub sequences: Option<Sequences>,
}

/// The sequence numbers that an idempotent producer gave a batch (KIP-98).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequences {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub first: i32,
    /// Less than `first` when the numbers wrapped past 2^31 − 1.
    pub last: i32,
}

/// Why a batch was refused. Each names the error that Kafka answers with; see [`InvalidBatch::kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidBatch {
    /// No batch at all. `INVALID_RECORD`.
    Empty,
    /// The bytes end before the batch does. `INVALID_RECORD`.
    Truncated { have_bytes: usize, need_bytes: usize },
    /// The length can't hold a header. `CORRUPT_MESSAGE`.
    BadLength { batch_length: i32 },
    /// Format 0 or 1, which Produce v3 and later may not carry. `INVALID_RECORD`.
    OldFormat { magic: i8 },
    /// A format that nobody has defined. `CORRUPT_MESSAGE`.
    BadMagic { magic: i8 },
    /// More after the first batch: a request carries one batch for each partition. `INVALID_RECORD`.
    ExtraBytes { extra_bytes: usize },
    /// zstd in a Produce request below version 7. `UNSUPPORTED_COMPRESSION_TYPE`.
    ZstdNotAllowed,
    /// A producer doesn't choose offsets; its batches start at 0. `INVALID_RECORD`.
    BaseOffset { base_offset: i64 },
    /// Larger than the topic's `max.message.bytes`. `MESSAGE_TOO_LARGE`.
    TooLarge { size_bytes: usize, message_bytes_max: usize },
    /// The checksum does not match. `CORRUPT_MESSAGE`.
    BadCrc { stored: u32, computed: u32 },
    /// Codec 5 to 7. Kafka fails with `UNKNOWN_SERVER_ERROR`; `UNSUPPORTED_COMPRESSION_TYPE` says what is wrong.
    UnknownCompression { code: u8 },
    /// No records, or their number is not `last_offset_delta + 1`. `INVALID_RECORD`.
    RecordCount { record_count: i32, last_offset_delta: i32 },
    /// Only the broker writes control batches. `INVALID_RECORD`.
    Control,
    /// An idempotent producer must number its records. `INVALID_RECORD`.
    NoSequence { producer_id: ProducerId, base_sequence: i32 },
    /// A producer id with a negative epoch. `INVALID_RECORD`.
    NoProducerEpoch { producer_id: ProducerId, producer_epoch: ProducerEpoch },
    /// A transaction without a producer id. `INVALID_RECORD`.
    TransactionWithoutProducer,
    /// Only the broker sets append time. `INVALID_TIMESTAMP`.
    AppendTimeFromClient,
}

/// The classes of refusal; the broker's one table maps them to the codes of Kafka that bear the same names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusalKind {
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    UnsupportedCompressionType,
    InvalidTimestamp,
}

impl InvalidBatch {
    /// Which of Kafka's errors this is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::BadLength { .. } | Self::BadMagic { .. } | Self::BadCrc { .. } => RefusalKind::CorruptMessage,
            Self::TooLarge { .. } => RefusalKind::MessageTooLarge,
            Self::ZstdNotAllowed | Self::UnknownCompression { .. } => RefusalKind::UnsupportedCompressionType,
            Self::AppendTimeFromClient => RefusalKind::InvalidTimestamp,
            Self::Empty
            | Self::Truncated { .. }
            | Self::OldFormat { .. }
            | Self::ExtraBytes { .. }
            | Self::BaseOffset { .. }
            | Self::RecordCount { .. }
            | Self::Control
            | Self::NoSequence { .. }
            | Self::NoProducerEpoch { .. }
            | Self::TransactionWithoutProducer => RefusalKind::InvalidRecord,
        }
    }
}

impl fmt::Display for InvalidBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => {
                f.write_str("a produce request must carry one record batch for each partition; there is none")
            }
            Self::Truncated { have_bytes, need_bytes } => {
                write!(f, "the record batch needs {need_bytes} bytes and {have_bytes} were sent")
            }
            Self::BadLength { batch_length } => write!(f, "the batch length {batch_length} can't hold a header"),
            Self::OldFormat { magic } => write!(f, "record format {magic} is not accepted; send format 2"),
            Self::BadMagic { magic } => write!(f, "record format {magic} does not exist"),
            Self::ExtraBytes { extra_bytes } => {
                write!(f, "{extra_bytes} bytes follow the record batch; send exactly one batch for each partition")
            }
            Self::ZstdNotAllowed => f.write_str("zstd needs version 7 or later of Produce"),
            Self::BaseOffset { base_offset } => {
                write!(f, "the base offset of a produced batch is 0, not {base_offset}")
            }
            Self::TooLarge { size_bytes, message_bytes_max } => {
                write!(f, "the batch has {size_bytes} bytes; max.message.bytes of the topic is {message_bytes_max}")
            }
            Self::BadCrc { stored, computed } => {
                write!(f, "the batch's checksum is {stored:08x} and its bytes give {computed:08x}")
            }
            Self::UnknownCompression { code } => write!(f, "compression {code} does not exist"),
            Self::RecordCount { record_count, last_offset_delta } => {
                write!(f, "the batch has {record_count} records and a last offset delta of {last_offset_delta}")
            }
            Self::Control => f.write_str("clients may not write control batches"),
            Self::NoSequence { producer_id, base_sequence } => {
                write!(f, "producer {producer_id} sent the sequence number {base_sequence}")
            }
            Self::NoProducerEpoch { producer_id, producer_epoch } => {
                write!(f, "producer {producer_id} sent the epoch {producer_epoch}")
            }
            Self::TransactionWithoutProducer => f.write_str("a transactional batch needs a producer id"),
            Self::AppendTimeFromClient => f.write_str("clients may not set the timestamp type to LogAppendTime"),
        }
    }
}

impl std::error::Error for InvalidBatch {}

/// Checks the records that a Produce request (version 3 or later) carries for one partition. Reads every byte once, for
/// the checksum; allocates nothing.
///
/// # Errors
/// The first check that failed, in Kafka's order.
pub fn validate_for_produce(bytes: &[u8], limits: &ProduceLimits) -> Result<Summary, InvalidBatch> {
    let batch = one_batch(bytes)?;
    let header = *batch.header();
    if header.compression() == Some(Compression::Zstd) && !limits.zstd_allowed {
        return Err(InvalidBatch::ZstdNotAllowed);
    }
    if header.base_offset.0 != 0 {
        return Err(InvalidBatch::BaseOffset { base_offset: header.base_offset.0 });
    }
    let size_bytes = batch.bytes().len();
    if size_bytes > limits.message_bytes_max {
        return Err(InvalidBatch::TooLarge { size_bytes, message_bytes_max: limits.message_bytes_max });
    }
    let computed = crc_of(batch.bytes());
    if computed != header.crc {
        return Err(InvalidBatch::BadCrc { stored: header.crc, computed });
    }
    let Some(compression) = header.compression() else {
        return Err(InvalidBatch::UnknownCompression { code: header.attributes.compression_code() });
    };
    let record_count = record_count(&header)?;
    if header.is_control() {
        return Err(InvalidBatch::Control);
    }
    let sequences = sequences(&header)?;
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(InvalidBatch::AppendTimeFromClient);
    }
    Ok(Summary { header, compression, size_bytes, record_count, sequences })
}

/// The one batch that makes up all of `bytes`.
fn one_batch(bytes: &[u8]) -> Result<BatchView<'_>, InvalidBatch> {
    if bytes.is_empty() {
        return Err(InvalidBatch::Empty);
    }
    let batch = BatchView::parse(bytes).map_err(|error| match error {
        BatchError::Truncated { have_bytes, need_bytes } => InvalidBatch::Truncated { have_bytes, need_bytes },
        BatchError::BadLength { batch_length } => InvalidBatch::BadLength { batch_length },
        BatchError::BadMagic { magic: magic @ 0..=1 } => InvalidBatch::OldFormat { magic },
        BatchError::BadMagic { magic } => InvalidBatch::BadMagic { magic },
    })?;
    let extra = &bytes[batch.bytes().len()..];
    if extra.is_empty() {
        return Ok(batch);
    }
    // As Kafka does, a second batch with an impossible length or format is damage; a sound one is one too many.
    if extra.len() > LENGTH_PREFIX_BYTES {
        match BatchHeader::parse(extra) {
            Err(BatchError::BadLength { batch_length }) => return Err(InvalidBatch::BadLength { batch_length }),
            Err(BatchError::BadMagic { magic }) if !(0..=1).contains(&magic) => {
                return Err(InvalidBatch::BadMagic { magic });
            }
            _ => {}
        }
    }
    Err(InvalidBatch::ExtraBytes { extra_bytes: extra.len() })
}

/// The number of records, which must agree with the offsets they take.
fn record_count(header: &BatchHeader) -> Result<u32, InvalidBatch> {
    let BatchHeader { record_count, last_offset_delta, .. } = *header;
    match u32::try_from(record_count) {
        Ok(count) if count >= 1 && last_offset_delta == record_count - 1 => Ok(count),
        _ => Err(InvalidBatch::RecordCount { record_count, last_offset_delta }),
    }
}

/// What an idempotent producer stamped on the batch, if it is from one.
fn sequences(header: &BatchHeader) -> Result<Option<Sequences>, InvalidBatch> {
    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
    if !header.has_producer() {
        return if header.is_transactional() { Err(InvalidBatch::TransactionWithoutProducer) } else { Ok(None) };
    }
    if base_sequence < 0 {
        return Err(InvalidBatch::NoSequence { producer_id, base_sequence });
    }
    if producer_epoch.0 < 0 {
        return Err(InvalidBatch::NoProducerEpoch { producer_id, producer_epoch });
    }
    Ok(Some(Sequences { producer_id, producer_epoch, first: base_sequence, last: header.last_sequence() }))
}
