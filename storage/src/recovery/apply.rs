//! Carries a planned log out on disk: drops what was cut off, writes what the journal holds, brings lengths and indexes up to date.
//!
//! Everything here may be interrupted anywhere and done again: the journal and the manifest that it follows stay as they are until
//! all logs are done and the new manifests are durable.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{MIB, WallTime};
use record::Batches;
use shard::{File, OpenOptions, Shard, WriteSync};

use super::image::{ShardImage, read_file_range};
use super::log_replay::{Extent, LogReplay, SegmentReplay};
use super::plan::PlannedLog;
use super::{RecoverError, offline};
use crate::config::paths;
use crate::segment::{ActiveIndex, ActiveSegment, BLOCK_BYTES, FileKind, SegmentMeta, SegmentName};

/// Segment bytes gathered before they are written.
const WRITE_BYTES: usize = MIB;
const BLOCK: u64 = BLOCK_BYTES as u64;
const OPEN: OpenOptions = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: true };

/// What carrying out a plan cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApplyCounts {
    pub segment_bytes_written: u64,
    pub segment_bytes_read: u64,
    pub index_bytes_read: u64,
    pub files_trashed: u64,
    pub indexes_restarted: u64,
}

impl ApplyCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.segment_bytes_written += other.segment_bytes_written;
        self.segment_bytes_read += other.segment_bytes_read;
        self.index_bytes_read += other.index_bytes_read;
        self.files_trashed += other.files_trashed;
        self.indexes_restarted += other.indexes_restarted;
    }
}

/// What all logs of a recovery share.
pub struct ApplyContext {
    pub shard: Shard,
    pub data_dir: PathBuf,
    pub images: Vec<ShardImage>,
    pub index_interval_bytes: u64,
    pub now: WallTime,
    /// What is written is synced log by log; otherwise by whoever carries out the plan, once all logs are done.
    pub syncs_each: bool,
}

/// Carries out one log; its segments' descriptions are then what their files are.
pub async fn apply(
    context: Rc<ApplyContext>,
    mut planned: PlannedLog,
) -> Result<(PlannedLog, ApplyCounts), RecoverError> {
    let mut log = Applying {
        dir: paths::log_dir(&context.data_dir, &planned.log.topic, planned.log.id),
        image: context.images.iter().find(|image| image.shard == planned.from).expect("the plan was made from images"),
        context: &context,
        counts: ApplyCounts::default(),
    };
    let done = log.run(&mut planned.log, &planned.expired).await;
    let (counts, image) = (log.counts, log.image);
    match done {
        Ok(()) => {}
        // One bad file keeps nobody else from starting; a full disk is another matter.
        Err(RecoverError::Io { what, path, error }) if !crate::store::is_full(&error) => {
            tracing::error!(
                log = %planned.log.id, path = %path.display(), %error,
                "cannot {what} a file of this log: it is offline until the next start; what its journal holds is kept in `orphans`"
            );
            let PlannedLog { log, .. } = planned;
            let log = offline::set_aside(&context.shard, &context.data_dir, image, log).await?;
            planned = PlannedLog { log, expired: Vec::new(), ..planned };
        }
        Err(error) => return Err(error),
    }
    Ok((planned, counts))
}

/// Whether the journal has something for a log's files.
pub(super) fn is_touched(log: &LogReplay) -> bool {
    !log.offline && log.segments.iter().any(|segment| segment.reshaped || !segment.extents.is_empty())
}

struct Applying<'a> {
    context: &'a ApplyContext,
    image: &'a ShardImage,
    dir: PathBuf,
    counts: ApplyCounts,
}

