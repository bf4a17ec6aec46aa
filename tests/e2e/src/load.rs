//! Load: idempotent producers that pipeline, readers that follow, and audits that read everything.
//!
//! Owner: the test's shard. What goes wrong in a task is kept ([`Load::check`]) until the test's own future looks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Offset, PartitionIndex, Random};
use client::{Consumer, ConsumerOptions, Delivery, Producer, ProducerOptions, ProducerRecord, Start};
use shard::sync::{Event, Queue};
use shard::{Class, Shard, Task};

use crate::ledger::{Ledger, LogKey, LogReader, Promise, Violation};
use crate::payload::RecordId;
use crate::runner;

/// Records of one stream that wait for their acknowledgement.
const OUTSTANDING_MAX: usize = 1000;

/// A topic that is written to.
#[derive(Clone, Debug)]
pub struct LoadTopic {
    pub name: Rc<str>,
    pub generation: u32,
    pub partitions: i32,
}

impl LoadTopic {
    #[must_use]
    pub fn logs(&self) -> Vec<LogKey> {
        let log = |partition| LogKey {
            topic: self.name.clone(),
            generation: self.generation,
            partition: PartitionIndex(partition),
        };
        (0..self.partitions).map(log).collect()
    }
}

/// What the tasks of a test share.
pub struct Load {
    pub shard: Shard,
    pub ledger: RefCell<Ledger>,
    failed: RefCell<Option<Violation>>,
    open: Cell<bool>,
    /// Something was acknowledged, went wrong, or the gate has moved.
    changed: Event,
}

impl Load {
    #[must_use]
    pub fn new(shard: &Shard, ledger: Ledger) -> Rc<Self> {
        Rc::new(Self {
            shard: shard.clone(),
            ledger: RefCell::new(ledger),
            failed: RefCell::default(),
            open: Cell::new(true),
            changed: Event::new(),
        })
    }

    /// # Panics
    /// When something went wrong in a task.
    pub fn check(&self) {
        if let Some(Violation(what)) = &*self.failed.borrow() {
            panic!("{what}");
        }
    }

    pub fn fail(&self, violation: Violation) {
        self.failed.borrow_mut().get_or_insert(violation);
        self.changed.notify_all();
    }

    /// Lets producers go on, or stops them before their next record.
    pub fn set_open(&self, open: bool) {
        self.open.set(open);
        self.changed.notify_all();
    }

    async fn pass(&self) {
        while !self.open.get() {
            self.changed.wait().await;
        }
    }

    fn acknowledged(&self, id: RecordId, offset: Option<Offset>) {
        match self.ledger.borrow_mut().acknowledge(id, offset) {
            Ok(()) => self.changed.notify_all(),
            Err(violation) => self.fail(violation),
        }
    }

    /// Waits until `done` holds of the ledger.
    ///
    /// # Panics
    /// When something went wrong meanwhile, or it takes too long.
    pub async fn until(&self, secs: u64, what: &str, done: impl Fn(&Ledger) -> bool) {
        let wait = async {
            loop {
                self.check();
                let changed = self.changed.wait();
                if done(&self.ledger.borrow()) {
                    return;
                }
                changed.await;
            }
        };
        runner::within(&self.shard, secs, what, wait).await;
    }

    /// Starts a producer that writes to `topics` until it is cancelled.
    pub fn start_producer(
        self: &Rc<Self>,
        kafka: &str,
        topics: &[LoadTopic],
        options: ProducerOptions,
        seed: u64,
        promise: Promise,
    ) -> Task<()> {
        let (load, client) = (self.clone(), runner::client(&self.shard, kafka));
        let producer = Producer::open(&client, options).expect("options that agree");
        let mut queues = Vec::new();
        for log in topics.iter().flat_map(LoadTopic::logs) {
            let stream = load.ledger.borrow_mut().open_stream(&log, promise);
            let queue = Queue::new(OUTSTANDING_MAX);
            let collector = collect(load.clone(), log.clone(), queue.clone(), promise);
            drop(self.shard.spawn(Class::Normal, self.shard.account("collect"), collector));
            queues.push((log, stream, Closing(queue)));
        }
        let task = produce(load, producer, queues, Random::new(seed), promise);
        self.shard.spawn(Class::Normal, self.shard.account("produce"), task)
    }

