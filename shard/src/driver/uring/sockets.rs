//! Connections: connect, receive, send, shut down, pass to a peer.
//!
//! Owner: one shard's driver. Sockets are blocking ones in the ring's table (io_uring polls for them; a non-blocking descriptor
//! would make it fail with `EAGAIN` instead). No signal is ever raised: sends carry `MSG_NOSIGNAL`.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use base::ShardId;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fixed;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::flight::{Flight, Gather, Installing, Scratch, Spare, Stable, State};
use super::provided;
use super::returns::Return;
use super::ring::Cqe;
use super::{Step, Uring};
use crate::buffer::{Buf, Slice};
use crate::driver::{Completion, OpId, Outcome, RECV_BYTES, SocketId};

/// `IORING_FILE_INDEX_ALLOC`: the kernel picks a free place in the table.
const ANY_PLACE: i32 = -1;

/// Bytes handed to one receive or send at most; the rest follows in the next.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

pub(super) fn install_entry(socket: &mut Installing) -> Entry {
    socket.scratch.descriptor = socket.descriptor.as_raw_fd();
    opcode::FilesUpdate::new(&raw const socket.scratch.descriptor, 1).offset(ANY_PLACE).build()
}

pub(super) fn connect_entry(socket: u32, scratch: &Stable) -> Entry {
    let address = (&raw const scratch.address).cast();
    opcode::Connect::new(Fixed(socket), address, scratch.address_len).build()
}

pub(super) fn recv_entry(socket: u32) -> Entry {
    opcode::Recv::new(Fixed(socket), std::ptr::null_mut(), RECV_BYTES as u32)
        .buf_group(provided::GROUP)
        .build()
        .flags(Flags::BUFFER_SELECT)
}

pub(super) fn recv_into_entry(socket: u32, buf: &mut Buf, range: Range<usize>) -> Entry {
    let len = range.len().min(TRANSFER_BYTES_MAX) as u32;
    opcode::Recv::new(Fixed(socket), buf.as_mut_ptr().wrapping_add(range.start), len).flags(libc::MSG_WAITALL).build()
}

pub(super) fn send_entry(socket: u32, data: &mut Gather, spare: &mut Spare) -> Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    if let Some((_, rest)) = data.single() {
        let len = rest.len().min(TRANSFER_BYTES_MAX) as u32;
        return opcode::Send::new(Fixed(socket), rest.as_ptr(), len).flags(flags).build();
    }
    let scratch = data.list(spare);
    scratch.message.msg_iov = scratch.pieces.as_mut_ptr();
    scratch.message.msg_iovlen = scratch.pieces.len();
    opcode::SendMsg::new(Fixed(socket), &raw const scratch.message).flags(flags as u32).build()
}

/// A stream socket for `addr`'s family, with small writes sent at once.
fn stream_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Accepted sockets inherit it from their listener.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// A socket bound to `addr` that accepts connections; whoever listens on a port of a dead process need not wait for it to be forgotten.
pub(super) fn listening_socket(addr: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    const BACKLOG: i32 = 4096;
    let socket = stream_socket(addr)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &addr)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, local))
}

impl Scratch {
    fn set_address(&mut self, addr: SocketAddr) {
        let place = &raw mut self.address;
        self.address_len = match addr {
            SocketAddr::V4(v4) => {
                let address = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: `sockaddr_storage` is made to hold any address and is aligned for it.
                unsafe { place.cast::<libc::sockaddr_in>().write(address) };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(v6) => {
                let address = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_in6>().write(address) };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        };
    }
}

impl Uring {
    pub(super) fn submit_connect(&mut self, id: OpId, addr: SocketAddr) {
        self.ring.stats.other_calls += 2;
        match stream_socket(addr) {
            Ok(descriptor) => {
                let mut scratch = self.spare.take();
                scratch.set_address(addr);
                let state = State::ConnectInstall { socket: Installing { descriptor, scratch } };
                self.issue(Flight { id, cancelled: false, state });
            }
            Err(error) => self.ready.push(Completion { id, result: Err(error) }),
        }
    }

    pub(super) fn submit_listen(&mut self, id: OpId, addr: SocketAddr) {
        self.ring.stats.other_calls += 6;
        match listening_socket(addr) {
            Ok((descriptor, local_addr)) => {
                let scratch = self.spare.take();
                let state = State::Listen { socket: Installing { descriptor, scratch }, local_addr };
                self.issue(Flight { id, cancelled: false, state });
            }
            Err(error) => self.ready.push(Completion { id, result: Err(error) }),
        }
    }