impl Applying<'_> {
    fn io<'b>(&'b self, what: &'static str, path: &'b Path) -> impl FnOnce(io::Error) -> RecoverError + 'b {
        RecoverError::io(what, path.to_owned())
    }

    async fn run(&mut self, log: &mut LogReplay, expired: &[SegmentName]) -> Result<(), RecoverError> {
        if log.offline {
            return Ok(());
        }
        let gone: Vec<SegmentName> = log.dropped.iter().chain(expired).copied().collect();
        let touched = is_touched(log);
        if !touched && gone.is_empty() {
            return Ok(());
        }
        for segment in gone {
            self.trash(log, segment).await?;
        }
        if touched {
            for segment in &mut log.segments {
                if segment.reshaped || !segment.extents.is_empty() {
                    self.segment(segment).await?;
                }
            }
        }
        self.sync_names().await
    }

    /// The directory and those above it, which may be new.
    async fn sync_names(&self) -> Result<(), RecoverError> {
        if !self.context.syncs_each {
            return Ok(());
        }
        let fs = self.context.shard.fs();
        let mut dir = self.dir.as_path();
        while dir != self.context.data_dir {
            match fs.sync_dir(dir).await {
                Ok(()) => {}
                // Nothing was ever written for this log.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.io("sync", dir)(error)),
            }
            dir = dir.parent().expect("inside the data directory");
        }
        let data_dir = &self.context.data_dir;
        fs.sync_dir(data_dir).await.map_err(self.io("sync", data_dir))
    }

    async fn sync(&self, file: &File) -> io::Result<()> {
        if self.context.syncs_each { file.datasync().await } else { Ok(()) }
    }

    async fn trash(&mut self, log: &LogReplay, segment: SegmentName) -> Result<(), RecoverError> {
        let fs = self.context.shard.fs();
        for kind in FileKind::ALL {
            let name = segment.file(kind);
            let to = paths::trash_dir(&self.context.data_dir).join(format!("{}-{name}", log.id));
            let from = self.dir.join(name);
            match fs.rename(&from, &to).await {
                Ok(()) => self.counts.files_trashed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.io("rename", &from)(error)),
            }
        }
        Ok(())
    }

    async fn segment(&mut self, segment: &mut SegmentReplay) -> Result<(), RecoverError> {
        let fs = self.context.shard.fs();
        let path = self.dir.join(segment.meta.name().file(FileKind::Log));
        let file = match fs.open(&path, OPEN).await {
            // Nearly always there: asking first would cost every log a round.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs.create_dir_all(&self.dir).await.map_err(self.io("create", &self.dir))?;
                fs.open(&path, OPEN).await
            }
            opened => opened,
        };
        let file = file.map_err(self.io("open", &path))?;
        let mut index = self.restore_index(&segment.indexed).await?;
        let mut blocks = BlockWriter::new(self.context.shard.clone(), file.clone(), segment.indexed.bytes);
        for extent in &segment.extents {
            let bytes = self.image.journal.bytes(&self.context.shard, extent.source, extent.bytes).await?;
            note_batches(&mut index, extent, &bytes, self.context.now);
            blocks.put(extent.position, &bytes).await.map_err(self.io("write", &path))?;
        }
        blocks.flush().await.map_err(self.io("write", &path))?;
        self.counts.segment_bytes_written += blocks.written_bytes;
        self.counts.segment_bytes_read += blocks.read_bytes;
        fs.set_len(&file, segment.meta.bytes).await.map_err(self.io("set the length of", &path))?;
        self.sync(&file).await.map_err(self.io("sync", &path))?;
        assert_eq!(index.meta.bytes, segment.meta.bytes, "the extents of {} are its batches", path.display());
        if segment.meta.sealed && !segment.indexed.sealed {
            index.seal();
        }
        self.write_index(&index, segment.meta.sealed).await?;
        segment.meta.index_entries = index.index.entries(FileKind::Index);
        segment.meta.time_index_entries = index.index.entries(FileKind::TimeIndex);
        Ok(())
    }

    /// The segment's indexes as its manifest knows them. Where their files do not say so, they start anew above what was there:
    /// an index is a hint, and a search then starts further down.
    async fn restore_index(&mut self, indexed: &SegmentMeta) -> Result<ActiveSegment, RecoverError> {
        let mut tails = [Vec::new(), Vec::new()];
        let kinds = [(FileKind::Index, indexed.index_entries), (FileKind::TimeIndex, indexed.time_index_entries)];
        for (tail, (kind, entries)) in tails.iter_mut().zip(kinds) {
            let range = ActiveIndex::tail_range(kind, entries);
            if range.is_empty() {
                continue;
            }
            let path = self.dir.join(indexed.name().file(kind));
            let options = OpenOptions { write: false, create: false, ..OPEN };
            let read = async {
                let file = self.context.shard.fs().open(&path, options).await?;
                read_file_range(&file, range.start, range.end - range.start).await
            };
            *tail = match read.await {
                Ok(tail) => tail,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(self.io("read", &path)(error)),
            };
            self.counts.index_bytes_read += tail.len() as u64;
        }
        let interval = self.context.index_interval_bytes;
        let index = ActiveIndex::restore(indexed, interval, &tails[0], &tails[1]).unwrap_or_else(|_damaged| {
            self.counts.indexes_restarted += 1;
            ActiveIndex::new(indexed.base_offset, interval)
        });
        Ok(ActiveSegment { meta: *indexed, index })
    }

    async fn write_index(&self, segment: &ActiveSegment, sealed: bool) -> Result<(), RecoverError> {
        let fs = self.context.shard.fs();
        for write in segment.index.pending() {
            let path = self.dir.join(segment.meta.name().file(write.kind));
            let done = async {
                let file = fs.open(&path, OPEN).await?;
                let mut buf = self.context.shard.arena().alloc_wait(write.bytes.len()).await;
                buf.extend_from_slice(&write.bytes);
                file.write_at(write.position, vec![buf.freeze()], WriteSync::None).await?;
                self.sync(&file).await
            };
            done.await.map_err(self.io("write", &path))?;
        }
        // The last entry may have been there before, in a file as long as its blocks.
        let lengths =
            [FileKind::Index, FileKind::TimeIndex].map(|kind| (kind, index_bytes(kind, segment.index.entries(kind))));
        for (kind, bytes) in lengths.into_iter().filter(|(_, bytes)| sealed && *bytes > 0) {
            let path = self.dir.join(segment.meta.name().file(kind));
            let done = async {
                let file = fs.open(&path, OPEN).await?;
                fs.set_len(&file, bytes).await?;
                self.sync(&file).await
            };
            done.await.map_err(self.io("set the length of", &path))?;
        }
        Ok(())
    }
}

