//! A store in the simulated world: one machine, its shards, and what it takes to run tasks there.
#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{LeaderEpoch, Offset, PartitionIndex, ShardId, Uuid, WallTime};
use record::{BatchBuilder, BatchOptions, Batches, ProducerStamp};
use shard::{Class, Shard, ShardOptions};
use sim::io::Crash;
use sim::seat::{MachineId, Seat};
use sim::world::World;
use storage::{
    AppendOptions, Log, LogConfig, LogId, ReadLimits, RecoverConfig, RecoverError, Recovered, RecoveredShard,
    ShardStore, StoreConfig,
};

pub const DISK_BYTES: u64 = 256 << 20;
pub const LIMIT: Duration = Duration::from_secs(3600);
pub const DATA: &str = "/data";

/// A machine whose process can be ended and started again.
pub struct Machine {
    pub world: World,
    pub id: MachineId,
    pub shards: Vec<Shard>,
    pub config: fn(ShardId) -> StoreConfig,
}

pub fn small(shard: ShardId) -> StoreConfig {
    StoreConfig {
        journal_file_bytes: 256 << 10,
        journal_bytes_limit: 1 << 20,
        tail_cache_bytes: 1 << 20,
        reserve_bytes: 1 << 20,
        ..StoreConfig::new(DATA, shard)
    }
}

impl Machine {
    pub fn new(seed: u64, config: fn(ShardId) -> StoreConfig) -> Self {
        let mut world = World::new(seed);
        let id = world.add_machine(DISK_BYTES);
        Self { world, id, shards: Vec::new(), config }
    }

    /// Starts the process with nothing open yet.
    pub fn boot(&mut self, shards: u16) {
        let options = |seat: Seat| ShardOptions { id: seat.shard, arena_bytes: 32 << 20, ..ShardOptions::default() };
        self.shards = self.world.boot(self.id, shards, options);
    }

    pub fn crash(&mut self, how: Crash) {
        self.shards.clear();
        self.world.crash(self.id, how);
    }

    /// Runs a task on a shard to its end; `None` when the process ended before.
    pub fn run<T: 'static>(&mut self, shard: usize, task: impl Future<Output = T> + 'static) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        let owner = &self.shards[shard];
        drop(owner.spawn(Class::Normal, owner.account("test"), async move {
            let value = task.await;
            *slot.borrow_mut() = Some(value);
        }));
        self.world.nudge(self.id);
        let id = self.id;
        let done = self.world.run_until(LIMIT, |world| result.borrow().is_some() || !world.is_up(id));
        done.unwrap_or_else(|failure| panic!("{failure}"));
        result.take()
    }

    /// Boots, recovers and opens every store; `None` when the process ended before.
    pub fn start(&mut self, shards: u16) -> Option<(Vec<ShardStore>, Recovered)> {
        self.boot(shards);
        let recovered = self.recover(shards)?.unwrap_or_else(|error| panic!("{error}"));
        let mut stores = Vec::new();
        for (index, part) in recovered.shards.clone().into_iter().enumerate() {
            stores.push(self.open(index, part)?);
        }
        Some((stores, recovered))
    }

    pub fn recover(&mut self, shards: u16) -> Option<Result<Recovered, RecoverError>> {
        let shard = self.shards[0].clone();
        let config = RecoverConfig { replay_memory_bytes: 300 << 10, ..RecoverConfig::new(DATA, shards) };
        self.run(0, async move { storage::recover(&shard, &config).await })
    }

    pub fn open(&mut self, index: usize, recovered: RecoveredShard) -> Option<ShardStore> {
        let shard = self.shards[index].clone();
        let config = (self.config)(recovered.shard);
        self.run(index, async move { ShardStore::open(shard, config, recovered).await })
            .map(|opened| opened.unwrap_or_else(|error| panic!("{error}")))
    }

    pub fn create(&mut self, shard: usize, store: &ShardStore, number: i32, config: LogConfig) -> Option<Log> {
        let store = store.clone();
        self.run(shard, async move { store.create_log("orders", log_id(number), config).await })
            .map(|created| created.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Everything that can be read of a log.
    pub fn read_all(&mut self, shard: usize, log: &Log) -> Option<Vec<Read>> {
        let log = log.clone();
        self.run(shard, async move { read_all(&log).await })
    }
}

pub fn log_id(number: i32) -> LogId {
    LogId { topic_id: Uuid([7; 16]), partition: PartitionIndex(number) }
}

/// A batch as it is read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub base: i64,
    pub last: i64,
    pub body: Vec<u8>,
}

pub async fn read_all(log: &Log) -> Vec<Read> {
    let mut found = Vec::new();
    let mut next = log.start_offset();
    while next < log.end_offset() {
        let limits = ReadLimits { max_bytes: 100_000, at_least_one_batch: true, upto: log.end_offset() };
        let read = log.read(next, limits).await.unwrap_or_else(|error| panic!("{error}"));
        let bytes = read.to_vec();
        assert!(!bytes.is_empty(), "nothing at {next} below the end {}", log.end_offset());
        for batch in Batches::new(&bytes) {
            let batch = batch.expect("whole batches");
            assert!(batch.has_valid_crc());
            found.push(Read { base: batch.base_offset().0, last: batch.last_offset().0, body: batch.body().to_vec() });
            next = Offset(batch.last_offset().0 + 1);
        }
    }
    found
}

/// A batch of `records` records with about `bytes` bytes each, told apart by `tag`.
pub fn batch(tag: u64, records: usize, bytes: usize, producer: Option<ProducerStamp>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { producer, ..BatchOptions::default() });
    for record in 0..records {
        let mut value = vec![(tag % 251) as u8; bytes.max(16)];
        value[..8].copy_from_slice(&tag.to_be_bytes());
        value[8..16].copy_from_slice(&(record as u64).to_be_bytes());
        builder.add(WallTime(1000 + tag as i64), None, Some(&value), &[]).expect("a record");
    }
    builder.finish().expect("a batch")
}

pub fn options(epoch: i32) -> AppendOptions {
    AppendOptions { leader_epoch: LeaderEpoch(epoch), append_time: None, wall_now: WallTime(5_000_000) }
}
