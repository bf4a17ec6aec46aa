//! The life of a node, shard by shard: lock, recover, place, open, listen, serve; then drain, checkpoint, end.
//!
//! Shard 0 leads: it recovers the data directory before any store is open and tells every other shard what it owns. Every step goes through the
//! shard's driver, so the simulator boots brokers with this very code.

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::{BrokerId, ShardId, Uuid};
use shard::{Class, Incoming, Listener, Mesh, MeshBounds, MeshSeat, Shard};
use storage::{Durability, RecoverConfig, RecoveredShard, ShardStore, StoreConfig, StoreError};

use crate::api::http;
use crate::cluster::{Broker, Controller, LocalShards, MetadataLog, View};
use crate::config::{self, DurabilitySetting, Endpoint, NodeConfig};
use crate::connections;
use crate::coordinator;
use crate::mesh_loop;
use crate::message::Message;
use crate::node::Node;
use crate::observe::Life;

/// How long connections may take to end before the stores are closed without them.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long an address may be in use: the kernel takes the sockets of a ring down some time after the process that was killed is gone.
const IN_USE_LIMIT: Duration = Duration::from_secs(3);
const IN_USE_RETRY: Duration = Duration::from_millis(20);

/// Why a node does not start, with the remedy where there is one.
#[derive(Debug)]
pub struct BootError(pub String);

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BootError {}

fn failed(what: &str, error: &dyn fmt::Display) -> BootError {
    BootError(format!("{what}: {error}"))
}

/// What a node says once it takes requests.
#[derive(Clone, Debug)]
pub struct Ready {
    pub broker: BrokerId,
    pub shards: u16,
    pub kafka: SocketAddr,
    /// `None` where the port is off.
    pub http: Option<SocketAddr>,
}

/// The seats of a node's mesh, in the order of its shards.
#[must_use]
pub fn seats(shards: u16) -> Vec<MeshSeat<Message>> {
    shard::mesh(shards, MeshBounds::default())
}

