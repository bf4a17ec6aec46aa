//! Fetch: which partitions the session wants, read from their owners, answered without a copy.

use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use net::Reply;
use shard::Slice;
use storage::LogId;
use wire::messages::fetch::{
    EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use wire::{Array, ErrorCode, Records};

use super::context::{Context, Refusal};
use super::fetch_session::{FetchOrder, Outcome, SessionRequest, TopicKey, Wanted};
use crate::cluster::{Topic, View};
use crate::message::{FetchTarget, Fetched};
use crate::router::{self, FetchPlan};

/// The first version whose topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 13;
/// The first version that tells a reader where the leader is (KIP-951).
const LEADER_VERSION: i16 = 16;

/// The longest that a reader is left waiting for records, whatever it asks for: it keeps memory while it waits.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Answers with what is there, or waits for it.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = Asked::read(&context)?;
    let order = match asked.order {
        Ok(order) => order,
        Err(error_code) => return context.answer(&FetchResponse { error_code, ..Default::default() }),
    };
    let (targets, failed) = targets(&context.node.view(), &order.wanted, asked.from_follower);
    // An answer that is already known is an answer: nothing to wait for. Where readers that wait have most of what readers may have, this
    // one does not join them.
    let is_crowded = context.node.work.is_crowded_with_readers();
    let min_bytes = if is_crowded || !failed.is_empty() { 0 } else { asked.min_bytes };
    let max_bytes = asked.max_bytes.min(context.node.answer_memory.share_bytes());
    let min_bytes = min_bytes.min(max_bytes);
    let plan = FetchPlan { targets, max_bytes, min_bytes, deadline: asked.deadline };
    let fetched = with_failed(router::fetch(&context.node, plan).await, failed);
    let held = context.node.answer_memory.hold(fetched.iter().map(|fetched| fetched.bytes).sum());
    let (meters, now) = (&context.node.request_meters, context.node.shard.now());
    meters.fetch_ns.record_since(context.started, now);
    fetched.iter().for_each(|fetched| meters.fetch_errors.note(fetched.error));
    let mut reply = answer(&context, &order, asked.read_committed, fetched)?;
    if let Reply::Answer(answer) = &mut reply {
        answer.kept = Some(Box::new(held));
    }
    Ok(reply)
}

/// Puts what there was no reading of in between.
fn with_failed(answers: Vec<Fetched<Slice>>, failed: Failed) -> Vec<Fetched<Slice>> {
    if failed.is_empty() {
        return answers;
    }
    let count = answers.len() + failed.len();
    let (mut answers, mut failed) = (answers.into_iter(), failed.into_iter().peekable());
    let next = |place| match failed.next_if(|(at, _)| *at == place) {
        Some((_, error)) => Fetched::failed(error),
        None => answers.next().expect("each target has an answer"),
    };
    (0..count).map(next).collect()
}

/// What a request asks for, owned: the wait for records must not borrow the frame's decoder.
struct Asked {
    order: Result<FetchOrder, ErrorCode>,
    max_bytes: usize,
    min_bytes: usize,
    deadline: base::Instant,
    read_committed: bool,
    from_follower: bool,
}

impl Asked {
    fn read(context: &Context) -> Result<Self, Refusal> {
        let request: FetchRequest<'_> = context.decode()?;
        let node = &context.node;
        let by_id = context.version >= TOPIC_ID_VERSION;
        let key = |name: &str, id| if by_id { TopicKey::Id(id) } else { TopicKey::Name(name.into()) };
        let mut wanted = Vec::new();
        for topic in &request.topics {
            let topic_key = key(topic.topic, topic.topic_id);
            wanted.extend(
                (&topic.partitions).into_iter().map(|partition| Wanted { topic: topic_key.clone(), partition }),
            );
        }
        let mut forgotten = Vec::new();
        for topic in &request.forgotten_topics_data {
            let topic_key = key(topic.topic, topic.topic_id);
            forgotten.extend((&topic.partitions).into_iter().map(|partition| (topic_key.clone(), partition)));
        }
        let session = SessionRequest { session_id: request.session_id, epoch: request.session_epoch, uses_ids: by_id };
        let now = node.shard.now();
        let order = node.fetch_sessions.order(session, wanted, &forgotten, now, node.shard.random());
        let max_bytes = request.max_bytes.min(node.config.fetch_max_bytes).max(0);
        let replica_id = if context.version >= 15 { request.replica_state.replica_id } else { request.replica_id };
        Ok(Self {
            order,
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
            min_bytes: usize::try_from(request.min_bytes.min(max_bytes)).unwrap_or(0),
            deadline: now + Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(WAIT_MAX),
            read_committed: request.isolation_level == 1,
            from_follower: replica_id.0 >= 0,
        })
    }
}

fn find<'v>(view: &'v View, topic: &TopicKey) -> Result<&'v Topic, ErrorCode> {
    match topic {
        TopicKey::Name(name) => view.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(id) => view.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId),
    }
}

/// What there is no reading of, each with its place among all, in order.
type Failed = Vec<(usize, ErrorCode)>;

