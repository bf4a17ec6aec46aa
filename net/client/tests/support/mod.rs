//! A scripted cluster in a small world in memory: brokers with real logs in vectors, and a hook that may answer instead of them.
#![allow(dead_code, reason = "each test file uses its part")]

mod broker;
#[path = "../../../../shard/tests/support/mod.rs"]
pub mod memory;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, PartitionIndex};
use client::{Client, ClientOptions, RetryOptions};
use memory::Worlds;
use record::{BatchView, Batches};
use shard::{Class, Shard, Slice};
use wire::{ApiKey, Message, RequestHeader, encode_response};

pub use broker::serve;

/// A request that came to a broker.
pub struct Incoming {
    pub broker: BrokerId,
    /// Counts the connections of the whole cluster.
    pub connection: usize,
    pub key: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    pub frame: Slice,
    pub body_at: usize,
}

impl Incoming {
    /// A whole answer frame, length included.
    pub fn answer<'a, M: Message<'a>>(&self, message: &M) -> Vec<u8> {
        let frame = encode_response(self.version, self.correlation_id, message, Vec::new());
        frame.expect("an answer at a served version").into_structure()
    }

    pub fn decode<'a, M: Message<'a>>(&'a self) -> M {
        let mut decoder = wire::Decoder::new(&self.frame);
        decoder.take(self.body_at).expect("the header was read");
        M::decode_exact(decoder, self.version).expect("the client sends what it should")
    }
}

/// What becomes of a request.
pub enum Reaction {
    /// The broker does its work and answers.
    Serve,
    /// The broker does its work and answers later.
    ServeAfter(Duration),
    /// These bytes are the answer; nothing is done.
    Answer(Vec<u8>),
    /// The connection ends before anything is done.
    HangUp,
    /// The broker does its work, and the connection ends before the answer.
    ServeAndHangUp,
    /// Nothing is done and nothing said.
    Ignore,
    /// The broker does its work, and its answer is damaged on the way, as the seed says.
    Mangle(u64),
}

/// What stands in a partition.
#[derive(Default)]
pub struct Log {
    pub leader: i32,
    pub epoch: i32,
    pub start: i64,
    pub end: i64,
    pub batches: Vec<Vec<u8>>,
    /// Of each producer id: its last batches as (first sequence, last sequence, base offset).
    pub producers: BTreeMap<i64, Vec<(i32, i32, i64)>>,
}

impl Log {
    /// Forgets the batches from the offset on, and what the producers wrote there.
    pub fn truncate(&mut self, end: i64) {
        self.batches.retain(|batch| BatchView::parse(batch).expect("stored").base_offset().0 < end);
        self.producers.values_mut().for_each(|batches| batches.retain(|(.., base)| *base < end));
        self.end = end;
    }

    /// The values of all records, in order; checks that offsets are contiguous.
    pub fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        let mut next = self.start;
        for batch in self.batches.iter().map(|batch| BatchView::parse(batch).expect("stored")) {
            assert!(batch.has_valid_crc());
            let decoded = record::decode_records(&batch, 1 << 24).expect("stored");
            for record in decoded.records() {
                let record = record.expect("stored");
                assert_eq!(record.offset.0, next);
                next += 1;
                values.push(String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned());
            }
        }
        values
    }
}

pub type Hook = Box<dyn FnMut(&mut Cluster, &Incoming) -> Reaction>;

/// The whole cluster.
pub struct Cluster {
    pub shard: Shard,
    pub addresses: Vec<SocketAddr>,
    pub logs: BTreeMap<(String, i32), Log>,
    pub topic_ids: BTreeMap<String, u8>,
    /// The versions told by ApiVersions; others are served up to what this build knows.
    pub versions: BTreeMap<i16, (i16, i16)>,
    pub hook: Hook,
    pub throttle_ms: i32,
    pub connections: usize,
    pub next_producer_id: i64,
    pub sessions: BTreeMap<i32, broker::FetchSession>,
    /// What came in, in order.
    pub requests: Vec<(ApiKey, i16)>,
}

pub type Shared = Rc<RefCell<Cluster>>;

impl Cluster {
    pub fn log(&mut self, topic: &str, partition: i32) -> &mut Log {
        self.logs.get_mut(&(topic.to_owned(), partition)).expect("the test made it")
    }

