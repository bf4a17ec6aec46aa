//! The production driver: one io_uring per shard, with everything that is in flight on it.
//!
//! Owner: one shard thread, which creates, uses and drops it. Submissions gather until [`Uring::reap`] or [`Uring::park`] and go
//! to the kernel together. Files and sockets are direct descriptors: they live in the ring's own table and use up none of the
//! process's. Life cycle of an operation: [`Uring::submit`] makes a flight, completions of the ring (or of the janitor) move it
//! on, and its one terminal [`Completion`] comes out of `reap`; a cancelled one is waited for like any other. Dropping the driver
//! cancels what is in flight and waits until the kernel has let go of every buffer.
//!
//! Files of this folder: `ring` (the two queues), `flight` (what is in flight), `files`, `sockets` and `listeners` (what each
//! operation does), `provided` (buffers for receives), `registered` (pinned slabs), `peers` and `returns` (other threads), `turn` (when the kernel is entered).
//! They are the driver's home of `unsafe`.
#![allow(unsafe_code)]

mod files;
mod flight;
mod listeners;
pub(crate) mod peers;
mod provided;
pub(crate) mod registered;
pub(crate) mod returns;
mod ring;
mod sockets;
mod token;
mod turn;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use std::time::Duration;

use base::{Instant, ShardId, WallTime};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fixed;
use rustix::time::ClockId;
use slab::Slab;

use crate::buffer::Arena;
use crate::driver::helper::Job;
use crate::driver::janitor::{Request, Task};
use crate::driver::{Completion, Op, OpId, Outcome, StrayCloser};
use files::OpenFiles;
use flight::{Flight, Flights, Gather, Spare, State};
use listeners::{Listener, Own};
use peers::UringPeers;
use provided::Provided;
use registered::Registered;
use returns::{Return, Returns};
pub use ring::UringStats;
use ring::{Cqe, Ring};

/// Sizes of a ring. The defaults suit a shard of a few thousand connections.
#[derive(Clone, Debug)]
pub struct UringOptions {
    /// Submissions that fit before the kernel must be entered; the completion ring has four times as many places.
    pub submission_entries: u32,
    /// Direct descriptors, at most; the open-files limit may make it fewer.
    pub descriptors_max: u32,
    /// Buffers lent to the kernel for receives, each of [`super::RECV_BYTES`]; a power of two.
    pub recv_buffers: u16,
    /// Pin the arena's slabs (`false`: as if the right to lock memory were missing).
    pub register_buffers: bool,
}

impl Default for UringOptions {
    fn default() -> Self {
        Self { submission_entries: 1024, descriptors_max: 20_000, recv_buffers: 256, register_buffers: true }
    }
}

/// One shard's place among the rings of a process; made by [`crate::threads::fleet`], turned into a [`Uring`] on the shard's thread.
pub struct UringSeat {
    pub(crate) id: ShardId,
    pub(crate) peers: Arc<UringPeers>,
    pub(crate) janitor: Sender<Request>,
    pub(crate) helper: SyncSender<Job>,
    pub(crate) returns_to: Returns,
    pub(crate) returns: Receiver<Return>,
}

impl UringSeat {
    pub fn id(&self) -> ShardId {
        self.id
    }
}

pub struct Uring {
    seat: UringSeat,
    options: UringOptions,
    ring: Ring,
    flights: Flights,
    /// The driver's own submissions: multishot accepts and descriptors being installed.
    own: Slab<Own>,
    spare: Spare,
    provided: Provided,
    memory: Option<Memory>,
    files: OpenFiles,
    listeners: HashMap<u32, Listener>,
    next_listener: u32,
    /// An accept may have to be armed or stopped.
    listeners_changed: bool,
    /// Receives that found no buffer, in order.
    starved: VecDeque<OpId>,
    /// Work that the helper's full queue has not taken yet.
    backlog: VecDeque<Job>,
    /// Operations that a kernel worker looks up by place, for each place; a close waits until they are done, since the place may
    /// be another file's or socket's right after it.
    late: HashMap<u32, Late>,
    /// Completions that need no word from the kernel.
    ready: Vec<Completion>,
    syncs_in_flight: usize,
    /// The next `reap` is the first of its turn.
    turn_begins: bool,
    /// When the core was last given away.
    core_given: Instant,
    /// A peer sleeps until what is queued reaches the kernel.
    urgent: bool,
    doorbell_armed: bool,
    /// Reused by `reap`.
    cqes: Vec<Cqe>,
    entropy: Entropy,
}

