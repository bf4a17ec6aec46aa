//! Which shard owns a partition; fans a request out and gathers the replies.
//!
//! Owner: every shard routes for its own connections. What this shard owns is served in place; the rest travels as one mesh
//! message for each owning shard. Answers come back in the order of the request.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use base::{Instant, Offset, ShardId};
use shard::{Answer, Slice};
use storage::{ActiveProducer, LogId};
use wire::ErrorCode;

use crate::message::{
    Acks, BatchTask, EpochEndFound, EpochEndQuery, LagFound, LagQuery, ListOffset, ListedOffset, Message, ProduceTask,
    Produced, RecordsDeletion,
};
use crate::node::Node;
use crate::partition;

mod fetch;
mod groups;

pub use fetch::{FetchPart, FetchPlan, GoneReaders, ReaderHandle, fetch};
pub use groups::{ask_group, ask_here, find_coordinator, list_groups, offsets_topic};

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The items of a request by owning shard, each with its place in the request.
struct Split<T> {
    here: Vec<(usize, T)>,
    there: BTreeMap<ShardId, Vec<(usize, T)>>,
}

fn split<T>(node: &Node, items: impl IntoIterator<Item = (LogId, T)>) -> Split<T> {
    let view = node.view();
    let mut split = Split { here: Vec::new(), there: BTreeMap::new() };
    for (place, (log, item)) in items.into_iter().enumerate() {
        match view.owner(log) {
            Some(owner) if owner == node.shard.id() => split.here.push((place, item)),
            Some(owner) => split.there.entry(owner).or_default().push((place, item)),
            // The topic is gone; its place is left without an answer.
            None => {}
        }
    }
    split
}

/// Puts answers back into the order of the request.
fn place<T>(count: usize, parts: impl IntoIterator<Item = (usize, T)>, missing: impl Fn() -> T) -> Vec<T> {
    let mut placed: Vec<Option<T>> = (0..count).map(|_| None).collect();
    for (place, answer) in parts {
        placed[place] = Some(answer);
    }
    placed.into_iter().map(|answer| answer.unwrap_or_else(&missing)).collect()
}

/// Starts an append of every batch and returns a future of the answers. When this function returns, every batch has its place in the
/// order of its partition: a later call cannot overtake it.
pub async fn produce(
    node: &Rc<Node>,
    acks: Acks,
    deadline: Instant,
    batches: Vec<BatchTask<Slice>>,
) -> Boxed<Vec<Produced>> {
    if let Some(owner) = sole_owner(node, &batches) {
        return match owner == node.shard.id() {
            true => partition::produce(node, acks, deadline, batches),
            false => produce_there(node, owner, acks, deadline, batches).await,
        };
    }
    let count = batches.len();
    let split = split(node, batches.into_iter().map(|task| (task.log, task)));
    let mut waits: Vec<(Vec<usize>, Boxed<Vec<Produced>>)> = Vec::new();
    if !split.here.is_empty() {
        let (places, tasks): (Vec<_>, Vec<_>) = split.here.into_iter().unzip();
        waits.push((places, partition::produce(node, acks, deadline, tasks)));
    }
    for (owner, tasks) in split.there {
        let (places, batches): (Vec<_>, Vec<_>) = tasks.into_iter().unzip();
        waits.push((places, produce_there(node, owner, acks, deadline, batches).await));
    }
    Box::pin(async move {
        let mut parts = Vec::with_capacity(count);
        for (places, wait) in waits {
            parts.extend(places.into_iter().zip(wait.await));
        }
        place(count, parts, || Produced::failed(ErrorCode::NotLeaderOrFollower, None))
    })
}

/// The shard that owns every partition of a request: most requests of most clients have but one batch.
fn sole_owner(node: &Node, batches: &[BatchTask<Slice>]) -> Option<ShardId> {
    let view = node.view();
    let owner = view.owner(batches.first()?.log)?;
    batches[1..].iter().all(|task| view.owner(task.log) == Some(owner)).then_some(owner)
}

async fn produce_there(
    node: &Rc<Node>,
    owner: ShardId,
    acks: Acks,
    deadline: Instant,
    batches: Vec<BatchTask<Slice>>,
) -> Boxed<Vec<Produced>> {
    let batches = batches.into_iter().map(|task| BatchTask { log: task.log, batch: task.batch.export() }).collect();
    let sent = node.mesh.send_request(owner, Message::Produce(ProduceTask { acks, deadline, batches })).await;
    Box::pin(async move {
        match sent.await {
            Message::Produced(produced) => produced,
            other => unreachable!("a Produce is answered by Produced, not {other:?}"),
        }
    })
}

/// Asks the owners for offsets.
pub async fn list_offsets(node: &Rc<Node>, queries: Vec<ListOffset>) -> Vec<ListedOffset> {
    let count = queries.len();
    let (here, others) = ask(node, queries, |query| query.log, Message::ListOffsets).await;
    let (places, queries): (Vec<_>, Vec<_>) = here.into_iter().unzip();
    let here = places.into_iter().zip(partition::list_offsets(node, queries).await).collect();
    let answers = |message| match message {
        Message::ListedOffsets(listed) => listed,
        other => unreachable!("ListOffsets is answered by ListedOffsets, not {other:?}"),
    };
    gather(count, here, others, answers, || ListedOffset::failed(ErrorCode::NotLeaderOrFollower)).await
}

