//! The offsets that one group commits: each partition is a register that many write and many read.
//!
//! A commit is told from all others by its mark, which travels as its metadata. An acknowledged one holds until a later one takes its
//! place, through every crash; one that was refused is never seen; one that was never answered may come to be at any moment up to the
//! next crash, or to when the partition went to somebody else.

use std::collections::BTreeMap;

use super::{Moment, Place};

/// Who commits: the member, and its generation or epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speaker {
    pub member: String,
    pub epoch: i32,
}

/// What became of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Not answered, for now or for ever.
    Open,
    Taken,
    Refused,
}

#[derive(Clone, Debug)]
struct Attempt {
    offset: i64,
    speaker: Speaker,
    begun: Moment,
    /// It has come to be by then, if it has at all.
    ended: Moment,
    fate: Fate,
    /// A read that was answered then had it.
    seen: Option<Moment>,
    /// A read that was answered then had another, after one had had it.
    replaced: Option<Moment>,
}

impl Attempt {
    /// From when on it has certainly been there.
    fn there_by(&self) -> Option<Moment> {
        let taken = (self.fate == Fate::Taken).then_some(self.ended);
        [taken, self.seen].into_iter().flatten().min()
    }
}

/// Who was told last that a partition is his.
#[derive(Clone, Debug)]
struct Grant {
    to: Speaker,
    told: Moment,
}

#[derive(Clone, Default, Debug)]
struct Line {
    attempts: Vec<Attempt>,
    /// None where it is not known who was the last.
    grant: Option<Grant>,
}

/// All commits of a group.
#[derive(Clone, Default, Debug)]
pub struct Commits {
    lines: BTreeMap<Place, Line>,
    /// The epochs of its members are one for the whole group: an older one has lost all that it had.
    shared_epochs: bool,
}

/// What is read of a partition: the offset, and the mark of the commit.
pub type Found = Option<(i64, String)>;

impl Commits {
    /// `shared_epochs`: members speak of the group's generation, not of epochs of their own.
    #[must_use]
    pub fn new(shared_epochs: bool) -> Self {
        Self { lines: BTreeMap::new(), shared_epochs }
    }

    /// A commit is sent; its mark.
    pub fn begin(&mut self, place: Place, offset: i64, speaker: Speaker, at: Moment) -> usize {
        let attempts = &mut self.lines.entry(place).or_default().attempts;
        let attempt =
            Attempt { offset, speaker, begun: at, ended: Moment::MAX, fate: Fate::Open, seen: None, replaced: None };
        attempts.push(attempt);
        attempts.len() - 1
    }

    /// It was acknowledged.
    ///
    /// # Errors
    /// Who sent it had lost the partition before, or an offset goes back with it.
    pub fn taken(&mut self, place: Place, mark: usize, at: Moment) -> Result<(), String> {
        let shared_epochs = self.shared_epochs;
        let line = self.lines.get_mut(&place).expect("begun");
        let attempt = &mut line.attempts[mark];
        attempt.fate = Fate::Taken;
        attempt.ended = attempt.ended.min(at);
        let attempt = &line.attempts[mark];
        if let Some(grant) = &line.grant
            && grant.told < attempt.begun
            && has_lost(&attempt.speaker, &grant.to, shared_epochs)
        {
            return Err(format!(
                "{place:?}: a commit was taken after {:?} was given the partition: {attempt:?}",
                grant.to
            ));
        }
        // What was there before, and no other commit that is as low, and may have been late, can have replaced.
        let may_replace = |low: &Attempt, other: &Attempt| {
            low.fate != Fate::Refused
                && low.offset <= attempt.offset
                && low.begun < attempt.begun
                && low.ended > other.begun
        };
        let goes_back = |other: &&Attempt| {
            other.offset > attempt.offset
                && other.there_by().is_some_and(|there_by| there_by < attempt.begun)
                && !line.attempts.iter().any(|low| may_replace(low, other))
        };
        match line.attempts.iter().find(goes_back) {
            Some(other) => Err(format!("{place:?}: the offset goes back: {attempt:?} was taken after {other:?}")),
            None => Ok(()),
        }
    }

