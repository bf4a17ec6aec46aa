//! The sending task: what may leave goes to its leader, answers go back to their queues.
//!
//! Owner: one producer. One task decides and starts requests, so their order on a connection is the order of the decision; each
//! request has a task that waits for its answer. Connecting and asking for metadata happen in tasks of their own, at most
//! one per leader and one at all, so that one broker that is away does not hold up the others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{BrokerId, Instant, Offset, PartitionIndex, ProducerEpoch, ProducerId, Uuid, WallTime};
use shard::Slice;
use wire::messages::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceData};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse};
use wire::{ApiKey, ErrorCode, Records};

use super::batch::{Acknowledged, Batch, DeliveryError};
use super::queue::{Identity, PartitionQueue, Verdict, Wants};
use super::{Acks, Inner, PartitionKey};
use crate::connection::{Connection, Reply, Sending, Slot};
use crate::wait::Backoff;
use crate::{Client, Error};

/// The first version of Produce that names topics by their id.
const PRODUCE_BY_ID: i16 = 13;

/// What the producer knows of a leader.
pub(super) struct LeaderState {
    in_flight: usize,
    connecting: bool,
    /// Not asked again before this, after a failure.
    not_before: Instant,
    backoff: Backoff,
    /// Where the next request starts among the partitions, so that all get their turn.
    turn: usize,
}

/// A batch on its way.
struct Carried {
    topic: Rc<str>,
    topic_id: Uuid,
    partition: PartitionIndex,
    batch: Batch,
    bytes: Slice,
}

/// Sends until it is cancelled.
pub(super) async fn run(inner: Rc<Inner>) {
    let mut identity_backoff = Backoff::new(inner.client.options().retry);
    loop {
        inner.woken.set(false);
        if let Some(refused) = inner.unwanted_identity() {
            match obtain_identity(&inner.client).await {
                Ok(identity) if refused != Some(identity) => {
                    identity_backoff.reset();
                    inner.identity.set(Some(identity));
                }
                Ok(_) => inner.end(&DeliveryError::NoIdentity {
                    cause: Error::Nonsense { key: ApiKey::InitProducerId, what: "the identity it was to replace" },
                }),
                Err(cause) if cause.is_retriable() => {
                    let delay = identity_backoff.next(inner.client.shard().random());
                    inner.client.shard().sleep(delay).await;
                }
                Err(cause) => inner.end(&DeliveryError::NoIdentity { cause }),
            }
        }
        let deadline = step(&inner);
        if inner.woken.get() {
            continue;
        }
        match deadline {
            Some(deadline) => shard::sync::either(inner.wake.wait(), inner.client.shard().sleep_until(deadline)).await,
            None => inner.wake.wait().await,
        }
    }
}

/// A producer id and epoch of its own.
async fn obtain_identity(client: &Client) -> Result<Identity, Error> {
    let connection = client.any_connection().await?;
    let request = InitProducerIdRequest { transaction_timeout_ms: i32::MAX, ..Default::default() };
    let reply = connection.call(&request).await?;
    let response: InitProducerIdResponse = reply.decode()?;
    connection.throttle(response.throttle_time_ms);
    if response.error_code.is_error() {
        return Err(Error::refused("an identity for the producer", response.error_code, None));
    }
    if response.producer_id.0 < 0 || response.producer_epoch.0 < 0 {
        return Err(Error::Nonsense { key: ApiKey::InitProducerId, what: "a negative producer id or epoch" });
    }
    let identity: (ProducerId, ProducerEpoch) = (response.producer_id, response.producer_epoch);
    Ok(identity)
}

/// Sends what can be sent now. Returns when to look again, if nothing else happens.
fn step(inner: &Rc<Inner>) -> Option<Instant> {
    let now = inner.client.shard().now();
    inner.expire(now);
    let mut deadlines: Vec<Instant> = Vec::new();
    let mut by_leader: BTreeMap<BrokerId, Vec<PartitionKey>> = BTreeMap::new();
    let mut unknown: BTreeSet<PartitionKey> = BTreeSet::new();
    inner.for_active(|key, queue| {
        inner.identify(queue);
        deadlines.extend(queue.deadline(now, &inner.queue_options));
        match inner.client.known_leader(&key.0, key.1) {
            Some((leader, _)) => by_leader.entry(leader).or_default().push(key.clone()),
            None => {
                unknown.insert(key.clone());
            }
        }
    });
    for (leader, partitions) in by_leader {
        deadlines.extend(serve_leader(inner, leader, partitions, now));
    }
    if !unknown.is_empty() && !inner.refreshing.replace(true) {
        let (shard, task) = (inner.client.shard(), refresh(inner.clone(), unknown));
        drop(shard.spawn(inner.client.options().connection.class, inner.client.account(), task));
    }
    deadlines.into_iter().min()
}

