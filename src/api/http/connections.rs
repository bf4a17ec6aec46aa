//! The HTTP port's listener and its connections.

use std::net::SocketAddr;
use std::rc::Rc;

use shard::{Class, Listener, Shard, Socket};

use super::routes;
use crate::connections::{Connections, Counted, Port, give_out, next_connection, take_back};
use crate::observe::Life;

/// Connections of the HTTP port over all shards.
pub const CONNECTIONS_MAX: u32 = 256;
/// Those that the accepting shard serves while there is no node yet.
const EARLY_CONNECTIONS_MAX: usize = 16;

/// Accepts for ever, on the accepting shard: from before the node serves.
pub async fn accept(shard: Shard, life: Rc<Life>, listener: Listener) {
    loop {
        let (socket, peer) = next_connection(&shard, &listener).await;
        match life.node() {
            Some(node) => give_out(node, Port::Http, socket, peer).await,
            None if life.http_connections().open() < EARLY_CONNECTIONS_MAX => {
                drop(spawn(&life, &shard, socket, peer, async {}));
            }
            None => {}
        }
    }
}

/// Serves a connection that this shard was given, as a task of its own.
pub fn serve(life: &Rc<Life>, shard: Shard, socket: Socket, peer: SocketAddr) {
    let node = life.node().expect("only a node is given connections").clone();
    drop(spawn(life, &shard, socket, peer, async move { take_back(&node, Port::Http).await }));
}

/// `ended` runs once the connection is over.
fn spawn(
    life: &Rc<Life>,
    shard: &Shard,
    socket: Socket,
    peer: SocketAddr,
    ended: impl Future<Output = ()> + 'static,
) -> shard::Task<()> {
    let connections: Rc<Connections> = life.http_connections().clone();
    let counted = Counted::new(&connections);
    let (life, own_shard) = (life.clone(), shard.clone());
    shard.spawn(Class::Normal, shard.account("http"), async move {
        let handler = |request| routes::answer(life.clone(), request);
        let reason = net::http::serve(&own_shard, socket, connections.drain_word(), handler).await;
        if let Some(reason) = reason {
            tracing::debug!(%peer, "HTTP connection closed: {reason}");
        }
        drop(counted);
        ended.await;
    })
}
