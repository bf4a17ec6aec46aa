//! Memory: what an idle broker of many partitions holds, and that load does not take it past its setting.

use client::{NewTopic, ProducerOptions};
use e2e::broker::Launch;
use e2e::ledger::{Ledger, Promise};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard};
use shard::Task;

const MEMORY_BYTES: u64 = 256 << 20;
/// What one idle partition may hold.
const PARTITION_BYTES_MAX: u64 = 16 << 10;
const PARTITIONS: i32 = 1000;
const LOAD_BYTES: u64 = 384 << 20;
const RECORD_BYTES: usize = 8 << 10;

#[test]
fn memory_stays_within_its_setting() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data"))
        .config(&format!("journal-bytes = 33554432\nmemory-bytes = {MEMORY_BYTES}\n"));
    on_shard(move |shard| async move {
        let broker = launch.start();
        let kafka = broker.kafka.clone();
        let resident = |name| broker.proc_number("status", name) << 10;
        let empty = resident("VmRSS");
        for (name, partitions) in [("many", PARTITIONS), ("t", 8)] {
            let new = NewTopic { name: name.into(), partition_count: Some(partitions), ..NewTopic::default() };
            client(&shard, &kafka).create_topic(&new, false).await.expect("the topic is created");
        }
        let idle = resident("VmRSS");
        let each = idle.saturating_sub(empty) / u64::try_from(PARTITIONS).expect("positive");
        println!(
            "resident: {} KiB empty, {} KiB with {PARTITIONS} idle partitions, {each} bytes each",
            empty >> 10,
            idle >> 10
        );
        assert!(each <= PARTITION_BYTES_MAX, "{each} bytes for an idle partition");

        let topics = [LoadTopic { name: "t".into(), generation: 0, partitions: 8 }];
        let load = Load::new(&shard, Ledger::of_records(RECORD_BYTES));
        let start =
            || load.start_producer(&kafka, &topics, ProducerOptions::default(), shard.random(), Promise::Settles);
        let mut tasks = vec![start(), start(), start()];
        let half = LOAD_BYTES / RECORD_BYTES as u64 / 2;
        load.until(60, "records are acknowledged", |ledger| ledger.acknowledged() >= half).await;
        // Readers that begin at the beginning, beside the producers.
        tasks.extend((0..3).map(|_| load.start_reader(&kafka, &topics)));
        load.until(60, "records are acknowledged", |ledger| ledger.acknowledged() >= 2 * half).await;
        let most = resident("VmHWM");
        println!("resident at most: {} MiB under load, where memory-bytes is {} MiB", most >> 20, MEMORY_BYTES >> 20);
        assert!(most <= MEMORY_BYTES);
        load.set_open(false);
        load.until(60, "every record is acknowledged", Ledger::is_settled).await;
        tasks.into_iter().for_each(Task::cancel);
        assert!(shard.offload(move || broker.stop()).await.success());
    });
}
