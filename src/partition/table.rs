//! The partitions of one shard by log id.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use base::{IdMap, LeaderEpoch, NO_EPOCH, Offset};
use shard::Class;
use storage::{Log, LogId};
use wire::ErrorCode;

use super::failures::FailuresSaid;
use super::produce::Backlog;
use crate::cluster::LogSpec;
use crate::config::TopicConfig;
use crate::coordinator;
use crate::node::Node;

/// One partition on its shard.
pub struct Partition {
    pub log: Log,
    config: RefCell<TopicConfig>,
    leader_epoch: Cell<LeaderEpoch>,
    /// Appends that wait for room in the log.
    pub(super) backlog: RefCell<Backlog>,
    pub(super) failures_said: RefCell<FailuresSaid>,
}

impl Partition {
    /// Its topic's settings as they are now.
    #[must_use]
    pub fn config(&self) -> Ref<'_, TopicConfig> {
        self.config.borrow()
    }

    /// The epoch this broker leads it in.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch.get()
    }

    /// The first offset that is not yet committed: a single replica holds what it has flushed, or written where its durability says so.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        let held = self.log.held_end();
        self.log.set_high_watermark(held);
        held
    }

    /// Whether a client that believes in `claimed` may go on (KIP-320).
    ///
    /// # Errors
    /// `FENCED_LEADER_EPOCH` when the client is behind, `UNKNOWN_LEADER_EPOCH` when it is ahead.
    pub fn check_epoch(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        if claimed == NO_EPOCH || claimed == self.leader_epoch() {
            Ok(())
        } else if claimed < self.leader_epoch() {
            Err(ErrorCode::FencedLeaderEpoch)
        } else {
            Err(ErrorCode::UnknownLeaderEpoch)
        }
    }
}

/// All partitions of a shard.
#[derive(Default)]
pub struct PartitionTable {
    partitions: RefCell<IdMap<LogId, Rc<Partition>>>,
}

impl PartitionTable {
    #[must_use]
    pub fn get(&self, log: LogId) -> Option<Rc<Partition>> {
        self.partitions.borrow().get(&log).cloned()
    }
}

/// Opens each partition; creates the logs that are not there yet; adopts its leader epoch and its topic's settings. All at once, so that
/// they share commits. What is open stays so, with all that waits in it.
///
/// # Errors
/// A sentence about the first that could not be opened; the others are open.
pub async fn open(node: &Rc<Node>, specs: Vec<LogSpec>) -> Result<(), String> {
    let opening: Vec<_> = specs
        .into_iter()
        .map(|spec| {
            let node_of_task = node.clone();
            node.shard
                .spawn(Class::Normal, node.accounts.control.clone(), async move { open_one(&node_of_task, spec).await })
        })
        .collect();
    let mut outcome = Ok(());
    for task in opening {
        outcome = outcome.and(task.await);
    }
    outcome
}

async fn open_one(node: &Rc<Node>, spec: LogSpec) -> Result<(), String> {
    let describe = |error: storage::StoreError| {
        format!("partition {} of topic {} can't be opened: {error}", spec.id.partition, spec.topic)
    };
    let log_config = spec.config.log_config(spec.topic_partitions, node.config.producer_id_expiration_ms);
    let log = match node.store.log(spec.id) {
        Some(log) => {
            log.set_config(log_config);
            log
        }
        None => node.store.create_log(&spec.topic, spec.id, log_config).await.map_err(describe)?,
    };
    if log.latest_epoch() < spec.leader_epoch {
        log.adopt_epoch(spec.leader_epoch).await.map_err(describe)?;
    }
    if let Some(partition) = node.partitions.get(spec.id) {
        partition.config.replace(spec.config);
        partition.leader_epoch.set(spec.leader_epoch);
        // Readers that believe in another epoch are told.
        partition.log.changed().notify_all();
        return Ok(());
    }
    let partition = Partition {
        log,
        config: RefCell::new(spec.config),
        leader_epoch: Cell::new(spec.leader_epoch),
        backlog: RefCell::default(),
        failures_said: RefCell::default(),
    };
    let partition = Rc::new(partition);
    node.partitions.partitions.borrow_mut().insert(spec.id, partition.clone());
    if spec.topic == coordinator::OFFSETS_TOPIC {
        coordinator::start(node, spec.id.partition, partition);
    }
    Ok(())
}

/// Removes partitions of deleted topics, with their logs.
///
/// # Errors
/// A sentence about the first that could not be removed.
pub async fn remove(node: &Rc<Node>, logs: Vec<LogId>) -> Result<(), String> {
    for id in logs {
        let removed = node.partitions.partitions.borrow_mut().remove(&id);
        if removed.is_some_and(|partition| partition.log.topic() == coordinator::OFFSETS_TOPIC) {
            node.coordinators.stop(id.partition);
        }
        node.store.remove_log(id).await.map_err(|error| {
            format!("the log of partition {} of topic id {} stays: {error}", id.partition, id.topic_id)
        })?;
    }
    Ok(())
}
