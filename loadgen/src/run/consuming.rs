//! A consumer: reads its partitions from where they ended before the run, and holds each record against what its producer was told.

use std::rc::Rc;
use std::time::Duration;

use base::Offset;
use client::{Client, ConsumeError, Consumer, ConsumerOptions, Fault, Fetched, OutOfRange};

use super::local::Local;
use super::setup::Setup;

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
        let Some((batch, partition)) =
            fetched.batch.as_ref().zip(self.local.setup.find(&fetched.topic, fetched.partition))
        else {
            return;
        };
        let at_ns = self.local.roll();
        let (mut judge, mut meter) = (self.local.judge.borrow_mut(), self.local.meter.borrow_mut());
        for record in batch.records() {
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            if let Some(arrival) = judge.delivered(partition, record.offset.0, key, value) {
                meter.delivered(at_ns, arrival.due_ns, arrival.acknowledged_ns);
            }
        }
    }

    /// A partition can't be read where it is: what is there counts as corrupted, and reading goes on behind it.
    async fn pass_over(&self, error: ConsumeError) {
        let Some(partition) = self.local.setup.find(&error.topic, error.partition) else { return };
        let Fault::Corrupt(corrupt) = &error.fault else {
            self.local.failed(0, error.to_string());
            self.local.shard.sleep(RETRY).await;
            let position = self.consumer.position(&error.topic, error.partition);
            self.consumer.assign_at(&error.topic, error.partition, position.unwrap_or_default());
            return;
        };
        let (local, consumer, topic, offset) =
            (self.local.clone(), self.consumer.clone(), error.topic.clone(), corrupt.offset);
        let index = error.partition;
        // The acknowledgement of what is there may still be on its way: the other partitions do not wait for it.
        let task = async move {
            loop {
                let next = local.judge.borrow_mut().unreadable(partition, offset.0);
                if let Some(next) = next {
                    return consumer.assign_at(&topic, index, Offset(next));
                }
                local.shard.sleep(RETRY).await;
            }
        };
        let account = self.local.shard.account("consumer");
        drop(self.local.shard.spawn(shard::Class::Latency, account, task));
    }
}
