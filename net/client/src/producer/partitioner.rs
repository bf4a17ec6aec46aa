//! Which partition a record without one goes to.
//!
//! Owner: a topic of one producer. Pure. A key decides by murmur2, as in Java's clients, so that it stays with its partition
//! whoever writes it; without a key records stay with one partition until a batch's worth is written, then go to another one
//! drawn at random, so batches fill and the load spreads (KIP-480, KIP-794).

use base::PartitionIndex;
use record::partition_for_key;

/// How partitions are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partitioner {
    /// By key; records without one stick.
    #[default]
    KeyHash,
    /// Records stick, whatever their key.
    Sticky,
}

/// The partition that records stick to at present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StickyState {
    current: Option<PartitionIndex>,
    bytes: usize,
}

impl Partitioner {
    /// The partition for a record of `bytes`. `usable` are the partitions with a leader; where none has, any will do.
    pub(super) fn choose(
        self,
        key: Option<&[u8]>,
        partition_count: usize,
        sticky: &mut StickyState,
        next: Next<'_>,
    ) -> PartitionIndex {
        if let (Self::KeyHash, Some(key)) = (self, key) {
            return partition_for_key(key, i32::try_from(partition_count).unwrap_or(i32::MAX));
        }
        let current =
            sticky.current.filter(|current| sticky.bytes < next.batch_bytes && in_range(*current, partition_count));
        let chosen = current.unwrap_or_else(|| {
            sticky.bytes = 0;
            draw(partition_count, next.usable, (next.random)())
        });
        sticky.current = Some(chosen);
        sticky.bytes = sticky.bytes.saturating_add(next.bytes);
        chosen
    }
}

/// What the choice for a record without a key needs.
pub(super) struct Next<'a> {
    pub bytes: usize,
    pub batch_bytes: usize,
    pub usable: &'a dyn Fn(PartitionIndex) -> bool,
    pub random: &'a dyn Fn() -> u64,
}

fn in_range(index: PartitionIndex, partition_count: usize) -> bool {
    usize::try_from(index.0).is_ok_and(|index| index < partition_count)
}

fn draw(partition_count: usize, usable: &dyn Fn(PartitionIndex) -> bool, random: u64) -> PartitionIndex {
    let all = || (0..partition_count).map(|index| PartitionIndex(i32::try_from(index).unwrap_or(i32::MAX)));
    let good: Vec<PartitionIndex> = all().filter(|index| usable(*index)).collect();
    let among = if good.is_empty() { all().collect() } else { good };
    let place = random.checked_rem(among.len() as u64).unwrap_or(0);
    among.get(usize::try_from(place).unwrap_or(0)).copied().unwrap_or(PartitionIndex(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn keys_stay_and_records_without_one_stick_for_a_batch() {
        let draws = Cell::new(0);
        let random = || {
            draws.set(draws.get() + 1);
            draws.get()
        };
        let mut sticky = StickyState::default();
        let mut choose = |partitioner: Partitioner, key: Option<&[u8]>| {
            let usable = |index: PartitionIndex| index.0 != 1;
            let next = Next { bytes: 40, batch_bytes: 100, usable: &usable, random: &random };
            partitioner.choose(key, 4, &mut sticky, next).0
        };
        // 40, 80 and 120 bytes fill the first batch. Draws 1, 2, 3 are places among 0, 2, 3.
        let stuck: Vec<i32> = (0..7).map(|_| choose(Partitioner::KeyHash, None)).collect();
        assert_eq!(stuck, [2, 2, 2, 3, 3, 3, 0]);
        let keyed = record::partition_for_key(b"key", 4).0;
        assert_eq!(choose(Partitioner::KeyHash, Some(b"key")), keyed);
        assert_eq!(choose(Partitioner::Sticky, Some(b"key")), 0);
    }

    #[test]
    fn without_a_leader_anywhere_any_partition_will_do() {
        let next = Next { bytes: 1, batch_bytes: 1, usable: &|_| false, random: &|| 5 };
        assert_eq!(Partitioner::KeyHash.choose(None, 3, &mut StickyState::default(), next), PartitionIndex(2));
    }
}
