//! The controller: the one task that changes the cluster's metadata.
//!
//! Owner: shard 0. Requests of all shards wait in one queue and are done one after another: plan against the image, commit the records,
//! have the logs opened or removed by their shards, publish the new view to every shard, answer. So a client that was told of a
//! new topic finds it on any connection.
//!
//! The controller is no mesh handler: it may await other shards, and they never wait for it while they serve it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, PartitionIndex, Random, ShardId};
use replication::metadata::{
    Assignment, BrokerRecord, Image, ImageBuilder, MetadataRecord, PartitionRecord, ResourceKind, TopicDefaults,
    TopicRemovalRecord, TopicSpec, plan_allocate_producer_ids, plan_create_topic,
};
use shard::Class;
use shard::sync::{Queue, oneshot};
use storage::LogId;
use wire::ErrorCode;

use super::errors;
use super::local::LocalShards;
use super::{
    AdminError, AdminReply, AdminRequest, CreatedTopic, DeletedTopic, MetadataLog, MetadataLogError, NewTopic,
    PartitionView, Topic, TopicName, View,
};
use crate::config::TopicConfig;
use crate::message::Message;
use crate::node::Node;

/// Requests that wait for the controller; more make their senders wait.
const QUEUE_LENGTH: usize = 256;
/// Partition records in one commit when the leader epochs are raised at start.
const EPOCHS_PER_COMMIT: usize = 1000;

/// Where requests to the controller wait.
#[derive(Clone)]
pub struct ControllerQueue(Queue<(AdminRequest, oneshot::Sender<AdminReply>)>);

impl ControllerQueue {
    #[must_use]
    pub fn new() -> Self {
        Self(Queue::new(QUEUE_LENGTH))
    }

    /// Waits for the controller's answer to `request`.
    pub async fn ask(&self, request: AdminRequest) -> AdminReply {
        let unavailable = AdminReply::unavailable(&request);
        let (sender, receiver) = oneshot::channel();
        if self.0.push((request, sender)).await.is_err() {
            return unavailable;
        }
        receiver.await.unwrap_or(unavailable)
    }
}

impl Default for ControllerQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// Asks the controller, from any shard.
pub async fn submit(node: &Rc<Node>, request: AdminRequest) -> AdminReply {
    if node.shard.id() == ShardId(0) {
        return node.controller.ask(request).await;
    }
    match node.mesh.request(ShardId(0), Message::Admin(request)).await {
        Message::Admitted(reply) => reply,
        other => unreachable!("Admin is answered by Admitted, not {other:?}"),
    }
}

/// The controller's state.
pub struct Controller {
    pub(super) node: Rc<Node>,
    pub(super) metadata: MetadataLog,
    pub(super) view: View,
    pub(super) shards: LocalShards,
    pub(super) random: Random,
}

impl Controller {
    /// Takes over the recovered cluster: raises every leader epoch, opens every log on its shard (creating those that a crash left
    /// out, removing those of topics that are gone), and publishes the first view.
    ///
    /// # Errors
    /// A sentence; the broker can't start.
    pub async fn start(node: Rc<Node>, metadata: MetadataLog, view: View, shards: LocalShards) -> Result<Self, String> {
        let random = Random::new(node.shard.random());
        let mut controller = Self { node, metadata, view, shards, random };
        controller.register().await.map_err(|error| error.to_string())?;
        controller.raise_epochs().await.map_err(|error| error.to_string())?;
        let orphans = controller.shards.not_in(controller.metadata.image());
        controller.shards.remove(&controller.node, orphans).await?;
        let topics: Vec<Topic> = {
            let image = controller.metadata.image().clone();
            image.topics().map(|topic| controller.topic(&image, topic)).collect::<Result<_, _>>()?
        };
        controller.shards.open(&controller.node, &topics).await?;
        for topic in topics {
            controller.view.insert(topic);
        }
        controller.view.set_groups(controller.metadata.image(), &controller.node.config);
        controller.publish().await?;
        Ok(controller)
    }

