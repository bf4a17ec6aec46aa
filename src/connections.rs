//! The connections of one shard, and the accept loop that gives them out.
//!
//! Owner: each shard serves what it was given; [`ACCEPTING`] accepts and passes each connection to the shard with the fewest. Bound:
//! `connections-max` over all shards, and what their memory has room for; one more is closed at once. The HTTP port has a bound of its
//! own, so that who watches a broker that is full of clients still gets in. A connection that nobody uses is closed after
//! `connections-max-idle-ms`, one that keeps memory and is slow once others wait for memory ([`net::Watch`]).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Counter, ShardId};
use net::{Drain, Limits, Place, Shortage, Watch};
use shard::sync::Event;
use shard::{Class, Listener, Shard, Socket};

use crate::api::http;
use crate::api::kafka::KafkaService;
use crate::log_throttle::LogThrottle;
use crate::message::Message;
use crate::node::Node;
use crate::observe::Life;

/// Requests of one connection that are received and not answered; Java producers have five, others up to a hundred.
const REQUESTS_IN_FLIGHT: usize = 128;
/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The shard that accepts connections.
pub const ACCEPTING: ShardId = ShardId(0);

/// Where a client came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    Kafka,
    Http,
}

/// How many connections of one port a shard serves, and how to end them.
#[derive(Default)]
pub struct Connections {
    open: Cell<usize>,
    accepted: Counter,
    drain: Drain,
    one_less: Event,
    watch: Watch,
    /// Lines about connections that were closed, or refused: peers cause them at will.
    closed_lines: LogThrottle,
    refused_lines: LogThrottle,
}

impl Connections {
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// How many there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// The word that ends them.
    #[must_use]
    pub fn drain_word(&self) -> &Drain {
        &self.drain
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.has_started()
    }

    /// Ends every connection once what it has sent is answered; returns when all have ended.
    pub async fn drain(&self) {
        self.drain.start();
        while self.open.get() > 0 {
            self.one_less.wait().await;
        }
    }
}

/// Counts a connection for as long as it lives.
pub struct Counted(Rc<Connections>);

impl Counted {
    #[must_use]
    pub fn new(connections: &Rc<Connections>) -> Self {
        connections.open.set(connections.open.get() + 1);
        connections.accepted.add(1);
        Self(connections.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.one_less.notify_all();
    }
}

/// Serves a Kafka connection on this shard, as a task of its own.
fn serve(node: &Rc<Node>, socket: Socket, peer: SocketAddr) {
    let limits = Limits {
        frame_bytes: node.config.max_request_bytes as usize,
        bytes_in_flight: node.config.connection_bytes_in_flight as usize,
        requests_in_flight: REQUESTS_IN_FLIGHT,
    };
    let place = Place {
        shard: node.shard.clone(),
        account: node.accounts.connections.clone(),
        peer,
        limits,
        memory: node.frame_memory.clone(),
        drain: node.connections.drain.clone(),
        watch: node.connections.watch.clone(),
    };
    let counted = Counted::new(&node.connections);
    let owned = node.clone();
    let serving = net::serve(place, socket, KafkaService::new(owned.clone()));
    let task = async move {
        if let Some(reason) = serving.await {
            let admitted = owned.connections.closed_lines.admit(owned.shard.now());
            if let Some(left_out) = admitted {
                tracing::info!(%peer, "connection closed: {reason}{left_out}");
            }
        }
        drop(counted);
        take_back(&owned, Port::Kafka).await;
    };
    node.shard.spawn_detached(Class::Latency, node.accounts.connections.clone(), task);
}

/// Closes the connections of this shard that go nowhere, for ever.
pub fn watch(node: &Rc<Node>) {
    let idle_limit = Duration::from_millis(node.config.connections_max_idle_ms);
    let watch = node.connections.watch.clone();
    let (shard, memory, work) = (node.shard.clone(), node.frame_memory.clone(), node.work.clone());
    let shortage = move || {
        let of_frames = memory.shortage();
        Shortage { bytes: of_frames.bytes + work.short_bytes(), ..of_frames }
    };
    let watching = watch.run(shard, idle_limit, shortage);
    drop(node.shard.spawn(Class::Normal, node.accounts.connections.clone(), watching));
}

/// Tells the accepting shard that a connection of this one has ended.
pub async fn take_back(node: &Node, port: Port) {
    if node.shard.id() == ACCEPTING {
        node.given_out(port).take_back(ACCEPTING);
    } else {
        node.mesh.post(ACCEPTING, Message::ConnectionClosed(port)).await;
    }
}

/// How many connections of a port the accepting shard has given to each shard and not had back.
pub struct GivenOut {
    counts: RefCell<Vec<usize>>,
    connections_max: usize,
    refused: Counter,
}

impl GivenOut {
    #[must_use]
    pub fn new(shards: u16, connections_max: usize) -> Self {
        let counts = RefCell::new(vec![0; usize::from(shards)]);
        Self { counts, connections_max, refused: Counter::default() }
    }

