//! The mesh: messages between the shards of one process.
//!
//! Owner: each shard owns its seat. For every ordered pair of shards there is one bounded ring for messages and one lane for replies.
//! Life of a request: a place among those outstanding and room in the ring are reserved, a parcel is made and pushed; the handler's
//! reply goes back in the same parcel, so a reply never waits. A full ring makes the sender wait, in line; nothing is dropped.
//!
//! Bells are rung after a few polls and at the end of a turn, once for all messages sent meanwhile, and only for a peer that is parked
//! (`executor/signal.rs`). Invariants: room permits of a lane + messages in its ring = its capacity; places taken = requests not yet
//! answered; a handler that serves a request awaits no other request.

mod reply;
pub(crate) mod ring;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use base::ShardId;
use slab::Slab;

use crate::atomic::{AtomicBool, Ordering, fence};
use crate::executor::signal::Signal;
use crate::shard::{Shard, Source};
use crate::sync::{Event, Permit, Semaphore};
use reply::{Parcel, ReplyLane};
use ring::{Consumer, Producer, ring};

/// Bounds of each ordered pair of shards.
#[derive(Clone, Copy, Debug)]
pub struct MeshBounds {
    /// Messages sent and not yet received; the sender waits beyond.
    pub messages_in_queue: usize,
    /// Requests sent and not yet answered; the sender waits beyond. Long polls count, one or more for each connection, so this is large;
    /// each costs memory only while it is out.
    pub requests_outstanding: usize,
}

impl Default for MeshBounds {
    fn default() -> Self {
        // A few turns' worth of produce requests; more would only hide that the peer is behind.
        Self { messages_in_queue: 256, requests_outstanding: 65_536 }
    }
}

enum Envelope<M> {
    Post(M),
    Request(Box<Parcel<M>>),
}

/// What all seats share.
struct Doors<M> {
    /// How to tell whether a shard is parked, once it has attached.
    signals: Vec<OnceLock<Arc<Signal>>>,
    /// By `from * shards + to`: the sender waits for room and may be asleep.
    starved: Vec<AtomicBool>,
    /// By `from * shards + to`, where `from` is who answers.
    replies: Vec<ReplyLane<M>>,
    requests_outstanding: usize,
}

/// One shard's place in a mesh, on its way to that shard.
pub struct MeshSeat<M> {
    id: ShardId,
    doors: Arc<Doors<M>>,
    lanes: Vec<Ends<M>>,
}

/// One shard's ends of the two rings between it and a peer.
struct Ends<M> {
    out: Producer<Envelope<M>>,
    inbound: Consumer<Envelope<M>>,
}

/// A mesh of `shards` shards; the seats are in the order of their ids.
#[must_use]
pub fn mesh<M: Send + 'static>(shards: u16, bounds: MeshBounds) -> Vec<MeshSeat<M>> {
    let count = usize::from(shards);
    let doors = Arc::new(Doors {
        signals: (0..count).map(|_| OnceLock::new()).collect(),
        starved: (0..count * count).map(|_| AtomicBool::new(false)).collect(),
        replies: (0..count * count).map(|_| ReplyLane::new()).collect(),
        requests_outstanding: bounds.requests_outstanding,
    });
    // Indexed by `from * count + to`.
    let rings = (0..count * count).map(|_| ring(bounds.messages_in_queue));
    let (mut out, mut inbound): (Vec<_>, Vec<_>) = rings.map(|(p, c)| (Some(p), Some(c))).unzip();
    let mut seats = Vec::with_capacity(count);
    for me in 0..count {
        let mut lanes = Vec::with_capacity(count);
        for peer in 0..count {
            let (to, from) = (me * count + peer, peer * count + me);
            let (Some(out), Some(inbound)) = (out[to].take(), inbound[from].take()) else {
                unreachable!("each ring has one producer and one consumer")
            };
            lanes.push(Ends { out, inbound });
        }
        seats.push(MeshSeat { id: ShardId(me as u16), doors: doors.clone(), lanes });
    }
    seats
}

