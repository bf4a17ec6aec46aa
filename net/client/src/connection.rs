//! One connection to a broker: requests go out in the order they were started, answers come back in that order.
//!
//! Owner: the shard it was opened on. Life cycle: [`Connection::open`] connects, starts a reading and a writing task and asks for
//! the broker's versions; it ends with the last handle, with an error of the socket, with an answer that does not fit, or
//! with an answer that does not come in time, and then everybody who waits is told why.
//!
//! Invariants
//! - A request is encoded and put in line in one step ([`Connection::start`]), so callers decide the order on the wire.
//! - Unanswered requests are bounded ([`ConnectionOptions::requests_in_flight`]); a caller waits for a [`Slot`] first.
//! - The oldest unanswered request gets the next answer; another correlation id ends the connection.
//! - Dropping an [`Answer`] loses the answer, not the connection: its place in the order stays.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, MIB};
use net::{FrameMemory, FrameReader};
use shard::sync::{Event, Semaphore, oneshot};
use shard::{Account, Class, Shard, Slice, Socket, Task};
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{ApiKey, Decoder, ErrorCode, Frame, Message, Part, Request, ResponseHeader, encode_request};

use crate::Error;
use crate::versions::{SOFTWARE, VersionTable, highest_common};

/// Bytes handed to the socket in one go, at least one frame: enough to keep it busy, few enough to see its errors soon.
const SEND_BYTES: usize = MIB;
/// A broker may ask for silence (KIP-219), but not for longer than this at a time.
const THROTTLE_MAX: Duration = Duration::from_secs(60);

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// What the broker knows this client by, in its logs and quotas.
    pub client_id: String,
    pub connect_timeout: Duration,
    /// How long an answer may take, beyond what the request itself asks the broker to wait.
    pub request_timeout: Duration,
    /// Unanswered requests after which callers wait.
    pub requests_in_flight: usize,
    /// The longest answer. Held to a quarter of the shard's arena, which an answer is read into.
    pub response_bytes_limit: usize,
    pub class: Class,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            client_id: "tidemill".into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            requests_in_flight: 64,
            response_bytes_limit: 100 * MIB,
            class: Class::Latency,
        }
    }
}

/// A connection. Clones are the same one.
#[derive(Clone)]
pub struct Connection(Rc<Handle>);

/// Ends the connection when the last handle goes; its tasks hold [`Shared`] alone.
struct Handle {
    shared: Rc<Shared>,
    tasks: RefCell<Vec<Task<()>>>,
}

struct Shared {
    shard: Shard,
    socket: Socket,
    address: String,
    options: ConnectionOptions,
    versions: RefCell<VersionTable>,
    slots: Semaphore,
    outgoing: RefCell<VecDeque<Outgoing>>,
    outgoing_event: Event,
    awaiting: RefCell<VecDeque<Awaiting>>,
    correlation_id: Cell<i32>,
    throttled_until: Cell<Instant>,
    /// Why the connection has ended.
    end: RefCell<Option<Error>>,
}

/// A request in line for the socket.
struct Outgoing {
    data: Vec<Slice>,
    bytes: usize,
    /// For a request without an answer: told once it is sent.
    sent: Option<(Slot, oneshot::Sender<Result<(), Error>>)>,
}

/// A request that is owed an answer.
struct Awaiting {
    correlation_id: i32,
    key: ApiKey,
    version: i16,
    answer: oneshot::Sender<Result<Reply, Error>>,
    _slot: Slot,
}

/// The right to start one request.
pub struct Slot {
    _permit: shard::sync::Permit,
}

/// How a request is sent.
#[derive(Clone, Copy, Default)]
pub struct Sending<'a> {
    /// The bytes of `Records::External`, by index.
    pub externals: &'a [Slice],
    /// What the request asks the broker to wait; added to the time an answer may take.
    pub wait: Duration,
}

/// An answer: its bytes, decoded on demand.
#[derive(Clone, Debug)]
pub struct Reply {
    frame: Slice,
    body_at: usize,
    key: ApiKey,
    version: i16,
}

