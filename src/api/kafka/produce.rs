//! Produce: batches are checked here (header, CRC, limits), then go to the owners of their partitions.
//!
//! The first stage ends when every batch has its place in its partition's order, so that a connection's requests cannot overtake each other;
//! what is awaited after it is durability only.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use net::{OnClose, Reply, Started};
use record::{BatchView, ProduceLimits, RecordRules, Summary, TimestampBounds};
use shard::Slice;
use storage::LogId;
use wire::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use super::{errors, produce_legacy};
use crate::cluster::{Topic, View};
use crate::config::{TimestampType, TopicConfig};
use crate::message::{Acks, BatchTask, Produced};
use crate::router;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The first version that tells a producer where the leader is (KIP-951).
const LEADER_VERSION: i16 = 10;

/// Checks and appends; the reply follows when the batches are held.
pub fn start(context: Rc<Context>) -> Boxed<Result<Started, Refusal>> {
    Box::pin(async move {
        if context.version < 3 {
            return produce_legacy::unsupported(&context).map(Started::Done);
        }
        let (acks, deadline, tasks, plan) = {
            let request: ProduceRequest<'_> = context.decode()?;
            let acks = match request.acks {
                0 => Ok(Acks::None),
                1 => Ok(Acks::Leader),
                -1 => Ok(Acks::All),
                _ => Err(ErrorCode::InvalidRequiredAcks),
            };
            // Transactions are not served yet: refused, never appended outside one.
            let acks = if request.transactional_id.is_some() { Err(ErrorCode::InvalidRequest) } else { acks };
            let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
            let deadline = context.node.shard.now() + Duration::from_millis(timeout_ms);
            let (tasks, plan) = check(&context, &request, acks.err());
            (acks.unwrap_or(Acks::All), deadline, tasks, plan)
        };
        let produced = router::produce(&context.node, acks, deadline, tasks).await;
        let silent = acks == Acks::None;
        let reply: Boxed<Reply> = Box::pin(async move {
            let produced = merge(plan, produced.await);
            let reply = if silent { silently(&produced) } else { answer(&context, &produced) };
            reply.unwrap_or_else(|refusal| Reply::Close(refusal.to_string()))
        });
        Ok(Started::Later(reply, OnClose::Finish))
    })
}

/// For each partition of the request, in order: refused here, or the next of the tasks.
type Plan = Vec<Option<Produced>>;

fn check(context: &Context, request: &ProduceRequest<'_>, refuse: Option<ErrorCode>) -> (Vec<BatchTask<Slice>>, Plan) {
    let view = context.node.view();
    let mut tasks = Vec::new();
    let mut plan = Vec::new();
    for topic in &request.topic_data {
        let found = match refuse {
            Some(error) => Err(error),
            None => resolve(&view, &topic, context.version),
        };
        for partition in &topic.partition_data {
            let checked = found.map_err(|error| Produced::failed(error, None)).and_then(|found| {
                if !found.has(partition.index) {
                    return Err(Produced::failed(ErrorCode::UnknownTopicOrPartition, None));
                }
                check_batch(context, found, partition.records.bytes().unwrap_or_default())
            });
            match checked {
                Ok(batch) => {
                    let log = LogId { topic_id: topic_id(found), partition: partition.index };
                    tasks.push(BatchTask { log, batch });
                    plan.push(None);
                }
                Err(failed) => plan.push(Some(failed)),
            }
        }
    }
    (tasks, plan)
}

fn topic_id(found: Result<&Topic, ErrorCode>) -> base::Uuid {
    found.map(|topic| topic.id).unwrap_or_default()
}

