//! A producer: sends each record when it is due, and learns what became of it.
//!
//! Owner: one thread. The schedule alone says when a record is due. Where the client takes no more (its buffer is full of what the
//! broker owes), records wait here, and their latencies grow by it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{PartitionIndex, Random, WallTime};
use client::{Acks, BatchOutcome, Client, Delivery, Producer, ProducerOptions, ProducerRecord, SendError};

use super::local::Local;
use super::setup::Setup;
use crate::filler::Filler;
use crate::keys::{Keys, partition_of};
use crate::payload::{Stamp, stamp};
use crate::verify::{Ack, News};
use crate::workload::{Rate, Schedule};

/// Records sent before others on the thread have their turn.
const BURST: u32 = 256;
/// The least time between two looks at what is due: records that fall due in between are this late at most, which counts as latency.
const TICK: Duration = Duration::from_micros(100);
/// How long after the end records may be sent that were due before it.
const GRACE: Duration = Duration::from_millis(20);
/// The pause after a record that could not be handed to the client.
const RETRY: Duration = Duration::from_millis(50);

/// Records that went into one batch.
struct SentBatch {
    id: u64,
    first: u64,
    due_ns: Vec<u64>,
    bytes: u64,
}

/// What is on its way to one partition.
#[derive(Default)]
struct Stream {
    next_number: u64,
    /// The oldest first.
    batches: VecDeque<SentBatch>,
}

/// What a producer has on its way.
#[derive(Default)]
struct Book {
    streams: Vec<Stream>,
    /// By partition: where its stream stands.
    places: HashMap<u32, usize>,
    /// The partition looked at last: records come in runs.
    last: Option<(u32, usize)>,
    /// The partition of each batch.
    batches: HashMap<u64, u32>,
    /// Vectors that are used again.
    spare: Vec<Vec<u64>>,
}

impl Book {
    fn stream(&mut self, partition: u32) -> &mut Stream {
        let place = match self.last {
            Some((last, place)) if last == partition => place,
            _ => *self.places.entry(partition).or_insert_with(|| {
                self.streams.push(Stream::default());
                self.streams.len() - 1
            }),
        };
        self.last = Some((partition, place));
        &mut self.streams[place]
    }

    fn sent(&mut self, partition: u32, batch: u64, due_ns: u64, bytes: usize) {
        let stream = self.stream(partition);
        let first = stream.next_number;
        stream.next_number += 1;
        if let Some(newest) = stream.batches.back_mut().filter(|newest| newest.id == batch) {
            newest.due_ns.push(due_ns);
            newest.bytes += bytes as u64;
            return;
        }
        let mut due = self.spare.pop().unwrap_or_default();
        due.push(due_ns);
        let sent = SentBatch { id: batch, first, due_ns: due, bytes: bytes as u64 };
        self.stream(partition).batches.push_back(sent);
        self.batches.insert(batch, partition);
    }

    fn next_number(&mut self, partition: u32) -> u64 {
        self.stream(partition).next_number
    }

    fn settled(&mut self, batch: u64) -> Option<(u32, SentBatch)> {
        let partition = self.batches.remove(&batch)?;
        let batches = &mut self.stream(partition).batches;
        let place = batches.iter().position(|sent| sent.id == batch)?;
        Some((partition, batches.remove(place)?))
    }
}

/// Where records without a key go: to one partition until it has had a batch, or until that has lingered, then to the next.
struct Turns {
    partitions: u32,
    current: u32,
    bytes_left: usize,
    until_ns: u64,
}

