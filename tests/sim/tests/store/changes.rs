//! Changes that a client makes to a whole log: its end, its epoch, its start, its life. Nobody else touches the log meanwhile.

use base::{LeaderEpoch, Offset};
use sim::batches::Recipe;
use storage::{Log, StoreError};

use crate::model::Life;
use crate::work::{Bench, log_config};

/// Logs that exist at a time.
const LOGS: usize = 10;

impl Bench {
    pub async fn truncate(&self, index: usize, log: &Log) {
        let (end, change, same) = {
            let mut model = self.model.borrow_mut();
            let pick = model.random.next_u64() as usize;
            // Mostly near the end, where what was cut is still in the journal.
            let near = model.below(4) > 0;
            let state = &mut model.logs[index];
            let at = |count: usize| if near { count - 1 - pick % count.min(6) } else { pick % count };
            // Of a compacted log nothing committed is cut: what it replaced may be gone.
            let least = if state.compaction.is_some() { state.committed } else { 0 };
            let Some(end) = state.history.a_cut(least, at) else { return };
            state.busy = true;
            state.cuts += 1;
            state.epoch_promised = 0;
            state.restart_cut_producers(end);
            let first_cut = state.history.batch_at(end);
            let change = state.history.truncate(end);
            (end, change, first_cut.map(|mark| model.recipes[&mark.content]))
        };
        self.count();
        let result = log.truncate_to(Offset(end)).await;
        {
            let mut model = self.model.borrow_mut();
            model.logs[index].busy = false;
            match result {
                Ok(at) if at.0 == end => {
                    model.logs[index].history.acknowledge(change);
                    model.logs[index].set_epoch(log.latest_epoch().0.max(0));
                }
                Ok(at) => return model.fail(format!("log {}: cut to {end}, it ends at {at}", log.id())),
                Err(error) => {
                    drop(model);
                    return self.refused_change(index, "truncation", &error);
                }
            }
            model.register.hit("truncated");
        }
        // A batch of the same length in place of the first one that was cut.
        if let Some(recipe) = same {
            let recipe = Recipe { tag: self.model.borrow_mut().tag(), stamp: None, ..recipe };
            if self.append(index, log, recipe, None) {
                self.model.borrow_mut().register.hit("truncated, then a batch of the same length");
            }
        }
    }

    pub async fn adopt_epoch(&self, index: usize, log: &Log) {
        let epoch = {
            let mut model = self.model.borrow_mut();
            let state = &mut model.logs[index];
            state.busy = true;
            state.epoch_asked += 1;
            state.epoch_asked
        };
        self.count();
        let result = log.adopt_epoch(LeaderEpoch(epoch)).await;
        let mut model = self.model.borrow_mut();
        model.logs[index].busy = false;
        match result {
            Ok(()) => model.logs[index].set_epoch(epoch),
            Err(error) => {
                drop(model);
                self.refused_change(index, "new epoch", &error);
            }
        }
    }

    pub async fn advance_start(&self, index: usize, log: &Log) {
        let start = {
            let mut model = self.model.borrow_mut();
            let state = &model.logs[index].history;
            let (from, to) = (state.start(), state.settled_end());
            let start = from + model.below((to - from + 1) as u64) as i64;
            model.logs[index].history.ask_start(start);
            model.logs[index].busy = true;
            start
        };
        self.count();
        let result = log.advance_start(Offset(start)).await;
        let mut model = self.model.borrow_mut();
        model.logs[index].busy = false;
        match result {
            Ok(()) => model.logs[index].history.promise_start(start),
            Err(error) => {
                drop(model);
                self.refused_change(index, "new start", &error);
            }
        }
    }

    pub async fn create(&self) {
        let (index, id, topic, config) = {
            let mut model = self.model.borrow_mut();
            if model.logs.iter().filter(|log| log.life != Life::Gone).count() >= LOGS {
                return;
            }
            let index = model.new_log();
            let log = &model.logs[index];
            (index, log.id, log.topic.clone(), log_config(log))
        };
        self.count();
        match self.store.create_log(&topic, id, config).await {
            Ok(log) => {
                let mut model = self.model.borrow_mut();
                model.logs[index].life = Life::Live;
                model.logs[index].owner = Some(self.shard.id());
                let (here, checkpoints) = (self.shard.id(), self.store.stats().checkpoints);
                if model.removed.contains(&(topic, here, checkpoints)) {
                    model.recreated.push((here, checkpoints));
                }
                drop(model);
                self.logs.borrow_mut().push((index, log));
            }
            Err(error) => self.refused_change(index, "creation", &error),
        }
    }

    pub async fn remove(&self, index: usize, log: &Log) {
        let id = log.id();
        {
            let mut model = self.model.borrow_mut();
            if model.logs[index].left.iter().any(|left| left.forgetting) {
                return;
            }
            model.logs[index].life = Life::Removing;
        }
        self.count();
        self.logs.borrow_mut().retain(|(other, _)| *other != index);
        self.forget_everywhere(index).await;
        let checkpoints = self.store.stats().checkpoints;
        match self.store.remove_log(id).await {
            Ok(()) => {
                let mut model = self.model.borrow_mut();
                model.logs[index].life = Life::Gone;
                model.register.hit("removed");
                if !model.logs[index].homes.is_empty() {
                    model.register.hit("removed after a move");
                }
                let topic = model.logs[index].topic.clone();
                model.removed.push((topic, self.shard.id(), checkpoints));
            }
            Err(error) => self.refused_change(index, "removal", &error),
        }
        // The topic may come back at once, under another id.
        if self.model.borrow_mut().below(2) == 0 {
            self.create().await;
        }
    }

    /// A change failed, as it may while files fail or the disk is full. Whether it was made nobody knows: the log is left alone until
    /// the next start.
    pub fn refused_change(&self, index: usize, what: &str, error: &StoreError) {
        let mut model = self.model.borrow_mut();
        let is_due = match error {
            StoreError::Offline | StoreError::Io { .. } => model.faulty || model.full,
            StoreError::DiskFull => model.full,
            _ => false,
        };
        if is_due {
            model.register.hit("change of a log refused");
            model.logs[index].unsure = true;
        } else {
            let id = model.logs[index].id;
            model.fail(format!("log {id}: its {what} failed: {error}"));
        }
    }
}