    /// Serves the queue until the broker stops.
    pub async fn run(mut self) {
        let queue = self.node.controller.clone();
        while let Some((request, reply)) = queue.0.pop().await {
            let answer = match request {
                AdminRequest::CreateTopics { topics, validate_only } => {
                    AdminReply::CreateTopics(self.create_topics(topics, validate_only).await)
                }
                AdminRequest::DeleteTopics(topics) => AdminReply::DeleteTopics(self.delete_topics(topics).await),
                AdminRequest::CreatePartitions { topics, validate_only } => {
                    AdminReply::CreatePartitions(self.create_partitions(topics, validate_only).await)
                }
                AdminRequest::AlterSettings { changes, validate_only } => {
                    AdminReply::AlterSettings(self.alter_settings(changes, validate_only).await)
                }
                AdminRequest::AllocateProducerIds => AdminReply::ProducerIds(self.allocate_producer_ids().await),
            };
            // Who asked may be gone; what was done is done.
            let _ = reply.send(answer);
        }
    }

    /// Runs the controller as a task of its shard.
    pub fn spawn(self) {
        let (shard, account) = (self.node.shard.clone(), self.node.accounts.control.clone());
        drop(shard.spawn(Class::Normal, account, self.run()));
    }

    /// Writes down where clients reach this broker, if that changed.
    async fn register(&mut self) -> Result<(), MetadataLogError> {
        let broker = &self.view.broker;
        let record = BrokerRecord { id: broker.id, host: broker.host.clone(), port: broker.port, rack: None };
        if self.metadata.image().broker(broker.id) == Some(&record) {
            return Ok(());
        }
        self.metadata.propose(&[MetadataRecord::Broker(record)]).await
    }

    /// A leader never resumes its own epoch: what it may have sent out and lost must not look like what it writes now.
    async fn raise_epochs(&mut self) -> Result<(), MetadataLogError> {
        let raised: Vec<MetadataRecord> = self
            .metadata
            .image()
            .topics()
            .flat_map(|topic| {
                (0..).map(PartitionIndex).zip(&topic.partitions).map(|(index, partition)| {
                    let record = partition.record(topic.id, index);
                    MetadataRecord::Partition(PartitionRecord {
                        leader_epoch: LeaderEpoch(record.leader_epoch.0 + 1),
                        partition_epoch: record.partition_epoch + 1,
                        ..record
                    })
                })
            })
            .collect();
        for chunk in raised.chunks(EPOCHS_PER_COMMIT) {
            self.metadata.propose(chunk).await?;
        }
        Ok(())
    }

