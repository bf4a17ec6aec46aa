//! Which shard owns which log. Pure.
//!
//! A log's owner has no file of its own: every journal and manifest of the data directory is looked at, and for each log the
//! record with the highest placement epoch wins. Owners that no longer exist are replaced; shard numbers never leave the broker.

use std::collections::BTreeMap;
use std::fmt;

use base::{PlacementEpoch, ShardId};

use crate::config::LogId;

/// Two shards claim a log under the same epoch: a move that was not committed as it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementConflict {
    pub log: LogId,
    pub epoch: PlacementEpoch,
    pub shards: [ShardId; 2],
}

impl fmt::Display for PlacementConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.shards;
        write!(f, "shards {one} and {other} both own log {} under placement epoch {}", self.log, self.epoch)
    }
}

impl std::error::Error for PlacementConflict {}

/// For each log the shard whose claim counts.
///
/// # Errors
/// Two claims of the highest epoch.
pub fn winners(
    claims: impl IntoIterator<Item = (ShardId, LogId, PlacementEpoch)>,
) -> Result<BTreeMap<LogId, (ShardId, PlacementEpoch)>, PlacementConflict> {
    let mut highest: BTreeMap<LogId, (ShardId, PlacementEpoch)> = BTreeMap::new();
    let mut ties: BTreeMap<LogId, PlacementConflict> = BTreeMap::new();
    for (shard, log, epoch) in claims {
        match highest.get(&log) {
            Some(&(owner, known)) if known == epoch => {
                ties.insert(log, PlacementConflict { log, epoch, shards: [owner, shard] });
            }
            Some(&(_, known)) if known > epoch => {}
            _ => {
                // A higher epoch settles what was tied below it.
                ties.remove(&log);
                highest.insert(log, (shard, epoch));
            }
        }
    }
    ties.into_values().next().map_or(Ok(highest), Err)
}

/// Where a log goes, and under which epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    pub shard: ShardId,
    pub epoch: PlacementEpoch,
}

/// Places logs on `shards` shards: each stays where it is if that shard exists, the others go to whoever has the fewest. A log
/// that moves gets the next epoch, so its old owner's record is stale the moment the new one is durable.
///
/// # Panics
/// Without shards.
#[must_use]
pub fn homes(owners: &BTreeMap<LogId, (ShardId, PlacementEpoch)>, shards: u16) -> BTreeMap<LogId, Home> {
    assert!(shards > 0, "a broker has at least one shard");
    let mut load = vec![0usize; usize::from(shards)];
    for (owner, _) in owners.values() {
        if let Some(count) = load.get_mut(usize::from(owner.0)) {
            *count += 1;
        }
    }
    let mut placed = BTreeMap::new();
    for (&log, &(owner, epoch)) in owners {
        let home = if owner.0 < shards {
            Home { shard: owner, epoch }
        } else {
            let least = (0..load.len()).min_by_key(|&shard| load[shard]).expect("at least one shard");
            load[least] += 1;
            Home { shard: ShardId(least as u16), epoch: PlacementEpoch(epoch.0 + 1) }
        };
        placed.insert(log, home);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PartitionIndex, Uuid};

    fn log(number: i32) -> LogId {
        LogId { topic_id: Uuid([9; 16]), partition: PartitionIndex(number) }
    }

    #[test]
    fn the_highest_epoch_wins_and_a_tie_at_the_top_is_refused() {
        for (claims, expected) in [
            (&[(0, 1)][..], Some(0)),
            (&[(0, 1), (1, 2)], Some(1)),
            (&[(1, 2), (0, 1)], Some(1)),
            (&[(0, 1), (1, 1)], None),
            (&[(0, 1), (1, 1), (2, 2)], Some(2)),
            (&[(2, 2), (0, 1), (1, 1)], Some(2)),
        ] {
            let found = winners(claims.iter().map(|&(shard, epoch)| (ShardId(shard), log(7), PlacementEpoch(epoch))));
            assert_eq!(found.ok().map(|owners| owners[&log(7)].0.0), expected, "{claims:?}");
        }
    }

    #[test]
    fn logs_stay_or_go_where_there_are_fewest() {
        for (owners, shards, expected) in [
            (&[0, 1, 2][..], 3, &[0, 1, 2][..]),
            // More shards: nobody moves.
            (&[0, 0, 1], 4, &[0, 0, 1]),
            (&[0, 0, 1, 2, 3, 3], 2, &[0, 0, 1, 1, 0, 1]),
            (&[5, 6, 7], 1, &[0, 0, 0]),
        ] {
            let before: BTreeMap<_, _> = owners
                .iter()
                .enumerate()
                .map(|(number, &owner)| (log(number as i32), (ShardId(owner), PlacementEpoch(4))))
                .collect();
            let homes = homes(&before, shards);
            assert_eq!(homes.values().map(|home| home.shard.0).collect::<Vec<_>>(), expected, "{owners:?}");
            for (log, home) in &homes {
                assert_eq!(home.epoch.0, if home.shard == before[log].0 { 4 } else { 5 });
            }
        }
    }
}
