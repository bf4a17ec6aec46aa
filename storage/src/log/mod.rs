//! A log: one partition's records on this shard.
//!
//! Owner: its shard's store. A log is online from its creation, or from the start of the store, until it is removed, moved to another
//! shard, or a file of it fails. Everything that changes it goes through the store's one journal, in the order of the calls.
//!
//! Ends, lowest first: `start` ≤ `durable_end` (flushed) ≤ `held_end` (counts for acknowledgements; equal to `durable_end` unless the
//! store's durability is `replicas`) ≤ `end` (appended).

mod append;
mod durable;
mod replace;
mod structure;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use base::{LeaderEpoch, Offset, PlacementEpoch, WallTime};
use record::TimestampOffset;
use shard::sync::{Event, Semaphore};

pub use append::{AppendError, AppendOptions, Appended, Duplicate};
pub(crate) use durable::Waiters;
pub use durable::{Durable, Lost};
pub(crate) use replace::Replacement;
pub(crate) use structure::log_dir;

use crate::config::{LogConfig, LogId};
use crate::epochs::{EpochEnd, EpochTable};
use crate::manifest::LogRecord;
use crate::producer::{ActiveProducer, ProducerTable};
use crate::read::{Cursors, LogSource, LogView, Read, ReadError, ReadLimits};
use crate::retention::{Kept, LogExtent, RetentionLimits, kept};
use crate::segment::{ActiveSegment, RollLimits, SegmentMeta, SegmentName, jittered_ms};
use crate::space::SpaceClass;
use crate::store::core::StoreCore;
use crate::tail::{Address, SegmentPosition, Tail};

/// `segment.index.bytes`, not a setting of topics here: Kafka's default, which a segment of 1 GiB never reaches.
pub(crate) const SEGMENT_INDEX_BYTES: u64 = 10 << 20;

/// What may be done with a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Online,
    /// Its end is being moved back: appends wait.
    Truncating,
    /// On its way to another shard: appends wait.
    Parked,
    /// A file of it failed. Its journaled bytes are kept as an orphan; reads and appends are refused.
    Offline,
    /// Removed, or at home on another shard.
    Gone,
}

/// A log of this shard. Clones are the same log.
#[derive(Clone)]
pub struct Log(pub(crate) Rc<LogInner>);

pub(crate) struct LogInner {
    pub(crate) id: LogId,
    pub(crate) topic: String,
    pub(crate) dir: Rc<std::path::Path>,
    pub(crate) core: Rc<StoreCore>,
    pub(crate) state: RefCell<LogState>,
    /// What is flushed, or held, has changed, or where the log starts, or its status.
    pub(crate) changed: Event,
    /// Held by whoever writes to its files: destage, a checkpoint, a truncation, compaction when it puts a segment in place.
    pub(crate) files_turn: Semaphore,
}

