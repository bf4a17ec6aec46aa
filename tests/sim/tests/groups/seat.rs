//! What members of groups of either kind have in common: a connection that is made anew, reading, committing, asking for offsets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use client::{Connection, ConnectionOptions, Reply, Sending};
use shard::Shard;
use sim::groups::Place;
use sim::groups::commits::{Found, Speaker};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::{ErrorCode, Request};

use crate::model::SharedModel;

/// After so long without a sign of life a member is taken for dead; members of both kinds are set to it.
pub const SESSION: Duration = Duration::from_secs(3);
/// So long a member may take to join again, or to give up what it must.
pub const REBALANCE: Duration = Duration::from_secs(2);
/// Between two signs of life, at most.
pub const HEARTBEAT_MS: u64 = 700;

/// A client's side of everything, with a connection of its own.
pub struct Link {
    pub shard: Shard,
    pub broker: SocketAddr,
    pub model: SharedModel,
    connection: Option<Connection>,
}

impl Link {
    pub fn new(shard: Shard, broker: SocketAddr, model: SharedModel) -> Self {
        Self { shard, broker, model, connection: None }
    }

    /// Another one to the same broker.
    pub fn fork(&self) -> Self {
        Self::new(self.shard.clone(), self.broker, self.model.clone())
    }

    pub fn is_over(&self) -> bool {
        let model = self.model.borrow();
        model.over || model.broken.is_some()
    }

    pub fn is_calm(&self) -> bool {
        self.model.borrow().calm
    }

    pub fn hit(&self, what: &'static str) {
        self.model.borrow_mut().register.hit(what);
    }

    pub fn mischief(&self, one_in: u64) -> bool {
        self.model.borrow_mut().mischief(one_in)
    }

    /// A time up to so long.
    pub async fn pause(&self, ms_max: u64) {
        let us = self.model.borrow_mut().below(ms_max * 1000 + 1);
        self.shard.sleep(Duration::from_micros(us)).await;
    }

    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    async fn connect(&mut self) -> Option<Connection> {
        if let Some(connection) = &self.connection {
            return Some(connection.clone());
        }
        let options = ConnectionOptions {
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(4),
            requests_in_flight: 4,
            ..ConnectionOptions::default()
        };
        let account = self.shard.account("client");
        let opened = Connection::open(&self.shard, &account, self.broker, options).await.ok()?;
        self.connection = Some(opened.clone());
        Some(opened)
    }

    /// The answer to a request; none where the connection broke, after which nobody knows whether it was carried out.
    pub async fn call<'q, R: Request<'q>>(&mut self, request: &R, wait: Duration) -> Option<Reply> {
        let Some(connection) = self.connect().await else {
            self.pause(300).await;
            return None;
        };
        self.model.borrow_mut().operations += 1;
        let asked = async {
            let version = connection.version::<R>()?;
            let slot = connection.slot().await?;
            connection.start(slot, version, request, Sending { wait, ..Sending::default() })?.wait().await
        };
        match asked.await {
            Ok(reply) => Some(reply),
            Err(error) if error.may_have_happened() || error.is_retriable() => {
                self.connection = None;
                self.pause(100).await;
                None
            }
            Err(error) => {
                self.model.borrow_mut().fail(format!("{:?}: {error}", R::KEY));
                None
            }
        }
    }
}

/// One who takes part in a group, life after life.
pub struct Seat {
    pub link: Link,
    pub group: usize,
    pub number: usize,
    /// Of a static member; two seats may have the same.
    pub instance: Option<&'static str>,
    /// How far it has read what it has, and up to where it has committed.
    pub reading: BTreeMap<Place, Reading>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    pub position: i64,
    pub committed: i64,
}

/// What became of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    Taken,
    /// Nobody knows, or the coordinator is not there for the moment.
    Unknown,
    Refused(ErrorCode),
}

