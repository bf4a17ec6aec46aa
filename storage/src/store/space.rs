//! Keeps the store's account of disk space up to date, says so when it gets full and when it is open again, and keeps the ballast.
//!
//! The ballast is one file for the data directory that only holds room: when a checkpoint finds none (others fill disks too), it is
//! removed, so that the manifest can be written, the journal freed, and logs be shortened or removed. The first shard makes it again
//! once there is ample room.

use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use shard::OpenOptions;

use super::core::StoreCore;
use crate::config::paths;
use crate::space::{BallastPlan, SpaceState};

/// Between measurements; a full disk is looked at as often, so that it opens soon after space was made.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// The ballast is looked for once in so many measurements.
const BALLAST_EVERY: u32 = 60;

/// Asks the file system.
pub(crate) async fn measure(core: &StoreCore) {
    match core.shard.fs().space(core.data_dir()).await {
        Ok(space) => core.space.borrow_mut().measured(space.free_bytes),
        Err(error) => {
            tracing::warn!(shard = %core.config.shard, %error, "the data directory's free space is not known");
            return;
        }
    }
    let now = core.space.borrow().state();
    match (core.space_announced.replace(now), now) {
        (SpaceState::Ok, SpaceState::Full) => {
            tracing::warn!(shard = %core.config.shard, "the disk is full: appends are refused; free space, or shorten retention");
            core.trash.set_hurried(true);
        }
        (SpaceState::Full, SpaceState::Ok) => {
            tracing::info!(shard = %core.config.shard, "there is disk space again: appends are taken");
            core.room.notify_all();
            core.trash.set_hurried(false);
        }
        _ => {}
    }
}

/// Runs until the store stops.
pub(crate) async fn space_loop(core: Rc<StoreCore>) {
    let mut measurements = 0;
    while !core.stopping.get() {
        if measurements % BALLAST_EVERY == 0 && core.config.shard == ShardId(0) {
            keep_ballast(&core).await;
        }
        measurements = measurements.wrapping_add(1);
        shard::sync::either(core.stopped.wait(), core.shard.sleep(MEASURE_INTERVAL)).await;
        measure(&core).await;
    }
}

/// Makes the ballast if it is missing and there is ample room.
async fn keep_ballast(core: &StoreCore) {
    let (fs, path) = (core.shard.fs(), paths::ballast_file(core.data_dir()));
    let Ok(found) = fs.stat(&path).await else { return };
    let (plan, bytes) = {
        let space = core.space.borrow();
        (space.ballast_plan(found.is_some_and(|stat| stat.bytes >= space.ballast_bytes())), space.ballast_bytes())
    };
    if plan == BallastPlan::Keep {
        return;
    }
    let options = OpenOptions { write: true, create: true, ..OpenOptions::default() };
    let made = async { fs.allocate(&fs.open(&path, options).await?, 0, bytes).await };
    if let Err(error) = made.await {
        tracing::warn!(path = %path.display(), %error, "the ballast file cannot be made");
    }
}

/// Gives the ballast's room back; false when there is none.
pub(crate) async fn give_up_ballast(core: &StoreCore) -> bool {
    let path = paths::ballast_file(core.data_dir());
    let removed = core.shard.fs().remove(&path).await.is_ok();
    if removed {
        tracing::warn!(path = %path.display(), "the disk is full: the ballast was removed, to make the next checkpoint");
        measure(core).await;
    }
    removed
}
