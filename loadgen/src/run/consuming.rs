//! A consumer: reads its partitions from where they ended before the run, and holds each record against what its producer was told.

use std::rc::Rc;
use std::time::Duration;

use base::{Offset, PartitionIndex};
use client::{Client, ConsumeError, Consumer, ConsumerOptions, Fault, Fetched, OutOfRange};

use super::local::Local;
use super::setup::Setup;
use crate::verify::Owner;

/// The settings of a consumer. Where what it is to read was deleted it goes on with what is left.
pub(super) fn options(setup: &Setup) -> ConsumerOptions {
    let workload = &setup.workload;
    ConsumerOptions {
        max_wait: workload.fetch_max_wait,
        min_bytes: workload.fetch_min_bytes as i32,
        max_bytes: workload.fetch_max_bytes as usize,
        partition_bytes: workload.fetch_partition_bytes as usize,
        buffer_bytes: 4 * workload.fetch_max_bytes as usize,
        out_of_range: OutOfRange::Beginning,
        ..ConsumerOptions::default()
    }
}

/// One of the consumers of a run.
pub struct Consuming {
    local: Rc<Local>,
    consumer: Consumer,
}

/// The pause before a look whether it is known by now what could not be read.
const RETRY: Duration = Duration::from_millis(10);

impl Consuming {
    pub fn new(local: &Rc<Local>, client: &Client, index: u32) -> Self {
        let setup = &local.setup;
        let consumer = Consumer::new(client, options(setup));
        for partition in (0..setup.numbering.partitions).filter(|partition| local.consumer_of(*partition) == index) {
            let (topic, place) = setup.place(partition);
            consumer.assign_at(topic, place, Offset(setup.bounds[partition as usize].end));
        }
        Self { local: local.clone(), consumer }
    }

    /// Reads for ever.
    pub async fn run(self) {
        loop {
            match self.consumer.next().await {
                Ok(fetched) => self.take_in(&fetched),
                Err(error) => self.pass_over(error).await,
            }
        }
    }

    fn take_in(&self, fetched: &Fetched) {
        if let Some(partition) = self.local.setup.find(&fetched.topic, fetched.partition) {
            take_in(&self.local, 0, (partition, None), fetched);
        }
    }

    async fn pass_over(&self, error: ConsumeError) {
        let consumer = self.consumer.clone();
        let go_on = move |topic: &str, partition, offset: Option<Offset>| {
            let offset = offset.or_else(|| consumer.position(topic, partition));
            consumer.assign_at(topic, partition, offset.unwrap_or_default());
        };
        pass_over(&self.local, 0, error, go_on).await;
    }
}

/// Shows a judge of this thread what was delivered from a partition, and measures it.
pub(super) fn take_in(local: &Local, judge: usize, whose: (u32, Option<Owner>), fetched: &Fetched) {
    let Some(batch) = &fetched.batch else { return };
    let at_ns = local.roll();
    let (mut judges, mut meter) = (local.judges.borrow_mut(), local.meter.borrow_mut());
    for record in batch.records() {
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        if let Some(arrival) = judges[judge].delivered(whose, record.offset.0, key, value) {
            meter.delivered(at_ns, arrival.due_ns, arrival.acknowledged_ns);
        }
    }
}

/// A partition can't be read where it is: what is there counts as corrupted, and reading goes on behind it, by `go_on`: at an offset, or
/// where it was.
pub(super) async fn pass_over(
    local: &Rc<Local>,
    judge: usize,
    error: ConsumeError,
    go_on: impl Fn(&str, PartitionIndex, Option<Offset>) + 'static,
) {
    let Some(partition) = local.setup.find(&error.topic, error.partition) else { return };
    let Fault::Corrupt(corrupt) = &error.fault else {
        local.failed(0, error.to_string());
        local.shard.sleep(RETRY).await;
        return go_on(&error.topic, error.partition, None);
    };
    let (topic, index, offset) = (error.topic.clone(), error.partition, corrupt.offset);
    let waiting = local.clone();
    // The acknowledgement of what is there may still be on its way: the other partitions do not wait for it.
    let task = async move {
        loop {
            let next = waiting.judges.borrow_mut()[judge].unreadable(partition, offset.0);
            if let Some(next) = next {
                return go_on(&topic, index, Some(Offset(next)));
            }
            waiting.shard.sleep(RETRY).await;
        }
    };
    let account = local.shard.account("consumer");
    drop(local.shard.spawn(shard::Class::Latency, account, task));
}
