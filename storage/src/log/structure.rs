//! What changes a log other than appends: its epochs, its start, its end.
//!
//! Each runs as a task of its own, so that a caller who goes away leaves nothing half done; each waits for journal room first, then
//! passes the gate that checkpoints close, and holds it until the change has taken effect.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use base::{LeaderEpoch, Offset, WallTime};
use record::{BatchHeader, HEADER_BYTES};
use shard::Class;

use super::durable::Lost;
use super::{Log, LogState, Status};
use crate::config::paths;
use crate::journal::codec::Control;
use crate::recovery::image::read_file_range;
use crate::segment::{ActiveSegment, BLOCK_BYTES, FileKey, FileKind, SegmentMeta, SegmentName};
use crate::store::core::StoreCore;
use crate::store::destage::{destage, is_full};
use crate::store::queue::Pending;
use crate::store::{StoreError, offline};
use crate::tail::{Address, SegmentPosition, Tail};

/// Read at a time by a scan of a segment.
const SCAN_BYTES: u64 = 128 << 10;

impl Log {
    /// Runs a change as a task.
    pub(crate) async fn change<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        let core = &self.0.core;
        core.shard.spawn(Class::Normal, core.account.clone(), work).await
    }

    /// Notes that a leader of `epoch` begins at the log's end; durable when it returns. An epoch that is known already is no error.
    ///
    /// # Errors
    /// A newer epoch is known, or the log is not online.
    pub async fn adopt_epoch(&self, epoch: LeaderEpoch) -> Result<(), StoreError> {
        let log = self.clone();
        self.change(async move { log.do_adopt_epoch(epoch).await }).await
    }

    async fn do_adopt_epoch(&self, epoch: LeaderEpoch) -> Result<(), StoreError> {
        let core = &self.0.core;
        let adopt = |start| Control::EpochAdopted { log: self.0.id, epoch, start };
        let room = core.promise(&adopt(Offset(0))).await?;
        let _gate = core.pass_gate().await;
        let durable = {
            let mut state = self.0.state.borrow_mut();
            self.online(&state)?;
            let latest = state.epochs.latest();
            if epoch <= latest {
                return if epoch == latest { Ok(()) } else { Err(StoreError::StaleEpoch { epoch, latest }) };
            }
            let start = state.end;
            state.epochs.assign(epoch, start);
            state.dirty = true;
            state.pending = None;
            room.push(&adopt(start))
        };
        durable.await.map_err(|_| StoreError::Closed)
    }

    /// Moves the log's start up to `start`, at most to its end; durable when it returns. Segments that lie wholly below go.
    ///
    /// # Errors
    /// The log is not online.
    pub async fn advance_start(&self, start: Offset) -> Result<(), StoreError> {
        let log = self.clone();
        self.change(async move { log.do_advance_start(start).await }).await
    }

    async fn do_advance_start(&self, start: Offset) -> Result<(), StoreError> {
        let core = &self.0.core;
        let room = core.promise(&Control::StartMoved { log: self.0.id, start }).await?;
        let gate = core.pass_gate().await;
        let durable = {
            let mut state = self.0.state.borrow_mut();
            self.online(&state)?;
            let start = start.min(state.end);
            if start <= state.start {
                return Ok(());
            }
            state.pending = None;
            room.push(&Control::StartMoved { log: self.0.id, start })
        };
        durable.await.map_err(|_| StoreError::Closed)?;
        {
            let mut state = self.0.state.borrow_mut();
            let start = start.min(state.end);
            state.start = state.start.max(start);
            state.high_watermark = state.high_watermark.max(start);
            state.epochs.truncate_from_start(start);
            state.dirty = true;
        }
        self.0.changed.notify_all();
        let trashed = self.trash_expired().await?;
        drop(gate);
        core.trash.put(trashed, self.delete_delay());
        Ok(())
    }

    /// How long files that the log drops stay in the trash.
    pub(crate) fn delete_delay(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.state.borrow().config.delete_delay_ms).unwrap_or(0))
    }

    /// Moves segments below the start away that were not final when the start moved.
    pub(crate) async fn drop_expired(&self) -> Result<Vec<std::path::PathBuf>, StoreError> {
        let _gate = self.0.core.pass_gate().await;
        // The files of one that moves are another shard's soon.
        if matches!(self.status(), Status::Parked | Status::Gone) {
            return Ok(Vec::new());
        }
        self.trash_expired().await
    }

    /// Begins a new segment at the log's end, if the active one holds anything and the journal has room.
    pub(crate) fn roll_now(&self, now: WallTime) {
        let core = &self.0.core;
        let mut state = self.0.state.borrow_mut();
        if self.online(&state).is_err() || state.active().meta.is_empty() {
            return;
        }
        let control = Control::Roll { log: self.0.id, segment: state.end, sealed_bytes: 0, created: now };
        let charge = Pending::charge_of(&control.encode());
        if core.ring.borrow_mut().reserve(charge, 0) {
            state.promised = charge;
            self.roll(&mut state, now);
            core.commit_wanted.notify_all();
        }
    }

    /// Takes the segments below the start out of the log; the caller holds a permit of the gate. Only those whose files are final: the
    /// others go after the next checkpoint.
    pub(crate) async fn trash_expired(&self) -> Result<Vec<std::path::PathBuf>, StoreError> {
        let expired: Vec<SegmentMeta> = {
            let mut state = self.0.state.borrow_mut();
            let start = state.start;
            let count = state.sealed.iter().take_while(|segment| segment.end_offset <= start).count();
            state.dirty |= count > 0;
            state.sealed.drain(..count).collect()
        };
        self.trash_segments(expired.iter().map(SegmentMeta::name).collect()).await
    }

    /// Renames the files of segments into the trash.
    pub(crate) async fn trash_segments(
        &self,
        segments: Vec<SegmentName>,
    ) -> Result<Vec<std::path::PathBuf>, StoreError> {
        let core = &self.0.core;
        let (fs, trash_dir) = (core.shard.fs(), paths::trash_dir(core.data_dir()));
        let mut trashed = Vec::new();
        for segment in segments {
            core.files.forget(self.0.id, segment);
            core.writers.forget(self.0.id, segment);
            core.dirty.borrow_mut().forget(self.0.id, segment);
            for kind in FileKind::ALL {
                let name = segment.file(kind);
                let to = trash_dir.join(format!("{}-{:016x}-{name}", self.0.id, core.shard.random()));
                let from = self.0.dir.join(name);
                match fs.rename(&from, &to).await {
                    Ok(()) => trashed.push(to),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    // Not even a name in the trash has room. A segment may begin there again: it goes at once.
                    Err(error) if is_full(&error) => {
                        fs.remove(&from).await.map_err(|error| StoreError::io("remove", from, error))?;
                    }
                    Err(error) => return Err(StoreError::io("rename", from, error)),
                }
            }
        }
        Ok(trashed)
    }

    /// Cuts the log so that it ends at `end`, or at the beginning of the batch that holds it; durable, and done on disk, when it
    /// returns the new end. Appends wait meanwhile. Below everything the log has, it begins anew at `end`.
    ///
    /// # Errors
    /// The log is not online, or its files failed, which takes it offline.
    pub async fn truncate_to(&self, end: Offset) -> Result<Offset, StoreError> {
        let log = self.clone();
        self.change(async move { log.do_truncate(end).await }).await
    }

    async fn do_truncate(&self, end: Offset) -> Result<Offset, StoreError> {
        let core = &self.0.core;
        let example = SegmentMeta::new(Offset(0), WallTime(0));
        let room = core.promise(&Control::Truncate { log: self.0.id, end, segment: example }).await?;
        let gate = core.pass_gate().await;
        {
            let mut state = self.0.state.borrow_mut();
            self.online(&state)?;
            if end >= state.end {
                return Ok(state.end);
            }
            state.status = Status::Truncating;
        }
        // Everything appended is durable, then in its segment: the cut is made in files only.
        core.drain().await;
        let done = match destage(core, self, Address(u64::MAX)).await {
            Ok(()) => self.cut(end, room).await,
            Err(_) => Err(StoreError::Offline),
        };
        let mut state = self.0.state.borrow_mut();
        if state.status == Status::Truncating {
            state.status = Status::Online;
        }
        drop(state);
        self.0.changed.notify_all();
        let (end, trashed) = done?;
        drop(gate);
        core.trash.put(trashed, self.delete_delay());
        Ok(end)
    }

    async fn cut(
        &self,
        end: Offset,
        room: crate::store::core::Promised<'_>,
    ) -> Result<(Offset, Vec<std::path::PathBuf>), StoreError> {
        let core = &self.0.core;
        let _turn = self.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
        let failed = |error: io::Error| {
            offline::fail(core, self, &error);
            StoreError::Offline
        };
        let (kept, prefix) = self.find_cut(end).await.map_err(failed)?;
        let end = if kept.meta.is_empty() { end.max(kept.meta.base_offset) } else { kept.meta.end_offset };
        let meta = SegmentMeta {
            index_entries: kept.index.entries(FileKind::Index),
            time_index_entries: kept.index.entries(FileKind::TimeIndex),
            ..kept.meta
        };
        let durable = room.push(&Control::Truncate { log: self.0.id, end, segment: meta });
        durable.await.map_err(|_| StoreError::Closed)?;
        let dropped = self.dropped_by(&meta);
        let trashed = self.trash_segments(dropped).await?;
        self.shrink(&meta).await.map_err(failed)?;
        self.end_at(end, kept, &prefix).await;
        Ok((end, trashed))
    }

    /// The segments that a cut takes out of the log.
    fn dropped_by(&self, kept: &SegmentMeta) -> Vec<SegmentName> {
        let state = self.0.state.borrow();
        let stays = state.segments().any(|segment| segment.base_offset == kept.base_offset);
        let names = state.segments().map(SegmentMeta::name);
        names.filter(|segment| !stays || segment.base > kept.base_offset).collect()
    }

    /// The segment in which the log will end, cut, and what its last block holds below the cut. It is read from its beginning, so
    /// that its description and its indexes are exact again.
    async fn find_cut(&self, end: Offset) -> io::Result<(ActiveSegment, Vec<u8>)> {
        let core = &self.0.core;
        let (found, interval) = {
            let state = self.0.state.borrow();
            let found = state.segments().filter(|segment| segment.base_offset <= end).last().copied();
            (found, core.index_interval_bytes(&state.config))
        };
        let Some(found) = found else {
            return Ok((ActiveSegment::new(end, core.shard.wall(), interval), Vec::new()));
        };
        let mut kept = ActiveSegment::new(found.base_offset, found.created, interval);
        kept.meta.revision = found.revision;
        if found.base_offset == end || found.bytes == 0 {
            return Ok((kept, Vec::new()));
        }
        let key = FileKey { log: self.0.id, segment: found.name(), kind: FileKind::Log };
        let file = core.files.open(key, &self.0.dir).await?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the segment does not hold the batches it should");
        let (mut window, mut window_at) = (Vec::new(), 0);
        while kept.meta.bytes < found.bytes {
            let mut within = (kept.meta.bytes - window_at) as usize;
            if within + HEADER_BYTES > window.len() {
                window = read_file_range(&file, kept.meta.bytes, SCAN_BYTES).await?;
                (window_at, within) = (kept.meta.bytes, 0);
            }
            let bytes = window[within..].first_chunk::<HEADER_BYTES>().ok_or_else(damaged)?;
            let header = BatchHeader::decode(bytes).map_err(|_| damaged())?;
            if header.last_offset() >= end {
                break;
            }
            kept.note(&header, found.last_append);
        }
        kept.meta.created = found.created;
        let within = kept.meta.bytes % BLOCK_BYTES as u64;
        let prefix = read_file_range(&file, kept.meta.bytes - within, within).await?;
        if prefix.len() as u64 == within { Ok((kept, prefix)) } else { Err(damaged()) }
    }

    /// Makes the file of the segment end where the log does, durably, before anything is appended.
    async fn shrink(&self, meta: &SegmentMeta) -> io::Result<()> {
        let core = &self.0.core;
        let key = FileKey { log: self.0.id, segment: meta.name(), kind: FileKind::Log };
        if core.shard.fs().stat(key.path(&self.0.dir)).await?.is_none() {
            return Ok(());
        }
        let file = core.writers.open(key, &self.0.dir).await?.file;
        core.shard.fs().set_len(&file, meta.bytes).await?;
        file.datasync().await
    }

    async fn end_at(&self, end: Offset, kept: ActiveSegment, prefix: &[u8]) {
        let place = SegmentPosition { segment: kept.meta.base_offset, position: kept.meta.bytes };
        // One block, which somebody gives back sooner or later.
        loop {
            let reset = self.0.state.borrow().tail.reset(place, prefix, end);
            if reset.is_ok() {
                break;
            }
            self.0.core.tails.wait_for(BLOCK_BYTES).await;
        }
        let mut state = self.0.state.borrow_mut();
        let base = kept.meta.base_offset;
        state.sealed.retain(|segment| segment.base_offset < base && segment.end_offset <= end);
        state.allocated.retain(|(of, _)| *of < base);
        state.allocated.push((base, kept.meta.bytes));
        state.open.retain(|segment| segment.meta.base_offset < base && segment.meta.end_offset <= end);
        state.open.push(kept);
        state.forget_above(end, self.0.core.next_generation());
        state.durable_address = state.tail.end().0;
        self.0.core.settle_reserved(&mut state);
        let wakers = state.waiters.lost_above(end, Lost::Truncated);
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// The log is not on this shard any more: whoever waits for it hears so, and its memory and files are let go.
    pub(crate) async fn leave(&self) {
        let core = &self.0.core;
        let _turn = self.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
        for segment in self.segments().iter().map(SegmentMeta::name) {
            core.files.forget(self.0.id, segment);
        }
        core.writers.forget_log(self.0.id);
        core.dirty.borrow_mut().forget_log(self.0.id);
        let mut state = self.0.state.borrow_mut();
        state.status = Status::Gone;
        let place = SegmentPosition { segment: state.end, position: 0 };
        state.tail = Tail::new(&core.tails, place, &[], state.end).expect("an empty tail takes no memory");
        core.settle_reserved(&mut state);
        let held = state.held_end;
        let wakers = state.waiters.lost_above(held, Lost::Removed);
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
        self.0.changed.notify_all();
    }

    /// # Errors
    /// The log is not online, or the store closes.
    pub(crate) fn online(&self, state: &LogState) -> Result<(), StoreError> {
        match state.status {
            _ if self.0.core.closing.get() => Err(StoreError::Closed),
            Status::Online => Ok(()),
            Status::Truncating | Status::Parked => Err(StoreError::Busy),
            Status::Offline => Err(StoreError::Offline),
            Status::Gone => Err(StoreError::NotFound),
        }
    }
}

impl LogState {
    fn forget_above(&mut self, end: Offset, generation: u32) {
        self.end = end;
        self.start = self.start.min(end);
        self.cleaned_to = self.cleaned_to.min(end);
        self.held_end = end;
        self.durable_end = end;
        self.high_watermark = self.high_watermark.min(end);
        self.epochs.truncate_from_end(end);
        // As in replay: where it becomes inexact the table knows less, never more.
        let _exact = self.producers.truncate(end);
        self.generation = generation;
        self.cursors.borrow_mut().clear();
        self.prefix_needed = true;
        self.pending = None;
        self.dirty = true;
    }
}

/// Everything a log needs of its store once it exists.
pub(crate) fn log_dir(core: &StoreCore, topic: &str, id: crate::config::LogId) -> Rc<std::path::Path> {
    paths::log_dir(core.data_dir(), topic, id).into()
}
