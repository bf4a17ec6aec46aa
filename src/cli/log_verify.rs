//! `tidemill log verify`: checks that a start would find everything, and that everything it would find is sound.
//!
//! The same code that recovers reads manifests and journals and replays them, and changes nothing. Then every batch of every
//! segment is read as a start would leave it: the segment's file, with what the journal still holds put over it. So neither a torn
//! write that the journal covers nor room given ahead of data counts as damage, and a single flipped bit does.

use std::io;
use std::path::Path;

use base::{LeaderEpoch, NO_EPOCH, Offset};
use record::BatchHeader;
use serde::Serialize;
use shard::Shard;
use storage::config::paths;
use storage::recovery::log_replay::{LogReplay, SegmentReplay};
use storage::recovery::plan::PlannedLog;
use storage::recovery::{Survey, survey};
use storage::segment::{FileKind, file_name};
use storage::{RecoverConfig, RecoverError};

use super::Exit;
use super::batches::{BatchWalk, Found, SegmentBytes, open};
use super::failure::Failure;
use super::log::Verify;
use super::output::{Format, Output};

const REMEDY: &str = "restore the directory from a copy, or remove it and let the replicas fill it again";

pub async fn verify(shard: &Shard, arguments: &Verify) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for dir in &arguments.dirs {
        let mut verifying = Verifying { shard, dir, format: arguments.output, output: Output::stdout(), damages: 0 };
        verifying.check_that_it_rests().await?;
        verifying.run().await?;
        if verifying.damages > 0 {
            exit = Exit::DataDamaged;
        }
    }
    Ok(exit)
}

struct Verifying<'a> {
    shard: &'a Shard,
    dir: &'a Path,
    format: Format,
    output: Output,
    damages: u64,
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

#[derive(Serialize)]
struct DamageRow {
    file: String,
    position: u64,
    damage: String,
}

#[derive(Serialize)]
struct SummaryRow {
    data_dir: String,
    logs: usize,
    journal_commits: u64,
    damages: u64,
}

impl Verifying<'_> {
    /// A running broker writes meanwhile, which would look like damage.
    async fn check_that_it_rests(&self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", self.dir.display()));
        let format = self.shard.fs().stat(self.dir.join("format.toml")).await.map_err(failed)?;
        if format.is_none() {
            return Err(Failure::failed(format!("{}: no data directory of a broker", self.dir.display()))
                .remedy("a data directory holds `format.toml`; it is what `serve --data-dir` names"));
        }
        self.shard.fs().lock(self.dir.join("lock")).await.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Failure::failed(format!("{}: a broker is running on it", self.dir.display()))
                .remedy("stop the broker first"),
            _ => failed(error),
        })
    }

    async fn run(&mut self) -> Result<(), Failure> {
        // Where logs would be put does not matter here; any number of shards will do.
        let found = match survey(self.shard, &RecoverConfig::new(self.dir, 1)).await {
            Ok(found) => found,
            Err(RecoverError::Io { what, path, error }) => {
                return Err(Failure::failed(format!("cannot {what} {}: {error}", path.display())));
            }
            Err(error) => {
                self.damage_of_recovery(&error);
                return Ok(());
            }
        };
        for planned in &found.plan.logs {
            self.log(&found, planned).await?;
        }
        let (logs, journal_commits) = (found.plan.logs.len(), found.report.frames_replayed);
        let data_dir = self.dir.display().to_string();
        let summary = SummaryRow { data_dir, logs, journal_commits, damages: self.damages };
        match self.format {
            Format::Json => self.output.json(&summary),
            Format::Table => {
                let SummaryRow { data_dir, damages, .. } = &summary;
                self.output.line(&format!(
                    "{data_dir}: {logs} logs and {journal_commits} commits of journals, {damages} damages"
                ));
                if *damages > 0 {
                    self.output.line(&format!("  {REMEDY}"));
                }
            }
        }
        Ok(())
    }

    /// What keeps a broker from starting. Segments are not looked at then: only the journals say where they end.
    fn damage_of_recovery(&mut self, error: &RecoverError) {
        let (file, position) = match error {
            RecoverError::JournalRot { path, rot } => (path.clone(), rot.offset),
            RecoverError::Manifest { path, .. } => (path.clone(), 0),
            RecoverError::NoManifest { dir }
            | RecoverError::ForeignManifest { dir, .. }
            | RecoverError::ManifestLost { dir, .. } => (dir.clone(), 0),
            RecoverError::Replay { dir, error } => {
                let source = match error {
                    storage::recovery::replay::ReplayError::Entry { source, .. }
                    | storage::recovery::replay::ReplayError::Log { source, .. } => source,
                };
                (dir.join(format!("journal-{}", source.file)), source.offset)
            }
            RecoverError::Io { path, .. } => (path.clone(), 0),
            RecoverError::Placement(_) => (paths::shards_dir(self.dir), 0),
        };
        self.damage(&file, position, error.to_string());
    }

    fn damage(&mut self, file: &Path, position: u64, damage: String) {
        self.damages += 1;
        let row = DamageRow { file: file.display().to_string(), position, damage };
        match self.format {
            Format::Json => self.output.json(&row),
            Format::Table => self.output.line(&format!("{}: DAMAGED at byte {position}: {}", row.file, row.damage)),
        }
    }

    async fn log(&mut self, found: &Survey, planned: &PlannedLog) -> Result<(), Failure> {
        let PlannedLog { from, log, .. } = planned;
        let image = found.images.iter().find(|image| image.shard == *from).expect("the plan was made from images");
        let dir = paths::log_dir(self.dir, &log.topic, log.id);
        let (before, mut batches, mut bytes) = (self.damages, 0, 0);
        if log.offline {
            self.damage(
                &dir,
                0,
                "the log is offline: a file of it failed, and no start could bring it back".to_owned(),
            );
        }
        let mut epoch = NO_EPOCH;
        for segment in log.segments.iter().filter(|_| !log.offline) {
            let path = dir.join(file_name(segment.meta.base_offset, FileKind::Log));
            batches += self.segment(image, segment, &path, &mut epoch).await?;
            bytes += segment.meta.bytes;
        }
        if let Some(what) = gap_between(log) {
            self.damage(&dir, 0, what);
        }
        let row = LogRow {
            topic: log.topic.clone(),
            partition: log.id.partition.0,
            start_offset: log.start.0,
            end_offset: log.end.0,
            segments: log.segments.len(),
            batches,
            bytes,
            damages: self.damages - before,
        };
        match self.format {
            Format::Json => self.output.json(&row),
            Format::Table => self.output.line(&format!(
                "{}-{}: offsets {} to {}, {} segments, {batches} batches, {bytes} bytes{}",
                row.topic,
                row.partition,
                row.start_offset,
                row.end_offset,
                row.segments,
                if row.damages == 0 { "" } else { ", DAMAGED" }
            )),
        }
        Ok(())
    }

    /// Checks a segment's batches one after another; returns how many were sound.
    async fn segment(
        &mut self,
        image: &storage::recovery::image::ShardImage,
        segment: &SegmentReplay,
        path: &Path,
        epoch: &mut LeaderEpoch,
    ) -> Result<u64, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let meta = &segment.meta;
        let file = open(self.shard, path).await.map_err(failed)?;
        let file_bytes = file.as_ref().map_or(0, shard::File::bytes_at_open);
        if meta.sealed && !segment.reshaped && file_bytes != meta.bytes {
            self.damage(
                path,
                file_bytes.min(meta.bytes),
                format!("{file_bytes} bytes, where {} were sealed", meta.bytes),
            );
        }
        let source = SegmentBytes::replayed(self.shard, file, meta.bytes, &image.journal, &segment.extents);
        let (mut walk, mut next, mut batches) = (BatchWalk::new(source), meta.base_offset, 0);
        loop {
            let fault = match walk.next().await.map_err(failed)? {
                Found::Batch => {
                    let batch = walk.batch();
                    let sound = if batch.has_valid_crc() {
                        check_header(batch.header(), next, epoch)
                    } else {
                        Err("the checksum of the batch is wrong".to_owned())
                    };
                    next = batch.header().next_offset();
                    sound.err()
                }
                Found::Zeros { .. } => Some("zeros, where batches should be".to_owned()),
                Found::Bad(error) => Some(error.to_string()),
                Found::End => break,
            };
            if let Some(what) = fault {
                self.damage(path, walk.position(), what);
                return Ok(batches);
            }
            batches += 1;
        }
        if walk.position() != meta.bytes || next != meta.end_offset {
            let what = format!(
                "the batches end at offset {next}, and {} in {} bytes were written",
                meta.end_offset, meta.bytes
            );
            self.damage(path, walk.position(), what);
        }
        Ok(batches)
    }
}

