//! What a read needs to know of a log, and the decision where it reads. Pure but for the clones of handles.
//!
//! Owner: the log, which lends a view for as long as a decision takes and no longer: nothing of it is held while a disk read waits.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use base::Offset;

use super::blocks::BlockFile;
use super::cursors::{Cursor, Cursors};
use super::{Read, ReadError, ReadLimits};
use crate::config::LogId;
use crate::epochs::EpochTable;
use crate::segment::{ActiveSegment, FileKey, FileKind, Floor, IndexEntry, OffsetEntry, SegmentMeta, TimeEntry};
use crate::tail::Tail;

/// A log as a reader sees it.
#[derive(Clone, Copy)]
pub struct LogView<'a> {
    pub id: LogId,
    /// Its directory.
    pub dir: &'a Rc<Path>,
    /// Counts its truncations.
    pub generation: u32,
    /// One of its segments cannot be written: nothing is served.
    pub offline: bool,
    pub start: Offset,
    /// Sealed segments whose indexes are complete on disk, in offset order.
    pub sealed: &'a [SegmentMeta],
    /// Those after them: sealed ones whose last index entries are not written yet, then the active one.
    pub open: &'a [ActiveSegment],
    pub tail: &'a Tail,
    pub epochs: &'a EpochTable,
    pub cursors: &'a RefCell<Cursors>,
}

/// Lends a view.
pub trait LogSource {
    /// `f` gets the log as it is now; it neither waits nor changes it.
    fn view<R>(&self, f: impl FnOnce(&LogView<'_>) -> R) -> R;
}

/// Where a read goes on.
#[derive(Clone, Debug)]
pub enum ReadPlan {
    /// All there is to read is in memory: here it is.
    Memory(Read),
    Disk(Box<DiskPlan>),
}

/// A read of one segment file.
#[derive(Clone, Debug)]
pub struct DiskPlan {
    pub from: Offset,
    pub limits: ReadLimits,
    pub segment: SegmentOnDisk,
    /// Where to look for `from`.
    pub floor: Floor<OffsetEntry>,
    /// The leader epochs of the segment, which its batches must bear.
    pub epochs: EpochTable,
    /// The reader that this read goes on with, or begins.
    pub cursor: Cursor,
}

/// A segment's files as far as they may be read.
#[derive(Clone, Debug)]
pub struct SegmentOnDisk {
    /// The `.log` file, up to where memory begins.
    pub file: BlockFile,
    pub meta: SegmentMeta,
    /// What comes after its readable bytes is at this offset or above.
    pub resume: Offset,
}

impl SegmentOnDisk {
    /// An index file of the segment with its first `entries`.
    #[must_use]
    pub fn index_file(&self, kind: FileKind, entries: u32) -> BlockFile {
        let entry_bytes = if kind == FileKind::TimeIndex { TimeEntry::BYTES } else { OffsetEntry::BYTES };
        BlockFile {
            key: FileKey { kind, ..self.file.key },
            readable_bytes: u64::from(entries) * entry_bytes as u64,
            ..self.file.clone()
        }
    }
}

impl LogView<'_> {
    /// The first segment that ends above `offset`: its number, counted over sealed and open ones.
    #[must_use]
    pub fn segment_of(&self, offset: Offset) -> Option<usize> {
        let sealed = self.sealed.partition_point(|segment| segment.end_offset <= offset);
        if sealed < self.sealed.len() {
            return Some(sealed);
        }
        let open = self.open.partition_point(|segment| segment.meta.end_offset <= offset);
        (open < self.open.len()).then_some(sealed + open)
    }

    #[must_use]
    pub fn segments(&self) -> usize {
        self.sealed.len() + self.open.len()
    }

    #[must_use]
    pub fn meta(&self, segment: usize) -> &SegmentMeta {
        match self.sealed.get(segment) {
            Some(meta) => meta,
            None => &self.open[segment - self.sealed.len()].meta,
        }
    }

    fn open_segment(&self, segment: usize) -> Option<&ActiveSegment> {
        segment.checked_sub(self.sealed.len()).map(|index| &self.open[index])
    }

    /// The files of a segment, readable up to where the tail's first batch stands.
    #[must_use]
    pub fn on_disk(&self, segment: usize) -> SegmentOnDisk {
        let meta = *self.meta(segment);
        let memory = self.tail.start_place();
        // Where memory goes on within a segment that was compacted since, its place is one in the old file.
        let is_final = meta.revision > 0 && segment < self.sealed.len();
        let (readable_bytes, resume) = match meta.base_offset.cmp(&memory.segment) {
            _ if is_final => (meta.bytes, meta.end_offset),
            std::cmp::Ordering::Less => (meta.bytes, meta.end_offset),
            std::cmp::Ordering::Equal => (memory.position, self.tail.start_offset()),
            std::cmp::Ordering::Greater => (0, meta.base_offset),
        };
        let key = FileKey { log: self.id, segment: meta.name(), kind: FileKind::Log };
        SegmentOnDisk {
            file: BlockFile { key, dir: self.dir.clone(), generation: self.generation, readable_bytes },
            meta,
            resume,
        }
    }

    /// Where to start looking for an offset in a segment.
    #[must_use]
    pub fn floor(&self, segment: usize, offset: Offset) -> Floor<OffsetEntry> {
        match self.open_segment(segment) {
            Some(open) => open.index.floor(offset),
            None => Floor::InFile { entries: self.meta(segment).index_entries },
        }
    }

    /// Where to start looking for a time in a segment.
    #[must_use]
    pub fn time_floor(&self, segment: usize, at: base::WallTime) -> Floor<TimeEntry> {
        match self.open_segment(segment) {
            Some(open) => open.index.time_floor(at),
            None => Floor::InFile { entries: self.meta(segment).time_index_entries },
        }
    }

    /// The offset after the last record.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.tail.end_offset()
    }

    /// Decides where to read.
    ///
    /// # Errors
    /// `from` is outside the log, or the log is offline.
    pub fn plan(&self, from: Offset, limits: &ReadLimits) -> Result<ReadPlan, ReadError> {
        if self.offline {
            return Err(ReadError::Offline);
        }
        let (start, end) = (self.start, self.end());
        if from < start || from > end {
            return Err(ReadError::OutOfRange { start, end });
        }
        if from >= limits.upto {
            return Ok(ReadPlan::Memory(Read::default()));
        }
        if let Some(read) = self.tail.read(from, limits) {
            return Ok(ReadPlan::Memory(read));
        }
        let segment = self.segment_of(from).expect("an offset below the end is in a segment");
        let on_disk = self.on_disk(segment);
        let cursor = self.cursors.borrow_mut().take(from, on_disk.file.key.segment.base);
        Ok(ReadPlan::Disk(Box::new(DiskPlan {
            from,
            limits: *limits,
            floor: self.floor(segment, from),
            epochs: self.epochs.part(on_disk.meta.base_offset..on_disk.resume),
            segment: on_disk,
            cursor,
        })))
    }
}
