//! Destage: journaled bytes go from memory to their segments, unsynced, in large writes; a checkpoint syncs them.
//!
//! Order: a log that has gathered [`DESTAGE_BYTES`] goes first, otherwise whoever has waited longest, but not before
//! `destage_delay`. One task at a time writes to the files of a log. No further than the journal holds the log, flushed: a block is
//! written again when it fills, and what it held before must be durable elsewhere by then.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use shard::sync::Semaphore;
use shard::{Class, File, WriteSync};

use super::core::StoreCore;
use super::writers::name_dirs;
use crate::log::{Log, LogInner, Status};
use crate::segment::{BLOCK_BYTES, FileKey, FileKind};
use crate::space::allocation_plan;
use crate::tail::{Address, DestagePiece};

/// Bytes of one log that are worth a write of their own.
const DESTAGE_BYTES: u64 = 256 << 10;
/// Logs that are destaged at once outside checkpoints.
const LOGS_AT_ONCE: usize = 4;

/// Why bytes did not reach their segment.
#[derive(Debug)]
pub(crate) enum DestageError {
    /// The disk is full: later, perhaps.
    Full,
    /// The log is offline now.
    Failed,
}

/// Logs with bytes to destage.
#[derive(Default)]
pub(crate) struct DestageLine {
    ripe: RefCell<VecDeque<Rc<LogInner>>>,
    /// By the time since when they have had any.
    aging: RefCell<VecDeque<Rc<LogInner>>>,
}

impl DestageLine {
    pub(crate) fn clear(&self) {
        let lines = [&self.ripe, &self.aging].map(|line| std::mem::take(&mut *line.borrow_mut()));
        drop(lines);
    }
}

/// A commit made more of a log durable.
pub(crate) fn note_flushed(core: &StoreCore, log: &Rc<LogInner>) {
    let mut state = log.state.borrow_mut();
    let ready_bytes = state.durable_address.0.saturating_sub(state.tail.destaged().0);
    if ready_bytes == 0 {
        return;
    }
    if state.destage_since.is_none() {
        state.destage_since = Some(core.shard.now());
        core.destage_line.aging.borrow_mut().push_back(log.clone());
        core.destage_wanted.notify_one();
    }
    if ready_bytes >= DESTAGE_BYTES && !state.ripe {
        state.ripe = true;
        core.destage_line.ripe.borrow_mut().push_back(log.clone());
        core.destage_wanted.notify_one();
    }
}

/// Runs until the store is closed.
pub(crate) async fn destage_loop(core: Rc<StoreCore>) {
    let turns = Semaphore::new(LOGS_AT_ONCE);
    loop {
        let turn = turns.acquire(1).await.expect("the semaphore is never closed");
        let Some(log) = next_log(&core).await else { return };
        let task_core = core.clone();
        core.shard.spawn(Class::Background, core.account.clone(), async move {
            // What failed has been dealt with where it failed.
            let _ = destage(&task_core, &Log(log), Address(u64::MAX)).await;
            drop(turn);
        });
    }
}

async fn next_log(core: &StoreCore) -> Option<Rc<LogInner>> {
    loop {
        if core.stopping.get() {
            return None;
        }
        if let Some(log) = core.destage_line.ripe.borrow_mut().pop_front() {
            return Some(log);
        }
        let wait = core.destage_wanted.wait();
        let oldest = core.destage_line.aging.borrow().front().map(|log| log.state.borrow().destage_since);
        match oldest {
            None => wait.await,
            // Destaged for its size or by a checkpoint meanwhile.
            Some(None) => drop(core.destage_line.aging.borrow_mut().pop_front()),
            Some(Some(since)) => {
                let due = since + core.config.destage_delay;
                if due <= core.shard.now() {
                    return core.destage_line.aging.borrow_mut().pop_front();
                }
                shard::sync::either(wait, core.shard.sleep_until(due)).await;
            }
        }
    }
}

