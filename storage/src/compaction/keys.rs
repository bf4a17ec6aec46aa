//! Which keys a log has, and where each was written last: in a fixed amount of memory. Pure.
//!
//! A key is known by a hash of 128 bits under a seed that nobody outside knows, so that no two keys that a client could find pass for one:
//! if they did, one would lose its last value.
//!
//! Bound: the slots that it was made with, of which [`LOAD_PERCENT`] are used; a key that finds none is refused.

use std::hash::{DefaultHasher, Hasher};

use base::Offset;

/// Words of a slot: two of the hash, and the offset plus one, so that a slot of zeros is free.
const SLOT_WORDS: usize = 3;
const SLOT_BYTES: usize = SLOT_WORDS * 8;
/// A fuller table is searched for too long.
const LOAD_PERCENT: u64 = 80;

/// The last offset of each key.
#[derive(Clone, Debug)]
pub struct KeyMap {
    words: Vec<u64>,
    used: usize,
    seed: [u64; 2],
}

impl KeyMap {
    /// A map of at most `bytes_max`, and no more than `keys_max` keys need; it takes one key at least.
    #[must_use]
    pub fn new(bytes_max: usize, keys_max: u64, seed: [u64; 2]) -> Self {
        let wanted = keys_max.saturating_mul(100) / LOAD_PERCENT + 2;
        let slots = usize::try_from(wanted).unwrap_or(usize::MAX).min(bytes_max / SLOT_BYTES).max(2);
        // Memory of zeros is not touched before it is used.
        Self { words: vec![0; slots * SLOT_WORDS], used: 0, seed }
    }

    fn slots(&self) -> usize {
        self.words.len() / SLOT_WORDS
    }

    /// Keys that it takes.
    #[must_use]
    pub fn keys_max(&self) -> usize {
        (self.slots() as u64 * LOAD_PERCENT / 100).max(1) as usize
    }

    /// Keys that it has.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.used
    }

    /// Notes that a key was written at `offset`. False when there is no room for one key more, and nothing is changed.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let tag = self.tag(key);
        let word = offset.0 as u64 + 1;
        match self.find(tag) {
            Ok(at) => self.words[at + 2] = self.words[at + 2].max(word),
            Err(_) if self.used == self.keys_max() => return false,
            Err(at) => {
                self.words[at..at + SLOT_WORDS].copy_from_slice(&[tag[0], tag[1], word]);
                self.used += 1;
            }
        }
        true
    }

    /// Where a key was written last.
    #[must_use]
    pub fn last(&self, key: &[u8]) -> Option<Offset> {
        self.find(self.tag(key)).ok().map(|at| Offset((self.words[at + 2] - 1) as i64))
    }

    fn tag(&self, key: &[u8]) -> [u64; 2] {
        self.seed.map(|seed| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(seed);
            hasher.write(key);
            hasher.finish()
        })
    }

    /// The first word of the key's slot, or of the free one where it would go. There always is a free one.
    fn find(&self, tag: [u64; 2]) -> Result<usize, usize> {
        let slots = self.slots();
        let mut slot = (tag[0] % slots as u64) as usize;
        loop {
            let at = slot * SLOT_WORDS;
            match &self.words[at..at + SLOT_WORDS] {
                [_, _, 0] => return Err(at),
                [first, second, _] if [*first, *second] == tag => return Ok(at),
                _ => slot = (slot + 1) % slots,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_bounded_and_takes_one_key_at_least() {
        for (bytes, keys, takes) in
            [(0, 0, 1), (0, 1000, 1), (24 * 100, 1000, 80), (24 * 100, 10, 11), (1 << 20, 10, 11), (1 << 20, 0, 1)]
        {
            let mut map = KeyMap::new(bytes, keys, [1, 2]);
            assert_eq!(map.keys_max(), takes, "{bytes} bytes for {keys} keys");
            for key in 0..takes as u32 {
                assert!(map.put(&key.to_be_bytes(), Offset(i64::from(key))));
            }
            assert!(!map.put(b"one more", Offset(1)) && map.last(b"one more").is_none());
            assert!(map.put(&0u32.to_be_bytes(), Offset(i64::MAX - 1)), "one that is there needs no room");
            assert_eq!((map.keys(), map.last(&0u32.to_be_bytes())), (takes, Some(Offset(i64::MAX - 1))));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn it_is_a_map_of_last_offsets(
            writes in proptest::collection::vec((proptest::collection::vec(0..3u8, 0..4), 0..1000i64), 0..200),
            slots in 2..40usize, seed in any::<[u64; 2]>(),
        ) {
            let (mut map, mut model) = (KeyMap::new(slots * 24, u64::MAX, seed), BTreeMap::<Vec<u8>, i64>::new());
            for (key, offset) in writes {
                let known = model.contains_key(&key);
                let taken = map.put(&key, Offset(offset));
                prop_assert_eq!(taken, known || model.len() < map.keys_max());
                if taken {
                    let last = model.entry(key).or_insert(offset);
                    *last = offset.max(*last);
                }
            }
            prop_assert_eq!(map.keys(), model.len());
            for (key, last) in model {
                prop_assert_eq!(map.last(&key), Some(Offset(last)));
            }
        }
    }
}