impl Reply {
    /// The answer as a message, at the version the request was sent in; borrows from the reply.
    ///
    /// # Errors
    /// Bytes that are not this message.
    ///
    /// # Panics
    /// When the message is not the answer to the request that was sent.
    pub fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, Error> {
        self.decode_at(self.version)
    }

    fn decode_at<'a, M: Message<'a>>(&'a self, version: i16) -> Result<M, Error> {
        assert_eq!((M::KEY, M::ROLE), (self.key, wire::Role::Response), "an answer is decoded as what was asked for");
        let mut decoder = Decoder::new(&self.frame);
        let decoded = decoder.take(self.body_at).and_then(|_| M::decode_exact(decoder, version));
        decoded.map_err(|error| Error::Decode { key: self.key, error })
    }

    /// The version the request was sent in.
    #[must_use]
    pub fn version(&self) -> i16 {
        self.version
    }

    /// The whole frame without its length.
    #[must_use]
    pub fn frame(&self) -> &Slice {
        &self.frame
    }

    /// The part of the frame that `bytes`, decoded from it, are: shared, not copied.
    ///
    /// # Panics
    /// When `bytes` are not a part of this frame.
    #[must_use]
    pub fn share(&self, bytes: &[u8]) -> Slice {
        let start = wire::offset_in(&self.frame, bytes).expect("decoded from this frame");
        self.frame.slice(start..start + bytes.len())
    }
}

/// An answer that is on its way.
pub struct Answer {
    connection: Connection,
    receiver: oneshot::Receiver<Result<Reply, Error>>,
    deadline: Instant,
    timeout: Duration,
    key: ApiKey,
}

impl Answer {
    /// Waits for it.
    ///
    /// # Errors
    /// The connection ended first; a time-out ends it, since the answers behind this one can't come any more.
    pub async fn wait(self) -> Result<Reply, Error> {
        let shared = &self.connection.0.shared;
        match shared.shard.until(self.deadline, self.receiver).await {
            Some(Ok(reply)) => reply,
            Some(Err(shard::sync::Closed)) => Err(shared.closed("closed")),
            None => {
                let what = format!("{} to {}", self.key, shared.address);
                let error = Error::TimedOut { what, after: self.timeout };
                shared.fail(&error);
                Err(error)
            }
        }
    }
}

/// A request without an answer that is in line.
pub struct Sent {
    connection: Connection,
    receiver: oneshot::Receiver<Result<(), Error>>,
}

impl Sent {
    /// Waits until it is in the kernel's hands, which is all one ever learns of it.
    ///
    /// # Errors
    /// The connection ended first.
    pub async fn wait(self) -> Result<(), Error> {
        self.receiver.await.unwrap_or_else(|_| Err(self.connection.0.shared.closed("closed")))
    }
}