/// Shard 0, from nothing to the end. `ready` is called once; the node ends when `stop` resolves.
///
/// # Errors
/// Why the node could not start. Other shards are left waiting: the process is to end.
pub async fn run_first(
    shard: Shard,
    mesh: Mesh<Message>,
    config: Arc<NodeConfig>,
    ready: impl FnOnce(&Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), BootError> {
    let cluster_id = open_data_dir(&shard, &config).await?;
    let life = Life::begin();
    let http = open_http(&shard, &config, &life).await?;
    let (own, others) = recover(&shard, &mesh, &config).await?;
    life.recovered();
    let mut owned = vec![own.log_ids()];
    owned.extend(others.iter().map(RecoveredShard::log_ids));
    let listener = listen(&shard, &config).await?;
    let view = View::new(cluster_id, broker(&config, listener.local_addr())?);
    open_others(&mesh, others, &view).await?;
    let store = open_store(&shard, &config, own).await?;
    let http_connections = life.http_connections().clone();
    let node = Node::new(shard.clone(), mesh.clone(), store, config.clone(), Arc::new(view.clone()), http_connections);
    let serving = mesh_loop::run(node.clone());
    drop(shard.spawn(Class::Latency, node.accounts.mesh.clone(), async move { drop(serving.await) }));
    let metadata = MetadataLog::open(shard.clone(), &node.store)
        .await
        .map_err(|error| failed("the cluster's metadata", &error))?;
    let controller =
        Controller::start(node.clone(), metadata, view, LocalShards::new(owned)).await.map_err(BootError)?;
    controller.spawn();
    connections::watch(&node);
    coordinator::lag::watch(&node);
    life.serve(node.clone());
    ready(&Ready { broker: BrokerId(config.broker_id), shards: mesh.shards(), kafka: listener.local_addr(), http });
    serve_until(&node, listener, stop).await;
    end(&node).await
}

/// Any other shard, until shard 0 ends it.
///
/// # Errors
/// Why its store did not open or close; shard 0 knows it too.
pub async fn run_other(shard: Shard, mesh: Mesh<Message>, config: Arc<NodeConfig>) -> Result<(), BootError> {
    let Incoming { message, reply, .. } = mesh.receive().await;
    let Message::Recovered { recovered, view } = message else {
        unreachable!("the first message to a shard is what it owns, not {message:?}")
    };
    let reply = reply.expect("what a shard owns is a request");
    let store = match open_store(&shard, &config, *recovered).await {
        Ok(store) => store,
        Err(error) => {
            reply.send(Message::Done(Err(error.to_string())));
            return Err(error);
        }
    };
    let node = Node::new(shard, mesh, store, config, view, Rc::default());
    connections::watch(&node);
    coordinator::lag::watch(&node);
    reply.send(Message::Done(Ok(())));
    let stopped = mesh_loop::run(node.clone()).await;
    let closed = close(&node).await;
    if let Some(reply) = stopped {
        reply.send(Message::Done(closed.as_ref().map_err(ToString::to_string).copied()));
    }
    closed.map_err(|error| failed("the store can't be closed", &error))
}

/// Makes or checks the data directory; returns the cluster's id.
async fn open_data_dir(shard: &Shard, config: &NodeConfig) -> Result<String, BootError> {
    let dir = &config.data_dir;
    let fs = shard.fs();
    fs.create_dir_all(dir)
        .await
        .map_err(|error| failed(&format!("the data directory {} can't be made", dir.display()), &error))?;
    fs.lock(dir.join(storage::format::LOCK_NAME)).await.map_err(|error| {
        let why = if error.kind() == std::io::ErrorKind::WouldBlock {
            format!("another process uses it ({error}); stop that one or choose another --data-dir")
        } else {
            error.to_string()
        };
        failed(&format!("the data directory {} can't be locked", dir.display()), &why)
    })?;
    let fresh = Uuid::from_random(shard.random(), shard.random());
    let identity = storage::format::open(shard, dir, BrokerId(config.broker_id), fresh)
        .await
        .map_err(|error| failed(&format!("the data directory {}", dir.display()), &error))?;
    Ok(identity.cluster_id.to_string())
}

/// Recovers every log of the data directory; what shard 0 owns comes first.
async fn recover(
    shard: &Shard,
    mesh: &Mesh<Message>,
    config: &NodeConfig,
) -> Result<(RecoveredShard, Vec<RecoveredShard>), BootError> {
    // Recovery runs before anything else does, with a part of the memory that nobody has yet.
    let replay_memory_bytes = usize::try_from(config.memory_bytes / 4).unwrap_or(usize::MAX);
    let recovery = RecoverConfig { replay_memory_bytes, ..RecoverConfig::new(config.data_dir.clone(), mesh.shards()) };
    let started = shard.now();
    let recovered = storage::recover(shard, &recovery)
        .await
        .map_err(|error| failed("the data directory can't be recovered", &error))?;
    tracing::info!(took = ?shard.now().since(started), report = ?recovered.report, "recovered");
    let mut shards = recovered.shards.into_iter();
    let own = shards.next().ok_or_else(|| BootError("recovery gave shard 0 nothing".to_owned()))?;
    Ok((own, shards.collect()))
}

async fn listen(shard: &Shard, config: &NodeConfig) -> Result<Listener, BootError> {
    listen_on(shard, "--listen", &config.listen).await
}

/// Opens the HTTP port, where it is wanted, and answers on it from now on.
async fn open_http(shard: &Shard, config: &NodeConfig, life: &Rc<Life>) -> Result<Option<SocketAddr>, BootError> {
    let Some(addr) = config.http_addr() else { return Ok(None) };
    let listener = listen_on(shard, "--http", addr).await?;
    let local_addr = listener.local_addr();
    let accepting = http::accept(shard.clone(), life.clone(), listener);
    drop(shard.spawn(Class::Normal, shard.account("http"), accepting));
    Ok(Some(local_addr))
}

async fn listen_on(shard: &Shard, option: &str, addr: &str) -> Result<Listener, BootError> {
    let addr: SocketAddr =
        addr.parse().map_err(|_| BootError(format!("{option} {addr} is not IP:PORT, as in 127.0.0.1:9092")))?;
    let give_up = shard.now() + IN_USE_LIMIT;
    let listening = loop {
        match shard.listen(addr).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && shard.now() < give_up => {
                shard.sleep(IN_USE_RETRY).await;
            }
            outcome => break outcome,
        }
    };
    listening.map_err(|error| {
        failed(
            &format!("can't listen on {addr}"),
            &format!("{error}; is another broker running? choose another {option}"),
        )
    })
}

/// Where clients are told to go.
fn broker(config: &NodeConfig, local: SocketAddr) -> Result<Broker, BootError> {
    let id = BrokerId(config.broker_id);
    let Endpoint { host, port } =
        config::endpoint(config.advertised.as_deref(), local).map_err(|error| BootError(error.to_string()))?;
    Ok(Broker { id, host, port })
}