pub(crate) struct LogState {
    pub(crate) config: LogConfig,
    pub(crate) status: Status,
    pub(crate) placement: PlacementEpoch,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// Since the store opened it.
    pub(crate) appended_bytes: u64,
    pub(crate) held_end: Offset,
    pub(crate) durable_end: Offset,
    /// How far the tail's bytes are in the journal, flushed: destage goes no further.
    pub(crate) durable_address: Address,
    pub(crate) high_watermark: Offset,
    pub(crate) epochs: EpochTable,
    pub(crate) producers: ProducerTable,
    /// Sealed segments whose files are final.
    pub(crate) sealed: Vec<SegmentMeta>,
    /// Compaction has seen all records below, and of each key has left the last one.
    pub(crate) cleaned_to: Offset,
    pub(crate) cleaning: CleaningState,
    /// Sealed segments that a checkpoint has yet to finish (bytes, exact lengths, indexes), then the active one, always there.
    pub(crate) open: Vec<ActiveSegment>,
    pub(crate) tail: Tail,
    /// Where readers of older segments are.
    pub(crate) cursors: RefCell<Cursors>,
    /// Sizes of the files of the open segments, as far as they were extended.
    pub(crate) allocated: Vec<(Offset, u64)>,
    /// The next append that is put into a commit brings the bytes of its block along.
    pub(crate) prefix_needed: bool,
    /// Number of this log's newest queue entry, if an append can go on there.
    pub(crate) pending: Option<u64>,
    /// Journal room promised to an append that is being made.
    pub(crate) promised: u64,
    /// Disk space reserved for what is not destaged.
    pub(crate) reserved_bytes: u64,
    pub(crate) waiters: Waiters,
    /// A new one after each truncation, and for each log that the store opens: what was read from disk under another is not used.
    /// Compaction needs none: its files have names of their own.
    pub(crate) generation: u32,
    /// Differs from `record`.
    pub(crate) dirty: bool,
    /// The log as the newest manifest holds it, encoded.
    pub(crate) record: Rc<[u8]>,
    /// Flushed in the journal and waiting for destage since.
    pub(crate) destage_since: Option<base::Instant>,
    /// In line for destage because of its size.
    pub(crate) ripe: bool,
    /// Offline, and what the journal held of it is in its orphan file.
    pub(crate) kept: bool,
}

/// What the compaction of a log has come to since the store opened it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CleaningState {
    /// Files that a crash left have been looked for.
    pub(crate) swept: bool,
    /// Something in it cannot be compacted, which has been said: it is left as it is.
    pub(crate) given_up: bool,
    /// Since when there has been something to compact.
    pub(crate) waits_since: Option<base::Instant>,
}

impl LogState {
    pub(crate) fn active(&self) -> &ActiveSegment {
        self.open.last().expect("there is always an active segment")
    }

    pub(crate) fn active_mut(&mut self) -> &mut ActiveSegment {
        self.open.last_mut().expect("there is always an active segment")
    }

    /// Where the next byte goes.
    pub(crate) fn next_place(&self) -> SegmentPosition {
        let active = &self.active().meta;
        SegmentPosition { segment: active.base_offset, position: active.bytes }
    }

    /// The segment that begins at an offset, as its files are called.
    pub(crate) fn name_of(&self, base: Offset) -> SegmentName {
        let found =
            self.open.iter().map(|segment| &segment.meta).chain(&self.sealed).find(|meta| meta.base_offset == base);
        found.map_or(SegmentName::first(base), SegmentMeta::name)
    }

    pub(crate) fn roll_limits(&self) -> RollLimits {
        let config = &self.config;
        let base = self.active().meta.base_offset;
        RollLimits {
            segment_bytes: config.segment_bytes,
            segment_ms: jittered_ms(config.segment_ms_max(), config.segment_jitter_ms, self.placement.0, base),
            index_bytes: SEGMENT_INDEX_BYTES,
        }
    }

    pub(crate) fn retention_limits(&self) -> RetentionLimits {
        let LogConfig { retention_ms, retention_bytes, retention_topic_bytes_share, .. } = self.config;
        RetentionLimits { retention_ms, retention_bytes, topic_share_bytes: retention_topic_bytes_share }
    }

    /// Seals the active segment and begins the next one at the end of the log.
    pub(crate) fn begin_segment(&mut self, now: WallTime, index_interval_bytes: u64) {
        self.active_mut().seal();
        self.open.push(ActiveSegment::new(self.end, now, index_interval_bytes));
        self.tail.roll(self.end);
        self.dirty = true;
    }

    /// What was appended while the wall clock was ahead of itself was appended no later than now: from now on it ages.
    pub(crate) fn no_later_than(&mut self, now: WallTime) {
        let open = self.open.iter_mut().map(|segment| &mut segment.meta);
        for meta in self.sealed.iter_mut().chain(open).filter(|meta| meta.last_append.max(meta.created) > now) {
            meta.last_append = meta.last_append.min(now);
            meta.created = meta.created.min(now);
            self.dirty = true;
        }
    }

