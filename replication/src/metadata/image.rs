//! The state that metadata records add up to.
//!
//! An [`Image`] is immutable and cheap to clone: shards hold it and look things up without a lock. A new one shares with
//! its predecessor every map that no record touched.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, PartitionIndex, ProducerId, Uuid};

use super::record::{
    BrokerRecord, ConfigRecord, FeatureRecord, MetadataRecord, PartitionRecord, ProducerIdsRecord, ResourceKind,
    TopicRecord, TopicRemovalRecord,
};

/// A registered broker.
pub type Broker = BrokerRecord;
type Settings = BTreeMap<String, String>;

/// A topic and its partitions; the partition with index `i` stands at `i`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    pub id: Uuid,
    pub name: Arc<str>,
    pub partitions: Vec<Partition>,
}

impl Topic {
    /// The partition with this index.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index.0).ok()?)
    }
}

/// Who holds a partition and who leads it. At least one replica, none twice; the in-sync replicas and the leader are
/// among the replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub leader: Option<BrokerId>,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: i32,
}

/// The cluster's metadata at one point of its log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    features: Arc<BTreeMap<String, i16>>,
    brokers: Arc<BTreeMap<BrokerId, Broker>>,
    topics: Arc<BTreeMap<Arc<str>, Arc<Topic>>>,
    topic_names: Arc<BTreeMap<Uuid, Arc<str>>>,
    /// No resource without a setting is in it.
    configs: Arc<BTreeMap<ResourceKind, BTreeMap<String, Arc<Settings>>>>,
    producer_ids: Option<ProducerIdsRecord>,
}

impl Image {
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name).map(Arc::as_ref)
    }

    #[must_use]
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topic(self.topic_names.get(&id)?)
    }

    /// All topics by name, ascending.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Topic> {
        self.topics.values().map(Arc::as_ref)
    }

    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// All registered brokers by id, ascending.
    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &Broker> {
        self.brokers.values()
    }

    /// The settings made for one resource, by key, ascending; defaults are not among them.
    pub fn configs(&self, resource: ResourceKind, name: &str) -> impl Iterator<Item = (&str, &str)> + Clone {
        let settings = self.settings(resource, name).into_iter().flat_map(|settings| settings.iter());
        settings.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// One setting of one resource, if it was made.
    #[must_use]
    pub fn config(&self, resource: ResourceKind, name: &str, key: &str) -> Option<&str> {
        self.settings(resource, name)?.get(key).map(String::as_str)
    }

    /// The names of the resources of one kind that have settings, ascending.
    pub fn configured(&self, resource: ResourceKind) -> impl Iterator<Item = &str> {
        self.configs.get(&resource).into_iter().flat_map(|names| names.keys().map(String::as_str))
    }

    fn settings(&self, resource: ResourceKind, name: &str) -> Option<&Settings> {
        self.configs.get(&resource)?.get(name).map(Arc::as_ref)
    }

    /// The level of a feature; 0 when it is not on.
    #[must_use]
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// The features that are on, by name, ascending.
    pub fn features(&self) -> impl ExactSizeIterator<Item = (&str, i16)> {
        self.features.iter().map(|(name, &level)| (name.as_str(), level))
    }

    /// The lowest producer id in no block that was given out.
    #[must_use]
    pub fn next_producer_id(&self) -> ProducerId {
        self.producer_ids.map_or(ProducerId(0), |ids| ids.next)
    }

    /// Records that, replayed into an empty image, make this one.
    #[must_use]
    pub fn snapshot(&self) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        for (name, &level) in self.features.iter() {
            records.push(MetadataRecord::Feature(FeatureRecord { name: name.clone(), level }));
        }
        records.extend(self.brokers.values().cloned().map(MetadataRecord::Broker));
        for topic in self.topics() {
            records.push(MetadataRecord::Topic(TopicRecord { id: topic.id, name: topic.name.to_string() }));
            for (index, partition) in (0..).zip(&topic.partitions) {
                records.push(MetadataRecord::Partition(partition.record(topic.id, PartitionIndex(index))));
            }
        }
        for (&resource, names) in self.configs.iter() {
            for (name, settings) in names {
                records.extend(settings.iter().map(|(key, value)| {
                    MetadataRecord::Config(ConfigRecord {
                        resource,
                        resource_name: name.clone(),
                        key: key.clone(),
                        value: Some(value.clone()),
                    })
                }));
            }
        }
        records.extend(self.producer_ids.map(MetadataRecord::ProducerIds));
        records
    }
}

