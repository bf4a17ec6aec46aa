//! One run of the process: recovery, stores on all shards, the check of what is there, and then the clients' work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{Offset, Random, ShardId};
use shard::{Class, MeshBounds, Shard, ShardOptions, mesh};
use sim::batches::split;
use sim::compacted;
use sim::faults::Register;
use sim::seat::{MachineId, Seat};
use sim::world::{Failure, World};
use storage::{
    Durability, Log, ReadLimits, RecoverConfig, RecoveredShard, RecoveryReport, ShardStore, Status, StoreConfig,
    StoreStats,
};

use crate::model::{Found, Life, Model};
use crate::moves::serve;
use crate::weather::Weather;
use crate::work::{Bench, log_config, worker};

pub const DATA: &str = "/data";
/// Virtual time in which anything a test waits for must have happened.
const LIMIT: Duration = Duration::from_secs(3600);

pub type SharedModel = Rc<RefCell<Model>>;

/// How a run of the process went.
#[derive(Debug)]
pub enum Ended<T> {
    Done(T),
    /// The process ended before: it was crashed, or it ended itself.
    Crashed,
}

/// Runs one task on each of `shards` to its end.
fn all<T: 'static, F: Future<Output = T> + 'static>(
    world: &mut World,
    machine: MachineId,
    tasks: Vec<(Shard, F)>,
) -> Result<Ended<Vec<T>>, Failure> {
    let count = tasks.len();
    let done: Rc<RefCell<BTreeMap<usize, T>>> = Rc::default();
    for (index, (shard, task)) in tasks.into_iter().enumerate() {
        let done = done.clone();
        drop(shard.spawn(Class::Normal, shard.account("test"), async move {
            let result = task.await;
            done.borrow_mut().insert(index, result);
        }));
    }
    world.nudge(machine);
    world.run_until(LIMIT, |world| done.borrow().len() == count || !world.is_up(machine))?;
    if done.borrow().len() < count {
        return Ok(Ended::Crashed);
    }
    Ok(Ended::Done(done.take().into_values().collect()))
}

fn shard_options(seat: Seat) -> ShardOptions {
    ShardOptions { id: seat.shard, arena_bytes: 48 << 20, ..ShardOptions::default() }
}

/// How the stores of one seed are set up: small, so that everything happens often.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    durability: Durability,
    journal_file_bytes: u64,
    tail_cache_bytes: usize,
    checkpoint_interval: Duration,
    destage_delay: Duration,
    apart_bytes: usize,
    upkeep_interval: Duration,
    compaction_interval: Duration,
    compaction_map_bytes: usize,
    compaction_percent: u32,
}

impl Setup {
    pub fn any(random: &mut Random) -> Self {
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        Self {
            durability: if pick(&[0, 0, 0, 1]) == 0 { Durability::Disk } else { Durability::Replicas },
            journal_file_bytes: pick(&[512, 512, 1024, 2048]) << 10,
            tail_cache_bytes: (pick(&[64, 256, 1024]) << 10) as usize,
            checkpoint_interval: Duration::from_millis(pick(&[3, 20, 100, 400])),
            destage_delay: Duration::from_millis(pick(&[1, 5, 40])),
            apart_bytes: pick(&[1, 3000, 12_000, 64 << 10]) as usize,
            upkeep_interval: Duration::from_millis(pick(&[10, 1000, 30_000])),
            compaction_interval: Duration::from_millis(pick(&[2, 20, 200])),
            compaction_map_bytes: pick(&[24 * 5, 24 * 100, 64 << 10]) as usize,
            compaction_percent: pick(&[10, 100, 100]) as u32,
        }
    }

