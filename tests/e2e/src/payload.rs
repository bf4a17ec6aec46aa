//! What a record holds: its stream and sequence, and bytes that follow from them, so that any change or mix-up shows.
//!
//! A stream is what one producer sends to one partition; its records are numbered from 0 without gaps.

use base::{KIB, Random};

/// Which record it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId {
    pub stream: u32,
    pub sequence: u32,
}

/// Key and value of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
}

const ID_BYTES: usize = 8;

impl RecordId {
    fn seed(self) -> u64 {
        u64::from(self.stream) << 32 | u64::from(self.sequence)
    }

    /// The record that a value claims to be.
    #[must_use]
    pub fn of(value: &[u8]) -> Option<Self> {
        let (stream, rest) = value.split_first_chunk()?;
        let (sequence, _) = rest.split_first_chunk()?;
        Some(Self { stream: u32::from_le_bytes(*stream), sequence: u32::from_le_bytes(*sequence) })
    }

    /// Mostly some hundred bytes, now and then some thousand, rarely as much as a large record; some without a key.
    #[must_use]
    pub fn payload(self) -> Payload {
        let mut random = Random::new(self.seed());
        let bytes_max = match random.below(512) {
            0 => 64 * KIB,
            1..16 => 4 * KIB,
            _ => 700,
        };
        let bytes = random.below(bytes_max as u64);
        self.payload_of(usize::try_from(bytes).expect("small"))
    }

    /// One of this many bytes beyond the id.
    #[must_use]
    pub fn payload_of(self, bytes: usize) -> Payload {
        let mut random = Random::new(self.seed() ^ 0x5eed);
        let key = (!random.chance(1, 8))
            .then(|| random.next_u64().to_le_bytes()[..usize::from(self.sequence as u8 % 9)].to_vec());
        let mut value = Vec::with_capacity(ID_BYTES + bytes + 8);
        value.extend_from_slice(&self.stream.to_le_bytes());
        value.extend_from_slice(&self.sequence.to_le_bytes());
        while value.len() < ID_BYTES + bytes {
            value.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        value.truncate(ID_BYTES + bytes);
        Payload { key, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_told_by_its_value_and_made_the_same_each_time() {
        for sequence in 0..2000 {
            let id = RecordId { stream: 7, sequence };
            let payload = id.payload();
            assert_eq!(RecordId::of(&payload.value), Some(id));
            assert_eq!(id.payload(), payload);
            assert_ne!(RecordId { sequence: sequence + 1, ..id }.payload(), payload);
        }
        assert_eq!(RecordId::of(b"short"), None);
    }
}