impl Turns {
    fn choose(&mut self, bytes: usize, now_ns: u64, setup: &Setup) -> u32 {
        if self.bytes_left < bytes || now_ns >= self.until_ns {
            self.current = (self.current + 1) % self.partitions;
            self.bytes_left = setup.workload.batch_bytes;
            self.until_ns = now_ns + setup.workload.linger.as_nanos() as u64;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.current
    }
}

/// One of the producers of a run.
pub struct Producing {
    local: Rc<Local>,
    producer: Producer,
    index: u32,
    schedule: Option<Schedule>,
    random: Random,
    keys: Option<Keys>,
    filler: Rc<RefCell<Filler>>,
    value: Vec<u8>,
    turns: Turns,
    book: Rc<RefCell<Book>>,
}

/// The settings of a producer.
fn options(setup: &Setup) -> ProducerOptions {
    let workload = &setup.workload;
    ProducerOptions {
        acks: workload.acks,
        compression: workload.compression,
        batch_bytes: workload.batch_bytes,
        linger: workload.linger,
        request_bytes: workload.request_bytes,
        buffer_bytes: workload.buffer_bytes,
        idempotent: workload.idempotence,
        requests_in_flight: workload.in_flight,
        delivery_timeout: workload.delivery_timeout,
        ..ProducerOptions::default()
    }
}

impl Producing {
    pub fn new(local: &Rc<Local>, client: &Client, index: u32, filler: &Rc<RefCell<Filler>>) -> Result<Self, String> {
        let setup = &local.setup;
        let workload = &setup.workload;
        let producer = Producer::open(client, options(setup)).map_err(|error| error.to_string())?;
        let schedule = match &workload.rate {
            Rate::Max => None,
            Rate::Steps(steps) => {
                let producers = f64::from(workload.producers);
                Some(Schedule::new(steps, 1.0 / producers, f64::from(index) / producers))
            }
        };
        let book: Rc<RefCell<Book>> = Rc::default();
        let (of_watch, its_book) = (local.clone(), book.clone());
        producer.watch(move |outcome| settle(&of_watch, &its_book, index, outcome));
        let partitions = setup.numbering.partitions;
        // Producers begin at different partitions.
        let current = (u64::from(index) * u64::from(partitions) / u64::from(workload.producers.max(1))) as u32;
        Ok(Self {
            local: local.clone(),
            producer,
            index,
            schedule,
            random: Random::new(u64::from(setup.run) << 32 | u64::from(index)),
            keys: Keys::new(workload.keys, workload.key_count, workload.key_bytes),
            filler: filler.clone(),
            value: Vec::new(),
            turns: Turns { partitions, current, bytes_left: 0, until_ns: 0 },
            book,
        })
    }

    /// Sends until `end_ns`, then waits for what is on its way.
    pub async fn run(mut self, end_ns: u64) {
        let mut sent = 0;
        self.local.shard.sleep_until(self.local.begin.get()).await;
        // What was due just before the end is still sent, unless the client takes no more.
        let over_ns = if self.schedule.is_some() { end_ns + GRACE.as_nanos() as u64 } else { end_ns };
        let limit = self.local.begin.get() + Duration::from_nanos(over_ns);
        loop {
            let now_ns = self.local.now_ns();
            if now_ns >= over_ns {
                break;
            }
            let wall = self.local.shard.wall();
            let (until, had_due) = match self.burst(&mut sent, now_ns, end_ns, wall, limit).await {
                Ok(next) => next,
                Err(reason) => {
                    // It is of no more use: what was due and is not sent is said.
                    self.local.failed(0, reason);
                    break;
                }
            };
            if had_due {
                self.local.shard.yield_now().await;
                continue;
            }
            if until >= end_ns {
                break;
            }
            let now = self.local.shard.now();
            let until = self.local.begin.get() + Duration::from_nanos(until);
            self.local.shard.sleep_until(until.max(now + TICK)).await;
        }
        if let Some(schedule) = &self.schedule {
            let due = schedule.count_before(end_ns);
            self.local.unsent.set(self.local.unsent.get() + due.saturating_sub(sent));
        }
        let drain = self.local.shard.now() + self.local.setup.workload.drain;
        let flushed = self.local.shard.until(drain, self.producer.flush()).await;
        if flushed.is_none() {
            self.give_up();
        }
    }

    /// Sends what is due by now, at most [`BURST`] records. Returns when the next one is due, and whether there may be more already.
    async fn burst(
        &mut self,
        sent: &mut u64,
        now_ns: u64,
        end_ns: u64,
        wall: WallTime,
        limit: base::Instant,
    ) -> Result<(u64, bool), String> {
        for count in 0..BURST {
            let due_ns = match &self.schedule {
                Some(schedule) => schedule.due_ns(*sent).unwrap_or(u64::MAX),
                None => now_ns,
            };
            if due_ns > now_ns || due_ns >= end_ns {
                return Ok((due_ns, false));
            }
            if count == 0 && self.schedule.is_some() {
                self.local.meter.borrow_mut().behind(now_ns - due_ns);
            }
            let is_sent = self.send(due_ns, now_ns, wall, limit).await?;
            if !is_sent {
                return Ok((now_ns + RETRY.as_nanos() as u64, false));
            }
            *sent += 1;
        }
        Ok((now_ns, true))
    }

