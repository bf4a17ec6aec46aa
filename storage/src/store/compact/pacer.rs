//! Has a pass rest between its pieces, as [`crate::compaction::Pace`] says.

use std::cell::Cell;
use std::rc::Rc;

use base::Instant;

use crate::budget::PIECE_BYTES_MAX;
use crate::compaction::Pace;
use crate::store::core::StoreCore;

/// Bytes of batches between two chances for others.
const BREATH_BYTES: usize = 32 << 10;

pub(super) struct Pacer {
    core: Rc<StoreCore>,
    pace: Pace,
    /// Since when it works.
    works_since: Cell<Instant>,
    worked_bytes: Cell<usize>,
    since_breath_bytes: Cell<usize>,
}

impl Pacer {
    /// Work begins.
    pub(super) fn new(core: &Rc<StoreCore>) -> Self {
        let pace = Pace::new(core.config.compaction_percent);
        Self {
            core: core.clone(),
            pace,
            works_since: Cell::new(core.shard.now()),
            worked_bytes: Cell::new(0),
            since_breath_bytes: Cell::new(0),
        }
    }

    /// A batch of so many bytes was worked on: lets others have a turn now and then, and rests once batches come to a piece.
    pub(super) async fn breathe(&self, bytes: usize) {
        self.worked_bytes.set(self.worked_bytes.get() + bytes);
        self.since_breath_bytes.set(self.since_breath_bytes.get() + bytes);
        if self.worked_bytes.get() >= PIECE_BYTES_MAX {
            self.rest().await;
        } else if self.since_breath_bytes.get() >= BREATH_BYTES {
            self.since_breath_bytes.set(0);
            self.core.shard.yield_now().await;
        }
    }

    /// A piece of work has ended: rests, or lets others have a turn at least. Ends at once when the store stops.
    pub(super) async fn rest(&self) {
        let now = self.core.shard.now();
        let worked = now.since(self.works_since.get());
        let rest = self.core.compaction_wait.get().map(|wait| self.pace.rest(worked, &wait, now)).unwrap_or_default();
        if rest.is_zero() {
            self.core.shard.yield_now().await;
        } else {
            shard::sync::either(self.core.stopped.wait(), self.core.shard.sleep(rest)).await;
        }
        self.works_since.set(self.core.shard.now());
        self.worked_bytes.set(0);
        self.since_breath_bytes.set(0);
    }
}
