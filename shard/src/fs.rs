//! Files, and the file-system work that blocks.
//!
//! Owner: the shard that opened the file. Reads and writes go to the ring; what [`Fs`] does is one janitor operation each, carried out
//! in the order it was asked for. Offsets, lengths and buffers of a direct file are multiples of [`File::alignment`].

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::buffer::{Buf, Slice};
use crate::driver::{DirEntry, FileId, FileStat, FsOp, Op, OpenOptions, Outcome, Space, WriteSync};
use crate::ops::mismatch;
use crate::shard::Shard;

/// File-system work on behalf of one shard.
#[derive(Clone)]
pub struct Fs {
    shard: Shard,
}

impl Fs {
    pub(crate) fn new(shard: Shard) -> Self {
        Self { shard }
    }

    async fn ask(&self, op: FsOp) -> io::Result<Outcome> {
        self.shard.submit(Op::Fs(op)).await
    }

    async fn done(&self, op: FsOp) -> io::Result<()> {
        match self.ask(op).await? {
            Outcome::Done => Ok(()),
            other => mismatch(&other),
        }
    }

    pub async fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> io::Result<File> {
        match self.ask(FsOp::Open { path: owned(path), options }).await? {
            Outcome::File { file, bytes, alignment } => {
                let shard = self.shard.clone();
                Ok(File(Rc::new(OpenFile { shard, id: file, bytes_at_open: bytes, alignment })))
            }
            other => mismatch(&other),
        }
    }

    pub async fn create_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::CreateDirAll { path: owned(path) }).await
    }

    /// Removes an empty directory.
    pub async fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::RemoveDir { path: owned(path) }).await
    }

    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::Rename { from: owned(from), to: owned(to) }).await
    }

    /// Removes a file.
    pub async fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::Remove { path: owned(path) }).await
    }

    /// What the directory holds, in name order.
    pub async fn list(&self, path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
        match self.ask(FsOp::List { path: owned(path) }).await? {
            Outcome::Entries(entries) => Ok(entries),
            other => mismatch(&other),
        }
    }

    pub async fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        let _open = file.clone();
        self.done(FsOp::SetLen { file: file.0.id, len }).await
    }

    /// Reserves space and extends the size to at least `offset + len`; the new bytes read as zeros.
    pub async fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let _open = file.clone();
        self.done(FsOp::Allocate { file: file.0.id, offset, len }).await
    }

    /// Makes the names in a directory durable.
    pub async fn sync_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::SyncDir { path: owned(path) }).await
    }

    /// `syncfs` of the file system that holds `path`.
    pub async fn sync_fs(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::SyncFs { path: owned(path) }).await
    }

    pub async fn space(&self, path: impl AsRef<Path>) -> io::Result<Space> {
        match self.ask(FsOp::Space { path: owned(path) }).await? {
            Outcome::Space(space) => Ok(space),
            other => mismatch(&other),
        }
    }

    /// `None` where nothing is there.
    pub async fn stat(&self, path: impl AsRef<Path>) -> io::Result<Option<FileStat>> {
        match self.ask(FsOp::Stat { path: owned(path) }).await? {
            Outcome::Stat(stat) => Ok(stat),
            other => mismatch(&other),
        }
    }

    /// A small file, whole; longer than `limit_bytes` is `InvalidData`.
    pub async fn read_file(&self, path: impl AsRef<Path>, limit_bytes: usize) -> io::Result<Vec<u8>> {
        match self.ask(FsOp::ReadFile { path: owned(path), limit: limit_bytes }).await? {
            Outcome::Content(content) => Ok(content),
            other => mismatch(&other),
        }
    }

    /// Replaces a small file as a whole: after a crash it is the old one or the new one.
    pub async fn write_file_durably(&self, path: impl AsRef<Path>, content: Vec<u8>) -> io::Result<()> {
        self.done(FsOp::WriteFileDurably { path: owned(path), content }).await
    }

    /// Takes an exclusive lock until the process ends; `WouldBlock` where another process holds it.
    pub async fn lock(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.done(FsOp::Lock { path: owned(path) }).await
    }
}

fn owned(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_owned()
}

/// An open file. Clones are the same file; it is closed when the last one goes.
#[derive(Clone)]
pub struct File(Rc<OpenFile>);

struct OpenFile {
    shard: Shard,
    id: FileId,
    bytes_at_open: u64,
    alignment: usize,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.shard.submit_detached(Op::CloseFile { file: self.id });
    }
}

impl File {
    /// Reads up to `len` bytes into arena memory; short only at the end of the file. Waits for memory if need be.
    pub async fn read_at(&self, offset: u64, len: usize) -> io::Result<Buf> {
        let buf = self.0.shard.arena().alloc_wait(len).await;
        self.read_into(offset, buf, len).await
    }

    /// As [`File::read_at`], into a buffer of the caller's; what it held is overwritten.
    pub async fn read_into(&self, offset: u64, buf: Buf, len: usize) -> io::Result<Buf> {
        assert!(len <= buf.capacity(), "{len} bytes into a buffer of {}", buf.capacity());
        self.check(offset, len)?;
        match self.0.shard.submit(Op::Read { file: self.0.id, offset, buf, len }).await? {
            Outcome::Read { mut buf, len } => {
                buf.set_len(len);
                Ok(buf)
            }
            other => mismatch(&other),
        }
    }

    /// Writes all slices one after another, or fails. Dropping the future does not undo what was written.
    pub async fn write_at(&self, offset: u64, data: Vec<Slice>, sync: WriteSync) -> io::Result<()> {
        self.check(offset, 0)?;
        for slice in &data {
            self.check(slice.as_ptr() as u64, slice.len())?;
        }
        self.done(Op::Write { file: self.0.id, offset, data, sync }).await
    }

    /// Makes the file's content, and the size it needs to be read, durable.
    pub async fn datasync(&self) -> io::Result<()> {
        self.done(Op::Datasync { file: self.0.id }).await
    }

    async fn done(&self, op: Op) -> io::Result<()> {
        match self.0.shard.submit(op).await? {
            Outcome::Done => Ok(()),
            other => mismatch(&other),
        }
    }

    /// What offsets, lengths and addresses must be multiples of; 1 for a file that is not direct.
    #[must_use]
    pub fn alignment(&self) -> usize {
        self.0.alignment
    }

    /// The size when it was opened.
    #[must_use]
    pub fn bytes_at_open(&self) -> u64 {
        self.0.bytes_at_open
    }

    fn check(&self, position: u64, len: usize) -> io::Result<()> {
        let alignment = self.0.alignment as u64;
        if position.is_multiple_of(alignment) && (len as u64).is_multiple_of(alignment) {
            return Ok(());
        }
        let what = format!("{len} bytes at {position:#x} are not aligned to {alignment}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}
