//! `tidemill log dump`: prints what segment and journal files hold, whatever state they are in.
//!
//! A file is known by its name. Damage is printed where it stands and makes the exit code 3; zeros after the last batch are room
//! that an active segment was given ahead of its data.

use std::io;
use std::path::{Path, PathBuf};

use record::{BatchView, DecodeError};
use serde::Serialize;
use shard::Shard;
use storage::config::paths::journal_number;
use storage::journal::codec::{Control, Entries, Entry, FrameHead, JOURNAL_BLOCK_BYTES, frame_at};
use storage::recovery::image::{JOURNAL_FILE_BYTES_MAX, read_file_range};
use storage::segment::{FileKind, parse_file_name};

use super::Exit;
use super::batches::{BatchWalk, Found, SegmentBytes, open};
use super::consume::RecordRow;
use super::failure::Failure;
use super::log::Dump;
use super::output::{Format, Output};

/// Bound of one batch after decompression.
const INFLATED_BYTES_MAX: usize = 1 << 30;

pub async fn dump(shard: &Shard, arguments: &Dump) -> Result<Exit, Failure> {
    let mut dumping = Dumping {
        shard,
        records: arguments.records,
        format: arguments.output,
        output: Output::stdout(),
        damaged: false,
    };
    for path in &arguments.paths {
        for file in files_in(shard, path).await? {
            dumping.file(&file).await?;
        }
    }
    Ok(if dumping.damaged { Exit::DataDamaged } else { Exit::Done })
}

enum Kind {
    Segment,
    Journal,
}

fn kind_of(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    if journal_number(name).is_some() {
        return Some(Kind::Journal);
    }
    parse_file_name(name).filter(|(_, kind)| *kind == FileKind::Log).map(|_| Kind::Segment)
}

/// The file itself, or what a directory holds of such files.
async fn files_in(shard: &Shard, path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let stat = shard.fs().stat(path).await.map_err(failed)?;
    let stat = stat.ok_or_else(|| Failure::failed(format!("{}: there is no such file", path.display())))?;
    if !stat.is_dir {
        return Ok(vec![path.to_owned()]);
    }
    let entries = shard.fs().list(path).await.map_err(failed)?;
    let files: Vec<_> =
        entries.iter().map(|entry| path.join(&entry.name)).filter(|file| kind_of(file).is_some()).collect();
    if files.is_empty() {
        return Err(Failure::failed(format!("{}: it holds neither segments nor journals", path.display()))
            .remedy("segments are in DATA/logs/TOPIC/PARTITION-ID, journals in DATA/shards/N"));
    }
    Ok(files)
}

struct Dumping<'a> {
    shard: &'a Shard,
    records: bool,
    format: Format,
    output: Output,
    damaged: bool,
}

#[derive(Serialize)]
struct BatchRow {
    position: u64,
    base_offset: i64,
    last_offset: i64,
    records: i32,
    bytes: usize,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    compression: String,
    timestamp_type: &'static str,
    max_timestamp: i64,
    transactional: bool,
    control: bool,
    crc: u32,
    crc_valid: bool,
}

impl BatchRow {
    fn new(position: u64, batch: &BatchView<'_>) -> Self {
        let header = batch.header();
        let code = header.attributes.compression_code();
        Self {
            position,
            base_offset: header.base_offset.0,
            last_offset: header.last_offset().0,
            records: header.record_count,
            bytes: batch.bytes().len(),
            leader_epoch: header.leader_epoch.0,
            producer_id: header.producer_id.0,
            producer_epoch: header.producer_epoch.0,
            base_sequence: header.base_sequence,
            compression: header.compression().map_or_else(|| format!("unknown ({code})"), |codec| codec.to_string()),
            timestamp_type: match header.timestamp_type() {
                record::TimestampType::CreateTime => "CreateTime",
                record::TimestampType::LogAppendTime => "LogAppendTime",
            },
            max_timestamp: header.max_timestamp.0,
            transactional: header.is_transactional(),
            control: header.is_control(),
            crc: header.crc,
            crc_valid: batch.has_valid_crc(),
        }
    }
}

