//! A disk in memory behind a shard's driver: everything asked for is done by the next turn. Only what segment files need.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{Instant, ShardId, WallTime};
use shard::driver::{Completion, Driver, FileId, FsOp, Host, Op, OpId, Outcome};
use shard::{DirEntry, FileStat, Shard, ShardOptions, Space};

type Content = Rc<RefCell<Vec<u8>>>;

/// The state, for a test to set up and look at.
#[derive(Default)]
pub struct DiskState {
    pub files: BTreeMap<PathBuf, Content>,
    open: BTreeMap<u32, Content>,
    opened: u32,
    due: VecDeque<Completion>,
    pub now: u64,
    pub wall: i64,
    /// (bytes) of each read, in order.
    pub reads: Vec<usize>,
    /// File-system operations, by name.
    pub log: Vec<String>,
    /// Fails each read while set.
    pub fail_reads: bool,
}

/// A disk; clones are the same.
#[derive(Clone, Default)]
pub struct Disk(pub Rc<RefCell<DiskState>>);

impl Disk {
    pub fn shard(&self, arena_bytes: usize) -> Shard {
        let options = ShardOptions { arena_bytes, ..ShardOptions::default() };
        Shard::new(options, Driver::Hosted(Box::new(DiskHost(self.0.clone()))))
    }

    pub fn put(&self, path: impl AsRef<Path>, bytes: Vec<u8>) {
        self.0.borrow_mut().files.insert(path.as_ref().to_owned(), Rc::new(RefCell::new(bytes)));
    }

    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.0.borrow().files.get(path.as_ref()).map(|content| content.borrow().clone())
    }

    pub fn change(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.0.borrow().files[path.as_ref()].borrow_mut());
    }

    pub fn open_files(&self) -> usize {
        self.0.borrow().open.len()
    }
}

struct DiskHost(Rc<RefCell<DiskState>>);

impl DiskState {
    fn content(&self, file: FileId) -> Content {
        self.open[&file.0].clone()
    }

    fn at(&self, path: &Path) -> io::Result<Content> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn carry_out(&mut self, op: Op) -> io::Result<Outcome> {
        match op {
            Op::Read { file, offset, mut buf, len } => {
                self.reads.push(len);
                if self.fail_reads {
                    return Err(io::Error::from_raw_os_error(5));
                }
                let content = self.content(file);
                let content = content.borrow();
                let from = (offset as usize).min(content.len());
                let len = len.min(content.len() - from);
                buf.set_len(len);
                buf.copy_from_slice(&content[from..from + len]);
                Ok(Outcome::Read { buf, len })
            }
            Op::Write { file, offset, data, .. } => {
                let content = self.content(file);
                let mut content = content.borrow_mut();
                let mut at = offset as usize;
                for slice in data {
                    let len = content.len().max(at + slice.len());
                    content.resize(len, 0);
                    content[at..at + slice.len()].copy_from_slice(&slice);
                    at += slice.len();
                }
                Ok(Outcome::Done)
            }
            Op::Datasync { .. } => Ok(Outcome::Done),
            Op::CloseFile { file } => {
                self.open.remove(&file.0);
                Ok(Outcome::Done)
            }
            Op::Offload(work) => {
                (work.0)();
                Ok(Outcome::Done)
            }
            Op::Fs(op) => self.carry_out_fs(op),
            other => panic!("{other:?}"),
        }
    }

    fn carry_out_fs(&mut self, op: FsOp) -> io::Result<Outcome> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match op {
            FsOp::Open { path, options } => {
                if options.create {
                    self.files.entry(path.clone()).or_default();
                }
                let content = self.at(&path)?;
                let bytes = content.borrow().len() as u64;
                self.opened += 1;
                self.open.insert(self.opened, content);
                self.log.push(format!("open {}", name(&path)));
                Ok(Outcome::File { file: FileId(self.opened), bytes, alignment: 4096 })
            }
            FsOp::SetLen { file, len } => {
                self.log.push(format!("set_len {len}"));
                self.content(file).borrow_mut().resize(len as usize, 0);
                Ok(Outcome::Done)
            }
            FsOp::Allocate { file, offset, len } => {
                let content = self.content(file);
                let end = content.borrow().len().max((offset + len) as usize);
                content.borrow_mut().resize(end, 0);
                Ok(Outcome::Done)
            }
            FsOp::Rename { from, to } => {
                let content = self.at(&from)?;
                self.log.push(format!("rename {} {}", name(&from), name(&to)));
                self.files.remove(&from);
                self.files.insert(to, content);
                Ok(Outcome::Done)
            }
            FsOp::Remove { path } => {
                self.log.push(format!("remove {}", name(&path)));
                self.at(&path)?;
                self.files.remove(&path);
                Ok(Outcome::Done)
            }
            FsOp::Stat { path } => {
                let bytes = self.at(&path).ok().map(|content| content.borrow().len() as u64);
                let is_dir = self.files.keys().any(|of| of.parent() == Some(&path));
                let stat = bytes.map(|bytes| FileStat { is_dir: false, bytes });
                Ok(Outcome::Stat(if is_dir { Some(FileStat { is_dir, bytes: 0 }) } else { stat }))
            }
            FsOp::List { path } => {
                let inside = self.files.iter().filter(|(of, _)| of.parent() == Some(&path));
                let entry = |(of, content): (&PathBuf, &Content)| DirEntry {
                    name: name(of),
                    is_dir: false,
                    bytes: content.borrow().len() as u64,
                };
                Ok(Outcome::Entries(inside.map(entry).collect()))
            }
            FsOp::Space { .. } => Ok(Outcome::Space(Space { free_bytes: 1 << 40, total_bytes: 1 << 40 })),
            FsOp::CreateDirAll { .. } | FsOp::SyncDir { .. } | FsOp::SyncFs { .. } | FsOp::RemoveDir { .. } => {
                Ok(Outcome::Done)
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Host for DiskHost {
    fn submit(&mut self, id: OpId, op: Op) {
        let mut state = self.0.borrow_mut();
        let result = state.carry_out(op);
        state.due.push_back(Completion { id, result });
    }

    fn cancel(&mut self, _id: OpId) {}

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.extend(self.0.borrow_mut().due.drain(..));
    }

    fn park(&mut self, until: Option<Instant>) {
        let mut state = self.0.borrow_mut();
        if !state.due.is_empty() {
            return;
        }
        let until = until.expect("a test that waits for nothing waits for ever");
        state.now = state.now.max(until.0);
    }

    fn wake(&mut self, _peer: ShardId) {}

    fn now(&self) -> Instant {
        Instant(self.0.borrow().now)
    }

    fn wall(&self) -> WallTime {
        let state = self.0.borrow();
        WallTime(state.wall + (state.now / 1_000_000) as i64)
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn abort(&mut self, reason: &str) -> ! {
        panic!("aborted: {reason}")
    }
}
