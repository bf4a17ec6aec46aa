//! The life of one thread of the generator: it connects, waits for the others, produces and consumes, and waits for what is on its way.
//!
//! The first thread says when the run begins, and watches what processes use meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use base::{Instant, Random, ShardId};
use client::Connection;
use shard::sync::Event;
use shard::{Class, MeshSeat, Shard};

use super::beside::{self, CaughtUp};
use super::consuming::Consuming;
use super::grouping::Group;
use super::local::{Local, Message, Over};
use super::producing::Producing;
use super::setup::{Setup, client};
use super::usage::{Usage, Watch};
use crate::filler::Filler;
use crate::measure::{Meter, Window};
use crate::membership::MemberTally;
use crate::report::Verified;
use crate::verify::Judge;

/// What a thread learned.
pub struct Learned {
    pub verified: Verified,
    pub members: MemberTally,
    pub reasons: BTreeMap<String, u64>,
    pub retried_batches: u64,
    pub unsent: u64,
    /// On the first thread: what processes used in the measured time.
    pub usage: Option<Usage>,
    pub caught_up: Vec<CaughtUp>,
}

/// What a thread is given.
pub struct Seat {
    pub mesh: MeshSeat<Message>,
    pub setup: Arc<Setup>,
    pub broker_pid: Option<u32>,
    pub seconds: Sender<Over>,
}

const FIRST: ShardId = ShardId(0);
/// From when all are ready to the begin: so that the word has reached everybody.
const LEAD: Duration = Duration::from_millis(100);
/// Between two looks whether something is still on its way.
const LOOK: Duration = Duration::from_millis(20);

/// What a thread waits for from others.
#[derive(Default)]
struct Word {
    ready: Cell<u16>,
    begun: Cell<bool>,
    given_up: Cell<bool>,
    changed: Event,
}

/// Runs a thread's part.
///
/// # Errors
/// It could not connect, in words.
pub async fn run(shard: Shard, seat: Seat) -> Result<Learned, String> {
    let Seat { mesh, setup, broker_pid, seconds } = seat;
    let workload = setup.workload.clone();
    let window = Window::new(workload.warm_up, workload.duration);
    let mesh = mesh.attach(&shard);
    let local = Local::new(shard.clone(), setup.clone(), mesh, window, seconds);
    let account = shard.account("loadgen");
    let spawn = |task: std::pin::Pin<Box<dyn Future<Output = ()>>>| shard.spawn(Class::Latency, account.clone(), task);
    let word = Rc::new(Word::default());
    let listening = spawn(Box::pin(listen(local.clone(), word.clone())));
    let carrying = spawn(Box::pin(local.clone().carry()));

    let made = make(&local).await;
    let (producers, consumers, groups, idle) = match made {
        Ok(made) => made,
        Err(reason) => {
            give_up(&local).await;
            return Err(reason);
        }
    };
    meet(&local, &word).await?;
    let begin = local.begin.get();
    let end_ns = window.end_ns;

    let ticking = spawn(Box::pin(tick(local.clone())));
    let reading: Vec<_> = consumers.into_iter().map(|consumer| spawn(Box::pin(consumer.run()))).collect();
    groups.iter().for_each(Group::begin);
    let sending: Vec<_> = producers.into_iter().map(|producer| spawn(Box::pin(producer.run(end_ns)))).collect();
    let is_first = shard.id() == FIRST;
    let mut beside = is_first.then(|| beside::start(&local, begin + workload.warm_up));
    let usage = if is_first { Some(watch(&shard, begin, window, broker_pid).await) } else { None };
    for task in sending {
        task.await;
    }
    for group in &groups {
        group.end_churn().await;
    }
    local.flush_news().await;
    local.silent.set(local.silent.get() + 1);
    for thread in local.others() {
        local.mesh.post(thread, Message::NoMoreNews).await;
    }
    drained(&local).await;
    for group in &groups {
        group.end().await;
    }
    let caught_up = match beside.take() {
        Some(beside) => beside.end().await,
        None => Vec::new(),
    };
    reading.into_iter().chain([ticking, listening, carrying]).for_each(shard::Task::cancel);
    shard.yield_now().await;
    drop(idle);
    Ok(learned(&local, usage, caught_up))
}

type Made = (Vec<Producing>, Vec<Consuming>, Vec<Rc<Group>>, Vec<Connection>);