    /// Starts a reader that follows all logs of `topics` from their beginning until it is cancelled.
    pub fn start_reader(self: &Rc<Self>, kafka: &str, topics: &[LoadTopic]) -> Task<()> {
        let (load, client) = (self.clone(), runner::client(&self.shard, kafka));
        let logs: Vec<LogKey> = topics.iter().flat_map(LoadTopic::logs).collect();
        let task = async move {
            let consumer = Consumer::new(&client, ConsumerOptions::default());
            logs.iter().for_each(|log| consumer.assign_at(&log.topic, log.partition, Offset(0)));
            let mut readers = Readers::new(logs);
            loop {
                if let Err(violation) = readers.read(&load, &consumer).await {
                    return load.fail(violation);
                }
            }
        };
        self.shard.spawn(Class::Normal, self.shard.account("read"), task)
    }

    /// Reads every log of the topic from its beginning to its end of now, and judges it. Returns the records it has.
    ///
    /// # Errors
    /// A promise that was broken.
    pub async fn audit(&self, kafka: &str, topic: &LoadTopic) -> Result<u64, Violation> {
        let client = runner::client(&self.shard, kafka);
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        let logs = topic.logs();
        let partitions: Vec<_> = logs.iter().map(|log| log.partition).collect();
        // What is acknowledged while this reads may lie beyond the end that it reads to.
        let due: Vec<_> = logs.iter().map(|log| self.ledger.borrow().due(log)).collect();
        let assigned = consumer.assign_all(&topic.name, &partitions, Start::Beginning).await;
        let assigned = assigned.map_err(|error| Violation(format!("{}: {error}", topic.name)))?;
        for ((log, due), assigned) in logs.iter().zip(&due).zip(&assigned) {
            due.check_end(assigned.end)?;
            if assigned.start != Offset(0) {
                return Err(Violation(format!("{log} begins at {}", assigned.start)));
            }
        }
        let mut readers = Readers::new(logs);
        while !readers.0.values().zip(&assigned).all(|(reader, assigned)| reader.next_offset() >= assigned.end.0) {
            readers.read(self, &consumer).await?;
        }
        readers.0.values().zip(&due).try_for_each(|(reader, due)| due.check_read(reader))?;
        Ok(readers.0.values().map(|reader| u64::try_from(reader.next_offset()).unwrap_or(0)).sum())
    }
}

/// A reading of several logs at once.
struct Readers(BTreeMap<(Rc<str>, PartitionIndex), LogReader>);

impl Readers {
    fn new(logs: Vec<LogKey>) -> Self {
        Self(logs.into_iter().map(|log| ((log.topic.clone(), log.partition), LogReader::new(log))).collect())
    }

    /// Takes in one batch.
    async fn read(&mut self, load: &Load, consumer: &Consumer) -> Result<(), Violation> {
        let fetched = consumer.next().await.map_err(|error| Violation(format!("a reader fails: {error}")))?;
        let reader = self.0.get_mut(&(fetched.topic, fetched.partition)).expect("only what was assigned is read");
        let Some(batch) = fetched.batch else { return Ok(()) };
        let mut ledger = load.ledger.borrow_mut();
        batch.records().try_for_each(|record| reader.record(&mut ledger, record.offset, record.key, record.value))
    }
}

type Waiting = Queue<(RecordId, Delivery)>;

/// Its collector ends with it.
struct Closing(Waiting);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn produce(
    load: Rc<Load>,
    producer: Producer,
    queues: Vec<(LogKey, u32, Closing)>,
    mut random: Random,
    promise: Promise,
) {
    for count in 1_u64.. {
        load.pass().await;
        let at = usize::try_from(random.below(queues.len() as u64)).expect("an index");
        let (log, stream, queue) = &queues[at];
        let (id, payload) = {
            let mut ledger = load.ledger.borrow_mut();
            let id = ledger.send(*stream);
            (id, ledger.payload(id))
        };
        let record = ProducerRecord {
            topic: &log.topic,
            partition: Some(log.partition),
            key: payload.key.as_deref(),
            value: Some(&payload.value),
            ..ProducerRecord::default()
        };
        match producer.send(record).await {
            Ok(delivery) => drop(queue.0.push((id, delivery)).await),
            Err(_) if promise == Promise::Transient => return,
            Err(error) => return load.fail(Violation(format!("{log}: {id:?} is not accepted: {error}"))),
        }
        if count.is_multiple_of(32) {
            load.shard.yield_now().await;
        }
    }
}

/// Awaits the deliveries of one stream, which come in its order.
async fn collect(load: Rc<Load>, log: LogKey, queue: Waiting, promise: Promise) {
    while let Some((id, delivery)) = queue.pop().await {
        match delivery.await {
            Ok(delivered) => load.acknowledged(id, delivered.offset),
            Err(_) if promise == Promise::Transient => {}
            Err(error) => return load.fail(Violation(format!("{log}: {id:?} is not delivered: {error}"))),
        }
    }
}