/// Writes a log's journaled bytes below `upto` to its segments.
pub(crate) async fn destage(core: &Rc<StoreCore>, log: &Log, upto: Address) -> Result<(), DestageError> {
    let _turn = log.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
    {
        let mut state = log.0.state.borrow_mut();
        state.destage_since = None;
        state.ripe = false;
    }
    loop {
        let piece = {
            let state = log.0.state.borrow();
            if matches!(state.status, Status::Offline | Status::Gone) {
                return Err(DestageError::Failed);
            }
            state.tail.destage_next(core.budget.destage_piece_bytes(), state.durable_address.min(upto))
        };
        let Some(piece) = piece else { return Ok(()) };
        if let Err(error) = write_piece(core, log, piece).await {
            if is_full(&error) {
                core.space.borrow_mut().measured(0);
                return Err(DestageError::Full);
            }
            super::offline::fail(core, log, &error);
            return Err(DestageError::Failed);
        }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

async fn write_piece(core: &Rc<StoreCore>, log: &Log, piece: DestagePiece) -> io::Result<()> {
    let segment = log.0.state.borrow().name_of(piece.place.segment);
    let key = FileKey { log: log.id(), segment, kind: FileKind::Log };
    let blocks_bytes: usize = piece.blocks.iter().map(|block| block.len()).sum();
    let bytes = blocks_bytes + if piece.partial.is_some() { BLOCK_BYTES } else { 0 };
    let _in_flight = core.budget.destage(bytes).await;
    let file = open_for_writing(core, log, key).await?;
    extend(core, log, key, &file, piece.place.position + bytes as u64).await?;
    let mut data = piece.blocks;
    if let Some(partial) = piece.partial {
        // A copy, for the block goes on to be filled while this is being written.
        let mut block = core.shard.arena().alloc_wait(BLOCK_BYTES).await;
        block.extend_from_slice(&partial);
        block.pad_to(BLOCK_BYTES);
        data.push(block.freeze());
    }
    file.write_at(piece.place.position, data, WriteSync::None).await?;
    core.meters.destage_bytes.add(bytes as u64);
    core.meters.destage_writes.add(1);
    // Only now: a checkpoint that syncs the file meanwhile would take the note and miss the bytes.
    core.dirty.borrow_mut().file(key);
    let mut state = log.0.state.borrow_mut();
    state.tail.mark_destaged(piece.done);
    core.settle_reserved(&mut state);
    Ok(())
}

/// A file of a log, made and noted for the next checkpoint if it is new.
pub(crate) async fn open_for_writing(core: &StoreCore, log: &Log, key: FileKey) -> io::Result<File> {
    let opened = core.writers.open(key, &log.0.dir).await?;
    if opened.fresh {
        let mut dirty = core.dirty.borrow_mut();
        name_dirs(core.data_dir(), &log.0.dir).into_iter().for_each(|dir| dirty.dir(dir));
        let mut state = log.0.state.borrow_mut();
        if key.kind == FileKind::Log && !state.allocated.iter().any(|(base, _)| *base == key.segment.base) {
            state.allocated.push((key.segment.base, opened.file.bytes_at_open()));
        }
    }
    Ok(opened.file)
}

/// Makes a segment's file long enough for bytes up to `needed`.
async fn extend(core: &StoreCore, log: &Log, key: FileKey, file: &File, needed: u64) -> io::Result<()> {
    let (allocated, segment_bytes) = {
        let state = log.0.state.borrow();
        let known = state.allocated.iter().find(|(base, _)| *base == key.segment.base);
        (known.map_or(0, |(_, bytes)| *bytes), state.config.segment_bytes)
    };
    let target = allocation_plan(allocated, needed, segment_bytes, core.space.borrow().spare_bytes());
    if target <= allocated {
        return Ok(());
    }
    let bytes = target - allocated;
    core.space.borrow_mut().allocating(bytes);
    let extended = core.shard.fs().allocate(file, allocated, bytes).await;
    core.space.borrow_mut().allocated(bytes);
    extended?;
    let mut state = log.0.state.borrow_mut();
    match state.allocated.iter_mut().find(|(base, _)| *base == key.segment.base) {
        Some((_, bytes)) => *bytes = target,
        None => state.allocated.push((key.segment.base, target)),
    }
    Ok(())
}

impl StoreCore {
    /// Gives back the disk space that was reserved for what is in its segment now, or is gone.
    pub(crate) fn settle_reserved(&self, state: &mut crate::log::LogState) {
        let still = state.tail.undestaged_bytes();
        if still < state.reserved_bytes {
            self.space.borrow_mut().released(state.reserved_bytes - still, state.space_class());
            state.reserved_bytes = still;
        }
    }
}
