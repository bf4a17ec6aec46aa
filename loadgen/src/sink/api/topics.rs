//! CreateTopics and DeleteTopics. Settings are taken and have no meaning: nothing outlives the sink.

use std::rc::Rc;

use base::{PartitionIndex, Uuid};
use net::Started;
use wire::ErrorCode;
use wire::messages::create_topics::{CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse};
use wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::super::broker::{BROKER, Broker};
use super::super::request::{Refusal, Request};
use super::super::store::TopicKey;

/// The first version that names topics by id as well.
const TOPIC_ID_VERSION: i16 = 6;

/// Creates what can be created, or only checks it.
pub fn create(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: CreateTopicsRequest<'_> = request.decode()?;
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let created = partition_count(&topic, broker.default_partitions).and_then(|partitions| {
            let mut store = broker.store.borrow_mut();
            if asked.validate_only {
                store.check_new(topic.name, partitions).map(|()| (Uuid::ZERO, partitions))
            } else {
                store.create(topic.name, broker.new_uuid(), partitions).map(|created| (created.id, partitions))
            }
        });
        topics.push(match created {
            Ok((topic_id, partitions)) => CreatableTopicResult {
                name: topic.name,
                topic_id,
                num_partitions: i32::try_from(partitions).expect("there is a bound below that"),
                replication_factor: 1,
                ..Default::default()
            },
            Err(code) => CreatableTopicResult {
                name: topic.name,
                error_code: code,
                error_message: Some(code.message()),
                ..Default::default()
            },
        });
    }
    request.asker.answer(&CreateTopicsResponse { topics: topics.into(), ..Default::default() }).map(Started::Done)
}

/// How many partitions a topic is to have; there is one broker for their replicas.
fn partition_count(topic: &CreatableTopic<'_>, default: usize) -> Result<usize, ErrorCode> {
    if topic.assignments.is_empty() {
        if !matches!(topic.replication_factor, -1 | 1) {
            return Err(ErrorCode::InvalidReplicationFactor);
        }
        return match topic.num_partitions {
            -1 => Ok(default),
            count => usize::try_from(count).map_err(|_| ErrorCode::InvalidPartitions),
        };
    }
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err(ErrorCode::InvalidRequest);
    }
    let mut indexes = Vec::with_capacity(topic.assignments.len());
    for assignment in &topic.assignments {
        if !assignment.broker_ids.iter().eq([BROKER]) {
            return Err(ErrorCode::InvalidReplicaAssignment);
        }
        indexes.push(assignment.partition_index);
    }
    indexes.sort_unstable();
    let is_whole = indexes.iter().copied().eq((0..).take(indexes.len()).map(PartitionIndex));
    if is_whole { Ok(indexes.len()) } else { Err(ErrorCode::InvalidReplicaAssignment) }
}

/// Deletes topics, by name or by id.
pub fn delete(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: DeleteTopicsRequest<'_> = request.decode()?;
    let named: Vec<DeleteTopicState<'_>> = if request.asker.version < TOPIC_ID_VERSION {
        asked.topic_names.iter().map(|name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO }).collect()
    } else {
        asked.topics.to_vec()
    };
    let mut store = broker.store.borrow_mut();
    let deleted: Vec<_> = named
        .iter()
        .map(|topic| match topic.name {
            Some(_) if !topic.topic_id.is_zero() => Err(ErrorCode::InvalidRequest),
            Some(name) => store.delete(&TopicKey::Name(name.into())),
            None => store.delete(&TopicKey::Id(topic.topic_id)),
        })
        .collect();
    let responses = named.iter().zip(&deleted).map(|(topic, deleted)| match deleted {
        Ok((name, id)) => DeletableTopicResult { name: Some(name), topic_id: *id, ..Default::default() },
        Err(code) => DeletableTopicResult {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code: *code,
            error_message: Some(code.message()),
        },
    });
    let response = DeleteTopicsResponse { responses: responses.collect(), ..Default::default() };
    request.asker.answer(&response).map(Started::Done)
}
