//! A full disk is a state, not a crash: on a small file system of its own, which ends with the test's process.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use base::{Offset, PartitionIndex};
use client::{Client, Consumer, ConsumerOptions, NewTopic, ProducerOptions};
use e2e::broker::{Broker, Launch};
use e2e::ledger::{Ledger, Promise, Violation};
use e2e::load::{Load, LoadTopic};
use e2e::namespace::scratch_inside;
use e2e::runner::{client, on_shard, within};
use e2e::small_disk::{fill_to_the_last_byte, is_full, mount, probe};
use shard::{Shard, Task};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

const DISK_MIB: u64 = 600;
const CONFIG: &str = "journal-bytes = 33554432\ndisk-reserve-bytes = 67108864\n";
const RECORD_BYTES: usize = 16 << 10;

#[test]
fn a_full_disk_refuses_and_resumes() {
    let Some(dir) = scratch_inside("a_full_disk_refuses_and_resumes", &[]) else { return };
    let disk = dir.join("disk");
    mount(&dir, &disk, DISK_MIB);
    let launch = Launch::new(disk.join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let mut disk = Disk::start(&shard, launch).await;
        disk.fill().await;
        disk.read_on("full").await;
        disk.restart(Broker::kill).await;
        disk.read_on("full, after kill -9").await;
        disk.restart(|broker| assert!(broker.stop().success(), "an ordinary end")).await;
        disk.read_on("full, after SIGTERM").await;
        disk.make_room().await;
        disk.end().await;
    });
}

/// `kept` must hold what was acknowledged to the end; `filler` is what takes the space, and goes.
fn topic(name: &str) -> LoadTopic {
    LoadTopic { name: name.into(), generation: 0, partitions: 4 }
}

struct Disk {
    shard: Shard,
    launch: Launch,
    broker: Option<Broker>,
    load: Rc<Load>,
    kept: Task<()>,
    filler: Option<Task<()>>,
}

impl Disk {
    async fn start(shard: &Shard, launch: Launch) -> Self {
        let starting = launch.clone();
        let broker = shard.offload(move || starting.start()).await;
        let kafka = broker.kafka.clone();
        for name in ["kept", "filler", "probe"] {
            let configs = vec![("segment.bytes".to_owned(), (16 << 20).to_string())];
            let new = NewTopic { name: name.into(), partition_count: Some(4), configs, ..NewTopic::default() };
            client(shard, &kafka).create_topic(&new, false).await.expect("the topic is created");
        }
        let load = Load::new(shard, Ledger::of_records(RECORD_BYTES));
        let start = |name, promise| {
            load.start_producer(&kafka, &[topic(name)], ProducerOptions::default(), shard.random(), promise)
        };
        let (kept, filler) = (start("kept", Promise::Settles), Some(start("filler", Promise::Transient)));
        Self { shard: shard.clone(), launch: launch.listen(&kafka), broker: Some(broker), load, kept, filler }
    }

    fn client(&self) -> Client {
        client(&self.shard, &self.launch.listen)
    }

    /// Whether a topic nobody else writes to takes no record.
    async fn is_full(&self) -> bool {
        let full = is_full(&self.client(), "probe", 4).await;
        self.load.check();
        full
    }

    async fn fill(&self) {
        let full = async { while !self.is_full().await {} };
        within(&self.shard, 90, "the disk is full", full).await;
        let acknowledged = self.load.ledger.borrow().acknowledged();
        println!("full: {acknowledged} records of {RECORD_BYTES} bytes on {DISK_MIB} MiB");
        // Most of the disk is records, and the broker did not take itself to be full at once.
        assert!(acknowledged * RECORD_BYTES as u64 > (DISK_MIB << 20) / 2);
    }

    async fn read_on(&self, state: &str) {
        for name in ["kept", "filler"] {
            let topic = topic(name);
            let audit = self.load.audit(&self.launch.listen, &topic);
            match within(&self.shard, 60, "a log is read to its end", audit).await {
                Ok(records) => println!("{state}: {records} records of {name}"),
                Err(Violation(what)) => panic!("{what}"),
            }
        }
        assert!(self.is_full().await, "nothing was removed yet");
    }

