//! One connection: frames in, answers out in the order of the requests.
//!
//! Owner: the shard that the socket was passed to. Life cycle: [`serve`] runs a reading task and a working loop until the peer
//! closes, sends what is not a frame, or the service closes it.
//!
//! Invariants
//! - Requests start in arrival order. A pipelined request (Produce) may start before earlier pipelined ones are answered; any
//!   other waits until every earlier request is answered, as in Kafka, so a client sees its own effects.
//! - Answers leave in request order.
//! - Unanswered requests are bounded, in bytes and in number: past [`Limits`] nothing more is read, which is the back-pressure. Behind
//!   a request that is not pipelined at most one more is read: who does not take an answer keeps no more than that.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use base::Instant;
use shard::sync::{Event, Queue};
use shard::{Account, Class, RECV_BYTES, Shard, Slice, Socket};
use wire::{Frame, Part};

use crate::frame::{FrameError, FrameReader};
use crate::frame_memory::FrameMemory;
use crate::progress::Progress;
use crate::watch::{Dismissal, Watch};

/// What a connection may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest frame (`socket.request.max.bytes`).
    pub frame_bytes: usize,
    /// Received and unanswered bytes after which reading pauses; one frame is always let in.
    pub bytes_in_flight: usize,
    /// Unanswered requests after which reading pauses.
    pub requests_in_flight: usize,
}

/// What a service is told about the peer, and what it may keep for it.
pub struct Connection {
    pub peer: SocketAddr,
    shard: Shard,
    closed: Cell<bool>,
    closed_event: Event,
    in_flight: Cell<InFlight>,
    room_event: Event,
    /// When a frame last came or an answer last went.
    used: Cell<Instant>,
    sending: Progress,
    dismissal: Cell<Option<Dismissal>>,
    dismissed_event: Event,
}

/// What unanswered requests hold of their connection's limits.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Each request counts as at least the block that it keeps.
    bytes: usize,
    requests: usize,
    /// Those among them that are not pipelined.
    serial: usize,
}

impl InFlight {
    fn of(frame: &[u8], pipelined: bool) -> Self {
        Self { bytes: frame.len().max(RECV_BYTES), requests: 1, serial: usize::from(!pipelined) }
    }

    fn with(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            requests: self.requests + other.requests,
            serial: self.serial + other.serial,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            requests: self.requests - other.requests,
            serial: self.serial - other.serial,
        }
    }

    /// Whether a request may join these: one always may.
    fn has_room(self, request: Self, limits: &Limits) -> bool {
        let after = self.with(request);
        let requests_max = if after.serial > 0 { SERIAL_IN_FLIGHT_MAX } else { limits.requests_in_flight };
        self.requests == 0 || (after.requests <= requests_max && after.bytes <= limits.bytes_in_flight)
    }
}

/// Requests at once where one is not pipelined: the one that is worked on, and one more, read so that the end of the stream is seen.
const SERIAL_IN_FLIGHT_MAX: usize = 2;

impl Connection {
    fn new(shard: &Shard, peer: SocketAddr) -> Rc<Self> {
        Rc::new(Self {
            peer,
            shard: shard.clone(),
            closed: Cell::new(false),
            closed_event: Event::new(),
            in_flight: Cell::default(),
            room_event: Event::new(),
            used: Cell::new(shard.now()),
            sending: Progress::default(),
            dismissal: Cell::new(None),
            dismissed_event: Event::new(),
        })
    }

    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The peer has closed, or sent what is not a frame: no further request will come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(crate) fn requests_in_flight(&self) -> usize {
        self.in_flight.get().requests
    }

    pub(crate) fn used(&self) -> Instant {
        self.used.get()
    }

    pub(crate) fn sending(&self) -> &Progress {
        &self.sending
    }

    /// Ends the connection, whatever it is at.
    pub(crate) fn dismiss(&self, dismissal: Dismissal) {
        self.dismissal.set(self.dismissal.get().or(Some(dismissal)));
        self.dismissed_event.notify_all();
    }

    async fn dismissed(&self) {
        while self.dismissal.get().is_none() {
            self.dismissed_event.wait().await;
        }
    }

    fn let_in(&self, request: InFlight) {
        self.used.set(self.shard.now());
        self.in_flight.set(self.in_flight.get().with(request));
    }