impl Connection {
    /// Connects and learns the broker's versions.
    ///
    /// # Errors
    /// [`Error::Connect`], also where the peer hangs up or stays silent, or what [`Connection::call`] yields.
    pub async fn open(
        shard: &Shard,
        account: &Account,
        address: SocketAddr,
        options: ConnectionOptions,
    ) -> Result<Self, Error> {
        let failed = |cause: String| Error::Connect { address: address.to_string(), cause };
        let deadline = shard.now() + options.connect_timeout;
        let socket = match shard.until(deadline, shard.connect(address)).await {
            Some(Ok(socket)) => socket,
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed(format!("no answer within {} ms", options.connect_timeout.as_millis()))),
        };
        let connection = Self::over(shard, account, socket, address.to_string(), options);
        match shard.until(deadline, connection.negotiate()).await {
            Some(Ok(())) => Ok(connection),
            Some(Err(Error::Closed { cause, .. })) => Err(failed(cause)),
            None | Some(Err(Error::TimedOut { .. })) => {
                Err(failed("it accepts connections but does not answer".into()))
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn over(shard: &Shard, account: &Account, socket: Socket, address: String, options: ConnectionOptions) -> Self {
        let arena_share = shard.received().usage().limit_bytes / 2;
        let options =
            ConnectionOptions { response_bytes_limit: options.response_bytes_limit.min(arena_share), ..options };
        let class = options.class;
        let shared = Rc::new(Shared {
            shard: shard.clone(),
            socket,
            address,
            versions: RefCell::default(),
            slots: Semaphore::new(options.requests_in_flight.max(1)),
            outgoing: RefCell::default(),
            outgoing_event: Event::new(),
            awaiting: RefCell::default(),
            correlation_id: Cell::new(0),
            throttled_until: Cell::new(shard.now()),
            end: RefCell::default(),
            options,
        });
        let reader = shard.spawn(class, account.clone(), read_loop(shared.clone()));
        let writer = shard.spawn(class, account.clone(), write_loop(shared.clone()));
        Self(Rc::new(Handle { shared, tasks: vec![reader, writer].into() }))
    }

    /// Asks what the broker serves, twice where it does not know our version of the question (KIP-511).
    async fn negotiate(&self) -> Result<(), Error> {
        let request = SOFTWARE;
        let ours = ApiVersionsRequest::VERSIONS;
        let mut version = *ours.end();
        loop {
            let slot = self.slot().await?;
            let reply = self.start(slot, version, &request, Sending::default())?.wait().await?;
            let refused = error_code_of(&reply)? == ErrorCode::UnsupportedVersion && version > 0;
            let response: ApiVersionsResponse<'_> = reply.decode_at(if refused { 0 } else { version })?;
            if refused {
                let table = VersionTable::from_response(&response);
                let theirs = table.range(ApiKey::ApiVersions).or(Some((0, 0)));
                // Lower each time, so that the questions end.
                version = highest_common(&(*ours.start()..=version - 1), theirs).unwrap_or(0);
                continue;
            }
            if response.error_code.is_error() {
                return Err(Error::refused("asking for the broker's versions", response.error_code, None));
            }
            self.0.shared.versions.replace(VersionTable::from_response(&response));
            return Ok(());
        }
    }

    /// The highest version of `R` that both sides speak.
    ///
    /// # Errors
    /// There is none.
    pub fn version<'q, R: Request<'q>>(&self) -> Result<i16, Error> {
        self.0.shared.versions.borrow().pick::<R>()
    }

    /// What the broker serves.
    #[must_use]
    pub fn versions(&self) -> VersionTable {
        self.0.shared.versions.borrow().clone()
    }

    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.shared.address
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.shared.end.borrow().is_some()
    }

    /// Waits until another request may be started: for a place among those in flight, and for the end of a throttle.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn slot(&self) -> Result<Slot, Error> {
        let shared = &self.0.shared;
        let permit = shared.slots.acquire(1).await.map_err(|_| shared.ended())?;
        while shared.shard.now() < shared.throttled_until.get() {
            shared.shard.sleep_until(shared.throttled_until.get()).await;
        }
        if self.is_closed() { Err(shared.ended()) } else { Ok(Slot { _permit: permit }) }
    }

