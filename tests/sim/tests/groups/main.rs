//! Consumer groups under crashes: members of both protocols that stall, crash, leave, come back and fence each other, commits that race
//! rebalances, logs that are compacted meanwhile, and the broker, with the coordinators that ship, crashed at any operation of its disk.
//!
//! What must hold: see `sim::groups` and `sim::compacted`. In the end everybody behaves; then each group comes to rest with every
//! partition in one hand, and read to its end.

mod classic;
mod consumer;
mod logs;
mod model;
#[path = "../broker/node.rs"]
mod node;
mod seat;
mod setup;
mod writers;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::Random;
use shard::{Class, Shard, ShardOptions};
use sim::faults::DiskFaults;
use sim::io::Crash;
use sim::runner::{Report, Simulation, check_determinism, run_all};
use sim::seat::{MachineId, Seat as MachineSeat};
use sim::world::{Failure, World};
use tidemill::config::NodeConfig;

use logs::Trail;
use model::{GROUPS, KEYED, Kind, Model, SharedModel};
use seat::{Link, Seat};

const DISK_BYTES: u64 = 256 << 20;
/// Members of each group; the last two are one instance.
const SEATS: usize = 4;
const OPERATIONS_MIN: u64 = 300;
/// Virtual time in which everything that is waited for must happen.
const LIMIT: Duration = Duration::from_secs(600);
/// In which all groups come to rest once nobody misbehaves.
const REST_LIMIT: Duration = Duration::from_secs(120);

/// Between two rounds of compaction, as the store has it.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(15);

/// What every run of all seeds must have met.
const MUST_MEET: &[&str] = &[
    "crash: kill",
    "crash: power loss",
    "crash in recovery",
    "crash under members",
    "restart with more shards",
    "restart with fewer shards",
    "connection reset",
    "partitioned network",
    "member stalled",
    "member crashed",
    "member left",
    "member that was taken for dead",
    "member of an old generation",
    "member that does not fetch its share",
    "member that was given an id and did not come",
    "instance fenced by another",
    "leader that came back and kept the shares",
    "commit without an answer",
    "commit of an old member refused",
    "commit taken while its member joined",
    "commit refused while its member joined",
    "consumer left",
    "consumer that was taken for dead",
    "consumer fenced by its twin",
    "instance left for a while",
    "instance that is another's still",
    "partitions given up",
    "member that gives up late",
    "commit of an old epoch refused",
    "log of groups was compacted",
    "topic with keys was compacted",
    "tombstone went",
];

const SIMULATION: Simulation = Simulation {
    name: "groups",
    run: run_groups,
    must_meet: MUST_MEET,
    fresh_seeds: 200,
    operations_min: OPERATIONS_MIN,
};

struct Run<'a> {
    world: &'a mut World,
    random: Random,
    broker: MachineId,
    clients: MachineId,
    shard: Shard,
    model: SharedModel,
    trails: Rc<RefCell<Vec<Trail>>>,
}

fn run_groups(world: &mut World, report: &mut Report, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed ^ 0x6c0f);
    let broker = world.add_machine(DISK_BYTES);
    // So that what is not kept yet may be lost long after who asked could have been told.
    world.state().machine(broker).faults = DiskFaults { stall_ppm: 10_000, ..DiskFaults::default() };
    let clients = world.add_machine(0);
    let options = |seat: MachineSeat| ShardOptions { id: seat.shard, arena_bytes: 64 << 20, ..ShardOptions::default() };
    let shard = world.boot(clients, 1, options).remove(0);
    let model: SharedModel = Rc::new(RefCell::new(Model::new(random.fork())));
    let trails = Rc::default();
    let mut run = Run { world, random, broker, clients, shard, model: model.clone(), trails };
    let result = run.whole();
    report.operations = model.borrow().operations;
    report.register.merge(&model.borrow().register);
    result
}

fn config(shards: u16) -> NodeConfig {
    NodeConfig {
        checkpoint_interval_ms: 4000,
        group_initial_rebalance_delay_ms: 300,
        group_session_timeout_min_ms: 1000,
        group_consumer_session_timeout_ms: seat::SESSION.as_millis() as i32,
        group_consumer_heartbeat_interval_ms: seat::HEARTBEAT_MS as i32,
        offsets_partitions: 2,
        ..node::config(shards)
    }
}

