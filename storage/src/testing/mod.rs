//! What the tests of this crate share: batches, and a disk in memory.

pub mod disk;

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, WallTime};
use record::{Attributes, BatchHeader, Compression, HEADER_BYTES, crc_of};

/// The header of a batch of `records` records in `size_bytes` bytes.
pub fn header(base: i64, records: i32, size_bytes: usize, max_timestamp: i64) -> BatchHeader {
    assert!(size_bytes >= HEADER_BYTES);
    BatchHeader {
        base_offset: Offset(base),
        batch_length: (size_bytes - 12) as i32,
        leader_epoch: LeaderEpoch(1),
        crc: 0,
        attributes: Attributes::new(Compression::None),
        last_offset_delta: records - 1,
        base_timestamp: WallTime(max_timestamp),
        max_timestamp: WallTime(max_timestamp),
        producer_id: ProducerId(-1),
        producer_epoch: ProducerEpoch(-1),
        base_sequence: -1,
        record_count: records,
    }
}

/// A whole batch with a body of recognisable bytes and a valid CRC; its records do not decode.
pub fn batch(base: i64, records: i32, size_bytes: usize, max_timestamp: i64) -> Vec<u8> {
    let mut header = header(base, records, size_bytes, max_timestamp);
    let mut bytes = header.encode().to_vec();
    bytes.extend((bytes.len()..size_bytes).map(|index| (index as i64 * 31 + base * 7) as u8));
    header.crc = crc_of(&bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    bytes
}