/// What a driver does with the arena once it has one.
struct Memory {
    arena: Arena,
    received: Arena,
    registered: Registered,
}

#[derive(Default)]
struct Late {
    in_flight: usize,
    close: Option<OpId>,
}

/// How a flight goes on after a completion.
enum Step {
    /// More of the same, unless the shard has lost interest.
    Again(State),
    /// The next submission of several, which must follow.
    Next(State),
    Finish(io::Result<Outcome>),
}

impl Uring {
    /// Sets the ring up for the calling thread, which must be the one that uses it.
    pub fn new(seat: UringSeat, options: UringOptions) -> io::Result<Self> {
        let mut ring = Ring::new(options.submission_entries, options.submission_entries * 4)?;
        let descriptors = crate::probe::open_files_limit().min(u64::from(options.descriptors_max));
        ring.submitter().register_files_sparse(u32::try_from(descriptors).unwrap_or(u32::MAX))?;
        let provided = Provided::new(&ring, options.recv_buffers)?;
        ring.stats.other_calls += 2;
        seat.peers.announce(seat.id, ring.as_fd())?;
        Ok(Self {
            seat,
            options,
            ring,
            flights: Flights::default(),
            own: Slab::new(),
            spare: Spare::default(),
            provided,
            memory: None,
            files: OpenFiles::default(),
            listeners: HashMap::new(),
            next_listener: 0,
            listeners_changed: false,
            starved: VecDeque::new(),
            backlog: VecDeque::new(),
            late: HashMap::new(),
            ready: Vec::new(),
            syncs_in_flight: 0,
            turn_begins: true,
            core_given: Instant::default(),
            urgent: false,
            doorbell_armed: false,
            cqes: Vec::new(),
            entropy: Entropy::default(),
        })
    }

    /// Gives the driver the shard's arena, for pinning, and the part for received bytes. Once, before the first operation.
    pub(crate) fn attach(&mut self, id: ShardId, arena: &Arena, received: &Arena) {
        assert_eq!(id, self.seat.id, "a shard has the ring of its own seat");
        assert!(self.memory.is_none(), "a driver serves one arena");
        let registered = Registered::new(&mut self.ring, arena, self.options.register_buffers);
        self.memory = Some(Memory { arena: arena.clone(), received: received.clone(), registered });
    }

    pub fn id(&self) -> ShardId {
        self.seat.id
    }

    /// Closes, from any thread, a socket that was passed to a shard and never adopted there.
    pub fn stray_closer(&self) -> StrayCloser {
        let returns = self.seat.returns_to.clone();
        Arc::new(move |shard, socket| returns.send(shard, Return::Stray { index: socket.0 }))
    }

    pub fn stats(&self) -> UringStats {
        self.ring.stats
    }

