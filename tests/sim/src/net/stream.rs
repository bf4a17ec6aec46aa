//! One end of a simulated connection: bytes on their way in, bytes waiting to be received, operations that wait for either.
//!
//! Owned by the network of the world. Invariants: what is on the wire arrives in order and once; wire and inbox of one end
//! together never hold more than [`WINDOW_BYTES`], so a sender whose peer does not receive waits.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use base::{Instant, Random};
use shard::driver::Outcome;
use shard::{Buf, Slice};

use crate::seat::{Seat, Ticket};

/// As much as a peer may have sent ahead of its receiver: enough for a large batch to need many rounds.
pub const WINDOW_BYTES: usize = 192 << 10;
/// The largest piece that one `Recv` returns.
const RECV_BYTES: usize = 64 << 10;

pub const EPIPE: i32 = 32;
pub const ECONNRESET: i32 = 104;

/// What travels to an end.
#[derive(Debug)]
pub enum Flight {
    Data(Vec<u8>),
    End,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// The peer will send no more.
    Ended,
    Reset,
}

#[derive(Debug)]
enum Receive {
    Any(Ticket),
    Into { ticket: Ticket, buf: Buf, filled: usize, until: usize },
}

#[derive(Debug)]
struct Sending {
    ticket: Ticket,
    data: VecDeque<Slice>,
    /// Bytes of the first slice that are on the wire.
    sent: usize,
}

/// An operation that ended.
pub type Ended = (Ticket, io::Result<Outcome>);

#[derive(Debug)]
pub struct Stream {
    pub owner: Seat,
    /// The other end; gone once it is closed.
    pub peer: u32,
    pub peer_addr: SocketAddr,
    wire: VecDeque<(Instant, Flight)>,
    inbox: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that were received.
    taken: usize,
    held_bytes: usize,
    state: State,
    receive: Option<Receive>,
    sending: VecDeque<Sending>,
    /// This end was shut down: nothing is sent or received any more.
    pub shut: bool,
}

fn refused<T>(code: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(code))
}

impl Stream {
    pub fn new(owner: Seat, peer: u32, peer_addr: SocketAddr) -> Self {
        Self {
            owner,
            peer,
            peer_addr,
            wire: VecDeque::new(),
            inbox: VecDeque::new(),
            taken: 0,
            held_bytes: 0,
            state: State::Open,
            receive: None,
            sending: VecDeque::new(),
            shut: false,
        }
    }

    pub fn room(&self) -> usize {
        WINDOW_BYTES - self.held_bytes
    }

    pub fn has_unread(&self) -> bool {
        self.held_bytes > 0
    }

    /// Puts something on the wire to this end. Gives its arrival, when nothing was on the wire before.
    pub fn put(&mut self, due: Instant, flight: Flight) -> Option<Instant> {
        if let Flight::Data(bytes) = &flight {
            self.held_bytes += bytes.len();
        }
        let due = self.wire.back().map_or(due, |(last, _)| due.max(*last));
        self.wire.push_back((due, flight));
        (self.wire.len() == 1).then_some(due)
    }

    /// The wire breaks: what was on it is gone.
    pub fn cut_wire(&mut self) {
        for (_, flight) in self.wire.drain(..) {
            if let Flight::Data(bytes) = flight {
                self.held_bytes -= bytes.len();
            }
        }
    }

    /// The first thing on the wire arrives. Gives when the next one is due.
    pub fn arrive(&mut self) -> Option<Instant> {
        let (_, flight) = self.wire.pop_front()?;
        match flight {
            Flight::Data(bytes) if self.shut || self.state == State::Reset => self.held_bytes -= bytes.len(),
            Flight::Data(bytes) => self.inbox.push_back(bytes),
            Flight::End if self.state == State::Open => self.state = State::Ended,
            Flight::End => {}
            Flight::Reset => self.reset(),
        }
        self.wire.front().map(|(due, _)| *due)
    }

    /// A reset throws away what was not received.
    fn reset(&mut self) {
        self.state = State::Reset;
        self.held_bytes -= self.inbox.drain(..).map(|chunk| chunk.len()).sum::<usize>() - self.taken;
        self.taken = 0;
    }

    pub fn receive_any(&mut self, ticket: Ticket) {
        self.receive = Some(Receive::Any(ticket));
    }

    pub fn receive_into(&mut self, ticket: Ticket, buf: Buf, filled: usize, until: usize) {
        self.receive = Some(Receive::Into { ticket, buf, filled, until });
    }

    pub fn is_receiving(&self) -> bool {
        self.receive.is_some()
    }

    pub fn send(&mut self, ticket: Ticket, data: Vec<Slice>) {
        self.sending.push_back(Sending { ticket, data: data.into(), sent: 0 });
    }

