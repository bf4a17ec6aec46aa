//! DeleteTopics, by name or by id (KIP-516).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use base::Uuid;
use net::Reply;
use wire::ErrorCode;
use wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::context::{Context, Refusal};
use crate::cluster::{AdminError, AdminReply, AdminRequest, DeletedTopic, TopicName, submit};

/// The first version that names topics by id as well.
const TOPIC_ID_VERSION: i16 = 6;

/// A topic as a request names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Asked {
    name: Option<String>,
    id: Uuid,
}

/// Asks the controller; answers once no shard serves the topics any more.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = read(&context)?;
    let view = context.node.view();
    let planned = plan(asked, |id| view.topic_by_id(id).map(|topic| topic.name.clone()));
    let unique = planned.iter().filter_map(|(_, topic)| topic.as_ref().ok().cloned()).collect();
    let mut deleted = match submit(&context.node, AdminRequest::DeleteTopics(unique)).await {
        AdminReply::DeleteTopics(deleted) => deleted.into_iter(),
        other => unreachable!("DeleteTopics is answered by DeleteTopics, not {other:?}"),
    };
    let results: Vec<(Asked, Result<DeletedTopic, AdminError>)> = planned
        .into_iter()
        .map(|(asked, topic)| {
            let result = topic.and_then(|_| deleted.next().unwrap_or_else(|| Err(lost())));
            (asked, result)
        })
        .collect();
    let responses = results.iter().map(|(asked, result)| topic_result(asked, result)).collect();
    context.answer(&DeleteTopicsResponse { throttle_time_ms: 0, responses })
}

fn lost() -> AdminError {
    AdminError::new(ErrorCode::UnknownServerError, "the controller gave no answer for this topic")
}

fn read(context: &Context) -> Result<Vec<Asked>, Refusal> {
    let request: DeleteTopicsRequest<'_> = context.decode()?;
    if context.version < TOPIC_ID_VERSION {
        let named = |name: &str| Asked { name: Some(name.to_owned()), id: Uuid::ZERO };
        return Ok(request.topic_names.iter().map(named).collect());
    }
    let asked = |topic: DeleteTopicState<'_>| Asked { name: topic.name.map(str::to_owned), id: topic.topic_id };
    Ok(request.topics.iter().map(asked).collect())
}

/// What to delete, and what is refused: a topic that a request names again is not deleted, and answered once.
fn plan(asked: Vec<Asked>, name_of: impl Fn(Uuid) -> Option<String>) -> Vec<(Asked, Result<TopicName, AdminError>)> {
    let invalid = |reason| Err(AdminError::new(ErrorCode::InvalidRequest, reason));
    let mut counts: HashMap<Asked, usize> = HashMap::new();
    for topic in &asked {
        *counts.entry(topic.clone()).or_default() += 1;
    }
    let by_id = asked.iter().filter(|topic| topic.name.is_none());
    let named_by_id: HashMap<String, Uuid> =
        by_id.filter_map(|topic| name_of(topic.id).map(|name| (name, topic.id))).collect();
    let names: HashSet<String> = asked.iter().filter_map(|topic| topic.name.clone()).collect();
    let mut planned = Vec::with_capacity(counts.len());
    for mut topic in asked {
        // Gone from the counts: answered already.
        let Some(count) = counts.remove(&topic) else { continue };
        let outcome = match (&topic.name, topic.id) {
            (Some(_), id) if !id.is_zero() => invalid("You may not specify both topic name and topic id."),
            (None, Uuid::ZERO) => invalid("Neither topic name nor id were specified."),
            _ if count > 1 => invalid("Duplicate topic name or topic id."),
            (Some(name), _) => match named_by_id.get(name) {
                Some(id) => {
                    topic.id = *id;
                    invalid("The topic is named by its id as well.")
                }
                None => Ok(TopicName::Name(name.clone())),
            },
            // Answered where it is named.
            (None, id) if name_of(id).is_some_and(|name| names.contains(&name)) => continue,
            (None, id) => Ok(TopicName::Id(id)),
        };
        planned.push((topic, outcome));
    }
    planned
}

fn topic_result<'r>(asked: &'r Asked, result: &'r Result<DeletedTopic, AdminError>) -> DeletableTopicResult<'r> {
    match result {
        Ok(deleted) => DeletableTopicResult {
            name: Some(&deleted.name),
            topic_id: deleted.id,
            error_code: ErrorCode::None,
            error_message: None,
        },
        Err(error) => DeletableTopicResult {
            name: asked.name.as_deref(),
            topic_id: asked.id,
            error_code: error.code,
            error_message: Some(&error.reason),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, plan};
    use crate::cluster::TopicName;
    use base::Uuid;

    const ID: Uuid = Uuid([1; 16]);
    const OTHER: Uuid = Uuid([2; 16]);

    /// Topics are a name, an id, or both; `a` has the id `ID`.
    fn check(asked: &[(Option<&str>, Uuid)], expected: &[(Option<&str>, Uuid, bool)]) {
        let asked = asked.iter().map(|(name, id)| Asked { name: name.map(str::to_owned), id: *id }).collect();
        let planned = plan(asked, |id| (id == ID).then(|| "a".to_owned()));
        let found: Vec<_> =
            planned.iter().map(|(asked, outcome)| (asked.name.as_deref(), asked.id, outcome.is_ok())).collect();
        assert_eq!(found, expected);
        for (asked, outcome) in &planned {
            if let Ok(topic) = outcome {
                let named = asked.name.clone().map_or(TopicName::Id(asked.id), TopicName::Name);
                assert_eq!(*topic, named);
            }
        }
    }

    #[test]
    fn a_topic_is_deleted_only_if_it_is_named_once_and_in_one_way() {
        let zero = Uuid::ZERO;
        check(&[(Some("a"), zero), (Some("b"), zero)], &[(Some("a"), zero, true), (Some("b"), zero, true)]);
        check(
            &[(Some("a"), zero), (Some("b"), zero), (Some("a"), zero)],
            &[(Some("a"), zero, false), (Some("b"), zero, true)],
        );
        check(&[(None, OTHER), (None, OTHER)], &[(None, OTHER, false)]);
        check(&[(Some("b"), OTHER)], &[(Some("b"), OTHER, false)]);
        check(&[(None, zero), (None, zero)], &[(None, zero, false)]);
        check(&[(None, ID)], &[(None, ID, true)]);
        check(&[(Some("a"), zero), (None, ID)], &[(Some("a"), ID, false)]);
        check(&[(None, ID), (Some("a"), zero)], &[(Some("a"), ID, false)]);
    }
}
