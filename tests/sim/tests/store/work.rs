//! What the clients of one shard's store do: a few workers, each one operation after another, with their appends pipelined.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use base::{LeaderEpoch, Offset};
use shard::{Class, Mesh, Shard};
use sim::batches::{Mark, Recipe, placed, split};
use sim::compacted;
use sim::judge::ChangeId;
use storage::{
    AppendError, AppendOptions, CompactionConfig, Durable, Log, LogConfig, ReadError, ReadLimits, ShardStore,
};

use crate::model::{Life, LogModel, Model, Sent};
use crate::moves::Message;

/// As many batches of an idempotent producer are unanswered at most: what Kafka's clients keep in flight.
const IN_FLIGHT: usize = 5;
/// One shard's store and what its clients share.
#[derive(Clone)]
pub struct Bench {
    pub shard: Shard,
    pub store: ShardStore,
    pub mesh: Mesh<Message>,
    pub model: Rc<RefCell<Model>>,
    /// The logs that live on this shard, by their place in the model.
    pub logs: Rc<RefCell<Vec<(usize, Log)>>>,
}

/// How a log is kept: small segments; some are bounded in size.
pub fn log_config(log: &LogModel) -> LogConfig {
    LogConfig {
        segment_bytes: log.segment_bytes,
        retention_bytes: log.retention.then_some(log.segment_bytes * 2),
        retention_ms: None,
        compaction: log.compaction.map(|compaction| CompactionConfig {
            delete_retention_ms: if compaction.tombstones_go { 0 } else { i64::MAX },
            min_dirty_ppm: compaction.min_dirty_ppm,
            ..CompactionConfig::default()
        }),
        delete_delay_ms: 20,
        ..LogConfig::default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Append,
    AppendPlain,
    Repeat,
    Gap,
    Read,
    Truncate,
    AdoptEpoch,
    AdvanceStart,
    Create,
    Remove,
    Move,
    Rest,
}

fn choose(model: &mut Model) -> Action {
    const TABLE: [(Action, u64); 12] = [
        (Action::Append, 420),
        (Action::AppendPlain, 60),
        (Action::Repeat, 60),
        (Action::Gap, 20),
        (Action::Read, 200),
        (Action::Truncate, 25),
        (Action::AdoptEpoch, 15),
        (Action::AdvanceStart, 20),
        (Action::Create, 12),
        (Action::Remove, 8),
        (Action::Move, 8),
        (Action::Rest, 60),
    ];
    let mut left = model.below(TABLE.iter().map(|(_, weight)| weight).sum());
    for (action, weight) in TABLE {
        if left < weight {
            return action;
        }
        left -= weight;
    }
    unreachable!("the draw lies below the sum")
}

/// One worker, until the round's operations are used up or a promise is found broken.
pub async fn worker(bench: Bench) {
    loop {
        let action = {
            let mut model = bench.model.borrow_mut();
            if model.budget == 0 || model.broken.is_some() {
                model.working -= 1;
                return;
            }
            model.budget -= 1;
            choose(&mut model)
        };
        match action {
            Action::Create => bench.create().await,
            Action::Rest => {
                let pause = bench.model.borrow_mut().below(3000);
                bench.shard.sleep(Duration::from_micros(pause)).await;
            }
            action => match bench.pick() {
                Some((index, log)) => bench.act(action, index, &log).await,
                None => bench.create().await,
            },
        }
        bench.shard.yield_now().await;
    }
}

impl Bench {
    /// A log of this shard that nobody holds.
    fn pick(&self) -> Option<(usize, Log)> {
        let logs = self.logs.borrow();
        let mut model = self.model.borrow_mut();
        let idle: Vec<usize> = (0..logs.len()).filter(|&at| model.logs[logs[at].0].is_idle()).collect();
        let at = *idle.get(model.below(idle.len() as u64) as usize)?;
        Some(logs[at].clone())
    }

    async fn act(&self, action: Action, index: usize, log: &Log) {
        match action {
            Action::Append => self.append_burst(index, log),
            Action::AppendPlain => {
                let recipe = self.model.borrow_mut().recipe(index, None, self.shard.wall());
                self.count();
                self.append(index, log, recipe, None);
            }
            Action::Repeat => self.repeat(index, log),
            Action::Gap => self.gap(index, log),
            Action::Read => self.read(index, log).await,
            Action::Truncate => self.truncate(index, log).await,
            Action::AdoptEpoch => self.adopt_epoch(index, log).await,
            Action::AdvanceStart => self.advance_start(index, log).await,
            Action::Remove => self.remove(index, log).await,
            Action::Move => self.move_log(index, log).await,
            Action::Create | Action::Rest => unreachable!("done without a log"),
        }
    }

    pub fn count(&self) {
        self.model.borrow_mut().operations += 1;
    }

    pub fn fail(&self, log: &Log, what: &str) {
        let id = log.id();
        self.model.borrow_mut().fail(format!("log {id}: {what}"));
    }

    // ---- appends

    /// Several batches of one producer, one after another without waiting.
    fn append_burst(&self, index: usize, log: &Log) {
        let (producer, count) = {
            let mut model = self.model.borrow_mut();
            let producers = model.logs[index].producers.len() as u64;
            (model.below(producers) as usize, 1 + model.below(4))
        };
        for _ in 0..count {
            let recipe = {
                let mut model = self.model.borrow_mut();
                let state = &mut model.logs[index].producers[producer];
                if state.unanswered.len() >= IN_FLIGHT {
                    return;
                }
                match state.again.pop_front() {
                    Some(recipe) => recipe,
                    None => {
                        let stamp = state.stamp();
                        let recipe = model.recipe(index, Some(stamp), self.shard.wall());
                        model.logs[index].producers[producer].next += recipe.records as i32;
                        recipe
                    }
                }
            };
            self.count();
            if !self.append(index, log, recipe, Some(producer)) {
                return;
            }
        }
    }

    /// Appends a batch that is new, or a repeat after a crash: what the log holds says which. `false` when it was refused.
    pub fn append(&self, index: usize, log: &Log, recipe: Recipe, producer: Option<usize>) -> bool {
        let sent = recipe.build();
        let epoch = self.model.borrow().logs[index].epoch;
        let result = log.append(&sent, self.options(epoch));
        let mut model = self.model.borrow_mut();
        let known = known(&model.logs[index], &recipe);
        match (result, known) {
            (Ok(appended), None) => {
                let mark = placed(&sent, appended.base_offset.0, LeaderEpoch(epoch));
                let change = match model.logs[index].history.append(mark) {
                    Ok(change) => change,
                    Err(why) => {
                        model.fail(format!("log {}: {why}", log.id()));
                        return false;
                    }
                };
                model.recipes.insert(mark.content, recipe);
                if let Some(producer) = producer {
                    if !model.logs[index].producers[producer].unanswered.is_empty() {
                        model.register.hit("appends pipelined");
                    }
                    let sent = Sent { recipe, change: Some(change) };
                    model.logs[index].producers[producer].unanswered.push_back(sent);
                }
                drop(model);
                self.wait((index, log), appended.durable, Answer::First(change, producer));
                true
            }
            (Err(AppendError::Duplicate(duplicate)), Some(mark)) => {
                model.register.hit("duplicate answered");
                let answered = (duplicate.base_offset.0, duplicate.last_offset.0);
                if answered != (mark.base, mark.last) {
                    model.fail(format!("log {}: a repeat of {mark:?} was answered with {answered:?}", log.id()));
                }
                drop(model);
                self.wait((index, log), duplicate.durable, Answer::Repeat(mark.base));
                true
            }
            (Ok(appended), Some(mark)) => {
                let at = appended.base_offset;
                model.fail(format!("log {}: a repeat of {mark:?} was appended again at {at}", log.id()));
                false
            }
            (Err(error), _) => {
                if let Some(producer) = producer {
                    model.logs[index].producers[producer].again.push_front(recipe);
                }
                drop(model);
                self.refused(index, log, &error);
                false
            }
        }
    }

    pub fn options(&self, epoch: i32) -> AppendOptions {
        AppendOptions { leader_epoch: LeaderEpoch(epoch), append_time: None, wall_now: self.shard.wall() }
    }

    /// A refusal that is the store's right.
    fn refused(&self, index: usize, log: &Log, error: &AppendError) {
        let mut model = self.model.borrow_mut();
        match error {
            AppendError::NoSpace(_) => {
                model.register.hit("append refused: disk full");
                if model.setup.is_journal_full(&self.store.stats()) {
                    model.register.hit("append refused: disk full, and journal full");
                }
            }
            AppendError::Backpressure => model.register.hit("append refused: journal full"),
            AppendError::Offline if model.faulty || model.full => {
                model.register.hit("append refused: log offline");
                model.logs[index].unsure = true;
            }
            other => model.fail(format!("log {}: an append was refused: {other}", log.id())),
        }
    }

    /// Waits for an append's answer beside everything else.
    fn wait(&self, (index, of): (usize, &Log), durable: Durable, answer: Answer) {
        self.model.borrow_mut().waiting += 1;
        let (model, of) = (self.model.clone(), of.clone());
        let cuts = model.borrow().logs[index].cuts;
        let task = async move {
            let held = durable.await;
            let mut model = model.borrow_mut();
            model.waiting -= 1;
            let keeps = model.keeps_appends;
            let log = &mut model.logs[index];
            // What a truncation that is under way cuts is not committed meanwhile.
            if held.is_ok() && log.compaction.is_some() && !log.busy && log.cuts == cuts {
                of.set_high_watermark(of.held_end());
                log.committed = log.committed.max(of.high_watermark().0);
            }
            match held {
                Ok(()) => match answer {
                    Answer::First(change, producer) => {
                        if keeps {
                            log.history.acknowledge(change);
                        }
                        if let Some(producer) = producer {
                            log.producers[producer].unanswered.retain(|sent| sent.change != Some(change));
                        }
                    }
                    Answer::Repeat(base) if keeps => log.history.acknowledge_batch(base),
                    Answer::Repeat(_) => {}
                },
                Err(_) if log.cuts > 0 || log.life != Life::Live => {}
                Err(lost) => model.fail(format!("an append was lost in a log that nobody cut: {lost:?}")),
            }
        };
        drop(self.shard.spawn(Class::Latency, self.shard.account("answers"), task));
    }

    /// Sends one of a producer's last batches once more.
    fn repeat(&self, index: usize, log: &Log) {
        let sent = {
            let mut model = self.model.borrow_mut();
            let pick = model.random.next_u64() as usize;
            let history = &model.logs[index].history;
            let repeatable = model.logs[index].producers.iter().flat_map(|producer| {
                let known = history.producers().get(&producer.id);
                known.into_iter().flatten().filter(|(stamp, _)| stamp.epoch == producer.epoch)
            });
            let marks: Vec<Mark> = repeatable.map(|(_, mark)| *mark).collect();
            let Some(mark) = marks.get(pick % marks.len().max(1)) else { return };
            model.recipes[&mark.content]
        };
        self.count();
        self.append(index, log, sent, None);
    }

    /// A batch that leaves a gap in its producer's sequence must be refused.
    fn gap(&self, index: usize, log: &Log) {
        let recipe = {
            let mut model = self.model.borrow_mut();
            let known = model.logs[index].history.producers();
            let producer = model.logs[index].producers.iter().find(|producer| {
                let last = known.get(&producer.id).and_then(|batches| batches.back());
                producer.again.is_empty() && last.is_some_and(|(stamp, _)| stamp.epoch == producer.epoch)
            });
            let Some(mut stamp) = producer.map(|producer| producer.stamp()) else { return };
            stamp.sequence += 1;
            model.recipe(index, Some(stamp), self.shard.wall())
        };
        self.count();
        let epoch = self.model.borrow().logs[index].epoch;
        match log.append(&recipe.build(), self.options(epoch)) {
            Err(AppendError::Producer(_)) => self.model.borrow_mut().register.hit("gap refused"),
            Err(error @ (AppendError::NoSpace(_) | AppendError::Backpressure | AppendError::Offline)) => {
                self.refused(index, log, &error)
            }
            Err(error) => self.fail(log, &format!("a gap was answered with {error}")),
            Ok(_) => self.fail(log, "a batch that leaves a gap was appended"),
        }
    }

    /// Appends a batch to every log, as soon as each takes it; an error when one does not for a long time.
    pub async fn append_to_all(&self) -> Result<(), String> {
        let logs = self.logs.borrow().clone();
        let give_up = self.shard.now() + Duration::from_secs(60);
        for (index, log) in logs {
            if !self.model.borrow().logs[index].is_idle() {
                continue;
            }
            let recipe = self.model.borrow_mut().recipe(index, None, self.shard.wall());
            while !self.append(index, &log, recipe, None) {
                if self.shard.now() > give_up {
                    return Err(format!("log {} still refuses an append", log.id()));
                }
                self.shard.sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    // ---- reads

    async fn read(&self, index: usize, log: &Log) {
        let (from, upto, (cuts, moves), max_bytes) = {
            let mut model = self.model.borrow_mut();
            let (start, end) = (model.logs[index].history.start(), model.logs[index].history.settled_end());
            let start = start.max(log.start_offset().0);
            if start >= end {
                return;
            }
            let from = start + model.below((end - start) as u64) as i64;
            let max_bytes = [200, 5_000, 300_000][model.below(3) as usize];
            let seen = (model.logs[index].cuts, model.logs[index].moves);
            (from, end, seen, max_bytes)
        };
        self.count();
        let limits = ReadLimits { max_bytes, at_least_one_batch: true, upto: Offset(upto) };
        let result = log.read(Offset(from), limits).await;
        let mut model = self.model.borrow_mut();
        let state = &model.logs[index];
        if state.cuts != cuts || state.busy || state.life != Life::Live {
            return;
        }
        let checked = match result {
            Ok(read) => {
                let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                if state.compaction.is_some() {
                    compacted::split(&bytes).and_then(|found| model.check_compacted_read(index, (from, upto), &found))
                } else if bytes.is_empty() {
                    Err("nothing was read below the acknowledged end".to_owned())
                } else {
                    split(&bytes).and_then(|marks| state.history.check_read(from, &marks))
                }
            }
            Err(ReadError::OutOfRange { .. }) if log.start_offset().0 > from => Ok(()),
            // It went to another shard meanwhile.
            Err(_) if state.moves != moves => Ok(()),
            // What a failed sync dropped reads as damaged.
            Err(_) if model.faulty => {
                model.register.hit("read refused: files failed");
                Ok(())
            }
            Err(ReadError::Offline) if model.full => {
                model.register.hit("read refused: files failed");
                Ok(())
            }
            Err(error) => Err(format!("{error}")),
        };
        if let Err(why) = checked {
            let id = log.id();
            model.fail(format!("log {id}, read from {from} up to {upto}: {why}"));
        }
    }
}

/// What an append's end tells.
enum Answer {
    /// A new batch is held; its producer need not send it again.
    First(ChangeId, Option<usize>),
    /// The batch at this offset, which was there before, is held.
    Repeat(i64),
}

/// The batch in the log that this one repeats.
fn known(log: &LogModel, recipe: &Recipe) -> Option<Mark> {
    let stamp = recipe.stamp?;
    let batches = log.history.producers().get(&stamp.producer)?;
    batches.iter().find(|(known, _)| *known == stamp).map(|(_, mark)| *mark)
}
