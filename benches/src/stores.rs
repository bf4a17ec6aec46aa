//! The broker's stores without the broker: one on each shard of this process, opened as a start opens them.

use std::io;
use std::path::Path;

use base::{LeaderEpoch, MIB, PartitionIndex, Uuid, WallTime};
use record::{BatchBuilder, BatchOptions};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions};
use storage::{
    AppendError, AppendOptions, Durable, Log, LogConfig, LogId, RecoverConfig, ShardStore, StoreConfig, recover,
};

/// Memory of each shard: room for a round of the largest cell, several times.
const ARENA_BYTES: usize = 768 * MIB;

/// Opens a store on a pinned shard for each of `seats`, in `dir`, runs `main` on each with its seat, and closes the stores.
///
/// # Errors
/// The first error of any shard.
pub fn with_stores<S, T, F>(
    dir: &Path,
    seats: Vec<S>,
    main: impl FnOnce(Shard, ShardStore, S) -> F + Clone + Send + 'static,
) -> io::Result<Vec<T>>
where
    S: Send + 'static,
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + 'static,
{
    let shard = ShardOptions { arena_bytes: ARENA_BYTES, ..ShardOptions::default() };
    let options = SpawnOptions { pin: true, shard, ..SpawnOptions::default() };
    let shards = u16::try_from(seats.len()).map_err(io::Error::other)?;
    let config = RecoverConfig::new(dir, shards);
    let recovery = spawn_shards(&options, vec![()], move |shard, ()| async move {
        recover(&shard, &config).await.map_err(io::Error::other)
    })?;
    let recovered = recovery.join().pop().expect("one shard was started")?;
    let dir = dir.to_owned();
    let seats = recovered.shards.into_iter().zip(seats).collect();
    let threads = spawn_shards(&options, seats, move |shard, (recovered, seat)| async move {
        let config = StoreConfig::new(dir, shard.id());
        let store = ShardStore::open(shard.clone(), config, recovered).await.map_err(io::Error::other)?;
        let result = main(shard, store.clone(), seat).await?;
        store.close().await.map_err(io::Error::other)?;
        Ok(result)
    })?;
    threads.join().into_iter().collect()
}

/// Creates `count` logs of a topic of their own, whose files go at once when they are removed.
///
/// # Errors
/// As the store has them.
pub async fn create_logs(shard: &Shard, store: &ShardStore, topic: &str, count: usize) -> io::Result<Vec<Log>> {
    let config = LogConfig { delete_delay_ms: 0, ..LogConfig::default() };
    let topic_id = Uuid::from_random(shard.random(), shard.random());
    let mut logs = Vec::with_capacity(count);
    for n in 0..count {
        let id = LogId { topic_id, partition: PartitionIndex(n as i32) };
        // Each shard has a topic of its own, for a topic's name and id go together.
        let topic = format!("{topic}-{}", shard.id());
        logs.push(store.create_log(&topic, id, config.clone()).await.map_err(io::Error::other)?);
    }
    Ok(logs)
}

/// A batch of one record that takes `bytes`, header included.
///
/// # Errors
/// When no batch is that small.
pub fn batch_of(bytes: usize) -> io::Result<Vec<u8>> {
    let mut value_bytes = bytes;
    loop {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.add(WallTime(0), None, Some(&vec![7; value_bytes]), &[]).map_err(io::Error::other)?;
        let batch = builder.finish().map_err(io::Error::other)?;
        match batch.len().checked_sub(bytes) {
            Some(0) => return Ok(batch),
            Some(over) if over <= value_bytes => value_bytes -= over,
            // Lengths are of variable size, so a few sizes exist for no value; one byte less is as good.
            None => return Ok(batch),
            Some(_) => return Err(io::Error::other(format!("no batch is as small as {bytes} bytes"))),
        }
    }
}

/// Appends, waiting for room where there is none.
///
/// # Errors
/// Anything but backpressure.
pub async fn append(shard: &Shard, log: &Log, batch: &[u8]) -> io::Result<Durable> {
    let options = AppendOptions { leader_epoch: LeaderEpoch(0), append_time: None, wall_now: shard.wall() };
    loop {
        match log.append(batch, options) {
            Ok(appended) => return Ok(appended.durable),
            Err(AppendError::Backpressure) => log.room().await,
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
    }
}

/// One commit round: a batch to each log, and all of them durable.
///
/// # Errors
/// As `append`.
pub async fn round(shard: &Shard, logs: &[Log], batch: &[u8]) -> io::Result<()> {
    let mut waiting = Vec::with_capacity(logs.len());
    for log in logs {
        waiting.push(append(shard, log, batch).await?);
    }
    for durable in waiting {
        durable.await.map_err(io::Error::other)?;
    }
    Ok(())
}