impl<M: Send + 'static> MeshSeat<M> {
    #[must_use]
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Takes the seat.
    ///
    /// # Panics
    /// On a shard of another id.
    #[must_use]
    pub fn attach(self, shard: &Shard) -> Mesh<M> {
        assert_eq!(self.id, shard.id(), "a seat is for the shard of its id");
        let taken = self.doors.signals[usize::from(self.id.0)].set(shard.signal().clone());
        assert!(taken.is_ok(), "a seat is taken once");
        let outstanding = self.doors.requests_outstanding;
        let lanes = self.lanes.into_iter().map(|ends| Lane::new(ends, outstanding)).collect();
        let core = Rc::new(Core {
            id: self.id,
            doors: self.doors,
            lanes,
            next_lane: Cell::new(0),
            arrived: Event::new(),
            requests: RefCell::default(),
        });
        shard.add_source(core.clone());
        Mesh(core)
    }
}

struct Lane<M> {
    ends: Ends<M>,
    /// One permit for each free place of `out`, as far as known.
    room: Semaphore,
    popped_seen: Cell<usize>,
    /// One permit for each request that may still be sent.
    outstanding: Semaphore,
    /// Something was sent, or room was made, since the last flush.
    sent: Cell<bool>,
    received: Cell<bool>,
}

impl<M: Send> Lane<M> {
    fn new(ends: Ends<M>, requests_outstanding: usize) -> Self {
        let room = Semaphore::new(ends.out.capacity());
        let outstanding = Semaphore::new(requests_outstanding);
        let popped_seen = Cell::new(ends.out.popped());
        Self { ends, room, popped_seen, outstanding, sent: Cell::new(false), received: Cell::new(false) }
    }

    /// Turns what the peer has popped into permits. True when there was something.
    fn refresh_room(&self) -> bool {
        let popped = self.ends.out.popped();
        let more = popped.wrapping_sub(self.popped_seen.replace(popped));
        if more > 0 {
            self.room.release(more);
        }
        more > 0
    }

    async fn reserve_room(&self) -> Permit {
        if let Some(permit) = self.room.try_acquire(1) {
            return permit;
        }
        self.refresh_room();
        self.room.acquire(1).await.expect("the mesh never closes its semaphores")
    }

    fn push(&self, room: Permit, envelope: Envelope<M>) {
        room.forget();
        let pushed = self.ends.out.push(envelope);
        assert!(pushed.is_ok(), "room was reserved");
        self.sent.set(true);
    }
}

struct Core<M> {
    id: ShardId,
    doors: Arc<Doors<M>>,
    /// By peer; one's own is among them.
    lanes: Vec<Lane<M>>,
    /// Where the next look for messages starts, so that no peer is favoured.
    next_lane: Cell<usize>,
    arrived: Event,
    requests: RefCell<Slab<Asked<M>>>,
}

/// A request that was sent.
enum Asked<M> {
    Waiting(Option<Waker>),
    Answered(M),
    /// The handler went away without a reply.
    Unanswered,
    /// Its future was dropped; the reply will be dropped too.
    Orphan,
}

impl<M: Send> Core<M> {
    fn lane(&self, peer: ShardId) -> &Lane<M> {
        &self.lanes[usize::from(peer.0)]
    }

    /// Where the answers of `from` to `to` lie.
    fn replies(&self, from: ShardId, to: ShardId) -> &ReplyLane<M> {
        &self.doors.replies[usize::from(from.0) * self.lanes.len() + usize::from(to.0)]
    }

    fn answer(&self, to: ShardId, parcel: Box<Parcel<M>>) {
        self.replies(self.id, to).send(parcel);
        self.lane(to).sent.set(true);
    }

    fn pop(&self) -> Option<(ShardId, Envelope<M>)> {
        let count = self.lanes.len();
        for step in 0..count {
            let peer = (self.next_lane.get() + step) % count;
            let lane = &self.lanes[peer];
            if let Some(envelope) = lane.ends.inbound.pop() {
                lane.received.set(true);
                self.next_lane.set((peer + 1) % count);
                return Some((ShardId(peer as u16), envelope));
            }
        }
        None
    }

