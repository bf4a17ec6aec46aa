//! Checks the logs: every batch of every segment, and every entry of its indexes beside the batch that it names.

use std::path::{Path, PathBuf};

use base::Offset;
use record::{BatchView, NO_TIMESTAMP};
use serde::Serialize;
use shard::{File, Shard};
use storage::audit::{AuditedEntry, BatchAudit, Beside, EntryFault, Passed};
use storage::config::paths;
use storage::epochs::EpochTable;
use storage::manifest::LogRecord;
use storage::recovery::image::{JournalImage, ShardImage};
use storage::recovery::log_replay::{Extent, LogReplay, SegmentReplay};
use storage::segment::{FileKind, OffsetEntry, SegmentMeta, TimeEntry};

use super::super::failure::Failure;
use super::batches::{BatchWalk, Found, SegmentBytes};
use super::entries::{EntryReader, Placed};
use super::report::{Place, Report};
use super::verify::RESTORE;
use super::{open, unreadable};

const REBUILT: &str =
    "no record is lost: readers walk the segment, and the broker builds its indexes anew when one of them meets this";
/// Bound of one batch after decompression.
const INFLATED_BYTES_MAX: usize = 1 << 30;

/// Looks at one log after another.
pub struct LogChecks<'a> {
    pub shard: &'a Shard,
    pub data_dir: &'a Path,
    pub report: &'a mut Report,
    /// Decode the records too.
    pub records: bool,
}

/// A segment, and what is known of it from elsewhere.
struct Subject<'a> {
    dir: &'a Path,
    meta: &'a SegmentMeta,
    /// As of when its index files were written last.
    indexed: &'a SegmentMeta,
    /// Its files are never written again.
    is_final: bool,
    /// What a start would put over its file.
    overlay: Option<(&'a JournalImage, &'a [Extent])>,
    epochs: &'a EpochTable,
    log_start: Offset,
}

impl Subject<'_> {
    fn path(&self, kind: FileKind) -> PathBuf {
        self.dir.join(self.meta.name().file(kind))
    }
}

/// What a log was found to be.
#[derive(Serialize)]
struct LogRow {
    topic: String,
    partition: i32,
    start_offset: i64,
    end_offset: i64,
    segments: usize,
    batches: u64,
    bytes: u64,
    damages: u64,
}

impl LogRow {
    fn line(&self) -> String {
        format!(
            "{}-{}: offsets {} to {}, {} segments, {} batches, {} bytes{}",
            self.topic,
            self.partition,
            self.start_offset,
            self.end_offset,
            self.segments,
            self.batches,
            self.bytes,
            if self.damages == 0 { "" } else { ", DAMAGED" }
        )
    }
}