    /// Connections that were turned away.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// The shard for one more connection; `None` when there are as many as may be.
    fn give(&self) -> Option<ShardId> {
        let mut counts = self.counts.borrow_mut();
        if counts.iter().sum::<usize>() >= self.connections_max {
            self.refused.add(1);
            return None;
        }
        let fewest = (0..counts.len()).min_by_key(|shard| counts[*shard])?;
        counts[fewest] += 1;
        Some(ShardId(u16::try_from(fewest).expect("shards are counted in a u16")))
    }

    /// A connection of that shard has ended.
    pub fn take_back(&self, shard: ShardId) {
        let mut counts = self.counts.borrow_mut();
        let count = &mut counts[usize::from(shard.0)];
        *count = count.saturating_sub(1);
    }
}

/// Accepts for ever, on the accepting shard.
pub async fn accept(node: Rc<Node>, listener: Listener) {
    loop {
        let (socket, peer) = next_connection(&node.shard, &listener).await;
        give_out(&node, Port::Kafka, socket, peer).await;
    }
}

/// The next connection that can be accepted.
pub async fn next_connection(shard: &Shard, listener: &Listener) -> (Socket, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                // Out of descriptors or memory: what is closed in the meantime makes room.
                tracing::warn!(listener = %listener.local_addr(), "a connection can't be accepted: {error}");
                shard.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Has the shard with the fewest connections serve one more.
pub async fn give_out(node: &Rc<Node>, port: Port, socket: Socket, peer: SocketAddr) {
    let given_out = node.given_out(port);
    let Some(shard) = given_out.give() else {
        if let Some(left_out) = node.connections.refused_lines.admit(node.shard.now()) {
            let max = given_out.connections_max;
            tracing::warn!(
                %peer, ?port,
                "connection refused: there are {max}, as many as may be; connections-max and memory-bytes bound those of Kafka{left_out}"
            );
        }
        return;
    };
    match socket.pass_to(shard).await {
        Ok(socket) if shard == node.shard.id() => serve_on(node, port, socket.adopt(&node.shard), peer),
        Ok(socket) => node.mesh.post(shard, Message::Connection { port, socket, peer }).await,
        Err(error) => {
            given_out.take_back(shard);
            tracing::warn!(%peer, "a connection can't be passed to shard {shard}: {error}");
        }
    }
}

/// Serves a connection that this shard was given.
pub fn serve_on(node: &Rc<Node>, port: Port, socket: Socket, peer: SocketAddr) {
    match port {
        Port::Kafka => serve(node, socket, peer),
        Port::Http => http::serve(&Life::of(node.clone()), node.shard.clone(), socket, peer),
    }
}

#[cfg(test)]
mod tests {
    use super::GivenOut;
    use base::ShardId;

    #[test]
    fn connections_go_where_there_are_fewest_up_to_the_bound() {
        let given_out = GivenOut::new(2, 3);
        let given: Vec<_> = (0..4).map(|_| given_out.give()).collect();
        assert_eq!(given, [Some(ShardId(0)), Some(ShardId(1)), Some(ShardId(0)), None]);
        given_out.take_back(ShardId(1));
        assert_eq!(given_out.give(), Some(ShardId(1)));
        assert_eq!(given_out.refused(), 1);
    }
}