impl Seat {
    pub fn name(&self) -> &'static str {
        self.link.model.borrow().groups[self.group].name
    }

    /// It has nothing more.
    pub fn lose_all(&mut self) {
        self.reading.clear();
        self.link.model.borrow_mut().groups[self.group].shares.remove(&self.number);
    }

    /// Reads on in one of its partitions, from where it is.
    pub async fn read_on(&mut self) {
        let behind: Vec<Place> = {
            let model = self.link.model.borrow();
            let end = |place: &Place| model.topics[place.0].partitions[place.1 as usize].end();
            self.reading.keys().filter(|place| self.reading[*place].position < end(place)).copied().collect()
        };
        if behind.is_empty() {
            return;
        }
        let place = behind[self.link.model.borrow_mut().below(behind.len() as u64) as usize];
        let position = self.reading[&place].position;
        let Some((_, records)) = fetch(&mut self.link, place, position).await else { return };
        let mut next = position;
        match sim::batches::split(&records) {
            Ok(marks) => {
                for mark in marks {
                    // The first batch may begin before what was asked for.
                    if mark.base > next {
                        let why = format!("{place:?}: a fetch from {position} gave {} after {next}", mark.base);
                        self.link.model.borrow_mut().fail(why);
                    }
                    next = mark.last + 1;
                }
            }
            Err(why) => self.link.model.borrow_mut().fail(format!("{place:?}: {why}")),
        }
        if let Some(reading) = self.reading.get_mut(&place) {
            reading.position = next.max(position);
        }
    }

    /// Commits what it has read since the last time, of some of its partitions.
    pub async fn commit(&mut self, speaker: &Speaker) -> Committed {
        let due: Vec<(Place, i64)> = {
            let mut model = self.link.model.borrow_mut();
            let is_due = |(_, reading): &(&Place, &Reading)| reading.position > reading.committed;
            let due = self.reading.iter().filter(is_due).map(|(place, reading)| (*place, reading.position));
            let all = model.calm || model.below(2) == 0;
            due.filter(|_| all || model.below(2) == 0).collect()
        };
        if due.is_empty() {
            return Committed::Taken;
        }
        let outcome = commit(&mut self.link, self.group, self.instance, speaker, &due).await;
        if outcome == Committed::Taken {
            for (place, offset) in due {
                if let Some(reading) = self.reading.get_mut(&place) {
                    reading.committed = reading.committed.max(offset);
                }
            }
        }
        outcome
    }

    /// Begins to read partitions from where the group has read them. `member`: of a group whose coordinator assigns.
    pub async fn begin(&mut self, places: &[Place], member: Option<&Speaker>) -> Result<(), ErrorCode> {
        if places.is_empty() {
            return Ok(());
        }
        let found = offsets(&mut self.link, self.group, Some(places), member).await?;
        for place in places {
            let at = found.get(place).and_then(Option::as_ref).map_or(0, |(offset, _)| *offset);
            self.reading.insert(*place, Reading { position: at, committed: at });
        }
        Ok(())
    }
}

/// The high watermark of a partition, and its records from an offset on; none where there is no answer for now.
pub async fn fetch(link: &mut Link, place: Place, from: i64) -> Option<(i64, Vec<u8>)> {
    let (name, topic_id) = {
        let model = link.model.borrow();
        (model.topics[place.0].name, model.topics[place.0].id)
    };
    let partitions = [FetchPartition {
        partition: PartitionIndex(place.1),
        fetch_offset: Offset(from),
        partition_max_bytes: 1 << 20,
        ..Default::default()
    }];
    fetch_of(link, name, topic_id, &partitions).await
}

/// As [`fetch`], of any topic.
pub async fn fetch_of(
    link: &mut Link,
    topic: &str,
    topic_id: base::Uuid,
    partitions: &[FetchPartition],
) -> Option<(i64, Vec<u8>)> {
    let topics = [FetchTopic { topic, topic_id, partitions: partitions.into() }];
    let request = FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        replica_id: BrokerId(-1),
        topics: (&topics).into(),
        ..Default::default()
    };
    let reply = link.call(&request, Duration::ZERO).await?;
    let response: FetchResponse<'_> = reply.decode().ok()?;
    let found = response.responses.iter().find(|found| found.topic_id == topic_id)?;
    let found = found.partitions.iter().next()?;
    match found.error_code {
        ErrorCode::None => Some((found.high_watermark.0, found.records.bytes().unwrap_or_default().to_vec())),
        ErrorCode::UnknownTopicId | ErrorCode::NotLeaderOrFollower | ErrorCode::LeaderNotAvailable => None,
        code => {
            link.model.borrow_mut().fail(format!("a fetch of {topic} {partitions:?} was refused: {code:?}"));
            None
        }
    }
}

