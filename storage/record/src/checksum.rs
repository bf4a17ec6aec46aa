//! The CRC-32C (Castagnoli, RFC 3720) of a batch: from the attributes to its end.

use crate::batch::Batches;
use crate::header::{HEADER_BYTES, at};

/// The checksum that belongs into the header of `batch`, a whole batch and nothing after it.
#[must_use]
pub fn crc_of(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(at::ATTRIBUTES..).unwrap_or(&[]))
}

/// The same checksum for a batch that lies in several slices: feed them in order, from the batch's first byte.
#[derive(Clone, Debug)]
pub struct BatchCrc {
    crc: u32,
    skip_bytes: usize,
}

impl Default for BatchCrc {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchCrc {
    #[must_use]
    pub fn new() -> Self {
        Self { crc: 0, skip_bytes: at::ATTRIBUTES }
    }

    pub fn update(&mut self, slice: &[u8]) {
        let skipped = self.skip_bytes.min(slice.len());
        self.skip_bytes -= skipped;
        self.crc = crc32c::crc32c_append(self.crc, &slice[skipped..]);
    }

    #[must_use]
    pub fn value(&self) -> u32 {
        self.crc
    }
}

/// Vouches for a run of batches at the cost of their heads: the CRC-32C of what each batch has before its attributes, its own CRC
/// included, which vouches for the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunChecksum(u32);

impl RunChecksum {
    /// One more batch, whose header this is and whose CRC is known to be right.
    pub fn add(&mut self, header: &[u8; HEADER_BYTES]) {
        self.0 = crc32c::crc32c_append(self.0, &header[..at::ATTRIBUTES]);
    }

    #[must_use]
    pub fn value(self) -> u32 {
        self.0
    }
}

/// True when `run` is whole batches, each with the right CRC, and together those that `checksum` was made of.
#[must_use]
pub fn run_is_intact(run: &[u8], checksum: u32) -> bool {
    let mut found = RunChecksum::default();
    let intact = Batches::new(run).all(|batch| {
        batch.is_ok_and(|batch| {
            batch.bytes().first_chunk().is_some_and(|header| {
                found.add(header);
                batch.has_valid_crc()
            })
        })
    });
    intact && found.value() == checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer_and_streaming_agree() {
        let mut batch = vec![0xaa; 21];
        batch.extend_from_slice(b"123456789");
        assert_eq!(crc_of(&batch), 0xe306_9283, "the check value of CRC-32C");
        assert_eq!(crc_of(&batch[..20]), 0);
        for split in 0..=batch.len() {
            for second in split..=batch.len() {
                let mut crc = BatchCrc::new();
                for part in [&batch[..split], &batch[split..second], &batch[second..]] {
                    crc.update(part);
                }
                assert_eq!(crc.value(), 0xe306_9283, "split at {split} and {second}");
            }
        }
    }
}
