//! What fills records up behind their stamps.

use std::io;
use std::path::Path;

use base::{MIB, Random};

use crate::workload::PayloadShape;

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
