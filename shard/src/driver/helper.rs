//! The helper: one thread per process for work that would hold a core too long (compression of large batches, touching
//! fresh memory).
//!
//! Owner: its own thread; shards send [`Job`]s through one bounded queue and keep what does not fit, so that a flood of work waits
//! with the shard that made it. Life cycle as the janitor's.

use std::sync::mpsc::Receiver;

use base::ShardId;

use crate::driver::uring::registered::TouchSlab;
use crate::driver::uring::returns::{Return, Returns};
use crate::driver::{OpId, Work};

/// Jobs that may wait at the helper, of all shards; more wait with their shard.
pub(crate) const JOBS_MAX: usize = 64;

pub(crate) enum Job {
    Work { shard: ShardId, id: OpId, work: Work },
    Touch { shard: ShardId, slab: TouchSlab },
}

/// Serves until the last shard is gone.
pub(crate) fn run(returns: &Returns, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Work { shard, id, work } => {
                (work.0)();
                returns.send(shard, Return::Worked { id });
            }
            Job::Touch { shard, slab } => {
                slab.run();
                returns.send(shard, Return::Touched(slab));
            }
        }
    }
}
