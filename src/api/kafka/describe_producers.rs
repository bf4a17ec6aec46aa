//! DescribeProducers: who has written to a partition (KIP-664).

use std::collections::HashSet;
use std::rc::Rc;

use base::Offset;
use net::Reply;
use replication::metadata::check_topic_name;
use storage::{ActiveProducer, LogId};
use wire::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::router;

/// Answers every partition of the request, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (logs, known) = {
        let request: DescribeProducersRequest<'_> = context.decode()?;
        let view = context.node.view();
        let (mut logs, mut known) = (Vec::new(), Vec::new());
        // An answer is far longer than its question: a partition that is named again is not told again.
        let mut seen = HashSet::new();
        for topic in &request.topics {
            for partition in &topic.partition_indexes {
                let found = view.topic(topic.name).filter(|found| found.has(partition));
                let log = found.map(|found| LogId { topic_id: found.id, partition });
                known.push(match log {
                    None => Err(unknown(topic.name)),
                    Some(log) if seen.insert(log) => {
                        logs.push(log);
                        Ok(())
                    }
                    Some(_) => Err(ErrorCode::InvalidRequest),
                });
            }
        }
        (logs, known)
    };
    let mut described = router::producers(&context.node, logs).await.into_iter();
    let missing = || Err(ErrorCode::UnknownTopicOrPartition);
    let outcomes: Vec<Result<Vec<ActiveProducer>, ErrorCode>> =
        known.into_iter().map(|known| known.and_then(|()| described.next().unwrap_or_else(missing))).collect();
    let request: DescribeProducersRequest<'_> = context.decode()?;
    let mut outcomes = outcomes.iter();
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| TopicResponse {
            name: topic.name,
            partitions: (&topic.partition_indexes)
                .into_iter()
                .zip(outcomes.by_ref())
                .map(|(partition_index, outcome)| match outcome {
                    Ok(producers) => PartitionResponse {
                        partition_index,
                        error_code: ErrorCode::None,
                        error_message: None,
                        active_producers: producers.iter().map(state).collect(),
                    },
                    Err(error_code) => PartitionResponse {
                        partition_index,
                        error_code: *error_code,
                        error_message: Some(error_code.message()),
                        active_producers: Array::empty(),
                    },
                })
                .collect(),
        })
        .collect();
    context.answer(&DescribeProducersResponse { throttle_time_ms: 0, topics })
}

fn unknown(topic: &str) -> ErrorCode {
    match check_topic_name(topic) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    }
}

fn state(producer: &ActiveProducer) -> ProducerState {
    ProducerState {
        producer_id: producer.id,
        producer_epoch: i32::from(producer.epoch.0),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp.0,
        // No transaction has ended here, or is open.
        coordinator_epoch: -1,
        current_txn_start_offset: Offset(-1),
    }
}
