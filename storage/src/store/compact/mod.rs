//! Compacts logs, one at a time, the dirtiest first. What is decided is in [`crate::compaction`]; the switch to what is written here is
//! [`Log::replace_segments`].
//!
//! Owner: the store; a background task. It reads and writes under the background budget, holds no memory of tails or blocks, and ends
//! between two pieces when the store stops. Whatever is made for nothing, also by a crash, is in the trash.

mod pacer;
mod reader;
mod sweep;
mod writer;

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use base::{Offset, WallTime};
use record::{BatchView, Compression};

use self::pacer::Pacer;
use self::reader::SegmentReader;
use self::writer::SegmentWriter;
pub(crate) use self::writer::Staged;
use super::StoreError;
use super::core::StoreCore;
use super::destage::is_full;
use crate::compaction::{
    Cleaning, CompactionPlan, Fate, GroupLimits, KeyMap, LogExtent, Uncleanable, Wait, compaction_plan, group_segments,
    note_batch,
};
use crate::log::{Log, Replacement, SEGMENT_INDEX_BYTES, Status};
use crate::read::ReadError;
use crate::segment::SegmentMeta;
use crate::space::SpaceState;

/// A batch of more bytes is worked on by the helper thread; a compressed one, which may grow a thousandfold, already at less.
const INLINE_BYTES_MAX: usize = 64 << 10;
const INLINE_COMPRESSED_BYTES_MAX: usize = 2 << 10;

/// Why a pass ended before its end.
#[derive(Debug)]
enum PassError {
    /// The store stops, or the log is not what it was when the pass began.
    Stopped,
    /// There is no room for one segment more.
    Full,
    Read(ReadError),
    Write {
        path: PathBuf,
        error: io::Error,
    },
    Batch(Uncleanable),
    Store(StoreError),
}

impl std::fmt::Display for PassError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("the log has changed meanwhile"),
            Self::Full => f.write_str("the disk is full"),
            Self::Read(error) => error.fmt(f),
            Self::Write { path, error } => write!(f, "{} cannot be written: {error}", path.display()),
            Self::Batch(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl PassError {
    fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| if is_full(&error) { Self::Full } else { Self::Write { path, error } }
    }
}

/// Runs until the store stops.
pub(crate) async fn compact_loop(core: Rc<StoreCore>) {
    loop {
        shard::sync::either(core.stopped.wait(), core.shard.sleep(core.config.compaction_interval)).await;
        while let Some((log, pass)) = dirtiest(&core).await {
            let error = match pass.run(&core, &log).await {
                Ok(()) => {
                    core.meters.compactions.add(1);
                    continue;
                }
                Err(error) => error,
            };
            match error {
                PassError::Full if core.space.borrow().state() == SpaceState::Ok => super::space::measure(&core).await,
                PassError::Stopped | PassError::Full => {}
                // What reads like damage of a log that was cut or removed meanwhile is none.
                _ if !pass.is_current(&log) => {}
                error => give_up(&core, &log, &error),
            }
            break;
        }
        if core.stopping.get() || core.closing.get() {
            return;
        }
    }
}

/// The log is left as it is until the store is opened anew, or its settings change.
fn give_up(core: &StoreCore, log: &Log, error: &PassError) {
    core.meters.compactions_failed.add(1);
    log.0.state.borrow_mut().cleaning.given_up = true;
    tracing::error!(
        log = %log.id(), dir = %log.dir().display(), %error,
        "this log cannot be compacted and grows: it is left as it is until the next start, or until its topic's settings change"
    );
}