    /// These requests are over.
    fn release(&self, requests: InFlight) {
        self.in_flight.set(self.in_flight.get().without(requests));
        self.room_event.notify_all();
    }
}

/// A whole answer with its length prefix.
pub struct Answer {
    /// Sent one after another.
    pub parts: Vec<Slice>,
    /// Dropped once the answer is sent, or is not to be sent any more.
    pub kept: Option<Box<dyn Any>>,
}

impl Answer {
    /// A frame whose `Records::External { index, .. }` stand for `externals[index]`, which are sent from where they are.
    #[must_use]
    pub fn laid_out(frame: Frame, externals: &[Vec<Slice>]) -> Self {
        let parts: Vec<Part> = frame.parts().collect();
        let structure = Slice::from_vec(frame.into_structure());
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Structure(range) => slices.push(structure.slice(range)),
                Part::External { index, .. } => slices.extend(externals[index as usize].iter().cloned()),
            }
        }
        slices.into()
    }
}

impl From<Vec<Slice>> for Answer {
    fn from(parts: Vec<Slice>) -> Self {
        Self { parts, kept: None }
    }
}

/// Answers that are ready together leave together up to so many parts and bytes: enough for what a commit acknowledges to one
/// connection, and too little for a long answer to wait for others.
const LEAVING_PARTS_MAX: usize = 64;
const LEAVING_BYTES_MAX: usize = 64 << 10;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// What becomes of an unfinished request when its connection closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnClose {
    /// It is dropped: nobody waits for it (a long poll).
    Drop,
    /// It runs to its end.
    Finish,
}

/// How a request ends.
pub enum Reply {
    Answer(Answer),
    /// No answer is wanted (Produce with `acks=0`).
    Nothing,
    /// The request can't be answered: the connection ends, after the answers owed to earlier ones; why, in a sentence.
    Close(String),
}

/// How a request goes on after its first stage.
pub enum Started {
    /// Over already.
    Done(Reply),
    /// Over later; the future is polled in the order of the requests.
    Later(Boxed<Reply>, OnClose),
}

/// What decodes and answers frames.
pub trait Service: 'static {
    /// Whether the request may start before earlier pipelined ones are answered.
    fn pipelined(&self, frame: &[u8]) -> bool;

    /// The longest frame that may begin with these two bytes; asked of those that are not short.
    fn frame_bytes_max(&self, head: [u8; 2]) -> usize;

    /// The first stage of a request; called in arrival order, the next request starts after it has ended.
    fn start(self: Rc<Self>, connection: Rc<Connection>, frame: Slice) -> Boxed<Started>;
}

/// Tells connections to end once what they have read is answered. Clones are the same word.
#[derive(Clone, Default)]
pub struct Drain {
    drained: Rc<Cell<bool>>,
    event: Event,
}

impl Drain {
    /// From now on no connection reads a further request.
    pub fn start(&self) {
        self.drained.set(true);
        self.event.notify_all();
    }

    #[must_use]
    pub fn has_started(&self) -> bool {
        self.drained.get()
    }

    /// Resolves once draining has started.
    pub(crate) async fn started(&self) {
        while !self.drained.get() {
            self.event.wait().await;
        }
    }
}

/// Where a connection lives and what it may use.
pub struct Place {
    pub shard: Shard,
    pub account: Account,
    pub peer: SocketAddr,
    pub limits: Limits,
    pub memory: FrameMemory,
    pub drain: Drain,
    pub watch: Watch,
}

/// Serves `socket` until it closes. Yields why, where that is worth a word.
pub fn serve<S: Service>(place: Place, socket: Socket, service: Rc<S>) -> impl Future<Output = Option<String>> {
    let Place { shard, account, peer, limits, memory, drain, watch } = place;
    let connection = Connection::new(&shard, peer);
    let socket = Rc::new(socket);
    let frames = Rc::new(Queue::new(limits.requests_in_flight));
    let reader = FrameReader::new(memory, limits.frame_bytes);
    let guard = watch.add(&connection, &socket, reader.progress());
    let reading = Reading {
        reader,
        connection: connection.clone(),
        socket: socket.clone(),
        limits,
        frames: frames.clone(),
        service: service.clone(),
    };
    let reader = shard.spawn_detached(Class::Latency, account, reading.run(drain));
    let worker = Worker {
        connection: connection.clone(),
        socket: socket.clone(),
        frames,
        service,
        owed: VecDeque::new(),
        next: None,
        muted: false,
    };
    // By itself on the heap: what an async block captures and then awaits it would hold twice.
    let working = Box::pin(worker.run());
    async move {
        let reason = working.await;
        drop(guard);
        socket.shutdown();
        reader.cancel();
        connection.dismissal.get().map(|dismissal| dismissal.to_string()).or(reason)
    }
}

