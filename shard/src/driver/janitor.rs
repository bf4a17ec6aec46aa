//! The janitor: one thread per process for file-system work that may block, so that no shard ever does.
//!
//! Owner: its own thread; shards send [`Request`]s and get [`Answer`]s through their return lanes. Requests of one shard are done in
//! the order in which they were sent. A file it opens goes straight into the asking shard's descriptor table; the process keeps no
//! descriptor of it. Life cycle: starts before the shards, ends when the last of them has dropped its sending end; locks it
//! holds end with it.
//!
//! Invariant: a later request on an open file (`SetLen`, `Allocate`) reaches that very file or fails. The janitor remembers the
//! path and the inode of each file opened for writing, follows renames, and compares the inode before it touches anything.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use base::ShardId;
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags};

use crate::driver::lock_holder::holder_of;
use crate::driver::uring::returns::{Messenger, Return, Returns};
use crate::driver::{DirEntry, FileStat, FsOp, OpId, OpenOptions, Space};

/// Where the file system names no alignment for direct transfers.
const ALIGNMENT_DEFAULT: usize = 4096;

/// The janitor's name for an open file, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileToken(u64);

#[derive(Debug)]
pub(crate) struct Request {
    pub shard: ShardId,
    /// `None`: nobody waits for an answer.
    pub id: Option<OpId>,
    pub task: Task,
}

#[derive(Debug)]
pub(crate) enum Task {
    /// What works on paths alone.
    Path(FsOp),
    SetLen {
        token: FileToken,
        len: u64,
    },
    Allocate {
        token: FileToken,
        offset: u64,
        len: u64,
    },
    /// The file is closed.
    Forget {
        token: FileToken,
    },
}

/// What a request that went well yields; plain data that may cross threads.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Opened { index: u32, token: FileToken, bytes: u64, alignment: usize, direct: bool },
    Entries(Vec<DirEntry>),
    Space(Space),
    Stat(Option<FileStat>),
    Content(Vec<u8>),
}

pub(crate) struct Janitor {
    returns: Returns,
    messenger: Messenger,
    files: HashMap<FileToken, Known>,
    next_token: u64,
    /// Held until the janitor ends, which is the process's end.
    locks: Vec<OwnedFd>,
    told_buffered: bool,
}

/// A file open for writing somewhere.
struct Known {
    path: PathBuf,
    inode: (u32, u32, u64),
}

struct Opened {
    descriptor: OwnedFd,
    bytes: u64,
    alignment: usize,
    direct: bool,
    inode: (u32, u32, u64),
}

impl Janitor {
    pub fn new(returns: Returns, messenger: Messenger) -> Self {
        Self { returns, messenger, files: HashMap::new(), next_token: 0, locks: Vec::new(), told_buffered: false }
    }

    /// Serves until the last shard is gone.
    pub fn run(mut self, requests: &Receiver<Request>) {
        while let Ok(Request { shard, id, task }) = requests.recv() {
            let result = self.serve(shard, task);
            if let Some(id) = id {
                self.returns.send(shard, Return::Answer { id, result });
            }
        }
    }

    fn serve(&mut self, shard: ShardId, task: Task) -> io::Result<Answer> {
        match task {
            Task::Path(FsOp::Open { path, options }) => self.open(shard, &path, options),
            Task::Path(FsOp::Rename { from, to }) => self.rename(&from, &to).map(|()| Answer::Done),
            Task::Path(FsOp::Lock { path }) => self.lock(&path).map(|()| Answer::Done),
            Task::Path(op) => serve_path(op),
            Task::SetLen { token, len } => {
                let file = self.reopen(token)?;
                rustix::fs::ftruncate(&file, len)?;
                Ok(Answer::Done)
            }
            Task::Allocate { token, offset, len } => {
                let file = self.reopen(token)?;
                allocate(&file, offset, len)?;
                Ok(Answer::Done)
            }
            Task::Forget { token } => {
                self.files.remove(&token);
                Ok(Answer::Done)
            }
        }
    }

    fn open(&mut self, shard: ShardId, path: &Path, options: OpenOptions) -> io::Result<Answer> {
        let opened = open_file(path, options)?;
        if options.direct && !opened.direct && !std::mem::replace(&mut self.told_buffered, true) {
            tracing::warn!(
                path = %path.display(),
                "the file system refuses direct I/O, so the page cache is used: slower, and memory beyond the `memory` setting; \
                 put the data directory on ext4 or xfs"
            );
        }
        let index = self.messenger.install(shard, opened.descriptor.as_fd())?;
        let token = FileToken(self.next_token);
        self.next_token += 1;
        if options.write {
            self.files.insert(token, Known { path: path.to_path_buf(), inode: opened.inode });
        }
        let Opened { bytes, alignment, direct, .. } = opened;
        Ok(Answer::Opened { index, token, bytes, alignment, direct })
    }

    /// The file behind a token, open for writing once more.
    fn reopen(&self, token: FileToken) -> io::Result<OwnedFd> {
        let known = self.files.get(&token).ok_or(rustix::io::Errno::BADF)?;
        let file = rustix::fs::open(&known.path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        if facts_of(&file)?.inode != known.inode {
            let path = known.path.display();
            return Err(io::Error::other(format!(
                "{path} is no longer the file that was opened; was it replaced from outside?"
            )));
        }
        Ok(file)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        rustix::fs::rename(from, to)?;
        for known in self.files.values_mut() {
            if let Ok(below) = known.path.strip_prefix(from) {
                // Joining an empty path would add a slash.
                known.path = if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) };
            }
        }
        Ok(())
    }

    fn lock(&mut self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.locks.push(file);
                Ok(())
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::new(io::ErrorKind::WouldBlock, holding(&file))),
            Err(error) => Err(error.into()),
        }
    }
}

