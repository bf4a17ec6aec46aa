//! How a member comes from what it has to its target: it gives up first, then gets what is free, then waits for what is not (KIP-848).

use std::collections::BTreeSet;

use storage::LogId;

use super::changes::{Current, MemberState, Since};
use crate::coordinator::assignor::Partitions;

/// What a member is to come to.
pub struct Goal<'a> {
    pub target: &'a Partitions,
    /// The epoch of the targets.
    pub epoch: i32,
}

/// The next step of a member; the same where it can't go on yet. `owned` is what the member says that it owns, if it says; `is_free` tells
/// whether no other member may own a partition.
#[must_use]
pub fn next(current: &Current, goal: &Goal<'_>, owned: Option<&[LogId]>, is_free: impl Fn(&LogId) -> bool) -> Current {
    let is_given_up = |revoked: &Since| owned.is_some_and(|owned| owned.iter().all(|id| !revoked.contains_key(id)));
    match current.state {
        MemberState::Stable if current.epoch == goal.epoch => return current.clone(),
        MemberState::UnrevokedPartitions if !is_given_up(&current.revoking) => return current.clone(),
        MemberState::Stable | MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {}
    }
    let (mut assigned, revoking): (Since, Since) =
        current.assigned.iter().map(|(id, since)| (*id, *since)).partition(|(id, _)| goal.target.contains(id));
    if !revoking.is_empty() && !is_given_up(&revoking) {
        return Current { state: MemberState::UnrevokedPartitions, assigned, revoking, ..*current };
    }
    let (free, unreleased): (BTreeSet<&LogId>, BTreeSet<&LogId>) =
        goal.target.iter().filter(|id| !assigned.contains_key(id)).partition(|id| is_free(id));
    assigned.extend(free.into_iter().map(|id| (*id, goal.epoch)));
    let state = if unreleased.is_empty() { MemberState::Stable } else { MemberState::UnreleasedPartitions };
    // The epoch before stays known until there is another one: any number of answers may be lost.
    let previous_epoch = if current.epoch == goal.epoch { current.previous_epoch } else { current.epoch };
    Current { epoch: goal.epoch, previous_epoch, state, assigned, revoking: Since::new() }
}

#[cfg(test)]
mod tests {
    use base::{PartitionIndex, Uuid};
    use storage::LogId;

    use super::{Goal, next};
    use crate::coordinator::assignor::Partitions;
    use crate::coordinator::consumer::changes::{Current, MemberState, Since};

    const STABLE: MemberState = MemberState::Stable;
    const UNREVOKED: MemberState = MemberState::UnrevokedPartitions;
    const UNRELEASED: MemberState = MemberState::UnreleasedPartitions;

    fn partition(index: i32) -> LogId {
        LogId { topic_id: Uuid([1; 16]), partition: PartitionIndex(index) }
    }

    fn since(partitions: &[(i32, i32)]) -> Since {
        partitions.iter().map(|(index, epoch)| (partition(*index), *epoch)).collect()
    }

    fn current(state: MemberState, epochs: (i32, i32), assigned: &[(i32, i32)], revoking: &[(i32, i32)]) -> Current {
        let (epoch, previous_epoch) = epochs;
        Current { epoch, previous_epoch, state, assigned: since(assigned), revoking: since(revoking) }
    }

    /// The step of a member towards a target at epoch 7, with what others have.
    fn check(from: &Current, target: &[i32], others: &[i32], owned: Option<&[i32]>, expected: &Current) {
        let target: Partitions = target.iter().copied().map(partition).collect();
        let owned: Option<Vec<LogId>> = owned.map(|owned| owned.iter().copied().map(partition).collect());
        let is_free = |id: &LogId| !others.contains(&id.partition.0);
        let told = next(from, &Goal { target: &target, epoch: 7 }, owned.as_deref(), is_free);
        assert_eq!(told, *expected, "from {from:?} to {target:?} owning {owned:?}");
    }

    #[test]
    fn steps() {
        let at_goal = current(STABLE, (7, 5), &[(1, 5)], &[]);
        check(&at_goal, &[2], &[], None, &at_goal);
        // A member that has nothing gets what is free, and waits for the rest.
        let new = current(STABLE, (0, -1), &[], &[]);
        check(&new, &[1, 2], &[], Some(&[]), &current(STABLE, (7, 0), &[(1, 7), (2, 7)], &[]));
        check(&new, &[1, 2], &[2], Some(&[]), &current(UNRELEASED, (7, 0), &[(1, 7)], &[]));
        check(&new, &[2], &[2], Some(&[]), &current(UNRELEASED, (7, 0), &[], &[]));
        check(&new, &[], &[], Some(&[]), &current(STABLE, (7, 0), &[], &[]));
        // One that has something gives up first: at once where it says that it does not own it, or else it is told to.
        let has_both = current(STABLE, (6, 5), &[(1, 5), (2, 6)], &[]);
        let gives_up = current(UNREVOKED, (6, 5), &[(2, 6)], &[(1, 5)]);
        check(&has_both, &[2, 3], &[], None, &gives_up);
        check(&has_both, &[2, 3], &[], Some(&[1, 2]), &gives_up);
        check(&has_both, &[2, 3], &[], Some(&[2]), &current(STABLE, (7, 6), &[(2, 6), (3, 7)], &[]));
        // It stays so until it says that it has, and then goes on to the newest target, which may have it all back.
        check(&gives_up, &[2, 3], &[], None, &gives_up);
        check(&gives_up, &[2, 3], &[], Some(&[1, 2]), &gives_up);
        check(&gives_up, &[2, 3], &[], Some(&[2]), &current(STABLE, (7, 6), &[(2, 6), (3, 7)], &[]));
        check(&gives_up, &[1, 2], &[], Some(&[2]), &current(STABLE, (7, 6), &[(1, 7), (2, 6)], &[]));
        check(&gives_up, &[3], &[], Some(&[2]), &current(UNREVOKED, (6, 5), &[], &[(2, 6)]));
        check(&gives_up, &[3], &[], Some(&[]), &current(STABLE, (7, 6), &[(3, 7)], &[]));
        // What others give up comes later, at the same epoch or at the next.
        let waits = current(UNRELEASED, (7, 6), &[(1, 5)], &[]);
        check(&waits, &[1, 2], &[2], None, &waits);
        check(&waits, &[1, 2], &[], None, &current(STABLE, (7, 6), &[(1, 5), (2, 7)], &[]));
        let waits = current(UNRELEASED, (6, 5), &[(1, 5)], &[]);
        check(&waits, &[3], &[3], None, &current(UNREVOKED, (6, 5), &[], &[(1, 5)]));
    }
}
