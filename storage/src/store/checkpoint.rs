//! The checkpoint: makes everything in the journal durable in the segments, says so in a manifest, and frees the journal.
//!
//! Steps: close the gate; note the replay position; capture every log that changed; let the queue drain; destage and write indexes up to the capture; sync;
//! write the manifest; free. Appends go on all the while. What a log took in after the replay position and before the capture is in
//! the manifest and in the journal; replay knows (see [`crate::recovery::replay`]).

use std::rc::Rc;
use std::time::Duration;

use shard::{Class, WriteSync};

use super::core::StoreCore;
use super::destage::{DestageError, destage, is_full, open_for_writing};
use super::offline;
use crate::journal::scan::JournalPosition;
use crate::log::{Log, LogState, Status};
use crate::manifest::{LogRecord, ManifestHead};
use crate::recovery::apply::index_bytes;
use crate::segment::{ActiveSegment, FileKey, FileKind, IndexWrite, SegmentMeta, SegmentName};
use crate::tail::Address;
use crate::tasks::for_each;

/// Logs whose last bytes and indexes are written at once.
const LOGS_AT_ONCE: usize = 8;
/// Files synced at once.
const SYNCS_AT_ONCE: usize = 4;
/// Above this many, one `syncfs` is cheaper.
const SYNCS_MAX: usize = 64;
/// Logs captured, or taken over, before others get a turn.
const LOGS_A_POLL: usize = 64;
/// After a checkpoint that could not be made.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// After one that found no room: each try writes what it can, and nobody makes room in less.
const RETRY_DELAY_FULL: Duration = Duration::from_secs(1);

/// Why there is no checkpoint this time. The journal keeps what it holds.
#[derive(Debug)]
pub(crate) enum CheckpointError {
    /// The disk is full.
    Full,
    /// The store has stopped.
    Stopped,
    /// Something of an offline log could not be kept elsewhere.
    Io(std::io::Error),
}

impl From<std::io::Error> for CheckpointError {
    fn from(error: std::io::Error) -> Self {
        if is_full(&error) { Self::Full } else { Self::Io(error) }
    }
}

/// A log as it was at the capture, and what has to be done for its files to be that.
struct Captured {
    log: Log,
    record: LogRecord,
    /// What the newest manifest holds of the log.
    before: Rc<[u8]>,
    upto: Address,
    index_writes: Vec<(SegmentMeta, IndexWrite)>,
    /// Segments that are sealed, and whose files are to be made final.
    seals: Vec<Seal>,
}

/// A sealed segment, with how long each of its files is to be.
struct Seal {
    segment: SegmentName,
    lengths: [(FileKind, u64); 3],
}

impl Seal {
    fn of(segment: &ActiveSegment) -> Self {
        let index = |kind| (kind, index_bytes(kind, segment.index.entries(kind)));
        let lengths = [(FileKind::Log, segment.meta.bytes), index(FileKind::Index), index(FileKind::TimeIndex)];
        Self { segment: segment.meta.name(), lengths }
    }
}

/// Makes one checkpoint, with the ballast's room if there is no other.
pub(crate) async fn checkpoint(core: &Rc<StoreCore>) -> Result<(), CheckpointError> {
    let started = core.shard.now();
    let done = match attempt(core).await {
        Err(CheckpointError::Full) if super::space::give_up_ballast(core).await => attempt(core).await,
        done => done,
    };
    match &done {
        Ok(()) => core.meters.checkpoint_ns.record_since(started, core.shard.now()),
        Err(_) => core.meters.checkpoints_failed.add(1),
    }
    done
}

/// One at a time: the gate sees to it.
async fn attempt(core: &Rc<StoreCore>) -> Result<(), CheckpointError> {
    let _gate = core.close_gate().await;
    // A store that has stopped has let its logs go: a manifest now would say that there are none.
    if core.stopping.get() {
        return Err(CheckpointError::Stopped);
    }
    let replay_from = core.ring.borrow().next_position();
    begin(core);
    let captured = capture(core).await;
    core.drain().await;
    let changed: Vec<_> = captured.iter().map(|captured| (captured.log.clone(), captured.before.clone())).collect();
    let done = run(core, captured, replay_from).await;
    if done.is_err() {
        for (log, before) in changed {
            let mut state = log.0.state.borrow_mut();
            state.dirty = true;
            // No manifest holds what was captured: what the journal has of the log goes on from what was before.
            if !state.kept {
                state.record = before;
            }
        }
    }
    done
}

