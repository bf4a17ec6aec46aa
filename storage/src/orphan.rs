//! Orphan files: what the journal held of a log whose own files failed.
//!
//! One is made of journal frames with a salt of its own and holds every entry of its log since the manifest record that it follows;
//! the manifest goes on to hold that record, marked offline. The next start replays it, as it would the journal, and if the log's
//! files can be written then, the log is online again and its orphan goes.

use std::io;
use std::path::{Path, PathBuf};

use base::MIB;
use shard::{File, OpenOptions, Shard, WriteSync};

use crate::config::{LogId, paths};
use crate::journal::codec::{Control, Entries, Entry, FrameHead, FrameWriter, frame_at};
use crate::manifest::LogRecord;

/// A longer file is no orphan: they hold at most what a journal does.
pub const ORPHAN_BYTES_MAX: usize = 512 * MIB;

/// An orphan being written.
pub(crate) struct OrphanWriter {
    shard: Shard,
    log: LogId,
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
    position: u64,
    sequence: u64,
    salt: u64,
}

impl OrphanWriter {
    pub(crate) async fn create(shard: &Shard, data_dir: &Path, log: LogId) -> io::Result<Self> {
        let path = paths::orphan_file(data_dir, log);
        let unfinished = path.with_extension("new");
        shard.fs().create_dir_all(paths::orphans_dir(data_dir)).await?;
        let options = OpenOptions { read: false, write: true, create: true, exclusive: false, direct: true };
        let file = shard.fs().open(&unfinished, options).await?;
        let salt = shard.random();
        Ok(Self { shard: shard.clone(), log, file, unfinished, path, position: 0, sequence: 1, salt })
    }

    /// Takes over the log's entries of one frame of the journal. What comes before the log was removed or placed is of an earlier
    /// life of it, and dropped.
    pub(crate) async fn frame(&mut self, head: &FrameHead, body: &[u8]) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in Entries::new(head, body) {
            let entry = entry.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if log_of(&entry) != Some(self.log) {
                continue;
            }
            if matches!(
                entry,
                Entry::Control(Control::Remove { .. } | Control::Released { .. } | Control::Placed { .. })
            ) {
                entries.clear();
                (self.position, self.sequence) = (0, 1);
            } else {
                entries.push(entry);
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut buf = self.shard.arena().alloc_wait(head.frame_bytes()).await;
        buf.set_len(head.frame_bytes());
        let mut writer = FrameWriter::new(&mut buf);
        entries.iter().for_each(|entry| writer.copy(entry));
        let bytes = writer.finish(self.salt, self.sequence, self.sequence - 1, 0);
        buf.set_len(bytes);
        self.file.write_at(self.position, vec![buf.freeze()], WriteSync::None).await?;
        self.position += bytes as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Makes it durable under its name.
    pub(crate) async fn finish(self) -> io::Result<()> {
        let fs = self.shard.fs();
        fs.set_len(&self.file, self.position).await?;
        self.file.datasync().await?;
        fs.rename(&self.unfinished, &self.path).await?;
        fs.sync_dir(self.path.parent().expect("a file in the orphans' directory")).await
    }
}

fn log_of(entry: &Entry<'_>) -> Option<LogId> {
    Some(match entry {
        Entry::Append { at, .. } => at.log,
        Entry::BlockPrefix { log, .. } => *log,
        Entry::Control(control) => match control {
            Control::Create { log, .. }
            | Control::Remove { log }
            | Control::Truncate { log, .. }
            | Control::StartMoved { log, .. }
            | Control::EpochAdopted { log, .. }
            | Control::Roll { log, .. }
            | Control::Released { log, .. }
            | Control::Compacted { log, .. } => *log,
            Control::Placed { record } => LogRecord::decode(record).ok()?.id,
        },
    })
}

/// The frames of an orphan file, each with where its body stands; fewer than there were if the file is damaged.
pub(crate) fn frames(content: &[u8]) -> impl Iterator<Item = (FrameHead, &[u8], u64)> {
    let salt = FrameHead::parse(content).map(|head| head.salt);
    let (mut at, mut sequence) = (0, 1);
    std::iter::from_fn(move || {
        let (head, body) = frame_at(content.get(at..)?, salt?).filter(|(head, _)| head.sequence == sequence)?;
        let body_at = at + crate::journal::codec::FRAME_HEAD_BYTES;
        at += head.frame_bytes();
        sequence += 1;
        Some((head, body, body_at as u64))
    })
}

/// Reads a log's orphan whole; `None` where there is none, or it is damaged.
pub(crate) async fn read(shard: &Shard, data_dir: &Path, log: LogId) -> io::Result<Option<Vec<u8>>> {
    let content = match shard.fs().read_file(paths::orphan_file(data_dir, log), ORPHAN_BYTES_MAX).await {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // It was durable, whole, before its name was.
    let whole = frames(&content).last().map_or(0, |(head, _, body_at)| {
        body_at as usize - crate::journal::codec::FRAME_HEAD_BYTES + head.frame_bytes()
    });
    Ok((whole == content.len()).then_some(content))
}