/// The log that is compacted next, if there is one. Notes which one has waited too long, or will have first.
async fn dirtiest(core: &Rc<StoreCore>) -> Option<(Log, Pass)> {
    let mut found: Option<(Log, Pass)> = None;
    let mut presses_most: Option<Wait> = None;
    for log in core.all_logs() {
        if core.stopping.get() || core.closing.get() || core.space.borrow().state() == SpaceState::Full {
            return None;
        }
        let pass = core.trusted_now().and_then(|now| Pass::of(core, &log, now));
        let wait = pass.is_some().then(|| wait_of(core, &log));
        match wait {
            None => log.0.state.borrow_mut().cleaning.waits_since = None,
            Some(wait) if presses_most.is_none_or(|other| wait.until() < other.until()) => presses_most = Some(wait),
            Some(_) => {}
        }
        if let Some(pass) = pass
            && found.as_ref().is_none_or(|(_, other)| other.plan.dirty_ppm() < pass.plan.dirty_ppm())
        {
            found = Some((log, pass));
        }
        core.shard.yield_now().await;
    }
    core.compaction_wait.set(presses_most);
    found
}

/// Since when a log that is to be compacted has waited for it.
fn wait_of(core: &StoreCore, log: &Log) -> Wait {
    let mut state = log.0.state.borrow_mut();
    let since = *state.cleaning.waits_since.get_or_insert_with(|| core.shard.now());
    Wait::new(since, state.config.compaction.map_or(i64::MAX, |config| config.max_lag_ms))
}

/// One pass over one log: what it is to do, as of its beginning.
struct Pass {
    plan: CompactionPlan,
    /// Those of the plan.
    segments: Vec<SegmentMeta>,
    generation: u32,
    limits: GroupLimits,
    index_interval_bytes: u64,
    delete_retention_ms: i64,
    now: WallTime,
    cleaned_to: Offset,
}

impl Pass {
    fn of(core: &StoreCore, log: &Log, now: WallTime) -> Option<Self> {
        let state = log.0.state.borrow();
        let config = state.config.compaction.filter(|_| state.status == Status::Online && !state.cleaning.given_up)?;
        let extent = LogExtent {
            segments: &state.sealed,
            log_start: state.start,
            high_watermark: state.high_watermark,
            cleaned_to: state.cleaned_to,
        };
        let plan = compaction_plan(&extent, &config, now)?;
        Some(Self {
            segments: state.sealed[plan.segments.clone()].to_vec(),
            generation: state.generation,
            limits: GroupLimits { segment_bytes: state.config.segment_bytes, index_bytes: SEGMENT_INDEX_BYTES },
            index_interval_bytes: core.index_interval_bytes(&state.config),
            delete_retention_ms: config.delete_retention_ms,
            now,
            cleaned_to: state.cleaned_to,
            plan,
        })
    }

    /// The log has not been cut, moved or removed, nor taken out of compaction.
    fn is_current(&self, log: &Log) -> bool {
        let state = log.0.state.borrow();
        let is_online = state.status == Status::Online;
        is_online && state.generation == self.generation && state.config.compaction.is_some()
    }

    fn check_current(&self, core: &StoreCore, log: &Log) -> Result<(), PassError> {
        let goes_on = !core.stopping.get() && !core.closing.get() && self.is_current(log);
        if goes_on { Ok(()) } else { Err(PassError::Stopped) }
    }

    async fn run(&self, core: &Rc<StoreCore>, log: &Log) -> Result<(), PassError> {
        sweep::sweep(core, log).await?;
        let pacer = Pacer::new(core);
        let (keys, upto) = self.gather(core, log, &pacer).await?;
        let cleaning = Arc::new(Cleaning {
            keys,
            upto,
            now: self.now,
            delete_retention_ms: self.delete_retention_ms,
            producer_ends: log.0.state.borrow().producers.last_offsets().collect(),
            expanded_bytes_max: core.config.compaction_expanded_bytes_max,
        });
        let segments = &self.segments[..self.segments.partition_point(|meta| meta.base_offset < upto)];
        let groups = group_segments(segments, &self.limits);
        for (index, group) in groups.iter().enumerate() {
            // What the pass has seen counts once all of it is in place.
            let cleaned_to = if index + 1 == groups.len() { upto } else { self.cleaned_to };
            self.replace(core, log, &pacer, &segments[group.clone()], &cleaning, cleaned_to).await?;
            // Its indexes, syncs and renames were work too.
            pacer.rest().await;
        }
        if upto == self.plan.dirty.end {
            log.0.state.borrow_mut().cleaning.waits_since = None;
        }
        Ok(())
    }

