//! CreatePartitions (KIP-195).

use std::collections::HashMap;
use std::rc::Rc;

use net::Reply;
use replication::metadata::PartitionsSpec;
use wire::ErrorCode;
use wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::context::{Context, Refusal};
use crate::cluster::{AdminError, AdminReply, AdminRequest, submit};

/// Asks the controller; answers once every shard knows the new partitions.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (topics, validate_only) = {
        let request: CreatePartitionsRequest<'_> = context.decode()?;
        (request.topics.iter().map(|topic| spec(&topic)).collect::<Vec<_>>(), request.validate_only)
    };
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for topic in &topics {
        *counts.entry(&topic.topic).or_default() += 1;
    }
    let asked = topics.iter().filter(|topic| counts[topic.topic.as_str()] == 1).cloned().collect();
    let done = match submit(&context.node, AdminRequest::CreatePartitions { topics: asked, validate_only }).await {
        AdminReply::CreatePartitions(done) => done,
        other => unreachable!("CreatePartitions is answered by CreatePartitions, not {other:?}"),
    };
    let mut done = done.into_iter();
    let mut results: Vec<(&str, Result<(), AdminError>)> = Vec::new();
    for topic in &topics {
        let name = topic.topic.as_str();
        if counts[name] == 1 {
            results.extend(done.next().map(|done| (name, done)));
        } else if !results.iter().any(|(known, _)| *known == name) {
            results.push((name, Err(AdminError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))));
        }
    }
    let results = results.iter().map(|(name, result)| topic_result(name, result)).collect();
    context.answer(&CreatePartitionsResponse { throttle_time_ms: 0, results })
}

fn spec(topic: &CreatePartitionsTopic<'_>) -> PartitionsSpec {
    let replicas = |assignments: &wire::Array<'_, _>| {
        let broker_ids = |assignment: wire::messages::create_partitions::CreatePartitionsAssignment<'_>| {
            assignment.broker_ids.to_vec()
        };
        assignments.iter().map(broker_ids).collect()
    };
    PartitionsSpec {
        topic: topic.name.to_owned(),
        partition_count: topic.count,
        assignments: topic.assignments.as_ref().map(replicas),
    }
}

fn topic_result<'r>(name: &'r str, result: &'r Result<(), AdminError>) -> CreatePartitionsTopicResult<'r> {
    let (error_code, error_message) = AdminError::parts(result);
    CreatePartitionsTopicResult { name, error_code, error_message }
}
