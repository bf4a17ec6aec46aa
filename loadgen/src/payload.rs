//! What stands in a record: a stamp by which it is known again when it is delivered, and bytes that fill it up.
//!
//! The stamp (28 bytes, little endian): the run (4), the stream (4), the record's number in the stream (8), when it was due in nanoseconds
//! since the run began (8), and the CRC-32C of all that, of the rest of the value and of the key (4). A stream is what one producer
//! writes to one partition; its numbers go up by one.

use std::io;
use std::path::Path;

use base::{MIB, Random};

use crate::workload::PayloadShape;

/// Bytes of a stamp: the least that a record has.
pub const STAMP_BYTES: usize = 28;
const CRC_AT: usize = 24;

/// Which record it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub run: u32,
    pub stream: u32,
    pub number: u64,
    /// Nanoseconds since the run began.
    pub due_ns: u64,
}

/// What a delivered record turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// As it was sent.
    Intact(Stamp),
    /// It was not sent so: its checksum is wrong, or it is too short to have one.
    Damaged,
}

fn crc(value: &[u8], key: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&value[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &value[STAMP_BYTES..]);
    crc32c::crc32c_append(crc, key)
}

/// Puts a stamp on a value, whose other bytes are in place.
pub fn stamp(value: &mut [u8], stamp: &Stamp, key: &[u8]) {
    value[..4].copy_from_slice(&stamp.run.to_le_bytes());
    value[4..8].copy_from_slice(&stamp.stream.to_le_bytes());
    value[8..16].copy_from_slice(&stamp.number.to_le_bytes());
    value[16..CRC_AT].copy_from_slice(&stamp.due_ns.to_le_bytes());
    let crc = crc(value, key);
    value[CRC_AT..STAMP_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Looks at what was delivered. `check`: whether its checksum is computed.
#[must_use]
pub fn inspect(value: &[u8], key: &[u8], check: bool) -> Content {
    if value.len() < STAMP_BYTES {
        return Content::Damaged;
    }
    let u32_at = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    if check && crc(value, key) != u32_at(CRC_AT) {
        return Content::Damaged;
    }
    Content::Intact(Stamp { run: u32_at(0), stream: u32_at(4), number: u64_at(8), due_ns: u64_at(16) })
}

/// Bytes to fill records with, made before the clock starts.
///
/// Pieces follow each other, so that they come into the processor's caches before they are needed.
pub struct Filler {
    pool: Vec<u8>,
    /// Pieces begin below this.
    places: usize,
    next: usize,
}

/// Enough that codecs, and the processor's caches, do not meet the same bytes again soon.
const POOL_BYTES: usize = 4 * MIB;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Random bytes and zeros alternate in runs of this size together, so that every batch is as compressible as the next.
const RUN_BYTES: usize = 512;

impl Filler {
    /// A filler for records of `record_bytes_max` at most.
    ///
    /// # Errors
    /// The file can't be read, or is empty.
    pub fn new(shape: &PayloadShape, record_bytes_max: usize, random: &mut Random) -> io::Result<Self> {
        let mut pool = match shape {
            PayloadShape::Random => random_bytes(POOL_BYTES, random),
            PayloadShape::Ratio(ratio) => {
                let mut pool = random_bytes(POOL_BYTES, random);
                let kept = (RUN_BYTES as f64 / ratio) as usize;
                pool.chunks_mut(RUN_BYTES).for_each(|run| run[kept.min(RUN_BYTES)..].fill(0));
                pool
            }
            PayloadShape::File(path) => read_file(path)?,
        };
        let places = pool.len();
        // A piece that begins near the end goes on from the front.
        while pool.len() < places + record_bytes_max {
            let missing = (places + record_bytes_max - pool.len()).min(places);
            pool.extend_from_within(..missing);
        }
        let next = random.below(places as u64) as usize;
        Ok(Self { pool, places, next })
    }

    /// The next piece, of some length.
    pub fn piece(&mut self, bytes: usize) -> &[u8] {
        let place = self.next;
        self.next = (place + bytes) % self.places;
        &self.pool[place..place + bytes]
    }
}

fn random_bytes(count: usize, random: &mut Random) -> Vec<u8> {
    (0..count.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(count).collect()
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let said = |error: io::Error| io::Error::new(error.kind(), format!("payload: {}: {error}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(said)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(said)?;
    if bytes.is_empty() {
        return Err(said(io::Error::other("the file is empty")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { run: 7, stream: 9, number: 11, due_ns: 13 };

    #[test]
    fn a_record_is_known_again_and_a_flip_anywhere_is_seen() {
        let mut value = vec![5; 100];
        stamp(&mut value, &STAMP, b"key");
        assert_eq!(inspect(&value, b"key", true), Content::Intact(STAMP));
        assert_eq!(inspect(&value, b"kez", true), Content::Damaged);
        for at in 0..value.len() {
            let mut flipped = value.clone();
            flipped[at] ^= 0x40;
            assert_eq!(inspect(&flipped, b"key", true), Content::Damaged, "byte {at}");
        }
        assert_eq!(inspect(&value[..99], b"key", true), Content::Damaged);
        assert_eq!(inspect(&value[..20], b"key", false), Content::Damaged);
    }

    #[test]
    fn a_filler_is_as_compressible_as_it_was_asked_to_be() {
        let mut random = Random::new(3);
        let size = |ratio: &str, random: &mut Random| {
            let shape = ratio.parse().expect("a shape");
            let mut filler = Filler::new(&shape, 1 << 20, random).expect("no file");
            let piece = filler.piece(1 << 20);
            let mut batch = record::BatchBuilder::new(record::BatchOptions {
                compression: record::Compression::Zstd,
                ..Default::default()
            });
            batch.add(base::WallTime(0), None, Some(piece), &[]).expect("small");
            (1u64 << 20) as f64 / batch.finish().expect("a record").len() as f64
        };
        assert!((0.95..1.05).contains(&size("random", &mut random)));
        assert!((3.5..4.5).contains(&size("ratio:4", &mut random)));
    }
}