    async fn restart(&mut self, end: fn(Broker)) {
        let (broker, launch) = (self.broker.take().expect("one runs"), self.launch.clone());
        self.broker = Some(
            self.shard
                .offload(move || {
                    end(broker);
                    launch.start()
                })
                .await,
        );
    }

    /// Deleting a topic is enough: what waits for room goes on by itself.
    async fn make_room(&mut self) {
        self.filler.take().expect("not yet ended").cancel();
        let before = self.load.ledger.borrow().acknowledged();
        self.client().delete_topic("filler").await.expect("topics can be deleted on a full disk");
        self.load.until(30, "produce resumes", |ledger| ledger.acknowledged() > before + 100).await;
    }

    async fn end(mut self) {
        self.load.set_open(false);
        self.load.until(60, "what waited is acknowledged", Ledger::is_settled).await;
        self.kept.cancel();
        for _ in 0..2 {
            let (broker, launch) = (self.broker.take().expect("one runs"), self.launch.clone());
            let stopped = self.shard.offload(move || broker.stop()).await;
            assert!(stopped.success(), "{stopped}");
            self.broker = Some(self.shard.offload(move || launch.start()).await);
            let audit = self.load.audit(&self.launch.listen, &topic("kept")).await;
            println!("end: {audit:?} records of kept");
            assert!(audit.is_ok());
        }
        let broker = self.broker.take().expect("one runs");
        assert!(self.shard.offload(move || broker.stop()).await.success());
    }
}

/// Small files on a smaller disk; retention is looked at all the time.
const SMALL_CONFIG: &str =
    "journal-bytes = 33554432\ndisk-reserve-bytes = 16777216\nretention-check-interval-ms = 200\n";
const LARGE_RECORD_BYTES: usize = 512 << 10;

async fn create_topic(client: &Client, name: &str, partitions: i32) {
    let configs = vec![("segment.bytes".to_owned(), (1 << 20).to_string())];
    let new = NewTopic { name: name.into(), partition_count: Some(partitions), configs, ..NewTopic::default() };
    client.create_topic(&new, false).await.expect("the topic is created");
}

/// Writes large records until every partition refuses them.
async fn fill(client: &Client, topic: &str) {
    let full = async { while probe(client, topic, 4, LARGE_RECORD_BYTES).await.iter().any(Result::is_ok) {} };
    within(client.shard(), 60, "the disk is full", full).await;
    assert!(is_full(client, "probe", 1).await);
}

/// By itself, for whoever tries again.
async fn resumes(client: &Client, why: &str) {
    let open = async { while is_full(client, "probe", 1).await {} };
    within(client.shard(), 30, why, open).await;
}

async fn set(client: &Client, topic: &str, name: &str, value: &str) {
    client
        .alter_topic(topic, &[(name.to_owned(), Some(value.to_owned()))], false)
        .await
        .expect("settings can be changed on a full disk");
}

/// All there is of a topic.
async fn delete_records(client: &Client, topic: &str) {
    let (broker, _) = client.leader(topic, PartitionIndex(0)).await.expect("it has a leader");
    let partitions: Vec<_> = (0..4)
        .map(|index| DeleteRecordsPartition { partition_index: PartitionIndex(index), offset: Offset(-1) })
        .collect();
    let topics = [DeleteRecordsTopic { name: topic, partitions: (&partitions[..]).into() }];
    let request = DeleteRecordsRequest { topics: (&topics[..]).into(), timeout_ms: 30_000 };
    let reply = client.call(broker, &request).await.expect("an answer");
    let response: DeleteRecordsResponse<'_> = reply.decode().expect("one that can be read");
    for topic in &response.topics {
        for partition in &topic.partitions {
            assert!(!partition.error_code.is_error(), "{:?}", partition.error_code);
        }
    }
}

