//! A shard of the floor: connections, rounds, the background.
//!
//! Owner: its thread. A frame goes from `receiving` of its connection to `gathered`, with the next round to `in_round`, and then
//! is free, or waits in `background` for its second write. One round is in flight at a time, and at most one background write.
//!
//! What the kernel holds: a connection's head and reply buffers, boxed and never freed; slots, free again only after the
//! completion of what they were lent for; vectors, kept in `round` and `background_write` until theirs.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use benches::ring::{self, Ring};
use io_uring::{opcode, squeue, types};
use wire::{LENGTH_BYTES, frame_length};

use crate::memory::{SLOT_BYTES, Slots};

const SLOTS: usize = 64;
/// What a shard keeps of the newest frames, in the form that does: far more than a cache holds.
const KEPT_SLOTS: usize = 256;
/// A vectored write takes no more vectors than this.
const VECTORS_MAX: usize = 1024;
const CORRELATION: std::ops::Range<usize> = 8..12;
/// Length 11; then the correlation id, no tags, no responses, no throttling, no tags: a reply to Produce 9 to 12.
const REPLY: [u8; 15] = [0, 0, 0, 11, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];

pub struct Files {
    pub journal: File,
    /// Present in the forms that write twice.
    pub background: Option<File>,
    /// The size of each.
    pub bytes: u64,
}

/// How the accepting thread hands connections to a shard.
pub struct Seat {
    connections: Sender<TcpStream>,
    bell: OwnedFd,
}

pub struct Doors {
    connections: Receiver<TcpStream>,
    bell: OwnedFd,
}

pub fn seat() -> io::Result<(Seat, Doors)> {
    // SAFETY: makes a new descriptor, nothing else.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let bell = unsafe { OwnedFd::from_raw_fd(fd) };
    let (sender, receiver) = channel();
    Ok((Seat { connections: sender, bell: bell.try_clone()? }, Doors { connections: receiver, bell }))
}