    fn has_messages(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.ends.inbound.is_empty())
    }

    fn deliver(&self, lane: &Lane<M>, parcel: Parcel<M>) {
        lane.outstanding.release(1);
        let slot = parcel.slot as usize;
        let mut requests = self.requests.borrow_mut();
        let asked = requests.get_mut(slot).expect("a reply answers a request that waits");
        let answer = parcel.message.map_or(Asked::Unanswered, Asked::Answered);
        let before = std::mem::replace(asked, answer);
        let dropped = if matches!(before, Asked::Orphan) { Some(requests.remove(slot)) } else { None };
        drop(requests);
        drop(dropped);
        if let Asked::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<M: Send> Source for Core<M> {
    fn gather(&self) {
        for (peer, lane) in self.lanes.iter().enumerate() {
            if lane.room.waiting() > 0 {
                lane.refresh_room();
            }
            for parcel in self.replies(ShardId(peer as u16), self.id).take() {
                self.deliver(lane, *parcel);
            }
        }
        if self.arrived.has_waiters() && self.has_messages() {
            self.arrived.notify_one();
        }
    }

    fn flush(&self, shard: &Shard) {
        if !self.lanes.iter().any(|lane| lane.sent.get() || lane.received.get()) {
            return;
        }
        // Pairs with the fence of `Signal::park`: a peer that did not see what we put in or took out is seen parked below.
        fence(Ordering::SeqCst);
        let count = self.lanes.len();
        for (peer, lane) in self.lanes.iter().enumerate() {
            let mut ring = lane.sent.replace(false);
            if lane.received.replace(false) {
                let starved = &self.doors.starved[peer * count + usize::from(self.id.0)];
                ring |= starved.load(Ordering::Acquire) && starved.swap(false, Ordering::AcqRel);
            }
            if ring && self.doors.signals[peer].get().is_some_and(|signal| signal.take_parked()) {
                shard.wake_peer(ShardId(peer as u16));
            }
        }
    }

    fn has_work(&self) -> bool {
        let count = self.lanes.len();
        let mut any = self.arrived.has_waiters() && self.has_messages();
        for (peer, lane) in self.lanes.iter().enumerate() {
            any |= !self.replies(ShardId(peer as u16), self.id).is_empty();
            if lane.room.waiting() > 0 {
                // Asks for a bell first and looks for room afterwards; the peer does it the other way round.
                self.doors.starved[usize::from(self.id.0) * count + peer].store(true, Ordering::Release);
                fence(Ordering::SeqCst);
                any |= lane.refresh_room();
            }
        }
        any
    }
}

/// A shard's handle on the mesh. Clones are the same seat.
pub struct Mesh<M>(Rc<Core<M>>);

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Send + 'static> Mesh<M> {
    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> u16 {
        self.0.lanes.len() as u16
    }

    /// What lies between this shard and each other one, in the order of their ids.
    #[must_use]
    pub fn depths(&self) -> Vec<LaneDepth> {
        let outstanding = self.0.doors.requests_outstanding;
        let depth = |(peer, lane): (usize, &Lane<M>)| LaneDepth {
            peer: ShardId(peer as u16),
            messages_waiting: lane.ends.inbound.len(),
            requests_outstanding: outstanding - lane.outstanding.available(),
        };
        self.0.lanes.iter().enumerate().filter(|(peer, _)| *peer != usize::from(self.0.id.0)).map(depth).collect()
    }

    /// Sends a message; waits for room. Dropped while it waits, it has sent nothing.
    pub async fn post(&self, to: ShardId, message: M) {
        let lane = self.0.lane(to);
        let room = lane.reserve_room().await;
        lane.push(room, Envelope::Post(message));
    }

    /// Sends a request and waits for its reply. Dropped before it was sent, it has sent nothing; dropped later, the reply is dropped. Where the
    /// handler goes away without a reply (its shard shut down), none ever comes.
    pub async fn request(&self, to: ShardId, message: M) -> M {
        self.send_request(to, message).await.await
    }

    /// The first half of [`Mesh::request`]: resolves once the request has its place in the queue to `to`, with the future of its reply. So a
    /// sender of several keeps their order and waits for the replies together.
    pub async fn send_request(&self, to: ShardId, message: M) -> Answer<M> {
        let lane = self.0.lane(to);
        let place = lane.outstanding.acquire(1).await.expect("the mesh never closes its semaphores");
        let room = lane.reserve_room().await;
        // Released when the reply comes.
        place.forget();
        let slot = self.0.requests.borrow_mut().insert(Asked::Waiting(None)) as u32;
        let answer = Answer { core: self.0.clone(), slot: Some(slot) };
        lane.push(room, Envelope::Request(Parcel::new(slot, message)));
        answer
    }

    /// The next message from any peer, each peer in its turn. Dropping the future loses nothing.
    pub async fn receive(&self) -> Incoming<M> {
        loop {
            if let Some((from, envelope)) = self.0.pop() {
                if self.0.arrived.has_waiters() && self.0.has_messages() {
                    self.0.arrived.notify_one();
                }
                return match envelope {
                    Envelope::Post(message) => Incoming { from, message, reply: None },
                    Envelope::Request(mut parcel) => {
                        let message = parcel.message.take().expect("a request carries its question");
                        let reply = Reply { core: self.0.clone(), to: from, parcel: Some(parcel) };
                        Incoming { from, message, reply: Some(reply) }
                    }
                };
            }
            self.0.arrived.wait().await;
        }
    }
}

