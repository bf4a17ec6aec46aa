//! Logs that move between the shards of a running process, step by step as `storage` describes it: handed over, taken over, and
//! forgotten where they were, at once, after a while, or not before the process ends.

use std::time::Duration;

use base::{PlacementEpoch, ShardId};
use shard::Class;
use sim::batches::Recipe;
use storage::{AppendError, HandedLog, Log, Status, StoreError};

use crate::work::Bench;

/// What shards ask of each other, and the answers. Logs go by their place in the model.
pub enum Message {
    TakeOver(usize, Box<HandedLog>),
    Forget(usize, PlacementEpoch),
    Done,
    /// The log did not move: its new shard has not forgotten an earlier stay yet.
    Refused,
}

/// A shard that a log has left, and that has a record of it still.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub shard: ShardId,
    /// The epoch under which the log went on.
    pub placement: PlacementEpoch,
    /// Where the acknowledged part ended then.
    pub end: i64,
    /// It is being forgotten just now.
    pub forgetting: bool,
}

/// Serves the other shards until the process ends.
pub async fn serve(bench: Bench) {
    loop {
        let incoming = bench.mesh.receive().await;
        let (from, task_bench) = (incoming.from, bench.clone());
        let task = async move {
            let answer = match incoming.message {
                Message::TakeOver(index, handed) => task_bench.take_over(index, *handed, from).await,
                Message::Forget(index, placement) => task_bench.forget(index, placement).await,
                Message::Done | Message::Refused => unreachable!("an answer that nobody asked for"),
            };
            incoming.reply.expect("all of these are requests").send(answer);
        };
        drop(bench.shard.spawn(Class::Normal, bench.shard.account("moves"), task));
    }
}

impl Bench {
    /// Moves a log to another shard, unless something comes in between.
    pub async fn move_log(&self, index: usize, log: &Log) {
        let others: Vec<ShardId> = (0..self.mesh.shards()).map(ShardId).filter(|id| *id != self.shard.id()).collect();
        let (to, gives_up) = {
            let mut model = self.model.borrow_mut();
            // Often back to where it was: what is left of its stay there must not be taken for what it is now.
            let state = &model.logs[index];
            let earlier = others.iter().copied().filter(|to| state.homes.contains(to)).collect::<Vec<_>>();
            let choice = if earlier.is_empty() || model.below(3) == 0 { others } else { earlier };
            let pick = model.below(choice.len() as u64) as usize;
            let Some(&to) = choice.get(pick) else { return };
            if model.logs[index].left.iter().any(|left| left.shard == to && left.forgetting) {
                return;
            }
            let state = &mut model.logs[index];
            (state.busy, state.moving, state.owner) = (true, true, None);
            state.moves += 1;
            (to, model.below(8) == 0)
        };
        self.count();
        let handed = match self.store.hand_over(log.id()).await {
            Ok(handed) => handed,
            Err(error) => {
                self.stays(index);
                self.refused_change(index, "hand-over", &error);
                let mut model = self.model.borrow_mut();
                // But for a log whose files failed, it goes on as if nothing had been asked.
                model.logs[index].unsure = log.status() != Status::Online;
                let is_full = matches!(error, StoreError::DiskFull);
                return model.register.hit(if is_full { "hand-over refused: disk full" } else { "hand-over refused" });
            }
        };
        self.check_parked(index, log);
        if gives_up {
            return self.take_back(index, log, "move taken back");
        }
        self.logs.borrow_mut().retain(|(other, _)| *other != index);
        match self.mesh.request(to, Message::TakeOver(index, Box::new(handed))).await {
            Message::Done => self.forget_later(index),
            _ => {
                self.logs.borrow_mut().push((index, log.clone()));
                self.take_back(index, log, "move refused: not forgotten there");
            }
        }
    }

    /// A log that is handed over takes nothing in, and stays until it is forgotten.
    fn check_parked(&self, index: usize, log: &Log) {
        let batch: Recipe = self.model.borrow_mut().recipe(index, None, self.shard.wall());
        let epoch = self.model.borrow().logs[index].epoch;
        match log.append(&batch.build(), self.options(epoch)) {
            Err(AppendError::Busy) => {}
            other => self.fail(log, &format!("an append to a log that is handed over: {other:?}")),
        }
    }

