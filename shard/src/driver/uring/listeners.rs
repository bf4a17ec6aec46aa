//! Listening sockets: one multishot accept each, and the connections that wait to be asked for.
//!
//! Owner: one shard's driver. The accept is armed with the first [`crate::driver::Op::Accept`] and again whenever the kernel ends
//! it; an accepted socket is moved into the ring's table and then handed to whoever waits. A multishot accept cannot tell
//! the peer's address, so sockets arrive as ordinary descriptors for the moment that asking for it takes.
//!
//! Bounds: at most [`READY_MAX`] connections wait here; beyond that accepting stops and they wait in the kernel's backlog. Where
//! descriptors run out, accepting pauses for [`PAUSE`] instead of failing again at once.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use base::Instant;
use io_uring::opcode;
use io_uring::types::Fixed;

use super::flight::{Flight, Installing, Stable, State};
use super::ring::Cqe;
use super::{Uring, sockets, token};
use crate::driver::{Completion, ListenerId, OpId, Outcome, SocketId};

const READY_MAX: usize = 256;
const PAUSE: Duration = Duration::from_millis(50);

/// A submission of the driver itself.
pub(super) enum Own {
    /// A multishot accept.
    Accept { listener: u32 },
    /// An accepted socket on its way into the table.
    Install { listener: u32, socket: Installing, peer: SocketAddr },
    /// A read of the doorbell, which any thread may ring.
    Doorbell { scratch: Stable },
}

pub(super) struct Listener {
    /// Its place in the ring's table.
    index: u32,
    /// The multishot accept that is in the kernel.
    armed: Option<usize>,
    /// Someone has asked for a connection, so accepting may begin.
    wanted: bool,
    /// Accepting failed for want of descriptors or memory: not before this.
    retry_at: Option<Instant>,
    /// The failure has been logged; said again only after a success.
    told: bool,
    installing: usize,
    ready: VecDeque<(u32, SocketAddr)>,
    waiting: VecDeque<OpId>,
}

impl Listener {
    fn held(&self) -> usize {
        self.ready.len() + self.installing
    }

    pub fn forget(&mut self, id: OpId) {
        self.waiting.retain(|&waiting| waiting != id);
    }
}