/// Asks the owners how far readers are behind.
pub async fn measure_lag(node: &Rc<Node>, queries: Vec<LagQuery>) -> Vec<Option<LagFound>> {
    let count = queries.len();
    let (here, others) = ask(node, queries, |query| query.log, Message::MeasureLag).await;
    let (places, queries): (Vec<_>, Vec<_>) = here.into_iter().unzip();
    let here = places.into_iter().zip(partition::measure_lag(node, queries).await).collect();
    let answers = |message| match message {
        Message::LagMeasured(found) => found,
        other => unreachable!("MeasureLag is answered by LagMeasured, not {other:?}"),
    };
    gather(count, here, others, answers, || None).await
}

/// Asks the owners for the ends of leader epochs.
pub async fn epoch_ends(node: &Rc<Node>, queries: Vec<EpochEndQuery>) -> Vec<EpochEndFound> {
    let count = queries.len();
    let (here, others) = ask(node, queries, |query| query.log, Message::EpochEnds).await;
    let (places, queries): (Vec<_>, Vec<_>) = here.into_iter().unzip();
    let here = places.into_iter().zip(partition::epoch_ends(node, queries)).collect();
    let answers = |message| match message {
        Message::EpochEndsFound(found) => found,
        other => unreachable!("EpochEnds is answered by EpochEndsFound, not {other:?}"),
    };
    gather(count, here, others, answers, || EpochEndFound::failed(ErrorCode::NotLeaderOrFollower)).await
}

/// Has the owners delete records; each answer is the log's start then.
pub async fn delete_records(node: &Rc<Node>, deletions: Vec<RecordsDeletion>) -> Vec<Result<Offset, ErrorCode>> {
    let count = deletions.len();
    let (here, others) = ask(node, deletions, |deletion| deletion.log, Message::DeleteRecords).await;
    let (places, deletions): (Vec<_>, Vec<_>) = here.into_iter().unzip();
    let here = places.into_iter().zip(partition::delete_records(node, deletions).await).collect();
    let answers = |message| match message {
        Message::RecordsDeleted(starts) => starts,
        other => unreachable!("DeleteRecords is answered by RecordsDeleted, not {other:?}"),
    };
    gather(count, here, others, answers, || Err(ErrorCode::NotLeaderOrFollower)).await
}

/// Asks the owners for the producers of partitions.
pub async fn producers(node: &Rc<Node>, logs: Vec<LogId>) -> Vec<Result<Vec<ActiveProducer>, ErrorCode>> {
    let count = logs.len();
    let (here, others) = ask(node, logs, |log| *log, Message::DescribeProducers).await;
    let (places, logs): (Vec<_>, Vec<_>) = here.into_iter().unzip();
    let here = places.into_iter().zip(partition::producers(node, logs)).collect();
    let answers = |message| match message {
        Message::ProducersDescribed(described) => described,
        other => unreachable!("DescribeProducers is answered by ProducersDescribed, not {other:?}"),
    };
    gather(count, here, others, answers, || Err(ErrorCode::NotLeaderOrFollower)).await
}

/// Puts the answers of this shard, each with its place, and those of the others into the order of the questions.
async fn gather<A>(
    count: usize,
    here: Vec<(usize, A)>,
    others: Vec<(Vec<usize>, Answer<Message>)>,
    answers: impl Fn(Message) -> Vec<A>,
    missing: impl Fn() -> A,
) -> Vec<A> {
    let mut parts = here;
    for (places, reply) in others {
        parts.extend(places.into_iter().zip(answers(reply.await)));
    }
    place(count, parts, missing)
}

/// The size of every log of this broker.
pub async fn log_sizes(node: &Rc<Node>) -> HashMap<LogId, u64> {
    let mut replies = Vec::new();
    for shard in node.others() {
        replies.push(node.mesh.send_request(shard, Message::MeasureLogs).await);
    }
    let mut sizes: HashMap<LogId, u64> = partition::log_sizes(node).into_iter().collect();
    for reply in replies {
        match reply.await {
            Message::LogsMeasured(measured) => sizes.extend(measured),
            other => unreachable!("MeasureLogs is answered by LogsMeasured, not {other:?}"),
        }
    }
    sizes
}

/// Questions for this shard, each with its place; and for every other owner the places of its questions and its reply.
type Asked<Q> = (Vec<(usize, Q)>, Vec<(Vec<usize>, Answer<Message>)>);

/// Sends every other owner its questions before any reply is awaited.
async fn ask<Q>(
    node: &Rc<Node>,
    queries: Vec<Q>,
    log: impl Fn(&Q) -> LogId,
    message: impl Fn(Vec<Q>) -> Message,
) -> Asked<Q> {
    let split = split(node, queries.into_iter().map(|query| (log(&query), query)));
    let mut others = Vec::with_capacity(split.there.len());
    for (owner, queries) in split.there {
        let (places, queries): (Vec<_>, Vec<_>) = queries.into_iter().unzip();
        others.push((places, node.mesh.send_request(owner, message(queries)).await));
    }
    (split.here, others)
}