    /// Slabs of the arena that the kernel has pinned.
    pub fn registered_slabs(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.registered.count())
    }

    /// Operations whose completion has not been handed out.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Takes an operation over. Its completion comes from a later [`Uring::reap`], exactly once.
    pub fn submit(&mut self, id: OpId, op: Op) {
        let state = match op {
            Op::Read { file, offset, buf, len } => {
                assert!(len <= buf.capacity(), "a read of {len} bytes into {}", buf.capacity());
                State::Read { file: file.0, offset, buf, len, filled: 0 }
            }
            Op::Write { file, offset, data, sync } => {
                State::Write { file: file.0, offset, data: Gather::new(data), sync }
            }
            Op::Datasync { file } => State::Datasync { file: file.0 },
            Op::Fs(work) => return self.submit_fs(id, work),
            Op::Listen { addr } => return self.submit_listen(id, addr),
            Op::Accept { listener } => return self.submit_accept(id, listener.0),
            Op::Connect { addr } => return self.submit_connect(id, addr),
            Op::Recv { socket } => State::Recv { socket: socket.0, starved: false },
            Op::RecvInto { socket, buf, filled, until } => {
                assert!(
                    filled <= until && until <= buf.capacity(),
                    "a receive into {filled}..{until} of {}",
                    buf.capacity()
                );
                State::RecvInto { socket: socket.0, buf, filled, until }
            }
            Op::Send { socket, data } => State::Send { socket: socket.0, data: Gather::new(data) },
            Op::Shutdown { socket } => State::Shutdown { socket: socket.0 },
            Op::Pass { socket, to } => return self.submit_pass(id, socket, to),
            Op::CloseFile { file } => {
                if let Some(open) = self.files.remove(file.0) {
                    self.tell_janitor(None, Task::Forget { token: open.token });
                }
                State::Close { index: file.0 }
            }
            Op::CloseSocket { socket } => State::Close { index: socket.0 },
            Op::CloseListener { listener } => return self.submit_close_listener(id, listener.0),
            Op::Offload(work) => {
                self.flights.insert(Flight { id, cancelled: false, state: State::Offload });
                self.offload(Job::Work { shard: self.seat.id, id, work });
                return;
            }
        };
        self.issue(Flight { id, cancelled: false, state });
    }

    /// Asks for an early end; the terminal completion comes all the same, and may be a success.
    pub fn cancel(&mut self, id: OpId) {
        let Some(flight) = self.flights.get_mut(id) else { return };
        flight.cancelled = true;
        match &mut flight.state {
            // Another thread has it, or it is as good as done; it is waited for.
            State::Fs | State::Offload | State::Close { .. } => {}
            State::Accept { listener } => {
                if let Some(listener) = self.listeners.get_mut(listener) {
                    listener.forget(id);
                }
                self.finish(id, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
            }
            State::Recv { starved: true, .. } => {
                self.starved.retain(|&waiting| waiting != id);
                self.finish(id, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
            }
            _ => self.ring.cancel(token::of_op(id)),
        }
    }

    /// Ends a peer's park. Travels with the next `reap` or `park`.
    pub fn wake(&mut self, peer: ShardId) {
        if let Some(ring) = self.seat.peers.ring(peer) {
            self.urgent = true;
            self.ring.wake(peer, ring);
        }
    }

    /// `CLOCK_MONOTONIC`, the same on every shard.
    pub fn now(&self) -> Instant {
        let time = rustix::time::clock_gettime(ClockId::Monotonic);
        Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    pub fn wall(&self) -> WallTime {
        let time = rustix::time::clock_gettime(ClockId::Realtime);
        WallTime(time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
    }

    pub fn random(&mut self) -> u64 {
        self.entropy.next()
    }

    /// Ends the process at once, with nothing flushed.
    pub fn abort(&self, reason: &str) -> ! {
        tracing::error!(shard = self.seat.id.0, reason, "aborting");
        eprintln!("tidemill: aborted on shard {}: {reason}", self.seat.id);
        std::process::abort();
    }

    /// Starts the next submission of a flight and files it.
    fn issue(&mut self, mut flight: Flight) {
        let token = token::of_op(flight.id);
        let Some(entry) = self.entry(&mut flight) else {
            self.flights.insert(flight);
            return;
        };
        if flight.state.is_sync() {
            self.syncs_in_flight += 1;
        }
        if let Some(index) = flight.state.looked_up_late() {
            self.late.entry(index).or_default().in_flight += 1;
        }
        // SAFETY: whatever `entry` points to (arena memory of its buffers and slices, its scratch) is owned by `flight`, which stays
        // in `flights` until the completion of this token is reaped. Memory the kernel writes is reached by nobody else meanwhile.
        unsafe { self.ring.push(entry.user_data(token)) };
        self.flights.insert(flight);
    }

    /// The submission that the flight's state asks for; `None` where it stays without one for now.
    fn entry(&mut self, flight: &mut Flight) -> Option<Entry> {
        Some(match &mut flight.state {
            State::Read { file, offset, buf, len, filled } => files::read_entry(*file, *offset, buf, *filled..*len),
            State::Write { file, offset, data, sync } => {
                files::write_entry(*file, *offset, data, *sync, &mut self.spare)
            }
            State::Datasync { file } => files::datasync_entry(*file),
            State::ConnectInstall { socket } | State::Listen { socket, .. } => sockets::install_entry(socket),
            State::Connect { socket, scratch } => sockets::connect_entry(*socket, scratch),
            State::Recv { socket, starved } => {
                *starved |= self.provided.filled() == 0;
                if *starved {
                    self.starved.push_back(flight.id);
                    return None;
                }
                sockets::recv_entry(*socket)
            }
            State::RecvInto { socket, buf, filled, until } => sockets::recv_into_entry(*socket, buf, *filled..*until),
            State::Send { socket, data } => sockets::send_entry(*socket, data, &mut self.spare),
            State::Shutdown { socket } => opcode::Shutdown::new(Fixed(*socket), libc::SHUT_RDWR).build(),
            State::Pass { socket, ring, .. } => Ring::send_descriptor_entry(*socket, *ring),
            State::Close { index } => {
                if let Some(late) = self.late.get_mut(index) {
                    late.close = Some(flight.id);
                    return None;
                }
                opcode::Close::new(Fixed(*index)).build()
            }
            State::Fs | State::Offload | State::Accept { .. } => return None,
        })
    }

    /// Keeps what a state that ends can lend to the next one.
    fn end_of_state(&mut self, state: State) {
        if let State::Write { data: Gather { scratch: Some(scratch), .. }, .. }
        | State::Send { data: Gather { scratch: Some(scratch), .. }, .. }
        | State::Connect { scratch, .. } = state
        {
            self.spare.give_back(scratch);
        }
    }

    /// One operation less that needs the place as it is; the last one lets a close go on.
    fn late_done(&mut self, index: u32) {
        let Some(late) = self.late.get_mut(&index) else { return };
        late.in_flight -= 1;
        if late.in_flight == 0 {
            let close = self.late.remove(&index).and_then(|late| late.close);
            if let Some(flight) = close.and_then(|id| self.flights.take(id)) {
                self.issue(flight);
            }
        }
    }

    /// Hands out the completion of a flight that has no submission.
    fn finish(&mut self, id: OpId, result: io::Result<Outcome>) {
        if self.flights.take(id).is_some() {
            self.ready.push(Completion { id, result });
        }
    }

    fn tell_janitor(&mut self, id: Option<OpId>, task: Task) {
        let request = Request { shard: self.seat.id, id, task };
        // The janitor ends after the last shard, or takes the process with it.
        self.seat.janitor.send(request).expect("the janitor outlives the shards");
    }

    /// Hands work to the helper, or keeps it until the helper's queue has room.
    fn offload(&mut self, job: Job) {
        if !self.backlog.is_empty() {
            return self.backlog.push_back(job);
        }
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.seat.helper.try_send(job) {
            self.backlog.push_back(job);
        }
    }
}

impl Uring {
    /// Gives up all memory that the kernel may still use.
    fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.flights));
        std::mem::forget(std::mem::take(&mut self.own));
        std::mem::forget(self.memory.take());
        self.provided.leak();
    }
}

