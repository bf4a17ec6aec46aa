//! Looks at what else lies in a data directory: orphans, trash, logs that nobody knows.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use shard::{DirEntry, Shard};
use storage::LogId;
use storage::config::paths;
use storage::recovery::Survey;
use storage::segment::{SegmentName, parse_file_name};

use super::super::failure::Failure;
use super::frames::FrameReader;
use super::report::{Place, Report};
use super::verify::RESTORE;
use super::{open, unreadable};

/// `found` is what a start would find, where it would get that far.
pub async fn check(shard: &Shard, data_dir: &Path, found: Option<&Survey>, report: &mut Report) -> Result<(), Failure> {
    orphans(shard, &paths::orphans_dir(data_dir), report).await?;
    trash(shard, &paths::trash_dir(data_dir), report).await?;
    match found {
        Some(found) => unknown(shard, data_dir, found, report).await,
        None => Ok(()),
    }
}

/// What a directory holds; nothing where there is none.
async fn list(shard: &Shard, dir: &Path) -> Result<Vec<DirEntry>, Failure> {
    match shard.fs().list(dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(unreadable(dir)),
    }
}

async fn orphans(shard: &Shard, dir: &Path, report: &mut Report) -> Result<(), Failure> {
    for entry in list(shard, dir).await? {
        let path = dir.join(&entry.name);
        let log = entry.name.strip_suffix(".journal").and_then(paths::parse_log_dir);
        let Some(log) = log.filter(|_| !entry.is_dir) else {
            report.note(
                Place::new(&path, 0),
                "not a whole orphan: the next start removes what it knows, the rest stays",
                None,
            );
            continue;
        };
        match whole_to(shard, &path).await.map_err(unreadable(&path))? {
            end if end == entry.bytes => {
                let what =
                    format!("what the journal held of log {log} when a file of that failed: the next start replays it");
                report.note(Place::new(&path, 0), what, None);
            }
            end => report.damage(Place::new(&path, end), "a commit of this orphan is damaged", Some(RESTORE)),
        }
    }
    Ok(())
}

/// Where the commits of an orphan, which count from 1, cease to follow one another.
async fn whole_to(shard: &Shard, path: &Path) -> io::Result<u64> {
    let Some(file) = open(shard, path).await? else { return Ok(0) };
    let mut reader = FrameReader::new(&file);
    let (mut end, mut sequence, mut salt) = (0, 1, None);
    while let Some((position, head, _)) = reader.next().await? {
        if position != end || head.sequence != sequence || salt.is_some_and(|salt| salt != head.salt) {
            break;
        }
        (end, sequence, salt) = (position + head.frame_bytes() as u64, sequence + 1, Some(head.salt));
    }
    Ok(end)
}

async fn trash(shard: &Shard, dir: &Path, report: &mut Report) -> Result<(), Failure> {
    let entries = list(shard, dir).await?.len();
    if entries > 0 {
        let what =
            format!("{entries} removed files or logs whose room is not given back yet: a running broker does that");
        report.note(Place::new(dir, 0), what, None);
    }
    Ok(())
}

/// Logs, and segments of logs, that no manifest and no journal knows.
async fn unknown(shard: &Shard, data_dir: &Path, found: &Survey, report: &mut Report) -> Result<(), Failure> {
    let logs_dir = paths::logs_dir(data_dir);
    for topic in list(shard, &logs_dir).await?.iter().filter(|entry| entry.is_dir) {
        let topic_dir = logs_dir.join(&topic.name);
        for entry in list(shard, &topic_dir).await? {
            let dir = topic_dir.join(&entry.name);
            let id = paths::parse_log_dir(&entry.name).filter(|_| entry.is_dir);
            let known = id.and_then(|id| segments_of(found, &topic.name, id));
            match (id, known) {
                (_, Some(segments)) => strays(shard, &dir, &segments, report).await?,
                (Some(_), None) => {
                    let what = "no manifest and no journal knows this log: the next start moves it to the trash";
                    report.note(Place::new(&dir, 0), what, Some("move it elsewhere first, if it is wanted"));
                }
                (None, _) => {
                    report.note(Place::new(&dir, 0), "not a log by its name: the broker leaves it alone", None)
                }
            }
        }
    }
    Ok(())
}

/// The segments of a log, with those that are on their way out.
fn segments_of(found: &Survey, topic: &str, id: LogId) -> Option<BTreeSet<SegmentName>> {
    let planned = found.plan.logs.iter().find(|planned| planned.log.id == id && planned.log.topic == topic)?;
    let kept = planned.log.segments.iter().map(|segment| segment.meta.name());
    Some(kept.chain(planned.expired.iter().copied()).chain(planned.log.dropped.iter().copied()).collect())
}

async fn strays(
    shard: &Shard,
    dir: &Path,
    segments: &BTreeSet<SegmentName>,
    report: &mut Report,
) -> Result<(), Failure> {
    for entry in list(shard, dir).await? {
        let known = parse_file_name(&entry.name).is_some_and(|(segment, _)| segments.contains(&segment));
        if !known {
            let what =
                "no manifest and no journal knows this file: the broker leaves it alone, until it compacts the log";
            report.note(Place::new(&dir.join(&entry.name), 0), what, None);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::session::on_shard;
    use storage::journal::codec::{Control, FrameWriter, JOURNAL_BLOCK_BYTES};

    fn frame(salt: u64, sequence: u64) -> Vec<u8> {
        let mut space = vec![0; JOURNAL_BLOCK_BYTES];
        let mut writer = FrameWriter::new(&mut space);
        writer.control(&Control::Remove { log: LogId::default() }.encode());
        let _ = writer.finish(salt, sequence, sequence - 1, 0);
        space
    }

    #[test]
    fn an_orphan_is_whole_as_far_as_its_commits_follow_one_another() {
        let mut damaged = frame(7, 2);
        damaged[70] ^= 1;
        // commits, how many of them follow one another
        for (commits, whole) in [
            (vec![frame(7, 1), frame(7, 2), frame(7, 3)], 3),
            (vec![frame(7, 1), damaged, frame(7, 3)], 1),
            (vec![frame(7, 1), frame(7, 3)], 1),
            (vec![frame(7, 1), frame(8, 2)], 1),
            (vec![frame(7, 2)], 0),
            (vec![], 0),
        ] {
            let path = std::env::temp_dir().join(format!("tidemill-orphan-{}", std::process::id()));
            std::fs::write(&path, commits.concat()).expect("written");
            let of = path.clone();
            let end = on_shard(move |shard| async move { whole_to(&shard, &of).await.expect("read") });
            std::fs::remove_file(&path).expect("removed");
            assert_eq!(end.expect("a shard"), (whole * JOURNAL_BLOCK_BYTES) as u64);
        }
    }
}