    /// Nobody else is asked before what an only replica holds is committed.
    fn commit_held(&mut self) {
        if self.config.only_replica && self.held_end > self.high_watermark {
            self.high_watermark = self.held_end;
            self.dirty = true;
        }
    }

    /// Of what it has reserved and will reserve on the disk.
    pub(crate) fn space_class(&self) -> SpaceClass {
        self.config.space
    }

    /// All segments in order; the last one is active.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &SegmentMeta> {
        self.sealed.iter().chain(self.open.iter().map(|segment| &segment.meta))
    }
}

impl Log {
    #[must_use]
    pub fn id(&self) -> LogId {
        self.0.id
    }

    #[must_use]
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.0.state.borrow().status
    }

    /// The first offset that has not been deleted.
    #[must_use]
    pub fn start_offset(&self) -> Offset {
        self.0.state.borrow().start
    }

    /// The offset of the next append.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.0.state.borrow().end
    }

    /// Everything below is flushed on this broker's disk.
    #[must_use]
    pub fn durable_end(&self) -> Offset {
        self.0.state.borrow().durable_end
    }

    /// Everything below counts as held: as [`Log::durable_end`], or as written, as the store's durability says.
    #[must_use]
    pub fn held_end(&self) -> Offset {
        self.0.state.borrow().held_end
    }

    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.0.state.borrow().high_watermark
    }

    /// Notes how far the log is committed; never back, and never beyond its end.
    pub fn set_high_watermark(&self, at: Offset) {
        let mut state = self.0.state.borrow_mut();
        let at = at.min(state.end);
        if at > state.high_watermark {
            state.high_watermark = at;
            state.dirty = true;
        }
    }

    pub fn set_config(&self, config: LogConfig) {
        let mut state = self.0.state.borrow_mut();
        self.0.core.space.borrow_mut().reclassed(state.reserved_bytes, state.space_class(), config.space);
        state.cleaning.given_up &= state.config == config;
        state.config = config;
        state.commit_held();
    }

    #[must_use]
    pub fn config(&self) -> LogConfig {
        self.0.state.borrow().config.clone()
    }

    /// Notifies of each change of what is flushed or held, of where the log starts, or of its status.
    #[must_use]
    pub fn changed(&self) -> &Event {
        &self.0.changed
    }

    #[must_use]
    pub fn latest_epoch(&self) -> LeaderEpoch {
        self.0.state.borrow().epochs.latest()
    }

    /// Where an epoch ends in this log.
    #[must_use]
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> EpochEnd {
        let state = self.0.state.borrow();
        state.epochs.end_offset_for(epoch, state.end)
    }

    /// The epoch that the record at `offset` was, or will be, written under.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.0.state.borrow().epochs.epoch_at(offset)
    }

    /// Bytes of all batches that the log holds.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.state.borrow().segments().map(|segment| segment.bytes).sum()
    }

    /// Bytes of all batches appended since the store opened it: what its growth is measured by.
    #[must_use]
    pub fn appended_bytes(&self) -> u64 {
        self.0.state.borrow().appended_bytes
    }

    /// How long retention lets the record at `offset` be, as things stand.
    #[must_use]
    pub fn kept(&self, offset: Offset) -> Kept {
        let state = self.0.state.borrow();
        let segments: Vec<_> = state.segments().copied().collect();
        let extent = LogExtent { segments: &segments, log_start: state.start, high_watermark: state.high_watermark };
        kept(&extent, &state.retention_limits(), state.config.segment_bytes, offset)
    }

    /// The idempotent producers that the log remembers, by id.
    #[must_use]
    pub fn producers(&self) -> Vec<ActiveProducer> {
        self.0.state.borrow().producers.active().collect()
    }

    #[must_use]
    pub fn segments(&self) -> Vec<SegmentMeta> {
        self.0.state.borrow().segments().copied().collect()
    }

    /// The log's directory.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.0.dir.to_path_buf()
    }

    /// Reads as a fetch does: whole batches, the first of which holds `from`; from memory where possible, else from disk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&self, from: Offset, limits: ReadLimits) -> Result<Read, ReadError> {
        let damaged = |segment: Offset| self.note_damaged_index(segment);
        crate::read::read_log(self, &self.0.core.blocks, from, &limits, damaged).await
    }

    /// The first record below the high watermark whose timestamp is `at` or later.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn offset_for_time(&self, at: WallTime) -> Result<Option<TimestampOffset>, ReadError> {
        let damaged = |segment: Offset| self.note_damaged_index(segment);
        let upto = self.high_watermark();
        crate::read::offset_for_time(self, &self.0.core.blocks, at, upto, damaged).await
    }

    /// The first record at `offset` or above it, below the high watermark: one batch is read, more where compaction has emptied it.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn record_at(&self, offset: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let damaged = |segment: Offset| self.note_damaged_index(segment);
        let upto = self.high_watermark();
        crate::read::record_at(self, &self.0.core.blocks, offset, upto, damaged).await
    }

    /// The record with the largest timestamp, if it is below the high watermark.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let damaged = |segment: Offset| self.note_damaged_index(segment);
        let upto = self.high_watermark();
        crate::read::max_timestamp(self, &self.0.core.blocks, upto, damaged).await
    }

    /// Reads do without an index that does not fit its segment; they get slower.
    fn note_damaged_index(&self, segment: Offset) {
        crate::store::reindex::report(&self.0.core, self.0.id, segment);
    }

    /// Reads from memory alone, as a fetch does; `None` when `from` lies below what is in memory, or the log is offline.
    #[must_use]
    pub fn read_tail(&self, from: Offset, limits: &ReadLimits) -> Option<Read> {
        let state = self.0.state.borrow();
        if matches!(state.status, Status::Offline | Status::Gone) { None } else { state.tail.read(from, limits) }
    }
}