    /// Hands a record to the client; `false` if it could not be before the time was up, or has to be tried again.
    async fn send(&mut self, due_ns: u64, now_ns: u64, wall: WallTime, limit: base::Instant) -> Result<bool, String> {
        let setup = self.local.setup.clone();
        let workload = &setup.workload;
        let bytes = workload.record_bytes.draw(&mut self.random);
        self.value.clear();
        self.value.extend_from_slice(self.filler.borrow_mut().piece(bytes));
        let key = self.keys.as_mut().map(|keys| keys.draw(&mut self.random));
        let partition = match key {
            Some(key) => {
                let topic =
                    if workload.topics == 1 { 0 } else { self.random.below(u64::from(workload.topics)) as usize };
                setup.number(topic, partition_of(key, workload.partitions))
            }
            None => self.turns.choose(bytes, now_ns, &setup),
        };
        let number = self.book.borrow_mut().next_number(partition);
        let stream = setup.numbering.stream(self.index, partition);
        stamp(&mut self.value, &Stamp { run: setup.run, stream, number, due_ns }, key.unwrap_or_default());
        let (topic, index): (_, PartitionIndex) = setup.place(partition);
        let record = ProducerRecord {
            topic,
            partition: Some(index),
            key,
            value: Some(&self.value),
            timestamp: Some(wall),
            ..ProducerRecord::default()
        };
        let bytes = bytes + key.map_or(0, <[u8]>::len);
        match hand_over(&self.local, &self.producer, record, due_ns, limit).await {
            Some(Ok(delivery)) => {
                self.book.borrow_mut().sent(partition, delivery.batch(), due_ns, bytes);
                Ok(true)
            }
            None => Ok(false),
            Some(Err(SendError::Topic(error))) => {
                self.local.failed(0, error.to_string());
                Ok(false)
            }
            Some(Err(error)) => Err(error.to_string()),
        }
    }

    /// What has no answer by now will not be waited for.
    fn give_up(&self) {
        let mut book = self.book.borrow_mut();
        let left: Vec<u64> = book.batches.keys().copied().collect();
        for batch in left {
            let Some((partition, sent)) = book.settled(batch) else { continue };
            let count = sent.due_ns.len() as u64;
            self.local.failed(count, "not answered by the end of the run".into());
            let stream = self.local.setup.numbering.stream(self.index, partition);
            self.local.tell(stream, News::Unknown { first: sent.first, count });
        }
    }
}

/// Hands a record to the client, waiting for room until `limit` where there is none.
async fn hand_over(
    local: &Local,
    producer: &Producer,
    record: ProducerRecord<'_>,
    due_ns: u64,
    limit: base::Instant,
) -> Option<Result<Delivery, SendError>> {
    let mut sending = pin!(producer.send(record));
    // There is room nearly always: no timer is set up then.
    match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => {
            let result = local.shard.until(limit, sending).await;
            let now_ns = local.roll();
            local.meter.borrow_mut().behind(now_ns - due_ns);
            result
        }
    }
}

/// Takes in what became of a batch.
fn settle(local: &Local, book: &RefCell<Book>, producer: u32, outcome: BatchOutcome) {
    let Some((partition, mut sent)) = book.borrow_mut().settled(outcome.batch) else { return };
    if outcome.tries > 1 {
        local.retried_batches.set(local.retried_batches.get() + 1);
    }
    let at_ns = local.roll();
    let (first, count) = (sent.first, sent.due_ns.len() as u64);
    let news = match outcome.result {
        Ok(offset) => {
            local.meter.borrow_mut().acknowledged(at_ns, &sent.due_ns, sent.bytes);
            // Without acknowledgements all that is known is that it was sent.
            match local.setup.workload.acks {
                Acks::Zero => News::Unknown { first, count },
                _ => News::Acknowledged(Ack { first, count, offset: offset.map(|offset| offset.0), at_ns }),
            }
        }
        Err(error) => {
            local.failed(count, error.to_string());
            if error.may_have_been_written() { News::Unknown { first, count } } else { News::Refused { first, count } }
        }
    };
    local.tell(local.setup.numbering.stream(producer, partition), news);
    sent.due_ns.clear();
    book.borrow_mut().spare.push(sent.due_ns);
}