async fn run(
    core: &Rc<StoreCore>,
    captured: Vec<Captured>,
    replay_from: JournalPosition,
) -> Result<(), CheckpointError> {
    let work = |captured: Captured| {
        let core = core.clone();
        async move { (write_log(&core, &captured).await, captured) }
    };
    let class = (Class::Normal, core.account.clone());
    let written = for_each(&core.shard, class, LOGS_AT_ONCE, captured, work).await;
    let mut records = Vec::with_capacity(written.len());
    for (result, captured) in written {
        match result {
            Ok(()) => records.push(captured),
            // Its last record stays in the manifest, and its journal goes to an orphan.
            Err(DestageError::Failed) => {}
            Err(DestageError::Full) => return Err(CheckpointError::Full),
        }
    }
    sync_files(core).await;
    // Keeping one takes time in which another may fail: what is adopted below must be online still, or kept.
    while let Some(failed) = core.all_logs().into_iter().find(offline::is_to_be_kept) {
        offline::keep_journal(core, &failed).await?;
    }
    for (index, captured) in records.iter().enumerate() {
        adopt(core, captured);
        breathe(core, index).await;
    }
    write_manifest(core, replay_from).await?;
    core.ring.borrow_mut().free_below(replay_from.sequence);
    core.replay_sequence.set(replay_from.sequence);
    core.checkpoints.set(core.checkpoints.get() + 1);
    core.room.notify_all();
    let ring = core.ring.borrow();
    core.budget.set_destage_first(ring.live_bytes() * 2 >= ring.bytes());
    Ok(())
}

/// At the replay position, all at one instant: from now on the first append of each log brings its block along.
fn begin(core: &StoreCore) {
    for log in core.logs.borrow().values() {
        let mut state = log.0.state.borrow_mut();
        state.prefix_needed = true;
        state.pending = None;
    }
}

/// Every log that changed, each at an instant of its own at or after the replay position.
async fn capture(core: &StoreCore) -> Vec<Captured> {
    let mut captured = Vec::new();
    for (index, log) in core.all_logs().into_iter().enumerate() {
        {
            let mut state = log.0.state.borrow_mut();
            if state.dirty && matches!(state.status, Status::Online | Status::Parked) {
                state.dirty = false;
                captured.push(capture_log(&log, &state));
            }
        }
        breathe(core, index).await;
    }
    captured
}

/// Between logs: thousands of them must not hold the core.
async fn breathe(core: &StoreCore, index: usize) {
    if index % LOGS_A_POLL == LOGS_A_POLL - 1 {
        core.shard.yield_now().await;
    }
}

fn capture_log(log: &Log, state: &LogState) -> Captured {
    let index_writes = state
        .open
        .iter()
        .flat_map(|segment| segment.index.pending().into_iter().map(move |write| (segment.meta, write)))
        .collect();
    Captured {
        log: log.clone(),
        record: log.0.to_record(state),
        before: state.record.clone(),
        upto: state.tail.end().0,
        index_writes,
        seals: state.open.iter().filter(|segment| segment.meta.sealed).map(Seal::of).collect(),
    }
}

/// Brings a log's files up to the capture, unsynced.
async fn write_log(core: &Rc<StoreCore>, captured: &Captured) -> Result<(), DestageError> {
    let log = &captured.log;
    destage(core, log, captured.upto).await?;
    let _turn = log.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
    match write_indexes(core, captured).await {
        Ok(()) => Ok(()),
        Err(error) if is_full(&error) => {
            core.space.borrow_mut().measured(0);
            Err(DestageError::Full)
        }
        Err(error) => {
            offline::fail(core, log, &error);
            Err(DestageError::Failed)
        }
    }
}

async fn write_indexes(core: &Rc<StoreCore>, captured: &Captured) -> std::io::Result<()> {
    let log = &captured.log;
    for (meta, write) in &captured.index_writes {
        let key = FileKey { log: log.id(), segment: meta.name(), kind: write.kind };
        let file = open_for_writing(core, log, key).await?;
        let mut buf = core.shard.arena().alloc_wait(write.bytes.len()).await;
        buf.extend_from_slice(&write.bytes);
        file.write_at(write.position, vec![buf.freeze()], WriteSync::None).await?;
        core.dirty.borrow_mut().file(key);
    }
    for seal in &captured.seals {
        // Those without an entry were never made. The others may have had their last one at an earlier checkpoint, which left
        // them as long as their blocks.
        for &(kind, bytes) in seal.lengths.iter().filter(|(_, bytes)| *bytes > 0) {
            let key = FileKey { log: log.id(), segment: seal.segment, kind };
            let file = open_for_writing(core, log, key).await?;
            core.shard.fs().set_len(&file, bytes).await?;
            core.dirty.borrow_mut().file(key);
        }
    }
    Ok(())
}