    /// A slot, if one is free and no throttle holds.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn try_slot(&self) -> Result<Option<Slot>, Error> {
        let shared = &self.0.shared;
        if self.is_closed() {
            return Err(shared.ended());
        }
        let throttled = shared.shard.now() < shared.throttled_until.get();
        Ok(if throttled { None } else { shared.slots.try_acquire(1).map(|permit| Slot { _permit: permit }) })
    }

    /// Until when the broker wants silence; in the past where it does not.
    #[must_use]
    pub fn throttled_until(&self) -> Instant {
        self.0.shared.throttled_until.get()
    }

    /// The broker asks for silence: no request starts for `throttle_time_ms` (KIP-219).
    pub fn throttle(&self, throttle_time_ms: i32) {
        if let Ok(ms @ 1..) = u64::try_from(throttle_time_ms) {
            let shared = &self.0.shared;
            let until = shared.shard.now() + Duration::from_millis(ms).min(THROTTLE_MAX);
            shared.throttled_until.set(until.max(shared.throttled_until.get()));
        }
    }

    /// Puts a request in line. It is sent whether or not the answer is waited for.
    ///
    /// # Errors
    /// The request has no form at this version, or the connection has ended.
    pub fn start<'q, R: Request<'q>>(
        &self,
        slot: Slot,
        version: i16,
        request: &R,
        how: Sending<'_>,
    ) -> Result<Answer, Error> {
        let shared = &self.0.shared;
        let (correlation_id, data, bytes) = self.encode(version, request, how.externals)?;
        let (sender, receiver) = oneshot::channel();
        let awaiting = Awaiting { correlation_id, key: R::KEY, version, answer: sender, _slot: slot };
        shared.awaiting.borrow_mut().push_back(awaiting);
        shared.enqueue(Outgoing { data, bytes, sent: None });
        let timeout = shared.options.request_timeout + how.wait;
        let deadline = shared.shard.now() + timeout;
        Ok(Answer { connection: self.clone(), receiver, deadline, timeout, key: R::KEY })
    }

    /// As [`Connection::start`], for a request that the broker does not answer (Produce with `acks=0`).
    ///
    /// # Errors
    /// As [`Connection::start`].
    pub fn start_one_way<'q, R: Request<'q>>(
        &self,
        slot: Slot,
        version: i16,
        request: &R,
        externals: &[Slice],
    ) -> Result<Sent, Error> {
        let (_, data, bytes) = self.encode(version, request, externals)?;
        let (sender, receiver) = oneshot::channel();
        self.0.shared.enqueue(Outgoing { data, bytes, sent: Some((slot, sender)) });
        Ok(Sent { connection: self.clone(), receiver })
    }

    fn encode<'q, R: Request<'q>>(
        &self,
        version: i16,
        request: &R,
        externals: &[Slice],
    ) -> Result<(i32, Vec<Slice>, usize), Error> {
        let shared = &self.0.shared;
        if self.is_closed() {
            return Err(shared.ended());
        }
        let correlation_id = shared.correlation_id.get();
        let client_id = Some(shared.options.client_id.as_str());
        let frame = encode_request(version, correlation_id, client_id, request, Vec::new())
            .map_err(|error| Error::Encode { key: R::KEY, error })?;
        shared.correlation_id.set(correlation_id.wrapping_add(1) & i32::MAX);
        let bytes = frame.bytes_total();
        Ok((correlation_id, gather(frame, externals), bytes))
    }

    /// Sends a request at the highest common version and waits for its answer. Dropping the future leaves the request on its way.
    ///
    /// # Errors
    /// No common version, a request that has no form in it, no answer.
    pub async fn call<'q, R: Request<'q>>(&self, request: &R) -> Result<Reply, Error> {
        let version = self.version::<R>()?;
        let slot = self.slot().await?;
        self.start(slot, version, request, Sending::default())?.wait().await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.fail("closed by this side");
        self.tasks.take().into_iter().for_each(Task::cancel);
    }
}

impl Shared {
    /// Ends the connection and tells everybody who waits.
    fn close(&self, error: Error) {
        if self.end.borrow().is_some() {
            return;
        }
        self.end.replace(Some(error.clone()));
        self.socket.shutdown();
        let (awaiting, outgoing) = (self.awaiting.take(), self.outgoing.take());
        // Nobody waits for some of them any more.
        for Awaiting { answer, .. } in awaiting {
            let _ = answer.send(Err(error.clone()));
        }
        for (_slot, sent) in outgoing.into_iter().filter_map(|outgoing| outgoing.sent) {
            let _ = sent.send(Err(error.clone()));
        }
        self.slots.close();
        self.outgoing_event.notify_all();
    }

    fn fail(&self, cause: impl ToString) {
        self.close(self.closed(cause));
    }

    fn closed(&self, cause: impl ToString) -> Error {
        Error::Closed { address: self.address.clone(), cause: cause.to_string() }
    }

    fn enqueue(&self, outgoing: Outgoing) {
        self.outgoing.borrow_mut().push_back(outgoing);
        self.outgoing_event.notify_one();
    }