    /// Acknowledged means flushed; otherwise a power cut may take it.
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Disk
    }

    /// No large batch fits any more: of the last file less than half is left, for the end of a file is lost to a long commit, and some
    /// is kept for changes that are no appends.
    pub fn is_journal_full(&self, stats: &StoreStats) -> bool {
        stats.journal_live_bytes + self.journal_file_bytes / 2 >= stats.journal_bytes
    }

    fn store_config(&self, shard: ShardId) -> StoreConfig {
        StoreConfig {
            durability: self.durability,
            journal_file_bytes: self.journal_file_bytes,
            journal_files_initial: 2,
            journal_bytes_limit: self.journal_file_bytes * 4,
            tail_cache_bytes: self.tail_cache_bytes,
            reserve_bytes: 4 << 20,
            checkpoint_interval: self.checkpoint_interval,
            destage_delay: self.destage_delay,
            apart_bytes: self.apart_bytes,
            upkeep_interval: self.upkeep_interval,
            compaction_interval: self.compaction_interval,
            compaction_map_bytes: self.compaction_map_bytes,
            compaction_percent: self.compaction_percent,
            ..StoreConfig::new(DATA, shard)
        }
    }
}

/// A process that is up, with its stores open and checked.
pub struct Session {
    pub machine: MachineId,
    pub benches: Vec<Bench>,
}

/// What may be asked of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Everything.
    Sound,
    /// Operations on files fail, or the disk is full: it may refuse.
    BadWeather,
    /// Bits have flipped: it may refuse, as may reads, but what is served is right.
    Rotten,
    /// Bits have flipped where a crash may have torn: what is served was written there once.
    TornJournal,
}

/// Why the process did not start, or not wholly.
pub type Refusal = String;

/// Starts the process and recovers its data.
pub fn start(
    world: &mut World,
    machine: MachineId,
    shards: u16,
    crash: impl FnOnce(&mut World),
    model: &SharedModel,
    how: Start,
) -> Result<Ended<Result<Session, Refusal>>, Failure> {
    let shards = world.boot(machine, shards, shard_options);
    crash(world);
    // Each log's files synced by themselves, or all at once.
    let log_syncs_max = 64 * model.borrow_mut().below(2) as usize;
    let config = RecoverConfig { log_syncs_max, ..RecoverConfig::new(DATA, shards.len() as u16) };
    let first = shards[0].clone();
    let recovery = async move { storage::recover(&first, &config).await };
    let recovered = match all(world, machine, vec![(shards[0].clone(), recovery)])? {
        Ended::Crashed => return Ok(Ended::Crashed),
        Ended::Done(mut results) => match results.remove(0) {
            Ok(recovered) => recovered,
            Err(error) => return Ok(Ended::Done(Err(format!("recovery failed: {error}")))),
        },
    };
    note_report(&mut model.borrow_mut().register, &recovered.report);
    let setup = model.borrow().setup;
    let open = |(shard, recovered): (&Shard, RecoveredShard)| {
        let (config, own) = (setup.store_config(shard.id()), shard.clone());
        (shard.clone(), async move { ShardStore::open(own, config, recovered).await })
    };
    let stores = match all(world, machine, shards.iter().zip(recovered.shards).map(open).collect())? {
        Ended::Crashed => return Ok(Ended::Crashed),
        Ended::Done(stores) => stores,
    };
    let mut benches = Vec::new();
    let seats = mesh(shards.len() as u16, MeshBounds::default());
    for ((shard, seat), store) in shards.into_iter().zip(seats).zip(stores) {
        let mesh = seat.attach(&shard);
        match store {
            Ok(store) => benches.push(Bench { shard, store, mesh, model: model.clone(), logs: Rc::default() }),
            Err(error) => return Ok(Ended::Done(Err(format!("a store did not open: {error}")))),
        }
    }
    if how == Start::BadWeather {
        Weather::Calm.set(world, machine, model);
    }
    let session = Session { machine, benches };
    Ok(match session.check(world, model, how)? {
        Ended::Crashed => Ended::Crashed,
        Ended::Done(checked) => Ended::Done(checked.map(|()| session)),
    })
}

