//! The network between simulated machines: listeners, connections, delays, resets and partitions.
//!
//! Owned by the world, which calls [`Net::fire`] when an event is due. An address is a machine's own (`10.0.0.n`); loopback
//! and the unspecified address mean the machine that asks. Pure: time and randomness come in, ends and events go out.

mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::{Instant, Random, ShardId};
use shard::driver::{ListenerId, Outcome, SocketId};
use shard::{Buf, Slice};

use crate::seat::{MachineId, Seat, Ticket};
pub use stream::Ended;
use stream::{ECONNRESET, EPIPE, Flight, Stream};

const EADDRINUSE: i32 = 98;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;
/// How often a sender tries again while a partition holds.
const RETRANSMIT: Duration = Duration::from_millis(150);
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const BACKLOG: usize = 128;

/// What the network wants to be called for later.
#[derive(Clone, Copy, Debug)]
pub enum NetEvent {
    /// Something reaches a stream's end.
    Arrive(u32),
    Connect {
        ticket: Ticket,
        to: (MachineId, u16),
        give_up: Instant,
    },
}

/// What came of a call: operations that ended now, and events to schedule.
#[derive(Default)]
pub struct Effects {
    pub ended: Vec<Ended>,
    pub schedule: Vec<(Instant, NetEvent)>,
}

struct Listener {
    owner: Seat,
    address: (MachineId, u16),
    backlog: VecDeque<u32>,
    accepts: VecDeque<Ticket>,
}

pub struct Net {
    random: Random,
    listeners: BTreeMap<u32, Listener>,
    streams: BTreeMap<u32, Stream>,
    next_id: u32,
    next_port: u16,
    /// Pairs of machines that cannot reach each other, the lower id first.
    cut: BTreeSet<(MachineId, MachineId)>,
    pub delays: Delays,
}

/// How long a packet takes.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    pub least: Duration,
    pub spread: Duration,
    /// One packet in so many takes up to a hundred times as long.
    pub slow_one_in: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { least: Duration::from_micros(15), spread: Duration::from_micros(80), slow_one_in: 200 }
    }
}

/// The address of a machine.
pub fn address_of(machine: MachineId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, machine.0 as u8 + 1))
}

impl Net {
    pub fn new(random: Random) -> Self {
        Self {
            random,
            listeners: BTreeMap::new(),
            streams: BTreeMap::new(),
            next_id: 1,
            next_port: 40_000,
            cut: BTreeSet::new(),
            delays: Delays::default(),
        }
    }

