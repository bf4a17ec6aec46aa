//! The files of a shard's journal: made once, written for ever.
//!
//! Owner: the shard's store. A file is born under another name, filled with real zeros and synced before it takes its own, so that
//! later writes change no metadata and no crash leaves half a file. Files of other sizes are of an earlier configuration; recovery
//! has replayed them, and they go.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use base::{KIB, ShardId};
use shard::{File, OpenOptions, Shard, Slice, WriteSync};

use crate::config::paths;

const ZEROS_BYTES: usize = 128 * KIB;
/// Zero writes in flight while a file is made before the store is ready.
const ZEROS_AT_ONCE: u64 = 8;

/// The open files of a journal by their numbers.
pub struct JournalFiles {
    shard: Shard,
    data_dir: PathBuf,
    of: ShardId,
    file_bytes: u64,
    open: BTreeMap<u32, File>,
}

/// How urgently zeros are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Somebody waits for the store to be ready.
    Start,
    /// One small write at a time, beside commits.
    Background,
}

impl JournalFiles {
    /// Opens what is there of the right size, removes what is not, and makes files up to `count`.
    ///
    /// # Errors
    /// I/O, a full disk included.
    pub async fn open(shard: &Shard, data_dir: PathBuf, of: ShardId, file_bytes: u64, count: u32) -> io::Result<Self> {
        let dir = paths::shard_dir(&data_dir, of);
        let mut files = Self { shard: shard.clone(), data_dir, of, file_bytes, open: BTreeMap::new() };
        for entry in shard.fs().list(&dir).await? {
            let number = paths::journal_number(&entry.name);
            match number.filter(|_| entry.bytes == file_bytes) {
                Some(number) => files.adopt(number).await?,
                None if entry.name.starts_with("journal-") => shard.fs().remove(dir.join(&entry.name)).await?,
                None => {}
            }
        }
        while files.open.len() < count as usize {
            files.make(Pace::Start).await?;
        }
        Ok(files)
    }

    async fn adopt(&mut self, number: u32) -> io::Result<()> {
        let path = paths::journal_file(&self.data_dir, self.of, number);
        let options = OpenOptions { read: true, write: true, create: false, exclusive: false, direct: true };
        let file = self.shard.fs().open(path, options).await?;
        self.open.insert(number, file);
        Ok(())
    }

    /// Makes one more file and returns its number; durable, name and all, when it returns.
    ///
    /// # Errors
    /// I/O, a full disk included; nothing of it is left then but a name that the next start removes.
    pub async fn make(&mut self, pace: Pace) -> io::Result<u32> {
        let number = self.next_number();
        let made = make_file(&self.shard, &self.data_dir, self.of, number, self.file_bytes, pace).await?;
        self.open.insert(number, made);
        Ok(number)
    }

    /// The lowest number that is not taken.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        (0..).find(|number| !self.open.contains_key(number)).expect("fewer files than numbers")
    }

    /// Takes over a file made by [`make_file`].
    pub fn insert(&mut self, number: u32, file: File) {
        self.open.insert(number, file);
    }

    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// # Panics
    /// For a number that is not of this journal.
    #[must_use]
    pub fn get(&self, number: u32) -> File {
        self.open[&number].clone()
    }
}

/// Makes a journal file of zeros; see [`JournalFiles::make`].
///
/// # Errors
/// I/O, a full disk included.
pub async fn make_file(
    shard: &Shard,
    data_dir: &std::path::Path,
    of: ShardId,
    number: u32,
    file_bytes: u64,
    pace: Pace,
) -> io::Result<File> {
    let (fs, dir) = (shard.fs(), paths::shard_dir(data_dir, of));
    let path = paths::journal_file(data_dir, of, number);
    let unfinished = dir.join(format!("journal-{number}.new"));
    let options = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: true };
    let file = fs.open(&unfinished, options).await?;
    let made = async {
        fs.allocate(&file, 0, file_bytes).await?;
        fill_with_zeros(shard, &file, file_bytes, pace).await?;
        file.datasync().await?;
        fs.rename(&unfinished, &path).await?;
        fs.sync_dir(&dir).await
    };
    match made.await {
        Ok(()) => Ok(file),
        Err(error) => {
            // Its room is needed elsewhere; if this fails too, the next start removes it.
            let _ = fs.remove(&unfinished).await;
            Err(error)
        }
    }
}

async fn fill_with_zeros(shard: &Shard, file: &File, file_bytes: u64, pace: Pace) -> io::Result<()> {
    let mut zeros = shard.arena().alloc_wait(ZEROS_BYTES).await;
    zeros.set_len(ZEROS_BYTES);
    zeros.fill(0);
    let zeros = zeros.freeze();
    let at_once = if pace == Pace::Start { ZEROS_AT_ONCE } else { 1 };
    let mut position = 0;
    while position < file_bytes {
        // One write of several slices of the same zeros: large for the device, small for memory.
        let bytes = (file_bytes - position).min(ZEROS_BYTES as u64 * at_once);
        let whole = (bytes / ZEROS_BYTES as u64) as usize;
        let rest = (bytes % ZEROS_BYTES as u64) as usize;
        let mut data: Vec<Slice> = vec![zeros.clone(); whole];
        if rest > 0 {
            data.push(zeros.slice(..rest));
        }
        file.write_at(position, data, WriteSync::None).await?;
        position += bytes;
        shard.yield_now().await;
    }
    Ok(())
}