impl Seat {
    pub fn give(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        self.connections.send(stream).map_err(io::Error::other)?;
        let one = 1_u64;
        // SAFETY: eight readable bytes, as an eventfd takes them.
        let written = unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        if written == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

struct Connection {
    stream: TcpStream,
    head: [u8; LENGTH_BYTES],
    /// The slot of the frame that is being received, the one it is to be kept in, and the frame's bytes with its length.
    receiving: Option<(usize, Option<usize>, usize)>,
    replies: Vec<u8>,
    replies_in_kernel: Vec<u8>,
}

struct Frame {
    connection: usize,
    slot: usize,
    bytes: usize,
}

/// A vectored write in the kernel.
#[derive(Default)]
struct Write {
    vectors: Vec<libc::iovec>,
    frames: Vec<Frame>,
    bytes: usize,
}

struct Shard {
    #[allow(clippy::vec_box, reason = "the kernel holds addresses in the connections, and the vector grows")]
    connections: Vec<Box<Connection>>,
    gathered: Vec<Frame>,
    round: Write,
    background_write: Write,
    background: VecDeque<Frame>,
    /// Connections whose next frame waits for a slot; their heads are here already.
    hungry: VecDeque<usize>,
    slots: Slots,
    keeps: bool,
    files: Files,
    journal_at: u64,
    background_at: u64,
    writes_fixed: bool,
    bell_count: Box<u64>,
    doors: Doors,
    /// Last, so that everything it names is still there when it goes.
    ring: Ring,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Bell,
    Head,
    Body,
    Send,
    Round,
    Background,
    Sync,
}

const KIND_BITS: u32 = 3;

fn tag(kind: Kind, index: usize) -> u64 {
    (index as u64) << KIND_BITS | kind as u64
}

/// Serves for ever.
pub fn run(doors: Doors, files: Files, keeps: bool, ready: &Sender<()>) -> io::Result<()> {
    let mut ring = Ring::new(1024)?;
    let mut slots = Slots::new(SLOTS, if keeps { KEPT_SLOTS } else { 0 });
    // SAFETY: the memory lives as long as the shard, whose ring goes first.
    let registered = unsafe { ring.register_buffers(&[slots.vector()]) };
    let writes_fixed = registered.is_ok() && ring.supports(opcode::WritevFixed::CODE);
    let mut shard = Shard {
        connections: Vec::new(),
        gathered: Vec::new(),
        round: Write::default(),
        background_write: Write::default(),
        background: VecDeque::new(),
        hungry: VecDeque::new(),
        slots,
        keeps,
        files,
        journal_at: 0,
        background_at: 0,
        writes_fixed,
        bell_count: Box::default(),
        doors,
        ring,
    };
    shard.listen_for_bell()?;
    let _ = ready.send(());
    loop {
        shard.ring.submit_and_wait(1)?;
        while let Some(completion) = shard.ring.pop() {
            shard.complete(&completion)?;
        }
        shard.start_round()?;
        shard.start_background()?;
    }
}

impl Shard {
    fn complete(&mut self, completion: &io_uring::cqueue::Entry) -> io::Result<()> {
        let index = (completion.user_data() >> KIND_BITS) as usize;
        let result = ring::result(completion);
        match completion.user_data() & ((1 << KIND_BITS) - 1) {
            kind if kind == Kind::Bell as u64 => self.adopt_connections(),
            kind if kind == Kind::Head as u64 => match result {
                Ok(LENGTH_BYTES) => self.head(index),
                // The peer is gone.
                _ => Ok(()),
            },
            kind if kind == Kind::Body as u64 => self.body(index, result),
            kind if kind == Kind::Send as u64 => {
                self.connections[index].replies_in_kernel.clear();
                // A failed send means that the peer is gone; its receive says so, too.
                self.send_replies(index)
            }
            kind if kind == Kind::Round as u64 => self.round_done(result?),
            kind if kind == Kind::Background as u64 => self.background_done(result?),
            _ => result.map(drop),
        }
    }

    fn listen_for_bell(&mut self) -> io::Result<()> {
        let count: *mut u64 = &raw mut *self.bell_count;
        let read = opcode::Read::new(types::Fd(self.doors.bell.as_raw_fd()), count.cast(), 8);
        // SAFETY: the count is boxed, and lives as long as the shard.
        unsafe { self.ring.push(&read.build().user_data(tag(Kind::Bell, 0))) }
    }

    fn adopt_connections(&mut self) -> io::Result<()> {
        while let Ok(stream) = self.doors.connections.try_recv() {
            self.connections.push(Box::new(Connection {
                stream,
                head: [0; LENGTH_BYTES],
                receiving: None,
                replies: Vec::new(),
                replies_in_kernel: Vec::new(),
            }));
            self.recv_head(self.connections.len() - 1)?;
        }
        self.listen_for_bell()
    }

    fn recv_head(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut *self.connections[index];
        let head = connection.head.as_mut_ptr();
        let recv = opcode::Recv::new(types::Fd(connection.stream.as_raw_fd()), head, LENGTH_BYTES as u32);
        let entry = recv.flags(libc::MSG_WAITALL).build().user_data(tag(Kind::Head, index));
        // SAFETY: the head is in the connection's box, which is never freed.
        unsafe { self.ring.push(&entry) }
    }

    fn head(&mut self, index: usize) -> io::Result<()> {
        let Ok(length) = frame_length(self.connections[index].head, SLOT_BYTES - LENGTH_BYTES) else {
            return self.close(index);
        };
        if length + LENGTH_BYTES < CORRELATION.end {
            return self.close(index);
        }
        let Some((slot, kept)) = self.take_slots() else {
            self.hungry.push_back(index);
            return Ok(());
        };
        let connection = &mut *self.connections[index];
        connection.receiving = Some((slot, kept, LENGTH_BYTES + length));
        let bytes = self.slots.bytes(slot);
        bytes[..LENGTH_BYTES].copy_from_slice(&connection.head);
        let body = bytes[LENGTH_BYTES..].as_mut_ptr();
        let recv = opcode::Recv::new(types::Fd(connection.stream.as_raw_fd()), body, length as u32);
        let entry = recv.flags(libc::MSG_WAITALL).build().user_data(tag(Kind::Body, index));
        // SAFETY: the slot is this frame's until the frame is done with.
        unsafe { self.ring.push(&entry) }
    }

    /// A slot to receive into, and one to keep the frame in.
    fn take_slots(&mut self) -> Option<(usize, Option<usize>)> {
        let slot = self.slots.take()?;
        if !self.keeps {
            return Some((slot, None));
        }
        let kept = self.slots.take_for_copy();
        if kept.is_none() {
            self.slots.give_back(slot);
        }
        Some((slot, Some(kept?)))
    }

    fn body(&mut self, index: usize, result: io::Result<usize>) -> io::Result<()> {
        let Some((mut slot, kept, bytes)) = self.connections[index].receiving.take() else {
            return Err(io::Error::other("a body that nobody asked for"));
        };
        if result.ok() != Some(bytes - LENGTH_BYTES) {
            kept.into_iter().for_each(|kept| self.slots.give_back(kept));
            return self.free(slot);
        }
        if let Some(kept) = kept {
            let mut crc = record::BatchCrc::new();
            crc.update(&self.slots.bytes(slot)[..bytes]);
            std::hint::black_box(crc.value());
            self.slots.copy(slot, kept, bytes);
            self.slots.give_back(std::mem::replace(&mut slot, kept));
        }
        self.gathered.push(Frame { connection: index, slot, bytes });
        self.recv_head(index)
    }

    fn close(&mut self, index: usize) -> io::Result<()> {
        // It fails only when the peer was faster.
        let _ = self.connections[index].stream.shutdown(std::net::Shutdown::Both);
        Ok(())
    }

    fn free(&mut self, slot: usize) -> io::Result<()> {
        self.slots.give_back(slot);
        match self.hungry.pop_front() {
            Some(index) => self.head(index),
            None => Ok(()),
        }
    }

    /// All that was gathered becomes the next durable write, unless one is under way.
    fn start_round(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() || !self.round.frames.is_empty() {
            return Ok(());
        }
        let rest = self.gathered.split_off(self.gathered.len().min(VECTORS_MAX));
        self.round.fill(&mut self.slots, std::mem::replace(&mut self.gathered, rest));
        if self.journal_at + self.round.bytes as u64 > self.files.bytes {
            self.journal_at = 0;
            self.sync_background()?;
        }
        let at = self.journal_at;
        self.journal_at += self.round.bytes as u64;
        let write = self.round.entry(&self.files.journal, at, libc::RWF_DSYNC, self.writes_fixed);
        // SAFETY: the vectors and the slots are kept in `round` until this completes.
        unsafe { self.ring.push(&write.user_data(tag(Kind::Round, 0))) }
    }

    fn round_done(&mut self, written: usize) -> io::Result<()> {
        self.round.check(written)?;
        for frame in std::mem::take(&mut self.round.frames) {
            let correlation: [u8; 4] =
                self.slots.bytes(frame.slot)[CORRELATION].try_into().expect("a range of four bytes");
            let connection = &mut *self.connections[frame.connection];
            connection.replies.extend_from_slice(&REPLY);
            let at = connection.replies.len() - REPLY.len() + LENGTH_BYTES;
            connection.replies[at..at + 4].copy_from_slice(&correlation);
            self.send_replies(frame.connection)?;
            if self.files.background.is_some() {
                self.background.push_back(frame);
            } else {
                self.free(frame.slot)?;
            }
        }
        Ok(())
    }

    fn send_replies(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut *self.connections[index];
        if connection.replies.is_empty() || !connection.replies_in_kernel.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut connection.replies, &mut connection.replies_in_kernel);
        let replies = &connection.replies_in_kernel;
        let fd = types::Fd(connection.stream.as_raw_fd());
        let send = opcode::Send::new(fd, replies.as_ptr(), replies.len() as u32);
        let entry = send.flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL).build().user_data(tag(Kind::Send, index));
        // SAFETY: the buffer is the connection's and untouched until this completes.
        unsafe { self.ring.push(&entry) }
    }

