//! The appends on glommio: a task for each writer, on its own direct files.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use benches::stats::Samples;
use glommio::io::{DmaFile, OpenOptions};
use glommio::{LocalExecutorBuilder, Placement};

use super::{Job, WRITE_BYTES, merge};

pub fn run(job: &Job) -> io::Result<Samples> {
    let job = job.clone();
    let executor = LocalExecutorBuilder::new(Placement::Fixed(0)).spawn(move || writers(job));
    executor.map_err(io::Error::from)?.join().map_err(io::Error::from)?
}

async fn writers(job: Job) -> io::Result<Samples> {
    let file = OpenOptions::new().read(true).write(true).dma_open(&job.file).await.map_err(io::Error::from)?;
    let file = Rc::new(file);
    let end = Instant::now() + job.duration;
    let spawn = |writer| glommio::spawn_local(append(file.clone(), writer, end)).detach();
    let tasks: Vec<_> = (0..job.writers).map(spawn).collect();
    let mut parts = Vec::with_capacity(tasks.len());
    for task in tasks {
        parts.push(task.await.ok_or_else(|| io::Error::other("a task was cancelled"))??);
    }
    Ok(merge(parts))
}

async fn append(file: Rc<DmaFile>, writer: usize, end: Instant) -> io::Result<Samples> {
    let mut samples = Samples::default();
    let mut begun = Instant::now();
    for n in 0.. {
        // Its buffers are used up by a write; that is its way, so it is part of the cost.
        let block = file.alloc_dma_buffer(WRITE_BYTES);
        let bytes = file.write_at(block, Job::position(writer, n)).await.map_err(io::Error::from)?;
        assert_eq!(bytes, WRITE_BYTES, "a direct write of a block inside the file is whole");
        file.fdatasync().await.map_err(io::Error::from)?;
        let now = Instant::now();
        samples.push(now.duration_since(begun));
        begun = now;
        if now >= end {
            break;
        }
    }
    Ok(samples)
}
