//! The edge between a shard and the world: every operation it can ask for, and the two that answer.
//!
//! Owner: the shard whose driver it is. An [`Op`] is handed over whole, with its buffers; the driver owns them until it reports
//! the operation's one terminal [`Completion`]. `Uring` is the production driver; [`Host`] is the seam for any other world:
//! `tests/sim` implements it as a seeded one with faults. Both see exactly these operations, so no decision of the
//! broker lies outside a simulator's reach.

pub(crate) mod helper;
pub(crate) mod janitor;
mod lock_holder;
pub(crate) mod uring;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Instant, ShardId, WallTime};

use crate::buffer::{Arena, Buf, Slice};
use crate::executor::Unparker;

pub use uring::{Uring, UringOptions, UringSeat, UringStats};

/// What one [`Op::Recv`] yields at most: enough for most requests whole, and for the head of those that are larger.
pub const RECV_BYTES: usize = 4 * base::KIB;

/// Names an operation from submission to its terminal completion; the generation tells a reused slot apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId {
    pub slot: u32,
    pub generation: u32,
}

/// A file open on this driver (a direct descriptor under `Uring`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileId(pub u32);

/// A connected socket on this driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId(pub u32);

/// A listening socket on this driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub u32);

/// Whether a write is durable when it completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteSync {
    /// In the device's or kernel's hands; a later `Datasync` makes it durable.
    None,
    /// As if followed by `fdatasync` (`RWF_DSYNC`): durable when it completes.
    Data,
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    /// With `create`: fail where the file exists.
    pub exclusive: bool,
    /// Past the page cache; falls back to buffered where the file system refuses.
    pub direct: bool,
}

/// One operation, with the buffers it needs until it ends.
#[derive(Debug)]
pub enum Op {
    /// Reads `len` bytes at `offset` into `buf[0..len]`; ends with [`Outcome::Read`], short only at the end of the file.
    Read {
        file: FileId,
        offset: u64,
        buf: Buf,
        len: usize,
    },
    /// Writes all slices one after another from `offset`; ends with [`Outcome::Done`] when all bytes are written.
    Write {
        file: FileId,
        offset: u64,
        data: Vec<Slice>,
        sync: WriteSync,
    },
    /// `fdatasync`.
    Datasync {
        file: FileId,
    },
    /// What blocks a thread; the janitor does it.
    Fs(FsOp),
    /// Binds and listens; port 0 takes a free one. Ends with [`Outcome::Listener`].
    Listen {
        addr: SocketAddr,
    },
    /// The next connection. Ends with [`Outcome::Accepted`].
    Accept {
        listener: ListenerId,
    },
    /// Ends with [`Outcome::Socket`].
    Connect {
        addr: SocketAddr,
    },
    /// Whatever bytes come next, in a buffer of the driver's choosing. Ends with [`Outcome::Received`]; empty at the end of the stream.
    Recv {
        socket: SocketId,
    },
    /// Fills `buf[filled..until]`. Ends with [`Outcome::Read`] whose `len` is `until`, or `UnexpectedEof`.
    RecvInto {
        socket: SocketId,
        buf: Buf,
        filled: usize,
        until: usize,
    },
    /// Sends all slices in order. Ends with [`Outcome::Done`].
    Send {
        socket: SocketId,
        data: Vec<Slice>,
    },
    /// Ends both directions; pending operations on the socket complete.
    Shutdown {
        socket: SocketId,
    },
    /// Gives a peer shard's driver a descriptor of its own on the connection. Ends with [`Outcome::Socket`]: the id over there.
    /// The id here stays valid until the shard closes it, which then does not end the connection.
    Pass {
        socket: SocketId,
        to: ShardId,
    },
    CloseFile {
        file: FileId,
    },
    CloseSocket {
        socket: SocketId,
    },
    CloseListener {
        listener: ListenerId,
    },
    /// Work for a helper thread; it hands its result over by itself. Ends with [`Outcome::Done`].
    Offload(Work),
}

