//! One log in replay: its state and what each journal entry does to it. Pure; see [`super::replay`] for the rules.

use std::collections::BTreeSet;
use std::fmt;

use base::{LeaderEpoch, Offset, PlacementEpoch, WallTime};
use record::{BatchView, Batches};

use crate::config::LogId;
use crate::epochs::EpochTable;
use crate::journal::codec::AppendAt;
use crate::manifest::LogRecord;
use crate::producer::{Placed, ProducerBatch, ProducerLimits, ProducerTable};
use crate::segment::{SegmentMeta, SegmentName};

/// A place in a journal (or orphan) file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source {
    pub file: u32,
    pub offset: u64,
}

/// Bytes in a journal file that belong at a position of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub position: u64,
    pub bytes: u64,
    pub source: Source,
}

impl Extent {
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + self.bytes
    }
}

/// A segment, what of it must be written, and what is new in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentReplay {
    pub meta: SegmentMeta,
    /// In the journal's order: where two overlap the later one counts.
    pub extents: Vec<Extent>,
    /// The segment up to which its index files are complete.
    pub indexed: SegmentMeta,
    /// Its file must be made to end exactly where its batches do.
    pub reshaped: bool,
}

impl SegmentReplay {
    pub(super) fn new(meta: SegmentMeta) -> Self {
        Self { meta, extents: Vec::new(), indexed: meta, reshaped: false }
    }

    fn cut(&mut self, meta: &SegmentMeta) {
        self.extents.retain_mut(|extent| {
            extent.bytes = extent.bytes.min(meta.bytes.saturating_sub(extent.position));
            extent.bytes > 0
        });
        if self.indexed.bytes > meta.bytes {
            // Entries above the cut are on disk only; those below are found again by their count at the cut.
            let index_entries = meta.index_entries.min(self.indexed.index_entries);
            let time_index_entries = meta.time_index_entries.min(self.indexed.time_index_entries);
            self.indexed = SegmentMeta { index_entries, time_index_entries, ..*meta };
        }
        self.meta = *meta;
        self.reshaped = true;
    }
}

/// A log as far as replay has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogReplay {
    pub id: LogId,
    pub topic: String,
    pub placement: PlacementEpoch,
    pub offline: bool,
    pub start: Offset,
    pub end: Offset,
    pub high_watermark: Offset,
    pub epochs: EpochTable,
    pub segments: Vec<SegmentReplay>,
    pub cleaned_to: Offset,
    /// Segments whose files must go before anything is written: cut off by a truncation, or replaced by compaction.
    pub dropped: BTreeSet<SegmentName>,
    pub producers: ProducerTable,
    /// What replay began with: what a manifest goes on to hold if the log's files cannot be written.
    pub origin: Box<LogRecord>,
    /// Its entries came from its orphan file.
    pub from_orphan: bool,
}

/// Why an entry does not fit its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// Neither the manifest nor the journal created the log.
    UnknownLog,
    /// The segment was never begun.
    UnknownSegment(Offset),
    /// Bytes or offsets are missing before it.
    Gap { end: Offset, next: Offset },
    /// The bytes are not the batches that the entry says.
    Batches,
    /// The manifest's snapshot of producers or epochs cannot be read.
    Snapshot,
    /// The record of a log that came from another shard cannot be read.
    Record,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLog => f.write_str("an entry of a log that was never created"),
            Self::UnknownSegment(base) => write!(f, "an entry of segment {base}, which was never begun"),
            Self::Gap { end, next } => write!(f, "the log ends at {end} and {next} comes next"),
            Self::Batches => f.write_str("the bytes are not the batches that their entry says"),
            Self::Snapshot => f.write_str("the snapshot of its producers or epochs cannot be read"),
            Self::Record => f.write_str("the record of a moved log cannot be read"),
        }
    }
}

impl LogReplay {
    pub(super) fn created(id: LogId, topic: &str, placement: PlacementEpoch, created: WallTime) -> Self {
        let segments = vec![SegmentMeta::new(Offset(0), created)];
        let record = LogRecord { id, topic: topic.to_owned(), placement, segments, ..LogRecord::default() };
        Self::from_record(record).expect("an empty log has no snapshots")
    }

