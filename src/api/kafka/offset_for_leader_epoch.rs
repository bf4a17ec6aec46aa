//! OffsetForLeaderEpoch: where an epoch ended, so that a reader finds out whether its log diverged (KIP-101, KIP-320).

use std::rc::Rc;

use net::Reply;
use storage::LogId;
use wire::ErrorCode;
use wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};

use super::context::{Context, Refusal};
use super::planned;
use crate::message::{EpochEndFound, EpochEndQuery};
use crate::router;

/// Answers every partition of the request, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (queries, known) = plan(&context)?;
    let mut found = planned::outcomes(known, router::epoch_ends(&context.node, queries).await);
    let request: OffsetForLeaderEpochRequest<'_> = context.decode()?;
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: (&topic.partitions)
                .into_iter()
                .zip(found.by_ref())
                .map(|(partition, found)| EpochEndOffset {
                    error_code: found.error,
                    partition: partition.partition,
                    leader_epoch: found.epoch,
                    end_offset: found.end,
                })
                .collect(),
        })
        .collect();
    context.answer(&OffsetForLeaderEpochResponse { throttle_time_ms: 0, topics })
}

fn plan(context: &Context) -> Result<(Vec<EpochEndQuery>, Vec<Option<EpochEndFound>>), Refusal> {
    let request: OffsetForLeaderEpochRequest<'_> = context.decode()?;
    let view = context.node.view();
    let mut queries = Vec::new();
    let mut found = Vec::new();
    for topic in &request.topics {
        let known = view.topic(topic.topic);
        for partition in &topic.partitions {
            match known.filter(|known| known.has(partition.partition)) {
                Some(known) => {
                    queries.push(EpochEndQuery {
                        log: LogId { topic_id: known.id, partition: partition.partition },
                        epoch: partition.leader_epoch,
                        current_epoch: partition.current_leader_epoch,
                    });
                    found.push(None);
                }
                None => found.push(Some(EpochEndFound::failed(ErrorCode::UnknownTopicOrPartition))),
            }
        }
    }
    Ok((queries, found))
}
