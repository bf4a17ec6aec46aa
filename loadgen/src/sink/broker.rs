//! What a sink is: its state, and when things happen in it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Instant, Uuid};
use shard::Shard;

use super::fault::Fault;
use super::pace::Pace;
use super::store::{Store, StoreOptions};
use crate::units::Bytes;

/// The one broker of this cluster.
pub const BROKER: BrokerId = BrokerId(0);

/// The cluster's id.
pub const CLUSTER_ID: &str = "tidemill-loadgen-sink";

/// What a sink is, and what it does wrong.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// `host:port`, which clients are told to connect to as well; port 0 takes a free one.
    pub listen: String,
    /// The most that all partitions together keep.
    pub keep: Bytes,
    /// Of topics that are created without a number.
    pub partitions: usize,
    pub pace: Pace,
    pub faults: Vec<Fault>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".into(),
            keep: Bytes(256 << 20),
            partitions: 1,
            pace: Pace::default(),
            faults: Vec::new(),
        }
    }
}

/// The state of a sink.
pub struct Broker {
    pub shard: Shard,
    pub address: SocketAddr,
    pub host: String,
    /// Of topics that are created without a number.
    pub default_partitions: usize,
    pub store: RefCell<Store>,
    pub next_producer_id: Cell<i64>,
    pace: Pace,
    first_produce: Cell<Option<Instant>>,
}

impl Broker {
    #[must_use]
    pub fn new(shard: &Shard, address: SocketAddr, options: SinkOptions) -> Rc<Self> {
        let keep_bytes = usize::try_from(options.keep.0).unwrap_or(usize::MAX);
        let store = Store::new(StoreOptions { keep_bytes, faults: options.faults });
        Rc::new(Self {
            shard: shard.clone(),
            address,
            host: address.ip().to_string(),
            default_partitions: options.partitions,
            store: RefCell::new(store),
            next_producer_id: Cell::new(0),
            pace: options.pace,
            first_produce: Cell::new(None),
        })
    }

    /// When a Produce request that arrived now is acknowledged, and when its records can be read.
    #[must_use]
    pub fn times_of_produce(&self, arrived: Instant) -> (Instant, Instant) {
        let first = self.first_produce.get().unwrap_or(arrived);
        self.first_produce.set(Some(first));
        let acknowledged = self.pace.acknowledged(arrived.since(first));
        (first + acknowledged, first + self.pace.readable(acknowledged))
    }

    /// Waits while nothing is delivered.
    pub async fn stalls_over(&self) {
        while let Some(first) = self.first_produce.get() {
            let now = self.shard.now().since(first);
            let over: Duration = self.pace.after_stalls(now);
            if over == now {
                return;
            }
            self.shard.sleep_until(first + over).await;
        }
    }

    #[must_use]
    pub fn new_uuid(&self) -> Uuid {
        Uuid::from_random(self.shard.random(), self.shard.random())
    }
}