fn resolve<'v>(view: &'v View, topic: &TopicProduceData<'_>, version: i16) -> Result<&'v Topic, ErrorCode> {
    if version >= 13 {
        view.topic_by_id(topic.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        view.topic(topic.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

/// Everything that can be told from the batch and the topic's settings.
fn check_batch(context: &Context, topic: &Topic, bytes: &[u8]) -> Result<Slice, Produced> {
    let config = &topic.config;
    let limits = ProduceLimits {
        message_bytes_max: usize::try_from(config.max_message_bytes).unwrap_or(0),
        zstd_allowed: context.version >= 7,
    };
    let summary = record::validate_for_produce(bytes, &limits)
        .map_err(|error| Produced::failed(errors::invalid_batch(&error), Some(error.to_string())))?;
    if summary.header.attributes.is_transactional() {
        return Err(Produced::failed(ErrorCode::InvalidRequest, Some("transactions are not served yet".to_owned())));
    }
    if config.timestamp_type == TimestampType::CreateTime {
        check_timestamps(context, config, &summary, bytes)?;
    }
    Ok(context.share(bytes))
}

/// The most bytes that the records of one batch may decompress to where their timestamps must be looked at.
const DECODED_BYTES_LIMIT: usize = 64 << 20;

/// Holds the batch to the topic's bounds. The header tells the largest timestamp; only a bound on the past needs the records.
fn check_timestamps(context: &Context, config: &TopicConfig, summary: &Summary, bytes: &[u8]) -> Result<(), Produced> {
    let bounds = TimestampBounds {
        now: context.node.shard.wall(),
        before_ms_max: config.timestamp_before_max_ms,
        after_ms_max: config.timestamp_after_max_ms,
    };
    if !bounds.hold(summary.header.max_timestamp) {
        let reason = format!("the batch's largest timestamp {} is out of bounds", summary.header.max_timestamp);
        return Err(Produced::failed(ErrorCode::InvalidTimestamp, Some(reason)));
    }
    if config.timestamp_before_max_ms == i64::MAX {
        return Ok(());
    }
    let batch = BatchView::parse(bytes)
        .map_err(|error| Produced::failed(ErrorCode::CorruptMessage, Some(error.to_string())))?;
    let rules = RecordRules { timestamps: Some(bounds), key_required: false };
    record::check_records(&batch, &rules, DECODED_BYTES_LIMIT)
        .map_err(|error| Produced::failed(errors::refused_records(&error), Some(error.to_string())))
}

fn merge(plan: Plan, produced: Vec<Produced>) -> Vec<Produced> {
    let mut produced = produced.into_iter();
    plan.into_iter()
        .map(|refused| {
            refused.or_else(|| produced.next()).unwrap_or_else(|| Produced::failed(ErrorCode::UnknownServerError, None))
        })
        .collect()
}

/// A client with `acks=0` learns of a failure by the end of its connection, as in Kafka.
fn silently(produced: &[Produced]) -> Result<Reply, Refusal> {
    Ok(match produced.iter().find(|produced| produced.error.is_error()) {
        Some(failed) => Reply::Close(format!("a Produce with acks=0 failed: {}", failed.error)),
        None => Reply::Nothing,
    })
}

fn answer(context: &Context, produced: &[Produced]) -> Result<Reply, Refusal> {
    let request: ProduceRequest<'_> = context.decode()?;
    let view = context.node.view();
    let mut produced_iter = produced.iter();
    let mut moved = false;
    let tells_leader = context.version >= LEADER_VERSION;
    let responses: Vec<_> = (&request.topic_data)
        .into_iter()
        .map(|topic| TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: (&topic.partition_data)
                .into_iter()
                .zip(produced_iter.by_ref())
                .map(|(partition, produced)| {
                    moved |= produced.error == ErrorCode::NotLeaderOrFollower;
                    partition_response(tells_leader.then_some(&view), partition.index, produced)
                })
                .collect(),
        })
        .collect();
    let node_endpoints = if moved && tells_leader { leader_endpoints(&view) } else { Array::empty() };
    context.answer(&ProduceResponse { responses: responses.into(), throttle_time_ms: 0, node_endpoints })
}

fn partition_response<'p>(
    view: Option<&View>,
    index: base::PartitionIndex,
    produced: &'p Produced,
) -> PartitionProduceResponse<'p> {
    let current_leader = match view {
        Some(view) if produced.error == ErrorCode::NotLeaderOrFollower => {
            LeaderIdAndEpoch { leader_id: view.broker.id, leader_epoch: base::NO_EPOCH }
        }
        _ => LeaderIdAndEpoch::default(),
    };
    let record_errors = match produced.error {
        ErrorCode::InvalidRecord | ErrorCode::InvalidTimestamp => Array::from(vec![BatchIndexAndErrorMessage {
            batch_index: 0,
            batch_index_error_message: produced.reason.as_deref(),
        }]),
        _ => Array::empty(),
    };
    PartitionProduceResponse {
        index,
        error_code: produced.error,
        base_offset: produced.base_offset,
        log_append_time_ms: produced.append_time.0,
        log_start_offset: produced.log_start,
        record_errors,
        error_message: produced.reason.as_deref(),
        current_leader,
    }
}

fn leader_endpoints(view: &View) -> Array<'_, NodeEndpoint<'_>> {
    Array::from(vec![NodeEndpoint {
        node_id: view.broker.id,
        host: &view.broker.host,
        port: i32::from(view.broker.port),
        rack: None,
    }])
}
