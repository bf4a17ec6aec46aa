//! The 61 bytes before the records of a batch.
//!
//! Everything is big-endian. The first 21 bytes (base offset to CRC) lie outside the checksum, so a broker may set the
//! base offset and the leader epoch of a batch without touching it.

use std::fmt;

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, WallTime};

use crate::attributes::{Attributes, Compression, TimestampType};

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes of a batch that `batch_length` does not count: base offset and the length itself.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// The only record format that is served.
pub const MAGIC: i8 = 2;
/// "No timestamp" as Kafka writes it.
pub const NO_TIMESTAMP: WallTime = WallTime(-1);

/// Where the fields of a header stand.
pub(crate) mod at {
    pub const BASE_OFFSET: usize = 0;
    pub const BATCH_LENGTH: usize = 8;
    pub const LEADER_EPOCH: usize = 12;
    pub const MAGIC: usize = 16;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const BASE_TIMESTAMP: usize = 27;
    pub const MAX_TIMESTAMP: usize = 35;
    pub const PRODUCER_ID: usize = 43;
    pub const PRODUCER_EPOCH: usize = 51;
    pub const BASE_SEQUENCE: usize = 53;
    pub const RECORD_COUNT: usize = 57;
}

/// The bytes are not a whole batch of magic 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchError {
    /// Fewer bytes than the header, or the length in it, asks for.
    Truncated { have_bytes: usize, need_bytes: usize },
    /// The length is too small for a header, or negative.
    BadLength { batch_length: i32 },
    /// Another record format: 0 and 1 are the formats before Kafka 0.11, anything else is damage.
    BadMagic { magic: i8 },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { have_bytes, need_bytes } => {
                write!(f, "the batch needs {need_bytes} bytes and has {have_bytes}")
            }
            Self::BadLength { batch_length } => write!(f, "the batch length {batch_length} can't hold a header"),
            Self::BadMagic { magic } => write!(f, "record format {magic}; only format 2 is served"),
        }
    }
}

impl std::error::Error for BatchError {}

/// All fields of a batch header, decoded. The two lengths were checked by whoever parsed it; nothing else was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    pub base_offset: Offset,
    /// Bytes after the length field; at least 49 in a parsed header.
    pub batch_length: i32,
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of everything from the attributes to the end of the batch.
    pub crc: u32,
    pub attributes: Attributes,
    /// Offset of the last record less the base offset; also the last sequence less the base sequence. Compaction keeps
    /// it, so it may exceed `record_count − 1`.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas count from.
    pub base_timestamp: WallTime,
    pub max_timestamp: WallTime,
    /// −1 (any negative number, as Kafka reads it) when the producer is not idempotent.
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which may end before or go on after the batch's records.
    ///
    /// # Errors
    /// Fewer than 61 bytes, a length below 49, or a format other than 2.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // The format is looked at before the rest: batches of formats 0 and 1 are shorter than this header.
        if let (Some(length), Some(&magic)) = (bytes.get(at::BATCH_LENGTH..at::LEADER_EPOCH), bytes.get(at::MAGIC)) {
            let batch_length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            if i64::from(batch_length) <= (at::MAGIC - LENGTH_PREFIX_BYTES) as i64 {
                return Err(BatchError::BadLength { batch_length });
            }
            if magic.cast_signed() != MAGIC {
                return Err(BatchError::BadMagic { magic: magic.cast_signed() });
            }
        }
        match bytes.first_chunk() {
            Some(header) => Self::decode(header),
            None => Err(BatchError::Truncated { have_bytes: bytes.len(), need_bytes: HEADER_BYTES }),
        }
    }

    /// As [`BatchHeader::parse`], for a header that was gathered from several slices.
    ///
    /// # Errors
    /// A length below 49, or a format other than 2.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BatchError> {
        let magic = i8::from_be_bytes(field(bytes, at::MAGIC));
        let batch_length = i32::from_be_bytes(field(bytes, at::BATCH_LENGTH));
        if magic != MAGIC {
            return Err(BatchError::BadMagic { magic });
        }
        if i64::from(batch_length) < (HEADER_BYTES - LENGTH_PREFIX_BYTES) as i64 {
            return Err(BatchError::BadLength { batch_length });
        }
        Ok(Self {
            base_offset: Offset(i64::from_be_bytes(field(bytes, at::BASE_OFFSET))),
            batch_length,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(bytes, at::LEADER_EPOCH))),
            crc: u32::from_be_bytes(field(bytes, at::CRC)),
            attributes: Attributes(u16::from_be_bytes(field(bytes, at::ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(field(bytes, at::LAST_OFFSET_DELTA)),
            base_timestamp: WallTime(i64::from_be_bytes(field(bytes, at::BASE_TIMESTAMP))),
            max_timestamp: WallTime(i64::from_be_bytes(field(bytes, at::MAX_TIMESTAMP))),
            producer_id: ProducerId(i64::from_be_bytes(field(bytes, at::PRODUCER_ID))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, at::PRODUCER_EPOCH))),
            base_sequence: i32::from_be_bytes(field(bytes, at::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(field(bytes, at::RECORD_COUNT)),
        })
    }

    /// The header as bytes, the CRC included as it stands in the field.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, at::BASE_OFFSET, self.base_offset.0.to_be_bytes());
        put(&mut bytes, at::BATCH_LENGTH, self.batch_length.to_be_bytes());
        put(&mut bytes, at::LEADER_EPOCH, self.leader_epoch.0.to_be_bytes());
        put(&mut bytes, at::MAGIC, MAGIC.to_be_bytes());
        put(&mut bytes, at::CRC, self.crc.to_be_bytes());
        put(&mut bytes, at::ATTRIBUTES, self.attributes.0.to_be_bytes());
        put(&mut bytes, at::LAST_OFFSET_DELTA, self.last_offset_delta.to_be_bytes());
        put(&mut bytes, at::BASE_TIMESTAMP, self.base_timestamp.0.to_be_bytes());
        put(&mut bytes, at::MAX_TIMESTAMP, self.max_timestamp.0.to_be_bytes());
        put(&mut bytes, at::PRODUCER_ID, self.producer_id.0.to_be_bytes());
        put(&mut bytes, at::PRODUCER_EPOCH, self.producer_epoch.0.to_be_bytes());
        put(&mut bytes, at::BASE_SEQUENCE, self.base_sequence.to_be_bytes());
        put(&mut bytes, at::RECORD_COUNT, self.record_count.to_be_bytes());
        bytes
    }

    /// Bytes of the whole batch, header included.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        // Parsing refused a negative length; a header put together by hand with one is as small as can be.
        LENGTH_PREFIX_BYTES + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// The offset of the batch's last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        // Wrapping, as in Java: a damaged header must not bring the process down.
        Offset(self.base_offset.0.wrapping_add(i64::from(self.last_offset_delta)))
    }

    /// The offset that follows the batch's last record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.wrapping_add(1))
    }

    /// True when the batch comes from an idempotent producer.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        self.producer_id.0 >= 0
    }

    /// The sequence number of the last record; −1 when the batch has none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 { -1 } else { last_sequence(self.base_sequence, self.last_offset_delta) }
    }

    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.attributes.compression()
    }

    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// From when on the tombstones of the batch may go (KIP-534): set by the first compaction that met them, in the place of the base
    /// timestamp, from which the records' deltas count all the same.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<WallTime> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }
}