/// A closure for the helper thread.
pub struct Work(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

/// File-system work that may block: done by the janitor thread, in the order it was asked for by one shard.
#[derive(Debug)]
pub enum FsOp {
    /// Ends with [`Outcome::File`].
    Open {
        path: PathBuf,
        options: OpenOptions,
    },
    CreateDirAll {
        path: PathBuf,
    },
    RemoveDir {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    /// Ends with [`Outcome::Entries`], in name order.
    List {
        path: PathBuf,
    },
    SetLen {
        file: FileId,
        len: u64,
    },
    /// Reserves space and extends the size to at least `offset + len`; the new bytes read as zeros.
    Allocate {
        file: FileId,
        offset: u64,
        len: u64,
    },
    SyncDir {
        path: PathBuf,
    },
    /// `syncfs` of the file system that holds `path`.
    SyncFs {
        path: PathBuf,
    },
    /// Ends with [`Outcome::Space`].
    Space {
        path: PathBuf,
    },
    /// Ends with [`Outcome::Stat`]; `None` where nothing is there.
    Stat {
        path: PathBuf,
    },
    /// A small file, whole. Ends with [`Outcome::Content`]; longer than `limit` is `InvalidData`.
    ReadFile {
        path: PathBuf,
        limit: usize,
    },
    /// Temporary name, write, sync, rename, sync of the directory.
    WriteFileDurably {
        path: PathBuf,
        content: Vec<u8>,
    },
    /// Takes an exclusive lock on the file at `path`, created where missing, held until the process ends; `WouldBlock` where
    /// another holds it.
    Lock {
        path: PathBuf,
    },
}

/// What a directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    pub is_dir: bool,
    pub bytes: u64,
}

/// Room on a file system, for a process without special rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// What an operation that went well yields.
#[derive(Debug)]
pub enum Outcome {
    Done,
    Read { buf: Buf, len: usize },
    Received(Slice),
    File { file: FileId, bytes: u64, alignment: usize },
    Listener { listener: ListenerId, local_addr: SocketAddr },
    Accepted { socket: SocketId, peer: SocketAddr },
    Socket(SocketId),
    Entries(Vec<DirEntry>),
    Space(Space),
    Stat(Option<FileStat>),
    Content(Vec<u8>),
}

/// The one terminal word on an operation.
#[derive(Debug)]
pub struct Completion {
    pub id: OpId,
    pub result: io::Result<Outcome>,
}

/// A world for shards to live in, other than the kernel's.
pub trait Host {
    /// Called once, before anything else: whose host it is, and memory for what it receives.
    fn attach(&mut self, _id: ShardId, _received: &Arena) {}
    /// What ends this shard's park from any thread. A host that cannot block needs none: `Shard::is_notified` tells it whether the shard
    /// wants a turn.
    fn unparker(&self) -> Unparker {
        Arc::new(|| {})
    }
    /// Takes an operation over. Its completion comes from a later [`Host::reap`], exactly once.
    fn submit(&mut self, id: OpId, op: Op);
    /// Asks for an early end (`ECANCELED`); the operation may complete as usual all the same. What it opened or accepted is closed by the shard.
    fn cancel(&mut self, id: OpId);
    /// Moves the completions that are due into `completions`. Never waits.
    fn reap(&mut self, completions: &mut Vec<Completion>);
    /// The shard has nothing to do until `until`, a completion or a wake. A host that cannot block returns at once.
    fn park(&mut self, until: Option<Instant>);
    /// Ends a peer's park; called only when the peer says that it is parked.
    fn wake(&mut self, peer: ShardId);
    fn now(&self) -> Instant;
    fn wall(&self) -> WallTime;
    fn random(&mut self) -> u64;
    /// Ends the process that this shard belongs to, at once, with nothing flushed.
    fn abort(&mut self, reason: &str) -> !;
}

/// Closes a socket that was passed to a shard where nobody adopted it. From any thread.
pub(crate) type StrayCloser = Arc<dyn Fn(ShardId, SocketId) + Send + Sync>;

/// The one world a shard lives in. Matched once per call; never a generic, so that all of the broker is one code.
pub enum Driver {
    Uring(Box<Uring>),
    Hosted(Box<dyn Host>),
}

impl Driver {
    pub(crate) fn attach(&mut self, id: ShardId, arena: &Arena, received: &Arena) {
        match self {
            Self::Uring(uring) => uring.attach(id, arena, received),
            Self::Hosted(host) => host.attach(id, received),
        }
    }

    pub(crate) fn unparker(&self) -> Unparker {
        match self {
            Self::Uring(uring) => uring.unparker(),
            Self::Hosted(host) => host.unparker(),
        }
    }

    /// `None` for a host: what strays there goes with its world.
    pub(crate) fn stray_closer(&self) -> Option<StrayCloser> {
        match self {
            Self::Uring(uring) => Some(uring.stray_closer()),
            Self::Hosted(_) => None,
        }
    }

    pub(crate) fn submit(&mut self, id: OpId, op: Op) {
        match self {
            Self::Uring(uring) => uring.submit(id, op),
            Self::Hosted(host) => host.submit(id, op),
        }
    }

    pub(crate) fn cancel(&mut self, id: OpId) {
        match self {
            Self::Uring(uring) => uring.cancel(id),
            Self::Hosted(host) => host.cancel(id),
        }
    }

    pub(crate) fn reap(&mut self, completions: &mut Vec<Completion>) {
        match self {
            Self::Uring(uring) => uring.reap(completions),
            Self::Hosted(host) => host.reap(completions),
        }
    }

    /// Gives the kernel what was submitted so far, in one system call if it was anything.
    pub(crate) fn hand_over(&mut self) {
        match self {
            Self::Uring(uring) => uring.hand_over(),
            Self::Hosted(_) => {}
        }
    }

    /// Called once at the end of every turn: what it submitted goes out with the next `reap` or `park`, in one system call.
    pub(crate) fn end_turn(&mut self) {
        match self {
            Self::Uring(uring) => uring.end_turn(),
            Self::Hosted(_) => {}
        }
    }

    pub(crate) fn park(&mut self, until: Option<Instant>) {
        match self {
            Self::Uring(uring) => uring.park(until),
            Self::Hosted(host) => host.park(until),
        }
    }

    pub(crate) fn wake(&mut self, peer: ShardId) {
        match self {
            Self::Uring(uring) => uring.wake(peer),
            Self::Hosted(host) => host.wake(peer),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Uring(uring) => uring.now(),
            Self::Hosted(host) => host.now(),
        }
    }

    pub(crate) fn wall(&self) -> WallTime {
        match self {
            Self::Uring(uring) => uring.wall(),
            Self::Hosted(host) => host.wall(),
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        match self {
            Self::Uring(uring) => uring.random(),
            Self::Hosted(host) => host.random(),
        }
    }

    pub(crate) fn abort(&mut self, reason: &str) -> ! {
        match self {
            Self::Uring(uring) => uring.abort(reason),
            Self::Hosted(host) => host.abort(reason),
        }
    }

    /// `None` for a host, which makes no system calls.
    pub(crate) fn uring_stats(&self) -> Option<UringStats> {
        match self {
            Self::Uring(uring) => Some(uring.stats()),
            Self::Hosted(_) => None,
        }
    }
}
