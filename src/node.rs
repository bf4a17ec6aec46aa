//! What every task of a shard works with: the shard, its mesh, its store, its partitions and what it knows of the cluster.
//!
//! Owner: one `Node` on each shard, made by `boot` once the shard's store is open; an `Rc`, never sent.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use base::ShardId;
use net::FrameMemory;
use shard::{Account, Class, Mesh, Shard};
use storage::ShardStore;

use crate::answers::AnswerMemory;
use crate::api::http;
use crate::api::kafka::{FetchSessions, SessionBounds};
use crate::cluster::{ControllerQueue, ProducerIds, View};
use crate::config::NodeConfig;
use crate::connections::{Connections, GivenOut, Port};
use crate::coordinator::Coordinators;
use crate::message::{FetchId, Message};
use crate::observe::RequestMeters;
use crate::partition::{FetchCancels, PartitionTable, Readers};
use crate::record_work::RecordJobs;
use crate::router::GoneReaders;
use crate::work::WorkMemory;

/// The accounts that a shard's CPU time is charged to.
#[derive(Clone)]
pub struct Accounts {
    pub connections: Account,
    pub requests: Account,
    pub mesh: Account,
    pub control: Account,
    pub lag: Account,
}

impl Accounts {
    fn new(shard: &Shard) -> Self {
        Self {
            connections: shard.account("connections"),
            requests: shard.account("requests"),
            mesh: shard.account("mesh"),
            control: shard.account("control"),
            lag: shard.account("lag"),
        }
    }
}

/// One shard of this broker.
pub struct Node {
    pub shard: Shard,
    pub mesh: Mesh<Message>,
    pub store: ShardStore,
    pub config: Arc<NodeConfig>,
    pub partitions: PartitionTable,
    pub fetch_cancels: FetchCancels,
    /// Of all shards' sessions, those that want something here.
    pub readers: Readers,
    /// Of this shard's sessions.
    pub gone_readers: GoneReaders,
    pub fetch_sessions: FetchSessions,
    /// Of the groups whose partitions are here.
    pub coordinators: Coordinators,
    pub producer_ids: ProducerIds,
    /// Served by the controller; used on shard 0 only.
    pub controller: ControllerQueue,
    pub connections: Rc<Connections>,
    pub http_connections: Rc<Connections>,
    pub request_meters: RequestMeters,
    pub frame_memory: FrameMemory,
    pub answer_memory: AnswerMemory,
    pub record_jobs: RecordJobs,
    pub work: WorkMemory,
    /// Kept by the accepting shard.
    pub given_out: GivenOut,
    pub http_given_out: GivenOut,
    pub accounts: Accounts,
    #[expect(
        clippy::redundant_allocation,
        reason = "requests count on the shard's own counter, not on one all cores share"
    )]
    view: RefCell<Rc<Arc<View>>>,
    /// Counts the views.
    view_number: Cell<u64>,
    fetches: Cell<u64>,
}

impl Node {
    #[must_use]
    pub fn new(
        shard: Shard,
        mesh: Mesh<Message>,
        store: ShardStore,
        config: Arc<NodeConfig>,
        view: Arc<View>,
        http_connections: Rc<Connections>,
    ) -> Rc<Self> {
        let heap = config.heap_of_shard(mesh.shards());
        let http_given_out = GivenOut::new(mesh.shards(), http::CONNECTIONS_MAX as usize);
        let given_out = GivenOut::new(mesh.shards(), config.connections_max(mesh.shards()));
        let accounts = Accounts::new(&shard);
        let frame_memory = FrameMemory::new(&shard);
        let answer_memory = AnswerMemory::new(config.answer_bytes_of_shard(mesh.shards()));
        let record_jobs = RecordJobs::new(&shard, &config);
        let session_bounds =
            SessionBounds { sessions_max: config.fetch_sessions_max, partitions_max: heap.session_partitions_max };
        let fetch_sessions = FetchSessions::new(shard.id(), session_bounds);
        Rc::new(Self {
            shard,
            mesh,
            store,
            config,
            partitions: PartitionTable::default(),
            fetch_cancels: FetchCancels::default(),
            readers: Readers::default(),
            gone_readers: GoneReaders::default(),
            fetch_sessions,
            coordinators: Coordinators::default(),
            producer_ids: ProducerIds::default(),
            controller: ControllerQueue::new(),
            connections: Rc::default(),
            http_connections,
            request_meters: RequestMeters::default(),
            frame_memory,
            answer_memory,
            record_jobs,
            work: WorkMemory::new(heap.work_bytes),
            given_out,
            http_given_out,
            accounts,
            view: RefCell::new(Rc::new(view)),
            view_number: Cell::new(0),
            fetches: Cell::new(0),
        })
    }

    /// What this shard knows of the cluster now. The `Rc` spares the cores a shared counter.
    #[must_use]
    pub fn view(&self) -> Rc<Arc<View>> {
        self.view.borrow().clone()
    }

    /// Replaces what is known, whole.
    pub fn set_view(&self, view: Arc<View>) {
        *self.view.borrow_mut() = Rc::new(view);
        self.view_number.set(self.view_number.get() + 1);
    }

    /// Another one for each view: what was found in a view holds while this stays.
    #[must_use]
    pub fn view_number(&self) -> u64 {
        self.view_number.get()
    }

    /// The connections of a port that the accepting shard has given out.
    #[must_use]
    pub fn given_out(&self, port: Port) -> &GivenOut {
        match port {
            Port::Kafka => &self.given_out,
            Port::Http => &self.http_given_out,
        }
    }

    /// Every shard but this one.
    pub fn others(&self) -> impl Iterator<Item = ShardId> + use<> {
        let own = self.shard.id();
        (0..self.mesh.shards()).map(ShardId).filter(move |shard| *shard != own)
    }

    /// Ends this shard's connections once what they have sent is answered.
    pub async fn drain(&self) {
        // Members wait for others of their group, which do not come any more.
        self.coordinators.stop_all();
        self.connections.drain().await;
        self.http_connections.drain().await;
    }

    /// A name for a fetch that no other has.
    #[must_use]
    pub fn next_fetch_id(&self) -> FetchId {
        self.fetches.set(self.fetches.get() + 1);
        FetchId { shard: self.shard.id(), number: self.fetches.get() }
    }

    /// Runs a task in the latency class, on the account of the requests.
    pub fn spawn_latency(&self, task: impl Future<Output = ()> + 'static) {
        self.shard.spawn_detached(Class::Latency, self.accounts.requests.clone(), task);
    }
}
