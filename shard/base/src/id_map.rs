//! Maps by ids that nobody outside has a say in.
//!
//! The standard library's hash withstands keys that a stranger has chosen to collide, and is paid for at every look. Ids that the process
//! draws or counts itself need none of that.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are random or counted by this process. Never one whose keys a peer can choose.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Folds the words of a key with one multiplication each.
#[derive(Clone, Copy, Default, Debug)]
pub struct IdHasher(u64);

/// Odd, and without a pattern in its bits: 2^64 by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl IdHasher {
    fn fold(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for IdHasher {
    /// The map picks a place by the low bits; a product has its mixture in the high ones.
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.fold(u64::from_le_bytes(whole));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.fold(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.fold(word);
    }

    fn write_i32(&mut self, word: i32) {
        self.fold(u64::from(word.cast_unsigned()));
    }

    /// The length of an array comes this way, and is the same for all keys of a map.
    fn write_usize(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::IdHasher;
    use crate::{PartitionIndex, Random, Uuid};

    #[test]
    fn partitions_of_random_topics_spread_over_low_and_high_bits() {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        let mut random = Random::new(1);
        let topics: Vec<_> = (0..64).map(|_| Uuid::from_random(random.next_u64(), random.next_u64())).collect();
        let hasher = &hasher;
        let hashes: Vec<u64> = topics
            .iter()
            .flat_map(|topic| (0..64).map(move |index| hasher.hash_one((*topic, PartitionIndex(index)))))
            .collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        // 4,096 keys thrown at 4,096 places at random leave 63 % of these taken, and the seven bits on top with all their values.
        let low: HashSet<_> = hashes.iter().map(|hash| hash & 4095).collect();
        assert!(low.len() > 4096 * 58 / 100, "{} places are taken", low.len());
        assert_eq!(hashes.iter().map(|hash| hash >> 57).collect::<HashSet<_>>().len(), 128);
    }
}
