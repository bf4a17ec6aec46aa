//! Before and after a run: topics, what is written in advance, where readers begin.

use std::sync::Arc;

use base::{MIB, NO_EPOCH, Offset, PartitionIndex, Random};
use client::{
    Client, ClientOptions, ConnectionOptions, GroupOffset, NewTopic, OffsetSpec, Producer, ProducerOptions,
    ProducerRecord,
};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions, UringOptions};
use wire::ErrorCode;

use super::RunError;
use crate::filler::Filler;
use crate::payload::{Stamp, stamp};
use crate::verify::Numbering;
use crate::workload::Workload;

/// A run that can begin: what every thread is told.
#[derive(Debug)]
pub struct Setup {
    pub bootstrap: Vec<String>,
    pub workload: Workload,
    /// Tells the records of this run apart.
    pub run: u32,
    pub topics: Vec<Arc<str>>,
    /// Those that this run created.
    pub created: Vec<Arc<str>>,
    pub numbering: Numbering,
    /// Where each partition ended before the run, and where it begins.
    pub bounds: Vec<Bounds>,
}

/// The offsets of a partition before the run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub begin: i64,
    pub end: i64,
}

impl Setup {
    /// Topic and index of a partition, by its number in the row of all.
    #[must_use]
    pub fn place(&self, partition: u32) -> (&Arc<str>, PartitionIndex) {
        let of_topic = self.workload.partitions;
        (&self.topics[(partition / of_topic) as usize], PartitionIndex((partition % of_topic) as i32))
    }

    /// The number of a partition by its topic's name; `None` where that is not one of the run's.
    #[must_use]
    pub fn find(&self, topic: &str, partition: PartitionIndex) -> Option<u32> {
        let place = self.topics.iter().position(|name| **name == *topic)?;
        Some(self.number(place, partition))
    }

    /// The number of a partition in the row of all.
    #[must_use]
    pub fn number(&self, topic: usize, partition: PartitionIndex) -> u32 {
        topic as u32 * self.workload.partitions + partition.0 as u32
    }
}

/// How the generator's threads are set up.
pub(super) fn spawn_options(pin: bool) -> SpawnOptions {
    SpawnOptions {
        pin,
        // Memory need not be locked for a client, and the right to it is often missing.
        uring: UringOptions { register_buffers: false, ..UringOptions::default() },
        shard: ShardOptions { arena_bytes: 1024 * MIB, ..ShardOptions::default() },
    }
}

/// A client of this run.
pub(crate) fn client(shard: &Shard, bootstrap: &[String]) -> Client {
    let connection = ConnectionOptions { client_id: "tidemill-loadgen".into(), ..ConnectionOptions::default() };
    Client::new(shard, ClientOptions { connection, ..ClientOptions::new(bootstrap.to_vec()) })
}

/// Does something with a client on a thread of its own, before or after the run.
pub(crate) fn with_client<T: Send + 'static>(
    bootstrap: &[String],
    work: impl AsyncFnOnce(Client) -> T + Send + Clone + 'static,
) -> Result<T, RunError> {
    let bootstrap = bootstrap.to_vec();
    let main = move |shard: Shard, ()| async move { work(client(&shard, &bootstrap)).await };
    let threads = spawn_shards(&spawn_options(false), vec![()], main)
        .map_err(|error| RunError(format!("io_uring, which the generator runs on, can't be set up: {error}")))?;
    Ok(threads.join().pop().expect("one shard was started"))
}

pub(crate) fn failed(what: &str) -> impl Fn(client::Error) -> RunError + '_ {
    move |error| RunError(format!("{what}: {error}"))
}

/// Creates what is missing, writes what is to be there in advance, and looks where the partitions end.
pub(super) async fn prepare(client: &Client, workload: Workload) -> Result<Setup, RunError> {
    let setup = written(client, look(client, workload).await?).await?;
    place_groups(client, &setup).await?;
    Ok(setup)
}

/// Has groups begin where the partitions end now, as consumers do that are in none.
async fn place_groups(client: &Client, setup: &Setup) -> Result<(), RunError> {
    let Some(groups) = &setup.workload.groups else { return Ok(()) };
    let offset = |(number, bounds): (u32, &Bounds)| {
        let (topic, partition) = setup.place(number);
        let (topic, metadata) = (topic.to_string(), String::new());
        GroupOffset { topic, partition, offset: Offset(bounds.end), leader_epoch: NO_EPOCH, metadata }
    };
    let offsets: Vec<GroupOffset> = (0..).zip(&setup.bounds).map(offset).collect();
    for name in (0..groups.count).map(|group| groups.group_name(group)) {
        let placed = client.set_group_offsets(&name, &offsets).await;
        placed.map_err(failed(&format!("setting where group {name} begins")))?;
    }
    Ok(())
}

/// Writes what is to be there in advance.
async fn written(client: &Client, setup: Setup) -> Result<Setup, RunError> {
    if setup.workload.prefill_bytes == 0 {
        return Ok(setup);
    }
    let begins: Vec<i64> = setup.bounds.iter().map(|bounds| bounds.begin).collect();
    prefill(client, &setup).await?;
    let ends = ends(client, &setup.topics, &setup.workload, OffsetSpec::Latest).await?;
    let bounds = begins.into_iter().zip(ends).map(|(begin, end)| Bounds { begin, end }).collect();
    Ok(Setup { bounds, ..setup })
}