    /// Reads the dirty part; gives its keys and how far they go.
    async fn gather(&self, core: &Rc<StoreCore>, log: &Log, pacer: &Pacer) -> Result<(KeyMap, Offset), PassError> {
        let dirty = &self.plan.dirty;
        let records_max = (dirty.end.0 - dirty.start.0).unsigned_abs();
        let seed = [core.shard.random(), core.shard.random()];
        let mut keys = KeyMap::new(core.config.compaction_map_bytes, records_max, seed);
        let expanded_bytes_max = core.config.compaction_expanded_bytes_max;
        let from = dirty.start;
        for meta in self.segments.iter().filter(|meta| meta.end_offset > from) {
            let mut reader = SegmentReader::open(core, log, meta).await?;
            while reader.next(|| self.check_current(core, log)).await? {
                let batch = reader.batch();
                let batch_bytes = batch.bytes().len();
                let full = if is_short(&batch) {
                    note_batch(&mut keys, &batch, from, expanded_bytes_max)
                } else {
                    let bytes = batch.bytes().to_vec();
                    let (returned, full) = core
                        .shard
                        .offload(move || {
                            let full = note_batch(&mut keys, &view(&bytes), from, expanded_bytes_max);
                            (keys, full)
                        })
                        .await;
                    keys = returned;
                    full
                };
                if let Some(upto) = full.map_err(PassError::Batch)? {
                    return Ok((keys, upto));
                }
                pacer.breathe(batch_bytes).await;
            }
        }
        Ok((keys, dirty.end))
    }

    /// Writes neighbouring segments anew, as one, and puts it in their place.
    async fn replace(
        &self,
        core: &Rc<StoreCore>,
        log: &Log,
        pacer: &Pacer,
        old: &[SegmentMeta],
        cleaning: &Arc<Cleaning>,
        cleaned_to: Offset,
    ) -> Result<(), PassError> {
        let bytes: u64 = old.iter().map(|meta| meta.bytes).sum();
        if core.space.borrow().spare_bytes() < bytes {
            return Err(PassError::Full);
        }
        let end = old[old.len() - 1].end_offset;
        let mut writer = SegmentWriter::create(core, log.id(), &old[0], self.index_interval_bytes).await?;
        for meta in old {
            let mut reader = SegmentReader::open(core, log, meta).await?;
            while reader.next(|| self.check_current(core, log)).await? {
                let batch = reader.batch();
                let batch_bytes = batch.bytes().len();
                let ends_segment = batch.header().next_offset() == end;
                let fate = if is_short(&batch) {
                    cleaning.fate(&batch, ends_segment)
                } else {
                    let (bytes, cleaning) = (batch.bytes().to_vec(), cleaning.clone());
                    core.shard.offload(move || cleaning.fate(&view(&bytes), ends_segment)).await
                };
                match fate.map_err(PassError::Batch)? {
                    Fate::Stays => writer.push(reader.batch().bytes()).await?,
                    Fate::Becomes(bytes) => writer.push(&bytes).await?,
                    Fate::Goes => {}
                }
                pacer.breathe(batch_bytes).await;
            }
        }
        let staged = writer.finish().await?;
        assert_eq!(staged.meta.end_offset, end, "the last batch stays");
        core.meters.compaction_freed_bytes.add(bytes.saturating_sub(staged.meta.bytes));
        let replacement = Replacement { old: old.to_vec(), staged, generation: self.generation, cleaned_to };
        match log.replace_segments(replacement).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(StoreError::Closed) => Err(PassError::Stopped),
            Err(StoreError::DiskFull) => Err(PassError::Full),
            Err(error) => Err(PassError::Store(error)),
        }
    }
}

fn view(bytes: &[u8]) -> BatchView<'_> {
    BatchView::parse(bytes).expect("it was one")
}

/// Work on it takes less than a poll may.
fn is_short(batch: &BatchView<'_>) -> bool {
    let plain = batch.header().compression() == Some(Compression::None);
    batch.bytes().len() <= if plain { INLINE_BYTES_MAX } else { INLINE_COMPRESSED_BYTES_MAX }
}