fn holding(file: &OwnedFd) -> String {
    match holder_of(file) {
        Some(holder) => format!("{holder} holds its lock"),
        None => "another process, which cannot be seen from here, holds its lock".to_owned(),
    }
}

fn serve_path(op: FsOp) -> io::Result<Answer> {
    match op {
        FsOp::CreateDirAll { path } => std::fs::create_dir_all(path)?,
        FsOp::RemoveDir { path } => std::fs::remove_dir(path)?,
        FsOp::Remove { path } => std::fs::remove_file(path)?,
        FsOp::List { path } => return list(&path).map(Answer::Entries),
        FsOp::SyncDir { path } => sync_dir(&path)?,
        FsOp::SyncFs { path } => {
            let directory = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::syncfs(&directory)?;
        }
        FsOp::Space { path } => {
            let state = rustix::fs::statvfs(&path)?;
            let unit = state.f_frsize;
            return Ok(Answer::Space(Space { free_bytes: state.f_bavail * unit, total_bytes: state.f_blocks * unit }));
        }
        FsOp::Stat { path } => return stat(&path).map(Answer::Stat),
        FsOp::ReadFile { path, limit } => return read_file(&path, limit).map(Answer::Content),
        FsOp::WriteFileDurably { path, content } => write_file_durably(&path, &content)?,
        FsOp::Open { .. } | FsOp::Rename { .. } | FsOp::Lock { .. } | FsOp::SetLen { .. } | FsOp::Allocate { .. } => {
            return Err(io::Error::other("this request needs the janitor's memory of open files"));
        }
    }
    Ok(Answer::Done)
}

/// Opens a file and learns what transfers to it must look like.
fn open_file(path: &Path, options: OpenOptions) -> io::Result<Opened> {
    let mut flags = OFlags::CLOEXEC
        | match (options.read, options.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
    flags.set(OFlags::CREATE, options.create);
    flags.set(OFlags::EXCL, options.create && options.exclusive);
    if options.direct {
        match open_with(path, flags | OFlags::DIRECT, true) {
            Ok(opened) if opened.alignment > 0 => return Ok(opened),
            // Opened, but the file system says that it takes no direct transfers. It exists now, so no longer exclusively.
            Ok(_) => flags.remove(OFlags::EXCL),
            // Some file systems refuse the flag only after they have created the file.
            Err(rustix::io::Errno::INVAL) => flags.remove(OFlags::EXCL),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(open_with(path, flags, false)?)
}

/// The alignment is zero where direct transfers were asked for and cannot be had.
fn open_with(path: &Path, flags: OFlags, direct: bool) -> rustix::io::Result<Opened> {
    let descriptor = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    let facts = facts_of(&descriptor)?;
    let alignment = if direct { facts.alignment } else { 1 };
    Ok(Opened { descriptor, bytes: facts.bytes, alignment, direct, inode: facts.inode })
}

struct Facts {
    inode: (u32, u32, u64),
    bytes: u64,
    /// For direct transfers: what offsets, lengths and memory must be multiples of; zero where there are none.
    alignment: usize,
}

fn facts_of(file: impl AsFd) -> rustix::io::Result<Facts> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    let told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    let alignment =
        if told { found.stx_dio_offset_align.max(found.stx_dio_mem_align) as usize } else { ALIGNMENT_DEFAULT };
    let alignment = if told && found.stx_dio_offset_align == 0 { 0 } else { alignment };
    Ok(Facts { inode: (found.stx_dev_major, found.stx_dev_minor, found.stx_ino), bytes: found.stx_size, alignment })
}

/// What direct transfers to the file must be multiples of; zero where it takes none.
pub(crate) fn direct_alignment(file: impl AsFd) -> io::Result<usize> {
    Ok(facts_of(file)?.alignment)
}

/// Reserves space and extends the size. A file system without `fallocate` gets the size alone, its space as bytes are written.
fn allocate(file: &OwnedFd, offset: u64, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let end = offset.saturating_add(len);
            if facts_of(file)?.bytes < end {
                rustix::fs::ftruncate(file, end)?;
            }
            Ok(())
        }
        other => Ok(other?),
    }
}

fn list(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Nothing of ours has a name that is not UTF-8; a stranger's file is left alone.
        let Ok(name) = entry.file_name().into_string() else { continue };
        match entry.metadata() {
            Ok(found) => entries.push(DirEntry { name, is_dir: found.is_dir(), bytes: found.len() }),
            // Removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn stat(path: &Path) -> io::Result<Option<FileStat>> {
    match rustix::fs::stat(path) {
        Ok(found) => {
            let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            Ok(Some(FileStat { is_dir, bytes: u64::try_from(found.st_size).unwrap_or(0) }))
        }
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_file(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(limit as u64 + 1).read_to_end(&mut content)?;
    if content.len() > limit {
        let message = format!("{} is longer than the {limit} bytes it may have", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(content)
}

/// Old content or new, never a mixture, and on the device when this returns.
fn write_file_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display())));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let mut temporary = name.to_os_string();
    temporary.push(".tmp");
    let temporary = parent.join(temporary);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    rustix::fs::renameat(CWD, &temporary, CWD, path)?;
    sync_dir(parent)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::fs::fsync(&directory)?)
}
