//! `kill -9` under load, again and again, with another number of shards each time: nothing acknowledged is lost, nothing is twice.
//!
//! `KILL_ROUNDS` is the number of rounds (10), `KILL_SEED` decides what is drawn: what is written where, and at how many acknowledged
//! records the broker is killed. What the threads and the kernel make of it is not repeated by a seed.

use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Random};
use client::{NewTopic, ProducerOptions};
use e2e::broker::{Broker, Launch};
use e2e::churn::Churn;
use e2e::ledger::{Ledger, Promise, Violation};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard, within};
use record::Compression;
use shard::{Shard, Task};

/// The smallest journals, so that they come round; memory for four shards.
const CONFIG: &str = "journal-bytes = 33554432\nmemory-bytes = 536870912\n";

/// Shards of each start, in turn.
const SHARDS: [u16; 5] = [4, 2, 3, 4, 1];

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn kill_9_under_load() {
    let rounds = setting("KILL_ROUNDS").unwrap_or(10);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).shards(SHARDS[0]).config(CONFIG);
    on_shard(move |shard| async move {
        let seed = setting("KILL_SEED").unwrap_or_else(|| shard.random());
        println!("kill -9: {rounds} rounds, KILL_SEED={seed}");
        Rounds::start(&shard, launch, seed).await.run(rounds).await;
    });
}

/// A topic of everyday segments, and one whose segments roll all the time.
fn topics() -> [LoadTopic; 2] {
    [
        LoadTopic { name: "wide".into(), generation: 0, partitions: 12 },
        LoadTopic { name: "rolling".into(), generation: 0, partitions: 6 },
    ]
}

async fn create_topics(shard: &Shard, kafka: &str) {
    for topic in topics() {
        let configs = match &*topic.name {
            "rolling" => vec![("internal.segment.bytes".to_owned(), "100000".to_owned())],
            _ => Vec::new(),
        };
        let (name, partition_count) = (topic.name.to_string(), Some(topic.partitions));
        let new = NewTopic { name, partition_count, configs, ..NewTopic::default() };
        client(shard, kafka).create_topic(&new, false).await.expect("the topic is created");
    }
}

struct Rounds {
    shard: Shard,
    launch: Launch,
    broker: Option<Broker>,
    load: Rc<Load>,
    churn: Rc<Churn>,
    random: Random,
    /// What lasts over all rounds; dropping a task would only detach it.
    tasks: Vec<Task<()>>,
}

impl Rounds {
    async fn start(shard: &Shard, mut launch: Launch, seed: u64) -> Self {
        let starting = launch.clone();
        let broker = shard.offload(move || starting.start()).await;
        // Clients find the broker where it was.
        launch = launch.listen(&broker.kafka);
        create_topics(shard, &broker.kafka).await;
        let load = Load::new(shard, Ledger::default());
        let churn = Churn::new(&load);
        let mut random = Random::new(seed);
        let mut tasks =
            vec![load.start_reader(&broker.kafka, &topics()), churn.start(&broker.kafka, random.next_u64())];
        for compression in [Compression::None, Compression::Lz4] {
            let options = ProducerOptions { compression, batch_bytes: 32 << 10, ..ProducerOptions::default() };
            let seed = random.next_u64();
            tasks.push(load.start_producer(&broker.kafka, &topics(), options, seed, Promise::Settles));
        }
        Self { shard: shard.clone(), launch, broker: Some(broker), load, churn, random, tasks }
    }

    async fn run(mut self, rounds: u64) {
        for round in 1..=rounds {
            let (target, took) = self.round(round).await;
            let audited = self.audit().await;
            let ledger = self.load.ledger.borrow();
            println!(
                "round {round}: killed at {target} acknowledged, back with {} shards in {:?}; {} of {} records acknowledged, \
                 {audited} audited; {} operations on topics",
                self.launch.shards,
                took,
                ledger.acknowledged(),
                ledger.sent(),
                self.churn.operations(),
            );
        }
        self.end().await;
    }

    fn kafka(&self) -> String {
        self.launch.listen.clone()
    }

