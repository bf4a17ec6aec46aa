//! The store of a shard: all its logs, one journal, one manifest.
//!
//! Owner: one shard. Life cycle: [`recover`](crate::recover) once for the whole data directory, [`ShardStore::open`] on each shard,
//! [`ShardStore::close`] for an orderly end; a process that just ends is recovered from the journal.
//!
//! | task | what it does |
//! | --- | --- |
//! | [`commit`] | writes what is queued to the journal, one write at a time |
//! | [`destage`] | journaled bytes to their segments, unsynced |
//! | [`checkpoint`] | syncs segments, writes the manifest, frees the journal |
//! | [`grow`] | more journal, in the background |
//! | [`upkeep`] | retention, rolling by age, idle producers and memory, damaged indexes |
//! | [`compact`] | leaves the last record of each key |
//! | [`trash`] | deletes what was dropped, bit by bit |
//! | [`space`] | disk space |
//! | [`offline`] | keeps the journal of a log whose files failed |

mod checkpoint;
mod commit;
pub(crate) mod compact;
pub(crate) mod core;
pub(crate) mod destage;
mod dirty;
mod error;
mod grow;
mod meters;
pub(crate) mod offline;
mod open;
mod placing;
pub(crate) mod queue;
pub(crate) mod reindex;
mod space;
pub(crate) mod trash;
mod upkeep;
mod wall;
mod writers;

use std::rc::Rc;
use std::time::Duration;

use base::{PlacementEpoch, WallTime};
use shard::Shard;

pub(crate) use destage::is_full;
pub use error::StoreError;
pub use meters::StoreMeters;
pub use placing::HandedLog;

use self::checkpoint::CheckpointError;
use self::core::StoreCore;
use crate::config::{LogConfig, LogId, StoreConfig, is_topic_name, paths};
use crate::journal::codec::Control;
use crate::log::{Log, Status};
use crate::manifest::LogRecord;
use crate::recovery::RecoveredShard;
use crate::segment::SegmentMeta;
use crate::space::SpaceState;
use base::Offset;

/// A shard's store. Clones are the same store.
#[derive(Clone)]
pub struct ShardStore {
    pub(crate) core: Rc<StoreCore>,
}

/// How a store is doing now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreStats {
    pub journal_bytes: u64,
    /// Of those, what no checkpoint has freed yet.
    pub journal_live_bytes: u64,
    /// Appended and not yet on its way to the journal.
    pub queued_bytes: usize,
    pub durable_sequence: u64,
    pub checkpoints: u64,
    /// What the tails of all logs take of memory.
    pub tail_bytes: usize,
    /// Blocks of files in memory, in bytes; how often one was found there, and how often it was read.
    pub block_cache_bytes: usize,
    pub block_hits: u64,
    pub block_reads: u64,
    /// What background work has in flight on the device, its bound, and how many wait for their part.
    pub background_bytes: usize,
    pub background_bytes_limit: usize,
    pub background_waiting: usize,
    /// How long the log that presses most has had something to compact; none when none has.
    pub compaction_wait: Option<Duration>,
    /// As the file system last said.
    pub free_bytes: u64,
    /// Appended, and reserved on the file system until it is destaged.
    pub reserved_bytes: u64,
}

impl ShardStore {
    /// Opens the logs that recovery gave this shard. Journal files are made if they are not there, so the first time takes longer.
    ///
    /// # Errors
    /// I/O, a full disk included.
    pub async fn open(shard: Shard, config: StoreConfig, recovered: RecoveredShard) -> Result<Self, StoreError> {
        open::open(shard, config, recovered).await
    }

    #[must_use]
    pub fn logs(&self) -> Vec<Log> {
        self.core.all_logs()
    }

    #[must_use]
    pub fn log(&self, id: LogId) -> Option<Log> {
        self.core.log(id)
    }

