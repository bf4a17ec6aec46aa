//! CreatePartitions (KIP-195).

use std::rc::Rc;

use net::Reply;
use replication::metadata::PartitionsSpec;
use wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::context::{Context, Refusal};
use super::unique::Named;
use crate::cluster::{AdminError, AdminReply, AdminRequest, submit};

/// Asks the controller; answers once every shard knows the new partitions.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (topics, validate_only) = {
        let request: CreatePartitionsRequest<'_> = context.decode()?;
        (request.topics.iter().map(|topic| spec(&topic)).collect::<Vec<_>>(), request.validate_only)
    };
    let named = Named::new(topics.iter().map(|topic| topic.topic.as_str()));
    let asked = topics.iter().filter(|topic| named.is_unique(&topic.topic)).cloned().collect();
    let done = match submit(&context.node, AdminRequest::CreatePartitions { topics: asked, validate_only }).await {
        AdminReply::CreatePartitions(done) => done,
        other => unreachable!("CreatePartitions is answered by CreatePartitions, not {other:?}"),
    };
    let results = named.outcomes(done);
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
