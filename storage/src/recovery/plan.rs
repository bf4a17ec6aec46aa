//! Who owns what after a start: from all shards' replayed logs to one plan. Pure.

use base::ShardId;

use super::log_replay::LogReplay;
use super::replay::ShardReplay;
use crate::placement::{self, PlacementConflict};
use crate::segment::SegmentName;

/// A log, whose journal its bytes come from, and where it goes.
#[derive(Debug)]
pub struct PlannedLog {
    /// The shard directory whose journal has its extents.
    pub from: ShardId,
    /// Its owner from now on.
    pub to: ShardId,
    /// With its new placement epoch, and without the segments below its start.
    pub log: LogReplay,
    /// Segments below its start, whose files go to the trash.
    pub expired: Vec<SegmentName>,
}

/// Every log of the data directory once.
#[derive(Debug, Default)]
pub struct RecoveryPlan {
    /// In order of source shard, then of log.
    pub logs: Vec<PlannedLog>,
    /// Logs whose owner changes.
    pub moved: usize,
    /// Claims that a higher placement epoch made void.
    pub stale: usize,
}

/// Decides which shard's record of each log counts and who owns it from now on.
///
/// # Errors
/// Two shards claim a log under the same epoch.
pub fn recovery_plan(shards: Vec<(ShardId, ShardReplay)>, count: u16) -> Result<RecoveryPlan, PlacementConflict> {
    let claims = shards
        .iter()
        .flat_map(|(shard, replay)| replay.logs.values().map(|log| (*shard, log.id, log.placement)))
        .collect::<Vec<_>>();
    let owners = placement::winners(claims.iter().copied())?;
    let homes = placement::homes(&owners, count);
    let mut plan = RecoveryPlan { stale: claims.len() - owners.len(), ..RecoveryPlan::default() };
    for (from, replay) in shards {
        for (id, mut log) in replay.logs {
            if owners[&id].0 != from {
                continue;
            }
            let home = homes[&id];
            log.placement = home.epoch;
            let expired = log.take_expired();
            plan.moved += usize::from(home.shard != from);
            plan.logs.push(PlannedLog { from, to: home.shard, log, expired });
        }
    }
    Ok(plan)
}