async fn sync_files(core: &Rc<StoreCore>) {
    let (files, dirs) = core.dirty.borrow_mut().take();
    if files.len() > SYNCS_MAX {
        if let Err(error) = core.shard.fs().sync_fs(core.data_dir()).await {
            // Which file it was nobody can tell, and a sync is not tried twice.
            core.shard.abort(&format!("syncing {} failed: {error}", core.data_dir().display()));
        }
        return;
    }
    let work = |key: FileKey| {
        let core = core.clone();
        async move {
            let Some(log) = core.log(key.log) else { return };
            if log.status() == Status::Offline {
                return;
            }
            let synced = async { core.writers.open(key, &log.0.dir).await?.file.datasync().await };
            if let Err(error) = synced.await {
                offline::fail(&core, &log, &error);
            }
        }
    };
    for_each(&core.shard, (Class::Normal, core.account.clone()), SYNCS_AT_ONCE, files, work).await;
    for dir in dirs {
        match core.shard.fs().sync_dir(&dir).await {
            Ok(()) => {}
            // Its log was removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => core.shard.abort(&format!("syncing {} failed: {error}", dir.display())),
        }
    }
}

/// The captured record becomes the log's, and what was written needs not be written again. A log that failed meanwhile keeps the
/// record that it had.
fn adopt(core: &StoreCore, captured: &Captured) {
    let log = &captured.log;
    let mut state = log.0.state.borrow_mut();
    if state.status == Status::Offline {
        return;
    }
    state.record = captured.record.encode().into();
    for (meta, write) in &captured.index_writes {
        let base = meta.base_offset;
        if let Some(segment) = state.open.iter_mut().find(|segment| segment.meta.base_offset == base) {
            segment.index.written(write.kind, write.entries);
        }
    }
    for seal in &captured.seals {
        let at = state.open.iter().position(|segment| segment.meta.name() == seal.segment);
        if let Some(at) = at {
            let sealed = state.open.remove(at);
            let index = &sealed.index;
            let (index_entries, time_index_entries) =
                (index.entries(FileKind::Index), index.entries(FileKind::TimeIndex));
            state.sealed.push(SegmentMeta { index_entries, time_index_entries, ..sealed.meta });
            state.allocated.retain(|(base, _)| *base != seal.segment.base);
            // Written for the last time.
            core.writers.forget(log.id(), seal.segment);
        }
    }
}

async fn write_manifest(core: &Rc<StoreCore>, replay_from: JournalPosition) -> Result<(), CheckpointError> {
    let records: Vec<Rc<[u8]>> = core.logs.borrow().values().map(|log| log.0.state.borrow().record.clone()).collect();
    let (mut files, copy) = {
        let mut manifest = core.manifest.borrow_mut();
        (manifest.files.take().expect("one checkpoint at a time"), manifest.next_copy)
    };
    let payload_bytes = records.iter().map(|record| record.len() + 4).sum();
    let version = core.manifest_version.get() + 1;
    let head = ManifestHead { shard: core.config.shard, version, salt: core.salt, replay_from };
    let reserved = files.reserve(copy, payload_bytes).await;
    let written = match &reserved {
        Ok(()) => files.write(copy, &head, &records).await.map(drop),
        Err(_) => Ok(()),
    };
    core.manifest.borrow_mut().files = Some(files);
    if let Err(error) = written {
        // Its pages may be lost and the copy half written; recovery goes by the other one.
        core.shard.abort(&format!("writing manifest {version} failed: {error}"));
    }
    reserved?;
    core.manifest.borrow_mut().next_copy = 1 - copy;
    core.manifest_version.set(version);
    Ok(())
}

/// Makes checkpoints when one is asked for, or when the interval is over and something changed; runs until the store stops.
pub(crate) async fn checkpoint_loop(core: Rc<StoreCore>) {
    let mut said_full = false;
    loop {
        let wait = core.checkpoint_wanted.wait();
        if !core.checkpoint_asked.get() && !core.stopping.get() {
            shard::sync::either(wait, core.shard.sleep(core.config.checkpoint_interval)).await;
        }
        if core.stopping.get() {
            return;
        }
        let asked = core.checkpoint_asked.replace(false);
        let dirty = core.logs.borrow().values().any(|log| log.0.state.borrow().dirty);
        if !asked && !dirty && core.ring.borrow().live_bytes() == 0 {
            continue;
        }
        match checkpoint(&core).await {
            Ok(()) => said_full = false,
            Err(CheckpointError::Stopped) => {}
            Err(CheckpointError::Full) => {
                // Whatever is said may go to that very disk.
                if !std::mem::replace(&mut said_full, true) {
                    tracing::warn!(shard = %core.config.shard, "no checkpoint: the disk is full; free space, or shorten retention");
                }
                super::space::measure(&core).await;
                shard::sync::either(core.stopped.wait(), core.shard.sleep(RETRY_DELAY_FULL)).await;
                core.checkpoint_asked.set(true);
            }
            Err(CheckpointError::Io(error)) => {
                tracing::error!(shard = %core.config.shard, %error, "no checkpoint: what an offline log's journal holds could not be kept");
                core.shard.sleep(RETRY_DELAY).await;
                core.checkpoint_asked.set(true);
            }
        }
    }
}
