//! The members of one group whose coordinator assigns the partitions (KIP-848).
//!
//! A member has a partition from when it is told so until it says that it has given it up, or ends. The coordinator may take it from a
//! member that is silent, which it must then know no longer: so once a partition went to another, the one that had it and has not given
//! it up may not be told that all is well.

use std::collections::{BTreeMap, BTreeSet};

use super::{Moment, Place};

#[derive(Clone, Default, Debug)]
struct Holder {
    /// Since when it knows.
    held: BTreeMap<Place, Moment>,
    /// What went to others, when they were told, and to whom.
    lost: BTreeMap<Place, (Moment, String)>,
}

/// Who has what in a group.
#[derive(Clone, Default, Debug)]
pub struct Holders(BTreeMap<String, Holder>);

impl Holders {
    /// A member is about to say that this is all it has; nothing, as it joins.
    pub fn keeps(&mut self, member: &str, owned: &BTreeSet<Place>) {
        let holder = self.0.entry(member.to_owned()).or_default();
        holder.held.retain(|place, _| owned.contains(place));
        holder.lost.retain(|place, _| owned.contains(place));
    }

    /// A member has ended, or was told that it is none.
    pub fn ended(&mut self, member: &str) {
        self.0.remove(member);
    }

    /// A member that asked at `asked` was told that it is one.
    ///
    /// # Errors
    /// What it has went to another before.
    pub fn confirmed(&self, member: &str, asked: Moment) -> Result<(), String> {
        let lost = self.0.get(member).into_iter().flat_map(|holder| &holder.lost);
        match lost.into_iter().find(|(_, (told, _))| *told < asked) {
            Some((place, (_, to))) => {
                Err(format!("{member} is a member, and has not given up {place:?}, which {to} was given"))
            }
            None => Ok(()),
        }
    }

    /// A member that asked at `asked` was told at `told` that it may read these; what it has besides it is to give up. What is new.
    pub fn told(&mut self, member: &str, assigned: &BTreeSet<Place>, asked: Moment, told: Moment) -> Vec<Place> {
        let holder = self.0.entry(member.to_owned()).or_default();
        let new: Vec<Place> = assigned.iter().filter(|place| !holder.held.contains_key(place)).copied().collect();
        holder.held.extend(new.iter().map(|place| (*place, told)));
        for (_, holder) in self.0.iter_mut().filter(|(other, _)| *other != member) {
            for place in &new {
                // Where both asked at the same time, who came last is not known.
                if holder.held.get(place).is_some_and(|since| *since < asked) {
                    holder.lost.insert(*place, (told, member.to_owned()));
                }
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[i32]) -> BTreeSet<Place> {
        partitions.iter().map(|index| (0, *index)).collect()
    }

    #[test]
    fn nobody_goes_on_with_what_went_to_another() {
        let mut holders = Holders::default();
        assert_eq!(holders.told("a", &set(&[0, 1]), 1, 2).len(), 2);
        assert_eq!(holders.told("a", &set(&[0]), 3, 4), []);
        let mut given_up = holders.clone();
        given_up.keeps("a", &set(&[0]));
        assert_eq!(given_up.told("b", &set(&[1]), 5, 6), [(0, 1)]);
        assert_eq!(given_up.confirmed("a", 7), Ok(()));
        holders.told("b", &set(&[1]), 5, 6);
        assert_eq!(holders.confirmed("a", 5), Ok(()), "it may have been before");
        assert!(holders.confirmed("a", 7).is_err());
        holders.ended("a");
        assert_eq!(holders.confirmed("b", 8), Ok(()));
    }

    #[test]
    fn of_two_that_ask_at_once_nobody_is_blamed() {
        let mut holders = Holders::default();
        holders.told("b", &set(&[0]), 2, 3);
        holders.told("a", &set(&[0]), 1, 4);
        assert_eq!((holders.confirmed("a", 5), holders.confirmed("b", 5)), (Ok(()), Ok(())));
    }
}