    /// A log as a manifest holds it.
    ///
    /// # Errors
    /// [`Misfit::Snapshot`].
    pub fn from_record(record: LogRecord) -> Result<Self, Misfit> {
        let producers = match record.producers.as_slice() {
            [] => ProducerTable::default(),
            bytes => ProducerTable::decode(bytes).map_err(|_| Misfit::Snapshot)?,
        };
        let origin = Box::new(record.clone());
        Ok(Self {
            origin,
            from_orphan: false,
            id: record.id,
            topic: record.topic,
            placement: record.placement,
            offline: record.offline,
            start: record.start,
            end: record.end,
            high_watermark: record.high_watermark,
            epochs: EpochTable::from_entries(record.epochs).map_err(|_| Misfit::Snapshot)?,
            segments: record.segments.into_iter().map(SegmentReplay::new).collect(),
            cleaned_to: record.cleaned_to,
            dropped: BTreeSet::new(),
            producers,
        })
    }

    /// The log as the next manifest is to hold it.
    #[must_use]
    pub fn to_record(&self) -> LogRecord {
        LogRecord {
            id: self.id,
            topic: self.topic.clone(),
            placement: self.placement,
            offline: self.offline,
            start: self.start,
            end: self.end,
            high_watermark: self.high_watermark.clamp(self.start, self.end),
            epochs: self.epochs.entries().to_vec(),
            segments: self.segments.iter().map(|segment| segment.meta).collect(),
            producers: if self.producers.is_empty() { Vec::new() } else { self.producers.encode() },
            cleaned_to: self.cleaned_to,
        }
    }

    pub(super) fn append(&mut self, at: &AppendAt, bytes: &[u8], source: Source, now: WallTime) -> Result<(), Misfit> {
        let is_last = self.segments.last().is_some_and(|last| last.meta.base_offset == at.segment);
        let index = self.index_of(at.segment).ok_or(Misfit::UnknownSegment(at.segment))?;
        let segment = &mut self.segments[index];
        if at.position > segment.meta.bytes {
            return Err(Misfit::Gap { end: self.end, next: at.first });
        }
        segment.extents.push(Extent { position: at.position, bytes: bytes.len() as u64, source });
        let mut batches = Batches::new(bytes);
        let (mut position, mut last) = (at.position, None);
        while let Some(batch) = batches.next() {
            let batch = batch.map_err(|_| Misfit::Batches)?;
            let rises = match last {
                None => batch.base_offset() == at.first,
                Some(last) => batch.base_offset() > last,
            };
            if !rises || batch.last_offset() > at.last {
                return Err(Misfit::Batches);
            }
            last = Some(batch.last_offset());
            if batch.base_offset() >= self.end {
                if !is_last || position != segment.meta.bytes {
                    return Err(Misfit::Gap { end: self.end, next: batch.base_offset() });
                }
                if segment.meta.is_empty() {
                    // As when it is appended: an empty segment does not age.
                    segment.meta.created = now;
                }
                segment.meta.note(batch.header(), now);
                self.end = batch.header().next_offset();
                note_batch(&batch, &mut self.epochs, &mut self.producers, now);
            } else if batch.last_offset() >= self.end {
                return Err(Misfit::Batches);
            }
            position = at.position + batches.position() as u64;
        }
        if last == Some(at.last) { Ok(()) } else { Err(Misfit::Batches) }
    }

    pub(super) fn block_prefix(&mut self, segment: Offset, extent: Extent) -> Result<(), Misfit> {
        let index = self.index_of(segment).ok_or(Misfit::UnknownSegment(segment))?;
        if extent.end() > self.segments[index].meta.bytes {
            return Err(Misfit::Gap { end: self.end, next: self.end });
        }
        self.segments[index].extents.push(extent);
        Ok(())
    }

    fn index_of(&self, base: Offset) -> Option<usize> {
        self.segments.binary_search_by_key(&base, |segment| segment.meta.base_offset).ok()
    }

