//! `tidemill log dump`: prints what files of a data directory hold, whatever state they are in.
//!
//! A file is known by its name. Damage is printed where it stands and makes the exit code 3; zeros behind the last batch or entry are
//! room that an active segment's files have ahead of their content.

use std::io;
use std::path::{Path, PathBuf};

use base::Offset;
use record::{BatchView, DecodeError};
use shard::{File, Shard};
use storage::config::paths::{journal_number, parse_log_dir};
use storage::journal::codec::{Entries, FrameHead, JOURNAL_BLOCK_BYTES};
use storage::manifest::{COPY_NAMES, LogRecord, StoredHead};
use storage::segment::{FileKind, OffsetEntry, SegmentMeta, TimeEntry, parse_file_name};

use super::super::Exit;
use super::super::consume::RecordRow;
use super::super::failure::Failure;
use super::batches::{BatchWalk, Found, SegmentBytes};
use super::entries::EntryReader;
use super::frames::FrameReader;
use super::manifests::{self, Copy};
use super::report::{Place, Report};
use super::rows::{self, BatchRow, ShownEntry};
use super::{Dump, open, unreadable};

/// Bound of one batch after decompression.
const INFLATED_BYTES_MAX: usize = 1 << 30;

pub async fn dump(shard: &Shard, arguments: &Dump) -> Result<Exit, Failure> {
    let mut dumping = Dumping { shard, records: arguments.records, report: Report::new(arguments.output) };
    for path in &arguments.paths {
        warn_of_a_broker(shard, path).await;
        for file in files_in(shard, path).await? {
            dumping.file(&file).await?;
        }
    }
    Ok(dumping.report.exit())
}