/// Exact length of an index file of so many entries.
pub(crate) fn index_bytes(kind: FileKind, entries: u32) -> u64 {
    let entry_bytes = match kind {
        FileKind::TimeIndex => 12,
        FileKind::Index | FileKind::Log => 8,
    };
    u64::from(entries) * entry_bytes
}

/// Takes the batches of an extent that the index does not know yet.
fn note_batches(index: &mut ActiveSegment, extent: &Extent, bytes: &[u8], now: WallTime) {
    let mut position = extent.position;
    for batch in Batches::new(bytes) {
        // A block prefix starts anywhere in a batch, and lies below what the index knows.
        let Ok(batch) = batch else { return };
        if position == index.meta.bytes {
            index.note(batch.header(), now);
        }
        position += batch.bytes().len() as u64;
    }
}

/// Puts byte ranges into a file by whole blocks.
struct BlockWriter {
    shard: Shard,
    file: File,
    /// What the file held before: bytes of it in a block that is written in part are kept.
    kept_bytes: u64,
    /// Where the window begins: a multiple of the block.
    at: u64,
    window: Vec<u8>,
    written_bytes: u64,
    read_bytes: u64,
}

impl BlockWriter {
    fn new(shard: Shard, file: File, kept_bytes: u64) -> Self {
        Self { shard, file, kept_bytes, at: 0, window: Vec::new(), written_bytes: 0, read_bytes: 0 }
    }

    fn end(&self) -> u64 {
        self.at + self.window.len() as u64
    }

    async fn put(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        if self.window.is_empty() || position != self.end() {
            self.flush().await?;
            self.at = position - position % BLOCK;
            self.window = self.read(self.at, position).await?;
        }
        self.window.extend_from_slice(bytes);
        self.kept_bytes = self.kept_bytes.max(self.end());
        while self.window.len() > WRITE_BYTES {
            self.write(WRITE_BYTES).await?;
        }
        Ok(())
    }

    /// What the file holds between two positions of one block.
    async fn read(&mut self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        if from == to {
            return Ok(Vec::new());
        }
        let bytes = read_file_range(&self.file, from, to - from).await?;
        self.read_bytes += bytes.len() as u64;
        if bytes.len() as u64 == to - from { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let block_end = self.end().next_multiple_of(BLOCK);
        if self.end() < self.kept_bytes.min(block_end) {
            let kept = self.read(self.end(), self.kept_bytes.min(block_end)).await?;
            self.window.extend_from_slice(&kept);
        }
        while !self.window.is_empty() {
            self.write(self.window.len().min(WRITE_BYTES)).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: usize) -> io::Result<()> {
        let mut buf = self.shard.arena().alloc_wait(bytes.next_multiple_of(BLOCK_BYTES)).await;
        buf.extend_from_slice(&self.window[..bytes]);
        buf.pad_to(BLOCK_BYTES);
        self.file.write_at(self.at, vec![buf.freeze()], WriteSync::None).await?;
        self.window.drain(..bytes);
        self.at += bytes as u64;
        self.written_bytes += bytes as u64;
        Ok(())
    }
}
