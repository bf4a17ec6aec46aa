//! Topics that come and go under load: created, written to, deleted, created again under the same name.
//!
//! Owner: one task. Every operation is carried through, with tries across a restart of the broker, so between two of them it is known
//! which topics there are; [`Churn::pause`] waits for such a moment.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{PartitionIndex, Random, Uuid};
use client::{Client, Error, NewTopic, OffsetSpec, Producer, ProducerOptions, ProducerRecord};
use shard::sync::{Permit, Semaphore};
use shard::{Class, Task};

use crate::ledger::{Promise, Violation};
use crate::load::{Load, LoadTopic};
use crate::runner;

const NAMES: [&str; 3] = ["churn-a", "churn-b", "churn-c"];

/// A topic that was created and not deleted; its id where the broker could tell.
#[derive(Clone, Debug)]
pub struct Present {
    pub topic: LoadTopic,
    pub id: Option<Uuid>,
}

/// What is known of the topics.
pub struct Churn {
    load: Rc<Load>,
    present: RefCell<BTreeMap<&'static str, Present>>,
    generation: Cell<u32>,
    turn: Semaphore,
    /// How often the broker was killed: an operation that saw it may find its own work done.
    kills: Cell<u64>,
    operations: Cell<u64>,
}

impl Churn {
    #[must_use]
    pub fn new(load: &Rc<Load>) -> Rc<Self> {
        Rc::new(Self {
            load: load.clone(),
            present: RefCell::default(),
            generation: Cell::new(0),
            turn: Semaphore::new(1),
            kills: Cell::new(0),
            operations: Cell::new(0),
        })
    }

    /// The broker is about to be killed.
    pub fn kill(&self) {
        self.kills.set(self.kills.get() + 1);
    }

    /// Operations carried through so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Nothing is under way while the permit lives.
    ///
    /// # Panics
    /// When the operation under way does not end.
    pub async fn pause(&self) -> Permit {
        let turn = self.turn.acquire(1);
        runner::within(&self.load.shard, 90, "an operation on topics ends", turn).await.expect("never closed")
    }

    /// The topics there must be.
    #[must_use]
    pub fn present(&self) -> Vec<Present> {
        self.present.borrow().values().cloned().collect()
    }

    /// Creates, fills and deletes until it is cancelled.
    pub fn start(self: &Rc<Self>, kafka: &str, seed: u64) -> Task<()> {
        let (churn, client) = (self.clone(), runner::client(&self.load.shard, kafka));
        let task = async move {
            let mut random = Random::new(seed);
            loop {
                let turn = churn.turn.acquire(1).await.expect("never closed");
                if let Err(violation) = churn.operate(&client, &mut random).await {
                    return churn.load.fail(violation);
                }
                churn.operations.set(churn.operations.get() + 1);
                drop(turn);
            }
        };
        self.load.shard.spawn(Class::Normal, self.load.shard.account("churn"), task)
    }

    async fn operate(&self, client: &Client, random: &mut Random) -> Result<(), Violation> {
        let name = NAMES[usize::try_from(random.below(NAMES.len() as u64)).expect("an index")];
        let present = self.present.borrow().get(name).cloned();
        match present {
            None => self.create(client, name, random).await,
            Some(_) if random.chance(1, 3) => self.delete(client, name).await,
            Some(present) => self.fill(client, &present.topic, random).await,
        }
    }

    async fn create(&self, client: &Client, name: &'static str, random: &mut Random) -> Result<(), Violation> {
        let kills = self.kills.get();
        let partitions = 1 + i32::try_from(random.below(4)).expect("small");
        let topic = NewTopic {
            name: name.to_owned(),
            partition_count: Some(partitions),
            configs: vec![("internal.segment.bytes".into(), "20000".into())],
            ..NewTopic::default()
        };
        let id = match client.create_topic(&topic, false).await {
            Ok(created) => Some(created.id),
            Err(error) if self.is_own_work(&error, "TOPIC_ALREADY_EXISTS", kills) => None,
            Err(error) => return Err(Violation(format!("{name} is not created: {error}"))),
        };
        self.generation.set(self.generation.get() + 1);
        let topic = LoadTopic { name: name.into(), generation: self.generation.get(), partitions };
        let asked: Vec<_> = (0..partitions).map(|p| (name, PartitionIndex(p), OffsetSpec::Latest)).collect();
        client.doubt_topic(name);
        let ends = client.list_offsets(&asked).await;
        let ends = ends.map_err(|error| Violation(format!("{name} was created and has no offsets: {error}")))?;
        if let Some(end) = ends.iter().find(|end| end.offset.is_none_or(|offset| offset.0 != 0)) {
            return Err(Violation(format!("{name} was created and is not empty: {end:?}")));
        }
        self.present.borrow_mut().insert(name, Present { topic, id });
        Ok(())
    }

    async fn delete(&self, client: &Client, name: &'static str) -> Result<(), Violation> {
        let kills = self.kills.get();
        match client.delete_topic(name).await {
            Ok(()) => {}
            Err(error) if self.is_own_work(&error, "UNKNOWN_TOPIC_OR_PARTITION", kills) => {}
            Err(error) => return Err(Violation(format!("{name} is not deleted: {error}"))),
        }
        self.present.borrow_mut().remove(name);
        self.load.ledger.borrow_mut().forget(name);
        Ok(())
    }

    /// The first try was carried out, and its answer went down with the broker.
    fn is_own_work(&self, error: &Error, code: &str, kills: u64) -> bool {
        self.kills.get() != kills && error.code().is_some_and(|found| found.name() == code)
    }

    /// Some records, all of them acknowledged before the operation ends.
    async fn fill(&self, client: &Client, topic: &LoadTopic, random: &mut Random) -> Result<(), Violation> {
        let ledger = &self.load.ledger;
        let producer = Producer::open(client, ProducerOptions::default()).expect("options that agree");
        let mut deliveries = Vec::new();
        for log in topic.logs() {
            let stream = ledger.borrow_mut().open_stream(&log, Promise::Settles);
            for _ in 0..random.below(200) {
                let id = ledger.borrow_mut().send(stream);
                let payload = ledger.borrow().payload(id);
                let record = ProducerRecord {
                    topic: &topic.name,
                    partition: Some(log.partition),
                    key: payload.key.as_deref(),
                    value: Some(&payload.value),
                    ..ProducerRecord::default()
                };
                let sent = producer.send(record).await;
                deliveries
                    .push((id, sent.map_err(|error| Violation(format!("{log}: {id:?} is not accepted: {error}")))?));
            }
        }
        producer.flush().await;
        for (id, delivery) in deliveries {
            let delivered = delivery.await;
            let delivered =
                delivered.map_err(|error| Violation(format!("{}: {id:?} is not delivered: {error}", topic.name)))?;
            ledger.borrow_mut().acknowledge(id, delivered.offset)?;
        }
        Ok(())
    }
}