    pub(super) fn truncate(&mut self, end: Offset, meta: &SegmentMeta) {
        let keep = self.segments.partition_point(|segment| segment.meta.base_offset <= meta.base_offset);
        self.dropped.extend(self.segments.drain(keep..).map(|segment| segment.meta.name()));
        match self.segments.last_mut() {
            Some(last) if last.meta.base_offset == meta.base_offset => last.cut(meta),
            _ => {
                // Cut below everything: the log begins anew at an offset of its leader's choosing.
                self.dropped.extend(self.segments.drain(..).map(|segment| segment.meta.name()));
                self.dropped.insert(meta.name());
                self.segments.push(SegmentReplay::new(*meta));
            }
        }
        self.end = end;
        self.start = self.start.min(end);
        self.cleaned_to = self.cleaned_to.min(end);
        self.high_watermark = self.high_watermark.min(end);
        self.epochs.truncate_from_end(end);
        // Where the table becomes inexact it knows less, never more: a producer that it has forgotten may start anywhere, as
        // after an expiry.
        let _exact = self.producers.truncate(end);
    }

    pub(super) fn roll(&mut self, base: Offset, sealed_bytes: u64, created: WallTime) -> Result<(), Misfit> {
        if self.index_of(base).is_some() {
            return Ok(());
        }
        let Some(last) = self.segments.last_mut() else { return Err(Misfit::UnknownSegment(base)) };
        let follows = last.meta.base_offset < base && base >= self.end;
        if !follows || last.meta.bytes != sealed_bytes || last.meta.bytes == 0 {
            return Err(Misfit::Gap { end: self.end, next: base });
        }
        last.meta.sealed = true;
        last.reshaped = true;
        self.segments.push(SegmentReplay::new(SegmentMeta::new(base, created)));
        Ok(())
    }

    /// A segment of final files takes the place of those between its offsets, sealed ones all.
    pub(super) fn compact(&mut self, meta: &SegmentMeta, cleaned_to: Offset) -> Result<(), Misfit> {
        let first = self.index_of(meta.base_offset).ok_or(Misfit::UnknownSegment(meta.base_offset))?;
        let replaced = self.segments[first..].iter().take_while(|segment| segment.meta.end_offset <= meta.end_offset);
        let replaced = first..first + replaced.take_while(|segment| segment.meta.sealed).count();
        if self.segments[replaced.clone()].last().map(|last| last.meta.end_offset) != Some(meta.end_offset) {
            return Err(Misfit::UnknownSegment(meta.end_offset));
        }
        let new = SegmentReplay::new(*meta);
        self.dropped.extend(self.segments.splice(replaced, [new]).map(|segment| segment.meta.name()));
        // Under this name another may have been dropped before; its files went then.
        self.dropped.remove(&meta.name());
        self.cleaned_to = cleaned_to.min(self.end);
        Ok(())
    }

    pub(super) fn move_start(&mut self, start: Offset) {
        self.start = self.start.max(start.min(self.end));
        self.epochs.truncate_from_start(self.start);
    }

    pub(super) fn adopt_epoch(&mut self, epoch: LeaderEpoch, start: Offset) {
        // A manifest may know of this one and of later ones already.
        if epoch > self.epochs.latest() {
            self.epochs.assign(epoch, start);
        }
    }

    /// The log as it was before replay, with its files not to be touched.
    #[must_use]
    pub fn into_offline(self) -> Self {
        let record = LogRecord { offline: true, placement: self.placement, ..*self.origin };
        Self::from_record(record).expect("these snapshots have been read before")
    }

    /// Takes out the segments that end at or below the log's start, which are on their way out; the active one stays.
    pub fn take_expired(&mut self) -> Vec<SegmentName> {
        let last = self.segments.len().saturating_sub(1);
        let expired = self.segments[..last].iter().take_while(|segment| segment.meta.end_offset <= self.start).count();
        self.segments.drain(..expired).map(|segment| segment.meta.name()).collect()
    }
}

/// What a batch teaches of its log's epochs and producers; the same in replay and in a scan of segments.
pub(crate) fn note_batch(batch: &BatchView<'_>, epochs: &mut EpochTable, producers: &mut ProducerTable, now: WallTime) {
    let header = batch.header();
    if header.leader_epoch.0 >= 0 && header.leader_epoch > epochs.latest() {
        epochs.assign(header.leader_epoch, header.base_offset);
    }
    if let Some(of) = ProducerBatch::of(header) {
        let placed = Placed {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            timestamp: header.max_timestamp,
        };
        producers.note(&of, &placed, now, &ProducerLimits::default());
    }
}
