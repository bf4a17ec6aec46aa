//! Which shard of this broker owns which log, as the controller sees it, and its words to the shards.
//!
//! Owner: the controller. What stands here comes from recovery and from the controller's own choices; each shard's journal
//! holds the truth durably, so there is no file of this table.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use base::{ShardId, Uuid};
use replication::metadata::Image;
use storage::LogId;

use super::metadata_log::METADATA_LOG;
use super::{LogSpec, Topic};
use crate::message::Message;
use crate::node::Node;
use crate::partition;

/// The owners of this broker's logs.
pub struct LocalShards {
    owners: HashMap<LogId, ShardId>,
    /// Logs on each shard, by shard.
    counts: Vec<usize>,
}

impl LocalShards {
    /// What recovery found: the logs of each shard.
    #[must_use]
    pub fn new(recovered: Vec<Vec<LogId>>) -> Self {
        let mut owners = HashMap::new();
        let counts = recovered.iter().map(Vec::len).collect();
        for (shard, logs) in (0..).map(ShardId).zip(recovered) {
            owners.extend(logs.into_iter().map(|log| (log, shard)));
        }
        Self { owners, counts }
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..u16::try_from(self.counts.len()).expect("shards are counted in a u16")).map(ShardId)
    }

    /// The shard of a log; a new log goes to the shard with the fewest.
    pub fn owner_or_place(&mut self, log: LogId) -> ShardId {
        if let Some(owner) = self.owners.get(&log) {
            return *owner;
        }
        let fewest = self.shards().min_by_key(|shard| (self.counts[usize::from(shard.0)], *shard));
        let owner = fewest.expect("a broker has at least one shard");
        self.counts[usize::from(owner.0)] += 1;
        self.owners.insert(log, owner);
        owner
    }

    /// Logs whose topic the image does not have, or has with fewer partitions: their deletion, or creation, was cut short.
    #[must_use]
    pub fn not_in(&self, image: &Image) -> Vec<LogId> {
        let known = |log: &LogId| {
            *log == METADATA_LOG
                || image.topic_by_id(log.topic_id).is_some_and(|topic| topic.partition(log.partition).is_some())
        };
        let mut orphans: Vec<LogId> = self.owners.keys().filter(|log| !known(log)).copied().collect();
        orphans.sort_unstable();
        orphans
    }

    /// The logs of some topics.
    #[must_use]
    pub fn of_topics(&self, topics: &[Uuid]) -> Vec<LogId> {
        let mut logs: Vec<LogId> = self.owners.keys().filter(|log| topics.contains(&log.topic_id)).copied().collect();
        logs.sort_unstable();
        logs
    }

    /// Has every log of these topics opened by its shard.
    ///
    /// # Errors
    /// A shard's sentence about a log that it can't open.
    pub async fn open(&self, node: &Rc<Node>, topics: &[Topic]) -> Result<(), String> {
        // In the order of the shards: what is sent when must not hang on a hasher's seed.
        let mut by_shard: BTreeMap<ShardId, Vec<LogSpec>> = BTreeMap::new();
        for topic in topics {
            for (index, partition) in (0..).map(base::PartitionIndex).zip(&topic.partitions) {
                by_shard.entry(partition.owner).or_default().push(LogSpec {
                    topic: topic.name.clone(),
                    id: LogId { topic_id: topic.id, partition: index },
                    config: topic.config.clone(),
                    topic_partitions: topic.partitions.len(),
                    leader_epoch: partition.leader_epoch,
                });
            }
        }
        let own = by_shard.remove(&node.shard.id()).unwrap_or_default();
        let others: Vec<_> = by_shard.into_iter().map(|(shard, specs)| (shard, Message::OpenLogs(specs))).collect();
        let told = tell(node, others).await;
        partition::open(node, own).await.and(told)
    }

    /// Has logs removed by their shards, and forgets them.
    ///
    /// # Errors
    /// A shard's sentence about a log that it can't remove.
    pub async fn remove(&mut self, node: &Rc<Node>, logs: Vec<LogId>) -> Result<(), String> {
        let mut by_shard: BTreeMap<ShardId, Vec<LogId>> = BTreeMap::new();
        for log in logs {
            if let Some(owner) = self.owners.remove(&log) {
                self.counts[usize::from(owner.0)] -= 1;
                by_shard.entry(owner).or_default().push(log);
            }
        }
        let own = by_shard.remove(&node.shard.id()).unwrap_or_default();
        let others: Vec<_> = by_shard.into_iter().map(|(shard, logs)| (shard, Message::RemoveLogs(logs))).collect();
        let told = tell(node, others).await;
        partition::remove(node, own).await.and(told)
    }

    /// Sends each other shard a message that is answered by `Done`; returns when all are.
    ///
    /// # Errors
    /// The first shard's sentence about what failed.
    pub async fn tell_others(&self, node: &Rc<Node>, message: impl Fn(ShardId) -> Message) -> Result<(), String> {
        let others = self.shards().filter(|shard| *shard != node.shard.id());
        tell(node, others.map(|shard| (shard, message(shard))).collect()).await
    }
}

/// Sends every message before it awaits the first answer.
async fn tell(node: &Rc<Node>, messages: Vec<(ShardId, Message)>) -> Result<(), String> {
    let mut replies = Vec::with_capacity(messages.len());
    for (shard, message) in messages {
        replies.push(node.mesh.send_request(shard, message).await);
    }
    let mut outcome = Ok(());
    for reply in replies {
        match reply.await {
            Message::Done(done) => outcome = outcome.and(done),
            other => unreachable!("the controller's words are answered by Done, not {other:?}"),
        }
    }
    outcome
}
