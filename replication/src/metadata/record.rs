//! The records of the metadata log, one struct for each type.

use base::{BrokerId, LeaderEpoch, PartitionIndex, ProducerId, Uuid};

/// One change of the cluster's metadata. Every record says what is, not what to add, so that replaying a snapshot and
/// replaying the log end in the same image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetadataRecord {
    Feature(FeatureRecord),
    Broker(BrokerRecord),
    Topic(TopicRecord),
    TopicRemoval(TopicRemovalRecord),
    Partition(PartitionRecord),
    Config(ConfigRecord),
    ProducerIds(ProducerIdsRecord),
}

/// The level that a feature of the cluster runs at; level 0 takes the feature away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeatureRecord {
    pub name: String,
    pub level: i16,
}

/// A broker and where clients reach it; a later record for the same id takes the place of an earlier one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRecord {
    pub id: BrokerId,
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
}

/// A topic came into being; its partitions follow in the same batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRecord {
    pub id: Uuid,
    pub name: String,
}

/// A topic is gone, and with it its partitions and settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicRemovalRecord {
    pub topic_id: Uuid,
}

/// Everything about one partition; takes the place of what was known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionRecord {
    pub topic_id: Uuid,
    pub index: PartitionIndex,
    /// The brokers that are to hold the partition, preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those of them that are in sync.
    pub isr: Vec<BrokerId>,
    /// `None` while no replica may lead.
    pub leader: Option<BrokerId>,
    /// Goes up whenever the leader changes.
    pub leader_epoch: LeaderEpoch,
    /// Goes up with every record for the partition, so that a stale one can be told.
    pub partition_epoch: i32,
}

/// One setting of one resource; no value takes the setting away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigRecord {
    pub resource: ResourceKind,
    /// A topic's name, a broker's id in decimal (empty for all brokers), a group's id.
    pub resource_name: String,
    pub key: String,
    pub value: Option<String>,
}

/// What a setting belongs to; Kafka's numbers (`ConfigResource.Type`), which stand on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ResourceKind {
    Topic = 2,
    Broker = 4,
    ClientMetrics = 16,
    Group = 32,
}

impl ResourceKind {
    /// The kind with Kafka's number `code`.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Topic, Self::Broker, Self::ClientMetrics, Self::Group].into_iter().find(|&kind| kind as u8 == code)
    }
}

/// All producer ids below `next` have been given out in blocks, the last of them to `broker`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerIdsRecord {
    pub broker: BrokerId,
    pub next: ProducerId,
}
