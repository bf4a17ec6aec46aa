//! Opening a store: its journal, its logs, its tasks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use shard::sync::{Event, Semaphore};
use shard::{Class, Shard};

use super::core::{ManifestState, StoreCore};
use super::queue::CommitQueue;
use super::{ShardStore, StoreError, checkpoint, commit, compact, destage, space, trash, upkeep, writers};
use crate::budget::Budget;
use crate::config::{LogConfig, StoreConfig, paths};
use crate::epochs::EpochTable;
use crate::journal::files::JournalFiles;
use crate::journal::ring::{RingState, frame_bytes_max};
use crate::log::{CleaningState, Log, LogInner, LogState, Status, Waiters};
use crate::manifest::LogRecord;
use crate::manifest::file::ManifestFiles;
use crate::producer::ProducerTable;
use crate::read::{BlockCache, Cursors};
use crate::recovery::RecoveredShard;
use crate::recovery::image::read_file_range;
use crate::segment::{ActiveIndex, ActiveSegment, BLOCK_BYTES, FileKey, FileKind, FileTable, SegmentMeta};
use crate::space::{SpaceAccount, SpaceLimits, SpaceState};
use crate::tail::{SegmentPosition, Tail, TailCache};
use crate::tasks::for_each;

/// Logs opened at once.
const LOGS_AT_ONCE: usize = 32;

pub(super) async fn open(
    shard: Shard,
    config: StoreConfig,
    recovered: RecoveredShard,
) -> Result<ShardStore, StoreError> {
    let RecoveredShard { shard: of, shards, head, logs, trash: trashed } = recovered;
    assert_eq!(of, config.shard, "what recovery gave another shard");
    let dir = paths::shard_dir(&config.data_dir, of);
    let count = config.journal_files_initial.max(2);
    let journal = JournalFiles::open(&shard, config.data_dir.clone(), of, config.journal_file_bytes, count).await;
    let journal = journal.map_err(|error| StoreError::io("make the journal in", &dir, error))?;
    let manifests = ManifestFiles::open(&shard, &dir).await;
    let manifests = manifests.map_err(|error| StoreError::io("open the manifests in", &dir, error))?;
    let journal_file_bytes = config.journal_file_bytes;
    let ring = RingState::new(journal.numbers(), config.journal_file_bytes, head.replay_from.sequence);
    let core = Rc::new(new_core(shard, config, (journal, manifests, ring), (shards, head)));
    *core.commit_buffer.borrow_mut() = Some(core.shard.arena().alloc_wait(frame_bytes_max(journal_file_bytes)).await);
    space::measure(&core).await;
    open_logs(&core, logs).await;
    start(&core, trashed);
    Ok(ShardStore { core })
}