enum Incoming {
    Frame(Slice, InFlight),
    End(Option<FrameError>),
}

/// What reads a connection's frames.
struct Reading<S> {
    reader: FrameReader,
    connection: Rc<Connection>,
    socket: Rc<Socket>,
    limits: Limits,
    frames: Rc<Queue<Incoming>>,
    service: Rc<S>,
}

impl<S: Service> Reading<S> {
    /// Reads until the stream ends, draining starts or the connection is dismissed; then says so.
    async fn run(mut self, drain: Drain) {
        let (connection, frames) = (self.connection.clone(), self.frames.clone());
        let end = {
            let mut reading = pin!(self.read());
            let mut drained = pin!(drain.started());
            let mut dismissed = pin!(connection.dismissed());
            poll_fn(|context| match reading.as_mut().poll(context) {
                Poll::Ready(end) => Poll::Ready(end),
                Poll::Pending if dismissed.as_mut().poll(context).is_ready() => Poll::Ready(Ok(())),
                Poll::Pending => drained.as_mut().poll(context).map(|()| Ok(())),
            })
            .await
        };
        connection.closed.set(true);
        connection.closed_event.notify_all();
        // The worker has ended already when the queue is closed.
        let _ = frames.push(Incoming::End(end.err())).await;
    }

    async fn read(&mut self) -> Result<(), FrameError> {
        let Self { reader, connection, socket, limits, frames, service } = self;
        while let Some(frame) = reader.next_within(socket, |head| service.frame_bytes_max(head)).await? {
            let request = InFlight::of(&frame, service.pipelined(&frame));
            while !connection.in_flight.get().has_room(request, limits) {
                connection.room_event.wait().await;
            }
            connection.let_in(request);
            if frames.push(Incoming::Frame(frame, request)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// A request that is started and owed an answer.
struct Owed {
    reply: Boxed<Reply>,
    on_close: OnClose,
    in_flight: InFlight,
}

/// Answers that leave together.
#[derive(Default)]
struct Leaving {
    parts: Vec<Slice>,
    bytes: usize,
    kept: Vec<Box<dyn Any>>,
    /// Their requests.
    in_flight: InFlight,
}

impl Leaving {
    fn take_up(&mut self, answer: Option<Answer>) {
        let Some(Answer { parts, kept }) = answer else { return };
        self.bytes += parts.iter().map(|part| part.len()).sum::<usize>();
        self.parts.extend(parts);
        self.kept.extend(kept);
    }

    fn is_full(&self) -> bool {
        self.parts.len() >= LEAVING_PARTS_MAX || self.bytes >= LEAVING_BYTES_MAX
    }
}

struct Worker<S> {
    connection: Rc<Connection>,
    socket: Rc<Socket>,
    frames: Rc<Queue<Incoming>>,
    service: Rc<S>,
    owed: VecDeque<Owed>,
    /// Taken from the queue, waiting for every earlier answer.
    next: Option<(Slice, InFlight)>,
    /// An answer was dropped, so none may follow it.
    muted: bool,
}

enum Step {
    Replied(Reply),
    Incoming(Incoming),
    Dropped,
}

/// Why a connection ends; `None` where its peer just closed.
struct Ended(Option<String>);

impl<S: Service> Worker<S> {
    async fn run(mut self) -> Option<String> {
        loop {
            if let Some((frame, in_flight)) =
                self.next.take_if(|(_, in_flight)| self.owed.is_empty() || in_flight.serial == 0)
            {
                self.start(frame, in_flight).await;
                continue;
            }
            let over = match self.step().await {
                Step::Replied(reply) => self.replied(reply).await,
                Step::Incoming(Incoming::Frame(frame, in_flight)) => {
                    self.next = Some((frame, in_flight));
                    Ok(())
                }
                Step::Incoming(Incoming::End(error)) => self.settle(error).await,
                Step::Dropped => {
                    // The peer is gone. What it sent before (Produce with `acks=0`, say) is still done, but nothing is
                    // answered, since one answer is missing now.
                    self.muted = true;
                    self.pop();
                    Ok(())
                }
            };
            if let Err(Ended(reason)) = over {
                return reason;
            }
        }
    }

    /// Runs a request's first stage.
    async fn start(&mut self, frame: Slice, in_flight: InFlight) {
        let (reply, on_close): (Boxed<Reply>, _) =
            match self.service.clone().start(self.connection.clone(), frame).await {
                Started::Done(reply) => (Box::pin(std::future::ready(reply)), OnClose::Finish),
                Started::Later(reply, on_close) => (reply, on_close),
            };
        self.owed.push_back(Owed { reply, on_close, in_flight });
    }

    /// Forgets the oldest request.
    fn pop(&mut self) {
        if let Some(owed) = self.owed.pop_front() {
            self.connection.release(owed.in_flight);
        }
    }

    /// The oldest request's reply, or the next frame where none waits to be started.
    async fn step(&mut self) -> Step {
        let Self { connection, frames, owed, next, .. } = self;
        let mut incoming = pin!(frames.pop());
        let mut closed = None;
        poll_fn(|context| {
            if let Some(oldest) = owed.front_mut() {
                if let Poll::Ready(reply) = oldest.reply.as_mut().poll(context) {
                    return Poll::Ready(Step::Replied(reply));
                }
                if oldest.on_close == OnClose::Drop {
                    let closed = closed.get_or_insert_with(|| connection.closed_event.wait());
                    if connection.is_closed() || pin!(closed).poll(context).is_ready() {
                        return Poll::Ready(Step::Dropped);
                    }
                }
            }
            if next.is_none()
                && let Poll::Ready(incoming) = incoming.as_mut().poll(context)
            {
                return Poll::Ready(Step::Incoming(incoming.unwrap_or(Incoming::End(None))));
            }
            Poll::Pending
        })
        .await
    }

    /// Takes up the oldest request's answer, and those behind it that are ready now, and sends them in one go: a commit makes the answers
    /// of many requests ready at once.
    async fn replied(&mut self, reply: Reply) -> Result<(), Ended> {
        let mut leaving = Leaving::default();
        let mut next = Some(reply);
        let mut close = None;
        while let Some(reply) = next {
            let answer = match reply {
                Reply::Answer(answer) => Some(answer),
                Reply::Nothing => None,
                Reply::Close(reason) => {
                    close = Some(Ended(Some(reason)));
                    break;
                }
            };
            let owed = self.owed.pop_front().expect("the reply is the oldest request's");
            leaving.in_flight = leaving.in_flight.with(owed.in_flight);
            leaving.take_up(answer.filter(|_| !self.muted));
            next = if leaving.is_full() { None } else { self.ready_reply().await };
        }
        self.send(leaving).await?;
        close.map_or(Ok(()), Err)
    }

    /// The oldest request's reply if that is there already.
    async fn ready_reply(&mut self) -> Option<Reply> {
        let reply = &mut self.owed.front_mut()?.reply;
        poll_fn(|context| match reply.as_mut().poll(context) {
            Poll::Ready(reply) => Poll::Ready(Some(reply)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Sends what was taken up, and only then lets go of what the requests held.
    async fn send(&self, leaving: Leaving) -> Result<(), Ended> {
        let Self { connection, socket, .. } = self;
        if !leaving.parts.is_empty() {
            // A peer that does not take its answer keeps it, and what it has asked for besides.
            connection.sending.begin(connection.shard.now(), leaving.bytes + connection.in_flight.get().bytes);
            let sent = socket.send(leaving.parts).await;
            connection.sending.end();
            connection.used.set(connection.shard.now());
            sent.map_err(|error| Ended(Some(format!("sending failed: {error}"))))?;
        }
        drop(leaving.kept);
        connection.release(leaving.in_flight);
        Ok(())
    }

    /// No further request will come: finishes those that are under way, then ends.
    async fn settle(&mut self, error: Option<FrameError>) -> Result<(), Ended> {
        while let Some(oldest) = self.owed.front_mut() {
            match oldest.on_close {
                OnClose::Finish => {
                    let reply = oldest.reply.as_mut().await;
                    self.replied(reply).await?;
                }
                OnClose::Drop => {
                    self.muted = true;
                    self.pop();
                }
            }
        }
        Err(Ended(error.map(|error| error.to_string())))
    }
}
