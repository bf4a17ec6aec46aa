//! Files and directories that were written since the last checkpoint and are not synced yet. Pure.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::config::LogId;
use crate::segment::{FileKey, SegmentName};

/// What the next checkpoint has to sync.
#[derive(Debug, Default)]
pub(crate) struct DirtySet {
    files: BTreeSet<FileKey>,
    /// Directories in which names are new or gone.
    dirs: BTreeSet<PathBuf>,
}

impl DirtySet {
    pub(crate) fn file(&mut self, key: FileKey) {
        self.files.insert(key);
    }

    pub(crate) fn dir(&mut self, dir: PathBuf) {
        self.dirs.insert(dir);
    }

    /// Takes everything: what is written from now on is for the checkpoint after.
    pub(crate) fn take(&mut self) -> (Vec<FileKey>, Vec<PathBuf>) {
        let (files, dirs) = (std::mem::take(&mut self.files), std::mem::take(&mut self.dirs));
        // The deepest first: a name counts only once the directory above knows its own.
        (files.into_iter().collect(), dirs.into_iter().rev().collect())
    }

    /// The segment is gone, or its bytes have moved to an orphan.
    pub(crate) fn forget(&mut self, log: LogId, segment: SegmentName) {
        self.files.retain(|key| key.log != log || key.segment != segment);
    }

    pub(crate) fn forget_log(&mut self, log: LogId) {
        self.files.retain(|key| key.log != log);
    }
}
