//! Produce: batches are checked here (header, CRC, limits), then go to the owners of their partitions.
//!
//! The first stage ends when every batch has its place in its partition's order, so that a connection's requests cannot overtake each other;
//! what is awaited after it is durability only. The frame is let go at the end of the first stage: its memory, still in the cache, is the
//! next frame's. Few batches need a look at their records, or another codec: see [`crate::record_work`].

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, PartitionIndex, Uuid};
use net::{OnClose, Reply, Started};
use record::{ProduceLimits, RefusedRecords, TimestampBounds};
use replication::metadata::is_internal_topic;
use shard::Slice;
use storage::LogId;
use wire::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use wire::{Array, ErrorCode};

use super::context::{Asker, Context, Refusal};
use super::{errors, produce_legacy};
use crate::cluster::{Topic, View};
use crate::config::TimestampType;
use crate::message::{Acks, BatchTask, Produced};
use crate::node::Node;
use crate::record_work::RecordWork;
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
        let (acks, timeout, checked, plan) = {
            let request: ProduceRequest<'_> = context.decode()?;
            let acks = match request.acks {
                0 => Ok(Acks::None),
                1 => Ok(Acks::Leader),
                -1 => Ok(Acks::All),
                _ => Err(ErrorCode::InvalidRequiredAcks),
            };
            // Transactions are not served yet: refused, never appended outside one.
            let acks = if request.transactional_id.is_some() { Err(ErrorCode::InvalidRequest) } else { acks };
            let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
            let (checked, plan) = check(&context, &request, acks.err());
            (acks.unwrap_or(Acks::All), timeout, checked, plan)
        };
        let asker = context.asker();
        let checked_at = asker.node.shard.now();
        asker.node.request_meters.produce_check_ns.record_since(asker.started, checked_at);
        let produced = if checked.work.is_empty() {
            append(&asker.node, acks, timeout, checked.tasks).await
        } else {
            Box::pin(work_and_append(&asker.node, acks, timeout, checked)).await
        };
        drop(context);
        let placed = asker.node.shard.now();
        asker.node.request_meters.produce_place_ns.record_since(checked_at, placed);
        let reply: Boxed<Reply> = Box::pin(async move {
            let outcomes = merge(plan, produced.await);
            count(&asker, placed, &outcomes);
            let reply = if acks == Acks::None { silently(&outcomes) } else { answer(&asker, &outcomes) };
            reply.unwrap_or_else(|refusal| Reply::Close(refusal.to_string()))
        });
        Ok(Started::Later(reply, OnClose::Finish))
    })
}

/// A topic of the request with the partitions named in it, in order, and what became of each.
struct TopicOutcome<T> {
    /// As the request names it: the one or the other.
    name: Box<str>,
    id: Uuid,
    partitions: Vec<(PartitionIndex, T)>,
}

/// Refused here, or the next of the tasks.
type Plan = Vec<TopicOutcome<Option<Produced>>>;

/// The batches of a request that are good, as far as their headers tell.
#[derive(Default)]
struct Checked {
    tasks: Vec<BatchTask<Slice>>,
    /// By the index of its task, what has to be done with a batch first.
    work: Vec<(usize, RecordWork)>,
}

/// What a client calls itself that may write to the topics that the cluster keeps its own state in, as in Kafka.
const ADMIN_CLIENT: &str = "__admin_client";

fn check(context: &Context, request: &ProduceRequest<'_>, refuse: Option<ErrorCode>) -> (Checked, Plan) {
    let view = context.node.view();
    let mut checked = Checked::default();
    let mut plan = Vec::new();
    for topic in &request.topic_data {
        let found = match refuse {
            Some(error) => Err(error),
            None => resolve(&view, &topic, context.version),
        };
        let is_closed = found.is_ok_and(|found| is_internal_topic(&found.name)) && context.client_id() != ADMIN_CLIENT;
        let mut check_partition = |partition: PartitionProduceData<'_>| {
            let found = found.map_err(|error| Produced::failed(error, None))?;
            if is_closed {
                return Err(Produced::failed(ErrorCode::InvalidTopicException, None));
            }
            if !found.has(partition.index) {
                return Err(Produced::failed(ErrorCode::UnknownTopicOrPartition, None));
            }
            let (batch, work) = check_batch(context, found, partition.records.bytes().unwrap_or_default())?;
            if let Some(work) = work {
                checked.work.push((checked.tasks.len(), work));
            }
            checked.tasks.push(BatchTask { log: LogId { topic_id: found.id, partition: partition.index }, batch });
            Ok(())
        };
        let partitions = (&topic.partition_data)
            .into_iter()
            .map(|partition| (partition.index, check_partition(partition).err()))
            .collect();
        plan.push(TopicOutcome { name: topic.name.into(), id: topic.topic_id, partitions });
    }
    (checked, plan)
}

