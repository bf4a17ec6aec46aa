//! Listeners and connections.
//!
//! Owner: the shard whose driver holds the descriptor; [`Socket::pass_to`] gives a connection to another shard. Receiving and
//! accepting lose nothing when their future is dropped: the operation stays with the socket and the next call goes on with it.
//! Closed when dropped.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use base::ShardId;

use crate::buffer::{Buf, ForeignSlice, Slice};
use crate::driver::{ListenerId, Op, Outcome, SocketId, StrayCloser};
use crate::ops::{Pending, mismatch};
use crate::shard::Shard;

/// A listening socket.
pub struct Listener {
    shard: Shard,
    id: ListenerId,
    local_addr: SocketAddr,
    accepting: RefCell<Option<Pending>>,
}

impl Listener {
    pub(crate) fn new(shard: Shard, id: ListenerId, local_addr: SocketAddr) -> Self {
        Self { shard, id, local_addr, accepting: RefCell::default() }
    }

    /// Where it listens; the port is the real one.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The next connection and where it comes from.
    pub async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let submit = || self.shard.submit(Op::Accept { listener: self.id });
        match Resumed::new(&self.accepting, submit).await? {
            Outcome::Accepted { socket, peer } => Ok((Socket::new(self.shard.clone(), socket), peer)),
            other => mismatch(&other),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Cancelled first; a connection that it yields all the same is closed.
        self.accepting.take();
        self.shard.submit_detached(Op::CloseListener { listener: self.id });
    }
}

/// A connection. One task may receive while another sends.
pub struct Socket {
    shard: Shard,
    id: SocketId,
    receiving: RefCell<Option<Pending>>,
    /// Bytes that came in but were not yet asked for.
    ahead: RefCell<Option<Slice>>,
    /// Passed to this very shard: the descriptor goes on under another handle.
    kept: bool,
}

impl Socket {
    pub(crate) fn new(shard: Shard, id: SocketId) -> Self {
        Self { shard, id, receiving: RefCell::default(), ahead: RefCell::default(), kept: false }
    }

    /// What has come in, in one piece of the driver's choosing; empty at the end of the stream.
    pub async fn recv(&self) -> io::Result<Slice> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        let submit = || self.shard.submit(Op::Recv { socket: self.id });
        match Resumed::new(&self.receiving, submit).await? {
            Outcome::Received(bytes) => Ok(bytes),
            other => mismatch(&other),
        }
    }

    /// Fills `buf`, which may hold a beginning already, up to `until` bytes; `UnexpectedEof` when the stream ends before. Bytes are lost when the
    /// future is dropped half-way: the connection is then of no more use.
    ///
    /// # Panics
    /// When `until` exceeds the capacity.
    pub async fn recv_into(&self, mut buf: Buf, until: usize) -> io::Result<Buf> {
        assert!(until <= buf.capacity(), "{until} bytes into a buffer of {}", buf.capacity());
        while buf.len() < until && (self.ahead.borrow().is_some() || self.receiving.borrow().is_some()) {
            let mut bytes = self.recv().await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.extend_from_slice(&bytes.split_to(bytes.len().min(until - buf.len())));
            if !bytes.is_empty() {
                self.ahead.replace(Some(bytes));
            }
        }
        if buf.len() >= until {
            return Ok(buf);
        }
        let filled = buf.len();
        match self.shard.submit(Op::RecvInto { socket: self.id, buf, filled, until }).await? {
            Outcome::Read { mut buf, .. } => {
                buf.set_len(until);
                Ok(buf)
            }
            other => mismatch(&other),
        }
    }

    /// Sends all slices, in order. One send at a time.
    pub async fn send(&self, data: Vec<Slice>) -> io::Result<()> {
        match self.shard.submit(Op::Send { socket: self.id, data }).await? {
            Outcome::Done => Ok(()),
            other => mismatch(&other),
        }
    }

    /// Ends both directions; pending operations complete.
    pub fn shutdown(&self) {
        self.shard.submit_detached(Op::Shutdown { socket: self.id });
    }

    /// Gives the connection to another shard, with what was received but not yet read.
    pub async fn pass_to(mut self, shard: ShardId) -> io::Result<PassedSocket> {
        let receiving = self.receiving.take();
        if let Some(pending) = receiving {
            pending.cancel();
            if let Ok(Outcome::Received(bytes)) = pending.await {
                self.ahead.replace(Some(bytes));
            }
        }
        let ahead = self.ahead.take().map(|bytes| bytes.export());
        let stray = self.shard.stray_closer();
        if shard == self.shard.id() {
            self.kept = true;
            return Ok(PassedSocket { socket: self.id, to: shard, ahead, stray });
        }
        // The peer gets a descriptor of its own; ours is closed as always, when `self` goes.
        match self.shard.submit(Op::Pass { socket: self.id, to: shard }).await? {
            Outcome::Socket(socket) => Ok(PassedSocket { socket, to: shard, ahead, stray }),
            other => mismatch(&other),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.receiving.take();
        if !self.kept {
            self.shard.submit_detached(Op::CloseSocket { socket: self.id });
        }
    }
}

/// A connection on its way to another shard. Dropped without being adopted, it is closed over there.
pub struct PassedSocket {
    socket: SocketId,
    to: ShardId,
    ahead: Option<ForeignSlice>,
    /// Taken by `adopt`.
    stray: Option<StrayCloser>,
}

impl PassedSocket {
    /// Takes the connection over.
    ///
    /// # Panics
    /// On a shard that it was not passed to.
    #[must_use]
    pub fn adopt(mut self, shard: &Shard) -> Socket {
        assert_eq!(self.to, shard.id(), "a connection is adopted by the shard it was passed to");
        self.stray = None;
        let socket = Socket::new(shard.clone(), self.socket);
        socket.ahead.replace(self.ahead.take().map(Slice::from_foreign));
        socket
    }
}

impl Drop for PassedSocket {
    fn drop(&mut self) {
        if let Some(close) = self.stray.take() {
            close(self.to, self.socket);
        }
    }
}

impl fmt::Debug for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PassedSocket({} to shard {})", self.socket.0, self.to)
    }
}

/// An operation that survives its future: when dropped, it goes back to where the next call finds it.
struct Resumed<'a> {
    place: &'a RefCell<Option<Pending>>,
    pending: Option<Pending>,
}

impl<'a> Resumed<'a> {
    fn new(place: &'a RefCell<Option<Pending>>, submit: impl FnOnce() -> Pending) -> Self {
        let pending = Some(place.take().unwrap_or_else(submit));
        Self { place, pending }
    }
}

impl Future for Resumed<'_> {
    type Output = io::Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Outcome>> {
        let pending = self.pending.as_mut().expect("polled after its end");
        let result = std::task::ready!(Pin::new(pending).poll(context));
        self.pending = None;
        Poll::Ready(result)
    }
}

impl Drop for Resumed<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.place.replace(Some(pending));
        }
    }
}