fn new_core(
    shard: Shard,
    config: StoreConfig,
    (journal, manifests, ring): (JournalFiles, ManifestFiles, RingState),
    (shards, head): (u16, crate::manifest::ManifestHead),
) -> StoreCore {
    let account = shard.account("storage");
    let budget = Budget::new(config.background_bytes_in_flight);
    let files = FileTable::new(shard.clone(), config.open_files_max);
    let blocks =
        BlockCache::new(shard.clone(), files.clone(), budget.clone(), (config.read_cache_bytes, config.read_bytes_max));
    let sequence = head.replay_from.sequence;
    StoreCore {
        account,
        meters: super::meters::StoreMeters::default(),
        logs: RefCell::new(BTreeMap::new()),
        creating: RefCell::new(BTreeSet::new()),
        queue: RefCell::new(CommitQueue::new(frame_bytes_max(config.journal_file_bytes), config.apart_bytes)),
        ring: RefCell::new(ring),
        journal: RefCell::new(journal),
        salt: head.salt,
        commit_buffer: RefCell::new(None),
        durable_sequence: Cell::new(sequence - 1),
        durable_entries: Cell::new(0),
        flushes: Rc::default(),
        commit_wanted: Event::new(),
        committed: Event::new(),
        room: Event::new(),
        tails: TailCache::new(shard.arena().part(config.tail_bytes_max), config.tail_cache_bytes),
        blocks,
        budget,
        files,
        writers: writers::WriteFiles::new(shard.clone(), config.open_files_max),
        dirty: RefCell::default(),
        space: RefCell::new(SpaceAccount::new(SpaceLimits::around(config.reserve_bytes, shards))),
        space_announced: Cell::new(SpaceState::Ok),
        destage_line: destage::DestageLine::default(),
        trash: trash::Trash::new(shard.clone()),
        generations: Cell::new(0),
        damaged_indexes: RefCell::default(),
        trusted: Cell::new(None),
        compaction_wait: Cell::new(None),
        destage_wanted: Event::new(),
        // Both copies are the same now: either may go first.
        manifest: RefCell::new(ManifestState { files: Some(manifests), next_copy: 0 }),
        manifest_version: Cell::new(head.version),
        gate: StoreCore::new_gate(),
        checkpoint_wanted: Event::new(),
        checkpoint_asked: Cell::new(false),
        checkpoints: Cell::new(0),
        replay_sequence: Cell::new(sequence),
        grow_wanted: Event::new(),
        memory_asked: Cell::new(false),
        closing: Cell::new(false),
        stopping: Cell::new(false),
        stopped: Event::new(),
        shard,
        config,
    }
}

async fn open_logs(core: &Rc<StoreCore>, records: Vec<LogRecord>) {
    let work = |record: LogRecord| {
        let core = core.clone();
        async move { new_log(&core, record, LogConfig::until_told()).await }
    };
    let opened = for_each(&core.shard, (Class::Normal, core.account.clone()), LOGS_AT_ONCE, records, work).await;
    core.logs.borrow_mut().extend(opened.into_iter().map(|log| (log.id(), log)));
}

fn start(core: &Rc<StoreCore>, trashed: Vec<String>) {
    let (shard, account) = (&core.shard, &core.account);
    let teardown = super::core::Teardown(core.clone());
    drop(shard.spawn(Class::Normal, account.clone(), super::core::stand_by(teardown)));
    let flushes = core.flushes.clone();
    shard.spawn(Class::Latency, account.clone(), commit::commit_loop(core.clone(), flushes.clone()));
    if !core.flushes_first() {
        shard.spawn(Class::Latency, account.clone(), commit::flush_loop(core.clone(), flushes));
    }
    shard.spawn(Class::Background, account.clone(), destage::destage_loop(core.clone()));
    shard.spawn(Class::Normal, account.clone(), checkpoint::checkpoint_loop(core.clone()));
    shard.spawn(Class::Background, account.clone(), super::grow::grow_loop(core.clone()));
    shard.spawn(Class::Background, account.clone(), space::space_loop(core.clone()));
    shard.spawn(Class::Background, account.clone(), upkeep::upkeep_loop(core.clone()));
    shard.spawn(Class::Background, shard.account("compaction"), compact::compact_loop(core.clone()));
    let trash = core.trash.clone();
    shard.spawn(Class::Background, account.clone(), async move { trash.run().await });
    if core.config.shard == ShardId(0) && !trashed.is_empty() {
        let trash_dir = paths::trash_dir(core.data_dir());
        core.trash.put(trashed.into_iter().map(|name| trash_dir.join(name)).collect(), Duration::ZERO);
    }
}