impl Session {
    /// Holds what the stores have against what the clients know.
    fn check(&self, world: &mut World, model: &SharedModel, how: Start) -> Result<Ended<Result<(), Refusal>>, Failure> {
        self.place_logs(model, how)?;
        let read = |bench: &Bench| {
            let (bench, shard) = (bench.clone(), bench.shard.clone());
            (shard, async move {
                let logs = bench.logs.borrow().clone();
                let mut found = Vec::new();
                for (index, log) in logs {
                    let compacted = bench.model.borrow().logs[index].compaction.is_some();
                    found.push((index, log.clone(), read_all(&log, compacted).await));
                }
                found
            })
        };
        let found = match all(world, self.machine, self.benches.iter().map(read).collect())? {
            Ended::Crashed => return Ok(Ended::Crashed),
            Ended::Done(found) => found,
        };
        let mut model = model.borrow_mut();
        for (index, log, batches) in found.into_iter().flatten() {
            match (batches, how) {
                (Ok(batches), Start::TornJournal) => {
                    if let Err(why) = model.check_genuine(index, &batches) {
                        model.fail(format!("log {}: {why}", log.id()));
                    }
                }
                (Ok(batches), _) => check_log(&mut model, index, &log, &batches),
                (Err(_), Start::Rotten | Start::TornJournal) => model.register.hit("rot: a read was refused"),
                (Err(why), Start::BadWeather) => return Ok(Ended::Done(Err(why))),
                (Err(why), Start::Sound) => {
                    let end = model.logs[index].history.settled_end();
                    model.fail(format!("log {}, acknowledged up to {end}, after recovery: {why}", log.id()));
                }
            }
        }
        match model.broken.take() {
            Some(why) => Err(Failure::Judged(why)),
            None => Ok(Ended::Done(Ok(()))),
        }
    }

    /// Finds each log's shard: every log that must exist is on exactly one, and none that must not.
    fn place_logs(&self, model: &SharedModel, how: Start) -> Result<(), Failure> {
        let mut model = model.borrow_mut();
        let known = model.by_id();
        let mut owners: BTreeMap<usize, ShardId> = BTreeMap::new();
        for bench in &self.benches {
            bench.logs.borrow_mut().clear();
            for log in bench.store.logs() {
                let Some(&index) = known.get(&log.id()) else {
                    return Err(Failure::Judged(format!("log {} was never created", log.id())));
                };
                if let Some(other) = owners.insert(index, bench.shard.id()) {
                    let (id, shard) = (log.id(), bench.shard.id());
                    return Err(Failure::Judged(format!("log {id} is on shards {other} and {shard}")));
                }
                bench.logs.borrow_mut().push((index, log));
            }
        }
        if how == Start::TornJournal {
            return Ok(());
        }
        for (index, log) in model.logs.iter_mut().enumerate() {
            let exists = owners.contains_key(&index);
            match (log.life, exists) {
                (Life::Live, false) => return Err(Failure::Judged(format!("log {} is gone", log.id))),
                (Life::Gone, true) => return Err(Failure::Judged(format!("log {} came back", log.id))),
                (Life::Creating | Life::Removing, _) => log.life = if exists { Life::Live } else { Life::Gone },
                _ => {}
            }
            // A log stays where it is while that shard exists.
            let found = owners.get(&index).copied();
            let owner = log.owner.filter(|owner| usize::from(owner.0) < self.benches.len());
            if let (Some(owner), Some(found)) = (owner, found.filter(|found| Some(*found) != owner)) {
                return Err(Failure::Judged(format!("log {} is on shard {found}, not on {owner}", log.id)));
            }
            log.owner = found;
        }
        Ok(())
    }