    /// What those are told who come after the end: nothing of theirs was sent.
    fn ended(&self) -> Error {
        let cause = self.end.borrow().as_ref().map_or_else(|| "closed".into(), ToString::to_string);
        Error::Connect { address: self.address.clone(), cause }
    }

    /// Gives an answer to the oldest request.
    fn deliver(&self, frame: Slice) {
        let Some(oldest) = self.awaiting.borrow_mut().pop_front() else {
            return self.fail("the broker sent an answer that nobody asked for");
        };
        let mut decoder = Decoder::new(&frame);
        match ResponseHeader::decode(&mut decoder, oldest.key, oldest.version) {
            Ok(header) if header.correlation_id == oldest.correlation_id => {
                let reply = Reply {
                    body_at: decoder.position(),
                    frame: frame.clone(),
                    key: oldest.key,
                    version: oldest.version,
                };
                // Whoever asked may have gone.
                let _ = oldest.answer.send(Ok(reply));
            }
            Ok(_) => {
                let what = "its correlation id is another request's";
                self.reject(oldest.answer, Error::Nonsense { key: oldest.key, what });
            }
            Err(error) => self.reject(oldest.answer, Error::Decode { key: oldest.key, error }),
        }
    }

    /// The oldest request's answer is no answer, so neither can those be told apart that follow.
    fn reject(&self, answer: oneshot::Sender<Result<Reply, Error>>, error: Error) {
        let _ = answer.send(Err(error.clone()));
        self.fail(error);
    }

    /// The next requests to send together, in order.
    fn take_outgoing(&self) -> Vec<Outgoing> {
        let mut outgoing = self.outgoing.borrow_mut();
        let mut bytes = 0;
        let count = outgoing.iter().take_while(|next| {
            let fits = bytes < SEND_BYTES;
            bytes += next.bytes;
            fits
        });
        let count = count.count();
        outgoing.drain(..count).collect()
    }
}

async fn read_loop(shared: Rc<Shared>) {
    let mut reader = FrameReader::new(FrameMemory::new(&shared.shard), shared.options.response_bytes_limit);
    while shared.end.borrow().is_none() {
        match reader.next(&shared.socket).await {
            Ok(Some(frame)) => shared.deliver(frame),
            Ok(None) => shared.fail("the broker closed it"),
            Err(error) => shared.fail(error),
        }
    }
}

async fn write_loop(shared: Rc<Shared>) {
    while shared.end.borrow().is_none() {
        let mut requests = shared.take_outgoing();
        if requests.is_empty() {
            shared.outgoing_event.wait().await;
            continue;
        }
        let data = requests.iter_mut().flat_map(|request| std::mem::take(&mut request.data)).collect();
        let result = shared.socket.send(data).await;
        for (_slot, sender) in requests.into_iter().filter_map(|request| request.sent) {
            // Whoever asked may have gone.
            let _ = sender.send(result.as_ref().map_err(|error| shared.closed(error)).copied());
        }
        if let Err(error) = result {
            shared.fail(error);
        }
    }
}

/// The frame as slices, with the external bytes at their places.
fn gather(frame: Frame, externals: &[Slice]) -> Vec<Slice> {
    let parts: Vec<Part> = frame.parts().collect();
    let structure = Slice::from_vec(frame.into_structure());
    let slice_of = |part: Part| match part {
        Part::Structure(range) => structure.slice(range),
        Part::External { index, length } => {
            let bytes = &externals[index as usize];
            assert_eq!(bytes.len(), length, "external bytes are as long as the request says");
            bytes.clone()
        }
    };
    parts.into_iter().map(slice_of).collect()
}

/// The error code that every version of an ApiVersions response starts with.
fn error_code_of(reply: &Reply) -> Result<ErrorCode, Error> {
    let mut decoder = Decoder::new(&reply.frame);
    let code = decoder.take(reply.body_at).and_then(|_| decoder.take_i16());
    let code = code.map_err(|error| Error::Decode { key: reply.key, error })?;
    Ok(ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError))
}
