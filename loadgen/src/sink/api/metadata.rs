//! Metadata and DescribeCluster: one broker, which leads every partition.

use std::rc::Rc;

use base::{LeaderEpoch, PartitionIndex, Uuid};
use net::Started;
use wire::messages::describe_cluster::{DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse};
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::{Array, ErrorCode};

use super::super::broker::{BROKER, Broker, CLUSTER_ID};
use super::super::request::{Refusal, Request};
use super::super::store::{Store, Topic, TopicKey};

/// The first version in which a topic may be looked up by its id.
const TOPIC_ID_VERSION: i16 = 12;

/// The endpoints that DescribeCluster may be asked for.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Tells of topics; creates those that are asked for by name and not there.
pub fn handle(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: MetadataRequest<'_> = request.decode()?;
    let version = request.asker.version;
    let named = asked.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty());
    let mut refused = Vec::new();
    if asked.allow_auto_topic_creation {
        for name in named.into_iter().flatten().filter_map(|topic| topic.name) {
            let id = broker.new_uuid();
            match broker.store.borrow_mut().create(name, id, broker.default_partitions) {
                Ok(_) | Err(ErrorCode::TopicAlreadyExists) => {}
                Err(code) => refused.push((name, code)),
            }
        }
    }
    let store = broker.store.borrow();
    let topics = match named {
        None => store.topics().map(topic_answer).collect(),
        Some(named) => named.iter().map(|topic| asked_answer(&store, &topic, version, &refused)).collect(),
    };
    let brokers = vec![MetadataResponseBroker {
        node_id: BROKER,
        host: &broker.host,
        port: i32::from(broker.address.port()),
        rack: None,
    }];
    let response = MetadataResponse {
        brokers: brokers.into(),
        cluster_id: Some(CLUSTER_ID),
        controller_id: BROKER,
        topics,
        ..Default::default()
    };
    request.asker.answer(&response).map(Started::Done)
}

fn asked_answer<'s>(
    store: &'s Store,
    asked: &MetadataRequestTopic<'s>,
    version: i16,
    refused: &[(&str, ErrorCode)],
) -> MetadataResponseTopic<'s> {
    let by_id = version >= TOPIC_ID_VERSION && asked.name.is_none();
    let found = if by_id {
        store.topic(&TopicKey::Id(asked.topic_id))
    } else {
        store.topic_named(asked.name.unwrap_or_default())
    };
    let Some(found) = found else {
        let code = refused.iter().find(|(name, _)| Some(*name) == asked.name).map(|(_, code)| *code);
        let unknown = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        // Below version 12 an answer has a name, also where the question has none.
        let name = if by_id { None } else { Some(asked.name.unwrap_or_default()) };
        let topic_id = if by_id { asked.topic_id } else { Uuid::ZERO };
        return MetadataResponseTopic { error_code: code.unwrap_or(unknown), name, topic_id, ..Default::default() };
    };
    topic_answer(found)
}

fn topic_answer(topic: &Topic) -> MetadataResponseTopic<'_> {
    let replicas = || Array::Items(&[BROKER]);
    let partition = |index| MetadataResponsePartition {
        error_code: ErrorCode::None,
        partition_index: PartitionIndex(index),
        leader_id: BROKER,
        leader_epoch: LeaderEpoch(0),
        replica_nodes: replicas(),
        isr_nodes: replicas(),
        offline_replicas: Array::empty(),
    };
    MetadataResponseTopic {
        name: Some(&topic.name),
        topic_id: topic.id,
        partitions: (0..).take(topic.partitions.len()).map(partition).collect(),
        ..Default::default()
    }
}

/// Tells of the cluster.
pub fn describe_cluster(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: DescribeClusterRequest = request.decode()?;
    let error_code = match asked.endpoint_type {
        BROKERS => ErrorCode::None,
        CONTROLLERS => ErrorCode::MismatchedEndpointType,
        _ => ErrorCode::UnsupportedEndpointType,
    };
    let this = DescribeClusterBroker {
        broker_id: BROKER,
        host: &broker.host,
        port: i32::from(broker.address.port()),
        rack: None,
        is_fenced: false,
    };
    let response = if error_code.is_error() {
        DescribeClusterResponse { error_code, ..Default::default() }
    } else {
        DescribeClusterResponse {
            endpoint_type: asked.endpoint_type,
            cluster_id: CLUSTER_ID,
            controller_id: BROKER,
            brokers: vec![this].into(),
            ..Default::default()
        }
    };
    request.asker.answer(&response).map(Started::Done)
}
