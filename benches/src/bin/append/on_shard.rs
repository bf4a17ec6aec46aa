//! The appends on this project's runtime: a task for each writer.

use std::io;
use std::time::Instant;

use benches::stats::Samples;
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Class, File, OpenOptions, Shard, WriteSync};

use super::{Job, WRITE_BYTES, merge};

pub fn run(job: &Job) -> io::Result<Samples> {
    let job = job.clone();
    let options = SpawnOptions { pin: true, ..SpawnOptions::default() };
    let threads = spawn_shards(&options, vec![()], move |shard, ()| writers(shard, job))?;
    threads.join().into_iter().collect::<io::Result<Vec<_>>>().map(merge)
}

async fn writers(shard: Shard, job: Job) -> io::Result<Samples> {
    let options = OpenOptions { read: true, write: true, direct: true, ..OpenOptions::default() };
    let file = shard.fs().open(&job.file, options).await?;
    let end = Instant::now() + job.duration;
    let account = shard.account("append");
    let spawn = |writer| {
        let append = append(shard.clone(), file.clone(), writer, end);
        shard.spawn(Class::Latency, account.clone(), append)
    };
    let tasks: Vec<_> = (0..job.writers).map(spawn).collect();
    let mut parts = Vec::with_capacity(tasks.len());
    for task in tasks {
        parts.push(task.await?);
    }
    Ok(merge(parts))
}

async fn append(shard: Shard, file: File, writer: usize, end: Instant) -> io::Result<Samples> {
    let mut samples = Samples::default();
    let mut block = shard.arena().alloc_wait(WRITE_BYTES).await;
    block.set_len(WRITE_BYTES);
    let block = block.freeze();
    let mut begun = Instant::now();
    for n in 0.. {
        file.write_at(Job::position(writer, n), vec![block.clone()], WriteSync::None).await?;
        file.datasync().await?;
        let now = Instant::now();
        samples.push(now.duration_since(begun));
        begun = now;
        if now >= end {
            break;
        }
    }
    Ok(samples)
}
