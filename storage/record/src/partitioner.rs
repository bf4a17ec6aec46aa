//! Which partition a key belongs to, as Java's clients decide: murmur2 (Austin Appleby, public domain), made positive,
//! modulo the number of partitions.
//!
//! librdkafka's default (`consistent_random`) is CRC-32; its `murmur2_random` is this one.

use base::PartitionIndex;

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// The hash of `key`.
#[must_use]
pub fn murmur2(key: &[u8]) -> i32 {
    let mix = |word: u32| {
        let word = word.wrapping_mul(M);
        (word ^ (word >> 24)).wrapping_mul(M)
    };
    // Java counts in 32 bits; keys of 2 GiB and more do not exist there.
    let mut hash = SEED ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_mul(M) ^ mix(u32::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

/// The partition of `key` in a topic with `partition_count` partitions; partition 0 when there are none.
#[must_use]
pub fn partition_for_key(key: &[u8], partition_count: i32) -> PartitionIndex {
    let positive = murmur2(key) & i32::MAX;
    PartitionIndex(if partition_count > 0 { positive % partition_count } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // From the unit test of Kafka's `Utils.murmur2`.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
            let positive = i64::from(hash) & 0x7fff_ffff;
            for partitions in [1, 3, 24, 1000] {
                assert_eq!(
                    i64::from(partition_for_key(key.as_bytes(), partitions).0),
                    positive % i64::from(partitions)
                );
            }
        }
        assert_eq!(partition_for_key(b"21", 0).0, 0);
    }
}
