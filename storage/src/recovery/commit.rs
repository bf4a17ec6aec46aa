//! The commit of a recovery: the manifests of the new generation, then the end of what they replace.

use std::io;
use std::path::Path;

use base::ShardId;
use shard::Shard;

use super::apply::ApplyContext;
use super::{RecoverError, RecoveredShard};
use crate::config::{RecoverConfig, paths};
use crate::journal::scan::JournalPosition;
use crate::manifest::file::ManifestFiles;
use crate::manifest::{COPY_NAMES, LogRecord, ManifestHead};

/// Makes `logs` the content of the data directory: durable when it returns.
pub(super) async fn commit(
    context: &ApplyContext,
    config: &RecoverConfig,
    dirs: &[ShardId],
    logs: Vec<(ShardId, LogRecord)>,
) -> Result<Vec<RecoveredShard>, RecoverError> {
    let shard = &context.shard;
    let mut generations = Vec::new();
    for number in 0..config.shards {
        let owner = ShardId(number);
        let owned = logs.iter().filter(|(of, _)| *of == owner).map(|(_, log)| log.clone()).collect();
        generations.push(Generation::begin(context, owner, owned).await?);
    }
    // From here on every log has its record in a manifest of the new generation, under the highest epoch.
    for &old in dirs.iter().filter(|dir| dir.0 >= config.shards) {
        if context.images.iter().any(|image| image.shard == old) {
            let generation = Generation::begin(context, old, Vec::new()).await?;
            // Both copies at once: of names that are removed a power cut may bring back either.
            generation.finish().await?;
        }
        retire(shard, &config.data_dir, old).await?;
    }
    // The second copies last: until here each directory still has a whole copy of what it was.
    for generation in &generations {
        generation.finish().await?;
    }
    Ok(generations.into_iter().map(|generation| generation.into_recovered(config.shards)).collect())
}

/// A shard directory that starts over.
struct Generation {
    head: ManifestHead,
    logs: Vec<LogRecord>,
    records: Vec<Vec<u8>>,
    files: ManifestFiles,
    second_copy: usize,
    path: std::path::PathBuf,
}

impl Generation {
    /// Writes the first copy, over the older of the two.
    async fn begin(context: &ApplyContext, of: ShardId, logs: Vec<LogRecord>) -> Result<Self, RecoverError> {
        let (shard, dir) = (&context.shard, paths::shard_dir(&context.data_dir, of));
        shard.fs().create_dir_all(&dir).await.map_err(RecoverError::io("create", &dir))?;
        let old = context.images.iter().find(|image| image.shard == of);
        let version = old.map_or(0, |image| image.manifest.head.version.max(image.scan.manifest_version_max)) + 1;
        let sequence = old.map_or(1, |image| {
            let seen = image.scan.sequence_max.max(image.manifest.head.replay_from.sequence);
            seen + 1
        });
        let replay_from = JournalPosition { sequence, file: 0, offset: 0 };
        let head = ManifestHead { shard: of, version, salt: shard.random(), replay_from };
        let copy = old.map_or(0, |image| 1 - image.newest_copy);
        let files = ManifestFiles::open(shard, &dir).await.map_err(RecoverError::io("open the manifests in", &dir))?;
        for parent in [paths::shards_dir(&context.data_dir), context.data_dir.clone()] {
            shard.fs().sync_dir(&parent).await.map_err(RecoverError::io("sync", parent))?;
        }
        let records = logs.iter().map(LogRecord::encode).collect();
        let generation = Self { head, logs, records, files, second_copy: 1 - copy, path: dir };
        generation.write(copy).await?;
        Ok(generation)
    }

    async fn write(&self, copy: usize) -> Result<(), RecoverError> {
        let path = self.path.join(COPY_NAMES[copy]);
        let written = self.files.write(copy, &self.head, &self.records).await;
        written.map(drop).map_err(RecoverError::io("write", path))
    }

    async fn finish(&self) -> Result<(), RecoverError> {
        self.write(self.second_copy).await
    }

    fn into_recovered(self, shards: u16) -> RecoveredShard {
        RecoveredShard { shard: self.head.shard, shards, head: self.head, logs: self.logs, trash: Vec::new() }
    }
}

/// Removes the directory of a shard that no longer exists; both copies of its manifest already say that it owns nothing. Journals go
/// first: without a manifest they would be taken for a loss.
async fn retire(shard: &Shard, data_dir: &Path, of: ShardId) -> Result<(), RecoverError> {
    let (fs, dir) = (shard.fs(), paths::shard_dir(data_dir, of));
    let entries = fs.list(&dir).await.map_err(RecoverError::io("list", &dir))?;
    let is_manifest = |name: &str| COPY_NAMES.contains(&name);
    for entry in entries.iter().filter(|entry| !entry.is_dir && !is_manifest(&entry.name)) {
        let path = dir.join(&entry.name);
        fs.remove(&path).await.map_err(RecoverError::io("remove", path))?;
    }
    fs.sync_dir(&dir).await.map_err(RecoverError::io("sync", &dir))?;
    for name in COPY_NAMES {
        match fs.remove(dir.join(name)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RecoverError::io("remove", dir.join(name))(error));
            }
            _ => {}
        }
    }
    fs.remove_dir(&dir).await.map_err(RecoverError::io("remove", &dir))?;
    let parent = paths::shards_dir(data_dir);
    fs.sync_dir(&parent).await.map_err(RecoverError::io("sync", parent))
}
