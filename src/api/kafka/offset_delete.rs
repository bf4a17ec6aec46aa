//! OffsetDelete: forgets offsets of topics that a group does not read (KIP-496).

use std::rc::Rc;

use net::Reply;
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use super::planned;
use crate::coordinator::message::{GroupAnswer, GroupRequest, TopicPartition};
use crate::router;

/// Answers every partition, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (group, partitions, known) = plan(&context)?;
    let (error_code, deleted) =
        match router::ask_group(&context.node, GroupRequest::DeleteOffsets { group, partitions }).await {
            GroupAnswer::OffsetsDeleted(error, outcomes) => (error, outcomes),
            GroupAnswer::Unavailable(error) => (error, Vec::new()),
            other => unreachable!("DeleteOffsets is answered by OffsetsDeleted, not {other:?}"),
        };
    if error_code != ErrorCode::None {
        return context.answer(&OffsetDeleteResponse { error_code, throttle_time_ms: 0, topics: Array::empty() });
    }
    let mut outcomes = planned::outcomes(known, deleted);
    let request: OffsetDeleteRequest<'_> = context.decode()?;
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| OffsetDeleteResponseTopic {
            name: topic.name,
            partitions: (&topic.partitions)
                .into_iter()
                .zip(outcomes.by_ref())
                .map(|(partition, error_code)| OffsetDeleteResponsePartition {
                    partition_index: partition.partition_index,
                    error_code,
                })
                .collect(),
        })
        .collect();
    context.answer(&OffsetDeleteResponse { error_code, throttle_time_ms: 0, topics })
}

/// The group, what to ask of its coordinator, and for every partition an answer where there is nothing to ask.
#[expect(clippy::type_complexity, reason = "named in the line above")]
fn plan(context: &Context) -> Result<(String, Vec<TopicPartition>, Vec<Option<ErrorCode>>), Refusal> {
    let request: OffsetDeleteRequest<'_> = context.decode()?;
    let view = context.node.view();
    let (mut partitions, mut outcomes) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let found = view.topic(topic.name);
        for partition in &topic.partitions {
            if found.is_some_and(|found| found.has(partition.partition_index)) {
                partitions.push(TopicPartition { topic: topic.name.to_owned(), partition: partition.partition_index });
                outcomes.push(None);
            } else {
                outcomes.push(Some(ErrorCode::UnknownTopicOrPartition));
            }
        }
    }
    Ok((request.group_id.to_owned(), partitions, outcomes))
}