#[test]
fn whatever_is_deleted_is_room_again_without_a_restart() {
    let Some(dir) = scratch_inside("whatever_is_deleted_is_room_again_without_a_restart", &[]) else { return };
    let disk = dir.join("disk");
    mount(&dir, &disk, 160);
    let launch = Launch::new(disk.join("data")).shards(1).config(SMALL_CONFIG);
    on_shard(move |shard| async move {
        let starting = launch.clone();
        let broker = shard.offload(move || starting.start()).await;
        let client = client(&shard, &broker.kafka);
        create_topic(&client, "probe", 1).await;
        create_topic(&client, "filler", 4).await;
        fill(&client, "filler").await;
        delete_records(&client, "filler").await;
        resumes(&client, "DeleteRecords").await;
        for (setting, value) in [("retention.bytes", "1"), ("retention.ms", "1")] {
            fill(&client, "filler").await;
            set(&client, "filler", setting, value).await;
            resumes(&client, setting).await;
            set(&client, "filler", setting, "-1").await;
        }
        fill(&client, "filler").await;
        client.delete_topic("filler").await.expect("topics can be deleted on a full disk");
        resumes(&client, "DeleteTopics").await;
        assert!(shard.offload(move || broker.stop()).await.success());
    });
}

/// Reads something of each partition.
async fn read_each(client: &Client, topic: &str, partitions: i32) {
    let consumer = Consumer::new(client, ConsumerOptions::default());
    (0..partitions).for_each(|partition| consumer.assign_at(topic, PartitionIndex(partition), Offset(0)));
    let mut seen = BTreeSet::new();
    while seen.len() < usize::try_from(partitions).expect("a count") {
        let fetched = within(client.shard(), 30, "a fetch is answered", consumer.next()).await.expect("records");
        seen.extend(fetched.batch.map(|_| fetched.partition));
    }
}

/// More partitions than a directory of one block has names: not even a rename is sure to find room.
const MANY: i32 = 150;

#[test]
fn a_disk_that_others_filled_to_the_last_byte_is_started_on() {
    let Some(dir) = scratch_inside("a_disk_that_others_filled_to_the_last_byte_is_started_on", &[]) else { return };
    let disk = dir.join("disk");
    mount(&dir, &disk, 224);
    // Its log is on that disk too.
    let launch = Launch::new(disk.join("data")).config(SMALL_CONFIG);
    on_shard(move |shard| async move {
        let starting = launch.clone();
        let broker = shard.offload(move || starting.start()).await;
        let launch = launch.listen(&broker.kafka);
        let client = client(&shard, &broker.kafka);
        for (name, partitions) in [("probe", 1), ("many", MANY), ("big", 4)] {
            create_topic(&client, name, partitions).await;
        }
        assert!(probe(&client, "many", MANY, 10).await.iter().all(Result::is_ok));
        for _ in 0..20 {
            assert!(probe(&client, "big", 4, LARGE_RECORD_BYTES).await.iter().all(Result::is_ok));
        }
        let hog = disk.join("hog");
        let filled = shard.offload(move || fill_to_the_last_byte(&hog)).await;
        println!("others took {} MiB", filled >> 20);
        within(&shard, 30, "it is full", async { while !is_full(&client, "probe", 1).await {} }).await;

        let ends: [fn(Broker); 3] =
            [Broker::kill, Broker::kill, |broker| assert!(broker.stop().success(), "an ordinary end")];
        let mut broker = broker;
        for end in ends {
            read_each(&client, "many", MANY).await;
            read_each(&client, "big", 4).await;
            assert!(is_full(&client, "probe", 1).await);
            let again = launch.clone();
            broker = shard
                .offload(move || {
                    end(broker);
                    again.start()
                })
                .await;
        }
        for topic in ["many", "big"] {
            client.delete_topic(topic).await.expect("topics can be deleted on a full disk");
        }
        resumes(&client, "DeleteTopics").await;
        let gone = async {
            while has_segments(&launch.data_dir, "many") {
                is_full(&client, "probe", 1).await;
            }
        };
        within(&shard, 30, "their files go", gone).await;
        assert!(shard.offload(move || broker.stop()).await.success());
    });
}

fn has_segments(data_dir: &Path, topic: &str) -> bool {
    let logs = std::fs::read_dir(data_dir.join("logs").join(topic)).into_iter().flatten().flatten();
    logs.filter_map(|log| std::fs::read_dir(log.path()).ok()).any(|mut files| files.next().is_some())
}