    #[must_use]
    pub fn space_state(&self) -> SpaceState {
        self.core.space.borrow().state()
    }

    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let (ring, space) = (self.core.ring.borrow(), self.core.space.borrow());
        StoreStats {
            journal_bytes: ring.bytes(),
            journal_live_bytes: ring.live_bytes(),
            queued_bytes: self.core.queue.borrow().bytes(),
            durable_sequence: self.core.durable_sequence.get(),
            checkpoints: self.core.checkpoints.get(),
            tail_bytes: self.core.tails.bytes(),
            block_cache_bytes: self.core.blocks.bytes(),
            block_hits: self.core.blocks.hits(),
            block_reads: self.core.blocks.reads(),
            background_bytes: self.core.budget.in_flight_bytes(),
            background_bytes_limit: self.core.budget.bytes_limit(),
            background_waiting: self.core.budget.waiting(),
            compaction_wait: self.core.compaction_wait.get().map(|wait| self.core.shard.now().since(wait.since)),
            free_bytes: space.free_bytes(),
            reserved_bytes: space.reserved_bytes(),
        }
    }

    /// What it has done so far.
    #[must_use]
    pub fn meters(&self) -> &StoreMeters {
        &self.core.meters
    }

    /// Creates a log; durable when it returns. Its directory is made with its first segment.
    ///
    /// # Errors
    /// It exists, its topic's name is none, or the store closes.
    pub async fn create_log(&self, topic: &str, id: LogId, config: LogConfig) -> Result<Log, StoreError> {
        if !is_topic_name(topic) || id.partition.0 < 0 {
            return Err(StoreError::InvalidName);
        }
        let (core, topic) = (self.core.clone(), topic.to_owned());
        self.change(async move { create(&core, &topic, id, config).await }).await
    }

    /// Removes a log; durable when it returns. Its files go to the trash, and from there bit by bit.
    ///
    /// # Errors
    /// It is not here, or the store closes.
    pub async fn remove_log(&self, id: LogId) -> Result<(), StoreError> {
        let core = self.core.clone();
        self.change(async move { remove(&core, id).await }).await
    }

    /// Makes a checkpoint now.
    ///
    /// # Errors
    /// The disk is full, or an orphan could not be written.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        let core = self.core.clone();
        self.change(async move { checkpoint::checkpoint(&core).await.map_err(StoreError::from) }).await
    }

    /// Refuses what is new, commits what is queued, makes a checkpoint, and stops.
    ///
    /// # Errors
    /// The last checkpoint failed; the journal has everything, and the next start replays it.
    pub async fn close(&self) -> Result<(), StoreError> {
        let core = &self.core;
        core.closing.set(true);
        core.room.notify_all();
        core.drain().await;
        let done = self.checkpoint().await;
        if core.stopping.replace(true) {
            // Somebody else has closed it.
            return Ok(());
        }
        let waits = [
            &core.commit_wanted,
            &core.destage_wanted,
            &core.checkpoint_wanted,
            &core.grow_wanted,
            &core.stopped,
            &core.room,
        ];
        waits.into_iter().for_each(shard::sync::Event::notify_all);
        core.flushes.wake();
        core.trash.stop();
        // Logs hold their store and the store its logs: let go, or neither these nor the shard's driver would ever be dropped.
        let logs = core.logs.take();
        for log in logs.values() {
            log.0.changed.notify_all();
        }
        done
    }

    /// Runs a change as a task, so that a caller who goes away leaves nothing half done.
    async fn change<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        self.core.shard.spawn(shard::Class::Normal, self.core.account.clone(), work).await
    }
}

async fn create(core: &Rc<StoreCore>, topic: &str, id: LogId, config: LogConfig) -> Result<Log, StoreError> {
    let created: WallTime = core.shard.wall();
    let placement = PlacementEpoch(1);
    let control = Control::Create { log: id, placement, created, topic };
    let room = core.promise(&control).await?;
    let _gate = core.pass_gate().await;
    if core.closing.get() {
        return Err(StoreError::Closed);
    }
    if core.logs.borrow().contains_key(&id) || !core.creating.borrow_mut().insert(id) {
        return Err(StoreError::Exists);
    }
    let durable = room.push(&control).await;
    core.creating.borrow_mut().remove(&id);
    durable.map_err(|_| StoreError::Closed)?;
    let record = LogRecord {
        id,
        topic: topic.to_owned(),
        placement,
        segments: vec![SegmentMeta::new(Offset(0), created)],
        ..LogRecord::default()
    };
    let log = open::new_log(core, record, config).await;
    core.logs.borrow_mut().insert(id, log.clone());
    Ok(log)
}

async fn remove(core: &Rc<StoreCore>, id: LogId) -> Result<(), StoreError> {
    let control = Control::Remove { log: id };
    let room = core.promise(&control).await?;
    let gate = core.pass_gate().await;
    if core.closing.get() {
        return Err(StoreError::Closed);
    }
    let log = core.log(id).ok_or(StoreError::NotFound)?;
    let durable = {
        let mut state = log.0.state.borrow_mut();
        // A parked log's files may be another shard's already.
        if matches!(state.status, Status::Truncating | Status::Parked | Status::Gone) {
            return Err(StoreError::Busy);
        }
        let durable = room.push(&control);
        state.status = Status::Gone;
        durable
    };
    durable.await.map_err(|_| StoreError::Closed)?;
    log.leave().await;
    core.logs.borrow_mut().remove(&id);
    let trashed = trash_log(core, &log).await?;
    drop(gate);
    core.trash.put(trashed, log.delete_delay());
    Ok(())
}

/// Renames a log's directory, and its orphan, into the trash.
async fn trash_log(core: &StoreCore, log: &Log) -> Result<Vec<std::path::PathBuf>, StoreError> {
    let fs = core.shard.fs();
    let mut trashed = Vec::new();
    for from in [log.dir(), paths::orphan_file(core.data_dir(), log.id())] {
        let to = paths::trash_dir(core.data_dir()).join(format!("{}-{:016x}", log.id(), core.shard.random()));
        match fs.rename(&from, &to).await {
            Ok(()) => trashed.push(to),
            // Nothing was ever destaged.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // Not even a name in the trash has room: it is deleted where it is. Nothing comes back to this path, which bears the log's id.
            Err(error) if is_full(&error) => trashed.push(from),
            Err(error) => return Err(StoreError::io("rename", from, error)),
        }
    }
    if let Some(topic_dir) = log.0.dir.parent() {
        // The last partition of a topic takes the topic's directory along; any other leaves it.
        let _ = fs.remove_dir(topic_dir).await;
    }
    Ok(trashed)
}

impl From<CheckpointError> for StoreError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Full => Self::DiskFull,
            CheckpointError::Stopped => Self::Closed,
            CheckpointError::Io(error) => Self::io("keep the journal of", "an offline log", error),
        }
    }
}