/// The sequence number `delta` records after `base`: 0 follows 2^31 − 1 (KIP-98).
#[must_use]
pub fn last_sequence(base: i32, delta: i32) -> i32 {
    (base.wrapping_add(delta)) & i32::MAX
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn put<const N: usize>(bytes: &mut [u8; HEADER_BYTES], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> BatchHeader {
        BatchHeader {
            base_offset: Offset(0x0102_0304_0506_0708),
            batch_length: 49,
            leader_epoch: LeaderEpoch(7),
            crc: 0xdead_beef,
            attributes: Attributes::new(Compression::Lz4).with_transactional(true),
            last_offset_delta: 4,
            base_timestamp: WallTime(1_700_000_000_000),
            max_timestamp: WallTime(1_700_000_000_123),
            producer_id: ProducerId(9),
            producer_epoch: ProducerEpoch(2),
            base_sequence: i32::MAX - 1,
            record_count: 5,
        }
    }

    #[test]
    fn every_field_round_trips() {
        let header = example();
        let bytes = header.encode();
        assert_eq!(BatchHeader::parse(&bytes), Ok(header));
        assert_eq!(BatchHeader::decode(&bytes), Ok(header));
        assert_eq!((header.size_bytes(), header.last_offset().0), (61, 0x0102_0304_0506_070c));
        assert_eq!(header.last_sequence(), 2, "2^31 - 2, 2^31 - 1, 0, 1, 2");
    }

    #[test]
    fn what_is_no_header() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: BatchError| {
            let mut bytes = example().encode().to_vec();
            change(&mut bytes);
            assert_eq!(BatchHeader::parse(&bytes), Err(expected));
        };
        check(&|b| b.clear(), BatchError::Truncated { have_bytes: 0, need_bytes: 61 });
        check(&|b| b.truncate(60), BatchError::Truncated { have_bytes: 60, need_bytes: 61 });
        check(&|b| b[16] = 1, BatchError::BadMagic { magic: 1 });
        check(&|b| b[16] = 0xff, BatchError::BadMagic { magic: -1 });
        check(&|b| b[11] = 48, BatchError::BadLength { batch_length: 48 });
        check(&|b| b[8..12].fill(0xff), BatchError::BadLength { batch_length: -1 });
        // An old, short batch is told apart from a truncated one.
        check(
            &|b| {
                b.truncate(40);
                b[16] = 0;
            },
            BatchError::BadMagic { magic: 0 },
        );
    }

    #[test]
    fn extreme_numbers_wrap_and_do_not_panic() {
        let header = BatchHeader {
            base_offset: Offset(i64::MAX),
            last_offset_delta: i32::MAX,
            base_sequence: i32::MAX,
            batch_length: -1,
            ..example()
        };
        assert!(header.last_offset().0 < 0);
        assert_eq!(header.next_offset().0, header.last_offset().0 + 1);
        assert_eq!(header.last_sequence(), i32::MAX - 1);
        assert_eq!(header.size_bytes(), 12);
        assert_eq!(BatchHeader { last_offset_delta: i32::MIN, ..header }.last_sequence(), i32::MAX);
    }
}
