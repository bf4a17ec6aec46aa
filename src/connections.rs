//! The connections of one shard, and the accept loop that gives them out.
//!
//! Owner: each shard serves what it was given; shard 0 accepts and passes each connection to the shard with the fewest. Bound:
//! `connections-max` over all shards; one more is closed at once.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use net::{Drain, Limits, Place};
use shard::sync::Event;
use shard::{Class, Listener, Socket};

use crate::api::kafka::KafkaService;
use crate::message::Message;
use crate::node::Node;

/// Requests of one connection that are received and not answered; Java producers have five, others up to a hundred.
const REQUESTS_IN_FLIGHT: usize = 128;
/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How many connections a shard serves, and how to end them.
#[derive(Default)]
pub struct Connections {
    open: Cell<usize>,
    drain: Drain,
    one_less: Event,
}

impl Connections {
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.get()
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
struct Counted(Rc<Node>);

impl Counted {
    fn new(node: &Rc<Node>) -> Self {
        let open = &node.connections.open;
        open.set(open.get() + 1);
        Self(node.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let connections = &self.0.connections;
        connections.open.set(connections.open.get() - 1);
        connections.one_less.notify_all();
    }
}

/// Serves a connection on this shard, as a task of its own.
pub fn serve(node: &Rc<Node>, socket: Socket, peer: SocketAddr) {
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
    };
    let counted = Counted::new(node);
    let owned = node.clone();
    let task = async move {
        if let Some(reason) = net::serve(place, socket, KafkaService::new(owned.clone())).await {
            tracing::info!(%peer, "connection closed: {reason}");
        }
        drop(counted);
        if owned.shard.id() == ShardId(0) {
            owned.given_out.take_back(ShardId(0));
        } else {
            owned.mesh.post(ShardId(0), Message::ConnectionClosed).await;
        }
    };
    drop(node.shard.spawn(Class::Latency, node.accounts.connections.clone(), task));
}

/// How many connections shard 0 has given to each shard and not had back.
pub struct GivenOut {
    counts: RefCell<Vec<usize>>,
    connections_max: usize,
}

impl GivenOut {
    #[must_use]
    pub fn new(shards: u16, connections_max: u32) -> Self {
        Self { counts: RefCell::new(vec![0; usize::from(shards)]), connections_max: connections_max as usize }
    }

    /// The shard for one more connection; `None` when there are as many as may be.
    fn give(&self) -> Option<ShardId> {
        let mut counts = self.counts.borrow_mut();
        if counts.iter().sum::<usize>() >= self.connections_max {
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

/// Accepts for ever, on shard 0.
pub async fn accept(node: Rc<Node>, listener: Listener) {
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors or memory: what is closed in the meantime makes room.
                tracing::warn!("a connection can't be accepted: {error}");
                node.shard.sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        match node.given_out.give() {
            None => tracing::warn!(%peer, "connection refused: connections-max is reached"),
            Some(shard) if shard == node.shard.id() => serve(&node, socket, peer),
            Some(shard) => match socket.pass_to(shard).await {
                Ok(socket) => node.mesh.post(shard, Message::Connection { socket, peer }).await,
                Err(error) => {
                    node.given_out.take_back(shard);
                    tracing::warn!(%peer, "a connection can't be passed to shard {shard}: {error}");
                }
            },
        }
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
    }
}