/// What to read, each with its owner.
fn targets(view: &View, wanted: &[Wanted], from_follower: bool) -> (Vec<(ShardId, FetchTarget)>, Failed) {
    let mut targets = Vec::with_capacity(wanted.len());
    let mut failed = Vec::new();
    // Partitions of a topic follow one another: it is looked up once.
    let mut last: Option<(&TopicKey, Result<&Topic, ErrorCode>)> = None;
    for (place, Wanted { topic, partition }) in wanted.iter().enumerate() {
        let found = match last {
            Some((key, found)) if key == topic => found,
            _ => find(view, topic),
        };
        last = Some((topic, found));
        match found.and_then(|topic| target(topic, partition, from_follower)) {
            Ok(target) => targets.push(target),
            Err(error) => failed.push((place, error)),
        }
    }
    (targets, failed)
}

fn target(topic: &Topic, wanted: &FetchPartition, from_follower: bool) -> Result<(ShardId, FetchTarget), ErrorCode> {
    let partition = topic.partition(wanted.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if from_follower {
        // A single broker has no follower; whoever says to be one is no replica of this partition.
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let target = FetchTarget {
        log: LogId { topic_id: topic.id, partition: wanted.partition },
        offset: wanted.fetch_offset,
        max_bytes: usize::try_from(wanted.partition_max_bytes).unwrap_or(0),
        current_epoch: wanted.current_leader_epoch,
        last_fetched_epoch: wanted.last_fetched_epoch,
    };
    Ok((partition.owner, target))
}

fn answer(
    context: &Context,
    order: &FetchOrder,
    read_committed: bool,
    fetched: Vec<Fetched<Slice>>,
) -> Result<Reply, Refusal> {
    let outcomes: Vec<Outcome> = fetched
        .iter()
        .map(|fetched| Outcome {
            high_watermark: fetched.high_watermark,
            log_start: fetched.log_start,
            has_records: fetched.bytes > 0,
            remarkable: fetched.error.is_error() || fetched.diverging.is_some(),
        })
        .collect();
    let shown = context.node.fetch_sessions.report(order, &outcomes);
    let view = context.node.view();
    let mut externals: Vec<Vec<Slice>> = Vec::new();
    let mut topics: Vec<(&TopicKey, Vec<PartitionData<'_>>)> = Vec::new();
    let mut moved = false;
    let tells_leader = context.version >= LEADER_VERSION;
    for ((wanted, fetched), _) in order.wanted.iter().zip(fetched).zip(shown).filter(|(_, shown)| *shown) {
        moved |= fetched.error == ErrorCode::NotLeaderOrFollower;
        let data = partition_data(tells_leader.then_some(&view), wanted, fetched, read_committed, &mut externals);
        match topics.last_mut() {
            Some((topic, partitions)) if *topic == &wanted.topic => partitions.push(data),
            _ => topics.push((&wanted.topic, vec![data])),
        }
    }
    let responses = topics
        .into_iter()
        .map(|(topic, partitions)| {
            let (topic, topic_id) = match topic {
                TopicKey::Name(name) => (&**name, base::Uuid::ZERO),
                TopicKey::Id(id) => ("", *id),
            };
            FetchableTopicResponse { topic, topic_id, partitions: partitions.into() }
        })
        .collect();
    let node_endpoints = if moved && tells_leader { endpoints(&view) } else { Array::empty() };
    let response = FetchResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        session_id: order.session_id,
        responses,
        node_endpoints,
    };
    context.answer_with(&response, &externals)
}

fn partition_data(
    view: Option<&View>,
    wanted: &Wanted,
    fetched: Fetched<Slice>,
    read_committed: bool,
    externals: &mut Vec<Vec<Slice>>,
) -> PartitionData<'static> {
    let records = if fetched.bytes == 0 {
        Records::Bytes(&[])
    } else {
        externals.push(fetched.slices);
        let index = u32::try_from(externals.len() - 1).expect("a request's partitions are counted in an i32");
        Records::External { index, length: fetched.bytes }
    };
    let is_unknown = matches!(fetched.error, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId);
    let current_leader = match (view, fetched.error) {
        (Some(view), ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) => leader(view, wanted),
        _ => LeaderIdAndEpoch::default(),
    };
    PartitionData {
        partition_index: wanted.partition.partition,
        error_code: fetched.error,
        high_watermark: fetched.high_watermark,
        // No transaction is ever open, so all that is committed is stable.
        last_stable_offset: fetched.high_watermark,
        log_start_offset: fetched.log_start,
        diverging_epoch: fetched
            .diverging
            .map_or_else(EpochEndOffset::default, |(epoch, end_offset)| EpochEndOffset { epoch, end_offset }),
        current_leader,
        // Null tells a reader of uncommitted records that nobody looked; what is not known at all has no transactions, as in Kafka.
        aborted_transactions: (read_committed || is_unknown).then(Array::empty),
        records,
        ..Default::default()
    }
}

fn leader(view: &View, wanted: &Wanted) -> LeaderIdAndEpoch {
    let partition = find(view, &wanted.topic).ok().and_then(|topic| topic.partition(wanted.partition.partition));
    partition.map_or_else(LeaderIdAndEpoch::default, |partition| LeaderIdAndEpoch {
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
    })
}

fn endpoints(view: &View) -> Array<'_, NodeEndpoint<'_>> {
    let broker = &view.broker;
    Array::from(vec![NodeEndpoint { node_id: broker.id, host: &broker.host, port: i32::from(broker.port), rack: None }])
}
