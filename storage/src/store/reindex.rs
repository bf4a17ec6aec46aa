//! Gives sealed segments whose indexes readers found damaged new ones, in the background.
//!
//! Owner: the store, from its upkeep. Until it is done, and if it cannot be done, readers walk such a segment. A crash in between
//! leaves the manifest with the old counts of entries: where they do not fit the new files, readers say so again.

use std::rc::Rc;

use base::Offset;

use super::core::StoreCore;
use crate::config::LogId;
use crate::log::{Log, Status};
use crate::read::{LogSource, SegmentOnDisk};
use crate::segment::{rebuild_index, write_index_files};

/// Rebuilds what was reported since the last time.
pub(crate) async fn rebuild_damaged(core: &Rc<StoreCore>) {
    let reported = std::mem::take(&mut *core.damaged_indexes.borrow_mut());
    for (id, base) in reported {
        if core.stopping.get() {
            return;
        }
        if let Some(log) = core.log(id).filter(|log| log.status() == Status::Online) {
            rebuild(core, &log, base).await;
        }
    }
}

async fn rebuild(core: &Rc<StoreCore>, log: &Log, base: Offset) {
    // An open segment's index is brought to its end first; when it is sealed and still does not fit, it is reported again.
    let Some(segment) = sealed(log, base) else { return };
    let interval = core.index_interval_bytes(&log.config());
    let mut rebuilt = match rebuild_index(&core.blocks, &segment, interval).await {
        Ok(rebuilt) => rebuilt,
        Err(error) => {
            tracing::error!(log = %log.id(), %error, "the index of a segment cannot be rebuilt");
            return;
        }
    };
    let _turn = log.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
    // Meanwhile it may have been cut, or have fallen to retention.
    let same = |now: &SegmentOnDisk| now.file.generation == segment.file.generation && now.meta == segment.meta;
    if log.status() != Status::Online || !sealed(log, base).is_some_and(|now| same(&now)) {
        return;
    }
    if let Err(error) = write_index_files(&core.shard, &log.0.dir, &mut rebuilt).await {
        tracing::warn!(log = %log.id(), segment = %base, %error, "the rebuilt index of a segment could not be written");
        return;
    }
    let name = segment.meta.name();
    core.files.forget(log.id(), name);
    core.blocks.forget_indexes(log.id(), name);
    let mut state = log.0.state.borrow_mut();
    if let Some(meta) = state.sealed.iter_mut().find(|meta| meta.name() == name) {
        *meta = rebuilt.meta;
        state.dirty = true;
        tracing::info!(log = %log.id(), segment = %base, "the damaged index of a segment was rebuilt");
    }
}

/// A sealed segment as readers see it.
fn sealed(log: &Log, base: Offset) -> Option<SegmentOnDisk> {
    log.view(|view| {
        let at = view.sealed.iter().position(|meta| meta.base_offset == base)?;
        Some(view.on_disk(at)).filter(|segment| segment.file.readable_bytes == segment.meta.bytes)
    })
}

/// Notes that readers do without an index, once for each segment and pass.
pub(crate) fn report(core: &StoreCore, id: LogId, base: Offset) {
    if core.damaged_indexes.borrow_mut().insert((id, base)) {
        tracing::warn!(log = %id, segment = %base, "the index of a segment does not fit it; reads walk it until it is rebuilt");
    }
}
