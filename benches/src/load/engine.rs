//! One thread of the load: its connections on one ring.
//!
//! Each connection has at most one send and one receive in the kernel. Memory they name: the templates, borrowed for longer
//! than the run; and the connection's own head, vectors and receive buffer, boxed, so that they do not move, and kept until
//! the ring is gone.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{opcode, types};
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::{Decoder, ErrorCode, Message, ResponseHeader, frame_length};

use super::template::{HEAD_BYTES, Templates};
use super::{LoadOptions, Plan, Target};
use crate::process::thread_cpu_time;
use crate::ring::{self, Ring};
use crate::stats::Samples;

const RECV_BYTES: usize = 64 << 10;

/// Which connections a thread has.
pub struct Place {
    pub address: SocketAddr,
    pub target: Target,
    pub first_connection: usize,
    pub connections: usize,
}

/// What a thread measured.
#[derive(Default)]
pub struct Part {
    pub requests: u64,
    pub latency: Samples,
    pub cpu: Duration,
    pub elapsed: Duration,
}

struct Outstanding {
    correlation_id: i32,
    /// When it was sent, or due.
    since: Instant,
}

/// How finely a rate is kept.
static TICK: types::Timespec = types::Timespec::new().nsec(200_000);

struct Connection {
    stream: TcpStream,
    head: [u8; HEAD_BYTES],
    vectors: Vec<libc::iovec>,
    message: libc::msghdr,
    /// Bytes of the send in the kernel; 0 for none.
    sending: usize,
    outstanding: VecDeque<Outstanding>,
    next_request: usize,
    next_correlation: i32,
    received: Vec<u8>,
    filled: usize,
}

/// Connects, sends and receives until the plan says so, and waits for the last reply.
pub fn run(place: &Place, options: &LoadOptions, templates: &Templates, plan: &Plan) -> io::Result<Part> {
    let mut connections = Vec::with_capacity(place.connections);
    for n in 0..place.connections {
        // Each connection starts at a partition of its own, so that they do not follow each other.
        let connection = place.first_connection + n;
        let first = connection * templates.count() / options.connections.max(1);
        connections.push(Box::new(Connection::new(place.address, first % templates.count())?));
    }
    // Declared after the connections, so that it is dropped before them: what they name outlives the ring.
    let ring = Ring::new(256)?;
    let mut engine = Engine {
        ring,
        connections: &mut connections,
        options,
        templates,
        plan,
        target: place.target,
        left: plan.requests,
        due: plan.interval.map(|_| Instant::now()),
        part: Part::default(),
    };
    engine.run()?;
    let mut part = engine.part;
    part.cpu = thread_cpu_time();
    let end = plan.measure_to.unwrap_or_else(Instant::now);
    part.elapsed = end.duration_since(plan.measure_from);
    Ok(part)
}

struct Engine<'a> {
    connections: &'a mut [Box<Connection>],
    ring: Ring,
    options: &'a LoadOptions,
    templates: &'a Templates,
    plan: &'a Plan,
    target: Target,
    /// Requests not sent yet.
    left: u64,
    /// When the next request is due, where there is a rate.
    due: Option<Instant>,
    part: Part,
}

const SEND: u64 = 0;
const RECV: u64 = 1;
const CLOCK: u64 = u64::MAX;

