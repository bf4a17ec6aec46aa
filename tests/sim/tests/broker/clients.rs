//! The clients of the simulated broker: producers that pipeline, readers, and somebody who creates and deletes topics. They run on
//! shards of a machine of their own, over the simulated network, and live through every crash of the broker.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Uuid};
use client::{Connection, ConnectionOptions, Error, Sending};
use record::Compression;
use shard::Shard;
use sim::batches::{Recipe, Stamp, placed, split};
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics::DeleteTopicState;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, FetchRequest, FetchResponse,
    InitProducerIdRequest, InitProducerIdResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
};
use wire::{ErrorCode, Records};

use crate::model::{Life, Model};

pub type SharedModel = Rc<RefCell<Model>>;

/// A client's side of everything.
#[derive(Clone)]
pub struct Client {
    pub shard: Shard,
    pub broker: SocketAddr,
    pub model: SharedModel,
}

/// A batch on its way.
struct Sent {
    recipe: Recipe,
    codec: Compression,
    bytes: Vec<u8>,
}

impl Client {
    fn options() -> ConnectionOptions {
        ConnectionOptions {
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(5),
            requests_in_flight: 16,
            ..ConnectionOptions::default()
        }
    }

    /// A connection, as soon as the broker takes one; `None` when the round is over.
    pub async fn connect(&self) -> Option<Connection> {
        loop {
            let account = self.shard.account("client");
            if let Ok(connection) = Connection::open(&self.shard, &account, self.broker, Self::options()).await {
                return Some(connection);
            }
            if self.is_over() {
                return None;
            }
            self.pause(100).await;
        }
    }

    pub fn is_over(&self) -> bool {
        let model = self.model.borrow();
        model.budget == 0 || model.broken.is_some()
    }

    pub async fn pause(&self, ms_max: u64) {
        let us = self.model.borrow_mut().below(ms_max * 1000 + 1);
        self.shard.sleep(Duration::from_micros(us)).await;
    }

    fn topic_id(&self, topic: usize) -> Option<Uuid> {
        let model = self.model.borrow();
        let topic = &model.topics[topic];
        topic.id.filter(|_| topic.life == Life::Live)
    }

    // ---- producers

