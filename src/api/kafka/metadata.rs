//! Metadata: brokers, topics and leaders; creates topics that are asked for, where both sides allow it.

use std::rc::Rc;

use base::{BrokerId, PartitionIndex, Uuid};
use net::Reply;
use replication::metadata::{CLUSTER_METADATA_TOPIC, check_topic_name, is_internal_topic};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    NO_AUTHORIZED_OPERATIONS,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::cluster::{AdminReply, AdminRequest, NewTopic, Topic, View, submit};

/// The first version in which a topic may be looked up by its id.
const TOPIC_ID_VERSION: i16 = 12;

/// Every operation on a topic (read, write, create, delete, alter, describe, describe and alter configs), as bits of
/// `AclOperation` codes: without an authorizer, as here, all are allowed.
pub const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Every operation on the cluster (create, alter, describe, cluster action, configs, idempotent write), likewise.
pub const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// How the client named a topic.
enum Asked {
    Name(String),
    Id(Uuid),
}

/// Which topics a request is about.
struct Request {
    /// `None` for all.
    topics: Option<Vec<Asked>>,
    create: bool,
    cluster_operations: bool,
    topic_operations: bool,
}

/// Answers from this shard's view, after creating what may be created.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let Some(request) = read(&context)? else { return refused_whole(&context) };
    let refused = if request.create { create_missing(&context, &request).await } else { Vec::new() };
    let view = context.node.view();
    let topics: Vec<MetadataResponseTopic<'_>> = match &request.topics {
        None => view.topics().map(|topic| topic_answer(topic, request.topic_operations)).collect(),
        Some(asked) => asked.iter().map(|asked| asked_answer(&view, asked, &request, &refused)).collect(),
    };
    context.answer(&MetadataResponse {
        throttle_time_ms: 0,
        brokers: brokers(&view),
        cluster_id: Some(&view.cluster_id),
        controller_id: view.controller,
        topics: topics.into(),
        cluster_authorized_operations: if request.cluster_operations {
            CLUSTER_OPERATIONS
        } else {
            NO_AUTHORIZED_OPERATIONS
        },
        error_code: ErrorCode::None,
    })
}

