//! One run of the process: recovery, stores on all shards, the check of what is there, and then the clients' work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{Offset, ShardId};
use shard::{Class, Shard, ShardOptions};
use sim::batches::{Mark, split};
use sim::faults::Register;
use sim::seat::{MachineId, Seat};
use sim::world::{Failure, World};
use storage::{Log, ReadLimits, RecoverConfig, RecoverError, RecoveredShard, RecoveryReport, ShardStore, StoreConfig};

use crate::model::{Life, Model};
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

fn store_config(shard: ShardId) -> StoreConfig {
    StoreConfig {
        journal_file_bytes: 512 << 10,
        journal_files_initial: 2,
        journal_bytes_limit: 2 << 20,
        tail_cache_bytes: 256 << 10,
        reserve_bytes: 4 << 20,
        checkpoint_interval: Duration::from_millis(200),
        destage_delay: Duration::from_millis(5),
        ..StoreConfig::new(DATA, shard)
    }
}

/// A process that is up, with its stores open and checked.
pub struct Session {
    pub machine: MachineId,
    pub benches: Vec<Bench>,
}

/// Starts the process and recovers its data. The outer error is the run's failure, the inner one what recovery said.
pub fn start(
    world: &mut World,
    machine: MachineId,
    shards: u16,
    crash: impl FnOnce(&mut World),
    model: &SharedModel,
) -> Result<Ended<Result<Session, RecoverError>>, Failure> {
    let shards = world.boot(machine, shards, shard_options);
    crash(world);
    let config = RecoverConfig::new(DATA, shards.len() as u16);
    let first = shards[0].clone();
    let recovery = async move { storage::recover(&first, &config).await };
    let recovered = match all(world, machine, vec![(shards[0].clone(), recovery)])? {
        Ended::Crashed => return Ok(Ended::Crashed),
        Ended::Done(mut results) => match results.remove(0) {
            Ok(recovered) => {
                note_report(&mut model.borrow_mut().register, &recovered.report);
                recovered.shards
            }
            Err(error) => return Ok(Ended::Done(Err(error))),
        },
    };
    let open = |(shard, recovered): (&Shard, &RecoveredShard)| {
        let (config, recovered, own) = (store_config(shard.id()), recovered.clone(), shard.clone());
        (shard.clone(), async move { ShardStore::open(own, config, recovered).await })
    };
    let stores = match all(world, machine, shards.iter().zip(&recovered).map(open).collect())? {
        Ended::Crashed => return Ok(Ended::Crashed),
        Ended::Done(stores) => stores,
    };
    let mut benches = Vec::new();
    for (shard, store) in shards.into_iter().zip(stores) {
        let store = store.map_err(|error| Failure::Judged(format!("a recovered store did not open: {error}")))?;
        benches.push(Bench { shard, store, model: model.clone(), logs: Rc::default() });
    }
    let session = Session { machine, benches };
    match session.check(world, model)? {
        Ended::Crashed => Ok(Ended::Crashed),
        Ended::Done(()) => Ok(Ended::Done(Ok(session))),
    }
}

impl Session {
    /// Holds what the stores have against what the clients know.
    fn check(&self, world: &mut World, model: &SharedModel) -> Result<Ended<()>, Failure> {
        self.place_logs(model)?;
        let read = |bench: &Bench| {
            let (bench, shard) = (bench.clone(), bench.shard.clone());
            (shard, async move {
                let logs = bench.logs.borrow().clone();
                let mut found = Vec::new();
                for (index, log) in logs {
                    found.push((index, log.clone(), read_all(&log).await));
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
            let batches = match batches {
                Ok(batches) => batches,
                Err(why) => {
                    let end = model.logs[index].history.settled_end();
                    let why = format!("log {}, acknowledged up to {end}, after recovery: {why}", log.id());
                    return Err(Failure::Judged(why));
                }
            };
            model.recovered(index, log.start_offset().0, log.end_offset().0, &batches);
            check_epochs(&mut model, index, &log);
            if log.durable_end() != log.end_offset() {
                model.fail(format!("log {}: recovered, and not durable to its end", log.id()));
            }
            log.set_config(log_config(&model.logs[index]));
        }
        match model.broken.take() {
            Some(why) => Err(Failure::Judged(why)),
            None => Ok(Ended::Done(())),
        }
    }

    /// Finds each log's shard: every log that must exist is on exactly one, and none that must not.
    fn place_logs(&self, model: &SharedModel) -> Result<(), Failure> {
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
        for (index, log) in model.logs.iter_mut().enumerate() {
            let exists = owners.contains_key(&index);
            match (log.life, exists) {
                (Life::Live, false) => return Err(Failure::Judged(format!("log {} is gone", log.id))),
                (Life::Gone, true) => return Err(Failure::Judged(format!("log {} came back", log.id))),
                (Life::Creating | Life::Removing, _) => log.life = if exists { Life::Live } else { Life::Gone },
                _ => {}
            }
        }
        Ok(())
    }

    /// Clients work until `operations` are begun and all are answered, or the process ends.
    pub fn work(&self, world: &mut World, model: &SharedModel, operations: u64) -> Result<Ended<()>, Failure> {
        const WORKERS: u32 = 4;
        {
            let mut model = model.borrow_mut();
            model.budget = operations;
            model.working = WORKERS * self.benches.len() as u32;
        }
        for bench in &self.benches {
            for _ in 0..WORKERS {
                drop(bench.shard.spawn(Class::Latency, bench.shard.account("client"), worker(bench.clone())));
            }
        }
        world.nudge(self.machine);
        let result = world.run_until(LIMIT, |world| {
            let model = model.borrow();
            (model.working == 0 && model.waiting == 0) || model.broken.is_some() || !world.is_up(self.machine)
        });
        let mut model = model.borrow_mut();
        if let Some(why) = model.broken.take() {
            return Err(Failure::Judged(why));
        }
        result?;
        if world.is_up(self.machine) {
            return Ok(Ended::Done(()));
        }
        model.process_ended();
        Ok(Ended::Crashed)
    }

    /// Stops as an operator would.
    pub fn close(self, world: &mut World) -> Result<Ended<()>, Failure> {
        let close = |bench: &Bench| {
            let (store, shard) = (bench.store.clone(), bench.shard.clone());
            (shard, async move { store.close().await })
        };
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
}

/// All batches of a log, read in pieces.
async fn read_all(log: &Log) -> Result<Vec<Mark>, String> {
    let (mut at, end) = (log.start_offset(), log.end_offset());
    let mut found = Vec::new();
    while at < end {
        let limits = ReadLimits { max_bytes: 100_000, at_least_one_batch: true, upto: end };
        let read = log.read(at, limits).await.map_err(|error| format!("read from {at}: {error}"))?;
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let marks = split(&bytes).map_err(|why| format!("read from {at}: {why}"))?;
        let Some(last) = marks.last() else {
            return Err(format!("a read from {at} gave nothing, and the log ends at {end}"));
        };
        at = Offset(last.last + 1);
        found.extend(marks);
    }
    Ok(found)
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