    /// It was refused.
    ///
    /// # Errors
    /// It was seen before.
    pub fn refused(&mut self, place: Place, mark: usize) -> Result<(), String> {
        let attempt = &mut self.lines.get_mut(&place).expect("begun").attempts[mark];
        attempt.fate = Fate::Refused;
        match attempt.seen {
            Some(_) => Err(format!("{place:?}: a commit that was there is refused: {attempt:?}")),
            None => Ok(()),
        }
    }

    /// The broker ended: what is not there now never will be.
    pub fn crashed(&mut self, at: Moment) {
        for attempt in self.lines.values_mut().flat_map(|line| &mut line.attempts) {
            attempt.ended = attempt.ended.min(at);
        }
    }

    /// Somebody who asked at `asked` was told at `told` that the partition is his.
    pub fn granted(&mut self, place: Place, to: Speaker, asked: Moment, told: Moment) {
        let line = self.lines.entry(place).or_default();
        if let Some(grant) = &line.grant {
            let is_later = grant.told < asked || self.shared_epochs && grant.to.epoch < to.epoch;
            let is_same = grant.to == to;
            if is_same || self.shared_epochs && to.epoch < grant.to.epoch {
                return;
            }
            if !is_later {
                line.grant = None;
                return;
            }
        }
        let lost = |attempt: &&mut Attempt| has_lost(&attempt.speaker, &to, self.shared_epochs);
        for attempt in line.attempts.iter_mut().filter(lost) {
            attempt.ended = attempt.ended.min(told);
        }
        line.grant = Some(Grant { to, told });
    }

    /// Somebody who asked at `asked` was told at `told` how far the partition was read.
    ///
    /// # Errors
    /// An acknowledged commit is lost, an offset went back, or what was told was never committed or was refused.
    pub fn read(&mut self, place: Place, found: &Found, asked: Moment, told: Moment) -> Result<(), String> {
        let attempts = &mut self.lines.entry(place).or_default().attempts;
        let Some((offset, mark)) = found else {
            let lost = attempts.iter().find(|attempt| attempt.there_by().is_some_and(|there_by| there_by < asked));
            return lost.map_or(Ok(()), |lost| Err(format!("{place:?}: no offset is known, and there was {lost:?}")));
        };
        let at = mark.parse::<usize>().ok().filter(|&at| attempts.get(at).is_some_and(|known| known.offset == *offset));
        let Some(at) = at else {
            return Err(format!("{place:?}: offset {offset} with the mark {mark:?} was never committed"));
        };
        let attempt = &attempts[at];
        if attempt.fate == Fate::Refused {
            return Err(format!("{place:?}: a commit is seen that was refused: {attempt:?}"));
        }
        if attempt.replaced.is_some_and(|replaced| replaced < asked) {
            return Err(format!("{place:?}: a commit is back that another had replaced: {attempt:?}"));
        }
        let later =
            |other: &&Attempt| other.begun > attempt.ended && other.there_by().is_some_and(|there_by| there_by < asked);
        if let Some(other) = attempts.iter().find(later) {
            return Err(format!("{place:?}: {attempt:?} is seen, and {other:?} is lost"));
        }
        for (index, other) in attempts.iter_mut().enumerate() {
            if index == at {
                other.seen.get_or_insert(told);
            } else if other.seen.is_some_and(|seen| seen < asked) {
                other.replaced.get_or_insert(told);
            }
        }
        Ok(())
    }

    /// The highest offset that is certainly there.
    #[must_use]
    pub fn reached(&self, place: Place) -> Option<i64> {
        let attempts = self.lines.get(&place).into_iter().flat_map(|line| &line.attempts);
        attempts.filter(|attempt| attempt.there_by().is_some()).map(|attempt| attempt.offset).max()
    }
}

