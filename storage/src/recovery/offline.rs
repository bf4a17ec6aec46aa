//! Logs whose files fail, or failed before: their orphans are replayed, or made.

use std::collections::BTreeSet;
use std::path::Path;

use base::WallTime;
use shard::Shard;

use super::RecoverError;
use super::image::ShardImage;
use super::log_replay::{LogReplay, Source};
use super::replay::ShardReplay;
use crate::config::{LogId, paths};
use crate::orphan::{self, OrphanWriter};

/// Replays the orphans of logs that were offline; those without a good one stay so.
pub(super) async fn bring_back(
    shard: &Shard,
    data_dir: &Path,
    image: &mut ShardImage,
    replay: &mut ShardReplay,
    now: WallTime,
) -> Result<(), RecoverError> {
    let offline: Vec<LogId> = replay.logs.values().filter(|log| log.offline).map(|log| log.id).collect();
    for id in offline {
        let path = paths::orphan_file(data_dir, id);
        let content = orphan::read(shard, data_dir, id).await.map_err(RecoverError::io("read", &path))?;
        let Some(content) = content else { continue };
        let mut record = (*replay.logs[&id].origin).clone();
        record.offline = false;
        let file = image.journal.add_orphan(path, content);
        if let Some(log) = replay_orphan(image, file, record, now) {
            replay.logs.insert(id, LogReplay { from_orphan: true, ..log });
        }
    }
    Ok(())
}

fn replay_orphan(
    image: &ShardImage,
    file: u32,
    record: crate::manifest::LogRecord,
    now: WallTime,
) -> Option<LogReplay> {
    let id = record.id;
    let mut alone = ShardReplay::new(vec![record]).ok()?;
    for (head, body, offset) in orphan::frames(image.journal.content(file)?) {
        alone.frame(&head, body, Source { file, offset }, now).ok()?;
    }
    alone.logs.remove(&id)
}

/// Keeps what the journal holds of a log whose files cannot be written now.
pub(super) async fn set_aside(
    shard: &Shard,
    data_dir: &Path,
    image: &ShardImage,
    log: LogReplay,
) -> Result<LogReplay, RecoverError> {
    // An orphan that could not be replayed into the log's files stays as it is.
    let had_orphan = log.origin.offline || log.from_orphan;
    if !had_orphan {
        let path = paths::orphan_file(data_dir, log.id);
        let io = || RecoverError::io("write", path.clone());
        let mut orphan = OrphanWriter::create(shard, data_dir, log.id).await.map_err(io())?;
        for frame in &image.scan.frames {
            let (body, _) = image.body(shard, frame).await?;
            orphan.frame(&frame.head, &body).await.map_err(io())?;
        }
        orphan.finish().await.map_err(io())?;
    }
    Ok(log.into_offline())
}

/// Removes the orphans of logs that are online again, or gone; `offline` are those that are not.
pub(super) async fn remove_stale(
    shard: &Shard,
    data_dir: &Path,
    offline: &BTreeSet<LogId>,
) -> Result<(), RecoverError> {
    let dir = paths::orphans_dir(data_dir);
    for entry in shard.fs().list(&dir).await.map_err(RecoverError::io("list", &dir))? {
        let name = entry.name.strip_suffix(".journal").or_else(|| entry.name.strip_suffix(".new"));
        let stale = name.and_then(paths::parse_log_dir).is_some_and(|id| !offline.contains(&id));
        if stale && !entry.is_dir {
            let path = dir.join(&entry.name);
            shard.fs().remove(&path).await.map_err(RecoverError::io("remove", path))?;
        }
    }
    Ok(())
}
