//! Which blocks of one slab are free: a buddy allocator over indexes, with no memory of its own at stake.
//!
//! Owner: the arena of one shard. Pure and safe: units in, units out. A unit is the smallest block; a block of order `n` is `2^n`
//! units and starts at a multiple of its size. Invariant: every unit belongs to exactly one block, and two free buddies of one
//! order never stand side by side (they were merged).

/// Marks "no unit" in the free lists.
const NONE: u16 = u16::MAX;
/// Tag of a unit inside a block; the first unit of a block carries its order and whether it is free.
const INSIDE: u8 = 0xff;
const FREE: u8 = 0x80;

pub(crate) struct Buddy {
    /// First free block of each order.
    heads: Vec<u16>,
    next: Vec<u16>,
    previous: Vec<u16>,
    tags: Vec<u8>,
    free_units: usize,
}

impl Buddy {
    /// A slab of `2^order` units, all free as one block.
    pub(crate) fn new(order: u8) -> Self {
        assert!(order <= 15, "units are numbered in 16 bits");
        let units = 1usize << order;
        let mut buddy = Self {
            heads: vec![NONE; usize::from(order) + 1],
            next: vec![NONE; units],
            previous: vec![NONE; units],
            tags: vec![INSIDE; units],
            free_units: units,
        };
        buddy.link(0, order);
        buddy
    }

    fn order_max(&self) -> u8 {
        (self.heads.len() - 1) as u8
    }

    pub(crate) fn free_units(&self) -> usize {
        self.free_units
    }

    /// The first unit of a block of `2^order` units, or `None` when no block is that large any more.
    pub(crate) fn take(&mut self, order: u8) -> Option<u16> {
        let mut found = (order..=self.order_max()).find(|&o| self.heads[usize::from(o)] != NONE)?;
        let unit = self.heads[usize::from(found)];
        self.unlink(unit, found);
        while found > order {
            found -= 1;
            self.link(unit + (1 << found), found);
        }
        self.tags[usize::from(unit)] = order;
        self.free_units -= 1 << order;
        Some(unit)
    }

    /// Takes a block back and merges it with its buddies as far as they are free.
    pub(crate) fn give_back(&mut self, unit: u16, order: u8) {
        assert_eq!(self.tags[usize::from(unit)], order, "a block is given back once, as large as it was taken");
        self.free_units += 1 << order;
        let (mut unit, mut order) = (unit, order);
        while order < self.order_max() {
            let buddy = unit ^ (1 << order);
            if self.tags[usize::from(buddy)] != order | FREE {
                break;
            }
            self.unlink(buddy, order);
            self.tags[usize::from(unit.max(buddy))] = INSIDE;
            unit = unit.min(buddy);
            order += 1;
        }
        self.link(unit, order);
    }

    fn link(&mut self, unit: u16, order: u8) {
        let head = std::mem::replace(&mut self.heads[usize::from(order)], unit);
        self.next[usize::from(unit)] = head;
        self.previous[usize::from(unit)] = NONE;
        if head != NONE {
            self.previous[usize::from(head)] = unit;
        }
        self.tags[usize::from(unit)] = order | FREE;
    }

    fn unlink(&mut self, unit: u16, order: u8) {
        let (next, previous) = (self.next[usize::from(unit)], self.previous[usize::from(unit)]);
        if previous == NONE {
            self.heads[usize::from(order)] = next;
        } else {
            self.next[usize::from(previous)] = next;
        }
        if next != NONE {
            self.previous[usize::from(next)] = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Buddy;
    use base::Random;

    #[test]
    fn blocks_never_overlap_and_merge_back_to_one() {
        const ORDER: u8 = 8;
        let mut random = Random::new(1);
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let mut buddy = Buddy::new(ORDER);
            let mut owner = vec![false; 1 << ORDER];
            let mut held: Vec<(u16, u8)> = Vec::new();
            for _ in 0..400 {
                if random.chance(3, 5) {
                    let order = random.below(6) as u8;
                    if let Some(unit) = buddy.take(order) {
                        assert_eq!(unit % (1 << order), 0);
                        for slot in &mut owner[usize::from(unit)..usize::from(unit) + (1 << order)] {
                            assert!(!std::mem::replace(slot, true), "overlap");
                        }
                        held.push((unit, order));
                    }
                } else if !held.is_empty() {
                    let (unit, order) = held.swap_remove(random.below(held.len() as u64) as usize);
                    owner[usize::from(unit)..usize::from(unit) + (1 << order)].fill(false);
                    buddy.give_back(unit, order);
                }
                assert_eq!(buddy.free_units(), owner.iter().filter(|&&taken| !taken).count());
            }
            for (unit, order) in held {
                buddy.give_back(unit, order);
            }
            assert_eq!(buddy.take(ORDER), Some(0), "everything merged back");
            assert_eq!(buddy.take(0), None);
        }
    }
}
