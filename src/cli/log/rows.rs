//! What `log dump` prints of batches, index entries, manifests and commits: one row for each.

use record::BatchView;
use serde::Serialize;
use storage::journal::codec::{Control, Entry, FrameHead};
use storage::manifest::{LogRecord, StoredHead};
use storage::segment::{IndexEntry, OffsetEntry, SegmentMeta, TimeEntry};

use super::report::Report;

#[derive(Serialize)]
pub struct BatchRow {
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
    pub crc_valid: bool,
}

impl BatchRow {
    pub fn new(position: u64, batch: &BatchView<'_>) -> Self {
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

    pub fn line(&self) -> String {
        format!(
            "  byte {}: offsets {} to {}, {} records, {} bytes, {}, epoch {}, producer {}/{} sequence {}, {} {}{}{}",
            self.position,
            self.base_offset,
            self.last_offset,
            self.records,
            self.bytes,
            self.compression,
            self.leader_epoch,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.timestamp_type,
            self.max_timestamp,
            if self.transactional { ", transactional" } else { "" },
            if self.control { ", control" } else { "" },
        )
    }
}

#[derive(Serialize)]
struct OffsetEntryRow {
    position: u64,
    last_offset: i64,
    batch_position: u32,
}

#[derive(Serialize)]
struct TimeEntryRow {
    position: u64,
    timestamp: i64,
    last_offset: i64,
}

/// What an entry of an index looks like.
pub trait ShownEntry: IndexEntry {
    fn show(&self, position: u64, report: &mut Report);
}

impl ShownEntry for OffsetEntry {
    fn show(&self, position: u64, report: &mut Report) {
        let row = OffsetEntryRow { position, last_offset: self.last_offset.0, batch_position: self.position };
        let (offset, at) = (row.last_offset, row.batch_position);
        report.row(&row, || format!("  byte {position}: the batch that ends with offset {offset} begins at byte {at}"));
    }
}

impl ShownEntry for TimeEntry {
    fn show(&self, position: u64, report: &mut Report) {
        let row = TimeEntryRow { position, timestamp: self.timestamp.0, last_offset: self.last_offset.0 };
        let (at, offset) = (row.timestamp, row.last_offset);
        report.row(&row, || {
            format!("  byte {position}: timestamp {at} first in the batch that ends with offset {offset}")
        });
    }
}

#[derive(Serialize)]
struct HeadRow {
    version: u64,
    shard: u16,
    generation: String,
    replay_from_sequence: u64,
    replay_from_file: u32,
    replay_from_position: u64,
    logs: u32,
    bytes: u64,
}

pub fn show_head(stored: &StoredHead, report: &mut Report) {
    let head = &stored.head;
    let row = HeadRow {
        version: head.version,
        shard: head.shard.0,
        generation: format!("{:016x}", head.salt),
        replay_from_sequence: head.replay_from.sequence,
        replay_from_file: head.replay_from.file,
        replay_from_position: head.replay_from.offset,
        logs: stored.log_count,
        bytes: stored.payload_bytes,
    };
    report.row(&row, || {
        format!(
            "  version {} of shard {}: {} logs in {} bytes; the journal of generation {} goes on from commit {} (journal-{} at byte {})",
            row.version,
            row.shard,
            row.logs,
            row.bytes,
            row.generation,
            row.replay_from_sequence,
            row.replay_from_file,
            row.replay_from_position
        )
    });
}

#[derive(Serialize)]
struct LogRecordRow<'a> {
    position: u64,
    log: String,
    topic: &'a str,
    placement: u64,
    offline: bool,
    start_offset: i64,
    end_offset: i64,
    high_watermark: i64,
    segments: usize,
    epochs: usize,
    producers_bytes: usize,
    cleaned_to: i64,
}

#[derive(Serialize)]
struct SegmentRow {
    segment: i64,
    end_offset: i64,
    bytes: u64,
    max_timestamp: i64,
    max_timestamp_offset: i64,
    created: i64,
    last_append: i64,
    index_entries: u32,
    time_index_entries: u32,
    sealed: bool,
    revision: u8,
}