    fn take_back(&self, index: usize, log: &Log, what: &'static str) {
        self.stays(index);
        match self.store.take_back(log.id()) {
            Ok(()) => self.model.borrow_mut().register.hit(what),
            Err(error) => self.fail(log, &format!("taking it back failed: {error}")),
        }
    }

    /// The log is where it was.
    fn stays(&self, index: usize) {
        let mut model = self.model.borrow_mut();
        let state = &mut model.logs[index];
        (state.busy, state.moving, state.owner) = (false, false, Some(self.shard.id()));
    }

    async fn take_over(&self, index: usize, handed: HandedLog, from: ShardId) -> Message {
        let (here, placement) = (self.shard.id(), handed.placement());
        let result = self.store.take_over(handed).await;
        let mut model = self.model.borrow_mut();
        let was_here = model.logs[index].left.iter().any(|left| left.shard == here);
        let log = match result {
            Ok(log) if !was_here => log,
            Err(StoreError::Exists) if was_here => return Message::Refused,
            result => {
                let (id, how) = (model.logs[index].id, result.map(|log| log.id()));
                model.fail(format!("log {id}: taken over, not forgotten here before: {was_here}: {how:?}"));
                return Message::Refused;
            }
        };
        let state = &mut model.logs[index];
        let (end, settled) = (state.history.end(), state.history.settled_end());
        state.left.push(Left { shard: from, placement, end: settled, forgetting: false });
        (state.busy, state.moving, state.owner) = (false, false, Some(here));
        let again = state.homes.contains(&here);
        state.homes.extend([from, here]);
        model.register.hit("moved between shards");
        if again {
            model.register.hit("moved back to a shard");
        }
        if log.status() != Status::Online && model.faulty {
            // Its last block could not be read.
            model.logs[index].unsure = true;
            model.register.hit("moved, and offline there");
        } else if log.status() != Status::Online || log.end_offset().0 != end || log.durable_end().0 != end {
            let (id, status, found) = (log.id(), log.status(), log.durable_end());
            model.fail(format!("log {id}: after a move it is {status:?} and ends at {found}, not at {end}"));
        }
        drop(model);
        self.logs.borrow_mut().push((index, log));
        Message::Done
    }

    /// Has this shard forget a log that has left it, after a while perhaps, or not before the process ends.
    fn forget_later(&self, index: usize) {
        let delay_us = {
            let mut model = self.model.borrow_mut();
            match model.below(8) {
                0..4 => 0,
                4 => model.below(3_000),
                5 => model.below(300_000),
                _ => return,
            }
        };
        let (bench, here) = (self.clone(), self.shard.id());
        let task = async move {
            bench.shard.sleep(Duration::from_micros(delay_us)).await;
            // Not in the middle of another change: a log that is on its way back here is not to be forgotten.
            while bench.model.borrow().logs[index].busy {
                bench.shard.sleep(Duration::from_millis(2)).await;
            }
            let placement = bench.model.borrow_mut().begin_to_forget(index, here);
            if let Some(placement) = placement {
                bench.forget(index, placement).await;
            }
        };
        drop(self.shard.spawn(Class::Normal, self.shard.account("moves"), task));
    }

    async fn forget(&self, index: usize, placement: PlacementEpoch) -> Message {
        let (here, id) = (self.shard.id(), self.model.borrow().logs[index].id);
        let result = self.store.forget_moved(id, placement).await;
        let mut model = self.model.borrow_mut();
        match result {
            Ok(()) => {
                model.logs[index].left.retain(|left| left.shard != here);
                model.register.hit("moved log forgotten");
            }
            Err(StoreError::Closed | StoreError::NotFound) if model.closing => {}
            Err(error) => model.fail(format!("log {id}: where it was it cannot be forgotten: {error}")),
        }
        Message::Done
    }

    /// Before a log may be removed, every shard that it has left forgets it.
    pub async fn forget_everywhere(&self, index: usize) {
        let left = self.model.borrow().logs[index].left.clone();
        for Left { shard, .. } in left {
            let placement = self.model.borrow_mut().begin_to_forget(index, shard);
            if let Some(placement) = placement {
                self.mesh.request(shard, Message::Forget(index, placement)).await;
            }
        }
    }
}