    /// Adds a topic; partition `n` is led by broker `n` modulo their number.
    pub fn add_topic(&mut self, name: &str, partitions: i32) {
        let brokers = i32::try_from(self.addresses.len()).expect("few");
        for partition in 0..partitions {
            let log = Log { leader: partition % brokers, epoch: 1, ..Log::default() };
            self.logs.insert((name.to_owned(), partition), log);
        }
        let id = u8::try_from(self.topic_ids.len()).expect("few") + 1;
        self.topic_ids.insert(name.to_owned(), id);
    }

    pub fn lead(&mut self, topic: &str, partition: i32, leader: i32) {
        let log = self.log(topic, partition);
        (log.leader, log.epoch) = (leader, log.epoch + 1);
    }

    /// Appends records of one byte each, as one batch.
    pub fn fill(&mut self, topic: &str, partition: i32, records: usize, compression: record::Compression) {
        let log = self.log(topic, partition);
        let (base_offset, leader_epoch) = (base::Offset(log.end), LeaderEpoch(log.epoch));
        let options = record::BatchOptions { base_offset, leader_epoch, compression, ..Default::default() };
        let mut builder = record::BatchBuilder::new(options);
        for index in 0..records {
            let value = format!("{}", log.end + index as i64);
            let headers = [record::Header { key: b"h", value: None }];
            builder.add(base::WallTime(index as i64), None, Some(value.as_bytes()), &headers).expect("small");
        }
        log.batches.push(builder.finish().expect("has records"));
        log.end += records as i64;
    }
}

/// Runs `test` against a cluster of so many brokers, with a client of it, in virtual time.
pub fn run<F: Future<Output = ()> + 'static>(brokers: i32, test: impl FnOnce(Shared, Client) -> F) {
    run_with(brokers, |_| {}, test);
}

/// As [`run`], with a change to the client's options.
pub fn run_with<F: Future<Output = ()> + 'static>(
    brokers: i32,
    change: impl FnOnce(&mut ClientOptions),
    test: impl FnOnce(Shared, Client) -> F,
) {
    let world = Worlds::default();
    let shard = world.shard(0);
    let cluster = Rc::new(RefCell::new(Cluster {
        shard: shard.clone(),
        addresses: Vec::new(),
        logs: BTreeMap::new(),
        topic_ids: BTreeMap::new(),
        versions: broker::all_versions(),
        hook: Box::new(|_, _| Reaction::Serve),
        throttle_ms: 0,
        connections: 0,
        next_producer_id: 100,
        sessions: BTreeMap::new(),
        requests: Vec::new(),
    }));
    let starting = cluster.clone();
    shard.run({
        let shard = shard.clone();
        async move {
            for id in 0..brokers {
                let listener = shard.listen(([127, 0, 0, 1], 0).into()).await.expect("listens");
                starting.borrow_mut().addresses.push(listener.local_addr());
                let task = serve(starting.clone(), BrokerId(id), listener);
                drop(shard.spawn(Class::Normal, shard.account("broker"), task));
            }
        }
    });
    let bootstrap = vec![cluster.borrow().addresses[0].to_string()];
    let mut options = ClientOptions::new(bootstrap);
    options.timeout = Duration::from_secs(20);
    options.connection.request_timeout = Duration::from_secs(2);
    options.retry = RetryOptions { delay_min: Duration::from_millis(10), delay_max: Duration::from_millis(200) };
    options.unknown_topic_wait = Duration::from_millis(100);
    change(&mut options);
    let client = Client::new(&shard, options);
    shard.run(test(cluster, client));
    shard.shutdown();
}

pub fn index(partition: i32) -> PartitionIndex {
    PartitionIndex(partition)
}

/// All batches of a run of bytes, as (base offset, last offset).
pub fn extents(run: &[u8]) -> Vec<(i64, i64)> {
    Batches::new(run).flatten().map(|batch| (batch.base_offset().0, batch.last_offset().0)).collect()
}

/// Reads a request's header.
pub fn header_of(frame: &[u8]) -> (ApiKey, i16, i32, usize) {
    let mut decoder = wire::Decoder::new(frame);
    let header = RequestHeader::decode(&mut decoder).expect("the client sends headers");
    (header.api_key, header.api_version, header.correlation_id, decoder.position())
}