/// What no batch in a log can be, although its checksum is right: that does not cover the offset and the epoch.
fn check_header(header: &BatchHeader, next: Offset, epoch: &mut LeaderEpoch) -> Result<(), String> {
    if header.base_offset != next {
        return Err(format!("a batch of offset {}, where {next} should follow", header.base_offset));
    }
    if header.last_offset_delta < 0 || header.record_count < 1 || header.record_count > header.last_offset_delta + 1 {
        return Err(format!("{} records at {} offsets", header.record_count, i64::from(header.last_offset_delta) + 1));
    }
    if header.compression().is_none() {
        return Err(format!("compression {} does not exist", header.attributes.compression_code()));
    }
    if header.leader_epoch < *epoch {
        return Err(format!("leader epoch {} after {epoch}", header.leader_epoch));
    }
    *epoch = header.leader_epoch;
    Ok(())
}

/// Segments follow one another without a gap, and the log ends where the last one does.
fn gap_between(log: &LogReplay) -> Option<String> {
    let follows = |pair: &[SegmentReplay]| pair[0].meta.end_offset == pair[1].meta.base_offset;
    if let Some(pair) = log.segments.windows(2).find(|pair| !follows(pair)) {
        let (end, base) = (pair[0].meta.end_offset, pair[1].meta.base_offset);
        return Some(format!("a segment ends at offset {end}, and the next begins at {base}"));
    }
    let first = log.segments.first()?.meta.base_offset;
    (first > log.start).then(|| format!("the log starts at offset {}, and its first segment at {first}", log.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{BatchBuilder, BatchOptions, BatchView};

    #[test]
    fn what_the_checksum_does_not_cover_is_checked_too() {
        let options = BatchOptions { base_offset: Offset(5), leader_epoch: LeaderEpoch(2), ..Default::default() };
        let mut builder = BatchBuilder::new(options);
        builder.add(base::WallTime(0), None, None, &[]).expect("small");
        let bytes = builder.finish().expect("has a record");
        let header = *BatchView::parse(&bytes).expect("a batch").header();
        // next offset, epoch before, sound
        for (next, epoch, sound) in [(5, -1, true), (5, 2, true), (5, 3, false), (4, 2, false), (6, 2, false)] {
            let found = check_header(&header, Offset(next), &mut LeaderEpoch(epoch));
            assert_eq!(found.is_ok(), sound, "{next} {epoch}: {found:?}");
        }
    }
}