/// Asks for the leaders of partitions; a failure is waited out, for the sending task will ask again.
async fn refresh(inner: Rc<Inner>, partitions: BTreeSet<PartitionKey>) {
    let (client, mut backoff) = (&inner.client, Backoff::new(inner.client.options().retry));
    for (topic, partition) in partitions {
        if client.known_leader(&topic, partition).is_none() {
            client.doubt_topic(&topic);
            // Why it is not known does not matter: its records have their time, and end with it.
            let _ = client.topic(&topic).await;
        }
        if client.known_leader(&topic, partition).is_none() {
            client.shard().sleep(backoff.next(client.shard().random())).await;
        }
    }
    inner.refreshing.set(false);
    inner.wake();
}

/// Starts requests to a leader, as many as may be on their way.
fn serve_leader(
    inner: &Rc<Inner>,
    leader: BrokerId,
    mut partitions: Vec<PartitionKey>,
    now: Instant,
) -> Option<Instant> {
    let mut leaders = inner.leaders.borrow_mut();
    let state = leaders.entry(leader).or_insert_with(|| LeaderState {
        in_flight: 0,
        connecting: false,
        not_before: now,
        backoff: Backoff::new(inner.client.options().retry),
        turn: 0,
    });
    if now < state.not_before {
        return Some(state.not_before);
    }
    let Some(connection) = inner.client.live_connection(leader, inner.lane) else {
        if !std::mem::replace(&mut state.connecting, true) {
            let topics = partitions.into_iter().map(|(topic, _)| topic).collect();
            let task = connect(inner.clone(), leader, topics);
            drop(inner.client.shard().spawn(inner.client.options().connection.class, inner.client.account(), task));
        }
        return None;
    };
    while state.in_flight < inner.queue_options.in_flight_max {
        let slot = match connection.try_slot() {
            Ok(Some(slot)) => slot,
            // Throttled, or full of requests that another lane's user would not start: looked at again then.
            Ok(None) => return Some(connection.throttled_until()).filter(|until| *until > now),
            Err(_) => return Some(now),
        };
        let first = state.turn % partitions.len().max(1);
        state.turn = state.turn.wrapping_add(1);
        partitions.rotate_left(first);
        let carried = gather(inner, leader, &partitions, now);
        if carried.is_empty() {
            return None;
        }
        state.in_flight += 1;
        start(inner, &connection, leader, slot, carried);
    }
    None
}

async fn connect(inner: Rc<Inner>, leader: BrokerId, topics: BTreeSet<Rc<str>>) {
    let result = inner.client.connection(leader, inner.lane).await;
    if let Some(state) = inner.leaders.borrow_mut().get_mut(&leader) {
        state.connecting = false;
        if result.is_ok() {
            state.backoff.reset();
        } else {
            let shard = inner.client.shard();
            state.not_before = shard.now() + state.backoff.next(shard.random());
            topics.iter().for_each(|topic| inner.client.doubt_topic(topic));
        }
    }
    inner.wake();
}

/// The next batch of each partition, up to the size of a request.
fn gather(inner: &Inner, leader: BrokerId, partitions: &[PartitionKey], now: Instant) -> Vec<Carried> {
    let urgent = inner.flushing.get() > 0 || inner.memory.waiting() > 0;
    let mut topics = inner.topics.borrow_mut();
    let (mut carried, mut bytes_total, mut failed) = (Vec::new(), 0, Vec::new());
    for (topic, partition) in partitions {
        if bytes_total >= inner.options.request_bytes {
            break;
        }
        let Some(queue) = topics.get_mut(topic).and_then(|state| state.queues.get_mut(partition)) else { continue };
        let Some(mut batch) = queue.take(leader, now, urgent, &inner.queue_options) else { continue };
        match batch.encode() {
            Ok(bytes) => {
                bytes_total += bytes.len();
                let topic_id = inner.client.known_topic(topic).map_or(Uuid::ZERO, |known| known.id);
                carried.push(Carried { topic: topic.clone(), topic_id, partition: *partition, batch, bytes });
            }
            Err(error) => failed.push(queue.fail(batch, DeliveryError::Build(error))),
        }
    }
    drop(topics);
    if !failed.is_empty() {
        failed.into_iter().for_each(|batch| inner.settle(batch));
        inner.wake();
    }
    carried
}