#[derive(Serialize)]
struct FrameRow {
    position: u64,
    sequence: u64,
    durable_sequence: u64,
    manifest_version: u64,
    generation: String,
    entries: u32,
    bytes: usize,
}

#[derive(Serialize)]
struct EntryRow {
    entry: &'static str,
    log: Option<String>,
    what: String,
}

impl Dumping<'_> {
    async fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let Some(kind) = kind_of(path) else {
            return Err(Failure::failed(format!("{}: by its name neither a segment nor a journal", path.display()))
                .remedy("segments are called 00000000000000000000.log, with 20 digits, journals journal-0"));
        };
        let gone = || Failure::failed(format!("{}: there is no such file", path.display()));
        let file = open(self.shard, path).await.map_err(failed)?.ok_or_else(gone)?;
        self.note(&path.display().to_string());
        match kind {
            Kind::Segment => self.segment(SegmentBytes::of_file(self.shard, file), path).await,
            Kind::Journal => {
                let bytes = file.bytes_at_open();
                if bytes > JOURNAL_FILE_BYTES_MAX {
                    return Err(Failure::failed(format!("{}: no journal has {bytes} bytes", path.display())));
                }
                let content = read_file_range(&file, 0, bytes).await.map_err(failed)?;
                self.journal(&content);
                Ok(())
            }
        }
    }

    /// A line for people only.
    fn note(&mut self, text: &str) {
        if self.format == Format::Table {
            self.output.line(text);
        }
    }

    fn damage(&mut self, position: u64, what: &str) {
        #[derive(Serialize)]
        struct DamageRow<'a> {
            position: u64,
            damage: &'a str,
        }
        self.damaged = true;
        match self.format {
            Format::Table => self.output.line(&format!("  DAMAGED at byte {position}: {what}")),
            Format::Json => self.output.json(&DamageRow { position, damage: what }),
        }
    }

    async fn segment(&mut self, bytes: SegmentBytes<'_>, path: &Path) -> Result<(), Failure> {
        let mut walk = BatchWalk::new(bytes);
        loop {
            let found = walk.next().await;
            match found.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))? {
                Found::Batch => self.batch(walk.position(), &walk.batch()),
                Found::Zeros { bytes } => {
                    self.note(&format!("  {bytes} bytes of zeros from byte {} on", walk.position()))
                }
                Found::Bad(error) => {
                    self.damage(walk.position(), &error.to_string());
                    return Ok(());
                }
                Found::End => return Ok(()),
            }
            if walk.is_over() {
                return Ok(());
            }
        }
    }

    fn batch(&mut self, position: u64, batch: &BatchView<'_>) {
        let row = BatchRow::new(position, batch);
        let valid = row.crc_valid;
        match self.format {
            Format::Json => self.output.json(&row),
            Format::Table => self.output.line(&format!(
                "  byte {position}: offsets {} to {}, {} records, {} bytes, {}, epoch {}, producer {}/{} sequence {}, {} {}{}{}",
                row.base_offset,
                row.last_offset,
                row.records,
                row.bytes,
                row.compression,
                row.leader_epoch,
                row.producer_id,
                row.producer_epoch,
                row.base_sequence,
                row.timestamp_type,
                row.max_timestamp,
                if row.transactional { ", transactional" } else { "" },
                if row.control { ", control" } else { "" },
            )),
        }
        if !valid {
            self.damage(position, "the checksum of the batch is wrong");
        }
        if self.records
            && let Err(error) = self.records_of(batch)
        {
            self.damage(position, &error.to_string());
        }
    }

    fn records_of(&mut self, batch: &BatchView<'_>) -> Result<(), DecodeError> {
        let decoded = record::decode_records(batch, INFLATED_BYTES_MAX)?;
        for record in decoded.records() {
            let row = RecordRow::new(None, &record?);
            match self.format {
                Format::Json => self.output.json(&row),
                Format::Table => {
                    let text = serde_json::to_string(&row).expect("what is printed has text for keys");
                    self.output.line(&format!("    {text}"));
                }
            }
        }
        Ok(())
    }

    /// Every commit of any generation; what is none is passed over, for a journal is written round and round.
    fn journal(&mut self, content: &[u8]) {
        let (mut position, mut blocks) = (0, 0);
        while let Some(bytes) = content.get(position..).filter(|bytes| !bytes.is_empty()) {
            let frame = FrameHead::parse(bytes).and_then(|head| frame_at(bytes, head.salt));
            let Some((head, body)) = frame else {
                (position, blocks) = (position + JOURNAL_BLOCK_BYTES, blocks + 1);
                continue;
            };
            self.frame(position as u64, &head, body);
            position += head.frame_bytes();
        }
        self.note(&format!("  {blocks} blocks of {JOURNAL_BLOCK_BYTES} bytes without a commit"));
    }

    fn frame(&mut self, position: u64, head: &FrameHead, body: &[u8]) {
        let row = FrameRow {
            position,
            sequence: head.sequence,
            durable_sequence: head.durable_sequence,
            manifest_version: head.manifest_version,
            generation: format!("{:016x}", head.salt),
            entries: head.entry_count,
            bytes: head.frame_bytes(),
        };
        match self.format {
            Format::Json => self.output.json(&row),
            Format::Table => self.output.line(&format!(
                "  byte {position}: commit {} of generation {}, durable up to {}, manifest {}, {} entries, {} bytes",
                row.sequence, row.generation, row.durable_sequence, row.manifest_version, row.entries, row.bytes
            )),
        }
        if !self.records {
            return;
        }
        for entry in Entries::new(head, body) {
            match entry {
                Ok(entry) => self.entry(&entry),
                Err(error) => self.damage(position, &error.to_string()),
            }
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        let row = entry_row(entry);
        match self.format {
            Format::Json => self.output.json(&row),
            Format::Table => {
                let log = row.log.map_or_else(String::new, |log| format!(" {log}"));
                self.output.line(&format!("    {}{log}: {}", row.entry, row.what));
            }
        }
    }
}