/// Opens the clients of this thread, and connects them.
async fn make(local: &Rc<Local>) -> Result<Made, String> {
    let (setup, shard) = (&local.setup, &local.shard);
    let workload = &setup.workload;
    let client = client(shard, &setup.bootstrap);
    for topic in &setup.topics {
        client.topic(topic).await.map_err(|error| error.to_string())?;
    }
    let mine = |count: u32| (0..count).filter(|number| local.thread_of(*number) == shard.id());
    let mut random = Random::new(u64::from(setup.run));
    let filler = Filler::new(&workload.payload, workload.record_bytes.most(), &mut random);
    let filler = Rc::new(RefCell::new(filler.map_err(|error| error.to_string())?));
    let mut producers = Vec::new();
    for index in mine(workload.producers) {
        producers.push(Producing::new(local, &client, index, &filler)?);
    }
    let consumers = mine(workload.consumers).map(|index| Consuming::new(local, &client, index)).collect();
    let idle = beside::idle_connections(local, &client, mine(workload.idle_connections).count()).await?;
    let groups: Vec<_> = (0..).zip(local.groups()).map(|(judge, group)| Group::start(local, judge, group)).collect();
    for group in &groups {
        group.whole().await?;
    }
    Ok((producers, consumers, groups, idle))
}

/// Waits until every thread can begin, and learns when that is.
async fn meet(local: &Local, word: &Word) -> Result<(), String> {
    let mesh = &local.mesh;
    if local.shard.id() == FIRST {
        while word.ready.get() + 1 < mesh.shards() && !word.given_up.get() {
            word.changed.wait().await;
        }
        let begin = local.shard.now() + LEAD;
        for thread in local.others() {
            mesh.post(thread, if word.given_up.get() { Message::GiveUp } else { Message::Begin(begin) }).await;
        }
        local.begin.set(begin);
    } else {
        mesh.post(FIRST, Message::Ready).await;
        while !word.begun.get() && !word.given_up.get() {
            word.changed.wait().await;
        }
    }
    if word.given_up.get() { Err("another thread could not begin".into()) } else { Ok(()) }
}

async fn give_up(local: &Local) {
    for thread in local.others() {
        local.mesh.post(thread, Message::GiveUp).await;
    }
}

/// Takes in what other threads say, for ever.
async fn listen(local: Rc<Local>, word: Rc<Word>) {
    loop {
        match local.mesh.receive().await.message {
            Message::Ready => word.ready.set(word.ready.get() + 1),
            Message::Begin(at) => {
                local.begin.set(at);
                word.begun.set(true);
            }
            Message::News(news) => news.into_iter().for_each(|(stream, news)| local.hear(stream, news)),
            Message::NoMoreNews => local.silent.set(local.silent.get() + 1),
            Message::GiveUp => word.given_up.set(true),
        }
        word.changed.notify_all();
    }
}

/// Ends each second when it is over, for ever.
async fn tick(local: Rc<Local>) {
    loop {
        local.roll();
        local.shard.sleep(LOOK).await;
    }
}

/// Samples what processes use at both ends of the measured time.
async fn watch(shard: &Shard, begin: Instant, window: Window, broker_pid: Option<u32>) -> Usage {
    shard.sleep_until(begin + Duration::from_nanos(window.begin_ns)).await;
    let watch = Watch::begin(shard.now(), broker_pid);
    shard.sleep_until(begin + Duration::from_nanos(window.end_ns)).await;
    watch.end(shard.now())
}

/// Waits until all that was acknowledged has been delivered, or nothing more comes.
async fn drained(local: &Local) {
    let workload = &local.setup.workload;
    if !workload.is_read() {
        return;
    }
    let (mut seen, mut since) = (0, local.shard.now());
    loop {
        let (settled, delivered) = {
            let judges = local.judges.borrow();
            (judges.iter().all(Judge::is_settled), judges.iter().map(Judge::delivered_count).sum::<u64>())
        };
        let now = local.shard.now();
        if delivered != seen {
            (seen, since) = (delivered, now);
        }
        let is_over = local.silent.get() == local.mesh.shards();
        if (is_over && settled) || now >= since + workload.drain {
            return;
        }
        local.shard.sleep(LOOK).await;
    }
}

fn learned(local: &Local, usage: Option<Usage>, caught_up: Vec<CaughtUp>) -> Learned {
    local.roll();
    let meter = local.meter.replace(Meter::new(Window { begin_ns: u64::MAX, end_ns: u64::MAX }));
    local.hand_over(meter.finish());
    let mut verified = Verified::default();
    local.judges.borrow_mut().iter_mut().for_each(|judge| verified.add(&judge.verdict()));
    Learned {
        verified,
        members: local.members.take(),
        reasons: local.reasons.take(),
        retried_batches: local.retried_batches.get(),
        unsent: local.unsent.get(),
        usage,
        caught_up,
    }
}