#[derive(Serialize)]
struct EpochRow {
    epoch: i32,
    start_offset: i64,
}

pub fn show_log(position: u64, record: &LogRecord, details: bool, report: &mut Report) {
    let row = LogRecordRow {
        position,
        log: record.id.to_string(),
        topic: &record.topic,
        placement: record.placement.0,
        offline: record.offline,
        start_offset: record.start.0,
        end_offset: record.end.0,
        high_watermark: record.high_watermark.0,
        segments: record.segments.len(),
        epochs: record.epochs.len(),
        producers_bytes: record.producers.len(),
        cleaned_to: record.cleaned_to.0,
    };
    report.row(&row, || {
        format!(
            "  byte {position}: log {} of topic {}, placement {}{}: offsets {} to {}, high watermark {}, {} segments, {} epochs, producers in \
             {} bytes{}",
            row.log,
            row.topic,
            row.placement,
            if row.offline { ", OFFLINE" } else { "" },
            row.start_offset,
            row.end_offset,
            row.high_watermark,
            row.segments,
            row.epochs,
            row.producers_bytes,
            if row.cleaned_to > 0 { format!(", compacted up to offset {}", row.cleaned_to) } else { String::new() }
        )
    });
    if !details {
        return;
    }
    for epoch in &record.epochs {
        let row = EpochRow { epoch: epoch.epoch.0, start_offset: epoch.start.0 };
        report.row(&row, || format!("    epoch {} from offset {} on", row.epoch, row.start_offset));
    }
    record.segments.iter().for_each(|segment| show_segment(segment, report));
}

fn show_segment(meta: &SegmentMeta, report: &mut Report) {
    let row = SegmentRow {
        segment: meta.base_offset.0,
        end_offset: meta.end_offset.0,
        bytes: meta.bytes,
        max_timestamp: meta.max_timestamp.0,
        max_timestamp_offset: meta.max_timestamp_offset.0,
        created: meta.created.0,
        last_append: meta.last_append.0,
        index_entries: meta.index_entries,
        time_index_entries: meta.time_index_entries,
        sealed: meta.sealed,
        revision: meta.revision,
    };
    report.row(&row, || {
        format!(
            "    segment {} up to offset {}, {} bytes, {}{}: largest timestamp {} at offset {}, created {}, last append {}, {} index and {} \
             time index entries",
            row.segment,
            row.end_offset,
            row.bytes,
            if row.sealed { "sealed" } else { "active" },
            if row.revision > 0 { format!(", revision {}", row.revision) } else { String::new() },
            row.max_timestamp,
            row.max_timestamp_offset,
            row.created,
            row.last_append,
            row.index_entries,
            row.time_index_entries
        )
    });
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

pub fn show_frame(position: u64, head: &FrameHead, report: &mut Report) {
    let row = FrameRow {
        position,
        sequence: head.sequence,
        durable_sequence: head.durable_sequence,
        manifest_version: head.manifest_version,
        generation: format!("{:016x}", head.salt),
        entries: head.entry_count,
        bytes: head.frame_bytes(),
    };
    report.row(&row, || {
        format!(
            "  byte {position}: commit {} of generation {}, durable up to {}, manifest {}, {} entries, {} bytes",
            row.sequence, row.generation, row.durable_sequence, row.manifest_version, row.entries, row.bytes
        )
    });
}

#[derive(Serialize)]
struct EntryRow {
    entry: &'static str,
    log: Option<String>,
    what: String,
}

pub fn show_entry(entry: &Entry<'_>, report: &mut Report) {
    let row = entry_row(entry);
    report.row(&row, || {
        let log = row.log.as_ref().map_or_else(String::new, |log| format!(" {log}"));
        format!("    {}{log}: {}", row.entry, row.what)
    });
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
            Control::Compacted { log, segment, cleaned_to } => (
                "compacted",
                Some(*log),
                format!(
                    "revision {} of segment {} up to offset {}, {} bytes; compacted up to offset {cleaned_to}",
                    segment.revision, segment.base_offset, segment.end_offset, segment.bytes
                ),
            ),
        },
    };
    EntryRow { entry, log: log.map(|log| log.to_string()), what }
}