/// Commits offsets; the judge is told all about it.
pub async fn commit(
    link: &mut Link,
    group: usize,
    instance: Option<&str>,
    speaker: &Speaker,
    offsets: &[(Place, i64)],
) -> Committed {
    let (marks, begun, name) = {
        let mut model = link.model.borrow_mut();
        let at = model.now();
        let group = &mut model.groups[group];
        let begin = |&(place, offset)| group.commits.begin(place, offset, speaker.clone(), at);
        (offsets.iter().map(begin).map(|mark: usize| mark.to_string()).collect::<Vec<_>>(), at, group.name)
    };
    let mut topics: Vec<OffsetCommitRequestTopic<'_>> = Vec::new();
    let ids: Vec<_> = link.model.borrow().topics.iter().map(|topic| (topic.name, topic.id)).collect();
    for ((place, offset), mark) in offsets.iter().zip(&marks) {
        let partition = OffsetCommitRequestPartition {
            partition_index: PartitionIndex(place.1),
            committed_offset: Offset(*offset),
            committed_leader_epoch: LeaderEpoch(-1),
            committed_metadata: Some(mark),
        };
        let (name, topic_id) = ids[place.0];
        topics.push(OffsetCommitRequestTopic { name, topic_id, partitions: vec![partition].into() });
    }
    let request = OffsetCommitRequest {
        group_id: name,
        generation_id_or_member_epoch: speaker.epoch,
        member_id: &speaker.member,
        group_instance_id: instance,
        topics: topics.into(),
        ..Default::default()
    };
    let Some(reply) = link.call(&request, Duration::ZERO).await else {
        link.hit("commit without an answer");
        return Committed::Unknown;
    };
    let response: OffsetCommitResponse<'_> = reply.decode().expect("an answer of the protocol");
    let codes: Vec<ErrorCode> =
        response.topics.iter().flat_map(|topic| topic.partitions.to_vec()).map(|told| told.error_code).collect();
    let mut model = link.model.borrow_mut();
    assert_eq!(codes.len(), offsets.len(), "one answer for each");
    let told = model.now();
    let mut outcome = Committed::Taken;
    for (((place, _), mark), code) in offsets.iter().zip(&marks).zip(codes) {
        let mark = mark.parse().expect("a number");
        let finding = match code {
            ErrorCode::None => {
                model.groups[group].note_loaded(begun, told);
                model.groups[group].commits.taken(*place, mark, told)
            }
            // The step may be in the log, though its answer was not kept.
            ErrorCode::NotCoordinator => {
                outcome = Committed::Unknown;
                Ok(())
            }
            _ => {
                let is_passing = matches!(code, ErrorCode::CoordinatorLoadInProgress | ErrorCode::UnknownTopicId);
                outcome = if is_passing { Committed::Unknown } else { Committed::Refused(code) };
                model.groups[group].commits.refused(*place, mark)
            }
        };
        model.judge(group, finding);
    }
    outcome
}

/// How far a group has read these partitions, or all; the judge is told. Asks until there is an answer.
pub async fn offsets(
    link: &mut Link,
    group: usize,
    places: Option<&[Place]>,
    member: Option<&Speaker>,
) -> Result<BTreeMap<Place, Found>, ErrorCode> {
    let (name, ids) = {
        let model = link.model.borrow();
        let ids: Vec<_> = model.topics.iter().map(|topic| (topic.name, topic.id)).collect();
        (model.groups[group].name, ids)
    };
    let topic = |place: &Place| OffsetFetchRequestTopics {
        name: ids[place.0].0,
        topic_id: ids[place.0].1,
        partition_indexes: vec![PartitionIndex(place.1)].into(),
    };
    while !link.is_over() {
        let topics = places.map(|places| places.iter().map(topic).collect());
        let asked_of = OffsetFetchRequestGroup {
            group_id: name,
            member_id: member.map(|member| member.member.as_str()),
            member_epoch: member.map_or(-1, |member| member.epoch),
            topics,
        };
        let groups = [asked_of];
        let request = OffsetFetchRequest { groups: (&groups).into(), ..Default::default() };
        let asked = link.model.borrow_mut().now();
        let Some(reply) = link.call(&request, Duration::ZERO).await else { continue };
        let response: OffsetFetchResponse<'_> = reply.decode().expect("an answer of the protocol");
        let told = response.groups.iter().next().expect("one group was asked for");
        match told.error_code {
            ErrorCode::None => {}
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::NotCoordinator => {
                link.pause(100).await;
                continue;
            }
            code => return Err(code),
        }
        let mut model = link.model.borrow_mut();
        let mut found = BTreeMap::new();
        for topic in &told.topics {
            let Some(number) = model.topic_of(topic.topic_id).or_else(|| model.topic_named(topic.name)) else {
                model.fail(format!("offsets of a topic that nobody has read: {topic:?}"));
                continue;
            };
            for partition in &topic.partitions {
                let offset = partition.committed_offset.0;
                let known = (offset >= 0).then(|| (offset, partition.metadata.unwrap_or_default().to_owned()));
                found.insert((number, partition.partition_index.0), known);
            }
        }
        if places.is_none() {
            // What is not told of is not known.
            for place in model.places() {
                found.entry(place).or_insert(None);
            }
        }
        model.read_offsets(group, &found, asked);
        return Ok(found);
    }
    Ok(BTreeMap::new())
}