    /// Load until so many records are acknowledged; then the end of the broker, and another in its place.
    async fn round(&mut self, round: u64) -> (u64, Duration) {
        self.load.set_open(true);
        let mut transient = Vec::new();
        for compression in [Compression::Zstd, Compression::Snappy] {
            let options = ProducerOptions { compression, linger: Duration::ZERO, ..ProducerOptions::default() };
            let (kafka, seed) = (self.kafka(), self.random.next_u64());
            transient.push(self.load.start_producer(&kafka, &topics(), options, seed, Promise::Transient));
        }
        let more = 200 << self.random.below(8);
        let target = self.load.ledger.borrow().acknowledged() + more + self.random.below(more);
        self.load.until(60, "records are acknowledged", |ledger| ledger.acknowledged() >= target).await;

        let broker = self.broker.take().expect("one runs");
        self.shard.offload(move || broker.kill()).await;
        // Counted once it is dead: what began before may have been carried out unanswered, what begins now can't.
        self.churn.kill();
        transient.into_iter().for_each(Task::cancel);
        let turn = usize::try_from(round).expect("few rounds") % SHARDS.len();
        self.launch = self.launch.shards(SHARDS[turn]);
        if round.is_multiple_of(3) {
            // Once more, just when recovery has written its manifests and no store is open yet.
            let launch = self.launch.shards(SHARDS[(turn + 1) % SHARDS.len()]);
            self.shard.offload(move || launch.start_and_kill_at("recovered")).await;
        }
        self.load.set_open(false);
        let (launch, started): (_, Instant) = (self.launch.clone(), self.shard.now());
        self.broker = Some(self.shard.offload(move || launch.start()).await);
        (target, self.shard.now().since(started))
    }

    /// Everything there must be is there, and no other topic. Returns how many records were read.
    async fn audit(&self) -> u64 {
        let _pause = self.churn.pause().await;
        let kafka = self.kafka();
        let present = self.churn.present();
        let found = client(&self.shard, &kafka).topics().await.expect("topics are listed");
        let found: Vec<_> = found.into_iter().filter(|topic| !topic.is_internal).collect();
        let mut expected: Vec<LoadTopic> = topics().to_vec();
        expected.extend(present.iter().map(|present| present.topic.clone()));
        expected.sort_by(|a, b| a.name.cmp(&b.name));
        let named = |name: &str, partitions: usize| format!("{name}/{partitions}");
        let found_names: Vec<_> = found.iter().map(|topic| named(&topic.name, topic.partitions.len())).collect();
        let names: Vec<_> =
            expected.iter().map(|t| named(&t.name, usize::try_from(t.partitions).unwrap_or(0))).collect();
        assert_eq!(found_names, names, "topics and their partitions");
        for topic in &present {
            let id = found.iter().find(|found| found.name == topic.topic.name).map(|found| found.id);
            assert!(topic.id.is_none() || topic.id == id, "{}: {:?} became {id:?}", topic.topic.name, topic.id);
        }
        let mut records = 0;
        for topic in &expected {
            match within(&self.shard, 60, "a log is read to its end", self.load.audit(&kafka, topic)).await {
                Ok(count) => records += count,
                Err(Violation(what)) => panic!("{what}"),
            }
            self.load.check();
        }
        records
    }

    /// Everything that was to be delivered is; and it is there after an ordinary stop and start, too.
    async fn end(mut self) {
        self.load.set_open(false);
        let pause = self.churn.pause().await;
        self.load.until(60, "every record is acknowledged", Ledger::is_settled).await;
        drop(pause);
        self.audit().await;
        let pause = self.churn.pause().await;
        self.tasks.drain(..).for_each(Task::cancel);
        drop(pause);
        let broker = self.broker.take().expect("one runs");
        let status = self.shard.offload(move || broker.stop()).await;
        assert!(status.success(), "SIGTERM: {status}");
        let launch = self.launch.shards(1);
        self.broker = Some(self.shard.offload(move || launch.start()).await);
        let records = self.audit().await;
        let (acknowledged, kafka) = (self.load.ledger.borrow().acknowledged(), self.kafka());
        println!("end: {records} records in the logs of {kafka}, {acknowledged} acknowledged over all rounds");
        let broker = self.broker.take().expect("one runs");
        assert!(self.shard.offload(move || broker.stop()).await.success());
    }
}
