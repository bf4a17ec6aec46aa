//! Keeps the store's account of disk space up to date, and says so when it gets full and when it is open again.

use std::rc::Rc;
use std::time::Duration;

use super::core::StoreCore;
use crate::space::SpaceState;

/// Between measurements; a full disk is looked at as often, so that it opens soon after space was made.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// Asks the file system.
pub(crate) async fn measure(core: &StoreCore) {
    let before = core.space.borrow().state();
    match core.shard.fs().space(core.data_dir()).await {
        Ok(space) => core.space.borrow_mut().measured(space.free_bytes),
        Err(error) => {
            tracing::warn!(shard = %core.config.shard, %error, "the data directory's free space is not known");
            return;
        }
    }
    let now = core.space.borrow().state();
    match (before, now) {
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
    while !core.stopping.get() {
        super::either(core.stopped.wait(), core.shard.sleep(MEASURE_INTERVAL)).await;
        measure(&core).await;
    }
}
