//! Hostile input over real sockets: whatever peers send, do not send, or do not take, the broker answers or closes, stays within its memory,
//! says little about it, and keeps every promise to a client that behaves.
//!
//! `HOSTILE_SEED` decides what is made up; it is printed.

mod attacks;
mod bodies;
mod peer;

use std::future::Future;
use std::rc::Rc;

use base::Random;
use client::{NewTopic, ProducerOptions};
use e2e::broker::{Broker, Launch};
use e2e::ledger::{Ledger, Promise};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shard::Shard;

const TOPIC: &str = "t";
const PARTITIONS: i32 = 4;
const IDLE: usize = 10_000;
const IDLE_BYTES_MAX: u64 = 8 << 10;
/// Lines about peers are few, whatever they do.
const LOG_BYTES_MAX: usize = 256 << 10;
/// Records that a client which behaves has acknowledged in each part of the test.
const RECORDS_EACH: u64 = 2000;

fn topic() -> LoadTopic {
    LoadTopic { name: TOPIC.into(), generation: 0, partitions: PARTITIONS }
}

fn seed(shard: &Shard) -> u64 {
    let given = std::env::var("HOSTILE_SEED").ok();
    given.map_or_else(|| shard.random(), |text| text.parse().expect("HOSTILE_SEED is a number"))
}

/// Ten thousand sockets of ours.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
}

struct Siege {
    shard: Shard,
    broker: Broker,
    load: Rc<Load>,
    memory_bytes: u64,
    /// Connections of the client that behaves.
    own: usize,
}

impl Siege {
    /// An attack while the load goes on; after it the load must go on too, while what the attack left there is still held.
    async fn under<T: Send + 'static>(&self, what: &str, attack: impl FnOnce(String) -> T + Send + 'static) -> T {
        let kafka = self.broker.kafka.clone();
        let started = self.shard.now();
        let held = self.shard.offload(move || attack(kafka)).await;
        self.goes_on(what).await;
        println!(
            "{what}: {} ms, {} MiB resident, {} MiB at most, {} connections",
            self.shard.now().since(started).as_millis(),
            self.broker.proc_number("status", "VmRSS") >> 10,
            self.broker.proc_number("status", "VmHWM") >> 10,
            self.connections(),
        );
        let most = self.broker.proc_number("status", "VmHWM") << 10;
        assert!(most <= self.memory_bytes, "{what}: {} MiB resident", most >> 20);
        held
    }

    async fn goes_on(&self, what: &str) {
        let due = self.load.ledger.borrow().acknowledged() + RECORDS_EACH;
        self.load.until(60, &format!("{what}: the load goes on"), |ledger| ledger.acknowledged() >= due).await;
    }

    /// What the kernel counts as open towards the broker, on its side.
    fn connections(&self) -> usize {
        let port = self.broker.kafka.rsplit_once(':').expect("HOST:PORT").1.parse::<u16>().expect("a port");
        let local = format!(":{port:04X}");
        let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", self.broker.pid())).expect("the broker runs");
        let established = |line: &&str| {
            let mut words = line.split_whitespace().skip(1);
            words.next().is_some_and(|at| at.ends_with(&local)) && words.nth(1) == Some("01")
        };
        table.lines().filter(established).count()
    }

    /// Once what an attack held is dropped, so is what the broker held for it.
    async fn until_connections_fall(&self) {
        for _ in 0..1000 {
            if self.connections() <= self.own {
                return;
            }
            self.goes_on("while connections end").await;
        }
        panic!("{} connections are left, where {} were expected", self.connections(), self.own);
    }
}

