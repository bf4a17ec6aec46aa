//! DeleteRecords: moves the starts of logs up (KIP-107).

use std::rc::Rc;

use base::Offset;
use net::Reply;
use storage::LogId;
use wire::ErrorCode;
use wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};

use super::context::{Context, Refusal};
use super::planned;
use crate::message::RecordsDeletion;
use crate::router;

/// "Up to the high watermark" in a request.
const HIGH_WATERMARK: Offset = Offset(-1);

/// Answers every partition of the request, in order, once its records are gone durably.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (deletions, known) = plan(&context)?;
    let mut outcomes = planned::outcomes(known, router::delete_records(&context.node, deletions).await);
    let request: DeleteRecordsRequest<'_> = context.decode()?;
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| DeleteRecordsTopicResult {
            name: topic.name,
            partitions: (&topic.partitions)
                .into_iter()
                .zip(outcomes.by_ref())
                .map(|(partition, outcome)| DeleteRecordsPartitionResult {
                    partition_index: partition.partition_index,
                    low_watermark: outcome.unwrap_or(Offset(-1)),
                    error_code: outcome.err().unwrap_or(ErrorCode::None),
                })
                .collect(),
        })
        .collect();
    context.answer(&DeleteRecordsResponse { throttle_time_ms: 0, topics })
}

/// The log's start after the deletion.
type Outcome = Result<Offset, ErrorCode>;

/// What to ask of the owners, and for every partition an answer where there is none to ask.
fn plan(context: &Context) -> Result<(Vec<RecordsDeletion>, Vec<Option<Outcome>>), Refusal> {
    let request: DeleteRecordsRequest<'_> = context.decode()?;
    let view = context.node.view();
    let (mut deletions, mut outcomes) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let found = view.topic(topic.name);
        for partition in &topic.partitions {
            let index = partition.partition_index;
            let Some(found) = found.filter(|found| found.has(index)) else {
                outcomes.push(Some(Err(ErrorCode::UnknownTopicOrPartition)));
                continue;
            };
            let before = Some(partition.offset).filter(|offset| *offset != HIGH_WATERMARK);
            deletions.push(RecordsDeletion { log: LogId { topic_id: found.id, partition: index }, before });
            outcomes.push(None);
        }
    }
    Ok((deletions, outcomes))
}
