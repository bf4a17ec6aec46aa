//! The generations of one group whose members share the partitions out (the classic protocol).

use std::collections::{BTreeMap, BTreeSet};

use super::{Moment, Place};

/// What each member of a generation is to have, by who it is: an instance's name where it has one, else the member's id.
pub type Shares = BTreeMap<String, BTreeSet<Place>>;

#[derive(Clone, Default, Debug)]
struct Generation {
    /// As its leaders said; a crash may have made a second one of the same number.
    handed_in: Vec<Shares>,
    /// As members were told.
    told: Shares,
}

/// All that is known of a group's generations.
#[derive(Clone, Default, Debug)]
pub struct Generations {
    known: BTreeMap<i32, Generation>,
    /// The highest of which a share was told, and when the first was.
    latest: Option<(i32, Moment)>,
}

impl Generations {
    /// A leader is about to say who has what.
    pub fn hand_in(&mut self, generation: i32, shares: Shares) {
        self.known.entry(generation).or_default().handed_in.push(shares);
    }

    /// A member that asked at `asked` was told its share at `told`.
    ///
    /// # Errors
    /// Another one of its generation has some of it, it had been told another, no leader has said so, or a later generation had been
    /// shared out before it asked.
    pub fn told(
        &mut self,
        generation: i32,
        who: &str,
        share: &BTreeSet<Place>,
        asked: Moment,
        told: Moment,
    ) -> Result<(), String> {
        self.confirmed(generation, asked)?;
        let known = self.known.entry(generation).or_default();
        for (other, theirs) in known.told.iter().filter(|(other, _)| *other != who) {
            if let Some(place) = theirs.intersection(share).next() {
                return Err(format!("generation {generation}: {place:?} is {other}'s and {who}'s"));
            }
        }
        if let Some(before) = known.told.insert(who.to_owned(), share.clone()).filter(|before| before != share) {
            return Err(format!("generation {generation}: {who} has {share:?}, and had {before:?} before"));
        }
        let nothing = BTreeSet::new();
        if !known.handed_in.iter().any(|shares| shares.get(who).unwrap_or(&nothing) == share) {
            return Err(format!("generation {generation}: {who} has {share:?}, which no leader gave it"));
        }
        if self.latest.is_none_or(|(latest, _)| latest < generation) {
            self.latest = Some((generation, told));
        }
        Ok(())
    }

    /// A member that asked at `asked` was told that its generation is the group's.
    ///
    /// # Errors
    /// A later one had been shared out before.
    pub fn confirmed(&self, generation: i32, asked: Moment) -> Result<(), String> {
        match self.latest {
            Some((latest, told)) if generation < latest && told < asked => {
                Err(format!("generation {generation} is still the group's after {latest} was shared out"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(partitions: &[i32]) -> BTreeSet<Place> {
        partitions.iter().map(|index| (0, *index)).collect()
    }

    fn shares(of: &[(&str, &[i32])]) -> Shares {
        of.iter().map(|(who, partitions)| ((*who).to_owned(), share(partitions))).collect()
    }

    #[test]
    fn a_partition_has_one_owner_in_a_generation() {
        let mut group = Generations::default();
        group.hand_in(1, shares(&[("a", &[0]), ("b", &[1])]));
        group.hand_in(1, shares(&[("a", &[1]), ("b", &[0])]));
        assert_eq!(group.told(1, "a", &share(&[0]), 1, 2), Ok(()));
        assert!(group.clone().told(1, "b", &share(&[0]), 3, 4).is_err(), "of the other plan");
        assert!(group.clone().told(1, "a", &share(&[1]), 3, 4).is_err(), "another than before");
        assert!(group.clone().told(1, "c", &share(&[2]), 3, 4).is_err(), "nobody gave it");
        assert_eq!(group.told(1, "b", &share(&[1]), 3, 4), Ok(()));
        assert_eq!(group.told(1, "c", &share(&[]), 3, 4), Ok(()), "left out");
    }

    #[test]
    fn a_generation_that_was_replaced_is_over() {
        let mut group = Generations::default();
        group.hand_in(2, shares(&[("a", &[0])]));
        group.told(2, "a", &share(&[0]), 1, 5).expect("as handed in");
        assert_eq!(group.confirmed(1, 4), Ok(()), "it may have been before");
        assert!(group.confirmed(1, 6).is_err());
        assert_eq!(group.confirmed(2, 6), Ok(()));
    }
}
