//! CreateTopics.

use std::rc::Rc;

use net::Reply;
use wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use super::unique::Named;
use crate::cluster::{AdminError, AdminReply, AdminRequest, CreatedTopic, NewTopic, submit};
use crate::config::ConfigSource;

/// Asks the controller; answers once every shard knows the new topics.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (topics, validate_only) = {
        let request: CreateTopicsRequest<'_> = context.decode()?;
        (request.topics.iter().map(|topic| new_topic(&topic)).collect::<Vec<_>>(), request.validate_only)
    };
    let named = Named::new(topics.iter().map(|topic| topic.name.as_str()));
    let asked = topics.iter().filter(|topic| named.is_unique(&topic.name)).cloned().collect();
    let created = match submit(&context.node, AdminRequest::CreateTopics { topics: asked, validate_only }).await {
        AdminReply::CreateTopics(created) => created,
        other => unreachable!("CreateTopics is answered by CreateTopics, not {other:?}"),
    };
    let results = named.outcomes(created);
    let topics = results.iter().map(|(name, result)| topic_result(name, result)).collect();
    context.answer(&CreateTopicsResponse { throttle_time_ms: 0, topics })
}

fn new_topic(topic: &CreatableTopic<'_>) -> NewTopic {
    NewTopic {
        name: topic.name.to_owned(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|assignment| (assignment.partition_index, assignment.broker_ids.to_vec()))
            .collect(),
        settings: topic
            .configs
            .iter()
            .map(|config| (config.name.to_owned(), config.value.map(str::to_owned)))
            .collect(),
    }
}

fn topic_result<'r>(name: &'r str, result: &'r Result<CreatedTopic, AdminError>) -> CreatableTopicResult<'r> {
    match result {
        Ok(created) => CreatableTopicResult {
            name,
            topic_id: created.id,
            error_code: ErrorCode::None,
            error_message: None,
            topic_config_error_code: ErrorCode::None,
            num_partitions: created.partitions,
            replication_factor: created.replication_factor,
            configs: Some(created.settings.iter().map(|(name, value, own)| setting(name, value, *own)).collect()),
        },
        Err(error) => CreatableTopicResult {
            name,
            error_code: error.code,
            error_message: Some(&error.reason),
            configs: Some(Array::empty()),
            ..Default::default()
        },
    }
}

fn setting<'r>(name: &'static str, value: &'r str, own: bool) -> CreatableTopicConfigs<'r> {
    CreatableTopicConfigs {
        name,
        value: Some(value),
        read_only: false,
        config_source: if own { ConfigSource::Topic } else { ConfigSource::Default } as i8,
        is_sensitive: false,
    }
}
