//! ConsumerGroupHeartbeat: a member of a group whose coordinator assigns the partitions says how it is, and is told what it may read (KIP-848).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{PartitionIndex, Uuid};
use net::Reply;
use storage::LogId;
use wire::ErrorCode;
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::context::{Context, Refusal};
use crate::coordinator::consumer::{ConsumerHeartbeat, HeartbeatTold, Rejection};
use crate::coordinator::message::{GroupAnswer, GroupRequest};
use crate::router;

/// The first version whose members choose their ids themselves (KIP-1082).
const MEMBER_ID_VERSION: i16 = 1;

/// Takes the heartbeat to the coordinator of the group.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let beat = beat(&context)?;
    match &ask(&context, beat).await {
        Ok(told) => context.answer(&response(told)),
        Err(Rejection { error, reason }) => context.answer(&ConsumerGroupHeartbeatResponse {
            throttle_time_ms: 0,
            error_code: *error,
            error_message: Some(reason.as_str()).filter(|reason| !reason.is_empty()),
            member_id: None,
            member_epoch: 0,
            heartbeat_interval_ms: 0,
            assignment: None,
        }),
    }
}

async fn ask(context: &Context, beat: ConsumerHeartbeat) -> Result<HeartbeatTold, Rejection> {
    beat.check()?;
    match router::ask_group(&context.node, GroupRequest::ConsumerHeartbeat(beat)).await {
        GroupAnswer::ConsumerHeartbeat(told) => told,
        GroupAnswer::Unavailable(error) => Err(Rejection { error, reason: String::new() }),
        other => unreachable!("ConsumerHeartbeat is answered by ConsumerHeartbeat, not {other:?}"),
    }
}

fn beat(context: &Context) -> Result<ConsumerHeartbeat, Refusal> {
    let request: ConsumerGroupHeartbeatRequest<'_> = context.decode()?;
    let owned = |topics: &wire::Array<'_, TopicPartitions<'_>>| {
        let of_topic = |topic: TopicPartitions<'_>| {
            let id = |partition| LogId { topic_id: topic.topic_id, partition };
            topic.partitions.iter().map(id).collect::<Vec<_>>()
        };
        topics.iter().flat_map(of_topic).collect()
    };
    Ok(ConsumerHeartbeat {
        group: request.group_id.to_owned(),
        member_id: request.member_id.to_owned(),
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(str::to_owned),
        rack_id: request.rack_id.map(str::to_owned),
        client_id: context.client_id().to_owned(),
        client_host: context.client_host(),
        rebalance_timeout_ms: (request.rebalance_timeout_ms != -1).then_some(request.rebalance_timeout_ms),
        topics: request.subscribed_topic_names.as_ref().map(|names| names.iter().map(str::to_owned).collect()),
        regex: request.subscribed_topic_regex.map(str::to_owned),
        assignor: request.server_assignor.map(str::to_owned),
        owned: request.topic_partitions.as_ref().map(owned),
        chooses_member_id: context.version >= MEMBER_ID_VERSION,
    })
}

fn response(told: &HeartbeatTold) -> ConsumerGroupHeartbeatResponse<'_> {
    let assignment = told.assignment.as_ref().map(|partitions| {
        let mut topics: BTreeMap<Uuid, Vec<PartitionIndex>> = BTreeMap::new();
        for id in partitions {
            topics.entry(id.topic_id).or_default().push(id.partition);
        }
        let topic = |(topic_id, partitions): (Uuid, Vec<PartitionIndex>)| TopicPartitions {
            topic_id,
            partitions: partitions.into(),
        };
        Assignment { topic_partitions: topics.into_iter().map(topic).collect() }
    });
    ConsumerGroupHeartbeatResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        error_message: None,
        member_id: Some(&told.member_id),
        member_epoch: told.member_epoch,
        heartbeat_interval_ms: told.heartbeat_interval_ms,
        assignment,
    }
}
