//! What a shard's logs are after its manifest and the journal that follows it. Pure.
//!
//! Physical and logical effects part here. Physical: every byte that the journal still holds goes to its place again, in the
//! journal's order, for a checkpoint may have synced only part of it. Logical: a manifest may already know of appends that
//! follow its replay position (they were queued, and durable before the manifest was), so what lies below a log's end
//! changes its producers, epochs and sizes no more. All other entries are never ahead of a manifest.
//!
//! Nothing here trusts the bytes: what does not fit together is a [`ReplayError`], and the start stops.

use std::collections::BTreeMap;
use std::fmt;

use base::WallTime;

use super::log_replay::{Extent, LogReplay, Misfit, Source};
use crate::config::LogId;
use crate::journal::codec::{Control, Entries, Entry, EntryError, FrameHead};
use crate::manifest::LogRecord;

/// The journal and the manifest do not fit together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError {
    Entry { error: EntryError, source: Source },
    Log { log: LogId, misfit: Misfit, source: Source },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { error, source } => write!(f, "journal file {} at {}: {error}", source.file, source.offset),
            Self::Log { log, misfit, source } => {
                write!(f, "journal file {} at {}: log {log}: {misfit}", source.file, source.offset)
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Entries met in replay, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryCounts {
    pub appends: u64,
    /// Those of them whose bytes stand behind the entries, in blocks of their own.
    pub appends_apart: u64,
    pub block_prefixes: u64,
    pub creations: u64,
    pub removals: u64,
    pub placements: u64,
    pub truncations: u64,
    pub starts_moved: u64,
    pub epochs_adopted: u64,
    pub rolls: u64,
    pub compactions: u64,
}

impl EntryCounts {
    fn note(&mut self, entry: &Entry<'_>) {
        *match entry {
            Entry::Append { .. } => &mut self.appends,
            Entry::BlockPrefix { .. } => &mut self.block_prefixes,
            Entry::Control(control) => match control {
                Control::Create { .. } => &mut self.creations,
                Control::Remove { .. } => &mut self.removals,
                Control::Placed { .. } | Control::Released { .. } => &mut self.placements,
                Control::Truncate { .. } => &mut self.truncations,
                Control::StartMoved { .. } => &mut self.starts_moved,
                Control::EpochAdopted { .. } => &mut self.epochs_adopted,
                Control::Roll { .. } => &mut self.rolls,
                Control::Compacted { .. } => &mut self.compactions,
            },
        } += 1;
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        let data = self.appends + self.block_prefixes;
        let lives = self.creations + self.removals + self.placements;
        data + lives + self.truncations + self.starts_moved + self.epochs_adopted + self.rolls + self.compactions
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.appends += other.appends;
        self.appends_apart += other.appends_apart;
        self.block_prefixes += other.block_prefixes;
        self.creations += other.creations;
        self.removals += other.removals;
        self.placements += other.placements;
        self.truncations += other.truncations;
        self.starts_moved += other.starts_moved;
        self.epochs_adopted += other.epochs_adopted;
        self.rolls += other.rolls;
        self.compactions += other.compactions;
    }
}

/// The logs of one shard directory as far as replay has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShardReplay {
    pub logs: BTreeMap<LogId, LogReplay>,
    pub counts: EntryCounts,
    pub appended_bytes: u64,
}

impl ShardReplay {
    /// The logs of a manifest.
    ///
    /// # Errors
    /// The first log whose snapshots cannot be read.
    pub fn new(records: Vec<LogRecord>) -> Result<Self, ReplayError> {
        let mut logs = BTreeMap::new();
        for record in records {
            let log = record.id;
            let replay = LogReplay::from_record(record).map_err(|misfit| ReplayError::Log {
                log,
                misfit,
                source: Source::default(),
            })?;
            logs.insert(log, replay);
        }
        Ok(Self { logs, counts: EntryCounts::default(), appended_bytes: 0 })
    }

    /// Replays one frame; `at` is where its body stands, `now` the broker's clock.
    ///
    /// # Errors
    /// The first entry that cannot be replayed.
    pub fn frame(&mut self, head: &FrameHead, body: &[u8], at: Source, now: WallTime) -> Result<(), ReplayError> {
        let mut entries = Entries::new(head, body);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|error| ReplayError::Entry { error, source: at })?;
            self.counts.note(&entry);
            let end = at.offset + entries.bytes_end() as u64;
            let ending = |bytes: &[u8]| Source { file: at.file, offset: end - bytes.len() as u64 };
            let (log, applied) = match entry {
                Entry::Append { at: place, bytes } => {
                    self.counts.appends_apart += u64::from(entries.bytes_end() > head.payload_bytes as usize);
                    self.appended_bytes += bytes.len() as u64;
                    let append = |log: &mut LogReplay| log.append(&place, bytes, ending(bytes), now);
                    (place.log, self.on(place.log, append))
                }
                Entry::BlockPrefix { log, segment, position, bytes } => {
                    let extent = Extent { position, bytes: bytes.len() as u64, source: ending(bytes) };
                    (log, self.on(log, |found| found.block_prefix(segment, extent)))
                }
                Entry::Control(control) => self.control(&control),
            };
            applied.map_err(|misfit| ReplayError::Log { log, misfit, source: at })?;
        }
        Ok(())
    }

    /// Applies an entry to its log; not to one that is offline, whose orphan file has its entries.
    fn on(&mut self, id: LogId, apply: impl FnOnce(&mut LogReplay) -> Result<(), Misfit>) -> Result<(), Misfit> {
        let log = self.logs.get_mut(&id).ok_or(Misfit::UnknownLog)?;
        if log.offline { Ok(()) } else { apply(log) }
    }

    fn control(&mut self, control: &Control<'_>) -> (LogId, Result<(), Misfit>) {
        match *control {
            Control::Create { log, placement, created, topic } => {
                self.logs.entry(log).or_insert_with(|| LogReplay::created(log, topic, placement, created));
                (log, Ok(()))
            }
            Control::Remove { log } => {
                self.logs.remove(&log);
                (log, Ok(()))
            }
            Control::Placed { record } => self.placed(record),
            Control::Released { log, placement } => {
                if self.logs.get(&log).is_some_and(|known| known.placement < placement) {
                    self.logs.remove(&log);
                }
                (log, Ok(()))
            }
            Control::Truncate { log, end, segment } => (
                log,
                self.on(log, |found| {
                    found.truncate(end, &segment);
                    Ok(())
                }),
            ),
            Control::StartMoved { log, start } => (
                log,
                self.on(log, |found| {
                    found.move_start(start);
                    Ok(())
                }),
            ),
            Control::EpochAdopted { log, epoch, start } => (
                log,
                self.on(log, |found| {
                    found.adopt_epoch(epoch, start);
                    Ok(())
                }),
            ),
            Control::Roll { log, segment, sealed_bytes, created } => {
                (log, self.on(log, |found| found.roll(segment, sealed_bytes, created)))
            }
            Control::Compacted { log, segment, cleaned_to } => {
                (log, self.on(log, |found| found.compact(&segment, cleaned_to)))
            }
        }
    }

    fn placed(&mut self, record: &[u8]) -> (LogId, Result<(), Misfit>) {
        let Ok(record) = LogRecord::decode(record) else { return (LogId::default(), Err(Misfit::Record)) };
        let id = record.id;
        if self.logs.get(&id).is_some_and(|log| log.placement >= record.placement) {
            return (id, Ok(()));
        }
        (id, LogReplay::from_record(record).map(|log| drop(self.logs.insert(id, log))))
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
