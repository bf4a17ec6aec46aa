//! Fetch: what can be read by now, without a copy, or a wait for it. There are no sessions: every request names all its partitions.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use base::{Instant, LeaderEpoch, Offset, PartitionIndex, Uuid};
use net::{OnClose, Reply, Started};
use shard::Slice;
use shard::sync::Wait;
use wire::messages::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use wire::{Array, ErrorCode, Records};

use super::super::broker::Broker;
use super::super::log::Read;
use super::super::request::{Asker, Refusal, Request};
use super::super::store::TopicKey;

/// The first version that names topics by their ids.
const TOPIC_ID_VERSION: i16 = 13;

/// Answers with what is there, or waits for it.
pub fn handle(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked = Asked::read(&request)?;
    let (broker, asker) = (broker.clone(), request.asker);
    let answer = async move {
        let answered = match asked {
            Ok(asked) => answer(asker, &asked, read(&broker, &asked).await),
            Err(error_code) => asker.answer(&FetchResponse { error_code, ..Default::default() }),
        };
        answered.unwrap_or_else(|refusal| Reply::Close(refusal.to_string()))
    };
    Ok(Started::Later(Box::pin(answer), OnClose::Drop))
}

/// A partition to read.
struct Wanted {
    topic: TopicKey,
    partition: PartitionIndex,
    offset: Offset,
    max_bytes: usize,
    leader_epoch: LeaderEpoch,
}

/// A request, owned: its frame is not kept while records are waited for.
struct Asked {
    wanted: Vec<Wanted>,
    min_bytes: usize,
    max_bytes: usize,
    deadline: Instant,
    read_committed: bool,
}

impl Asked {
    fn read(request: &Request) -> Result<Result<Self, ErrorCode>, Refusal> {
        let asked: FetchRequest<'_> = request.decode()?;
        if asked.session_id != 0 {
            // None was ever given out.
            return Ok(Err(ErrorCode::FetchSessionIdNotFound));
        }
        let by_id = request.asker.version >= TOPIC_ID_VERSION;
        let mut wanted = Vec::new();
        for topic in &asked.topics {
            let key = if by_id { TopicKey::Id(topic.topic_id) } else { TopicKey::Name(topic.topic.into()) };
            wanted.extend((&topic.partitions).into_iter().map(|partition| Wanted {
                topic: key.clone(),
                partition: partition.partition,
                offset: partition.fetch_offset,
                max_bytes: bytes(partition.partition_max_bytes),
                leader_epoch: partition.current_leader_epoch,
            }));
        }
        let wait = Duration::from_millis(u64::try_from(asked.max_wait_ms).unwrap_or(0));
        Ok(Ok(Self {
            wanted,
            min_bytes: bytes(asked.min_bytes.min(asked.max_bytes)),
            max_bytes: bytes(asked.max_bytes),
            deadline: request.arrived + wait,
            read_committed: asked.isolation_level == 1,
        }))
    }
}

fn bytes(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// What was found of one partition.
struct Found {
    error: ErrorCode,
    high_watermark: Offset,
    start: Offset,
    read: Read,
}

/// Reads until there is enough, something is wrong, or the time is over.
async fn read(broker: &Broker, asked: &Asked) -> Vec<Found> {
    loop {
        broker.stalls_over().await;
        let now = broker.shard.now();
        let found = read_now(broker, asked, now);
        let bytes: usize = found.iter().map(|found| found.read.bytes).sum();
        let is_final = now >= asked.deadline || found.iter().any(|found| found.error.is_error());
        if is_final || bytes >= asked.min_bytes {
            return found;
        }
        let (mut changes, next) = changes(broker, asked, now);
        drop(found);
        let until = next.map_or(asked.deadline, |next| next.min(asked.deadline));
        // Whichever of the two it was, the next round sees it.
        let _ = broker.shard.until(until, any(&mut changes)).await;
    }
}

fn read_now(broker: &Broker, asked: &Asked, now: Instant) -> Vec<Found> {
    let mut store = broker.store.borrow_mut();
    let mut left = asked.max_bytes;
    let mut is_empty = true;
    let read = |wanted: &Wanted| {
        let failed = |error| Found { error, high_watermark: Offset(-1), start: Offset(-1), read: Read::default() };
        let partition = match store.partition(&wanted.topic, wanted.partition, now) {
            Ok(partition) => partition,
            Err(error) => return failed(error),
        };
        if wanted.leader_epoch > LeaderEpoch(0) {
            return failed(ErrorCode::UnknownLeaderEpoch);
        }
        // However long, the first batch of the answer is given: a reader would never come past it.
        match partition.log.read(wanted.offset, left.min(wanted.max_bytes), is_empty) {
            Ok(read) => {
                left = left.saturating_sub(read.bytes);
                is_empty &= read.slices.is_empty();
                let (high_watermark, start) = (partition.log.high_watermark(), partition.log.start());
                Found { error: ErrorCode::None, high_watermark, start, read }
            }
            Err(error) => failed(error),
        }
    };
    asked.wanted.iter().map(read).collect()
}

/// A wait for each partition, and when one of them has more to read by the mere passing of time.
fn changes(broker: &Broker, asked: &Asked, now: Instant) -> (Vec<Wait>, Option<Instant>) {
    let mut store = broker.store.borrow_mut();
    let (mut waits, mut next) = (Vec::with_capacity(asked.wanted.len()), None);
    for wanted in &asked.wanted {
        let Ok(partition) = store.partition(&wanted.topic, wanted.partition, now) else { continue };
        waits.push(partition.changed.wait());
        let at = partition.log.next_readable_at();
        next = [next, at].into_iter().flatten().min();
    }
    (waits, next)
}

/// Resolves with the first of them.
async fn any(waits: &mut [Wait]) {
    poll_fn(|context| {
        let ready = waits.iter_mut().any(|wait| Pin::new(wait).poll(context).is_ready());
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn answer(asker: Asker, asked: &Asked, found: Vec<Found>) -> Result<Reply, Refusal> {
    let mut externals: Vec<Vec<Slice>> = Vec::new();
    let mut topics: Vec<(&TopicKey, Vec<PartitionData<'_>>)> = Vec::new();
    for (wanted, found) in asked.wanted.iter().zip(found) {
        let data = PartitionData {
            partition_index: wanted.partition,
            error_code: found.error,
            high_watermark: found.high_watermark,
            last_stable_offset: found.high_watermark,
            log_start_offset: found.start,
            aborted_transactions: asked.read_committed.then(Array::empty),
            records: records(found.read, &mut externals),
            ..Default::default()
        };
        match topics.last_mut() {
            Some((topic, partitions)) if *topic == &wanted.topic => partitions.push(data),
            _ => topics.push((&wanted.topic, vec![data])),
        }
    }
    let responses = topics.into_iter().map(|(topic, partitions)| {
        let (topic, topic_id) = match topic {
            TopicKey::Name(name) => (&**name, Uuid::ZERO),
            TopicKey::Id(id) => ("", *id),
        };
        FetchableTopicResponse { topic, topic_id, partitions: partitions.into() }
    });
    asker.answer_with(&FetchResponse { responses: responses.collect(), ..Default::default() }, &externals)
}

fn records(read: Read, externals: &mut Vec<Vec<Slice>>) -> Records<'static> {
    if read.bytes == 0 {
        return Records::Bytes(&[]);
    }
    externals.push(read.slices);
    let index = u32::try_from(externals.len() - 1).expect("a request's partitions are counted in an i32");
    Records::External { index, length: read.bytes }
}