/// A log from its record: everything in memory that it needs to go on. One whose files cannot be read is offline.
pub(super) async fn new_log(core: &Rc<StoreCore>, mut record: LogRecord, config: LogConfig) -> Log {
    let dir = crate::log::log_dir(core, &record.topic, record.id);
    let encoded: Rc<[u8]> = record.encode().into();
    let active = record.segments.pop().unwrap_or_else(|| SegmentMeta::new(record.end, core.shard.wall()));
    let key = FileKey { log: record.id, segment: active.name(), kind: FileKind::Log };
    let restored = if record.offline { None } else { restore(core, key, &dir, &active, &config).await };
    let offline = restored.is_none();
    let nothing = || (ActiveSegment::new(record.end, active.created, 0), Vec::new());
    let (open, prefix) = restored.unwrap_or_else(nothing);
    let tail = loop {
        let place = SegmentPosition { segment: open.meta.base_offset, position: open.meta.bytes };
        match Tail::new(&core.tails, place, &prefix, record.end) {
            Ok(tail) => break tail,
            // One block, which somebody gives back sooner or later.
            Err(_) => core.tails.wait_for(BLOCK_BYTES).await,
        }
    };
    let producers = ProducerTable::decode(&record.producers).unwrap_or_default();
    let state = LogState {
        config,
        status: if offline { Status::Offline } else { Status::Online },
        placement: record.placement,
        start: record.start,
        end: record.end,
        appended_bytes: 0,
        held_end: record.end,
        durable_end: record.end,
        durable_address: tail.end().0,
        high_watermark: record.high_watermark.max(record.start),
        epochs: EpochTable::from_entries(record.epochs).unwrap_or_default(),
        producers,
        sealed: record.segments,
        cleaned_to: record.cleaned_to,
        cleaning: CleaningState::default(),
        open: vec![open],
        tail,
        cursors: RefCell::new(Cursors::default()),
        allocated: Vec::new(),
        prefix_needed: true,
        pending: None,
        promised: 0,
        reserved_bytes: 0,
        waiters: Waiters::default(),
        generation: core.next_generation(),
        dirty: false,
        record: encoded,
        destage_since: None,
        ripe: false,
        kept: record.offline,
    };
    Log(Rc::new(LogInner {
        id: record.id,
        topic: record.topic,
        dir,
        core: core.clone(),
        state: RefCell::new(state),
        changed: Event::new(),
        files_turn: Semaphore::new(1),
    }))
}

/// The active segment with its indexes, and what its last block holds.
async fn restore(
    core: &Rc<StoreCore>,
    key: FileKey,
    dir: &Rc<std::path::Path>,
    meta: &SegmentMeta,
    config: &LogConfig,
) -> Option<(ActiveSegment, Vec<u8>)> {
    let interval = core.index_interval_bytes(config);
    if meta.is_empty() {
        let index = ActiveIndex::new(meta.base_offset, interval);
        return Some((ActiveSegment { meta: *meta, index }, Vec::new()));
    }
    let read = async {
        let within = meta.bytes % BLOCK_BYTES as u64;
        let file = core.files.open(key, dir).await?;
        let prefix = read_file_range(&file, meta.bytes - within, within).await?;
        if prefix.len() as u64 != within {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut tails = [Vec::new(), Vec::new()];
        let kinds = [(FileKind::Index, meta.index_entries), (FileKind::TimeIndex, meta.time_index_entries)];
        for (tail, (kind, entries)) in tails.iter_mut().zip(kinds) {
            let range = ActiveIndex::tail_range(kind, entries);
            if !range.is_empty() {
                let file = core.files.open(FileKey { kind, ..key }, dir).await?;
                *tail = read_file_range(&file, range.start, range.end - range.start).await?;
            }
        }
        Ok((prefix, tails))
    };
    match read.await {
        Ok((prefix, tails)) => {
            let index = ActiveIndex::restore(meta, interval, &tails[0], &tails[1]).unwrap_or_else(|error| {
                tracing::warn!(dir = %dir.display(), %error, "an index starts anew above what is there");
                ActiveIndex::new(meta.base_offset, interval)
            });
            Some((ActiveSegment { meta: *meta, index }, prefix))
        }
        Err(error) => {
            tracing::error!(dir = %dir.display(), %error, "a log's last segment cannot be read: the log is offline");
            None
        }
    }
}