impl LogSource for Log {
    fn view<R>(&self, f: impl FnOnce(&LogView<'_>) -> R) -> R {
        let state = self.0.state.borrow();
        f(&LogView {
            id: self.0.id,
            dir: &self.0.dir,
            generation: state.generation,
            offline: matches!(state.status, Status::Offline | Status::Gone),
            start: state.start,
            sealed: &state.sealed,
            open: &state.open,
            tail: &state.tail,
            epochs: &state.epochs,
            cursors: &state.cursors,
        })
    }
}

impl LogInner {
    /// The log as a manifest is to hold it.
    pub(crate) fn to_record(&self, state: &LogState) -> LogRecord {
        let producers = if state.producers.is_empty() { Vec::new() } else { state.producers.encode() };
        let with_entries = |segment: &ActiveSegment| SegmentMeta {
            index_entries: segment.index.entries(crate::segment::FileKind::Index),
            time_index_entries: segment.index.entries(crate::segment::FileKind::TimeIndex),
            ..segment.meta
        };
        LogRecord {
            id: self.id,
            topic: self.topic.clone(),
            placement: state.placement,
            offline: state.status == Status::Offline,
            start: state.start,
            end: state.end,
            high_watermark: state.high_watermark.clamp(state.start, state.end),
            epochs: state.epochs.entries().to_vec(),
            segments: state.sealed.iter().copied().chain(state.open.iter().map(with_entries)).collect(),
            producers,
            cleaned_to: state.cleaned_to.clamp(Offset(0), state.end),
        }
    }

    /// A commit that holds the log up to `end` is written; `flushed` says whether it is durable too.
    pub(crate) fn reached(&self, end: Offset, address: Address, flushed: bool, held: bool) {
        let wakers = {
            let mut state = self.state.borrow_mut();
            if flushed {
                assert!(state.durable_end <= end, "commits complete in order");
                state.durable_end = end;
                state.durable_address = address;
            }
            if held {
                state.held_end = end;
                state.commit_held();
            }
            let held_end = state.held_end;
            state.waiters.reached(held_end)
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
        self.changed.notify_all();
    }
}