    /// What is durable goes to its second place, in one large write with no sync.
    fn start_background(&mut self) -> io::Result<()> {
        let Some(file) = &self.files.background else { return Ok(()) };
        if self.background.is_empty() || !self.background_write.frames.is_empty() {
            return Ok(());
        }
        let count = self.background.len().min(VECTORS_MAX);
        self.background_write.fill(&mut self.slots, self.background.drain(..count).collect());
        if self.background_at + self.background_write.bytes as u64 > self.files.bytes {
            self.background_at = 0;
        }
        let at = self.background_at;
        self.background_at += self.background_write.bytes as u64;
        let write = self.background_write.entry(file, at, 0, self.writes_fixed);
        // SAFETY: the vectors and the slots are kept in `background_write` until this completes.
        unsafe { self.ring.push(&write.user_data(tag(Kind::Background, 0))) }
    }

    fn background_done(&mut self, written: usize) -> io::Result<()> {
        self.background_write.check(written)?;
        for frame in std::mem::take(&mut self.background_write.frames) {
            self.free(frame.slot)?;
        }
        Ok(())
    }

    /// Before the journal's bytes are written over, their second place is made durable, as a checkpoint does.
    fn sync_background(&mut self) -> io::Result<()> {
        let Some(file) = &self.files.background else { return Ok(()) };
        let sync = opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC);
        // SAFETY: it names no memory, and the file lives as long as the shard.
        unsafe { self.ring.push(&sync.build().user_data(tag(Kind::Sync, 0))) }
    }
}

impl Write {
    fn fill(&mut self, slots: &mut Slots, frames: Vec<Frame>) {
        self.vectors.clear();
        self.vectors.extend(frames.iter().map(|frame| slots.blocks(frame.slot, frame.bytes)));
        self.bytes = self.vectors.iter().map(|vector| vector.iov_len).sum();
        self.frames = frames;
    }

    fn entry(&self, file: &File, at: u64, flags: i32, fixed: bool) -> squeue::Entry {
        let (fd, vectors, count) = (types::Fd(file.as_raw_fd()), self.vectors.as_ptr(), self.vectors.len() as u32);
        if fixed {
            opcode::WritevFixed::new(fd, vectors, count, 0).offset(at).rw_flags(flags).build()
        } else {
            opcode::Writev::new(fd, vectors, count).offset(at).rw_flags(flags).build()
        }
    }

    fn check(&self, written: usize) -> io::Result<()> {
        if written == self.bytes {
            return Ok(());
        }
        Err(io::Error::other(format!("{written} of {} bytes were written", self.bytes)))
    }
}