impl Uring {
    pub(super) fn add_listener(&mut self, index: u32) -> ListenerId {
        let key = self.next_listener;
        self.next_listener += 1;
        let listener = Listener {
            index,
            armed: None,
            wanted: false,
            retry_at: None,
            told: false,
            installing: 0,
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        self.listeners.insert(key, listener);
        ListenerId(key)
    }

    pub(super) fn submit_accept(&mut self, id: OpId, key: u32) {
        let Some(listener) = self.listeners.get_mut(&key) else {
            self.ready.push(Completion { id, result: Err(io::Error::from_raw_os_error(libc::EBADF)) });
            return;
        };
        listener.wanted = true;
        self.flights.insert(Flight { id, cancelled: false, state: State::Accept { listener: key } });
        listener.waiting.push_back(id);
        self.hand_out(key);
        self.listeners_changed = true;
    }

    pub(super) fn submit_close_listener(&mut self, id: OpId, key: u32) {
        let Some(listener) = self.listeners.remove(&key) else {
            self.ready.push(Completion { id, result: Err(io::Error::from_raw_os_error(libc::EBADF)) });
            return;
        };
        if let Some(own) = listener.armed {
            self.ring.cancel(token::of_own(own));
        }
        for (socket, _) in listener.ready {
            self.ring.close_quietly(socket);
        }
        for waiting in listener.waiting {
            self.finish(waiting, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
        }
        self.issue(Flight { id, cancelled: false, state: State::Close { index: listener.index } });
    }

    /// Ends all accepting, for the driver's own end.
    pub(super) fn stop_listening(&mut self) {
        let armed: Vec<usize> = self.listeners.drain().filter_map(|(_, listener)| listener.armed).collect();
        for key in armed {
            self.ring.cancel(token::of_own(key));
        }
    }

    /// When a listener that paused may accept again.
    pub(super) fn accept_retry_at(&self) -> Option<Instant> {
        self.listeners.values().filter_map(|listener| listener.retry_at).min()
    }

    /// Arms the accepts that should be armed and are not, and stops those that run ahead of the shard.
    pub(super) fn arm_listeners(&mut self) {
        if !self.listeners_changed {
            return;
        }
        self.listeners_changed = false;
        let now = self.now();
        for (&key, listener) in &mut self.listeners {
            if listener.retry_at.is_some_and(|at| at <= now) {
                listener.retry_at = None;
            }
            let paused = listener.retry_at.is_some();
            // A pause ends by time: look again each turn until then.
            self.listeners_changed |= paused;
            match listener.armed {
                Some(own) if listener.held() >= READY_MAX => self.ring.cancel(token::of_own(own)),
                None if listener.wanted && !paused && listener.held() < READY_MAX / 2 => {
                    let own = self.own.insert(Own::Accept { listener: key });
                    listener.armed = Some(own);
                    let entry = opcode::AcceptMulti::new(Fixed(listener.index)).flags(libc::SOCK_CLOEXEC).build();
                    // SAFETY: a multishot accept points to no memory.
                    unsafe { self.ring.push(entry.user_data(token::of_own(own))) };
                }
                _ => {}
            }
        }
    }

    pub(super) fn own_completed(&mut self, key: usize, cqe: Cqe) {
        match &self.own[key] {
            Own::Doorbell { .. } => {
                let Own::Doorbell { scratch } = self.own.remove(key) else { unreachable!("just seen") };
                self.doorbell_rang(scratch, cqe);
            }
            Own::Accept { listener } => {
                self.listeners_changed = true;
                let listener = *listener;
                if !cqe.more() {
                    self.own.remove(key);
                    if let Some(listener) = self.listeners.get_mut(&listener) {
                        listener.armed = None;
                    }
                }
                self.accepted(listener, cqe);
            }
            Own::Install { .. } => {
                self.listeners_changed = true;
                let Own::Install { listener, socket, peer } = self.own.remove(key) else { unreachable!("just seen") };
                self.accepted_installed(listener, socket, peer, cqe);
            }
        }
    }

    fn accepted(&mut self, key: u32, cqe: Cqe) {
        let error = match cqe.outcome() {
            Ok(_) => {
                // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
                let descriptor = unsafe { OwnedFd::from_raw_fd(cqe.result) };
                return self.install_accepted(key, descriptor);
            }
            Err(error) => error,
        };
        let retry_at = self.now() + PAUSE;
        let Some(listener) = self.listeners.get_mut(&key) else { return };
        match error.raw_os_error() {
            // We asked for it, or the connection was gone before it was ours: armed again when there is room.
            Some(libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO) => {}
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => self.pause_accepting(key, &error),
            _ => {
                tracing::warn!(%error, "accepting connections failed");
                listener.retry_at = Some(retry_at);
                let waiting = listener.waiting.pop_front();
                if let Some(id) = waiting {
                    self.finish(id, Err(error));
                }
            }
        }
    }

    fn pause_accepting(&mut self, key: u32, error: &io::Error) {
        let retry_at = self.now() + PAUSE;
        self.ring.stats.accept_pauses += 1;
        let Some(listener) = self.listeners.get_mut(&key) else { return };
        listener.retry_at = Some(retry_at);
        if !std::mem::replace(&mut listener.told, true) {
            tracing::warn!(
                "new connections wait: {error}; raise the open-files limit (LimitNOFILE, ulimit -n) or have clients use fewer"
            );
        }
    }

    fn install_accepted(&mut self, key: u32, descriptor: OwnedFd) {
        self.ring.stats.other_calls += 1;
        let peer =
            rustix::net::getpeername(&descriptor).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        // Without a peer it was reset before it was ours.
        let (Some(listener), Some(peer)) = (self.listeners.get_mut(&key), peer) else { return };
        listener.installing += 1;
        let mut socket = Installing { descriptor, scratch: self.spare.take() };
        let entry = sockets::install_entry(&mut socket);
        let own = self.own.insert(Own::Install { listener: key, socket, peer });
        // SAFETY: the number that the kernel reads and overwrites lies in the scratch, which `own` keeps until this completes.
        unsafe { self.ring.push(entry.user_data(token::of_own(own))) };
    }

    fn accepted_installed(&mut self, key: u32, socket: Installing, peer: SocketAddr, cqe: Cqe) {
        let result = cqe.outcome().map(|_| self.installed(&socket));
        self.spare.give_back(socket.scratch);
        let Some(listener) = self.listeners.get_mut(&key) else {
            if let Ok(index) = result {
                self.ring.close_quietly(index);
            }
            return;
        };
        listener.installing -= 1;
        match result {
            Ok(index) => {
                listener.told = false;
                listener.ready.push_back((index, peer));
                self.hand_out(key);
            }
            // The table is full. The connection is dropped: its client tries again, and finds accepting paused.
            Err(error) => self.pause_accepting(key, &error),
        }
    }

    /// Gives connections that are ready to those who wait.
    fn hand_out(&mut self, key: u32) {
        loop {
            let Some(listener) = self.listeners.get_mut(&key) else { return };
            if listener.ready.is_empty() || listener.waiting.is_empty() {
                return;
            }
            let (Some((index, peer)), Some(id)) = (listener.ready.pop_front(), listener.waiting.pop_front()) else {
                return;
            };
            self.finish(id, Ok(Outcome::Accepted { socket: SocketId(index), peer }));
        }
    }
}