/// Puts a request in line and has a task wait for its answer.
fn start(inner: &Rc<Inner>, connection: &Connection, leader: BrokerId, slot: Slot, carried: Vec<Carried>) {
    let started = begin(inner, connection, slot, &carried);
    let (task_inner, connection) = (inner.clone(), connection.clone());
    let task = async move {
        let result = match started {
            Ok(Started::Answered(answer)) => answer.wait().await.map(Some),
            Ok(Started::OneWay(sent)) => sent.wait().await.map(|()| None),
            Err(error) => Err(error),
        };
        finish(&task_inner, &connection, leader, carried, result);
    };
    drop(inner.client.shard().spawn(inner.client.options().connection.class, inner.client.account(), task));
}

enum Started {
    Answered(crate::connection::Answer),
    OneWay(crate::connection::Sent),
}

fn begin(inner: &Inner, connection: &Connection, slot: Slot, carried: &[Carried]) -> Result<Started, Error> {
    let externals: Vec<Slice> = carried.iter().map(|carried| carried.bytes.clone()).collect();
    let externals = externals.as_slice();
    let mut by_topic: BTreeMap<&Rc<str>, (Uuid, Vec<PartitionProduceData<'_>>)> = BTreeMap::new();
    for (index, carried) in (0..).zip(carried) {
        let records = Records::External { index, length: carried.bytes.len() };
        let partition = PartitionProduceData { index: carried.partition, records };
        by_topic.entry(&carried.topic).or_insert((carried.topic_id, Vec::new())).1.push(partition);
    }
    let mut version = connection.version::<ProduceRequest<'_>>()?;
    if by_topic.values().any(|(id, _)| id.is_zero()) {
        // Some topic's id is not known: it goes by its name.
        version = version.min(PRODUCE_BY_ID - 1);
    }
    let topic_data = by_topic.into_iter().map(|(name, (topic_id, partitions))| TopicProduceData {
        name,
        topic_id,
        partition_data: partitions.into(),
    });
    let wait = inner.client.options().connection.request_timeout;
    let request = ProduceRequest {
        transactional_id: None,
        acks: match inner.options.acks {
            Acks::Zero => 0,
            Acks::One => 1,
            Acks::All => -1,
        },
        // The broker gives up before this side does.
        timeout_ms: i32::try_from(wait.as_millis() * 9 / 10).unwrap_or(i32::MAX),
        topic_data: topic_data.collect(),
    };
    if inner.options.acks == Acks::Zero {
        return connection.start_one_way(slot, version, &request, externals).map(Started::OneWay);
    }
    let how = Sending { externals, ..Sending::default() };
    connection.start(slot, version, &request, how).map(Started::Answered)
}

/// Takes in what came of a request.
fn finish(
    inner: &Rc<Inner>,
    connection: &Connection,
    leader: BrokerId,
    carried: Vec<Carried>,
    result: Result<Option<Reply>, Error>,
) {
    if let Some(state) = inner.leaders.borrow_mut().get_mut(&leader) {
        state.in_flight -= 1;
    }
    let verdicts = match &result {
        Ok(Some(reply)) => verdicts_of(connection, reply, &carried),
        Ok(None) => Ok(carried.iter().map(|_| acknowledged(None, None)).collect()),
        Err(error) => Err(error.clone()),
    };
    let verdicts = verdicts.unwrap_or_else(|error| carried.iter().map(|_| Verdict::Failed(error.clone())).collect());
    for (Carried { topic, partition, batch, .. }, verdict) in carried.into_iter().zip(verdicts) {
        let stale = match &verdict {
            Verdict::Acknowledged(_) => false,
            Verdict::Refused { code, .. } => crate::error::is_about_metadata(*code),
            Verdict::Failed(error) => error.is_about_metadata(),
        };
        if stale {
            inner.client.doubt_topic(&topic);
        }
        let fenced = inner.answered(&topic, partition, batch, verdict);
        if let Some(error) = fenced {
            inner.end(&error);
        }
    }
    inner.wake();
}

/// What a response says about each batch, in their order.
fn verdicts_of(connection: &Connection, reply: &Reply, carried: &[Carried]) -> Result<Vec<Verdict>, Error> {
    let response: ProduceResponse<'_> = reply.decode()?;
    connection.throttle(response.throttle_time_ms);
    let by_id = reply.version() >= PRODUCE_BY_ID;
    let mut answers: BTreeMap<(&str, Uuid, PartitionIndex), Verdict> = BTreeMap::new();
    for topic in &response.responses {
        let (name, id) = if by_id { ("", topic.topic_id) } else { (topic.name, Uuid::ZERO) };
        for partition in &topic.partition_responses {
            answers.insert((name, id, partition.index), verdict_of(&partition));
        }
    }
    let mut verdicts = Vec::with_capacity(carried.len());
    for carried in carried {
        let (name, id) = if by_id { ("", carried.topic_id) } else { (&*carried.topic, Uuid::ZERO) };
        let missing = Error::Nonsense { key: ApiKey::Produce, what: "a partition is missing" };
        verdicts.push(answers.remove(&(name, id, carried.partition)).unwrap_or(Verdict::Failed(missing)));
    }
    Ok(verdicts)
}

fn verdict_of(answer: &PartitionProduceResponse<'_>) -> Verdict {
    match answer.error_code {
        ErrorCode::None => acknowledged(
            Some(answer.base_offset).filter(|offset| offset.0 >= 0),
            Some(WallTime(answer.log_append_time_ms)).filter(|time| time.0 >= 0),
        ),
        code => {
            let record = answer.record_errors.iter().find_map(|error| error.batch_index_error_message);
            Verdict::Refused { code, message: answer.error_message.or(record).map(str::to_owned) }
        }
    }
}

fn acknowledged(base_offset: Option<Offset>, append_time: Option<WallTime>) -> Verdict {
    Verdict::Acknowledged(Acknowledged { base_offset, append_time })
}

impl Inner {
    /// Hands a batch back to its queue with what came of it, and settles it if that resolved it. Returns the error if it ends the
    /// producer.
    fn answered(
        &self,
        topic: &Rc<str>,
        partition: PartitionIndex,
        batch: Batch,
        verdict: Verdict,
    ) -> Option<DeliveryError> {
        let (now, random) = (self.client.shard().now(), self.client.shard().random());
        let mut topics = self.topics.borrow_mut();
        let queue = topics.get_mut(topic).and_then(|state| state.queues.get_mut(&partition));
        let Some(queue) = queue else {
            // The producer was dropped meanwhile, and its queues with it.
            drop(topics);
            batch.orphaned(verdict);
            return None;
        };
        let Some(resolved) = queue.answered(batch, verdict, now, random, &self.queue_options) else {
            // It will be sent again.
            self.active.borrow_mut().insert((topic.clone(), partition));
            return None;
        };
        drop(topics);
        let fenced = resolved.error().filter(|error| matches!(error, DeliveryError::Fenced { .. }));
        self.settle(resolved);
        fenced
    }

    /// A batch has its outcome: its memory is free.
    fn settle(&self, batch: Batch) {
        self.unresolved.borrow_mut().remove(&batch.id);
        self.memory.release(batch.reserved_bytes);
        let watcher = self.watcher.borrow().clone();
        if let Some((watcher, outcome)) = watcher.zip(batch.outcome()) {
            watcher(outcome);
        }
    }

    /// Looks at every partition that has something to send; those that have nothing any more are forgotten.
    fn for_active(&self, mut look: impl FnMut(&PartitionKey, &mut PartitionQueue)) {
        let (mut active, mut topics) = (self.active.borrow_mut(), self.topics.borrow_mut());
        active.retain(|key| {
            let queue = topics.get_mut(&key.0).and_then(|state| state.queues.get_mut(&key.1));
            let Some(queue) = queue.filter(|queue| !queue.is_idle()) else { return false };
            look(key, queue);
            true
        });
    }

    fn expire(&self, now: Instant) {
        let mut expired = Vec::new();
        self.for_active(|_, queue| expired.extend(queue.expire(now, &self.queue_options)));
        expired.into_iter().for_each(|batch| self.settle(batch));
    }

    /// The producer is of no more use: everything that waits fails with `error`.
    fn end(&self, error: &DeliveryError) {
        self.ended.borrow_mut().get_or_insert_with(|| error.clone());
        let mut failed = Vec::new();
        for state in self.topics.borrow_mut().values_mut() {
            for queue in state.queues.values_mut() {
                failed.extend(queue.fail_all(error));
            }
        }
        failed.into_iter().for_each(|batch| self.settle(batch));
    }

    /// Whether a new identity is needed, and which one will not do.
    fn unwanted_identity(&self) -> Option<Option<Identity>> {
        if !self.options.idempotent || self.ended.borrow().is_some() {
            return None;
        }
        let (current, mut unwanted) = (self.identity.get(), None);
        self.for_active(|_, queue| {
            unwanted = unwanted.or_else(|| match (queue.wants_identity(), current) {
                (Wants::Any, None) => Some(None),
                (Wants::OtherThan(old), None) => Some(Some(old)),
                (Wants::OtherThan(old), Some(current)) if old == current => Some(Some(old)),
                _ => None,
            });
        });
        unwanted
    }

    fn identify(&self, queue: &mut PartitionQueue) {
        let Some(identity) = self.identity.get().filter(|_| self.options.idempotent) else { return };
        match queue.wants_identity() {
            Wants::Nothing => {}
            Wants::OtherThan(old) if old == identity => {}
            Wants::Any | Wants::OtherThan(_) => queue.set_identity(identity),
        }
    }
}
