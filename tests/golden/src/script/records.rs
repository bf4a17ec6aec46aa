//! Batches of the script, sound and otherwise.

use base::{ProducerEpoch, ProducerId};
use record::{BatchBuilder, BatchOptions, Compression, HEADER_BYTES, Header, NO_TIMESTAMP, ProducerStamp, crc_of};

use crate::step::At;

/// Where fields stand in a batch (Kafka's record format, magic 2).
pub mod at {
    pub const BASE_OFFSET: usize = 0;
    pub const BATCH_LENGTH: usize = 8;
    pub const MAGIC: usize = 16;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const RECORD_COUNT: usize = 57;
}

/// Bytes that live as long as the run.
#[must_use]
pub fn kept(bytes: Vec<u8>) -> &'static [u8] {
    bytes.leak()
}

/// A batch of these values: keys `k0`, `k1`, … and timestamps 10 ms apart from `first_ms` on.
#[must_use]
pub fn batch_with(at: &At<'_>, options: BatchOptions, first_ms: i64, values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for (index, value) in values.iter().enumerate() {
        let time = at.time(first_ms + 10 * i64::try_from(index).expect("a few"));
        let key = format!("k{index}");
        let headers = [Header { key: b"origin", value: Some(b"script") }, Header { key: b"empty", value: None }];
        builder.add(time, Some(key.as_bytes()), Some(value.as_bytes()), &headers[..index % 3]).expect("it is small");
    }
    builder.finish().expect("it has records")
}

/// A plain batch.
#[must_use]
pub fn batch(at: &At<'_>, first_ms: i64, values: &[&str]) -> Vec<u8> {
    batch_with(at, BatchOptions::default(), first_ms, values)
}

/// A batch with a record for each of these times.
#[must_use]
pub fn at_times(at: &At<'_>, times_ms: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for &time_ms in times_ms {
        builder.add(at.time(time_ms), Some(b"k"), Some(b"v"), &[]).expect("it is small");
    }
    builder.finish().expect("it has records")
}

/// A batch of one record that has no timestamp, the same in every run.
#[must_use]
pub fn timeless() -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.add(NO_TIMESTAMP, None, Some(b"timeless"), &[]).expect("it is small");
    builder.finish().expect("it has a record")
}

/// A batch of one record without a key.
#[must_use]
pub fn keyless(at: &At<'_>, first_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.add(at.time(first_ms), None, Some(b"no key"), &[]).expect("it is small");
    builder.finish().expect("it has a record")
}

#[must_use]
pub fn compressed(at: &At<'_>, compression: Compression, values: &[&str]) -> Vec<u8> {
    batch_with(at, BatchOptions { compression, ..Default::default() }, 0, values)
}

/// A batch of one record of an idempotent producer.
#[must_use]
pub fn stamped(at: &At<'_>, id: ProducerId, epoch: i16, sequence: i32, values: &[&str]) -> Vec<u8> {
    let producer =
        Some(ProducerStamp { producer_id: id, producer_epoch: ProducerEpoch(epoch), base_sequence: sequence });
    batch_with(at, BatchOptions { producer, ..Default::default() }, 0, values)
}

/// The batch with bytes put over it, its checksum made right again.
#[must_use]
pub fn patched(mut batch: Vec<u8>, offset: usize, bytes: &[u8]) -> Vec<u8> {
    batch[offset..offset + bytes.len()].copy_from_slice(bytes);
    if batch.len() >= HEADER_BYTES {
        let crc = crc_of(&batch);
        batch[at::CRC..at::CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
    batch
}

/// A message of format 0 or 1, as producers before Kafka 0.11 sent them: offset, length, CRC, magic, attributes, (timestamp,) key, value.
#[must_use]
pub fn old_message(magic: i8) -> Vec<u8> {
    let mut content = vec![magic.cast_unsigned(), 0];
    if magic == 1 {
        content.extend_from_slice(&1_000_000_i64.to_be_bytes());
    }
    content.extend_from_slice(&(-1_i32).to_be_bytes());
    content.extend_from_slice(&3_i32.to_be_bytes());
    content.extend_from_slice(b"old");
    let mut message = 0_i64.to_be_bytes().to_vec();
    message.extend_from_slice(&i32::try_from(content.len() + 4).expect("it is short").to_be_bytes());
    message.extend_from_slice(&crc32(&content).to_be_bytes());
    message.extend_from_slice(&content);
    message
}

/// The CRC-32 of formats 0 and 1 (IEEE 802.3), a bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_has_its_check_value() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
