//! Checks what each shard keeps of its own: both copies of its manifest, and where its journal ends.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shard::Shard;
use storage::RecoverError;
use storage::config::paths;
use storage::manifest::{COPY_NAMES, LogRecord, StoredHead};
use storage::recovery::image::{ShardImage, shard_dirs};

use super::super::failure::Failure;
use super::manifests::{self, Copy};
use super::report::{Place, Report};
use super::verify::RESTORE;
use super::{open, unreadable};

#[derive(Serialize)]
struct ManifestRow {
    manifest: String,
    version: u64,
    logs: u32,
    newest: bool,
}

struct FoundCopy {
    path: PathBuf,
    copy: Copy,
    logs: u32,
}

impl FoundCopy {
    fn version(&self) -> Option<u64> {
        match self.copy {
            Copy::Whole(head) => Some(head.version),
            _ => None,
        }
    }
}

/// Looks at both copies of every shard's manifest; returns those that a start would go by.
pub async fn check_manifests(shard: &Shard, data_dir: &Path, report: &mut Report) -> Result<Vec<PathBuf>, Failure> {
    let mut newest = Vec::new();
    for copies in read_manifests(shard, data_dir).await? {
        newest.extend(show_copies(&copies, report)?);
    }
    Ok(newest)
}

/// What is wrong with copies of manifests, a line for each; for those who only want to know whether there is anything.
///
/// # Errors
/// The directory can't be read.
pub async fn manifests_in_doubt(shard: &Shard, data_dir: &Path) -> Result<Vec<String>, Failure> {
    let found = read_manifests(shard, data_dir).await?;
    let doubt = |found: &FoundCopy| match &found.copy {
        Copy::Damaged { position, what, .. } => Some(format!("{}: at byte {position}: {what}", found.path.display())),
        _ => None,
    };
    Ok(found.iter().flatten().filter_map(doubt).collect())
}

/// The copies that there are, shard by shard.
async fn read_manifests(shard: &Shard, data_dir: &Path) -> Result<Vec<Vec<FoundCopy>>, Failure> {
    let dirs = shard_dirs(shard, data_dir).await.map_err(|error| match error {
        RecoverError::Io { what, path, error } => Failure::failed(format!("cannot {what} {}: {error}", path.display())),
        other => Failure::failed(other),
    })?;
    let mut found = Vec::new();
    for of in dirs {
        let dir = paths::shard_dir(data_dir, of);
        let mut copies = Vec::new();
        for name in COPY_NAMES {
            let path = dir.join(name);
            let Some(file) = open(shard, &path).await.map_err(unreadable(&path))? else { continue };
            let mut logs = 0;
            let copy = manifests::read(&file, |head: &StoredHead| logs = head.log_count, |_, _| ()).await;
            copies.push(FoundCopy { copy: copy.map_err(unreadable(&path))?, path, logs });
        }
        found.push(copies);
    }
    Ok(found)
}

/// Says what the copies of one shard are; returns the one that counts.
fn show_copies(copies: &[FoundCopy], report: &mut Report) -> Result<Option<PathBuf>, Failure> {
    // Of two alike the first counts, as for a start.
    let counts = copies.iter().rev().filter(|found| found.version().is_some()).max_by_key(|found| found.version());
    for found in copies {
        let place = |position| Place::new(&found.path, position);
        match &found.copy {
            Copy::Whole(head) => {
                let newest = counts.is_some_and(|counts| counts.version() == Some(head.version));
                let manifest = found.path.display().to_string();
                let row = ManifestRow { manifest, version: head.version, logs: found.logs, newest };
                report.row(&row, || {
                    let of = if newest { "which counts" } else { "the one before" };
                    format!("{}: whole, version {}, {of}, {} logs", row.manifest, row.version, row.logs)
                });
            }
            Copy::Blank if counts.is_some() => {
                let what = "this copy of the manifest was begun and not written to its end; the other one counts";
                report.note(place(0), what, None);
            }
            Copy::Blank => report.note(place(0), "no manifest was ever written here", None),
            Copy::Newer { format } => {
                let what = format!(
                    "{}: a manifest of format {format}, which this release does not know",
                    found.path.display()
                );
                return Err(Failure::failed(what).remedy("use the release that wrote it, or a later one"));
            }
            Copy::Damaged { position, what, head } => match counts.and_then(FoundCopy::version) {
                None => report.damage(place(*position), what, Some(RESTORE)),
                Some(version) => {
                    let of = head.map_or_else(|| "unknown".to_owned(), |head| head.version.to_string());
                    let what = format!("{what}; this is version {of}, and the other copy, version {version}, is whole");
                    let remedy = "copy the directory away, then start the broker: it goes by the other copy and writes this one anew";
                    report.damage(place(*position), what, Some(remedy));
                }
            },
        }
    }
    Ok(counts.map(|found| found.path.clone()))
}

/// The logs of a copy, as far as they make sense.
pub async fn records(shard: &Shard, path: &Path) -> std::io::Result<Vec<LogRecord>> {
    let mut records = Vec::new();
    if let Some(file) = open(shard, path).await? {
        manifests::read(&file, |_| (), |_, record| records.push(record.clone())).await?;
    }
    Ok(records)
}

#[derive(Serialize)]
struct JournalRow {
    journal_of_shard: u16,
    generation: String,
    from_sequence: u64,
    commits: usize,
    end_file: String,
    end_position: u64,
    dropped: usize,
}

/// Says what a start would replay of a shard's journal, where that ends, and why there.
pub fn show_journal(data_dir: &Path, image: &ShardImage, report: &mut Report) {
    let from = image.manifest.head.replay_from;
    let scan = &image.scan;
    let (file, position) = scan.frames.last().map_or((from.file, from.offset), |last| (last.file, last.end()));
    let path = |file| paths::journal_file(data_dir, image.shard, file);
    let row = JournalRow {
        journal_of_shard: image.shard.0,
        generation: format!("{:016x}", image.manifest.head.salt),
        from_sequence: from.sequence,
        commits: scan.frames.len(),
        end_file: path(file).display().to_string(),
        end_position: position,
        dropped: scan.frames_dropped,
    };
    let missing = from.sequence + scan.frames.len() as u64;
    let torn = image.passed.damaged_last.filter(|frame| frame.head.sequence >= missing);
    report.row(&row, || {
        let (commits, why) = (row.commits, if torn.is_some() { "" } else { ", behind which nothing was written" });
        let ends = format!("{} at byte {}", row.end_file, row.end_position);
        format!("journal of shard {}: {commits} commits from {} on, up to {ends}{why}", image.shard, row.from_sequence)
    });
    if let Some(torn) = torn {
        let what = format!(
            "commit {} is not whole: it was being written when the broker was ended; no later commit says that it had been durable",
            torn.head.sequence
        );
        let remedy = "as it should be after a crash; after an orderly stop it is damage to records that may have been acknowledged";
        report.note(Place::new(&path(torn.file), torn.offset), what, Some(remedy));
    }
    if scan.frames_dropped > 0 {
        let what = format!(
            "commit {missing} is missing: {} that were written after it, and never acknowledged, are dropped",
            scan.frames_dropped
        );
        report.note(Place::new(&path(file), position), what, None);
    }
}
