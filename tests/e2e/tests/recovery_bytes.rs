//! What a start after `kill -9` reads: journals, manifests and the tails of indexes, however long the logs are. Bytes, not seconds.

use std::path::Path;
use std::rc::Rc;

use client::{NewTopic, ProducerOptions};
use e2e::broker::{Broker, Launch};
use e2e::ledger::{Ledger, Promise, Violation};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard};
use shard::Shard;

const CONFIG: &str = "journal-bytes = 33554432\n";
const PARTITIONS: i32 = 8;
const RECORD_BYTES: usize = 16 << 10;
/// How long the logs are at the kills, in records.
const LENGTHS: [u64; 2] = [6_000, 24_000];

/// Of each log at most this much of its indexes, and of its last segment the block that a torn write may have left.
const TAIL_BYTES_MAX: u64 = 256 << 10;
/// Besides the data: the program's own pages, and directories.
const OTHER_BYTES_MAX: u64 = 4 << 20;

fn topic() -> LoadTopic {
    LoadTopic { name: "t".into(), generation: 0, partitions: PARTITIONS }
}

/// A number from the debug form of the report in the last line that says so.
fn reported(log: &str, name: &str) -> u64 {
    let line = log.lines().rev().find(|line| line.contains("recovered")).expect("recovery says what it did");
    let rest = line.split_once(&format!("{name}: ")).unwrap_or_else(|| panic!("no {name} in {line}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Bytes of the files below `dir` whose names `wanted` holds of.
fn bytes_below(dir: &Path, wanted: &dyn Fn(&str) -> bool) -> u64 {
    let entries = std::fs::read_dir(dir).expect("the directory can be listed").map(|entry| entry.expect("an entry"));
    let bytes = entries.map(|entry| {
        let meta = entry.metadata().expect("it is there");
        match meta.is_dir() {
            true => bytes_below(&entry.path(), wanted),
            false => meta.len() * u64::from(wanted(&entry.file_name().to_string_lossy())),
        }
    });
    bytes.sum()
}

#[test]
fn a_start_reads_journals_and_tails_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let starting = launch.clone();
        let mut broker = shard.offload(move || starting.start()).await;
        let launch = launch.listen(&broker.kafka);
        let new = NewTopic {
            name: "t".into(),
            partition_count: Some(PARTITIONS),
            configs: vec![("segment.bytes".to_owned(), (32 << 20).to_string())],
            ..NewTopic::default()
        };
        client(&shard, &broker.kafka).create_topic(&new, false).await.expect("the topic is created");
        let load = Load::new(&shard, Ledger::of_records(RECORD_BYTES));
        let options = ProducerOptions::default();
        let task = load.start_producer(&broker.kafka, &[topic()], options, shard.random(), Promise::Settles);
        for length in LENGTHS {
            broker = kill_and_measure(&shard, &launch, broker, &load, length).await;
        }
        load.set_open(false);
        load.until(60, "every record is acknowledged", Ledger::is_settled).await;
        task.cancel();
        match load.audit(&broker.kafka, &topic()).await {
            Ok(records) => assert_eq!(records, load.ledger.borrow().acknowledged()),
            Err(Violation(what)) => panic!("{what}"),
        }
        assert!(shard.offload(move || broker.stop()).await.success());
    });
}

async fn kill_and_measure(shard: &Shard, launch: &Launch, broker: Broker, load: &Rc<Load>, length: u64) -> Broker {
    load.set_open(true);
    load.until(60, "records are acknowledged", |ledger| ledger.acknowledged() >= length).await;
    let again = launch.clone();
    load.set_open(false);
    // What device reads there are is counted from the kernel's empty cache on, for the data at least: it is read directly.
    let (broker, journals, logs) = shard
        .offload(move || {
            broker.kill();
            let journals = bytes_below(&again.data_dir.join("shards"), &|_| true);
            let logs = bytes_below(&again.data_dir.join("logs"), &|name| name.ends_with(".log"));
            (again.start(), journals, logs)
        })
        .await;
    let io = ["rchar", "read_bytes"].map(|name| broker.proc_number("io", name));
    let log = broker.log();
    let parts = ["journal_bytes_read", "manifest_bytes_read", "index_bytes_read", "segment_bytes_read"];
    let parts = parts.map(|name| (name, reported(&log, name)));
    println!("{} MiB of logs, {} MiB of journals: {parts:?}, rchar and read_bytes {io:?}", logs >> 20, journals >> 20);

    let tails = TAIL_BYTES_MAX * u64::try_from(PARTITIONS + 1).expect("positive");
    let [(_, journal), (_, manifest), (_, index), (_, segment)] = parts;
    assert!(journal + manifest <= journals, "more than there is");
    assert!(index + segment <= tails, "more than tails");
    for bytes in io {
        assert!(bytes <= journals + tails + OTHER_BYTES_MAX, "{bytes} read by the process");
    }
    assert!(logs > length * RECORD_BYTES as u64 / 2, "the logs are long");
    broker
}
