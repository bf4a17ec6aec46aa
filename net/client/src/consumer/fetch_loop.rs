//! The tasks of a consumer: one that knows who leads what, and one per broker that fetches.
//!
//! Owner: one consumer. A fetching task ends once its broker leads none of the partitions; after any failure of the connection it
//! gives its partitions back to the supervisor, which asks for the metadata again before it hands them out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{BrokerId, LeaderEpoch, NO_EPOCH, Offset, Uuid};
use record::Batches;
use shard::sync::Wait;
use wire::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic, PartitionData};
use wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use wire::messages::{FetchRequest, FetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use wire::{ApiKey, ErrorCode};

use super::decode::scan;
use super::session::{Changes, Session, SessionRequest, Wanted};
use super::{CHUNKS_MAX, Chunk, Fault, Inner, OutOfRange, PartitionKey, PartitionState, Ready};
use crate::connection::{Connection, Reply, Sending};
use crate::wait::Backoff;
use crate::{Error, Lane, OffsetSpec};

/// The first version of Fetch that names topics by their id.
const FETCH_BY_ID: i16 = 13;
/// The first version with sessions.
const FETCH_SESSIONS: i16 = 7;

/// Finds the leader of every partition and sees to it that somebody fetches from it.
pub(super) async fn supervise(inner: Rc<Inner>) {
    let (client, shard) = (&inner.client, inner.client.shard());
    let mut backoff = Backoff::new(client.options().retry);
    let mut seen = None;
    loop {
        let changed = inner.changed.wait();
        if seen.replace(inner.leadership.get()) == Some(inner.leadership.get()) {
            changed.await;
            continue;
        }
        let mut failed = false;
        for (key, assignment) in inner.leaderless() {
            match place(&inner, &key, assignment).await {
                Ok(()) => {}
                Err(error) if error.is_retriable() => {
                    client.doubt_topic(&key.0);
                    failed = true;
                }
                Err(error) => inner.fail(&key, assignment, Fault::Failed(error)),
            }
        }
        for leader in inner.leaders() {
            let mut fetching = inner.fetching.borrow_mut();
            if fetching.get(&leader).is_none_or(shard::Task::is_finished) {
                let class = client.options().connection.class;
                let task = shard.spawn(class, client.account(), fetch_from(inner.clone(), leader));
                fetching.insert(leader, task);
            }
        }
        if failed {
            seen = None;
            shard.sleep(backoff.next(shard.random())).await;
        } else {
            backoff.reset();
            changed.await;
        }
    }
}

/// Gives a partition its leader, once it is certain that what was read is still in that leader's log.
async fn place(inner: &Inner, key: &PartitionKey, assignment: u64) -> Result<(), Error> {
    // One attempt for a topic that was never heard of is not enough: it may have been created just now.
    let topic = inner.client.topic(&key.0).await?;
    let (leader, epoch) = inner.client.leader(&topic.name, key.1).await?;
    let read = inner.with(key, assignment, |state| (state.fetch_from, state.fetched_epoch));
    if let Some((read, fetched_epoch)) = read
        && inner.options.check_epochs
        && fetched_epoch != NO_EPOCH
        && fetched_epoch < epoch
        && let Some(end) = epoch_end(inner, key, leader, epoch, fetched_epoch).await?
        && end < read
    {
        inner.fail(key, assignment, Fault::Diverged { read, end });
        return Ok(());
    }
    inner.with(key, assignment, |state| state.leader = Some((leader, epoch)));
    inner.leadership_changed();
    Ok(())
}

/// Where the epoch ends in the leader's log; `None` where the leader does not know.
async fn epoch_end(
    inner: &Inner,
    key: &PartitionKey,
    leader: BrokerId,
    current_leader_epoch: LeaderEpoch,
    leader_epoch: LeaderEpoch,
) -> Result<Option<Offset>, Error> {
    let connection = inner.client.connection(leader, Lane::CONTROL).await?;
    if connection.versions().range(ApiKey::OffsetForLeaderEpoch).is_none() {
        return Ok(None);
    }
    let partitions = [OffsetForLeaderPartition { partition: key.1, current_leader_epoch, leader_epoch }];
    let topics = [OffsetForLeaderTopic { topic: &key.0, partitions: (&partitions).into() }];
    let request = OffsetForLeaderEpochRequest { replica_id: BrokerId(-1), topics: (&topics).into() };
    let reply = connection.call(&request).await?;
    let response: OffsetForLeaderEpochResponse<'_> = reply.decode()?;
    connection.throttle(response.throttle_time_ms);
    let topic = response.topics.iter().find(|topic| *topic.topic == *key.0);
    let found = topic.and_then(|topic| topic.partitions.iter().find(|partition| partition.partition == key.1));
    let missing = Error::Nonsense { key: ApiKey::OffsetForLeaderEpoch, what: "the partition is missing" };
    let found = found.ok_or(missing)?;
    if found.error_code.is_error() {
        return Err(Error::refused(format!("{}-{}", key.0, key.1), found.error_code, None));
    }
    Ok(Some(found.end_offset).filter(|end| end.0 >= 0))
}

/// Fetches from one broker until it leads nothing that is read.
async fn fetch_from(inner: Rc<Inner>, leader: BrokerId) {
    let shard = inner.client.shard();
    let (mut session, mut backoff) = (Session::default(), Backoff::new(inner.client.options().retry));
    inner.touched.borrow_mut().insert(leader, BTreeSet::new());
    let mut seen = None;
    loop {
        // Asked only after something about leaders has changed: there may be ten thousand partitions, and a thousand answers a second.
        let leadership = inner.leadership.get();
        if seen != Some(leadership) && !inner.leaders().contains(&leader) {
            break;
        }
        seen = Some(leadership);
        let changed = inner.changed.wait();
        let result = match inner.client.connection(leader, inner.lane).await {
            Ok(connection) => fetch(&inner, &connection, leader, &mut session, changed).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(true) => backoff.reset(),
            Ok(false) => shard.sleep(backoff.next(shard.random())).await,
            Err(error) => {
                session.reset();
                inner.give_back(leader, &error);
                shard.sleep(backoff.next(shard.random())).await;
            }
        }
    }
    inner.touched.borrow_mut().remove(&leader);
    // The supervisor takes the task for finished only after its end.
    inner.leadership_changed();
}

/// One round: a request for what there is room for, and its answer. False when the broker had only errors.
async fn fetch(
    inner: &Rc<Inner>,
    connection: &Connection,
    leader: BrokerId,
    session: &mut Session,
    changed: Wait,
) -> Result<bool, Error> {
    let version = connection.version::<FetchRequest<'_>>()?;
    let enabled = inner.options.sessions && version >= FETCH_SESSIONS;
    let changes = inner.changes(leader, session.wants_all(enabled));
    if inner.buffered_bytes.get() >= inner.options.buffer_bytes || session.count_with(&changes) == 0 {
        inner.still_to_be_told(leader, &changes);
        changed.await;
        return Ok(true);
    }
    let request = session.request(changes, enabled);
    let version = if session.goes_by_name() { version.min(FETCH_BY_ID - 1) } else { version };
    let slot = connection.slot().await?;
    let how = Sending { wait: inner.options.max_wait, ..Sending::default() };
    let answer = with_request(inner, &request, version >= FETCH_SESSIONS, |request| {
        connection.start(slot, version, request, how)
    })?;
    let reply = answer.wait().await?;
    let went_well = take_in(inner, connection, session, &reply)?;
    inner.reset_out_of_range(leader).await?;
    Ok(went_well)
}

/// Lays a session's request out as a message.
fn with_request<T>(
    inner: &Inner,
    session: &SessionRequest,
    has_sessions: bool,
    send: impl FnOnce(&FetchRequest<'_>) -> T,
) -> T {
    let mut topics: BTreeMap<(&str, Uuid), Vec<FetchPartition>> = BTreeMap::new();
    for (key, partition) in &session.partitions {
        topics.entry((&key.topic, key.topic_id)).or_default().push(*partition);
    }
    let mut forgotten: BTreeMap<(&str, Uuid), Vec<_>> = BTreeMap::new();
    for key in session.forgotten.iter().filter(|_| has_sessions) {
        forgotten.entry((&key.topic, key.topic_id)).or_default().push(key.partition);
    }
    let options = &inner.options;
    let max_bytes = options.max_bytes.min(inner.client.options().connection.response_bytes_limit / 2);
    let arena_share = inner.client.shard().received().usage().limit_bytes / 4;
    let request = FetchRequest {
        max_wait_ms: i32::try_from(options.max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: options.min_bytes,
        max_bytes: i32::try_from(max_bytes.min(arena_share)).unwrap_or(i32::MAX),
        session_id: session.session_id,
        session_epoch: session.session_epoch,
        topics: topics
            .into_iter()
            .map(|((topic, topic_id), partitions)| FetchTopic { topic, topic_id, partitions: partitions.into() })
            .collect(),
        forgotten_topics_data: forgotten
            .into_iter()
            .map(|((topic, topic_id), partitions)| ForgottenTopic { topic, topic_id, partitions: partitions.into() })
            .collect(),
        ..Default::default()
    };
    send(&request)
}

/// Takes a response in. False when it had errors and nothing else, which a broker need not wait to say.
fn take_in(inner: &Rc<Inner>, connection: &Connection, session: &mut Session, reply: &Reply) -> Result<bool, Error> {
    let response: FetchResponse<'_> = reply.decode()?;
    connection.throttle(response.throttle_time_ms);
    if !session.answered(response.error_code, response.session_id) {
        return if response.error_code.is_retriable() {
            Ok(false)
        } else {
            Err(Error::refused("a fetch", response.error_code, None))
        };
    }
    let by_id = reply.version() >= FETCH_BY_ID;
    let (mut received, mut bad) = (false, false);
    for topic in &response.responses {
        for data in &topic.partitions {
            let Some((key, wanted)) = session.asked(topic.topic, by_id.then_some(topic.topic_id), data.partition_index)
            else {
                // What was not asked for is of no use; perhaps what was asked for was named wrongly.
                inner.doubt(session);
                bad = true;
                continue;
            };
            let (assignment, offset) = (wanted.assignment, wanted.question.fetch_offset);
            if data.error_code.is_error() {
                bad = true;
                take_in_error(inner, &key, assignment, offset, data.error_code);
            } else {
                received |= !data.records.is_empty();
                take_in_records(inner, &key, assignment, offset, &data, reply);
            }
        }
    }
    Ok(received || !bad)
}

fn take_in_error(inner: &Inner, key: &PartitionKey, assignment: u64, offset: Offset, code: ErrorCode) {
    if code == ErrorCode::OffsetOutOfRange {
        match inner.options.out_of_range {
            OutOfRange::Fail => inner.fail(key, assignment, Fault::OutOfRange { wanted: offset }),
            OutOfRange::Beginning | OutOfRange::End => {
                inner.with(key, assignment, |state| state.out_of_range = true);
                inner.any_out_of_range.set(true);
            }
        }
        return;
    }
    let error = Error::refused(format!("{}-{}", key.0, key.1), code, None);
    if error.is_about_metadata() {
        inner.client.doubt_topic(&key.0);
        inner.with(key, assignment, |state| state.leader = None);
        inner.leadership_changed();
    } else if !error.is_retriable() || code == ErrorCode::CorruptMessage {
        // Damage on the broker's disk, which no retry mends; a request that was damaged on its way would not have been understood.
        inner.fail(key, assignment, Fault::Failed(error));
    }
}

fn take_in_records(
    inner: &Inner,
    key: &PartitionKey,
    assignment: u64,
    offset: Offset,
    data: &PartitionData<'_>,
    reply: &Reply,
) {
    let records = data.records.bytes().unwrap_or_default();
    if records.is_empty() {
        return;
    }
    let run = match scan(records, offset) {
        Ok(run) => run,
        Err(corrupt) => return inner.fail(key, assignment, Fault::Corrupt(corrupt)),
    };
    let epoch =
        Batches::new(&records[..run.bytes]).flatten().last().map_or(NO_EPOCH, |last| last.header().leader_epoch);
    let current = inner.with(key, assignment, |state| {
        state.fetch_from = run.next_offset;
        state.fetched_epoch = epoch;
        state.chunks += 1;
    });
    if current.is_some() {
        let bytes = reply.share(&records[..run.bytes]);
        let high_watermark = data.high_watermark;
        inner.make_ready(Ready::Chunk(Chunk { key: key.clone(), assignment, bytes, high_watermark }));
    }
}

impl Inner {
    /// Runs `change` on a partition, if it is still the same assignment and has not failed.
    fn with<T>(&self, key: &PartitionKey, assignment: u64, change: impl FnOnce(&mut PartitionState) -> T) -> Option<T> {
        let mut partitions = self.partitions.borrow_mut();
        let state = partitions.get_mut(key).filter(|state| state.assignment == assignment && !state.failed)?;
        let result = change(state);
        self.touch(key);
        Some(result)
    }

    fn leaderless(&self) -> Vec<(PartitionKey, u64)> {
        let partitions = self.partitions.borrow();
        let leaderless = partitions.iter().filter(|(_, state)| state.leader.is_none() && !state.failed);
        leaderless.map(|(key, state)| (key.clone(), state.assignment)).collect()
    }

    /// Has the partitions look for their leaders again.
    fn doubt(&self, session: &Session) {
        for (key, wanted) in session.all_asked() {
            self.client.doubt_topic(&key.0);
            self.with(key, wanted.assignment, |state| state.leader = None);
        }
        self.leadership_changed();
    }

    /// What to ask a broker for: all its partitions that have room, or those about which something has changed since it was last asked.
    fn changes(&self, leader: BrokerId, all: bool) -> Changes {
        let partitions = self.partitions.borrow();
        let mut touched = self.touched.borrow_mut();
        let touched = std::mem::take(touched.entry(leader).or_default());
        if all {
            let wanted =
                partitions.iter().filter_map(|(key, state)| Some((key.clone(), self.wanted(leader, key, state)?)));
            return Changes::All(wanted.collect());
        }
        let change = |key: PartitionKey| {
            let wanted = partitions.get(&key).and_then(|state| self.wanted(leader, &key, state));
            (key, wanted)
        };
        Changes::Some(touched.into_iter().map(change).collect())
    }

    /// The changes were not sent.
    fn still_to_be_told(&self, leader: BrokerId, changes: &Changes) {
        if let Changes::Some(changes) = changes {
            let keys = changes.iter().map(|(key, _)| key.clone());
            self.touched.borrow_mut().entry(leader).or_default().extend(keys);
        }
    }

    /// What is wanted of a partition, if that broker leads it and there is room for more of it.
    fn wanted(&self, leader: BrokerId, key: &PartitionKey, state: &PartitionState) -> Option<Wanted> {
        let (_, current_leader_epoch) = state.leader.filter(|(id, _)| *id == leader)?;
        if state.failed || state.chunks >= CHUNKS_MAX {
            return None;
        }
        let topic_id = self.client.with_metadata(|m| m.topic(&key.0).map_or(Uuid::ZERO, |known| known.id));
        let question = FetchPartition {
            partition: key.1,
            current_leader_epoch,
            fetch_offset: state.fetch_from,
            partition_max_bytes: i32::try_from(self.options.partition_bytes).unwrap_or(i32::MAX),
            ..Default::default()
        };
        Some(Wanted { topic_id, question, assignment: state.assignment })
    }

    /// A broker can't be fetched from: its partitions look for their leaders again.
    fn give_back(&self, leader: BrokerId, error: &Error) {
        let mut lost = Vec::new();
        for (key, state) in &mut *self.partitions.borrow_mut() {
            if state.leader.is_some_and(|(id, _)| id == leader) && !state.failed {
                state.leader = None;
                self.touch(key);
                lost.push((key.clone(), state.assignment));
            }
        }
        for (key, assignment) in lost {
            self.client.doubt_topic(&key.0);
            // What can't go better with another try: versions that do not fit, answers that make no sense.
            if !error.is_retriable() {
                self.fail(&key, assignment, Fault::Failed(error.clone()));
            }
        }
        self.leadership_changed();
    }

    /// Goes on from an end of the log where the wanted offset is outside it.
    async fn reset_out_of_range(&self, leader: BrokerId) -> Result<(), Error> {
        let spec = match self.options.out_of_range {
            OutOfRange::Fail => return Ok(()),
            OutOfRange::Beginning => OffsetSpec::Earliest,
            OutOfRange::End => OffsetSpec::Latest,
        };
        if !self.any_out_of_range.get() {
            return Ok(());
        }
        let lost: Vec<_> = {
            let partitions = self.partitions.borrow();
            let here = partitions.iter().filter(|(_, state)| state.out_of_range && !state.failed);
            let here = here.filter(|(_, state)| state.leader.is_some_and(|(id, _)| id == leader));
            here.map(|(key, state)| (key.clone(), state.assignment)).collect()
        };
        if lost.is_empty() {
            // Of this broker; another's task looks after its own.
            let partitions = self.partitions.borrow();
            self.any_out_of_range.set(partitions.values().any(|state| state.out_of_range && !state.failed));
            return Ok(());
        }
        let asked: Vec<_> = lost.iter().map(|((topic, partition), _)| (&**topic, *partition, spec)).collect();
        let found = self.client.list_offsets(&asked).await?;
        for ((key, assignment), found) in lost.iter().zip(found) {
            self.with(key, *assignment, |state| {
                state.out_of_range = false;
                state.fetch_from = found.offset.unwrap_or_default();
                state.fetched_epoch = NO_EPOCH;
                if state.chunks == 0 {
                    state.position = state.fetch_from;
                }
            });
        }
        Ok(())
    }
}
