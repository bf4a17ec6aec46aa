//! Fetch: which partitions the session wants, read from their owners, answered without a copy.

use std::rc::Rc;
use std::time::Duration;

use base::PartitionIndex;
use net::Reply;
use shard::Slice;
use storage::LogId;
use wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use wire::{Array, ErrorCode, Records};

use super::context::{Context, Refusal};
use super::fetch_reading::{Located, TopicKey, Wanted};
use super::fetch_session::{FINAL_EPOCH, FetchOrder, INITIAL_EPOCH, SessionRequest};
use crate::cluster::{Topic, View};
use crate::message::Fetched;
use crate::router::{self, FetchPlan, ReaderHandle};

/// The first version whose topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 13;
/// The first version that tells a reader where the leader is (KIP-951).
const LEADER_VERSION: i16 = 16;

/// The longest that a reader is left waiting for records, whatever it asks for: it keeps memory while it waits.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Answers with what is there, or waits for it.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = Asked::read(&context)?;
    context.node.gone_readers.tell(&context.node).await;
    let mut order = match asked.order {
        Ok(order) => order,
        Err(error_code) => return context.answer(&FetchResponse { error_code, ..Default::default() }),
    };
    let fetched = {
        let node = &context.node;
        let has_failed = order.reading().borrow().failed().len() > 0;
        // An answer that is already known is an answer: nothing to wait for. Where readers that wait have most of what readers may have, this
        // one does not join them.
        let min_bytes = if node.work.is_crowded_with_readers() || has_failed { 0 } else { asked.min_bytes };
        let max_bytes = asked.max_bytes.min(node.answer_memory.share_bytes());
        let parts = std::mem::take(&mut order.parts);
        let plan = FetchPlan {
            reader: order.reader(|| ReaderHandle::new(node)),
            parts,
            is_complete: order.is_complete,
            max_bytes,
            min_bytes: min_bytes.min(max_bytes),
            deadline: asked.deadline,
        };
        router::fetch(node, plan).await
    };
    let held = context.node.answer_memory.hold(fetched.iter().map(|fetched| fetched.bytes).sum());
    let (meters, now) = (&context.node.request_meters, context.node.shard.now());
    meters.fetch_ns.record_since(context.started, now);
    let mut reply = answer(&context, &order, asked.read_committed, fetched)?;
    order.answered();
    if let Reply::Answer(answer) = &mut reply {
        answer.kept = Some(Box::new(held));
    }
    Ok(reply)
}

/// What a request asks for, owned: the wait for records must not borrow the frame's decoder.
struct Asked {
    order: Result<FetchOrder, ErrorCode>,
    max_bytes: usize,
    min_bytes: usize,
    deadline: base::Instant,
    read_committed: bool,
}

impl Asked {
    fn read(context: &Context) -> Result<Self, Refusal> {
        let request: FetchRequest<'_> = context.decode()?;
        let node = &context.node;
        let uses_ids = context.version >= TOPIC_ID_VERSION;
        let key = |name: &str, id| if uses_ids { TopicKey::Id(id) } else { TopicKey::Name(name.into()) };
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
        let replica_id = if context.version >= 15 { request.replica_state.replica_id } else { request.replica_id };
        let from_follower = replica_id.0 >= 0;
        // A single broker has no follower; whoever says to be one is no replica of anything, and has no session.
        let session_id = if from_follower { 0 } else { request.session_id };
        let epoch = request.session_epoch;
        let epoch = if from_follower && epoch == INITIAL_EPOCH { FINAL_EPOCH } else { epoch };
        let (now, random, view_number) = (node.shard.now(), node.shard.random(), node.view_number());
        let session = SessionRequest { session_id, epoch, uses_ids, wanted, forgotten, view_number, now, random };
        let view = node.view();
        let mut finder = Finder { view: &view, last: None };
        let order = node.fetch_sessions.order(session, |topic, index| {
            if from_follower { Err(ErrorCode::NotLeaderOrFollower) } else { finder.locate(topic, index) }
        });
        let max_bytes = request.max_bytes.min(node.config.fetch_max_bytes).max(0);
        Ok(Self {
            order,
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
            min_bytes: usize::try_from(request.min_bytes.min(max_bytes)).unwrap_or(0),
            deadline: now + Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(WAIT_MAX),
            read_committed: request.isolation_level == 1,
        })
    }
}

fn find<'v>(view: &'v View, topic: &TopicKey) -> Result<&'v Topic, ErrorCode> {
    match topic {
        TopicKey::Name(name) => view.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(id) => view.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId),
    }
}

/// Looks partitions up. Those of a topic follow one another: it is looked up once.
struct Finder<'v> {
    view: &'v View,
    last: Option<(TopicKey, Result<&'v Topic, ErrorCode>)>,
}

impl Finder<'_> {
    fn locate(&mut self, topic: &TopicKey, index: PartitionIndex) -> Located {
        let found = match &self.last {
            Some((last, found)) if last == topic => *found,
            _ => find(self.view, topic),
        };
        self.last = Some((topic.clone(), found));
        let topic = found?;
        let partition = topic.partition(index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        Ok((partition.owner, LogId { topic_id: topic.id, partition: index }))
    }
}

fn answer(
    context: &Context,
    order: &FetchOrder,
    read_committed: bool,
    fetched: Vec<Fetched<Slice>>,
) -> Result<Reply, Refusal> {
    let reading = order.reading().borrow();
    let view = context.node.view();
    let failed = reading.failed().filter_map(|(place, error)| {
        let wanted = reading.at(place)?;
        let no_log = LogId { topic_id: base::Uuid::ZERO, partition: wanted.partition.partition };
        Some((wanted, Fetched::failed(place, no_log, error)))
    });
    let mut told: Vec<_> = failed.collect();
    let is_sorted = told.is_empty() || !order.is_complete;
    told.extend(fetched.into_iter().filter_map(|fetched| Some((reading.named(fetched.place, fetched.log)?, fetched))));
    if !is_sorted {
        told.sort_by_key(|(_, fetched)| fetched.place);
    }
    let mut externals: Vec<Vec<Slice>> = Vec::new();
    let mut topics: Vec<(&TopicKey, Vec<PartitionData<'_>>)> = Vec::new();
    let mut moved = false;
    let tells_leader = context.version >= LEADER_VERSION;
    for (wanted, fetched) in told {
        context.node.request_meters.fetch_errors.note(fetched.error);
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