impl Run<'_> {
    fn whole(&mut self) -> Result<(), Failure> {
        let mut shards = 1 + self.random.below(3) as u16;
        self.start(shards)?;
        self.task(|mut link| async move { setup::set_up(&mut link).await })?;
        self.clients_begin();
        let acts = 3 + self.random.below(3);
        for _ in 0..acts {
            self.act()?;
            if self.world.is_up(self.broker) && self.random.chance(1, 4) {
                continue;
            }
            shards = self.restart(shards)?;
            self.task(|mut link| async move { look(&mut link).await })?;
        }
        self.come_to_rest()?;
        self.compact(shards)?;
        let trails = self.trails.clone();
        self.task(|mut link| async move {
            check_offsets(&mut link).await;
            let mut trails = trails.borrow_mut().clone();
            logs::check_logs(&mut link, &mut trails).await;
        })
    }

    fn link(&self) -> Link {
        let broker = format!("10.0.0.1:{}", node::PORT).parse().expect("an address");
        Link::new(self.shard.clone(), broker, self.model.clone())
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        drop(self.shard.spawn(Class::Normal, self.shard.account("clients"), task));
    }

    /// Runs something to its end.
    fn task<F: Future<Output = ()> + 'static>(&mut self, work: impl FnOnce(Link) -> F) -> Result<(), Failure> {
        let done: Rc<RefCell<bool>> = Rc::default();
        let (work, told) = (work(self.link()), done.clone());
        self.spawn(async move {
            work.await;
            *told.borrow_mut() = true;
        });
        self.world.nudge(self.clients);
        self.world.run_until(LIMIT, |_| *done.borrow())?;
        self.judged()
    }

    fn judged(&self) -> Result<(), Failure> {
        match self.model.borrow_mut().broken.take() {
            Some(why) => Err(Failure::Judged(why)),
            None => Ok(()),
        }
    }

    /// Starts the broker until it comes through; it may be crashed on the way.
    fn start(&mut self, shards: u16) -> Result<(), Failure> {
        let crashes = [0, 0, 1][self.random.below(3) as usize];
        let (random, model) = (&mut self.random, self.model.clone());
        let draw = || (1 + random.below(150), Crash::drawn(random));
        let crashed = |_| model.borrow_mut().register.hit("crash in recovery");
        node::start_through(self.world, self.broker, &config(shards), crashes, draw, crashed)
    }

    /// Crashes the broker, if nothing has yet, and starts it again, after a while and with another number of shards perhaps.
    fn restart(&mut self, from: u16) -> Result<u16, Failure> {
        if self.world.is_up(self.broker) {
            let how = Crash::drawn(&mut self.random);
            self.world.crash(self.broker, how);
        }
        {
            let mut model = self.model.borrow_mut();
            let at = model.now();
            model.groups.iter_mut().for_each(|group| group.restarted(at));
        }
        let down = self.random.below(3) * self.random.below(2500);
        self.pass(Duration::from_millis(down))?;
        let to = 1 + self.random.below(3) as u16;
        let what = match to.cmp(&from) {
            std::cmp::Ordering::Greater => "restart with more shards",
            std::cmp::Ordering::Less => "restart with fewer shards",
            std::cmp::Ordering::Equal => "restart with as many shards",
        };
        self.model.borrow_mut().register.hit(what);
        self.start(to)?;
        Ok(to)
    }

    /// Lets time go by, as far as anything happens.
    fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.world.now() + time;
        match self.world.run_until(LIMIT, |world| world.now() >= end) {
            Ok(()) | Err(Failure::Deadlock(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn clients_begin(&mut self) {
        let mut tasks = 1;
        for (group, (_, kind)) in GROUPS.iter().enumerate() {
            for number in 0..SEATS {
                let instance = (number >= SEATS - 2).then_some("twin");
                let seat = Seat { link: self.link(), group, number, instance, reading: BTreeMap::new() };
                match kind {
                    Kind::Classic => self.spawn(seat.classic_loop()),
                    Kind::Consumer => self.spawn(seat.consumer_loop()),
                }
                tasks += 1;
            }
        }
        let sizes: Vec<usize> = self.model.borrow().topics.iter().map(|topic| topic.partitions.len()).collect();
        for (topic, size) in sizes.into_iter().enumerate() {
            for index in 0..size {
                self.spawn(writers::write_loop(self.link(), (topic, index as i32), |model| model.calm));
                self.model.borrow_mut().writing += 1;
                tasks += 1;
            }
        }
        self.spawn(logs::follow_loop(self.link(), self.trails.clone()));
        self.model.borrow_mut().working = tasks;
        self.world.nudge(self.clients);
    }

    /// Some time in which the network is disturbed, and the broker crashes perhaps.
    fn act(&mut self) -> Result<(), Failure> {
        let end = self.world.now() + Duration::from_millis(5000 + self.random.below(16_000));
        if self.random.chance(2, 3) {
            let how = Crash::drawn(&mut self.random);
            let at = 20 + self.random.below(600);
            self.world.crash_after(self.broker, at, how);
        }
        self.disturb_network()?;
        let (model, broker) = (self.model.clone(), self.broker);
        let step = |world: &mut World| world.now() >= end || model.borrow().broken.is_some() || !world.is_up(broker);
        self.world.run_until(LIMIT, step)?;
        if !self.world.is_up(self.broker) {
            self.model.borrow_mut().register.hit("crash under members");
        }
        self.world.spare(self.broker);
        self.judged()
    }

    /// A reset, or a partition that heals by itself soon.
    fn disturb_network(&mut self) -> Result<(), Failure> {
        let (broker, clients) = (self.broker, self.clients);
        let until = self.world.now() + Duration::from_millis(1 + self.random.below(4000));
        let step = |world: &mut World| world.now() >= until || !world.is_up(broker);
        self.world.run_until(LIMIT, step)?;
        if !self.world.is_up(broker) {
            return Ok(());
        }
        let model = self.model.clone();
        let hit = |what| model.borrow_mut().register.hit(what);
        self.world.disturb_network(&mut self.random, (broker, clients), 6000, hit)
    }

    /// Time for compactions, and for the members that have gone to be missed, while keys are written to; a crash comes in the middle of it
    /// perhaps, and one at its end.
    fn compact(&mut self, shards: u16) -> Result<(), Failure> {
        {
            let mut model = self.model.borrow_mut();
            (model.over, model.working, model.writing) = (false, 1, 1);
        }
        self.spawn(writers::write_loop(self.link(), (KEYED, 0), |model| model.closing));
        self.world.nudge(self.clients);
        let how = Crash::drawn(&mut self.random);
        if self.random.chance(1, 2) {
            let at = 1 + self.random.below(300);
            self.world.crash_after(self.broker, at, how);
        }
        // What deletes goes in the second.
        let rounds = 1 + self.random.below(2) as u32;
        self.pass(rounds * COMPACTION_INTERVAL + Duration::from_secs(2))?;
        self.world.spare(self.broker);
        self.model.borrow_mut().closing = true;
        self.restart(shards)?;
        let model = self.model.clone();
        self.world.run_until(LIMIT, |_| model.borrow().working == 0)?;
        self.judged()
    }

    /// Nobody misbehaves any more: each group comes to rest, and everybody ends.
    fn come_to_rest(&mut self) -> Result<(), Failure> {
        self.model.borrow_mut().calm = true;
        let model = self.model.clone();
        let unrest = |model: &Model| (0..GROUPS.len()).find_map(|group| model.unrest(group));
        let rests = |_: &mut World| {
            let model = model.borrow();
            model.broken.is_some() || model.writing == 0 && unrest(&model).is_none()
        };
        let rested = self.world.run_until(REST_LIMIT, rests);
        self.judged()?;
        if let Err(Failure::Stuck(_)) = rested {
            let why = unrest(&self.model.borrow()).unwrap_or_else(|| "writers do not end".to_owned());
            return Err(Failure::Judged(format!("no rest: {why}")));
        }
        rested?;
        self.model.borrow_mut().over = true;
        self.world.run_until(LIMIT, |_| model.borrow().working == 0)?;
        self.judged()
    }
}

/// Somebody who is no member sees how far the groups are; the judge is told.
async fn look(link: &mut Link) {
    for group in 0..GROUPS.len() {
        if let Err(code) = seat::offsets(link, group, None, None).await {
            link.model.borrow_mut().fail(format!("offsets are not told: {code:?}"));
        }
    }
}

/// What every group has committed, after a restart: all of it.
async fn check_offsets(link: &mut Link) {
    for group in 0..GROUPS.len() {
        match seat::offsets(link, group, None, None).await {
            Ok(found) => {
                let mut model = link.model.borrow_mut();
                for place in model.places() {
                    let end = model.topics[place.0].partitions[place.1 as usize].end();
                    let read = found.get(&place).cloned().flatten().map_or(0, |(offset, _)| offset);
                    if read < end {
                        let name = model.groups[group].name;
                        model.fail(format!("group {name} had read {place:?} to its end {end}, and is at {read}"));
                    }
                }
            }
            Err(code) => link.model.borrow_mut().fail(format!("offsets are not told: {code:?}")),
        }
    }
}

#[test]
fn seeds() {
    run_all(&SIMULATION, include_str!("../../pinned_seeds.txt"));
}

#[test]
fn one_seed_has_one_history() {
    check_determinism(&SIMULATION, 1..3);
}
