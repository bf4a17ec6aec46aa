//! What the tasks of a store and its logs share.
//!
//! Owner: one shard. Nothing here borrows across an await.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use base::{Instant, Offset, WallTime};
use shard::sync::{Event, Permit, Semaphore, oneshot};
use shard::{Account, Buf, Shard};

use super::StoreError;
use super::commit::FlushQueue;
use super::destage::DestageLine;
use super::dirty::DirtySet;
use super::meters::StoreMeters;
use super::queue::{CommitQueue, Pending};
use super::trash::Trash;
use super::writers::WriteFiles;
use crate::budget::Budget;
use crate::compaction::Wait;
use crate::config::{Durability, LogConfig, LogId, StoreConfig};
use crate::journal::codec::Control;
use crate::journal::files::JournalFiles;
use crate::journal::ring::{RingState, batch_bytes_max, frame_bytes_max};
use crate::log::{Log, LogInner};
use crate::manifest::file::ManifestFiles;
use crate::read::BlockCache;
use crate::segment::FileTable;
use crate::space::{SpaceAccount, SpaceState};
use crate::tail::TailCache;

/// Permits of [`StoreCore::gate`]: more than there are ever changes at once.
const GATE_PERMITS: usize = 1 << 20;
/// Journal room that appends leave to entries of other kinds.
const CONTROL_ROOM_BYTES: u64 = 256 << 10;

/// What a task that met a full arena waits for: the largest chunk of a tail.
const MEMORY_ASKED_BYTES: usize = 256 << 10;

pub(crate) struct StoreCore {
    pub(crate) shard: Shard,
    pub(crate) config: StoreConfig,
    pub(crate) account: Account,
    pub(crate) meters: StoreMeters,
    pub(crate) logs: RefCell<BTreeMap<LogId, Log>>,
    /// Logs whose creation is on its way to the journal.
    pub(crate) creating: RefCell<BTreeSet<LogId>>,

    // ---- the journal
    pub(crate) queue: RefCell<CommitQueue>,
    pub(crate) ring: RefCell<RingState>,
    pub(crate) journal: RefCell<JournalFiles>,
    pub(crate) salt: u64,
    /// The buffer that commits are built in, the store's own for ever: a full arena is emptied by commits, so they must not wait for it.
    pub(crate) commit_buffer: RefCell<Option<Buf>>,
    /// The highest sequence such that it and all below are durable.
    pub(crate) durable_sequence: Cell<u64>,
    /// Entries of the queue that are durable, counted from the store's opening.
    pub(crate) durable_entries: Cell<u64>,
    /// With `durability = "replicas"`: what is written and not flushed.
    pub(crate) flushes: Rc<FlushQueue>,
    pub(crate) commit_wanted: Event,
    /// Something became durable.
    pub(crate) committed: Event,
    /// The journal has more room.
    pub(crate) room: Event,

    // ---- segments
    pub(crate) tails: TailCache,
    pub(crate) budget: Budget,
    pub(crate) files: FileTable,
    pub(crate) blocks: BlockCache,
    pub(crate) writers: WriteFiles,
    pub(crate) dirty: RefCell<DirtySet>,
    pub(crate) space: RefCell<SpaceAccount>,
    /// What was said of it last.
    pub(crate) space_announced: Cell<SpaceState>,
    pub(crate) destage_line: DestageLine,
    pub(crate) trash: Trash,
    /// Numbers given to logs as they are opened or cut: what was read of one never passes for what is there later.
    pub(crate) generations: Cell<u32>,
    /// Segments whose indexes readers found not to fit.
    pub(crate) damaged_indexes: RefCell<BTreeSet<(LogId, Offset)>>,
    /// The wall clock when it was last looked at, and when that was; nothing while it is in doubt.
    pub(crate) trusted: Cell<Option<(Instant, WallTime)>>,
    /// Of the logs that waited to be compacted when it was last looked for them, the one that presses most.
    pub(crate) compaction_wait: Cell<Option<Wait>>,
    pub(crate) destage_wanted: Event,

    // ---- checkpoints
    pub(crate) manifest: RefCell<ManifestState>,
    pub(crate) manifest_version: Cell<u64>,
    /// Changes that a checkpoint must see whole hold one permit from their entry's place in the queue until they have taken effect;
    /// a checkpoint holds all.
    pub(crate) gate: Semaphore,
    pub(crate) checkpoint_wanted: Event,
    pub(crate) checkpoint_asked: Cell<bool>,
    pub(crate) checkpoints: Cell<u64>,
    /// The first sequence that the newest manifest does not cover.
    pub(crate) replay_sequence: Cell<u64>,
    /// Checkpoints do not keep up with what is appended: the journal is to grow.
    pub(crate) grow_wanted: Event,
    /// Somebody waits for the arena already.
    pub(crate) memory_asked: Cell<bool>,

    // ---- the end
    /// No more appends or changes; what is queued is still committed.
    pub(crate) closing: Cell<bool>,
    /// Background loops end.
    pub(crate) stopping: Cell<bool>,
    pub(crate) stopped: Event,
}

/// Where the next manifest goes.
pub(crate) struct ManifestState {
    pub(crate) files: Option<ManifestFiles>,
    pub(crate) next_copy: usize,
}

