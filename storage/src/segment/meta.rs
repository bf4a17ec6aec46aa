//! What is known of a segment without opening it: in memory for every segment of every log, and in the manifest.
//!
//! Pure. Owner: the log. It is brought up to date with each batch that is appended, and written with the manifest at a checkpoint.

use base::{Offset, WallTime};
use record::{BatchHeader, NO_TIMESTAMP};

use super::SegmentName;

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentMeta {
    pub base_offset: Offset,
    /// Just past its last record; the base offset while it is empty.
    pub end_offset: Offset,
    /// Bytes of whole batches in the segment; its file may be longer while it is active.
    pub bytes: u64,
    /// The largest record timestamp, [`NO_TIMESTAMP`] for none.
    pub max_timestamp: WallTime,
    /// Last offset of the first batch that has `max_timestamp`.
    pub max_timestamp_offset: Offset,
    /// The broker's clock when the segment was created.
    pub created: WallTime,
    /// The broker's clock at the last append: what retention goes by when record timestamps lie in the future.
    pub last_append: WallTime,
    /// Whole entries in the `.index` and `.timeindex` files.
    pub index_entries: u32,
    pub time_index_entries: u32,
    /// Sealed: exact length on disk, indexes complete, never written again.
    pub sealed: bool,
    /// Of its files: see [`SegmentName::revision`]. Above 0 offsets may be missing, and batches be without records.
    pub revision: u8,
}

/// Bytes that are no segment description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaError;

impl std::fmt::Display for MetaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the description of a segment is damaged")
    }
}

impl std::error::Error for MetaError {}

impl SegmentMeta {
    /// Bytes of [`SegmentMeta::encode`].
    pub const ENCODED_BYTES: usize = 65;

    /// An empty active segment.
    #[must_use]
    pub fn new(base_offset: Offset, created: WallTime) -> Self {
        Self {
            base_offset,
            end_offset: base_offset,
            bytes: 0,
            max_timestamp: NO_TIMESTAMP,
            max_timestamp_offset: base_offset,
            created,
            last_append: created,
            index_entries: 0,
            time_index_entries: 0,
            sealed: false,
            revision: 0,
        }
    }

    /// What its files are called.
    #[must_use]
    pub fn name(&self) -> SegmentName {
        SegmentName { base: self.base_offset, revision: self.revision }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes in a batch that now stands at the end of the segment; `header` as it stands there.
    pub fn note(&mut self, header: &BatchHeader, now: WallTime) {
        self.end_offset = header.next_offset();
        self.bytes += header.size_bytes() as u64;
        self.last_append = self.last_append.max(now);
        if header.max_timestamp > self.max_timestamp {
            self.max_timestamp = header.max_timestamp;
            self.max_timestamp_offset = header.last_offset();
        }
    }

    /// For the manifest: fixed length, big-endian.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut out = [0; Self::ENCODED_BYTES];
        let words = [
            self.base_offset.0,
            self.end_offset.0,
            self.bytes as i64,
            self.max_timestamp.0,
            self.max_timestamp_offset.0,
            self.created.0,
            self.last_append.0,
        ];
        for (slot, word) in out.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        out[56..60].copy_from_slice(&self.index_entries.to_be_bytes());
        out[60..64].copy_from_slice(&self.time_index_entries.to_be_bytes());
        out[64] = u8::from(self.sealed) | self.revision << 1;
        out
    }

    /// Reads what [`SegmentMeta::encode`] wrote.
    ///
    /// # Errors
    /// Offsets that run backwards or are negative, a size no position can have.
    pub fn decode(bytes: &[u8; Self::ENCODED_BYTES]) -> Result<Self, MetaError> {
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            i64::from_be_bytes(word)
        };
        let half = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let meta = Self {
            base_offset: Offset(word(0)),
            end_offset: Offset(word(1)),
            bytes: word(2) as u64,
            max_timestamp: WallTime(word(3)),
            max_timestamp_offset: Offset(word(4)),
            created: WallTime(word(5)),
            last_append: WallTime(word(6)),
            index_entries: half(56),
            time_index_entries: half(60),
            sealed: bytes[64] & 1 != 0,
            revision: bytes[64] >> 1,
        };
        let sound = meta.base_offset.0 >= 0
            && meta.end_offset >= meta.base_offset
            && meta.bytes <= i32::MAX as u64
            && (meta.bytes == 0) == (meta.end_offset == meta.base_offset);
        if sound { Ok(meta) } else { Err(MetaError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SegmentMeta {
        SegmentMeta {
            end_offset: Offset(900),
            bytes: 12_345,
            max_timestamp: WallTime(1_700_000_000_000),
            max_timestamp_offset: Offset(899),
            last_append: WallTime(1_700_000_000_500),
            index_entries: 3,
            time_index_entries: 2,
            sealed: true,
            revision: 127,
            ..SegmentMeta::new(Offset(42), WallTime(1_600_000_000_000))
        }
    }

    #[test]
    fn round_trips() {
        let cut = SegmentMeta { sealed: false, revision: 1, ..example() };
        for meta in [example(), cut, SegmentMeta::new(Offset(0), WallTime(5))] {
            assert_eq!(SegmentMeta::decode(&meta.encode()), Ok(meta));
        }
    }

    #[test]
    fn damage_is_refused() {
        type Damage = fn(&mut SegmentMeta);
        let cases: [Damage; 5] = [
            |meta| meta.base_offset = Offset(-1),
            |meta| meta.end_offset = Offset(41),
            |meta| meta.bytes = 1 << 31,
            |meta| meta.bytes = 0,
            |meta| meta.end_offset = Offset(42),
        ];
        for damage in cases {
            let mut meta = example();
            damage(&mut meta);
            assert_eq!(SegmentMeta::decode(&meta.encode()), Err(MetaError), "{meta:?}");
        }
    }
}