fn resolve<'v>(view: &'v View, topic: &TopicProduceData<'_>, version: i16) -> Result<&'v Topic, ErrorCode> {
    if version >= 13 {
        view.topic_by_id(topic.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        view.topic(topic.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

/// Everything that can be told from the batch's header and the topic's settings, and the work on its records that is left to do.
fn check_batch(context: &Context, topic: &Topic, bytes: &[u8]) -> Result<(Slice, Option<RecordWork>), Produced> {
    let config = &topic.config;
    let limits = ProduceLimits {
        message_bytes_max: usize::try_from(config.max_message_bytes).unwrap_or(0),
        zstd_allowed: context.version >= 7,
    };
    let summary = record::validate_for_produce(bytes, &limits)
        .map_err(|error| Produced::failed(errors::invalid_batch(&error), Some(error.to_string())))?;
    let header = &summary.header;
    if header.attributes.is_transactional() {
        return Err(Produced::failed(ErrorCode::InvalidRequest, Some("transactions are not served yet".to_owned())));
    }
    let bounds = (config.timestamp_type == TimestampType::CreateTime).then(|| TimestampBounds {
        now: context.node.shard.wall(),
        before_ms_max: config.timestamp_before_max_ms,
        after_ms_max: config.timestamp_after_max_ms,
    });
    let meters = &context.node.request_meters;
    meters.produced_batches.add(1);
    meters.produced_records.add(u64::from(summary.record_count));
    meters.produced_bytes.add(bytes.len() as u64);
    Ok((context.share(bytes), RecordWork::needed(config, header, bounds)))
}

/// Gives the batches their places. The timeout is one for their being held, and begins here.
async fn append(node: &Rc<Node>, acks: Acks, timeout: Duration, tasks: Vec<BatchTask<Slice>>) -> Boxed<Vec<Produced>> {
    router::produce(node, acks, node.shard.now() + timeout, tasks).await
}

/// The same, with work on the records of some batches before. Each of these goes to its log before the next one is worked on, so that a
/// request holds memory for one rebuilt batch at most; the batches between them go together. All in the order of the request.
async fn work_and_append(
    node: &Rc<Node>,
    acks: Acks,
    timeout: Duration,
    Checked { tasks, work }: Checked,
) -> Boxed<Vec<Produced>> {
    let mut tasks = tasks.into_iter().enumerate().peekable();
    let mut parts: Vec<Boxed<Vec<Produced>>> = Vec::new();
    for (index, work) in work {
        let as_sent: Vec<_> =
            std::iter::from_fn(|| tasks.next_if(|(at, _)| *at < index)).map(|(_, task)| task).collect();
        if !as_sent.is_empty() {
            parts.push(append(node, acks, timeout, as_sent).await);
        }
        let (_, BatchTask { log, batch }) = tasks.next().expect("work is on a task");
        parts.push(match work.run(node, batch).await {
            Ok(batch) => append(node, acks, timeout, vec![BatchTask { log, batch }]).await,
            Err(error) => Box::pin(ready(vec![refused(&error)])),
        });
    }
    let as_sent: Vec<_> = tasks.map(|(_, task)| task).collect();
    if !as_sent.is_empty() {
        parts.push(append(node, acks, timeout, as_sent).await);
    }
    Box::pin(async move {
        let mut produced = Vec::new();
        for part in parts {
            produced.extend(part.await);
        }
        produced
    })
}

fn refused(error: &RefusedRecords) -> Produced {
    let refused_records = match error {
        RefusedRecords::Records(refused) => {
            refused.iter().map(|(index, reason)| (*index, format!("record {index}: {reason}"))).collect()
        }
        RefusedRecords::Unreadable(_) | RefusedRecords::MaxTimestamp { .. } | RefusedRecords::TooLarge { .. } => {
            Vec::new()
        }
    };
    Produced { refused_records, ..Produced::failed(errors::refused_records(error), Some(error.to_string())) }
}

fn merge(plan: Plan, produced: Vec<Produced>) -> Vec<TopicOutcome<Produced>> {
    let mut produced = produced.into_iter();
    let mut outcome = |refused: Option<Produced>| {
        refused.or_else(|| produced.next()).unwrap_or_else(|| Produced::failed(ErrorCode::UnknownServerError, None))
    };
    plan.into_iter()
        .map(|TopicOutcome { name, id, partitions }| {
            let partitions = partitions.into_iter().map(|(index, refused)| (index, outcome(refused))).collect();
            TopicOutcome { name, id, partitions }
        })
        .collect()
}

/// For the metrics: how long it took, and what was refused.
fn count(asker: &Asker, placed: Instant, outcomes: &[TopicOutcome<Produced>]) {
    let (meters, now) = (&asker.node.request_meters, asker.node.shard.now());
    meters.produce_hold_ns.record_since(placed, now);
    meters.produce_ns.record_since(asker.started, now);
    for (_, produced) in outcomes.iter().flat_map(|topic| &topic.partitions) {
        meters.produce_errors.note(produced.error);
    }
}

/// A client with `acks=0` learns of a failure by the end of its connection, as in Kafka.
fn silently(outcomes: &[TopicOutcome<Produced>]) -> Result<Reply, Refusal> {
    let mut produced = outcomes.iter().flat_map(|topic| &topic.partitions).map(|(_, produced)| produced);
    Ok(match produced.find(|produced| produced.error.is_error()) {
        Some(failed) => Reply::Close(format!("a Produce with acks=0 failed: {}", failed.error)),
        None => Reply::Nothing,
    })
}

fn answer(asker: &Asker, outcomes: &[TopicOutcome<Produced>]) -> Result<Reply, Refusal> {
    let view = asker.node.view();
    let leaders: Option<&View> = (asker.version >= LEADER_VERSION).then_some(&view);
    let responses: Vec<_> = outcomes
        .iter()
        .map(|topic| TopicProduceResponse {
            name: &topic.name,
            topic_id: topic.id,
            partition_responses: topic
                .partitions
                .iter()
                .map(|(index, produced)| partition_response(leaders, *index, produced))
                .collect(),
        })
        .collect();
    let mut all = outcomes.iter().flat_map(|topic| &topic.partitions);
    let node_endpoints = match leaders {
        Some(view) if all.any(|(_, produced)| produced.error == ErrorCode::NotLeaderOrFollower) => {
            leader_endpoints(view)
        }
        _ => Array::empty(),
    };
    asker.answer(&ProduceResponse { responses: responses.into(), throttle_time_ms: 0, node_endpoints })
}

fn partition_response<'p>(
    view: Option<&View>,
    index: PartitionIndex,
    produced: &'p Produced,
) -> PartitionProduceResponse<'p> {
    let current_leader = match view {
        Some(view) if produced.error == ErrorCode::NotLeaderOrFollower => {
            LeaderIdAndEpoch { leader_id: view.broker.id, leader_epoch: base::NO_EPOCH }
        }
        _ => LeaderIdAndEpoch::default(),
    };
    // A producer that is told of records takes those for the ones at fault: only such are named.
    let record_errors = produced.refused_records.iter().map(|(index, reason)| BatchIndexAndErrorMessage {
        batch_index: i32::try_from(*index).unwrap_or(i32::MAX),
        batch_index_error_message: Some(reason.as_str()),
    });
    PartitionProduceResponse {
        index,
        error_code: produced.error,
        base_offset: produced.base_offset,
        log_append_time_ms: produced.append_time.0,
        log_start_offset: produced.log_start,
        record_errors: record_errors.collect(),
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
