//! A small world in memory: files, a loopback network, a clock that moves only when every shard is idle.
#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Random, ShardId, WallTime};
use shard::driver::{Completion, Driver, FileId, FileStat, FsOp, Host, ListenerId, Op, OpId, Outcome, SocketId, Space};
use shard::{Shard, ShardOptions, Slice, Turn};

/// What an abort unwinds with.
#[derive(Debug)]
pub struct Crashed(pub String);

#[derive(Default)]
pub struct World {
    pub now: Instant,
    files: BTreeMap<String, Rc<RefCell<Vec<u8>>>>,
    open_files: Vec<Option<Rc<RefCell<Vec<u8>>>>>,
    listeners: Vec<Listener>,
    sockets: Vec<Socket>,
    due: BTreeMap<u16, VecDeque<Completion>>,
    waiting: Vec<(ShardId, OpId, Op)>,
    pub woken: Vec<ShardId>,
    pub closed_sockets: usize,
    pub closed_files: usize,
    pub offload_later: bool,
    /// Panics at the operation that brings this to zero.
    pub crash_after_ops: Option<u32>,
    pub crashed: bool,
}

struct Listener {
    backlog: VecDeque<usize>,
    open: bool,
}

struct Socket {
    peer: usize,
    inbox: VecDeque<u8>,
    ended: bool,
}

#[derive(Clone, Default)]
pub struct Worlds(pub Rc<RefCell<World>>);

impl Worlds {
    pub fn host(&self, shard: u16) -> Driver {
        let random = RefCell::new(Random::new(u64::from(shard)));
        Driver::Hosted(Box::new(MemoryHost { world: self.0.clone(), shard: ShardId(shard), random }))
    }

    pub fn shard(&self, id: u16) -> Shard {
        Shard::new(ShardOptions { id: ShardId(id), arena_bytes: 8 << 20, ..ShardOptions::default() }, self.host(id))
    }

    /// Moves the clock: a poll that does so has held its core that long.
    pub fn advance(&self, by: Duration) {
        let mut world = self.0.borrow_mut();
        world.now = world.now + by;
    }

    /// Gives turns until all are idle and nothing more is due; moves the clock to the next deadline.
    pub fn settle(&self, shards: &[Shard]) {
        loop {
            let mut busy = false;
            let mut next: Option<Instant> = None;
            for shard in shards {
                match shard.turn() {
                    Turn::Busy => busy = true,
                    Turn::Idle { until } => next = next.into_iter().chain(until).min(),
                }
            }
            let mut world = self.0.borrow_mut();
            busy |= world.due.values().any(|due| !due.is_empty());
            busy |= !std::mem::take(&mut world.woken).is_empty();
            busy |= shards.iter().any(Shard::is_notified);
            if !busy {
                let Some(next) = next else { return };
                world.now = world.now.max(next);
            }
        }
    }
}

impl World {
    fn end(&mut self, shard: ShardId, id: OpId, result: io::Result<Outcome>) {
        self.due.entry(shard.0).or_default().push_back(Completion { id, result });
    }

