//! The CRC-32C (Castagnoli, RFC 3720) of a batch: from the attributes to its end.

use crate::header::at;

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