/// To a request that names topics as its version must not: no cluster, and an error for each of the topics.
fn refused_whole(context: &Context) -> Result<Reply, Refusal> {
    let request: MetadataRequest<'_> = context.decode()?;
    let error_code = ErrorCode::InvalidRequest;
    let topics = request.topics.iter().flatten().map(|topic| MetadataResponseTopic {
        error_code,
        name: Some(topic.name.unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    context.answer(&MetadataResponse {
        topics: topics.collect(),
        // Only version 13 has a place for an error of the whole request.
        error_code: if context.version >= 13 { error_code } else { ErrorCode::None },
        ..Default::default()
    })
}

/// `None` where topics are named as the version must not.
fn read(context: &Context) -> Result<Option<Request>, Refusal> {
    let request: MetadataRequest<'_> = context.decode()?;
    let all = match &request.topics {
        None => true,
        Some(topics) => context.version == 0 && topics.is_empty(),
    };
    // One id makes it a request by ids, in which names are not looked at.
    let by_ids = request.topics.iter().flatten().any(|topic| !topic.topic_id.is_zero());
    if by_ids && context.version < TOPIC_ID_VERSION {
        return Ok(None);
    }
    let mut topics = Vec::new();
    for topic in request.topics.iter().flatten() {
        match topic.name {
            _ if by_ids && topic.topic_id.is_zero() => {}
            _ if by_ids => topics.push(Asked::Id(topic.topic_id)),
            Some(name) => topics.push(Asked::Name(name.to_owned())),
            None => return Ok(None),
        }
    }
    Ok(Some(Request {
        create: request.allow_auto_topic_creation && context.node.config.auto_create_topics && !all,
        topics: if all { None } else { Some(topics) },
        cluster_operations: request.include_cluster_authorized_operations,
        topic_operations: request.include_topic_authorized_operations,
    }))
}

/// Creates the topics that are not there; gives back those that could not be, with the reason's code.
async fn create_missing(context: &Context, request: &Request) -> Vec<(String, ErrorCode)> {
    let missing: Vec<NewTopic> = {
        let view = context.node.view();
        let mut missing: Vec<&str> = request
            .topics
            .iter()
            .flatten()
            .filter_map(|asked| match asked {
                // The metadata log is there, if not for clients, and nothing to make.
                Asked::Name(name) if name == CLUSTER_METADATA_TOPIC => None,
                Asked::Name(name) if view.topic(name).is_none() => Some(name.as_str()),
                _ => None,
            })
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
            .into_iter()
            .map(|name| NewTopic {
                name: name.to_owned(),
                partitions: -1,
                replication_factor: -1,
                ..Default::default()
            })
            .collect()
    };
    if missing.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = missing.iter().map(|topic| topic.name.clone()).collect();
    let request = AdminRequest::CreateTopics { topics: missing, validate_only: false };
    match submit(&context.node, request).await {
        AdminReply::CreateTopics(created) => names
            .into_iter()
            .zip(created)
            .filter_map(|(name, created)| created.err().map(|error| (name, error.code)))
            // Somebody else was quicker: it is there now.
            .filter(|(_, code)| *code != ErrorCode::TopicAlreadyExists)
            .collect(),
        other => unreachable!("CreateTopics is answered by CreateTopics, not {other:?}"),
    }
}

fn asked_answer<'v>(
    view: &'v View,
    asked: &'v Asked,
    request: &Request,
    refused: &[(String, ErrorCode)],
) -> MetadataResponseTopic<'v> {
    let unknown = |name: Option<&'v str>, topic_id, error_code| MetadataResponseTopic {
        error_code,
        name,
        topic_id,
        is_internal: name.is_some_and(is_internal_topic),
        // Who may do all to every topic may do so to one that is not there.
        topic_authorized_operations: match error_code {
            ErrorCode::UnknownTopicOrPartition => operations(request.topic_operations),
            _ => NO_AUTHORIZED_OPERATIONS,
        },
        ..Default::default()
    };
    match asked {
        Asked::Name(name) => match view.topic(name) {
            Some(topic) => topic_answer(topic, request.topic_operations),
            None => {
                let code = refused.iter().find(|(refused, _)| refused == name).map(|(_, code)| *code);
                let code = code.unwrap_or_else(|| match check_topic_name(name) {
                    Ok(()) => ErrorCode::UnknownTopicOrPartition,
                    Err(_) => ErrorCode::InvalidTopicException,
                });
                unknown(Some(name.as_str()), Uuid::ZERO, code)
            }
        },
        Asked::Id(id) => match view.topic_by_id(*id) {
            Some(topic) => topic_answer(topic, request.topic_operations),
            None => unknown(None, *id, ErrorCode::UnknownTopicId),
        },
    }
}

fn operations(are_asked: bool) -> i32 {
    if are_asked { TOPIC_OPERATIONS } else { NO_AUTHORIZED_OPERATIONS }
}

fn topic_answer<'v>(topic: &'v Topic, are_asked: bool) -> MetadataResponseTopic<'v> {
    let partitions = topic
        .partitions
        .iter()
        .enumerate()
        .map(|(index, partition)| MetadataResponsePartition {
            error_code: ErrorCode::None,
            partition_index: PartitionIndex(i32::try_from(index).expect("partitions are counted in an i32")),
            leader_id: partition.leader,
            leader_epoch: partition.leader_epoch,
            replica_nodes: Array::from(&partition.replicas),
            isr_nodes: Array::from(&partition.isr),
            offline_replicas: Array::empty(),
        })
        .collect::<Vec<_>>();
    MetadataResponseTopic {
        error_code: ErrorCode::None,
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: is_internal_topic(&topic.name),
        partitions: partitions.into(),
        topic_authorized_operations: operations(are_asked),
    }
}

fn brokers(view: &View) -> Array<'_, MetadataResponseBroker<'_>> {
    let broker = &view.broker;
    Array::from(vec![MetadataResponseBroker {
        node_id: BrokerId(broker.id.0),
        host: &broker.host,
        port: i32::from(broker.port),
        rack: None,
    }])
}