    /// Clients work until `operations` are begun and all are answered, or the process ends; the weather changes on the way.
    pub fn work(
        &self,
        world: &mut World,
        model: &SharedModel,
        operations: u64,
        forecast: &[(u64, Weather)],
    ) -> Result<Ended<()>, Failure> {
        const WORKERS: u32 = 4;
        {
            let mut model = model.borrow_mut();
            model.budget = operations;
            model.working = WORKERS * self.benches.len() as u32;
        }
        for bench in &self.benches {
            drop(bench.shard.spawn(Class::Latency, bench.shard.account("moves"), serve(bench.clone())));
            for _ in 0..WORKERS {
                drop(bench.shard.spawn(Class::Latency, bench.shard.account("client"), worker(bench.clone())));
            }
        }
        world.nudge(self.machine);
        // Whoever waits for room on a full disk waits until there is some: no weather lasts for ever.
        const PATIENCE: Duration = Duration::from_secs(20);
        for (left, weather) in forecast {
            let until = world.now() + PATIENCE;
            self.run_while(world, model, |world, model| model.budget > *left && world.now() < until)?;
            if !world.is_up(self.machine) {
                break;
            }
            weather.set(world, self.machine, model);
            if *weather == Weather::JournalThenDiskFull {
                self.fill_a_journal(world, model)?;
                if !world.is_up(self.machine) {
                    break;
                }
                Weather::DiskFull.set(world, self.machine, model);
            }
        }
        let until = world.now() + PATIENCE;
        self.run_while(world, model, |world, model| model.working > 0 && world.now() < until)?;
        if world.is_up(self.machine) {
            Weather::Calm.set(world, self.machine, model);
        }
        self.run_while(world, model, |_, model| model.working > 0 || model.waiting > 0)?;
        if !world.is_up(self.machine) {
            self.note_crash(&mut model.borrow_mut());
            model.borrow_mut().process_ended();
            return Ok(Ended::Crashed);
        }
        let was_full = model.borrow().full && !model.borrow().faulty;
        if was_full { self.check_resumed(world, model) } else { Ok(Ended::Done(())) }
    }

    /// Runs until a journal is full; not for ever.
    fn fill_a_journal(&self, world: &mut World, model: &SharedModel) -> Result<(), Failure> {
        let until = world.now() + Duration::from_secs(5);
        let is_full =
            |model: &Model| self.benches.iter().any(|bench| model.setup.is_journal_full(&bench.store.stats()));
        model.borrow_mut().filling = true;
        let done =
            self.run_while(world, model, |world, model| model.budget > 0 && world.now() < until && !is_full(model));
        model.borrow_mut().filling = false;
        done
    }

    /// What a crash came upon.
    pub fn note_crash(&self, model: &mut Model) {
        model.note_crash();
        let made = |shard: ShardId| self.benches[usize::from(shard.0)].store.stats().checkpoints;
        if model.recreated.iter().any(|&(shard, checkpoints)| made(shard) == checkpoints) {
            model.register.hit("crash with a topic removed and created again in the journal");
        }
    }

    fn run_while(
        &self,
        world: &mut World,
        model: &SharedModel,
        busy: impl Fn(&World, &Model) -> bool,
    ) -> Result<(), Failure> {
        let result = world.run_until(LIMIT, |world| {
            let model = model.borrow();
            !busy(world, &model)
                || model.working == 0 && model.waiting == 0
                || model.broken.is_some()
                || !world.is_up(self.machine)
        });
        match model.borrow_mut().broken.take() {
            Some(why) => Err(Failure::Judged(why)),
            None => result,
        }
    }

    /// The disk was full and is not any more: every log takes appends again, by itself.
    fn check_resumed(&self, world: &mut World, model: &SharedModel) -> Result<Ended<()>, Failure> {
        let resume = |bench: &Bench| {
            let (bench, shard) = (bench.clone(), bench.shard.clone());
            (shard, async move { bench.append_to_all().await })
        };
        match all(world, self.machine, self.benches.iter().map(resume).collect())? {
            Ended::Crashed => {
                model.borrow_mut().process_ended();
                Ok(Ended::Crashed)
            }
            Ended::Done(results) => match results.into_iter().find_map(Result::err) {
                None => {
                    model.borrow_mut().register.hit("disk full: taken up again");
                    Ok(Ended::Done(()))
                }
                Some(why) => Err(Failure::Judged(format!("the disk has room again, and {why}"))),
            },
        }
    }

    /// Stops as an operator would.
    pub fn close(self, world: &mut World) -> Result<Ended<()>, Failure> {
        let close = |bench: &Bench| {
            let (store, shard) = (bench.store.clone(), bench.shard.clone());
            (shard, async move { store.close().await })
        };
        if let Some(bench) = self.benches.first() {
            bench.model.borrow_mut().closing = true;
        }
        match all(world, self.machine, self.benches.iter().map(close).collect())? {
            Ended::Crashed => Ok(Ended::Crashed),
            Ended::Done(results) => match results.into_iter().find_map(Result::err) {
                None => Ok(Ended::Done(())),
                Some(error) => Err(Failure::Judged(format!("closing failed: {error}"))),
            },
        }
    }
}