async fn look(client: &Client, workload: Workload) -> Result<Setup, RunError> {
    let bootstrap = client.options().bootstrap.clone();
    let topics: Vec<Arc<str>> = workload.topic_names().into_iter().map(Arc::from).collect();
    let existing = client.topics().await.map_err(failed("the topics"))?;
    let mut created = Vec::new();
    for name in &topics {
        match existing.iter().find(|topic| *topic.name == **name) {
            Some(topic) if topic.partitions.len() == workload.partitions as usize => {}
            Some(topic) => {
                let (has, wanted) = (topic.partitions.len(), workload.partitions);
                return Err(RunError(format!(
                    "topic {name} exists with {has} partitions, where the workload has {wanted}: delete it, or name another"
                )));
            }
            None => {
                let new = NewTopic {
                    name: name.to_string(),
                    partition_count: Some(workload.partitions as i32),
                    replication_factor: Some(workload.replication as i16),
                    configs: workload.topic_settings.clone(),
                    ..NewTopic::default()
                };
                client.create_topic(&new, false).await.map_err(failed(&format!("creating topic {name}")))?;
                created.push(name.clone());
            }
        }
    }
    let begins = ends(client, &topics, &workload, OffsetSpec::Earliest).await?;
    let ends = ends(client, &topics, &workload, OffsetSpec::Latest).await?;
    let bounds = begins.into_iter().zip(ends).map(|(begin, end)| Bounds { begin, end }).collect();
    let numbering = Numbering { partitions: workload.topics * workload.partitions };
    let run = (client.shard().random() >> 32) as u32;
    Ok(Setup { bootstrap, workload, run, topics, created, numbering, bounds })
}

/// Offsets of all partitions, in the order of their numbers.
async fn ends(
    client: &Client,
    topics: &[Arc<str>],
    workload: &Workload,
    spec: OffsetSpec,
) -> Result<Vec<i64>, RunError> {
    let mut offsets = Vec::new();
    for topic in topics {
        let asked: Vec<_> =
            (0..workload.partitions as i32).map(|partition| (&**topic, PartitionIndex(partition), spec)).collect();
        let found = client.list_offsets(&asked).await.map_err(failed("the partitions' offsets"))?;
        offsets.extend(found.iter().map(|found| found.offset.unwrap_or(Offset(0)).0));
    }
    Ok(offsets)
}

/// Bytes of the records that are written in advance.
const PREFILL_RECORD_BYTES: usize = 4096;

/// Writes, as fast as it goes, what catch-up readers are to read: as much to each partition.
async fn prefill(client: &Client, setup: &Setup) -> Result<(), RunError> {
    let options = ProducerOptions {
        batch_bytes: MIB / 2,
        request_bytes: 4 * MIB,
        buffer_bytes: 64 * MIB,
        ..ProducerOptions::default()
    };
    let refused = |error: &dyn std::fmt::Display| RunError(format!("writing in advance: {error}"));
    let producer = Producer::open(client, options).map_err(|error| refused(&error))?;
    let mut random = Random::new(u64::from(setup.run));
    let mut filler =
        Filler::new(&setup.workload.payload, PREFILL_RECORD_BYTES, &mut random).map_err(|error| refused(&error))?;
    let records = setup.workload.prefill_bytes.div_ceil(PREFILL_RECORD_BYTES as u64);
    let partitions = u64::from(setup.numbering.partitions);
    // Not of the run, so that nobody takes them for its records.
    let run = !setup.run;
    let mut value = vec![0; PREFILL_RECORD_BYTES];
    let in_batch = (MIB / 2 / PREFILL_RECORD_BYTES) as u64;
    for number in 0..records {
        let partition = (number / in_batch % partitions) as u32;
        value.copy_from_slice(filler.piece(PREFILL_RECORD_BYTES));
        stamp(&mut value, &Stamp { run, stream: partition, number, due_ns: 0 }, b"");
        let (topic, index) = setup.place(partition);
        let record = ProducerRecord { topic, partition: Some(index), value: Some(&value), ..ProducerRecord::default() };
        let delivery = producer.send(record).await.map_err(|error| refused(&error))?;
        if number + 1 == records || number.is_multiple_of(4096) {
            delivery.await.map_err(|error| refused(&error))?;
        }
    }
    producer.flush().await;
    Ok(())
}

/// Deletes the topics that the run created, if it is to, and its groups. Members that were killed may be in them still, so that they can't be
/// deleted: the broker forgets those by itself, their offsets go with the topics.
pub(super) async fn clean_up(client: &Client, setup: &Setup) -> Result<(), RunError> {
    if setup.workload.delete_topics {
        let groups = setup.workload.groups.iter();
        for name in groups.flat_map(|groups| (0..groups.count).map(|group| groups.group_name(group))) {
            match client.delete_group(&name).await {
                Err(error) if error.code() != Some(ErrorCode::NonEmptyGroup) => {
                    return Err(failed(&format!("deleting group {name}"))(error));
                }
                _ => {}
            }
        }
        for topic in &setup.created {
            client.delete_topic(topic).await.map_err(failed(&format!("deleting topic {topic}")))?;
        }
    }
    Ok(())
}