impl Partition {
    /// The record that says what this is: where a change of a partition starts from.
    #[must_use]
    pub fn record(&self, topic_id: Uuid, index: PartitionIndex) -> PartitionRecord {
        PartitionRecord {
            topic_id,
            index,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            leader: self.leader,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
        }
    }
}

/// A record does not fit the image: the log was damaged or written by a faulty program. Replaying stops there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// A topic by this name, or with this id, is there already.
    TopicExists {
        name: String,
        id: Uuid,
    },
    UnknownTopic {
        id: Uuid,
    },
    /// A topic's partitions must come in order.
    PartitionGap {
        topic_id: Uuid,
        index: PartitionIndex,
        partition_count: usize,
    },
    /// The record's epochs are not above those that are known.
    StalePartition {
        topic_id: Uuid,
        index: PartitionIndex,
    },
    /// No replicas, one of them twice, or a leader or in-sync replica that is none.
    BadReplicas {
        topic_id: Uuid,
        index: PartitionIndex,
    },
    /// Producer ids were given out already.
    StaleProducerIds {
        next: ProducerId,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata log contradicts itself: ")?;
        match self {
            Self::TopicExists { name, id } => write!(f, "topic {name} ({id}) comes into being twice"),
            Self::UnknownTopic { id } => write!(f, "topic {id} is spoken of and does not exist"),
            Self::PartitionGap { topic_id, index, partition_count } => {
                write!(f, "partition {index} of topic {topic_id} comes when there are {partition_count}")
            }
            Self::StalePartition { topic_id, index } => {
                write!(f, "the epochs of partition {index} of topic {topic_id} go backwards")
            }
            Self::BadReplicas { topic_id, index } => {
                write!(f, "the replicas of partition {index} of topic {topic_id} do not fit each other")
            }
            Self::StaleProducerIds { next } => write!(f, "producer ids go back to {next}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays records on top of an image; what it has made stays unseen until [`ImageBuilder::finish`].
#[derive(Clone, Debug, Default)]
pub struct ImageBuilder {
    image: Image,
}

impl ImageBuilder {
    #[must_use]
    pub fn new(image: &Image) -> Self {
        Self { image: image.clone() }
    }

    /// The image so far: what a plan that belongs to the same batch looks at.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    #[must_use]
    pub fn finish(self) -> Image {
        self.image
    }

    /// Applies one record.
    ///
    /// # Errors
    /// The record does not fit; nothing of it was applied.
    pub fn replay(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::Feature(feature) => {
                let features = Arc::make_mut(&mut self.image.features);
                match feature.level {
                    0 => drop(features.remove(&feature.name)),
                    level => drop(features.insert(feature.name.clone(), level)),
                }
                Ok(())
            }
            MetadataRecord::Broker(broker) => {
                Arc::make_mut(&mut self.image.brokers).insert(broker.id, broker.clone());
                Ok(())
            }
            MetadataRecord::Topic(topic) => self.replay_topic(topic),
            MetadataRecord::TopicRemoval(removal) => self.replay_removal(*removal),
            MetadataRecord::Partition(partition) => self.replay_partition(partition),
            MetadataRecord::Config(config) => {
                self.replay_config(config);
                Ok(())
            }
            MetadataRecord::ProducerIds(ids) => {
                if ids.next < self.image.next_producer_id() {
                    return Err(ReplayError::StaleProducerIds { next: ids.next });
                }
                self.image.producer_ids = Some(*ids);
                Ok(())
            }
        }
    }

    fn replay_topic(&mut self, topic: &TopicRecord) -> Result<(), ReplayError> {
        let TopicRecord { id, name } = topic;
        if self.image.topics.contains_key(name.as_str()) || self.image.topic_names.contains_key(id) {
            return Err(ReplayError::TopicExists { name: name.clone(), id: *id });
        }
        let name: Arc<str> = name.as_str().into();
        let topic = Topic { id: *id, name: Arc::clone(&name), partitions: Vec::new() };
        Arc::make_mut(&mut self.image.topic_names).insert(*id, Arc::clone(&name));
        Arc::make_mut(&mut self.image.topics).insert(name, Arc::new(topic));
        Ok(())
    }

    fn replay_removal(&mut self, removal: TopicRemovalRecord) -> Result<(), ReplayError> {
        let id = removal.topic_id;
        if !self.image.topic_names.contains_key(&id) {
            return Err(ReplayError::UnknownTopic { id });
        }
        let names = Arc::make_mut(&mut self.image.topic_names);
        let Some(name) = names.remove(&id) else { return Ok(()) };
        Arc::make_mut(&mut self.image.topics).remove(&name);
        if self.image.settings(ResourceKind::Topic, &name).is_some() {
            let configs = Arc::make_mut(&mut self.image.configs);
            remove_resource(configs, ResourceKind::Topic, &name);
        }
        Ok(())
    }

    fn replay_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let PartitionRecord { topic_id, index, .. } = *record;
        let Some(topic) = self.image.topic_by_id(topic_id) else {
            return Err(ReplayError::UnknownTopic { id: topic_id });
        };
        let (name, partition_count) = (Arc::clone(&topic.name), topic.partitions.len());
        let at = usize::try_from(index.0)
            .ok()
            .filter(|&at| at <= partition_count)
            .ok_or(ReplayError::PartitionGap { topic_id, index, partition_count })?;
        if let Some(known) = topic.partitions.get(at)
            && (record.partition_epoch <= known.partition_epoch || record.leader_epoch < known.leader_epoch)
        {
            return Err(ReplayError::StalePartition { topic_id, index });
        }
        if !replicas_fit(record) {
            return Err(ReplayError::BadReplicas { topic_id, index });
        }
        let partition = Partition {
            replicas: record.replicas.clone(),
            isr: record.isr.clone(),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        };
        let Some(topic) = Arc::make_mut(&mut self.image.topics).get_mut(&name) else {
            return Err(ReplayError::UnknownTopic { id: topic_id });
        };
        let partitions = &mut Arc::make_mut(topic).partitions;
        match partitions.get_mut(at) {
            Some(known) => *known = partition,
            None => partitions.push(partition),
        }
        Ok(())
    }

    fn replay_config(&mut self, config: &ConfigRecord) {
        let ConfigRecord { resource, resource_name, key, value } = config;
        let configs = Arc::make_mut(&mut self.image.configs);
        if let Some(value) = value {
            let settings = configs.entry(*resource).or_default().entry(resource_name.clone()).or_default();
            Arc::make_mut(settings).insert(key.clone(), value.clone());
        } else if let Some(settings) = configs.get_mut(resource).and_then(|names| names.get_mut(resource_name)) {
            let settings = Arc::make_mut(settings);
            settings.remove(key);
            if settings.is_empty() {
                remove_resource(configs, *resource, resource_name);
            }
        }
    }
}

/// Takes a resource out, and its kind when it was the last: an image holds no empty maps, so that images made by
/// different ways are equal.
fn remove_resource(
    configs: &mut BTreeMap<ResourceKind, BTreeMap<String, Arc<Settings>>>,
    resource: ResourceKind,
    name: &str,
) {
    if let Some(names) = configs.get_mut(&resource) {
        names.remove(name);
        if names.is_empty() {
            configs.remove(&resource);
        }
    }
}

fn replicas_fit(record: &PartitionRecord) -> bool {
    let unique = |ids: &[BrokerId]| {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    };
    let known = |id: &BrokerId| record.replicas.contains(id);
    !record.replicas.is_empty()
        && unique(&record.replicas)
        && unique(&record.isr)
        && record.isr.iter().all(known)
        && record.leader.iter().all(known)
}
