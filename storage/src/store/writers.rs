//! Segment and index files open for writing: few at a time, for most logs are idle.
//!
//! Owner: a shard's store. Creating a file notes its directory for the next checkpoint, which makes the name durable.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use shard::{File, OpenOptions, Shard};

use crate::config::LogId;
use crate::segment::{FileKey, SegmentName};

/// The open files, least recently used first out. Writes to one file are made by one task at a time (the log's turn), so two
/// openings of one file do not race.
pub(crate) struct WriteFiles {
    shard: Shard,
    open_max: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Each with when it was used last.
    open: BTreeMap<FileKey, (File, u64)>,
    /// The same by that time.
    by_use: BTreeMap<u64, FileKey>,
    tick: u64,
}

impl State {
    /// The file, used now.
    fn using(&mut self, key: FileKey) -> Option<File> {
        let (file, used) = self.open.get_mut(&key)?;
        self.tick += 1;
        self.by_use.remove(used);
        *used = self.tick;
        self.by_use.insert(self.tick, key);
        Some(file.clone())
    }

    fn forget(&mut self, is_gone: impl Fn(&FileKey) -> bool) {
        let Self { open, by_use, .. } = self;
        open.retain(|key, _| !is_gone(key));
        by_use.retain(|_, key| !is_gone(key));
    }
}

/// A file, and whether it was opened, and so perhaps made, just now.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) fresh: bool,
}

impl WriteFiles {
    pub(crate) fn new(shard: Shard, open_max: usize) -> Self {
        Self { shard, open_max: open_max.max(1), state: RefCell::default() }
    }

    /// Opens or creates a file in `dir`, and `dir` if it is not there.
    pub(crate) async fn open(&self, key: FileKey, dir: &Path) -> io::Result<Opened> {
        let known = self.state.borrow_mut().using(key);
        if let Some(file) = known {
            return Ok(Opened { file, fresh: false });
        }
        let path = key.path(dir);
        let options = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: true };
        let file = match self.shard.fs().open(&path, options).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.shard.fs().create_dir_all(dir).await?;
                self.shard.fs().open(&path, options).await?
            }
            opened => opened?,
        };
        self.insert(key, file.clone());
        Ok(Opened { file, fresh: true })
    }

    fn insert(&self, key: FileKey, file: File) {
        let mut state = self.state.borrow_mut();
        while state.open.len() >= self.open_max {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            state.open.remove(&oldest);
        }
        state.tick += 1;
        let tick = state.tick;
        if let Some((_, used)) = state.open.insert(key, (file, tick)) {
            state.by_use.remove(&used);
        }
        state.by_use.insert(tick, key);
    }

    pub(crate) fn forget(&self, log: LogId, segment: SegmentName) {
        self.state.borrow_mut().forget(|key| key.log == log && key.segment == segment);
    }

    pub(crate) fn forget_log(&self, log: LogId) {
        self.state.borrow_mut().forget(|key| key.log == log);
    }
}

/// The directories whose entries must be durable for a log's files to be found: its own and those above, up to the data directory.
pub(crate) fn name_dirs(data_dir: &Path, dir: &Path) -> Vec<PathBuf> {
    dir.ancestors().take_while(|ancestor| *ancestor != data_dir).map(Path::to_owned).collect()
}
