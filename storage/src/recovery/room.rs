//! Room for a recovery on a disk that is full: what lies in the trash, then the ballast.
//!
//! Both are nobody's. What recovery itself puts into the trash was dropped by a journal entry or lies below its log's start, and a
//! recovery that begins anew does without it.

use std::path::Path;

use shard::Shard;

use crate::config::paths;

/// Makes some room; false when there is nothing left to make it of. What cannot be removed stays.
pub(super) async fn make_room(shard: &Shard, data_dir: &Path) -> bool {
    empty_trash(shard, data_dir).await || shard.fs().remove(paths::ballast_file(data_dir)).await.is_ok()
}

async fn empty_trash(shard: &Shard, data_dir: &Path) -> bool {
    let (fs, trash) = (shard.fs(), paths::trash_dir(data_dir));
    let mut removed = false;
    for entry in fs.list(&trash).await.unwrap_or_default() {
        let path = trash.join(&entry.name);
        if !entry.is_dir {
            removed |= fs.remove(&path).await.is_ok();
            continue;
        }
        for file in fs.list(&path).await.unwrap_or_default() {
            removed |= fs.remove(path.join(&file.name)).await.is_ok();
        }
        removed |= fs.remove_dir(&path).await.is_ok();
    }
    removed
}