    /// Writes to one partition after another, an idempotent producer on each.
    pub async fn produce_loop(self) {
        'partition: while !self.is_over() {
            let picked = self.model.borrow_mut().pick();
            let Some((topic, partition)) = picked else {
                self.pause(20).await;
                continue;
            };
            let Some(mut connection) = self.connect().await else { break };
            let Some((producer, epoch)) = self.producer_id(&connection).await else { continue };
            let mut stamp = Stamp { producer, epoch, sequence: 0 };
            let mut unanswered: VecDeque<Sent> = VecDeque::new();
            let rounds = 3 + self.model.borrow_mut().below(30);
            for _ in 0..rounds {
                if !self.fill(topic, partition, &mut stamp, &mut unanswered) {
                    break;
                }
                // What is unanswered is sent again, in order, until all is answered.
                while !unanswered.is_empty() {
                    match self.exchange(&connection, topic, partition, &mut unanswered).await {
                        Exchange::Answered => {}
                        Exchange::Again => self.pause(50).await,
                        Exchange::Reconnect => match self.connect().await {
                            Some(fresh) => {
                                connection = fresh;
                                self.model.borrow_mut().register.hit("produce sent again");
                            }
                            None => break 'partition,
                        },
                        Exchange::Over => continue 'partition,
                    }
                    if self.model.borrow().broken.is_some() {
                        break 'partition;
                    }
                }
                self.pause(3).await;
            }
        }
        self.model.borrow_mut().working -= 1;
    }

    async fn producer_id(&self, connection: &Connection) -> Option<(i64, i16)> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            producer_id: ProducerId(-1),
            producer_epoch: ProducerEpoch(-1),
        };
        let reply = connection.call(&request).await.ok()?;
        let response: InitProducerIdResponse = reply.decode().ok()?;
        let given = (response.producer_id.0, response.producer_epoch.0);
        (!response.error_code.is_error()).then_some(given)
    }

    /// New batches up to five in flight; `false` when the round or the topic is over.
    fn fill(&self, topic: usize, partition: usize, stamp: &mut Stamp, unanswered: &mut VecDeque<Sent>) -> bool {
        let mut model = self.model.borrow_mut();
        // Alone at first: a broker takes any sequence of a producer that it does not know, so the first batch must be in before the
        // second is sent.
        let count = if stamp.sequence == 0 { 1 } else { 1 + model.below(5) };
        for _ in 0..count {
            if model.topics[topic].life != Life::Live || !model.begin() {
                return !unanswered.is_empty();
            }
            let value_bytes = match model.below(60) {
                0 => 20_000 + model.below(60_000),
                1..10 => 500 + model.below(4000),
                _ => 10 + model.below(300),
            } as u32;
            let records = 1 + model.below(3) as u32;
            let timestamp = self.shard.wall();
            let recipe = Recipe { tag: model.tag(), records, value_bytes, stamp: Some(*stamp), timestamp, keys: 0 };
            stamp.sequence += records as i32;
            let codec = Model::codec_of(recipe.tag);
            let bytes = recipe.build_with(codec);
            model.topics[topic].partitions[partition].send(&bytes);
            unanswered.push_back(Sent { recipe, codec, bytes });
        }
        true
    }

    /// Sends all that is unanswered without waiting in between, then takes the answers.
    async fn exchange(
        &self,
        connection: &Connection,
        topic: usize,
        partition: usize,
        unanswered: &mut VecDeque<Sent>,
    ) -> Exchange {
        let Some(topic_id) = self.topic_id(topic) else { return Exchange::Over };
        let mut answers = Vec::new();
        for sent in unanswered.iter() {
            let data = [PartitionProduceData {
                index: PartitionIndex(partition as i32),
                records: Records::Bytes(&sent.bytes),
            }];
            let topics = [TopicProduceData { name: "", topic_id, partition_data: (&data).into() }];
            let request =
                ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 3000, topic_data: (&topics).into() };
            let Ok(slot) = connection.slot().await else { break };
            let Ok(version) = connection.version::<ProduceRequest<'_>>() else { break };
            match connection.start(slot, version, &request, Sending::default()) {
                Ok(answer) => answers.push(answer),
                Err(_) => break,
            }
        }
        let (mut in_order, mut outcome) = (true, Exchange::Answered);
        if answers.len() < unanswered.len() {
            outcome = Exchange::Reconnect;
        }
        if answers.len() > 1 {
            self.model.borrow_mut().register.hit("produce pipelined");
        }
        for answer in answers {
            let reply = match answer.wait().await {
                Ok(reply) => reply,
                Err(_) => return Exchange::Reconnect,
            };
            let Some((code, base)) = produced(&reply) else {
                self.model.borrow_mut().fail("an answer to Produce that is none");
                return Exchange::Over;
            };
            if code == ErrorCode::None && in_order {
                let sent = unanswered.pop_front().expect("one answer for each");
                self.acknowledge(topic, partition, &sent, base);
                continue;
            }
            if code == ErrorCode::None {
                // A later batch was taken, and an earlier one of its producer was not.
                self.model.borrow_mut().fail("a batch was taken after one before it was refused");
                return Exchange::Over;
            }
            let first = std::mem::replace(&mut in_order, false);
            if first {
                outcome = self.refused(topic, code);
            }
        }
        outcome
    }

    fn acknowledge(&self, topic: usize, partition: usize, sent: &Sent, base: i64) {
        let mut model = self.model.borrow_mut();
        let mark = placed(&sent.bytes, base, LeaderEpoch(0));
        let name = model.topics[topic].name.clone();
        if let Err(why) = model.topics[topic].partitions[partition].acknowledge(mark) {
            model.fail(format!("{name}-{partition}: {why} ({:?})", sent.recipe));
        }
        model.note_stored(topic, sent.codec, sent.bytes.len());
    }

    /// The first of the batches in flight was refused.
    fn refused(&self, topic: usize, code: ErrorCode) -> Exchange {
        let mut model = self.model.borrow_mut();
        match code {
            ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition
                if model.topics[topic].life != Life::Live =>
            {
                Exchange::Over
            }
            ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::RequestTimedOut
            | ErrorCode::KafkaStorageError => {
                model.register.hit("produce refused for a while");
                Exchange::Again
            }
            other => {
                let name = model.topics[topic].name.clone();
                model.fail(format!("{name}: the first batch in flight was refused: {other:?}"));
                Exchange::Over
            }
        }
    }

    // ---- readers

    /// Reads one partition after another, from some known place on.
    pub async fn read_loop(self) {
        while !self.is_over() {
            let picked = self.model.borrow_mut().pick();
            let Some((topic, partition)) = picked else {
                self.pause(20).await;
                continue;
            };
            let Some(connection) = self.connect().await else { break };
            let mut at = {
                let mut model = self.model.borrow_mut();
                let end = model.topics[topic].partitions[partition].known_end();
                model.below(end as u64 + 1) as i64
            };
            for _ in 0..20 {
                if !self.model.borrow_mut().begin() {
                    break;
                }
                match self.fetch(&connection, topic, partition, at).await {
                    Some(next) => at = next,
                    None => break,
                }
                self.pause(5).await;
            }
        }
        self.model.borrow_mut().working -= 1;
    }

    /// One fetch; where to read on. `None`: the connection or the topic is over.
    async fn fetch(&self, connection: &Connection, topic: usize, partition: usize, from: i64) -> Option<i64> {
        let topic_id = self.topic_id(topic)?;
        let wanted = self.with_ends(topic, partition, from);
        let (code, high_watermark, records) = self.fetch_once(connection, topic_id, &wanted).await.ok()?;
        let mut model = self.model.borrow_mut();
        if code != ErrorCode::None {
            let gone = model.topics[topic].life != Life::Live;
            let known = matches!(code, ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition);
            if !gone && !known && code != ErrorCode::KafkaStorageError {
                let name = model.topics[topic].name.clone();
                model.fail(format!("{name}-{partition}: a fetch from {from} was refused: {code:?}"));
            }
            return None;
        }
        let name = model.topics[topic].name.clone();
        let read = split(&records).and_then(|marks| {
            model.check_codecs(topic, &marks)?;
            let next = model.topics[topic].partitions[partition].read(from, &marks)?;
            if next > high_watermark && next > from {
                return Err(format!("a fetch from {from} gave what lies above the high watermark {high_watermark}"));
            }
            Ok(next)
        });
        match read {
            Ok(next) => {
                model.register.add("records read", (next - from) as u64);
                Some(next)
            }
            Err(why) => {
                model.fail(format!("{name}-{partition}: {why}"));
                None
            }
        }
    }

    /// A partition and where to read it; half the time with all others of its topic from their ends, so that shards wait for records
    /// together, and are told to wait no longer.
    fn with_ends(&self, topic: usize, partition: usize, from: i64) -> Vec<(usize, i64)> {
        let mut model = self.model.borrow_mut();
        let with_others = model.below(2) == 0;
        let others =
            model.topics[topic].partitions.iter().enumerate().filter(|(other, _)| with_others && *other != partition);
        let others: Vec<_> = others.map(|(other, state)| (other, state.known_end())).collect();
        std::iter::once((partition, from)).chain(others).collect()
    }

    /// The error, the high watermark and the records that one fetch gives of the first partition that it wants.
    pub async fn fetch_once(
        &self,
        connection: &Connection,
        topic_id: Uuid,
        wanted: &[(usize, i64)],
    ) -> Result<(ErrorCode, i64, Vec<u8>), Error> {
        let partition_max_bytes = [300, 10_000, 400_000][self.model.borrow_mut().below(3) as usize];
        let partition = |&(partition, from): &(usize, i64)| FetchPartition {
            partition: PartitionIndex(partition as i32),
            fetch_offset: Offset(from),
            partition_max_bytes,
            ..Default::default()
        };
        let partitions: Vec<_> = wanted.iter().map(partition).collect();
        let topics = [FetchTopic { topic: "", topic_id, partitions: partitions.as_slice().into() }];
        let request = FetchRequest {
            max_wait_ms: 100,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            replica_id: BrokerId(-1),
            topics: (&topics).into(),
            ..Default::default()
        };
        let reply = connection.call(&request).await?;
        let response: FetchResponse<'_> = reply.decode()?;
        let found = response.responses.iter().find(|topic| topic.topic_id == topic_id);
        let found = found.and_then(|topic| topic.partitions.iter().next());
        assert!(
            found.as_ref().is_none_or(|data| data.partition_index.0 as usize == wanted[0].0),
            "in the order of the request"
        );
        Ok(found.map_or((response.error_code, -1, Vec::new()), |data| {
            (data.error_code, data.high_watermark.0, data.records.bytes().unwrap_or_default().to_vec())
        }))
    }

    // ---- topics

    /// Creates topics, and deletes some.
    pub async fn admin_loop(self, topics_max: usize) {
        while !self.is_over() {
            let Some(connection) = self.connect().await else { break };
            loop {
                let (live, delete) = {
                    let mut model = self.model.borrow_mut();
                    let live = model.topics.iter().filter(|topic| topic.life == Life::Live).count();
                    (live, live >= topics_max && model.below(3) == 0)
                };
                if (delete || live < topics_max) && self.model.borrow_mut().begin() {
                    let alive = match delete {
                        true => self.delete(&connection).await,
                        false => self.create(&connection).await,
                    };
                    if !alive {
                        self.resolve().await;
                        break;
                    }
                }
                self.pause(400).await;
                if self.is_over() {
                    break;
                }
            }
        }
        self.model.borrow_mut().working -= 1;
    }

    /// `false` when nobody knows whether it was done.
    async fn create(&self, connection: &Connection) -> bool {
        let (index, name, partitions, compression) = {
            let mut model = self.model.borrow_mut();
            let index = model.new_topic();
            let topic = &model.topics[index];
            (index, topic.name.clone(), topic.partitions.len(), topic.compression)
        };
        let configs = [
            CreatableTopicConfig { name: "segment.bytes", value: Some("1048576") },
            CreatableTopicConfig { name: "compression.type", value: Some(compression) },
        ];
        let topics = [CreatableTopic {
            name: &name,
            num_partitions: partitions as i32,
            replication_factor: 1,
            configs: (&configs).into(),
            ..Default::default()
        }];
        let request = CreateTopicsRequest { topics: (&topics).into(), timeout_ms: 3000, validate_only: false };
        let Ok(reply) = connection.call(&request).await else { return false };
        let Ok(response) = reply.decode::<CreateTopicsResponse<'_>>() else { return false };
        let result = response.topics.iter().next().map(|result| (result.error_code, result.topic_id));
        let mut model = self.model.borrow_mut();
        match result {
            Some((ErrorCode::None, id)) => {
                model.topics[index].id = Some(id);
                model.topics[index].life = Life::Live;
                model.recreated |= model.topics[..index].iter().any(|topic| topic.name == name);
                true
            }
            Some((ErrorCode::RequestTimedOut | ErrorCode::KafkaStorageError, _)) | None => false,
            Some((code, _)) => {
                model.fail(format!("creating {name} was refused: {code:?}"));
                false
            }
        }
    }

    async fn delete(&self, connection: &Connection) -> bool {
        let picked = self.model.borrow_mut().pick();
        let Some((index, _)) = picked else { return true };
        let Some(topic_id) = self.topic_id(index) else { return true };
        self.model.borrow_mut().topics[index].life = Life::Deleting;
        let topics = [DeleteTopicState { name: None, topic_id }];
        let request = DeleteTopicsRequest { topics: (&topics).into(), timeout_ms: 3000, ..Default::default() };
        let Ok(reply) = connection.call(&request).await else { return false };
        let Ok(response) = reply.decode::<DeleteTopicsResponse<'_>>() else { return false };
        let code = response.responses.iter().next().map(|result| result.error_code);
        let mut model = self.model.borrow_mut();
        match code {
            Some(ErrorCode::None) => {
                model.topics[index].life = Life::Gone;
                model.register.hit("topic deleted");
                true
            }
            Some(ErrorCode::RequestTimedOut | ErrorCode::KafkaStorageError) | None => false,
            Some(code) => {
                model.fail(format!("deleting {topic_id} was refused: {code:?}"));
                false
            }
        }
    }

    /// Asks which topics there are, so that what is in doubt is settled, and what is not is held against it.
    async fn resolve(&self) {
        loop {
            let Some(connection) = self.connect().await else { return };
            match self.settle_topics(&connection, false).await {
                Ok(()) => return,
                Err(_) if self.is_over() => return,
                Err(_) => self.pause(50).await,
            }
        }
    }

    /// # Errors
    /// No answer came.
    pub async fn settle_topics(&self, connection: &Connection, restarted: bool) -> Result<(), Error> {
        let request = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let reply = connection.call(&request).await?;
        let response: MetadataResponse<'_> = reply.decode()?;
        let found: Vec<(String, Uuid, usize)> = response
            .topics
            .iter()
            .filter(|topic| topic.error_code == ErrorCode::None && !topic.is_internal)
            .filter_map(|topic| Some((topic.name?.to_owned(), topic.topic_id, topic.partitions.len())))
            .collect();
        self.model.borrow_mut().settle(&found, restarted);
        Ok(())
    }
}

/// What became of a round of requests.
enum Exchange {
    /// All that was sent is answered.
    Answered,
    /// Some were refused for a reason that passes.
    Again,
    Reconnect,
    /// The topic is gone, or a promise is broken.
    Over,
}

fn produced(reply: &client::Reply) -> Option<(ErrorCode, i64)> {
    let response: ProduceResponse<'_> = reply.decode().ok()?;
    let partition = response.responses.iter().next()?.partition_responses.iter().next()?;
    Some((partition.error_code, partition.base_offset.0))
}