impl Engine<'_> {
    fn run(&mut self) -> io::Result<()> {
        for n in 0..self.connections.len() {
            self.recv(n)?;
            self.send(n)?;
        }
        if self.due.is_some() {
            self.tick()?;
        }
        while self.is_under_way() {
            self.ring.submit_and_wait(1)?;
            while let Some(completion) = self.ring.pop() {
                if completion.user_data() == CLOCK {
                    self.catch_up()?;
                    self.tick()?;
                    continue;
                }
                let n = (completion.user_data() >> 1) as usize;
                let bytes = ring::result(&completion)?;
                match completion.user_data() & 1 {
                    SEND => self.sent(n, bytes)?,
                    _ => self.received(n, bytes)?,
                }
            }
        }
        Ok(())
    }

    fn is_under_way(&self) -> bool {
        let waits = self.due.is_some() && self.left > 0 && self.plan.measure_to.is_none_or(|end| Instant::now() < end);
        waits || self.connections.iter().any(|connection| !connection.outstanding.is_empty())
    }

    fn tick(&mut self) -> io::Result<()> {
        let entry = opcode::Timeout::new(&raw const TICK).build().user_data(CLOCK);
        // SAFETY: the time is a static.
        unsafe { self.ring.push(&entry) }
    }

    /// Sends what is due, each on the next connection that has room.
    fn catch_up(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while self.due.is_some_and(|due| due <= now) {
            let before = self.due;
            for n in 0..self.connections.len() {
                self.send(n)?;
            }
            if self.due == before {
                // Every connection is full: a reply makes room.
                break;
            }
        }
        Ok(())
    }

    fn may_send(&self) -> bool {
        let now = Instant::now();
        self.left > 0 && self.due.is_none_or(|due| due <= now) && self.plan.measure_to.is_none_or(|end| now < end)
    }

    fn send(&mut self, n: usize) -> io::Result<()> {
        let open = &self.connections[n];
        if open.sending > 0 || open.outstanding.len() >= self.options.in_flight.max(1) || !self.may_send() {
            return Ok(());
        }
        self.left -= 1;
        let since = self.due.unwrap_or_else(Instant::now);
        self.due = self.due.zip(self.plan.interval).map(|(due, interval)| due + interval);
        let connection = &mut *self.connections[n];
        let request = connection.next_request;
        let step = self.templates.batches_per_request() as usize;
        connection.next_request = (request + step) % self.templates.count();
        let correlation_id = connection.next_correlation;
        connection.next_correlation = correlation_id.wrapping_add(1);
        connection.head = self.templates.head(request, correlation_id);
        connection.vectors.clear();
        let head = std::iter::once(&connection.head[..]);
        for part in head.chain(self.templates.tail(request)) {
            connection.vectors.push(libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        }
        connection.message.msg_iov = connection.vectors.as_mut_ptr();
        connection.message.msg_iovlen = connection.vectors.len();
        connection.sending = self.templates.bytes_total(request);
        connection.outstanding.push_back(Outstanding { correlation_id, since });
        // Wait for all: the kernel goes on with a send that the socket's buffer cut short.
        let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32;
        let send = opcode::SendMsg::new(types::Fd(connection.stream.as_raw_fd()), &raw const connection.message);
        let entry = send.flags(flags).build().user_data((n as u64) << 1 | SEND);
        // SAFETY: head, vectors and message are in the connection's box and not touched while `sending` is set; the
        // templates outlive the ring.
        unsafe { self.ring.push(&entry) }
    }

    fn sent(&mut self, n: usize, bytes: usize) -> io::Result<()> {
        if bytes != self.connections[n].sending {
            return Err(io::Error::other(format!("{bytes} of {} bytes were sent", self.connections[n].sending)));
        }
        self.connections[n].sending = 0;
        self.send(n)
    }

    fn recv(&mut self, n: usize) -> io::Result<()> {
        let connection = &mut *self.connections[n];
        let room = &mut connection.received[connection.filled..];
        let recv = opcode::Recv::new(types::Fd(connection.stream.as_raw_fd()), room.as_mut_ptr(), room.len() as u32);
        // SAFETY: the buffer is the connection's own, never grows, and is read only after this completes.
        unsafe { self.ring.push(&recv.build().user_data((n as u64) << 1 | RECV)) }
    }

    fn received(&mut self, n: usize, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::Error::other("the server closed a connection"));
        }
        let now = Instant::now();
        let connection = &mut *self.connections[n];
        connection.filled += bytes;
        let mut at = 0;
        while let Some(prefix) = connection.received[at..connection.filled].first_chunk::<4>() {
            let length = frame_length(*prefix, RECV_BYTES - 4).map_err(io::Error::other)?;
            let Some(frame) = connection.received[at + 4..connection.filled].get(..length) else { break };
            let outstanding = connection.outstanding.pop_front();
            let outstanding = outstanding.ok_or_else(|| io::Error::other("a reply to no request"))?;
            let warm = now >= self.plan.measure_from;
            check_reply(frame, outstanding.correlation_id, self.options, self.target, self.templates, warm)?;
            if warm && self.plan.measure_to.is_none_or(|end| now <= end) {
                self.part.requests += 1;
                self.part.latency.push(now.duration_since(outstanding.since));
            }
            at += 4 + length;
        }
        connection.received.copy_within(at..connection.filled, 0);
        connection.filled -= at;
        self.recv(n)?;
        self.send(n)
    }
}

fn check_reply(
    frame: &[u8],
    correlation_id: i32,
    options: &LoadOptions,
    target: Target,
    templates: &Templates,
    warm: bool,
) -> io::Result<()> {
    let version = options.produce_version;
    let mut decoder = Decoder::new(frame);
    let header = ResponseHeader::decode(&mut decoder, ProduceRequest::KEY, version).map_err(io::Error::other)?;
    if header.correlation_id != correlation_id {
        return Err(io::Error::other(format!("reply {} where {correlation_id} was due", header.correlation_id)));
    }
    let response = ProduceResponse::decode_exact(decoder, version).map_err(io::Error::other)?;
    let mut partitions = 0;
    for topic in &response.responses {
        for partition in &topic.partition_responses {
            // A broker may name the leaders of a new topic before they take anything; while warming up that is no failure.
            if partition.error_code != ErrorCode::None && (warm || !partition.error_code.is_retriable()) {
                let (index, code, why) = (partition.index, partition.error_code, partition.error_message);
                return Err(io::Error::other(format!("partition {index}: {code:?} {}", why.unwrap_or(""))));
            }
            partitions += 1;
        }
    }
    if target == Target::Kafka && partitions != templates.batches_per_request() {
        return Err(io::Error::other(format!(
            "a reply for {partitions} of {} batches",
            templates.batches_per_request()
        )));
    }
    Ok(())
}

impl Connection {
    fn new(address: SocketAddr, first_request: usize) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            head: [0; HEAD_BYTES],
            vectors: Vec::new(),
            // SAFETY: a message header of zeros is one without address, vectors and control data.
            message: unsafe { std::mem::zeroed() },
            sending: 0,
            outstanding: VecDeque::new(),
            next_request: first_request,
            next_correlation: 0,
            received: vec![0; RECV_BYTES],
            filled: 0,
        })
    }
}