/// A broker under attack, with a client that behaves beside it; its records are judged in the end.
fn besieged<F: Future<Output = Siege> + 'static>(
    memory_bytes: u64,
    attack: impl FnOnce(Siege, u64) -> F + Send + 'static,
) {
    raise_open_files();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data"))
        .config(&format!("journal-bytes = 33554432\nmemory-bytes = {memory_bytes}\n"));
    on_shard(move |shard| async move {
        let seed = seed(&shard);
        println!("HOSTILE_SEED={seed}");
        let broker = launch.start();
        let new = NewTopic { name: TOPIC.into(), partition_count: Some(PARTITIONS), ..NewTopic::default() };
        client(&shard, &broker.kafka).create_topic(&new, false).await.expect("the topic is created");
        let load = Load::new(&shard, Ledger::default());
        let (kafka, options) = (broker.kafka.clone(), ProducerOptions::default());
        let tasks = [
            load.start_producer(&kafka, &[topic()], options, shard.random(), Promise::Settles),
            load.start_reader(&kafka, &[topic()]),
        ];
        let mut siege = Siege { shard: shard.clone(), broker, load: load.clone(), memory_bytes, own: 0 };
        siege.goes_on("before").await;
        siege.own = siege.connections();

        let siege = attack(siege, seed).await;

        siege.until_connections_fall().await;
        load.set_open(false);
        load.until(60, "every record is acknowledged", Ledger::is_settled).await;
        let audited = load.audit(&kafka, &topic()).await.expect("every promise is kept");
        println!("{audited} records audited, {} acknowledged", load.ledger.borrow().acknowledged());
        tasks.into_iter().for_each(shard::Task::cancel);
        let log = siege.broker.log();
        println!("{} bytes of log", log.len());
        assert!(!log.contains("panicked"), "{log}");
        assert!(log.len() <= LOG_BYTES_MAX, "{} bytes of log", log.len());
        assert!(shard.offload(move || siege.broker.stop()).await.success());
    });
}

#[test]
fn the_broker_answers_or_closes_and_stays_within_its_memory() {
    besieged(256 << 20, |siege, seed| async move {
        siege.under("bytes and lengths", move |kafka| attacks::bytes_and_lengths(&kafka, &mut Random::new(seed))).await;
        let every_api = move |kafka: String| attacks::every_api(&kafka, &mut Random::new(seed ^ 1));
        let count = siege.under("every API", every_api).await;
        println!("{count} requests of every API and version");
        let greedy = |kafka: String| attacks::greedy(&kafka, &[4 << 10, 40 << 10, 200 << 10, 2 << 20]);
        let answered = siege.under("greedy requests", greedy).await;
        assert!(answered >= 20, "{answered} answered: the short ones among them are within every limit");
        siege.until_connections_fall().await;

        let half = siege.under("half frames", |kafka| attacks::half_frames(&kafka, 2000)).await;
        siege.under("slow senders beside them", |kafka| attacks::slow_senders(&kafka, 500)).await;
        drop(half);
        let stopped = siege.under("slow readers", |kafka| attacks::slow_readers(&kafka, 100)).await;
        siege.under("a storm beside them", |kafka| attacks::storm(&kafka, 20_000)).await;
        drop(stopped);
        siege
    });
}

#[test]
fn ten_thousand_idle_connections_are_served() {
    besieged(512 << 20, |siege, seed| async move {
        // With the load held back, so that what it touches is not counted.
        siege.load.set_open(false);
        siege.load.until(60, "every record is acknowledged", Ledger::is_settled).await;
        let before = siege.broker.proc_number("status", "VmRSS");
        let kafka = siege.broker.kafka.clone();
        let idle = siege.shard.offload(move || attacks::idle(&kafka, IDLE)).await;
        let each = (siege.broker.proc_number("status", "VmRSS").saturating_sub(before) << 10) / IDLE as u64;
        println!("{each} bytes for an idle connection");
        siege.load.set_open(true);
        siege.under("10,000 idle connections", |_| ()).await;
        assert!(each <= IDLE_BYTES_MAX, "{each} bytes for an idle connection");
        let bytes = move |kafka: String| attacks::bytes_and_lengths(&kafka, &mut Random::new(seed));
        siege.under("bytes and lengths beside them", bytes).await;
        drop(idle);
        siege
    });
}