fn entry_row(entry: &Entry<'_>) -> EntryRow {
    let (entry, log, what) = match entry {
        Entry::Append { at, bytes } => (
            "append",
            Some(at.log),
            format!(
                "offsets {} to {}, {} bytes at {} of segment {}",
                at.first,
                at.last,
                bytes.len(),
                at.position,
                at.segment
            ),
        ),
        Entry::BlockPrefix { log, segment, position, bytes } => {
            ("block-prefix", Some(*log), format!("{} bytes at {position} of segment {segment}", bytes.len()))
        }
        Entry::Control(control) => match control {
            Control::Create { log, placement, topic, .. } => {
                ("create", Some(*log), format!("topic {topic}, placement {placement}"))
            }
            Control::Remove { log } => ("remove", Some(*log), String::new()),
            Control::Truncate { log, end, segment } => (
                "truncate",
                Some(*log),
                format!("to offset {end}, {} bytes of segment {}", segment.bytes, segment.base_offset),
            ),
            Control::StartMoved { log, start } => ("start-moved", Some(*log), format!("to offset {start}")),
            Control::EpochAdopted { log, epoch, start } => {
                ("epoch-adopted", Some(*log), format!("{epoch} from offset {start} on"))
            }
            Control::Placed { record } => ("placed", None, format!("a log from another shard, {} bytes", record.len())),
            Control::Roll { log, segment, sealed_bytes, .. } => {
                ("roll", Some(*log), format!("to segment {segment}; the one before has {sealed_bytes} bytes"))
            }
            Control::Released { log, placement } => ("released", Some(*log), format!("to placement {placement}")),
        },
    };
    EntryRow { entry, log: log.map(|log| log.to_string()), what }
}
