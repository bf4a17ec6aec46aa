//! A full disk is a state, not a crash: on a small file system of its own, which ends with the test's process.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use base::PartitionIndex;
use client::{Acks, Client, DeliveryError, NewTopic, Producer, ProducerOptions, ProducerRecord};
use e2e::broker::{Broker, Launch};
use e2e::ledger::{Ledger, Promise, Violation};
use e2e::load::{Load, LoadTopic};
use e2e::namespace::scratch_inside;
use e2e::runner::{client, on_shard, within};
use shard::{Shard, Task};

const DISK_MIB: u64 = 600;
const CONFIG: &str = "journal-bytes = 33554432\ndisk-reserve-bytes = 67108864\n";
const RECORD_BYTES: usize = 16 << 10;

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// A new ext4 of [`DISK_MIB`] at `at`; the kernel gives its loop device back when it is unmounted.
fn mount(dir: &Path, at: &Path) {
    let image = dir.join("image");
    let file = std::fs::File::create(&image).expect("the image can be made");
    file.set_len(DISK_MIB << 20).expect("the image can be sized");
    std::fs::create_dir(at).expect("the directory can be made");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    run("mkfs.ext4", &["-q", "-m", "0", &path(&image)]);
    run("mount", &["-o", "loop", &path(&image), &path(at)]);
}

#[test]
fn a_full_disk_refuses_and_resumes() {
    let Some(dir) = scratch_inside("a_full_disk_refuses_and_resumes", &[]) else { return };
    let disk = dir.join("disk");
    mount(&dir, &disk);
    let launch = Launch::new(disk.join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let mut disk = Disk::start(&shard, launch).await;
        disk.fill().await;
        disk.read_on("full").await;
        disk.restart().await;
        disk.read_on("full, after kill -9").await;
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

    /// Whether each partition of a topic nobody else writes to takes a record, asked once of each.
    async fn probe(&self) -> Vec<Result<(), DeliveryError>> {
        let options =
            ProducerOptions { idempotent: false, retries: false, acks: Acks::All, ..ProducerOptions::default() };
        let producer = Producer::open(&self.client(), options).expect("options that agree");
        let mut outcomes = Vec::new();
        for partition in 0..4 {
            let partition = Some(PartitionIndex(partition));
            let record = ProducerRecord { topic: "probe", partition, value: Some(b"?"), ..ProducerRecord::default() };
            let delivery = producer.send(record).await.expect("the topic exists");
            producer.flush().await;
            outcomes.push(delivery.await.map(drop));
        }
        outcomes
    }

    /// Every refusal there is must be one that a client tries again after.
    async fn is_full(&self) -> bool {
        let outcomes = self.probe().await;
        for outcome in &outcomes {
            let retriable = match outcome {
                Ok(()) => true,
                Err(DeliveryError::Refused { code, .. }) => code.is_retriable(),
                Err(_) => false,
            };
            assert!(retriable, "{outcome:?}");
        }
        self.load.check();
        outcomes.iter().all(Result::is_err)
    }

    async fn fill(&self) {
        let full = async { while !self.is_full().await {} };
        within(&self.shard, 90, "the disk is full", full).await;
        let acknowledged = self.load.ledger.borrow().acknowledged();
        println!("full: {acknowledged} records of {RECORD_BYTES} bytes on {DISK_MIB} MiB; {:?}", self.probe().await[0]);
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

    async fn restart(&mut self) {
        let (broker, launch) = (self.broker.take().expect("one runs"), self.launch.clone());
        self.broker = Some(
            self.shard
                .offload(move || {
                    broker.kill();
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