impl Drop for Uring {
    /// Waits until the kernel has let go of every buffer: a flight is never freed under it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The process is about to end with this thread; the kernel cleans up after it.
            return self.leak();
        }
        let deadline = self.now() + Duration::from_secs(10);
        for id in self.flights.ids() {
            self.cancel(id);
        }
        self.stop_listening();
        self.ring.cancel_all();
        while self.ring.in_kernel() > 0 && self.now() < deadline {
            self.ring.wait(Some(Duration::from_millis(100)));
            self.take_completions();
        }
        if self.ring.in_kernel() > 0 {
            tracing::error!(
                in_kernel = self.ring.in_kernel(),
                "the kernel did not end all operations; their memory is leaked"
            );
            return self.leak();
        }
        // Peers hold duplicates of this ring's descriptor; the sockets and files in its table must close now all the same.
        let _ = self.ring.submitter().unregister_files();
        let _ = self.ring.submitter().unregister_buffers();
        self.provided.release(&self.ring);
    }
}

/// Random numbers from the kernel, drawn in batches.
#[derive(Default)]
struct Entropy {
    left: Vec<u64>,
}

impl Entropy {
    fn next(&mut self) -> u64 {
        if self.left.is_empty() {
            let mut bytes = [0u8; 256];
            let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
            assert_eq!(drawn, Ok(bytes.len()), "up to 256 bytes are drawn whole");
            let (words, _) = bytes.as_chunks::<8>();
            self.left.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        self.left.pop().expect("just filled")
    }
}
