//! Metadata: brokers, topics and leaders; creates topics that are asked for, where both sides allow it.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{BrokerId, PartitionIndex, Uuid};
use net::Reply;
use replication::metadata::{CLUSTER_METADATA_TOPIC, check_topic_name, is_internal_topic};
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic, NO_AUTHORIZED_OPERATIONS,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::cluster::{AdminReply, AdminRequest, NewTopic, Topic, View, submit};
use crate::coordinator::OFFSETS_TOPIC;
use crate::router;

/// The first version in which a topic may be looked up by its id.
const TOPIC_ID_VERSION: i16 = 12;

/// Every operation on a topic (read, write, create, delete, alter, describe, describe and alter configs), as bits of
/// `AclOperation` codes: without an authorizer, as here, all are allowed.
pub const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Every operation on the cluster (create, alter, describe, cluster action, configs, idempotent write), likewise.
pub const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// How the client named a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked<'a> {
    Name(&'a str),
    Id([u8; 16]),
}

/// The most topics that one request creates. Who asks for more is told, as always of a topic that is being made, to ask again.
const CREATED_MAX: usize = 100;

/// Topics that could not be created, with the reason's code.
type Refused<'a> = BTreeMap<&'a str, ErrorCode>;

/// Answers from this shard's view, after creating what may be created.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let request: MetadataRequest<'_> = context.decode()?;
    let Ok(asked) = asked(&request, context.version) else { return refused_whole(&context, &request) };
    let create = request.allow_auto_topic_creation && context.node.config.auto_create_topics;
    let refused = match &asked {
        Some(asked) if create => create_missing(&context, asked).await,
        _ => Refused::new(),
    };
    let view = context.node.view();
    let operations = request.include_topic_authorized_operations;
    let topics: Vec<MetadataResponseTopic<'_>> = match &asked {
        None => view.topics().map(|topic| topic_answer(topic, operations)).collect(),
        Some(asked) => asked.iter().map(|asked| asked_answer(&view, *asked, operations, &refused)).collect(),
    };
    context.answer(&MetadataResponse {
        throttle_time_ms: 0,
        brokers: brokers(&view),
        cluster_id: Some(&view.cluster_id),
        controller_id: view.controller,
        topics: topics.into(),
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            CLUSTER_OPERATIONS
        } else {
            NO_AUTHORIZED_OPERATIONS
        },
        error_code: ErrorCode::None,
    })
}

/// To a request that names topics as its version must not: no cluster, and an error for each of the topics, once.
fn refused_whole(context: &Context, request: &MetadataRequest<'_>) -> Result<Reply, Refusal> {
    let error_code = ErrorCode::InvalidRequest;
    let named = request.topics.iter().flatten();
    let mut named: Vec<_> = named.map(|topic| (topic.name.unwrap_or_default(), topic.topic_id.0)).collect();
    named.sort_unstable();
    named.dedup();
    let topics = named.into_iter().map(|(name, id)| MetadataResponseTopic {
        error_code,
        name: Some(name),
        topic_id: Uuid(id),
        ..Default::default()
    });
    context.answer(&MetadataResponse {
        topics: topics.collect(),
        // Only version 13 has a place for an error of the whole request.
        error_code: if context.version >= 13 { error_code } else { ErrorCode::None },
        ..Default::default()
    })
}

/// A request that names topics as its version must not.
struct Misnamed;

/// The topics asked for, each once, in order; `None` for all. A topic is told once however often it is named: its answer is far longer than
/// its name.
fn asked<'a>(request: &MetadataRequest<'a>, version: i16) -> Result<Option<Vec<Asked<'a>>>, Misnamed> {
    let Some(topics) = request.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty()) else {
        return Ok(None);
    };
    // One id makes it a request by ids, in which names are not looked at.
    let by_ids = topics.iter().any(|topic| !topic.topic_id.is_zero());
    if by_ids && version < TOPIC_ID_VERSION {
        return Err(Misnamed);
    }
    let one = |topic: MetadataRequestTopic<'a>| match topic.name {
        _ if by_ids && topic.topic_id.is_zero() => None,
        _ if by_ids => Some(Ok(Asked::Id(topic.topic_id.0))),
        Some(name) => Some(Ok(Asked::Name(name))),
        None => Some(Err(Misnamed)),
    };
    let mut asked = topics.iter().filter_map(one).collect::<Result<Vec<_>, _>>()?;
    asked.sort_unstable();
    asked.dedup();
    Ok(Some(asked))
}

/// Creates the topics that are not there, if their names allow it; gives back those that could not be.
async fn create_missing<'a>(context: &Context, asked: &[Asked<'a>]) -> Refused<'a> {
    let missing: Vec<&'a str> = {
        let view = context.node.view();
        // The metadata log is there, if not for clients, and nothing to make.
        let is_missing = |name: &&str| {
            view.topic(name).is_none() && check_topic_name(name).is_ok() && *name != CLUSTER_METADATA_TOPIC
        };
        let named = asked.iter().filter_map(|asked| match asked {
            Asked::Name(name) => Some(*name),
            Asked::Id(_) => None,
        });
        named.filter(is_missing).collect()
    };
    if missing.is_empty() {
        return Refused::new();
    }
    let (now, later) = missing.split_at(missing.len().min(CREATED_MAX));
    let topics = now
        .iter()
        .map(|name| match *name {
            OFFSETS_TOPIC => router::offsets_topic(&context.node.config),
            name => NewTopic { name: name.to_owned(), partitions: -1, replication_factor: -1, ..Default::default() },
        })
        .collect();
    let request = AdminRequest::CreateTopics { topics, validate_only: false };
    let created = match submit(&context.node, request).await {
        AdminReply::CreateTopics(created) => created,
        other => unreachable!("CreateTopics is answered by CreateTopics, not {other:?}"),
    };
    let codes = created.into_iter().map(|created| created.err().map(|error| error.code));
    now.iter()
        .zip(codes)
        .filter_map(|(name, code)| Some((*name, code?)))
        // Somebody else was quicker: it is there now.
        .filter(|(_, code)| *code != ErrorCode::TopicAlreadyExists)
        .chain(later.iter().map(|name| (*name, ErrorCode::LeaderNotAvailable)))
        .collect()
}

fn asked_answer<'v>(
    view: &'v View,
    asked: Asked<'v>,
    are_operations_asked: bool,
    refused: &Refused<'_>,
) -> MetadataResponseTopic<'v> {
    let unknown = |name: Option<&'v str>, topic_id, error_code| MetadataResponseTopic {
        error_code,
        name,
        topic_id,
        is_internal: name.is_some_and(is_internal_topic),
        // Who may do all to every topic may do so to one that is not there.
        topic_authorized_operations: match error_code {
            ErrorCode::UnknownTopicOrPartition => operations(are_operations_asked),
            _ => NO_AUTHORIZED_OPERATIONS,
        },
        ..Default::default()
    };
    match asked {
        Asked::Name(name) => match view.topic(name) {
            Some(topic) => topic_answer(topic, are_operations_asked),
            None => {
                let code = refused.get(name).copied().unwrap_or_else(|| match check_topic_name(name) {
                    Ok(()) => ErrorCode::UnknownTopicOrPartition,
                    Err(_) => ErrorCode::InvalidTopicException,
                });
                unknown(Some(name), Uuid::ZERO, code)
            }
        },
        Asked::Id(id) => match view.topic_by_id(Uuid(id)) {
            Some(topic) => topic_answer(topic, are_operations_asked),
            None => unknown(None, Uuid(id), ErrorCode::UnknownTopicId),
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