/// Whether the partition is no longer this one's, once `to` has it.
fn has_lost(speaker: &Speaker, to: &Speaker, shared_epochs: bool) -> bool {
    match shared_epochs {
        true => speaker.epoch < to.epoch || speaker.epoch == to.epoch && speaker.member != to.member,
        false => speaker.member != to.member,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (0, 0);

    fn speaker(member: &str, epoch: i32) -> Speaker {
        Speaker { member: member.into(), epoch }
    }

    fn found(offset: i64, mark: usize) -> Found {
        Some((offset, mark.to_string()))
    }

    #[test]
    fn an_acknowledged_commit_is_there_until_a_later_one_is() {
        let mut commits = Commits::new(true);
        let first = commits.begin(PLACE, 5, speaker("a", 1), 1);
        assert_eq!(commits.read(PLACE, &None, 2, 3), Ok(()), "it may not have come yet");
        assert_eq!(commits.taken(PLACE, first, 4), Ok(()));
        assert!(commits.clone().read(PLACE, &None, 5, 6).is_err(), "lost");
        let second = commits.begin(PLACE, 9, speaker("a", 1), 7);
        assert_eq!(commits.read(PLACE, &found(9, second), 8, 9), Ok(()), "it may be there before its answer");
        assert!(commits.clone().read(PLACE, &found(5, first), 10, 11).is_err(), "went back");
        assert!(commits.read(PLACE, &found(8, second), 10, 11).is_err(), "another offset");
        assert_eq!(commits.reached(PLACE), Some(9));
    }

    #[test]
    fn one_without_an_answer_comes_late_or_never() {
        let mut commits = Commits::new(true);
        let late = commits.begin(PLACE, 5, speaker("a", 1), 1);
        let second = commits.begin(PLACE, 9, speaker("a", 1), 2);
        commits.taken(PLACE, second, 3).expect("nothing else is there");
        let mut other = commits.clone();
        assert_eq!(other.read(PLACE, &found(5, late), 4, 5), Ok(()), "it overtook nobody");
        commits.crashed(4);
        let third = commits.begin(PLACE, 12, speaker("a", 1), 5);
        assert_eq!(commits.read(PLACE, &found(5, late), 6, 7), Ok(()));
        assert!(commits.clone().read(PLACE, &found(9, second), 8, 9).is_ok(), "both were under way at once");
        commits.taken(PLACE, third, 10).expect("higher than all");
        assert!(commits.read(PLACE, &found(5, late), 11, 12).is_err(), "after a crash it can't come any more");
    }

    #[test]
    fn what_is_refused_is_never_seen() {
        let mut commits = Commits::new(false);
        let mark = commits.begin(PLACE, 5, speaker("a", 1), 1);
        commits.refused(PLACE, mark).expect("nobody has seen it");
        assert!(commits.read(PLACE, &found(5, mark), 3, 4).is_err());
    }

    #[test]
    fn who_has_lost_a_partition_commits_nothing() {
        for shared_epochs in [false, true] {
            let mut commits = Commits::new(shared_epochs);
            commits.granted(PLACE, speaker("a", 1), 1, 2);
            commits.granted(PLACE, speaker("b", 2), 3, 4);
            let stale = commits.begin(PLACE, 5, speaker("a", 1), 5);
            assert!(commits.taken(PLACE, stale, 6).is_err(), "{shared_epochs}");
        }
        let mut commits = Commits::new(false);
        commits.granted(PLACE, speaker("b", 2), 1, 4);
        commits.granted(PLACE, speaker("a", 1), 2, 5);
        let mark = commits.begin(PLACE, 5, speaker("b", 2), 6);
        assert_eq!(commits.taken(PLACE, mark, 7), Ok(()), "which of them came last is not known");
    }

    #[test]
    fn an_offset_that_goes_back_is_told() {
        let mut commits = Commits::new(true);
        let first = commits.begin(PLACE, 9, speaker("a", 1), 1);
        commits.taken(PLACE, first, 2).expect("the first");
        let second = commits.begin(PLACE, 5, speaker("b", 2), 3);
        assert!(commits.taken(PLACE, second, 4).is_err());
        let mut commits = Commits::new(true);
        let _late = commits.begin(PLACE, 4, speaker("a", 1), 1);
        let first = commits.begin(PLACE, 9, speaker("a", 1), 2);
        commits.taken(PLACE, first, 3).expect("the highest");
        let second = commits.begin(PLACE, 5, speaker("b", 2), 4);
        assert_eq!(commits.taken(PLACE, second, 5), Ok(()), "it may have begun at the one that came late");
    }
}