    fn delay(&mut self) -> Duration {
        let spread = self.random.below(self.delays.spread.as_nanos() as u64 + 1);
        let usual = self.delays.least + Duration::from_nanos(spread);
        match self.random.chance(1, self.delays.slow_one_in) {
            true => usual * (1 + self.random.below(100) as u32),
            false => usual,
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn is_cut(&self, a: MachineId, b: MachineId) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// Cuts, or heals, the way between two machines: nothing is lost, nothing arrives.
    pub fn set_cut(&mut self, a: MachineId, b: MachineId, cut: bool) {
        let pair = (a.min(b), a.max(b));
        if cut {
            self.cut.insert(pair);
        } else {
            self.cut.remove(&pair);
        }
    }

    // ---- listeners

    pub fn listen(&mut self, owner: Seat, addr: SocketAddr) -> io::Result<Outcome> {
        let taken = |port| self.listeners.values().any(|l| l.address == (owner.machine, port));
        let port = match addr.port() {
            0 => (20_000..).find(|&port| !taken(port)).expect("fewer listeners than ports"),
            port if taken(port) => return Err(io::Error::from_raw_os_error(EADDRINUSE)),
            port => port,
        };
        let id = self.id();
        let address = (owner.machine, port);
        self.listeners.insert(id, Listener { owner, address, backlog: VecDeque::new(), accepts: VecDeque::new() });
        Ok(Outcome::Listener { listener: ListenerId(id), local_addr: SocketAddr::new(addr.ip(), port) })
    }

    pub fn accept(&mut self, ticket: Ticket, listener: ListenerId, effects: &mut Effects) {
        let Some(found) = self.listeners.get_mut(&listener.0) else {
            effects.ended.push((ticket, Err(io::ErrorKind::InvalidInput.into())));
            return;
        };
        found.accepts.push_back(ticket);
        self.serve_accepts(listener.0, effects);
    }

    fn serve_accepts(&mut self, listener: u32, effects: &mut Effects) {
        let Some(found) = self.listeners.get_mut(&listener) else { return };
        while !found.accepts.is_empty()
            && let Some(id) = found.backlog.pop_front()
        {
            let ticket = found.accepts.pop_front().expect("not empty");
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.owner = ticket.seat;
            effects.ended.push((ticket, Ok(Outcome::Accepted { socket: SocketId(id), peer: stream.peer_addr })));
        }
    }

    pub fn close_listener(&mut self, listener: ListenerId, now: Instant, effects: &mut Effects) {
        if let Some(found) = self.listeners.remove(&listener.0) {
            for ticket in found.accepts {
                effects.ended.push((ticket, Err(io::Error::from_raw_os_error(crate::seat::ECANCELED))));
            }
            for id in found.backlog {
                self.close(id, now, effects);
            }
        }
    }

    // ---- connections

    pub fn connect(&mut self, ticket: Ticket, addr: SocketAddr, now: Instant, effects: &mut Effects) {
        let machine = match addr.ip() {
            ip if ip.is_loopback() || ip.is_unspecified() => ticket.seat.machine,
            IpAddr::V4(ip) if ip.octets()[..3] == [10, 0, 0] && ip.octets()[3] > 0 => {
                MachineId(u16::from(ip.octets()[3]) - 1)
            }
            _ => {
                effects.ended.push((ticket, Err(io::Error::from_raw_os_error(ECONNREFUSED))));
                return;
            }
        };
        let event = NetEvent::Connect { ticket, to: (machine, addr.port()), give_up: now + CONNECT_LIMIT };
        effects.schedule.push((now + self.delay(), event));
    }

    /// An event is due. The world drops those of machines that ended.
    pub fn fire(&mut self, event: NetEvent, now: Instant, effects: &mut Effects) {
        match event {
            NetEvent::Arrive(id) => self.arrive(id, now, effects),
            NetEvent::Connect { ticket, to, give_up } => {
                if self.is_cut(ticket.seat.machine, to.0) {
                    if now >= give_up {
                        effects.ended.push((ticket, Err(io::Error::from_raw_os_error(ETIMEDOUT))));
                    } else {
                        effects.schedule.push((now + RETRANSMIT, event));
                    }
                    return;
                }
                let result = self.join(ticket.seat, to, effects);
                effects.ended.push((ticket, result));
            }
        }
    }

    fn join(&mut self, from: Seat, to: (MachineId, u16), effects: &mut Effects) -> io::Result<Outcome> {
        let open = |(_, l): &(&u32, &mut Listener)| l.address == to && l.backlog.len() < BACKLOG;
        let Some((&listener, found)) = self.listeners.iter_mut().find(open) else {
            return Err(io::Error::from_raw_os_error(ECONNREFUSED));
        };
        let (near, far) = (self.next_id + 1, self.next_id + 2);
        self.next_id += 2;
        self.next_port = self.next_port.checked_add(1).unwrap_or(40_000);
        let near_addr = SocketAddr::new(address_of(from.machine), self.next_port);
        self.streams.insert(near, Stream::new(from, far, SocketAddr::new(address_of(to.0), to.1)));
        self.streams.insert(far, Stream::new(found.owner, near, near_addr));
        found.backlog.push_back(far);
        self.serve_accepts(listener, effects);
        Ok(Outcome::Socket(SocketId(near)))
    }

    fn arrive(&mut self, id: u32, now: Instant, effects: &mut Effects) {
        let Some(stream) = self.streams.get(&id) else { return };
        let (machine, peer) = (stream.owner.machine, stream.peer);
        if self.streams.get(&peer).is_some_and(|peer| self.is_cut(machine, peer.owner.machine)) {
            effects.schedule.push((now + RETRANSMIT, NetEvent::Arrive(id)));
            return;
        }
        let stream = self.streams.get_mut(&id).expect("looked up above");
        if let Some(next) = stream.arrive() {
            effects.schedule.push((next.max(now), NetEvent::Arrive(id)));
        }
        if stream.is_reset() {
            stream.fail_sends(ECONNRESET, &mut effects.ended);
        }
        self.serve(id, now, effects);
    }

    /// Gives a waiting receive what is there, then lets the peer send into the room that this made.
    fn serve(&mut self, id: u32, now: Instant, effects: &mut Effects) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let peer = stream.peer;
        effects.ended.extend(stream.serve(&mut self.random));
        self.pump(peer, now, effects);
    }

    /// Puts on the wire what the peer's window has room for.
    fn pump(&mut self, id: u32, now: Instant, effects: &mut Effects) {
        loop {
            let Some(stream) = self.streams.get(&id) else { return };
            let peer_id = stream.peer;
            let room = self.streams.get(&peer_id).map(|peer| if peer.shut { usize::MAX } else { peer.room() });
            let stream = self.streams.get_mut(&id).expect("looked up above");
            let Some((bytes, ended)) = stream.fragment(room.unwrap_or(usize::MAX), &mut self.random) else { return };
            effects.ended.extend(ended);
            let due = now + self.delay();
            match self.streams.get_mut(&peer_id) {
                Some(peer) if !peer.shut => {
                    let due = peer.put(due, Flight::Data(bytes));
                    effects.schedule.extend(due.map(|due| (due, NetEvent::Arrive(peer_id))));
                }
                // Nobody will read it: the answer is a reset.
                _ => self.put(id, due, Flight::Reset, effects),
            }
        }
    }

    fn put(&mut self, id: u32, due: Instant, flight: Flight, effects: &mut Effects) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let due = stream.put(due, flight);
            effects.schedule.extend(due.map(|due| (due, NetEvent::Arrive(id))));
        }
    }

    // ---- operations on a stream

    fn open(&mut self, ticket: Ticket, socket: SocketId, effects: &mut Effects) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(&socket.0).filter(|stream| stream.owner == ticket.seat);
        if stream.is_none() {
            effects.ended.push((ticket, Err(io::Error::from_raw_os_error(9))));
        }
        stream
    }

    pub fn recv(&mut self, ticket: Ticket, socket: SocketId, now: Instant, effects: &mut Effects) {
        if let Some(stream) = self.open(ticket, socket, effects) {
            assert!(!stream.is_receiving(), "two receives at once on one socket");
            stream.receive_any(ticket);
            self.serve(socket.0, now, effects);
        }
    }

    pub fn recv_into(
        &mut self,
        ticket: Ticket,
        socket: SocketId,
        buf: (Buf, usize, usize),
        now: Instant,
        effects: &mut Effects,
    ) {
        if let Some(stream) = self.open(ticket, socket, effects) {
            assert!(!stream.is_receiving(), "two receives at once on one socket");
            let (buf, filled, until) = buf;
            stream.receive_into(ticket, buf, filled, until);
            self.serve(socket.0, now, effects);
        }
    }

    pub fn send(&mut self, ticket: Ticket, socket: SocketId, data: Vec<Slice>, now: Instant, effects: &mut Effects) {
        if let Some(stream) = self.open(ticket, socket, effects) {
            if stream.shut || stream.is_reset() {
                let code = if stream.shut { EPIPE } else { ECONNRESET };
                effects.ended.push((ticket, Err(io::Error::from_raw_os_error(code))));
                return;
            }
            stream.send(ticket, data);
            self.pump(socket.0, now, effects);
        }
    }

    pub fn shutdown(&mut self, ticket: Ticket, socket: SocketId, now: Instant, effects: &mut Effects) {
        if self.open(ticket, socket, effects).is_some() {
            self.shut(socket.0, now, effects);
            effects.ended.push((ticket, Ok(Outcome::Done)));
        }
    }

    fn shut(&mut self, id: u32, now: Instant, effects: &mut Effects) {
        let due = now + self.delay();
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.shut) else { return };
        // Bytes that nobody read make the kernel answer with a reset instead of an end.
        let flight = if stream.has_unread() { Flight::Reset } else { Flight::End };
        let peer = stream.peer;
        stream.shut(&mut self.random, &mut effects.ended);
        self.put(peer, due, flight, effects);
    }

    pub fn pass(&mut self, ticket: Ticket, socket: SocketId, to: ShardId) -> io::Result<Outcome> {
        let mut ignored = Effects::default();
        let stream = self.open(ticket, socket, &mut ignored).ok_or_else(|| io::Error::from_raw_os_error(9))?;
        stream.owner.shard = to;
        Ok(Outcome::Socket(socket))
    }

    /// Closes what the caller has: a connection that was passed to another shard goes on there.
    pub fn close_socket(&mut self, owner: Seat, socket: SocketId, now: Instant, effects: &mut Effects) {
        if self.streams.get(&socket.0).is_some_and(|stream| stream.owner == owner) {
            self.close(socket.0, now, effects);
        }
    }

    fn close(&mut self, id: u32, now: Instant, effects: &mut Effects) {
        self.shut(id, now, effects);
        self.streams.remove(&id);
    }

    /// Ends a waiting operation early, where there is one.
    pub fn cancel(&mut self, ticket: Ticket, effects: &mut Effects) {
        let mine = self.streams.values_mut().filter(|stream| stream.owner == ticket.seat);
        let mut found = mine.into_iter().any(|stream| stream.cancel(ticket));
        for listener in self.listeners.values_mut() {
            let before = listener.accepts.len();
            listener.accepts.retain(|waiting| *waiting != ticket);
            found |= listener.accepts.len() < before;
        }
        if found {
            effects.ended.push((ticket, Err(io::Error::from_raw_os_error(crate::seat::ECANCELED))));
        }
    }

    // ---- faults

    /// Resets one connection of a machine, if it has any; `false` otherwise.
    pub fn reset_one(&mut self, machine: MachineId, now: Instant, effects: &mut Effects) -> bool {
        let ids: Vec<u32> =
            self.streams.iter().filter(|(_, s)| s.owner.machine == machine).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return false;
        }
        let id = ids[self.random.below(ids.len() as u64) as usize];
        let peer = self.streams[&id].peer;
        for id in [id, peer] {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.cut_wire();
            }
            self.put(id, now, Flight::Reset, effects);
        }
        true
    }

    /// A machine's process ended. Its peers hear of it soon (the kernel lives and answers), or late (the power went).
    pub fn machine_down(&mut self, machine: MachineId, power: bool, now: Instant, effects: &mut Effects) {
        self.listeners.retain(|_, listener| listener.owner.machine != machine);
        let gone: Vec<u32> =
            self.streams.iter().filter(|(_, s)| s.owner.machine == machine).map(|(id, _)| *id).collect();
        for id in gone {
            let stream = self.streams.remove(&id).expect("listed above");
            let late = if power { Duration::from_millis(200 + self.random.below(3000)) } else { self.delay() };
            let flight = if power || self.random.chance(1, 2) { Flight::Reset } else { Flight::End };
            if power && let Some(peer) = self.streams.get_mut(&stream.peer) {
                peer.cut_wire();
            }
            self.put(stream.peer, now + late, flight, effects);
        }
    }
}