/// What a recovery met.
fn note_report(register: &mut Register, report: &RecoveryReport) {
    register.add("recovery: commits replayed", report.frames_replayed);
    register.add("recovery: commits dropped", report.frames_dropped);
    register.add("recovery: logs moved to another shard", report.logs_moved as u64);
    register.add("recovery: stale claims ignored", report.claims_stale as u64);
    register.add("recovery: logs offline", report.logs_offline as u64);
    register.add("recovery: unknown logs trashed", report.logs_trashed as u64);
    register.add("recovery: segment bytes written", report.applied.segment_bytes_written);
    register.add("recovery: files trashed", report.applied.files_trashed);
    register.add("recovery: indexes restarted", report.applied.indexes_restarted);
    register.add("recovery: damaged commits passed over", report.frames_damaged);
    register.add("recovery: commits of earlier generations passed over", report.frames_foreign);
    register.add("recovery: second manifest copy won", report.second_copies as u64);
    register.add("recovery: appends replayed", report.entries.appends);
    register.add("recovery: appends apart replayed", report.entries.appends_apart);
    register.add("recovery: block prefixes restored", report.entries.block_prefixes);
    register.add("recovery: creations replayed", report.entries.creations);
    register.add("recovery: removals replayed", report.entries.removals);
    register.add("recovery: placements replayed", report.entries.placements);
    register.add("recovery: truncations replayed", report.entries.truncations);
    register.add("recovery: moved starts replayed", report.entries.starts_moved);
    register.add("recovery: adopted epochs replayed", report.entries.epochs_adopted);
    register.add("recovery: rolled segments replayed", report.entries.rolls);
    register.add("recovery: compactions replayed", report.entries.compactions);
}

/// All batches of a log, read in pieces.
async fn read_all(log: &Log, compacted: bool) -> Result<Found, String> {
    if log.status() != Status::Online {
        return Err(format!("its status is {:?}", log.status()));
    }
    let (mut at, end) = (log.start_offset(), log.end_offset());
    let mut found = if compacted { Found::Compacted(Vec::new()) } else { Found::Whole(Vec::new()) };
    while at < end {
        let limits = ReadLimits { max_bytes: 100_000, at_least_one_batch: true, upto: end };
        let read = log.read(at, limits).await.map_err(|error| format!("read from {at}: {error}"))?;
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let last = match &mut found {
            Found::Whole(found) => split(&bytes).map(|more| {
                found.extend(more);
                found.last().map(|last| last.last)
            }),
            Found::Compacted(found) => compacted::split(&bytes).map(|more| {
                found.extend(more);
                found.last().map(|last| last.last)
            }),
        };
        let last = last.map_err(|why| format!("read from {at}: {why}"))?;
        match last.filter(|last| *last >= at.0) {
            Some(last) => at = Offset(last + 1),
            None => return Err(format!("a read from {at} gave nothing above, and the log ends at {end}")),
        }
    }
    Ok(found)
}

/// Holds one log against what is known of it.
fn check_log(model: &mut Model, index: usize, log: &Log, found: &Found) {
    model.recovered(index, log.start_offset().0, log.end_offset().0, found);
    if log.segments().iter().any(|segment| segment.revision > 0) {
        model.register.hit("compaction: a compacted log recovered");
    }
    check_epochs(model, index, log);
    if log.durable_end() != log.end_offset() {
        model.fail(format!("log {}: recovered, and not durable to its end", log.id()));
    }
    log.set_config(log_config(&model.logs[index]));
}

fn check_epochs(model: &mut Model, index: usize, log: &Log) {
    let (promised, asked) = (model.logs[index].epoch_promised, model.logs[index].epoch_asked);
    // Nothing is known of an epoch before something was appended under it: then it is −1.
    let latest = log.latest_epoch().0.max(0);
    if !(promised..=asked).contains(&latest) {
        model.fail(format!("log {}: its latest epoch is {latest}, not in {promised}..={asked}", log.id()));
    }
    model.logs[index].set_epoch(latest);
}