    /// Ends what can end now.
    fn progress(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            let ready = match &self.waiting[index].2 {
                Op::Accept { listener } => {
                    let listener = &self.listeners[listener.0 as usize];
                    !listener.backlog.is_empty() || !listener.open
                }
                Op::Recv { socket } => {
                    let socket = &self.sockets[socket.0 as usize];
                    !socket.inbox.is_empty() || socket.ended
                }
                Op::RecvInto { socket, filled, until, .. } => {
                    let socket = &self.sockets[socket.0 as usize];
                    socket.inbox.len() >= until - filled || socket.ended
                }
                _ => true,
            };
            if !ready {
                index += 1;
                continue;
            }
            let (shard, id, op) = self.waiting.remove(index);
            let result = self.carry_out(op);
            self.end(shard, id, result);
            index = 0;
        }
    }

    fn carry_out(&mut self, op: Op) -> io::Result<Outcome> {
        match op {
            Op::Accept { listener } => {
                let listener = &mut self.listeners[listener.0 as usize];
                let socket = listener.backlog.pop_front().ok_or(io::ErrorKind::ConnectionAborted)?;
                Ok(Outcome::Accepted { socket: SocketId(socket as u32), peer: addr(9) })
            }
            Op::Recv { socket } => {
                let inbox = &mut self.sockets[socket.0 as usize].inbox;
                Ok(Outcome::Received(Slice::from_vec(inbox.drain(..).collect())))
            }
            Op::RecvInto { socket, mut buf, filled, until } => {
                let inbox = &mut self.sockets[socket.0 as usize].inbox;
                if inbox.len() < until - filled {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let bytes: Vec<u8> = inbox.drain(..until - filled).collect();
                buf.extend_from_slice(&bytes);
                Ok(Outcome::Read { buf, len: until })
            }
            Op::Send { socket, data } => {
                let peer = self.sockets[socket.0 as usize].peer;
                if self.sockets[peer].ended {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                data.iter().for_each(|slice| self.sockets[peer].inbox.extend(slice.iter()));
                Ok(Outcome::Done)
            }
            Op::Shutdown { socket } | Op::CloseSocket { socket } => {
                if matches!(op, Op::CloseSocket { .. }) {
                    self.closed_sockets += 1;
                }
                let peer = self.sockets[socket.0 as usize].peer;
                self.sockets[socket.0 as usize].ended = true;
                self.sockets[peer].ended = true;
                Ok(Outcome::Done)
            }
            Op::Pass { socket, .. } => Ok(Outcome::Socket(socket)),
            Op::Listen { .. } => {
                self.listeners.push(Listener { backlog: VecDeque::new(), open: true });
                let index = self.listeners.len() as u32 - 1;
                Ok(Outcome::Listener { listener: ListenerId(index), local_addr: addr(index as u16) })
            }
            Op::Connect { addr } => {
                let listener =
                    self.listeners.get_mut(usize::from(addr.port())).ok_or(io::ErrorKind::ConnectionRefused)?;
                let near = self.sockets.len();
                listener.backlog.push_back(near + 1);
                for peer in [near + 1, near] {
                    self.sockets.push(Socket { peer, inbox: VecDeque::new(), ended: false });
                }
                Ok(Outcome::Socket(SocketId(near as u32)))
            }
            Op::CloseListener { listener } => {
                self.listeners[listener.0 as usize].open = false;
                Ok(Outcome::Done)
            }
            Op::Offload(work) => {
                (work.0)();
                Ok(Outcome::Done)
            }
            other => self.carry_out_file(other),
        }
    }

    fn carry_out_file(&mut self, op: Op) -> io::Result<Outcome> {
        match op {
            Op::Read { file, offset, mut buf, len } => {
                let file = self.file(file);
                let file = file.borrow();
                let start = (offset as usize).min(file.len());
                let end = (start + len).min(file.len());
                buf.set_len(0);
                buf.extend_from_slice(&file[start..end]);
                Ok(Outcome::Read { buf, len: end - start })
            }
            Op::Write { file, offset, data, .. } => {
                let file = self.file(file);
                let mut file = file.borrow_mut();
                let mut at = offset as usize;
                for slice in data {
                    let end = at + slice.len();
                    if file.len() < end {
                        file.resize(end, 0);
                    }
                    file[at..end].copy_from_slice(&slice);
                    at = end;
                }
                Ok(Outcome::Done)
            }
            Op::Datasync { .. } => Ok(Outcome::Done),
            Op::CloseFile { file } => {
                self.closed_files += 1;
                self.open_files[file.0 as usize] = None;
                Ok(Outcome::Done)
            }
            Op::Fs(op) => self.carry_out_fs(op),
            other => panic!("not a file operation: {other:?}"),
        }
    }

    fn carry_out_fs(&mut self, op: FsOp) -> io::Result<Outcome> {
        match op {
            FsOp::Open { path, options } => {
                let name = path.to_string_lossy().into_owned();
                if !options.create && !self.files.contains_key(&name) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let content = self.files.entry(name).or_default().clone();
                let bytes = content.borrow().len() as u64;
                self.open_files.push(Some(content));
                let file = FileId(self.open_files.len() as u32 - 1);
                Ok(Outcome::File { file, bytes, alignment: if options.direct { 4096 } else { 1 } })
            }
            FsOp::SetLen { file, len } => {
                self.file(file).borrow_mut().resize(len as usize, 0);
                Ok(Outcome::Done)
            }
            FsOp::ReadFile { path, .. } => {
                let file = self.files.get(&*path.to_string_lossy()).ok_or(io::ErrorKind::NotFound)?;
                Ok(Outcome::Content(file.borrow().clone()))
            }
            FsOp::WriteFileDurably { path, content } => {
                self.files.insert(path.to_string_lossy().into_owned(), Rc::new(RefCell::new(content)));
                Ok(Outcome::Done)
            }
            FsOp::Stat { path } => {
                let file = self.files.get(&*path.to_string_lossy());
                Ok(Outcome::Stat(file.map(|file| FileStat { is_dir: false, bytes: file.borrow().len() as u64 })))
            }
            FsOp::Space { .. } => Ok(Outcome::Space(Space { free_bytes: 1 << 30, total_bytes: 1 << 30 })),
            FsOp::List { .. } => Ok(Outcome::Entries(Vec::new())),
            _ => Ok(Outcome::Done),
        }
    }

    fn file(&self, file: FileId) -> Rc<RefCell<Vec<u8>>> {
        self.open_files[file.0 as usize].clone().expect("the shard uses open files only")
    }
}

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub struct MemoryHost {
    world: Rc<RefCell<World>>,
    shard: ShardId,
    random: RefCell<Random>,
}

impl Host for MemoryHost {
    fn submit(&mut self, id: OpId, op: Op) {
        let mut world = self.world.borrow_mut();
        assert!(!world.crashed, "a crashed world is left alone");
        if let Some(left) = &mut world.crash_after_ops {
            *left -= 1;
            if *left == 0 {
                world.crashed = true;
                drop(world);
                std::panic::panic_any(Crashed("at an operation".into()));
            }
        }
        world.waiting.push((self.shard, id, op));
        world.progress();
    }

    fn cancel(&mut self, id: OpId) {
        let mut world = self.world.borrow_mut();
        assert!(!world.crashed, "a crashed world is left alone");
        if let Some(index) = world.waiting.iter().position(|(shard, other, _)| *shard == self.shard && *other == id) {
            world.waiting.remove(index);
            world.end(self.shard, id, Err(io::Error::other("cancelled")));
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let mut world = self.world.borrow_mut();
        world.progress();
        completions.extend(world.due.entry(self.shard.0).or_default().drain(..));
    }

    fn park(&mut self, until: Option<Instant>) {
        let mut world = self.world.borrow_mut();
        if world.due.get(&self.shard.0).is_none_or(VecDeque::is_empty) {
            world.now = until.expect("nothing would ever happen again").max(world.now);
        }
    }

    fn wake(&mut self, peer: ShardId) {
        self.world.borrow_mut().woken.push(peer);
    }

    fn now(&self) -> Instant {
        self.world.borrow().now
    }

    fn wall(&self) -> WallTime {
        WallTime((self.world.borrow().now.0 / 1_000_000) as i64)
    }

    fn random(&mut self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn abort(&mut self, reason: &str) -> ! {
        self.world.borrow_mut().crashed = true;
        std::panic::panic_any(Crashed(reason.into()))
    }
}

/// A later point of the world's clock.
pub fn after(shard: &Shard, ms: u64) -> Instant {
    shard.now() + Duration::from_millis(ms)
}
