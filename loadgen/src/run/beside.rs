//! What goes on beside the live traffic: readers that catch up from the start, a deletion, connections that say nothing.

use std::cell::Cell;
use std::net::ToSocketAddrs;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Offset};
use client::{Client, Connection, Consumer};
use shard::{Class, Task};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::consuming;
use super::local::Local;
use super::setup::client;

/// How far a catch-up reader came.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CaughtUp {
    /// Bytes of batches read.
    pub bytes: u64,
    pub elapsed: Duration,
    /// Whether it has read all that was there.
    pub finished: bool,
}

/// What was started.
pub struct Beside {
    readers: Vec<(Rc<Cell<CaughtUp>>, Task<()>)>,
    deleting: Option<Task<()>>,
}

impl Beside {
    /// Ends it. Readers that are not at the end stop where they are.
    pub async fn end(self) -> Vec<CaughtUp> {
        if let Some(deleting) = self.deleting {
            deleting.await;
        }
        let ended = self.readers.into_iter().map(|(progress, task)| {
            task.cancel();
            progress.get()
        });
        ended.collect()
    }
}

/// Starts it; it begins at `at`.
pub fn start(local: &Rc<Local>, at: Instant) -> Beside {
    let workload = &local.setup.workload;
    let account = local.shard.account("beside");
    let reader = |_| {
        let progress: Rc<Cell<CaughtUp>> = Rc::default();
        let reading = catch_up(local.clone(), at, progress.clone());
        (progress, local.shard.spawn(Class::Normal, account.clone(), reading))
    };
    let readers = (0..workload.catch_up_readers).map(reader).collect();
    let deleting = workload.delete_at.map(|after| {
        let deleting = delete_older_half(local.clone(), at + after);
        local.shard.spawn(Class::Normal, account.clone(), deleting)
    });
    Beside { readers, deleting }
}

/// Reads every partition from its start to where it ended before the run.
async fn catch_up(local: Rc<Local>, at: Instant, progress: Rc<Cell<CaughtUp>>) {
    local.shard.sleep_until(at).await;
    let setup = &local.setup;
    let client = client(&local.shard, &setup.bootstrap);
    let consumer = Consumer::new(&client, consuming::options(setup));
    let mut open = 0u64;
    for (number, bounds) in (0..).zip(&setup.bounds) {
        if bounds.begin < bounds.end {
            let (topic, partition) = setup.place(number);
            consumer.assign_at(topic, partition, Offset(bounds.begin));
            open += 1;
        }
    }
    let mut so_far = CaughtUp { finished: open == 0, ..CaughtUp::default() };
    while !so_far.finished {
        match consumer.next().await {
            Ok(fetched) => {
                so_far.bytes += fetched.batch.map_or(0, |batch| batch.header().size_bytes() as u64);
                let number = setup.find(&fetched.topic, fetched.partition);
                let end = number.map_or(0, |number| setup.bounds[number as usize].end);
                if fetched.next_offset.0 >= end {
                    consumer.unassign(&fetched.topic, fetched.partition);
                    open -= 1;
                }
            }
            Err(error) => {
                local.failed(0, format!("a catch-up reader: {error}"));
                open -= 1;
            }
        }
        so_far.finished = open == 0;
        so_far.elapsed = local.shard.now().since(at);
        progress.set(so_far);
    }
    progress.set(so_far);
}

/// Deletes the older half of what was there before the run.
async fn delete_older_half(local: Rc<Local>, at: Instant) {
    local.shard.sleep_until(at).await;
    let client = client(&local.shard, &local.setup.bootstrap);
    for (number, bounds) in (0..).zip(&local.setup.bounds) {
        let (topic, partition) = local.setup.place(number);
        let offset = Offset(bounds.begin + (bounds.end - bounds.begin) / 2);
        if let Err(error) = delete(&client, topic, partition, offset).await {
            local.failed(0, format!("deleting records: {error}"));
        }
    }
}

async fn delete(
    client: &Client,
    topic: &str,
    partition: base::PartitionIndex,
    offset: Offset,
) -> Result<(), client::Error> {
    let (leader, _) = client.leader(topic, partition).await?;
    let partitions = [DeleteRecordsPartition { partition_index: partition, offset }].into_iter().collect();
    let topics = [DeleteRecordsTopic { name: topic, partitions }].into_iter().collect();
    let reply = client.call(leader, &DeleteRecordsRequest { topics, timeout_ms: 30_000 }).await?;
    let response: DeleteRecordsResponse<'_> = reply.decode()?;
    for topic in &response.topics {
        for partition in &topic.partitions {
            if partition.error_code.is_error() {
                let (what, code) = ("the deletion of records".into(), partition.error_code);
                return Err(client::Error::Refused { what, code, message: None });
            }
        }
    }
    Ok(())
}

/// Connections that are open and say nothing once they have said hello.
pub async fn idle_connections(local: &Local, client: &Client, count: usize) -> Result<Vec<Connection>, String> {
    let account = local.shard.account("idle");
    let mut connections = Vec::with_capacity(count);
    if count == 0 {
        return Ok(connections);
    }
    let address = &local.setup.bootstrap[0];
    let found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?.next();
    let address = found.ok_or_else(|| format!("{address}: no address"))?;
    for _ in 0..count {
        let options = client.options().connection.clone();
        connections.push(Connection::open(&local.shard, &account, address, options).await.map_err(|e| e.to_string())?);
    }
    Ok(connections)
}
