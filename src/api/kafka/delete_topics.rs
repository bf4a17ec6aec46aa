//! DeleteTopics, by name or by id (KIP-516).

use std::collections::HashMap;
use std::rc::Rc;

use base::Uuid;
use net::Reply;
use wire::ErrorCode;
use wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};

use super::context::{Context, Refusal};
use crate::cluster::{AdminError, AdminReply, AdminRequest, DeletedTopic, TopicName, submit};

/// The first version that names topics by id as well.
const TOPIC_ID_VERSION: i16 = 6;

/// Asks the controller; answers once no shard serves the topics any more.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = read(&context)?;
    let mut counts: HashMap<&TopicName, usize> = HashMap::new();
    for topic in asked.iter().filter_map(|topic| topic.as_ref().ok()) {
        *counts.entry(topic).or_default() += 1;
    }
    let unique: Vec<TopicName> =
        asked.iter().filter_map(|topic| topic.as_ref().ok()).filter(|topic| counts[topic] == 1).cloned().collect();
    let mut deleted = match submit(&context.node, AdminRequest::DeleteTopics(unique)).await {
        AdminReply::DeleteTopics(deleted) => deleted.into_iter(),
        other => unreachable!("DeleteTopics is answered by DeleteTopics, not {other:?}"),
    };
    let results: Vec<(&TopicName, Result<DeletedTopic, AdminError>)> = asked
        .iter()
        .map(|topic| match topic {
            Ok(topic) if counts[topic] == 1 => (topic, deleted.next().unwrap_or_else(|| Err(lost()))),
            Ok(topic) => (topic, Err(AdminError::new(ErrorCode::InvalidRequest, "Duplicate topic name or topic id"))),
            Err(both) => (
                both,
                Err(AdminError::new(ErrorCode::InvalidRequest, "You may not specify both topic name and topic id.")),
            ),
        })
        .collect();
    let responses = results.iter().map(|(topic, result)| topic_result(topic, result)).collect();
    context.answer(&DeleteTopicsResponse { throttle_time_ms: 0, responses })
}

fn lost() -> AdminError {
    AdminError::new(ErrorCode::UnknownServerError, "the controller gave no answer for this topic")
}

/// The topics in order; `Err` where one is named twice over, by name and by id.
fn read(context: &Context) -> Result<Vec<Result<TopicName, TopicName>>, Refusal> {
    let request: DeleteTopicsRequest<'_> = context.decode()?;
    if context.version < TOPIC_ID_VERSION {
        return Ok(request.topic_names.iter().map(|name| Ok(TopicName::Name(name.to_owned()))).collect());
    }
    Ok(request
        .topics
        .iter()
        .map(|topic| match topic.name {
            Some(name) if topic.topic_id.is_zero() => Ok(TopicName::Name(name.to_owned())),
            Some(name) => Err(TopicName::Name(name.to_owned())),
            None => Ok(TopicName::Id(topic.topic_id)),
        })
        .collect())
}

fn topic_result<'r>(asked: &'r TopicName, result: &'r Result<DeletedTopic, AdminError>) -> DeletableTopicResult<'r> {
    let (asked_name, asked_id) = match asked {
        TopicName::Name(name) => (Some(name.as_str()), Uuid::ZERO),
        TopicName::Id(id) => (None, *id),
    };
    match result {
        Ok(deleted) => DeletableTopicResult {
            name: Some(&deleted.name),
            topic_id: deleted.id,
            error_code: ErrorCode::None,
            error_message: None,
        },
        Err(error) => DeletableTopicResult {
            name: asked_name,
            topic_id: asked_id,
            error_code: error.code,
            error_message: Some(&error.reason),
        },
    }
}