    pub(super) fn submit_pass(&mut self, id: OpId, socket: SocketId, to: ShardId) {
        match self.seat.peers.ring(to) {
            Some(ring) => {
                self.issue(Flight { id, cancelled: false, state: State::Pass { socket: socket.0, to, ring } })
            }
            None => self.ready.push(Completion { id, result: Err(io::Error::from_raw_os_error(libc::EHOSTUNREACH)) }),
        }
    }

    pub(super) fn socket_step(&mut self, state: State, cqe: Cqe) -> Step {
        if let State::Recv { socket, .. } = state {
            return self.recv_step(socket, cqe);
        }
        if cqe.is_error(libc::EINTR) || cqe.is_error(libc::EAGAIN) {
            return Step::Again(state);
        }
        match cqe.outcome() {
            Err(error) => {
                // A connection that failed leaves its socket in the table.
                if let State::Connect { socket, .. } = state {
                    self.ring.close_quietly(socket);
                }
                self.end_of_state(state);
                Step::Finish(Err(error))
            }
            Ok(count) => match state {
                State::RecvInto { socket, buf, filled, until } => {
                    self.received_into(socket, buf, filled + count, until, count)
                }
                State::Send { socket, data } => self.sent(socket, data, count),
                other => self.socket_advanced(other),
            },
        }
    }

    fn recv_step(&mut self, socket: u32, cqe: Cqe) -> Step {
        let block = cqe.buffer().map(|id| self.provided.take(id));
        match (cqe.outcome(), block) {
            (Ok(0), _) => Step::Finish(Ok(Outcome::Received(Slice::default()))),
            (Ok(count), Some(mut block)) => {
                block.set_len(count);
                Step::Finish(Ok(Outcome::Received(block.freeze())))
            }
            (Ok(_), None) => {
                Step::Finish(Err(io::Error::other("the kernel received into a buffer that it does not name")))
            }
            (Err(_), _) if cqe.is_error(libc::ENOBUFS) => {
                // Not tried again until a block can be lent: waiting costs nothing, trying would spin.
                self.ring.stats.starved_receives += 1;
                Step::Again(State::Recv { socket, starved: true })
            }
            (Err(_), _) if cqe.is_error(libc::EINTR) || cqe.is_error(libc::EAGAIN) => {
                Step::Again(State::Recv { socket, starved: false })
            }
            (Err(error), _) => Step::Finish(Err(error)),
        }
    }

    fn received_into(&mut self, socket: u32, mut buf: Buf, filled: usize, until: usize, count: usize) -> Step {
        if filled == until {
            buf.set_len(until);
            return Step::Finish(Ok(Outcome::Read { buf, len: until }));
        }
        if count == 0 {
            return Step::Finish(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.ring.stats.continuations += 1;
        Step::Again(State::RecvInto { socket, buf, filled, until })
    }

    fn sent(&mut self, socket: u32, mut data: Gather, count: usize) -> Step {
        data.advance(count);
        if !data.is_done() && count > 0 {
            self.ring.stats.continuations += 1;
            return Step::Again(State::Send { socket, data });
        }
        let result = if data.is_done() { Ok(Outcome::Done) } else { Err(io::ErrorKind::WriteZero.into()) };
        self.end_of_state(State::Send { socket, data });
        Step::Finish(result)
    }

    /// A step of an operation with several of them went well.
    fn socket_advanced(&mut self, state: State) -> Step {
        match state {
            State::ConnectInstall { socket } => {
                let index = self.installed(&socket);
                Step::Next(State::Connect { socket: index, scratch: socket.scratch })
            }
            State::Connect { socket, scratch } => {
                self.spare.give_back(scratch);
                Step::Finish(Ok(Outcome::Socket(SocketId(socket))))
            }
            State::Listen { socket, local_addr } => {
                let index = self.installed(&socket);
                self.spare.give_back(socket.scratch);
                let listener = self.add_listener(index);
                Step::Finish(Ok(Outcome::Listener { listener, local_addr }))
            }
            _ => Step::Finish(Ok(Outcome::Done)),
        }
    }

    /// The place of a descriptor that the kernel has taken into the table; its number in the process is closed with `socket`.
    pub(super) fn installed(&mut self, socket: &Installing) -> u32 {
        self.ring.stats.other_calls += 1;
        u32::try_from(socket.scratch.descriptor).expect("the kernel wrote the place it picked")
    }

    /// The peer has a descriptor of its own on the socket now. One that nobody waits for any more is closed over there.
    pub(super) fn passed(&mut self, to: ShardId, cqe: Cqe, cancelled: bool) -> io::Result<Outcome> {
        let there = cqe.outcome()? as u32;
        if !cancelled {
            return Ok(Outcome::Socket(SocketId(there)));
        }
        self.seat.returns_to.send(to, Return::Stray { index: there });
        Err(io::Error::from_raw_os_error(libc::ECANCELED))
    }
}