/// What a running broker writes may be seen half written.
async fn warn_of_a_broker(shard: &Shard, path: &Path) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for dir in path.ancestors() {
        let is_data_dir = matches!(shard.fs().stat(dir.join(storage::format::FILE_NAME)).await, Ok(Some(_)));
        if is_data_dir
            && let Err(error) = super::hold(shard, dir).await
            && error.kind() == io::ErrorKind::WouldBlock
        {
            let dir = dir.display();
            eprintln!(
                "tidemill: warning: {dir} is in use ({error}): what follows may be half written; stop the broker to be sure"
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Segment,
    Index(Offset),
    TimeIndex(Offset),
    Manifest,
    Journal,
}

fn kind_of(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let orphan = name.strip_suffix(".journal").and_then(parse_log_dir);
    if journal_number(name).is_some() || orphan.is_some() {
        return Some(Kind::Journal);
    }
    if COPY_NAMES.contains(&name) {
        return Some(Kind::Manifest);
    }
    parse_file_name(name).map(|(segment, kind)| match kind {
        FileKind::Log => Kind::Segment,
        FileKind::Index => Kind::Index(segment.base),
        FileKind::TimeIndex => Kind::TimeIndex(segment.base),
    })
}

/// The file itself, or what a directory holds of such files.
async fn files_in(shard: &Shard, path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let stat = shard.fs().stat(path).await.map_err(unreadable(path))?;
    let stat = stat.ok_or_else(|| Failure::failed(format!("{}: there is no such file", path.display())))?;
    if !stat.is_dir {
        return Ok(vec![path.to_owned()]);
    }
    let entries = shard.fs().list(path).await.map_err(unreadable(path))?;
    let files: Vec<_> =
        entries.iter().map(|entry| path.join(&entry.name)).filter(|file| kind_of(file).is_some()).collect();
    if files.is_empty() {
        return Err(Failure::failed(format!("{}: it holds no segments, manifests or journals", path.display()))
            .remedy("segments are in DATA/logs/TOPIC/PARTITION-ID, manifests and journals in DATA/shards/N"));
    }
    Ok(files)
}

struct Dumping<'a> {
    shard: &'a Shard,
    records: bool,
    report: Report,
}

impl Dumping<'_> {
    async fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let Some(kind) = kind_of(path) else {
            return Err(Failure::failed(format!("{}: by its name no file of a log, shard or orphan", path.display()))
                .remedy(
                    "segments are called 00000000000000000000.log, with 20 digits, their indexes .index and .timeindex; manifests \
                     manifest-a and manifest-b; journals journal-0",
                ));
        };
        let gone = || Failure::failed(format!("{}: there is no such file", path.display()));
        let file = open(self.shard, path).await.map_err(unreadable(path))?.ok_or_else(gone)?;
        self.report.line(&path.display().to_string());
        let done = match kind {
            Kind::Segment => self.segment(file, path).await,
            Kind::Index(base) => self.index::<OffsetEntry>(file, path, base).await,
            Kind::TimeIndex(base) => self.index::<TimeEntry>(file, path, base).await,
            Kind::Manifest => self.manifest(file, path).await,
            Kind::Journal => self.journal(file, path).await,
        };
        done.map_err(unreadable(path))
    }

    async fn segment(&mut self, file: File, path: &Path) -> io::Result<()> {
        let mut walk = BatchWalk::new(SegmentBytes::of_file(self.shard, file));
        loop {
            match walk.next().await? {
                Found::Batch => self.batch(Place::new(path, walk.position()), &walk.batch()),
                Found::Zeros { bytes } => {
                    self.report.line(&format!("  {bytes} bytes of zeros from byte {} on", walk.position()));
                }
                Found::Bad(error) => {
                    self.report.damage(Place::new(path, walk.position()), error, None);
                    return Ok(());
                }
                Found::End => return Ok(()),
            }
            if walk.is_over() {
                return Ok(());
            }
        }
    }

    fn batch(&mut self, place: Place<'_>, batch: &BatchView<'_>) {
        let row = BatchRow::new(place.position, batch);
        self.report.row(&row, || row.line());
        if !row.crc_valid {
            self.report.damage(place, "the checksum of the batch is wrong", None);
        }
        if self.records
            && let Err(error) = self.records_of(batch)
        {
            self.report.damage(place, error, None);
        }
    }

    fn records_of(&mut self, batch: &BatchView<'_>) -> Result<(), DecodeError> {
        let decoded = record::decode_records(batch, INFLATED_BYTES_MAX)?;
        for record in decoded.records() {
            let row = RecordRow::new(None, &record?);
            let text = || serde_json::to_string(&row).expect("what is printed has text for keys");
            self.report.row(&row, || format!("    {}", text()));
        }
        Ok(())
    }

    async fn index<E: ShownEntry>(&mut self, file: File, path: &Path, base: Offset) -> io::Result<()> {
        let bytes = file.bytes_at_open();
        let entries = bytes / E::BYTES as u64;
        // The file alone does not say where its segment ends.
        let anywhere =
            SegmentMeta { end_offset: Offset(i64::MAX), bytes: u64::MAX, ..SegmentMeta::new(base, base::WallTime(0)) };
        let mut reader = EntryReader::<E>::new(Some(file), base, entries);
        let mut previous = None;
        while let Some(placed) = reader.next().await? {
            if placed.is_blank && reader.is_blank_from(placed.position).await? {
                let rest = bytes - placed.position;
                self.report.line(&format!("  {rest} bytes of zeros from byte {} on", placed.position));
                return Ok(());
            }
            if !placed.entry.follows(previous.as_ref(), &anywhere) {
                let what = "this entry does not follow the one before it";
                self.report.damage(Place::new(path, placed.position), what, None);
            }
            placed.entry.show(placed.position, &mut self.report);
            previous = Some(placed.entry);
        }
        Ok(())
    }

    async fn manifest(&mut self, file: File, path: &Path) -> io::Result<()> {
        let (report, details) = (std::cell::RefCell::new(&mut self.report), self.records);
        let head = |head: &StoredHead| rows::show_head(head, *report.borrow_mut());
        let each = |position: u64, record: &LogRecord| rows::show_log(position, record, details, *report.borrow_mut());
        let copy = manifests::read(&file, head, each).await?;
        let report = &mut self.report;
        match copy {
            Copy::Whole(_) => {}
            Copy::Blank => report.line("  its head is blank: it was never written to its end"),
            Copy::Newer { format } => {
                report.line(&format!("  format {format}, which this release does not know: use the one that wrote it"));
            }
            Copy::Damaged { position, what, .. } => report.damage(Place::new(path, position), what, None),
        }
        Ok(())
    }

    fn frame(&mut self, place: Place<'_>, head: &FrameHead, body: &[u8]) {
        rows::show_frame(place.position, head, &mut self.report);
        if !self.records {
            return;
        }
        for entry in Entries::new(head, body) {
            match entry {
                Ok(entry) => rows::show_entry(&entry, &mut self.report),
                Err(error) => self.report.damage(place, error, None),
            }
        }
    }

    async fn journal(&mut self, file: File, path: &Path) -> io::Result<()> {
        let mut reader = FrameReader::new(&file);
        while let Some((position, head, body)) = reader.next().await? {
            self.frame(Place::new(path, position), &head, body);
        }
        let blocks = reader.other_blocks;
        self.report.line(&format!("  {blocks} blocks of {JOURNAL_BLOCK_BYTES} bytes without a commit"));
        Ok(())
    }
}
