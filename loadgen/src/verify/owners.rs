//! Who reads the partitions of one group: members that take turns, each from where the group had committed.
//!
//! Owner: the judge of the group. Pure.

use std::collections::HashMap;

/// A member's turn at a partition: from when it gets it to when it loses it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner(u64);

/// The turns of a group.
#[derive(Default)]
pub struct Owners {
    count: u64,
    /// The last turn of each partition, and where it began.
    last: HashMap<u32, (Owner, i64)>,
    /// Up to where each partition is certainly committed.
    committed: HashMap<u32, i64>,
    /// Of turns that are not over: the number after the last record of each stream.
    next: HashMap<Owner, HashMap<u32, u64>>,
}

impl Owners {
    /// A member's turn begins at an offset. Whether that is not before what had been committed.
    pub fn begin(&mut self, partition: u32, from: i64) -> (Owner, bool) {
        let owner = Owner(self.count);
        self.count += 1;
        self.last.insert(partition, (owner, from));
        self.next.insert(owner, HashMap::new());
        (owner, self.committed.get(&partition).is_none_or(|committed| from >= *committed))
    }

    /// A turn is over.
    pub fn end(&mut self, owner: Owner) {
        self.next.remove(&owner);
    }

    /// A commit of a turn was answered. A coordinator refuses those of who has lost the partition, so whoever came later began behind it:
    /// whether that is so.
    pub fn committed(&mut self, partition: u32, owner: Owner, offset: i64) -> bool {
        let committed = self.committed.entry(partition).or_insert(offset);
        *committed = offset.max(*committed);
        self.last.get(&partition).is_none_or(|(last, begin)| *last == owner || *begin >= offset)
    }

    /// A record is delivered in a turn: whether none of its stream that comes after it was before, in this turn.
    pub fn is_in_turn(&mut self, owner: Owner, stream: u32, number: u64) -> bool {
        let Some(next) = self.next.get_mut(&owner) else { return true };
        let next = next.entry(stream).or_default();
        let in_turn = number >= *next;
        *next = (number + 1).max(*next);
        in_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_where_the_one_before_had_committed() {
        let mut owners = Owners::default();
        let (first, holds) = owners.begin(0, 10);
        assert!(holds && owners.committed(0, first, 20) && owners.committed(0, first, 30));
        let (second, holds) = owners.begin(0, 30);
        assert!(holds && owners.committed(0, second, 31));
        // Its answer comes late, of what was committed before the second began.
        assert!(owners.committed(0, first, 30));
        assert!(!owners.committed(0, first, 31), "the second would have begun behind it");
        let (_, holds) = owners.begin(0, 30);
        assert!(!holds, "31 is committed");
        assert!(owners.begin(1, 0).1, "another partition");
    }

    #[test]
    fn records_are_in_order_within_a_turn() {
        let mut owners = Owners::default();
        let (first, _) = owners.begin(0, 0);
        let seen: Vec<bool> = [0, 1, 3, 3, 2, 4].map(|number| owners.is_in_turn(first, 7, number)).into();
        assert_eq!(seen, [true, true, true, false, false, true]);
        assert!(owners.is_in_turn(first, 8, 0), "another stream");
        let (second, _) = owners.begin(0, 2);
        assert!(owners.is_in_turn(second, 7, 2) && owners.is_in_turn(first, 7, 5));
    }
}