impl StoreCore {
    /// The largest batch that fits into a commit.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        batch_bytes_max(self.config.journal_file_bytes)
    }

    pub(crate) fn control_room_bytes(&self) -> u64 {
        CONTROL_ROOM_BYTES.min(self.config.journal_file_bytes / 8)
    }

    pub(crate) fn index_interval_bytes(&self, config: &LogConfig) -> u64 {
        u64::from(config.index_interval_bytes)
    }

    /// Everything held is flushed first.
    pub(crate) fn flushes_first(&self) -> bool {
        self.config.durability == Durability::Disk
    }

    pub(crate) fn want_checkpoint(&self) {
        self.checkpoint_asked.set(true);
        self.checkpoint_wanted.notify_all();
    }

    /// The arena had nothing for an append: when somebody gives memory back, those who wait for room try again. A checkpoint makes
    /// tails droppable.
    pub(crate) fn want_memory(self: &Rc<Self>) {
        self.want_checkpoint();
        if self.memory_asked.replace(true) {
            return;
        }
        let core = self.clone();
        drop(self.shard.spawn(shard::Class::Normal, self.account.clone(), async move {
            core.tails.wait_for(MEMORY_ASKED_BYTES).await;
            core.memory_asked.set(false);
            core.room.notify_all();
        }));
    }

    /// For a change that a checkpoint must not see half done.
    pub(crate) async fn pass_gate(&self) -> Permit {
        self.gate.acquire(1).await.expect("the gate is never closed")
    }

    /// Keeps all such changes out.
    pub(crate) async fn close_gate(&self) -> Permit {
        self.gate.acquire(GATE_PERMITS).await.expect("the gate is never closed")
    }

    pub(crate) fn new_gate() -> Semaphore {
        Semaphore::new(GATE_PERMITS)
    }

    /// Waits for journal room for an entry like `control`. It comes before the gate, so that nothing that a checkpoint waits for ever
    /// waits for a checkpoint.
    pub(crate) async fn promise(&self, control: &Control<'_>) -> Result<Promised<'_>, StoreError> {
        let encoded = control.encode();
        let charge = Pending::charge_of(&encoded);
        if charge > frame_bytes_max(self.config.journal_file_bytes) as u64 {
            return Err(StoreError::TooLarge { bytes: encoded.entry_bytes() });
        }
        while !self.ring.borrow_mut().reserve(charge, 0) {
            if self.closing.get() {
                return Err(StoreError::Closed);
            }
            self.want_checkpoint();
            self.room.wait().await;
        }
        Ok(Promised { core: self, charge: Some(charge) })
    }

    /// Waits until everything that is in the queue now is durable.
    pub(crate) async fn drain(&self) {
        let upto = self.queue.borrow().pushed();
        while self.durable_entries.get() < upto {
            self.committed.wait().await;
        }
    }

    /// The wall time by which something may be done for its age, if it is not in doubt: no jump since the last look is in it.
    pub(crate) fn trusted_now(&self) -> Option<WallTime> {
        let (at, wall) = self.trusted.get()?;
        let passed_ms = i64::try_from(self.shard.now().since(at).as_millis()).unwrap_or(i64::MAX);
        Some(WallTime(wall.0.saturating_add(passed_ms)))
    }

    /// A generation that no log of this store has had.
    pub(crate) fn next_generation(&self) -> u32 {
        self.generations.set(self.generations.get().wrapping_add(1));
        self.generations.get()
    }

    pub(crate) fn log(&self, id: LogId) -> Option<Log> {
        self.logs.borrow().get(&id).cloned()
    }

    pub(crate) fn all_logs(&self) -> Vec<Log> {
        self.logs.borrow().values().cloned().collect()
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }
}

/// Lets go of every log when the store stops, or when its shard drops its tasks: logs hold their store, and a store that held them for
/// ever would keep the shard's driver, and with it the janitor, from ending.
pub(crate) struct Teardown(pub(crate) Rc<StoreCore>);

impl Drop for Teardown {
    fn drop(&mut self) {
        let core = &self.0;
        drop(core.logs.take());
        while let Some(pending) = { core.queue.borrow_mut().pop() } {
            drop(pending);
        }
        core.destage_line.clear();
        core.flushes.clear();
    }
}

/// Runs, holding the teardown, until the store stops.
pub(crate) async fn stand_by(teardown: Teardown) {
    while !teardown.0.stopping.get() {
        teardown.0.stopped.wait().await;
    }
}

/// Journal room for one entry.
pub(crate) struct Promised<'a> {
    core: &'a StoreCore,
    charge: Option<u64>,
}

impl Promised<'_> {
    /// Queues the entry that the room was promised for.
    pub(crate) fn push(mut self, control: &Control<'_>) -> oneshot::Receiver<()> {
        let encoded = control.encode();
        assert_eq!(Some(Pending::charge_of(&encoded)), self.charge.take(), "the entry that room was promised for");
        let (durable, receiver) = oneshot::channel();
        self.core.queue.borrow_mut().push(Pending::Control { encoded, durable });
        self.core.commit_wanted.notify_all();
        receiver
    }
}

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.core.ring.borrow_mut().release(charge);
            self.core.room.notify_all();
        }
    }
}

/// A log of this store by an entry of a commit.
pub(crate) struct Committed {
    pub(crate) log: Rc<LogInner>,
    pub(crate) end: Offset,
    pub(crate) address: crate::tail::Address,
}