impl LogChecks<'_> {
    /// A log as a start would leave it.
    pub async fn log(&mut self, image: &ShardImage, log: &LogReplay) -> Result<(), Failure> {
        let dir = paths::log_dir(self.data_dir, &log.topic, log.id);
        let (before, mut batches) = (self.report.damages, 0);
        if log.offline {
            let what = "the log is offline: a file of it failed, and no start could bring it back";
            self.report.damage(Place::new(&dir, 0), what, Some(RESTORE));
        }
        for segment in log.segments.iter().filter(|_| !log.offline) {
            let subject = Subject {
                dir: &dir,
                meta: &segment.meta,
                indexed: &segment.indexed,
                is_final: segment.meta.sealed && !segment.reshaped,
                overlay: Some((&image.journal, &segment.extents)),
                epochs: &log.epochs,
                log_start: log.start,
            };
            batches += self.segment(&subject).await?;
        }
        if let Some(what) = gap_between(log) {
            self.report.damage(Place::new(&dir, 0), what, Some(RESTORE));
        }
        let row = LogRow {
            topic: log.topic.clone(),
            partition: log.id.partition.0,
            start_offset: log.start.0,
            end_offset: log.end.0,
            segments: log.segments.len(),
            batches,
            bytes: log.segments.iter().map(|segment| segment.meta.bytes).sum(),
            damages: self.report.damages - before,
        };
        self.report.row(&row, || row.line());
        Ok(())
    }

    /// The sealed segments of a log whose journal is damaged: those whose files are still as a checkpoint left them.
    pub async fn sealed_alone(&mut self, record: &LogRecord) -> Result<(), Failure> {
        let dir = paths::log_dir(self.data_dir, &record.topic, record.id);
        let epochs = EpochTable::from_entries(record.epochs.clone()).unwrap_or_default();
        for meta in record.segments.iter().filter(|meta| meta.sealed) {
            let subject = Subject {
                dir: &dir,
                meta,
                indexed: meta,
                is_final: true,
                overlay: None,
                epochs: &epochs,
                log_start: record.start,
            };
            let path = subject.path(FileKind::Log);
            let stat = self.shard.fs().stat(&path).await.map_err(unreadable(&path))?;
            // The journal may have had it cut or removed since.
            if stat.is_some_and(|stat| stat.bytes == meta.bytes) {
                self.segment(&subject).await?;
            }
        }
        Ok(())
    }

    /// Checks a segment's batches one after another; returns how many were sound.
    async fn segment(&mut self, subject: &Subject<'_>) -> Result<u64, Failure> {
        let (path, meta) = (subject.path(FileKind::Log), subject.meta);
        let file = self.log_file(&path, subject).await?;
        let mut offsets = self.index::<OffsetEntry>(subject, FileKind::Index, subject.indexed.index_entries).await?;
        let mut times =
            self.index::<TimeEntry>(subject, FileKind::TimeIndex, subject.indexed.time_index_entries).await?;
        let mut audit = BatchAudit::new(meta.name(), subject.epochs, subject.log_start);
        let mut walk = BatchWalk::new(match subject.overlay {
            Some((journal, extents)) => SegmentBytes::replayed(self.shard, file, meta.bytes, journal, extents),
            None => SegmentBytes::of_segment(self.shard, file, meta.bytes),
        });
        let (mut sound, mut faults, mut follows_fault) = (0, 0, false);
        loop {
            let fault = match walk.next().await.map_err(unreadable(&path))? {
                Found::Batch => self.batch(&mut audit, walk.position(), &walk.batch()).map(Some),
                Found::Zeros { .. } => Err("zeros, where batches should be".to_owned()),
                Found::Bad(error) => Err(error.to_string()),
                Found::End => Ok(None),
            };
            match fault {
                // Beside a damaged batch an index can't be judged.
                Ok(Some(passed)) if faults == 0 => {
                    offsets.pass(&passed, self.report).await?;
                    times.pass(&passed, self.report).await?;
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) if follows_fault => {
                    let what = "what follows the damaged batch can't be told apart: its length may be what is wrong";
                    self.report.note(Place::new(&path, walk.position()), what, None);
                    return Ok(sound);
                }
                Err(what) => {
                    faults += 1;
                    self.report.damage(Place::new(&path, walk.position()), what, Some(RESTORE));
                    if walk.is_over() {
                        return Ok(sound);
                    }
                    follows_fault = true;
                    continue;
                }
            }
            (sound, follows_fault) = (sound + 1, false);
        }
        if faults == 0 {
            if let Err(what) = audit.end(meta, walk.position()) {
                self.report.damage(Place::new(&path, walk.position()), what, Some(RESTORE));
            }
            offsets.end(self.report).await?;
            times.end(self.report).await?;
            if subject.is_final {
                times.check_last(&audit, self.report);
            }
        }
        Ok(sound)
    }

    async fn log_file(&mut self, path: &Path, subject: &Subject<'_>) -> Result<Option<File>, Failure> {
        let file = open(self.shard, path).await.map_err(unreadable(path))?;
        let (bytes, known) = (file.as_ref().map_or(0, File::bytes_at_open), subject.meta.bytes);
        if subject.is_final && bytes != known {
            let what = format!("the file has {bytes} bytes, where {known} were sealed");
            self.report.damage(Place::new(path, bytes.min(known)), what, Some(RESTORE));
        }
        Ok(file)
    }

    fn batch(&self, audit: &mut BatchAudit<'_>, position: u64, batch: &BatchView<'_>) -> Result<Passed, String> {
        let passed = audit.batch(position, batch).map_err(|fault| fault.to_string())?;
        if self.records {
            let decoded = record::decode_records(batch, INFLATED_BYTES_MAX).map_err(|error| error.to_string())?;
            for record in decoded.records() {
                record.map_err(|error| error.to_string())?;
            }
        }
        Ok(passed)
    }

    /// The entries that an index file is known to hold.
    async fn index<E: AuditedEntry>(
        &mut self,
        subject: &Subject<'_>,
        kind: FileKind,
        entries: u32,
    ) -> Result<IndexCheck<E>, Failure> {
        let path = subject.path(kind);
        let file = open(self.shard, &path).await.map_err(unreadable(&path))?;
        let bytes = file.as_ref().map_or(0, File::bytes_at_open);
        let known_bytes = u64::from(entries) * E::BYTES as u64;
        let faults = u32::from(bytes < known_bytes);
        if bytes < known_bytes {
            let what = match &file {
                None => format!("there is no such file, where {entries} entries were written"),
                Some(_) => format!("the file has {bytes} bytes, where {entries} entries in {known_bytes} were written"),
            };
            self.report.damage(Place::new(&path, bytes), what, Some(REBUILT));
        }
        let reader = EntryReader::new(file, subject.meta.base_offset, u64::from(entries).min(bytes / E::BYTES as u64));
        Ok(IndexCheck { path, reader, indexed: *subject.indexed, previous: None, faults })
    }
}