    /// Serves a waiting receive with what is there; gives its end, if it came.
    pub fn serve(&mut self, random: &mut Random) -> Option<Ended> {
        match self.receive.take()? {
            Receive::Any(ticket) => match self.serve_any(random) {
                Some(result) => Some((ticket, result.map(|bytes| Outcome::Received(Slice::from_vec(bytes))))),
                None => {
                    self.receive = Some(Receive::Any(ticket));
                    None
                }
            },
            Receive::Into { ticket, mut buf, mut filled, until } => {
                if buf.len() < until {
                    buf.set_len(until);
                }
                while filled < until && !self.inbox.is_empty() {
                    filled += self.take(&mut buf[filled..until]);
                }
                if filled == until {
                    return Some((ticket, Ok(Outcome::Read { buf, len: until })));
                }
                match self.state {
                    _ if self.shut => Some((ticket, Err(io::ErrorKind::UnexpectedEof.into()))),
                    State::Ended => Some((ticket, Err(io::ErrorKind::UnexpectedEof.into()))),
                    State::Reset => Some((ticket, refused(ECONNRESET))),
                    State::Open => {
                        self.receive = Some(Receive::Into { ticket, buf, filled, until });
                        None
                    }
                }
            }
        }
    }

    fn serve_any(&mut self, random: &mut Random) -> Option<io::Result<Vec<u8>>> {
        if self.shut {
            return Some(Ok(Vec::new()));
        }
        let there = self.inbox.iter().map(Vec::len).sum::<usize>() - self.taken;
        if there == 0 {
            return match self.state {
                State::Open => None,
                State::Ended => Some(Ok(Vec::new())),
                State::Reset => Some(refused(ECONNRESET)),
            };
        }
        let limit = there.min(RECV_BYTES);
        let wanted = match random.below(8) {
            0 => 1 + random.below(limit as u64) as usize,
            1 => 1 + random.below(limit.min(16) as u64) as usize,
            _ => limit,
        };
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            filled += self.take(&mut bytes[filled..]);
        }
        Some(Ok(bytes))
    }

    /// Moves bytes of the first chunk out.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let Some(chunk) = self.inbox.front() else { return 0 };
        let len = (chunk.len() - self.taken).min(into.len());
        into[..len].copy_from_slice(&chunk[self.taken..self.taken + len]);
        self.taken += len;
        self.held_bytes -= len;
        if self.taken == chunk.len() {
            self.inbox.pop_front();
            self.taken = 0;
        }
        len
    }

    /// The next fragment to put on the wire, at most `room` bytes, and the operation that it ends.
    pub fn fragment(&mut self, room: usize, random: &mut Random) -> Option<(Vec<u8>, Option<Ended>)> {
        let first = self.sending.front_mut()?;
        let left = first.data.iter().map(|slice| slice.len()).sum::<usize>() - first.sent;
        if room == 0 && left > 0 {
            return None;
        }
        let most = left.min(room).min(64 << 10);
        let len = match random.below(16) {
            0 if most > 0 => 1 + random.below(most as u64) as usize,
            1 if most > 0 => 1 + random.below(most.min(8) as u64) as usize,
            _ => most,
        };
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let slice = &first.data[0];
            let take = (slice.len() - first.sent).min(len - bytes.len());
            bytes.extend_from_slice(&slice[first.sent..first.sent + take]);
            first.sent += take;
            if first.sent == slice.len() {
                first.data.pop_front();
                first.sent = 0;
            }
        }
        let ended = (len == left).then(|| (first.ticket, Ok(Outcome::Done)));
        if ended.is_some() {
            self.sending.pop_front();
        }
        Some((bytes, ended))
    }

    pub fn is_reset(&self) -> bool {
        self.state == State::Reset
    }

    /// Everything that waits to be sent fails.
    pub fn fail_sends(&mut self, code: i32, ended: &mut Vec<Ended>) {
        ended.extend(self.sending.drain(..).map(|sending| (sending.ticket, refused(code))));
    }

    /// Ends both directions here; what waits ends too.
    pub fn shut(&mut self, random: &mut Random, ended: &mut Vec<Ended>) {
        self.shut = true;
        self.held_bytes -= self.inbox.drain(..).map(|chunk| chunk.len()).sum::<usize>() - self.taken;
        self.taken = 0;
        ended.extend(self.serve(random));
        self.fail_sends(EPIPE, ended);
    }

    /// Ends one waiting operation early; its data stays where it is.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let receives = match &self.receive {
            Some(Receive::Any(waiting)) => *waiting == ticket,
            Some(Receive::Into { ticket: waiting, .. }) => *waiting == ticket,
            None => false,
        };
        if receives {
            self.receive = None;
            return true;
        }
        let before = self.sending.len();
        self.sending.retain(|sending| sending.ticket != ticket);
        self.sending.len() < before
    }
}
