//! What every shard knows of the cluster: immutable, shared by all, replaced whole.
//!
//! Owner: the controller makes each next view; shards only read theirs. A topic is in the view only once every log of it is open on its
//! shard, so whoever finds an owner here can send to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BrokerId, IdMap, LeaderEpoch, PartitionIndex, ShardId, Uuid};
use replication::metadata::{Image, ResourceKind};
use storage::LogId;

use crate::config::{GroupSettings, NodeConfig, OwnSettings, OwnSettingsOfGroups, TopicConfig};

/// How clients reach a broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broker {
    pub id: BrokerId,
    pub host: String,
    pub port: u16,
}

/// A partition as clients see it, and the shard of this broker that owns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionView {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub owner: ShardId,
}

/// A topic with its settings and partitions, by index.
#[derive(Clone, PartialEq, Debug)]
pub struct Topic {
    pub name: String,
    pub id: Uuid,
    pub config: TopicConfig,
    /// The settings that are the topic's own, as they were given; the others are defaults.
    pub own_settings: BTreeMap<String, String>,
    pub partitions: Vec<PartitionView>,
}

impl Topic {
    /// A partition of this topic, if it has that many.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&PartitionView> {
        self.partitions.get(usize::try_from(index.0).ok()?)
    }

    #[must_use]
    pub fn has(&self, index: PartitionIndex) -> bool {
        self.partition(index).is_some()
    }
}

/// What to open on a shard.
#[derive(Clone, PartialEq, Debug)]
pub struct LogSpec {
    pub topic: String,
    pub id: LogId,
    pub config: TopicConfig,
    /// Partitions of the whole topic, to share its byte limit.
    pub topic_partitions: usize,
    pub leader_epoch: LeaderEpoch,
}

/// The cluster at one moment.
#[derive(Clone, Debug)]
pub struct View {
    pub cluster_id: String,
    pub broker: Broker,
    pub controller: BrokerId,
    topics: BTreeMap<String, Arc<Topic>>,
    /// Topics draw their ids here.
    by_id: IdMap<Uuid, Arc<Topic>>,
    /// The settings that single groups have of their own.
    groups: Arc<OwnSettingsOfGroups>,
    /// Of all topics.
    partition_count: usize,
    /// Topics that were here since the start and are gone.
    gone_count: u64,
}

impl View {
    /// A cluster of this broker alone, without topics.
    #[must_use]
    pub fn new(cluster_id: String, broker: Broker) -> Self {
        let controller = broker.id;
        Self {
            cluster_id,
            broker,
            controller,
            topics: BTreeMap::new(),
            by_id: IdMap::default(),
            groups: Arc::default(),
            partition_count: 0,
            gone_count: 0,
        }
    }

    /// Topics in name order.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values().map(Arc::as_ref)
    }

    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name).map(Arc::as_ref)
    }

    #[must_use]
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.by_id.get(&id).map(Arc::as_ref)
    }

    /// The settings that single groups have of their own.
    #[must_use]
    pub fn groups(&self) -> &Arc<OwnSettingsOfGroups> {
        &self.groups
    }

    /// Takes the groups' settings from an image.
    pub fn set_groups(&mut self, image: &Image, node: &NodeConfig) {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let own = |group: &str| {
            let given = image.configs(ResourceKind::Group, group).map(owned).collect();
            let settings = GroupSettings::kept(&given, node);
            (group.to_owned(), OwnSettings { given, settings })
        };
        self.groups = Arc::new(image.configured(ResourceKind::Group).map(own).collect());
    }

    /// How many topics have gone since the start: another number when one has.
    #[must_use]
    pub fn gone_count(&self) -> u64 {
        self.gone_count
    }

    /// The partitions of all topics.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// The shard that owns a partition's log.
    #[must_use]
    pub fn owner(&self, log: LogId) -> Option<ShardId> {
        self.by_id.get(&log.topic_id)?.partition(log.partition).map(|partition| partition.owner)
    }

    /// Adds or replaces a topic.
    pub fn insert(&mut self, topic: Topic) {
        let topic = Arc::new(topic);
        self.partition_count += topic.partitions.len();
        self.by_id.insert(topic.id, topic.clone());
        let Some(replaced) = self.topics.insert(topic.name.clone(), topic.clone()) else { return };
        self.partition_count -= replaced.partitions.len();
        if replaced.id != topic.id {
            self.by_id.remove(&replaced.id);
        }
    }

    /// Takes a topic out.
    pub fn remove(&mut self, id: Uuid) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.topics.remove(&topic.name);
        self.partition_count -= topic.partitions.len();
        self.gone_count += 1;
        Some(topic)
    }
}
