//! Whole brokers under crashes: four shards with the handlers that ship, clients on a machine of their own over a network that
//! delays, splits and resets, and the broker crashed at any operation of its disk, during recovery too.
//!
//! What must hold, for every answer, every read and every recovery: see `sim::ledger`.

mod clients;
mod model;
mod node;
mod watcher;

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::Random;
use shard::{Class, Shard, ShardOptions};
use sim::batches::split;
use sim::io::Crash;
use sim::runner::{Report, Simulation, check_determinism, run_all};
use sim::seat::{MachineId, Seat};
use sim::world::{Failure, World};
use wire::ErrorCode;

use clients::{Client, SharedModel};
use model::{Life, Model};

const DISK_BYTES: u64 = 256 << 20;
/// So many operations of clients in each seed, a few more or less, and never fewer than the second.
const OPERATIONS: u64 = 2_200;
const OPERATIONS_MIN: u64 = 2_000;
/// A crash under clients comes within so many operations of the disk; a round has some hundreds.
const DISK_OPERATIONS: u64 = 400;
const TOPICS: usize = 4;
const PRODUCERS: u32 = 8;
const READERS: u32 = 4;
const LIMIT: Duration = Duration::from_secs(3600);

/// What every run of all seeds must have met.
const MUST_MEET: &[&str] = &[
    "crash: kill",
    "crash: power loss",
    "crash: torn page",
    "crash in recovery",
    "crash in recovery, twice",
    "crash under clients",
    "restart with more shards",
    "restart with fewer shards",
    "restart after a topic was deleted and created again",
    "round on four shards",
    "connection reset",
    "partitioned network",
    "produce pipelined",
    "produce sent again",
    "batch kept in a topic of its codec",
    "small batch stored with another codec",
    "large batch stored with another codec",
    "topic deleted",
    "topic created again under its name",
    "records read",
    "metrics of several shards",
    "watched before it was ready",
];

const BROKER: Simulation = Simulation {
    name: "broker",
    run: run_broker,
    must_meet: MUST_MEET,
    fresh_seeds: 200,
    operations_min: OPERATIONS_MIN,
};

struct Run<'a> {
    world: &'a mut World,
    random: Random,
    broker: MachineId,
    clients: MachineId,
    client_shards: Vec<Shard>,
    model: SharedModel,
}

fn run_broker(world: &mut World, report: &mut Report, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed ^ 0xb20c);
    let broker = world.add_machine(DISK_BYTES);
    let clients = world.add_machine(0);
    let options = |seat: Seat| ShardOptions { id: seat.shard, arena_bytes: 64 << 20, ..ShardOptions::default() };
    let client_shards = world.boot(clients, 1, options);
    let model: SharedModel = Rc::new(RefCell::new(Model::new(random.fork())));
    let mut run = Run { world, random, broker, clients, client_shards, model: model.clone() };
    let result = run.all_rounds();
    report.operations = model.borrow().operations;
    report.register.merge(&model.borrow().register);
    result
}