/// Follows the batches of a segment with the entries of one of its indexes.
struct IndexCheck<E> {
    path: PathBuf,
    reader: EntryReader<E>,
    indexed: SegmentMeta,
    /// The last one that was right.
    previous: Option<E>,
    faults: u32,
}

impl<E: AuditedEntry> IndexCheck<E> {
    /// The batch that comes next.
    async fn pass(&mut self, passed: &Passed, report: &mut Report) -> Result<(), Failure> {
        while let Some(placed) = self.peek(report).await? {
            match placed.entry.beside(passed) {
                Beside::Later => return Ok(()),
                Beside::Right => self.previous = Some(placed.entry),
                // Those after it are held to the last that was right.
                Beside::Wrong(fault) => self.damage(&placed, &fault, report),
            }
            self.skip().await?;
        }
        Ok(())
    }

    /// The batches have ended.
    async fn end(&mut self, report: &mut Report) -> Result<(), Failure> {
        while let Some(placed) = self.peek(report).await? {
            self.damage(&placed, &placed.entry.beyond(), report);
            self.skip().await?;
        }
        Ok(())
    }

    /// The next entry that is in order; those that are not are told and passed over.
    async fn peek(&mut self, report: &mut Report) -> Result<Option<Placed<E>>, Failure> {
        loop {
            let next = self.reader.peek().await.map_err(unreadable(&self.path))?;
            let Some(placed) = next else { return Ok(None) };
            if placed.entry.follows(self.previous.as_ref(), &self.indexed) {
                return Ok(Some(placed));
            }
            self.damage(&placed, &EntryFault::Order, report);
            self.skip().await?;
        }
    }

    async fn skip(&mut self) -> Result<(), Failure> {
        self.reader.next().await.map(drop).map_err(unreadable(&self.path))
    }

    fn damage(&mut self, placed: &Placed<E>, fault: &EntryFault, report: &mut Report) {
        self.faults += 1;
        let what = format!("an index entry does not fit its segment: {fault}");
        report.damage(Place::new(&self.path, placed.position), what, Some(REBUILT));
    }
}

impl IndexCheck<TimeEntry> {
    /// The last entry of a sealed segment has its largest timestamp.
    fn check_last(&self, audit: &BatchAudit<'_>, report: &mut Report) {
        let known = self.previous.map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        if self.faults == 0 && known != audit.max_timestamp() {
            let at = u64::from(self.indexed.time_index_entries) * 12;
            let what = format!(
                "the index ends at timestamp {}, and the segment's largest is {}",
                known.0,
                audit.max_timestamp().0
            );
            report.damage(Place::new(&self.path, at), what, Some(REBUILT));
        }
    }
}

/// Segments follow one another without a gap, and the log starts within the first.
fn gap_between(log: &LogReplay) -> Option<String> {
    let follows = |pair: &[SegmentReplay]| pair[0].meta.end_offset == pair[1].meta.base_offset;
    if let Some(pair) = log.segments.windows(2).find(|pair| !follows(pair)) {
        let (end, base) = (pair[0].meta.end_offset, pair[1].meta.base_offset);
        return Some(format!("a segment ends at offset {end}, and the next begins at {base}"));
    }
    let first = log.segments.first()?.meta.base_offset;
    (first > log.start).then(|| format!("the log starts at offset {}, and its first segment at {first}", log.start))
}
