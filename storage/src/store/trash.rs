//! Deleting what is in the trash: files shrink step by step before they go, for freeing a large file in one go holds up the journal.

use std::io;
use std::path::{Path, PathBuf};

use base::MIB;
use shard::{OpenOptions, Shard};

/// Freed at a time.
const STEP_BYTES: u64 = 16 * MIB as u64;

/// Deletes files and directories of files; what cannot be deleted is left for the next start.
pub(crate) async fn empty(shard: Shard, trashed: Vec<PathBuf>) {
    for path in trashed {
        if let Err(error) = delete(&shard, &path).await {
            tracing::warn!(path = %path.display(), %error, "could not be deleted; the next start will try again");
        }
    }
}

async fn delete(shard: &Shard, path: &Path) -> io::Result<()> {
    let fs = shard.fs();
    match fs.stat(path).await? {
        None => Ok(()),
        Some(stat) if stat.is_dir => {
            for entry in fs.list(path).await? {
                // Log directories hold files only; anything else makes the removal below fail, and stays.
                if !entry.is_dir {
                    delete_file(shard, &path.join(&entry.name), entry.bytes).await?;
                }
            }
            fs.remove_dir(path).await
        }
        Some(stat) => delete_file(shard, path, stat.bytes).await,
    }
}

async fn delete_file(shard: &Shard, path: &Path, mut bytes: u64) -> io::Result<()> {
    if bytes > STEP_BYTES {
        let options = OpenOptions { write: true, direct: true, ..OpenOptions::default() };
        let file = shard.fs().open(path, options).await?;
        while bytes > STEP_BYTES {
            bytes -= STEP_BYTES;
            shard.fs().set_len(&file, bytes).await?;
            shard.yield_now().await;
        }
    }
    shard.fs().remove(path).await
}