    /// A topic of an image as clients and shards see it; its partitions get shards where they have none.
    pub(super) fn topic(&mut self, image: &Image, topic: &replication::metadata::Topic) -> Result<Topic, String> {
        let settings = image.configs(ResourceKind::Topic, &topic.name);
        let config = TopicConfig::from_settings(settings.clone())
            .map_err(|error| format!("topic {} has a setting that this version refuses: {error}", topic.name))?;
        let partitions = (0..)
            .map(PartitionIndex)
            .zip(&topic.partitions)
            .map(|(index, partition)| PartitionView {
                leader: partition.leader.unwrap_or(BrokerId(-1)),
                leader_epoch: partition.leader_epoch,
                replicas: partition.replicas.clone(),
                isr: partition.isr.clone(),
                owner: self.shards.owner_or_place(LogId { topic_id: topic.id, partition: index }),
            })
            .collect();
        let own_settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Topic { name: topic.name.to_string(), id: topic.id, config, own_settings, partitions })
    }

    async fn create_topics(
        &mut self,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, AdminError>> {
        let mut results = Vec::with_capacity(topics.len());
        let mut opened = Vec::new();
        // What a request only validates must still see its own earlier topics, as when it creates them.
        let mut planned = ImageBuilder::new(self.metadata.image());
        let mut room = self.partitions_left();
        for topic in topics {
            let plan = self.plan_topic(planned.image(), &topic).and_then(|(created, records)| {
                let partitions = usize::try_from(created.partitions).unwrap_or(usize::MAX);
                room = room.checked_sub(partitions).ok_or_else(|| self.too_many_partitions())?;
                Ok((created, records))
            });
            results.push(match plan {
                Ok((created, records)) => {
                    for record in &records {
                        planned.replay(record).expect("a plan fits the image it was made for");
                    }
                    if validate_only { Ok(created) } else { self.commit_topic(created, records, &mut opened).await }
                }
                Err(error) => Err(error),
            });
        }
        if !opened.is_empty()
            && let Err(reason) = self.open_and_publish(opened.clone()).await
        {
            self.take_back(&opened, &mut results, &reason).await;
        }
        results
    }

    fn plan_topic(
        &mut self,
        image: &Image,
        topic: &NewTopic,
    ) -> Result<(CreatedTopic, Vec<MetadataRecord>), AdminError> {
        let settings: Vec<(String, String)> = topic
            .settings
            .iter()
            .map(|(name, value)| match value {
                Some(value) => Ok((name.clone(), value.clone())),
                None => Err(AdminError::new(
                    ErrorCode::InvalidConfig,
                    format!("Null value not supported for topic configs: {name}"),
                )),
            })
            .collect::<Result<_, _>>()?;
        let spec = TopicSpec {
            name: topic.name.clone(),
            partition_count: topic.partitions,
            replication_factor: topic.replication_factor,
            assignments: topic
                .assignments
                .iter()
                .map(|(index, replicas)| Assignment { index: *index, replicas: replicas.clone() })
                .collect(),
            configs: settings.clone(),
        };
        let defaults = TopicDefaults { partition_count: self.node.config.num_partitions, replication_factor: 1 };
        let live = [self.view.broker.id];
        let plan = plan_create_topic(image, &spec, defaults, &live, &mut self.random)
            .map_err(|error| AdminError::new(errors::create_topic(&error), error.to_string()))?;
        let given: BTreeMap<&str, &str> =
            settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let config = self.check_settings(&given)?;
        let own = |name: &str| given.contains_key(name);
        let created = CreatedTopic {
            id: plan.topic_id,
            partitions: plan.partition_count,
            replication_factor: plan.replication_factor,
            settings: config.describe().into_iter().map(|(name, value)| (name, value, own(name))).collect(),
        };
        Ok((created, plan.records))
    }

    /// How many more partitions this broker's memory has room for.
    pub(super) fn partitions_left(&self) -> usize {
        let partitions_max = self.node.config.partitions_max(self.node.mesh.shards());
        partitions_max.saturating_sub(self.view.partition_count())
    }

    pub(super) fn too_many_partitions(&self) -> AdminError {
        let partitions_max = self.node.config.partitions_max(self.node.mesh.shards());
        let reason = format!("this broker's memory has room for {partitions_max} partitions: raise memory-bytes");
        AdminError::new(ErrorCode::PolicyViolation, reason)
    }

    /// Whether a topic may have these settings of its own.
    pub(super) fn check_settings(&self, own: &BTreeMap<&str, &str>) -> Result<TopicConfig, AdminError> {
        /// Longer than any value that means something: every copy of the metadata keeps them.
        const VALUE_BYTES_MAX: usize = 1024;
        let invalid = |reason| AdminError::new(ErrorCode::InvalidConfig, reason);
        if let Some(name) = own.iter().find_map(|(name, value)| (value.len() > VALUE_BYTES_MAX).then_some(name)) {
            return Err(invalid(format!("The value of {name} is longer than {VALUE_BYTES_MAX} bytes.")));
        }
        let config = TopicConfig::from_settings(own.iter().map(|(name, value)| (*name, *value)))
            .map_err(|error| invalid(error.to_string()))?;
        let batch_bytes_max = self.node.config.batch_bytes_max();
        let is_longer = usize::try_from(config.max_message_bytes).is_ok_and(|bytes| bytes > batch_bytes_max);
        if own.contains_key("max.message.bytes") && is_longer {
            return Err(invalid(format!(
                "Invalid value {} for configuration max.message.bytes: this broker takes batches of at most {batch_bytes_max} bytes, \
                 with its journal-bytes of {}",
                config.max_message_bytes, self.node.config.journal_bytes
            )));
        }
        Ok(config)
    }

    async fn commit_topic(
        &mut self,
        created: CreatedTopic,
        records: Vec<MetadataRecord>,
        opened: &mut Vec<Topic>,
    ) -> Result<CreatedTopic, AdminError> {
        self.metadata.propose(&records).await.map_err(|error| not_committed(&error))?;
        let image = self.metadata.image().clone();
        let topic = image.topic_by_id(created.id).expect("its records were just committed");
        let topic =
            self.topic(&image, topic).map_err(|reason| AdminError::new(ErrorCode::UnknownServerError, reason))?;
        opened.push(topic);
        Ok(created)
    }

    pub(super) async fn open_and_publish(&mut self, topics: Vec<Topic>) -> Result<(), String> {
        self.shards.open(&self.node, &topics).await?;
        for topic in topics {
            self.view.insert(topic);
        }
        self.publish().await
    }

    /// Undoes the creation of topics whose logs could not be opened: a full disk must not leave half a topic.
    async fn take_back(&mut self, topics: &[Topic], results: &mut [Result<CreatedTopic, AdminError>], reason: &str) {
        tracing::error!("topics are not created: {reason}");
        for result in results {
            let failed = result.as_ref().is_ok_and(|created| topics.iter().any(|topic| topic.id == created.id));
            if failed {
                *result = Err(AdminError::new(ErrorCode::KafkaStorageError, reason));
            }
        }
        let names = topics.iter().map(|topic| TopicName::Id(topic.id)).collect();
        for outcome in self.delete_topics(names).await {
            if let Err(error) = outcome {
                tracing::error!("a topic that could not be opened stays in the metadata: {}", error.reason);
            }
        }
    }

    async fn delete_topics(&mut self, topics: Vec<TopicName>) -> Vec<Result<DeletedTopic, AdminError>> {
        let mut results = Vec::with_capacity(topics.len());
        let mut gone = Vec::new();
        for name in topics {
            let result = self.delete_topic(&name).await;
            if let Ok(deleted) = &result {
                gone.push(deleted.id);
            }
            results.push(result);
        }
        if gone.is_empty() {
            return results;
        }
        for id in &gone {
            self.view.remove(*id);
        }
        let logs = self.shards.of_topics(&gone);
        // Publishing first: no shard sends to a log that is going away.
        let outcome = match self.publish().await {
            Ok(()) => self.shards.remove(&self.node, logs).await,
            Err(reason) => Err(reason),
        };
        if let Err(reason) = outcome {
            tracing::error!("a deleted topic's logs stay until the next start: {reason}");
        }
        results
    }

    async fn delete_topic(&mut self, name: &TopicName) -> Result<DeletedTopic, AdminError> {
        let found = match name {
            TopicName::Name(name) => self.metadata.image().topic(name),
            TopicName::Id(id) => self.metadata.image().topic_by_id(*id),
        };
        let Some(topic) = found else {
            let code = match name {
                TopicName::Name(_) => ErrorCode::UnknownTopicOrPartition,
                TopicName::Id(_) => ErrorCode::UnknownTopicId,
            };
            return Err(AdminError::new(code, code.message()));
        };
        let deleted = DeletedTopic { name: topic.name.to_string(), id: topic.id };
        let removal = MetadataRecord::TopicRemoval(TopicRemovalRecord { topic_id: deleted.id });
        self.metadata.propose(&[removal]).await.map_err(|error| not_committed(&error))?;
        Ok(deleted)
    }

    async fn allocate_producer_ids(&mut self) -> Result<std::ops::Range<i64>, AdminError> {
        let (block, record) = plan_allocate_producer_ids(self.metadata.image(), self.view.broker.id)
            .map_err(|error| AdminError::new(ErrorCode::UnknownServerError, error.to_string()))?;
        self.metadata.propose(&[record]).await.map_err(|error| not_committed(&error))?;
        Ok(block.first.0..block.first.0 + block.count)
    }

    /// Gives every shard the view; returns when all have it.
    pub(super) async fn publish(&self) -> Result<(), String> {
        let view = Arc::new(self.view.clone());
        let publish = |_| Message::Publish(view.clone());
        self.shards.tell_others(&self.node, publish).await?;
        self.node.set_view(view);
        Ok(())
    }
}

pub(super) fn not_committed(error: &MetadataLogError) -> AdminError {
    AdminError::new(ErrorCode::KafkaStorageError, error.to_string())
}
