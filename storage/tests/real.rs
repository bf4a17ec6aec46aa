//! A store on the production driver: what the simulated world cannot show.

use std::path::PathBuf;

use base::{LeaderEpoch, Offset, PartitionIndex, ShardId, Uuid, WallTime};
use record::{BatchBuilder, BatchOptions, Batches};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions};
use storage::{AppendOptions, LogConfig, LogId, ReadLimits, RecoverConfig, ShardStore, StoreConfig};

const ARENA_BYTES: usize = 128 << 20;

/// Runs `main` on a shard with a ring and a thread of its own.
fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    main: impl FnOnce(Shard) -> F + Clone + Send + 'static,
) -> T {
    let shard = ShardOptions { arena_bytes: ARENA_BYTES, ..ShardOptions::default() };
    let options = SpawnOptions { shard, ..SpawnOptions::default() };
    let shards = spawn_shards(&options, vec![()], move |shard, ()| main(shard)).expect("a ring for the test");
    shards.join().pop().expect("one shard")
}

/// A directory of the test's own, on the disk that the workspace is built on, removed at the end.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        Self(path)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // Nothing else is to be done about it in a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn log_id(number: i32) -> LogId {
    LogId { topic_id: Uuid([4; 16]), partition: PartitionIndex(number) }
}

fn batch(tag: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.add(WallTime(tag), None, Some(&tag.to_be_bytes().repeat(200)), &[]).expect("a record");
    builder.finish().expect("a batch")
}

async fn open(shard: &Shard, dir: PathBuf) -> ShardStore {
    let recovered = storage::recover(shard, &RecoverConfig::new(&dir, 1)).await.expect("recovery");
    let part = recovered.shards.into_iter().next().expect("one shard");
    ShardStore::open(shard.clone(), StoreConfig::new(dir, ShardId(0)), part).await.expect("a store")
}

/// Appends to eight logs from as many tasks at once, and leaves the store in the middle of things or closes it.
async fn write(shard: Shard, dir: PathBuf, from: i64, close: bool) {
    let store = open(&shard, dir).await;
    let mut tasks = Vec::new();
    for number in 0..8 {
        let log = match store.log(log_id(number)) {
            Some(log) => log,
            None => {
                let config = LogConfig { segment_bytes: 100_000, ..LogConfig::default() };
                store.create_log("orders", log_id(number), config).await.expect("a log")
            }
        };
        tasks.push(shard.spawn(shard::Class::Latency, shard.account("test"), async move {
            for tag in from..from + 200 {
                let options =
                    AppendOptions { leader_epoch: LeaderEpoch(0), append_time: None, wall_now: WallTime(9_000_000) };
                let appended = log.append(&batch(tag), options).expect("room");
                assert_eq!(appended.base_offset.0, tag);
                appended.durable.await.expect("durable");
            }
        }));
    }
    for task in tasks {
        task.await;
    }
    if close {
        store.close().await.expect("an orderly end");
    }
}

async fn check(shard: Shard, dir: PathBuf, end: i64) {
    let store = open(&shard, dir).await;
    for number in 0..8 {
        let log = store.log(log_id(number)).expect("the log");
        assert_eq!(log.end_offset().0, end);
        let mut next = 0;
        while next < end {
            let limits = ReadLimits { max_bytes: 300_000, at_least_one_batch: true, upto: Offset(end) };
            let bytes = log.read(Offset(next), limits).await.expect("a read").to_vec();
            for found in Batches::new(&bytes) {
                let found = found.expect("whole batches");
                assert!(found.has_valid_crc() && found.body() == &batch(next)[record::HEADER_BYTES..]);
                next += 1;
            }
        }
    }
    store.close().await.expect("an orderly end");
}

#[test]
fn appended_left_and_found_again() {
    let dir = TestDir::new("store");
    let path = dir.0.clone();
    for (round, close) in [(0, false), (1, true), (2, false)] {
        let (writing, checking) = (path.clone(), path.clone());
        run(move |shard| write(shard, writing, round * 200, close));
        run(move |shard| check(shard, checking, (round + 1) * 200));
    }
}