/// How full the ways between a shard and a peer are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneDepth {
    pub peer: ShardId,
    /// Sent by the peer and not yet taken up here.
    pub messages_waiting: usize,
    /// Sent to the peer and not yet answered.
    pub requests_outstanding: usize,
}

/// A message that came in.
pub struct Incoming<M: Send> {
    pub from: ShardId,
    pub message: M,
    /// How to answer, where an answer is waited for.
    pub reply: Option<Reply<M>>,
}

/// The one answer to a request. Dropping it unsent leaves the peer without an answer, but frees the place.
pub struct Reply<M: Send> {
    core: Rc<Core<M>>,
    to: ShardId,
    parcel: Option<Box<Parcel<M>>>,
}

impl<M: Send> Reply<M> {
    /// Sends the answer; never waits.
    pub fn send(mut self, message: M) {
        if let Some(mut parcel) = self.parcel.take() {
            parcel.message = Some(message);
            self.core.answer(self.to, parcel);
        }
    }
}

impl<M: Send> Drop for Reply<M> {
    fn drop(&mut self) {
        if let Some(parcel) = self.parcel.take() {
            self.core.answer(self.to, parcel);
        }
    }
}

/// The reply to a request that was sent, to be awaited.
pub struct Answer<M> {
    core: Rc<Core<M>>,
    slot: Option<u32>,
}

impl<M> Future for Answer<M> {
    type Output = M;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<M> {
        let slot = self.slot.expect("polled after its end") as usize;
        let mut requests = self.core.requests.borrow_mut();
        match &mut requests[slot] {
            Asked::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Asked::Unanswered => return Poll::Pending,
            Asked::Answered(_) => {}
            Asked::Orphan => unreachable!("its future is alive"),
        }
        let Asked::Answered(message) = requests.remove(slot) else { unreachable!("just seen") };
        drop(requests);
        self.slot = None;
        Poll::Ready(message)
    }
}

impl<M> Drop for Answer<M> {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let left = {
            let mut requests = self.core.requests.borrow_mut();
            let asked = &mut requests[slot as usize];
            if matches!(asked, Asked::Waiting(_)) {
                Some(std::mem::replace(asked, Asked::Orphan))
            } else {
                Some(requests.remove(slot as usize))
            }
        };
        drop(left);
    }
}

#[cfg(test)]
mod tests;