impl Run<'_> {
    fn all_rounds(&mut self) -> Result<(), Failure> {
        let rounds = 2 + self.random.below(3);
        let mut shards = 4;
        self.start(shards)?;
        self.clients_begin();
        for round in 0..rounds {
            let last = round + 1 == rounds;
            self.model.borrow_mut().budget = OPERATIONS / rounds;
            self.work()?;
            let next = if last { shards } else { 1 + self.random.below(4) as u16 };
            self.hit_restart(shards, next);
            shards = next;
            if self.world.is_up(self.broker) {
                let how = Crash::drawn(&mut self.random);
                self.world.crash(self.broker, how);
            }
            self.start(shards)?;
            self.check(true)?;
            if !last {
                self.clients_begin();
            }
        }
        Ok(())
    }

    fn hit_restart(&mut self, from: u16, to: u16) {
        let register = &mut self.model.borrow_mut().register;
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => register.hit("restart with more shards"),
            std::cmp::Ordering::Less => register.hit("restart with fewer shards"),
            std::cmp::Ordering::Equal => {}
        }
    }

    fn client(&self, index: usize) -> Client {
        let shard = self.client_shards[index % self.client_shards.len()].clone();
        Client {
            shard,
            broker: format!("10.0.0.1:{}", node::PORT).parse().expect("an address"),
            model: self.model.clone(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let shard = &self.client_shards[0];
        drop(shard.spawn(Class::Normal, shard.account("clients"), task));
    }

    /// Starts the broker until it comes through; it may be crashed on the way, more than once.
    fn start(&mut self, shards: u16) -> Result<(), Failure> {
        let crashes = [0, 0, 1, 2][self.random.below(4) as usize];
        {
            let mut model = self.model.borrow_mut();
            if std::mem::take(&mut model.recreated) {
                model.register.hit("restart after a topic was deleted and created again");
            }
            if shards == 4 {
                model.register.hit("round on four shards");
            }
        }
        let (random, model) = (&mut self.random, self.model.clone());
        let draw = || (1 + random.below(250), Crash::drawn(random));
        let crashed = |count| {
            let what = if count > 1 { "crash in recovery, twice" } else { "crash in recovery" };
            model.borrow_mut().register.hit(what);
        };
        node::start_through(self.world, self.broker, &node::config(shards), crashes, draw, crashed)
    }

    /// Starts all clients; they end when the operations are used up.
    fn clients_begin(&mut self) {
        let mut model = self.model.borrow_mut();
        model.budget = 1;
        model.working = PRODUCERS + READERS + 2;
        drop(model);
        for index in 0..PRODUCERS as usize {
            self.spawn(self.client(index).produce_loop());
        }
        for index in 0..READERS as usize {
            self.spawn(self.client(index).read_loop());
        }
        self.spawn(self.client(0).admin_loop(TOPICS));
        self.spawn(watcher::watch_loop(self.client(0)));
        self.world.nudge(self.clients);
    }

    /// Clients work; the broker crashes at some operation and is started again, until all operations are done.
    fn work(&mut self) -> Result<(), Failure> {
        let mut crashes = self.random.below(3);
        loop {
            if crashes > 0 {
                let how = Crash::drawn(&mut self.random);
                let at = 50 + self.random.below(DISK_OPERATIONS);
                self.world.crash_after(self.broker, at, how);
            }
            self.disturb_network();
            let (model, broker) = (self.model.clone(), self.broker);
            self.world.run_until(LIMIT, |world| {
                let model = model.borrow();
                model.working == 0 || model.broken.is_some() || !world.is_up(broker)
            })?;
            self.world.state().net.set_cut(self.broker, self.clients, false);
            self.judged()?;
            if self.world.is_up(self.broker) {
                self.world.spare(self.broker);
                return Ok(());
            }
            self.model.borrow_mut().register.hit("crash under clients");
            crashes = crashes.saturating_sub(1);
            let shards = 1 + self.random.below(4) as u16;
            self.start(shards)?;
        }
    }

    /// A reset, or a partition that heals by itself soon.
    fn disturb_network(&mut self) {
        let (broker, clients) = (self.broker, self.clients);
        let after = Duration::from_millis(1 + self.random.below(400));
        let until = self.world.now() + after;
        let model = self.model.clone();
        let step = |world: &mut World| world.now() >= until || model.borrow().working == 0 || !world.is_up(broker);
        if self.world.run_until(LIMIT, step).is_err() || !self.world.is_up(broker) {
            return;
        }
        let model = self.model.clone();
        let hit = |what| model.borrow_mut().register.hit(what);
        // What goes wrong here is met again by who waits for the clients.
        let _ = self.world.disturb_network(&mut self.random, (broker, clients), 8000, hit);
    }

    fn judged(&self) -> Result<(), Failure> {
        match self.model.borrow_mut().broken.take() {
            Some(why) => Err(Failure::Judged(why)),
            None => Ok(()),
        }
    }

    /// After a restart, before any client writes: all topics, and all partitions from their start to their end.
    fn check(&mut self, restarted: bool) -> Result<(), Failure> {
        let done: Rc<RefCell<Option<Result<(), String>>>> = Rc::default();
        let (client, told) = (self.client(0), done.clone());
        self.model.borrow_mut().budget = 1;
        self.spawn(async move {
            let result = check_all(&client, restarted).await;
            *told.borrow_mut() = Some(result);
        });
        self.world.nudge(self.clients);
        self.world.run_until(LIMIT, |_| done.borrow().is_some())?;
        self.judged()?;
        let result = done.borrow_mut().take();
        result.expect("waited for").map_err(Failure::Judged)
    }
}

async fn check_all(client: &Client, restarted: bool) -> Result<(), String> {
    let connection = client.connect().await.ok_or("no connection")?;
    client.settle_topics(&connection, restarted).await.map_err(|error| error.to_string())?;
    let topics: Vec<(usize, String, base::Uuid, usize)> = {
        let model = client.model.borrow();
        let live = model.topics.iter().enumerate().filter(|(_, topic)| topic.life == Life::Live);
        live.filter_map(|(index, topic)| Some((index, topic.name.clone(), topic.id?, topic.partitions.len()))).collect()
    };
    for (index, name, id, partitions) in topics {
        for partition in 0..partitions {
            let (mut at, mut found) = (0, Vec::new());
            loop {
                let (code, high_watermark, records) =
                    client.fetch_once(&connection, id, &[(partition, at)]).await.map_err(|error| error.to_string())?;
                if code != ErrorCode::None {
                    return Err(format!("{name}-{partition}: a fetch from {at} was refused: {code:?}"));
                }
                let marks = split(&records).map_err(|why| format!("{name}-{partition}: {why}"))?;
                match marks.last() {
                    Some(last) => at = last.last + 1,
                    None if at >= high_watermark => break,
                    None => return Err(format!("{name}-{partition}: nothing at {at} of {high_watermark}")),
                }
                found.extend(marks);
            }
            let stored = client.model.borrow_mut().check_codecs(index, &found);
            stored.map_err(|why| format!("{name}-{partition} after a restart: {why}"))?;
            let checked = client.model.borrow_mut().topics[index].partitions[partition].check_all(0, at, &found);
            checked.map_err(|why| format!("{name}-{partition} after a restart: {why}"))?;
        }
    }
    Ok(())
}

#[test]
fn seeds() {
    run_all(&BROKER, include_str!("../../pinned_seeds.txt"));
}

#[test]
fn one_seed_has_one_history() {
    check_determinism(&BROKER, 1..3);
}
