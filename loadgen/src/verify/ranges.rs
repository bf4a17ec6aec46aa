//! Sets of numbers that lie in runs.

use std::collections::BTreeMap;

/// A set of numbers, kept as the runs that they form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges {
    /// From the first of a run to the one after its last; runs neither overlap nor touch.
    runs: BTreeMap<u64, u64>,
}

impl Ranges {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Adds the numbers from `first` to before `end`, of which none is in it.
    pub fn insert(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        if let Some((before, touches)) = self.runs.range(..=first).next_back().map(|(before, end)| (*before, *end))
            && touches >= first
        {
            self.runs.remove(&before);
            first = before;
            end = end.max(touches);
        }
        while let Some((after, its_end)) = self.runs.range(first..=end).next().map(|(after, end)| (*after, *end)) {
            self.runs.remove(&after);
            end = end.max(its_end);
        }
        self.runs.insert(first, end);
    }

    /// Takes a number out; whether it was in it.
    pub fn remove(&mut self, number: u64) -> bool {
        let Some((first, end)) = self.runs.range(..=number).next_back().map(|(first, end)| (*first, *end)) else {
            return false;
        };
        if number >= end {
            return false;
        }
        self.runs.remove(&first);
        self.insert(first, number);
        self.insert(number + 1, end);
        true
    }

    /// The numbers of it that lie from `first` to before `end`.
    pub fn within(&self, first: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let from = self.runs.range(..=first).next_back().map_or(first, |(begin, _)| *begin);
        self.runs.range(from..end.max(from)).flat_map(move |(begin, its_end)| (*begin).max(first)..(*its_end).min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((0u64..60, 0u64..8, any::<bool>()), 1..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (first, count, insert) in steps {
                if insert {
                    ranges.insert(first, first + count);
                    set.extend(first..first + count);
                } else {
                    prop_assert_eq!(ranges.remove(first), set.remove(&first));
                }
                for number in 0..70 {
                    prop_assert_eq!(ranges.contains(number), set.contains(&number));
                }
                prop_assert_eq!(ranges.is_empty(), set.is_empty());
                let within: Vec<u64> = ranges.within(10, 40).collect();
                prop_assert_eq!(within, set.range(10..40).copied().collect::<Vec<_>>());
            }
        }
    }
}