/// Gives every other shard what it owns; returns when all stores are open.
async fn open_others(mesh: &Mesh<Message>, recovered: Vec<RecoveredShard>, view: &View) -> Result<(), BootError> {
    let view = Arc::new(view.clone());
    let mut replies = Vec::new();
    for (shard, recovered) in (1..).map(ShardId).zip(recovered) {
        let message = Message::Recovered { recovered: Box::new(recovered), view: view.clone() };
        replies.push((shard, mesh.send_request(shard, message).await));
    }
    for (shard, reply) in replies {
        match reply.await {
            Message::Done(Ok(())) => {}
            Message::Done(Err(reason)) => return Err(BootError(format!("shard {shard}: {reason}"))),
            other => unreachable!("Recovered is answered by Done, not {other:?}"),
        }
    }
    Ok(())
}

async fn open_store(shard: &Shard, config: &NodeConfig, recovered: RecoveredShard) -> Result<ShardStore, BootError> {
    let shards = config.shards.unwrap_or(1).max(1);
    let buffer_bytes = config.buffer_bytes_of_shard(shards);
    let part = |total: u64| usize::try_from(total / u64::from(shards)).unwrap_or(usize::MAX);
    let store = StoreConfig {
        durability: match config.durability {
            DurabilitySetting::Disk => Durability::Disk,
            DurabilitySetting::Replicas => Durability::Replicas,
        },
        journal_file_bytes: config.journal_file_bytes(),
        journal_bytes_limit: config.journal_bytes,
        // 40 % are for what is received, or rebuilt of it; what is left, for commits, destage and checkpoints, must go to nobody else.
        tail_cache_bytes: buffer_bytes / 4,
        tail_bytes_max: config.tail_bytes_of_shard(shards),
        read_bytes_max: buffer_bytes / 8,
        background_bytes_in_flight: part(config.background_bytes_in_flight).max(128 << 10),
        reserve_bytes: config.disk_reserve_bytes,
        checkpoint_interval: Duration::from_millis(config.checkpoint_interval_ms),
        destage_delay: Duration::from_millis(config.destage_delay_ms),
        upkeep_interval: Duration::from_millis(config.retention_check_interval_ms),
        compaction_map_bytes: config.heap_of_shard(shards).compaction_map_bytes,
        compaction_percent: config.compaction_percent,
        compaction_expanded_bytes_max: config.expanded_bytes_max(),
        ..StoreConfig::new(config.data_dir.clone(), shard.id())
    };
    ShardStore::open(shard.clone(), store, recovered)
        .await
        .map_err(|error| failed(&format!("the store of shard {} can't be opened", shard.id()), &error))
}

async fn serve_until(node: &Rc<Node>, listener: Listener, stop: impl Future<Output = ()>) {
    let mut accepting = pin!(connections::accept(node.clone(), listener));
    let mut stop = pin!(stop);
    poll_fn(|context| {
        let _: Poll<()> = accepting.as_mut().poll(context);
        stop.as_mut().poll(context)
    })
    .await;
}

/// Drains every shard's connections, then closes every store.
async fn end(node: &Rc<Node>) -> Result<(), BootError> {
    tracing::info!("stopping: requests under way are answered, then the stores are closed");
    let drained = async {
        let others = tell_others(node, || Message::Drain);
        let own = node.drain();
        let (others, ()) = both(others, own).await;
        others
    };
    let mut drained = pin!(drained);
    let mut limit = pin!(node.shard.sleep(DRAIN_LIMIT));
    let outcome = poll_fn(|context| match drained.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await;
    if !matches!(outcome, Some(Ok(()))) {
        tracing::warn!("some connections did not end within {DRAIN_LIMIT:?}");
    }
    let others = tell_others(node, || Message::Stop).await;
    close(node).await.map_err(|error| failed("the store of shard 0 can't be closed", &error))?;
    others
}

/// Closes a shard's store. Without room for a last checkpoint its journal has everything: that is no failure to stop.
async fn close(node: &Node) -> Result<(), StoreError> {
    match node.store.close().await {
        Err(StoreError::DiskFull) => {
            tracing::warn!(shard = %node.shard.id(), "no last checkpoint: the disk is full; the next start replays the journal");
            Ok(())
        }
        done => done,
    }
}

async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (None, None);
    poll_fn(|context| {
        if a_done.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(context)
        {
            a_done = Some(done);
        }
        if b_done.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(context)
        {
            b_done = Some(done);
        }
        match (a_done.take(), b_done.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (a_done, b_done) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

async fn tell_others(node: &Rc<Node>, message: impl Fn() -> Message) -> Result<(), BootError> {
    let mut replies = Vec::new();
    for shard in node.others() {
        replies.push((shard, node.mesh.send_request(shard, message()).await));
    }
    let mut outcome = Ok(());
    for (shard, reply) in replies {
        if let Message::Done(Err(reason)) = reply.await {
            outcome = Err(BootError(format!("shard {shard}: {reason}")));
        }
    }
    outcome
}
