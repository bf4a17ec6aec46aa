//! Reads from the partitions of this shard, and the fetches that wait for more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use base::{LeaderEpoch, NO_EPOCH, Offset};
use shard::Slice;
use shard::sync::Event;
use storage::{EpochEnd, ReadLimits};
use wire::ErrorCode;

use super::Partition;
use crate::message::{FetchId, FetchTarget, FetchTask, Fetched};
use crate::node::Node;

/// The fetches of this shard that may wait for records, and be told by another to wait no longer. Clones are the same.
#[derive(Clone, Default)]
pub struct FetchCancels(Rc<RefCell<HashMap<FetchId, Event>>>);

impl FetchCancels {
    /// From now on the fetch can be told. A request is registered when it is taken up, before anything of it is awaited, so that the word
    /// to wait no longer, which may come right behind it, finds it.
    #[must_use]
    pub fn register(&self, id: FetchId) -> WaitingFetch {
        let cancelled = Event::new();
        self.0.borrow_mut().insert(id, cancelled.clone());
        WaitingFetch { cancels: self.clone(), id, cancelled }
    }

    /// Has a waiting fetch answer with what there is; without effect where it has been answered.
    pub fn cancel(&self, id: FetchId) {
        let cancelled = self.0.borrow_mut().remove(&id);
        if let Some(event) = cancelled {
            event.notify_all();
        }
    }
}

/// A fetch that may wait; forgotten when it ends in any way.
pub struct WaitingFetch {
    cancels: FetchCancels,
    id: FetchId,
    cancelled: Event,
}

impl WaitingFetch {
    fn is_cancelled(&self) -> bool {
        !self.cancels.0.borrow().contains_key(&self.id)
    }
}

impl Drop for WaitingFetch {
    fn drop(&mut self) {
        self.cancels.0.borrow_mut().remove(&self.id);
    }
}

/// Reads every target; waits until `min_bytes` are there, a target fails, the deadline passes or the fetch is cancelled.
pub async fn fetch(node: &Rc<Node>, task: FetchTask, waiting: &WaitingFetch) -> Vec<Fetched<Slice>> {
    let mut answers = Vec::with_capacity(task.targets.len());
    read(node, &task, &mut answers, |_| true).await;
    while !satisfied(&task, &answers) && !waiting.is_cancelled() && node.shard.now() < task.deadline {
        // Whoever waits keeps no records meanwhile.
        answers.iter_mut().for_each(|answer| answer.slices.clear());
        let since = node.shard.now();
        let changed = wait_for_news(node, &task, &answers, &waiting.cancelled).await;
        node.request_meters.fetch_wait_ns.record_since(since, node.shard.now());
        read(node, &task, &mut answers, |index| changed.binary_search(&index).is_ok()).await;
    }
    answers
}

fn satisfied(task: &FetchTask, answers: &[Fetched<Slice>]) -> bool {
    let bytes: usize = answers.iter().map(|answer| answer.bytes).sum();
    bytes >= task.min_bytes
        || answers.iter().any(|answer| answer.error != ErrorCode::None || answer.diverging.is_some())
}

/// Resolves when a target's high watermark lies beyond the one that was answered, its partition has changed in another way, or time is up.
/// The targets that have changed, in their order.
async fn wait_for_news(node: &Node, task: &FetchTask, answers: &[Fetched<Slice>], cancelled: &Event) -> Vec<usize> {
    let mut changes = Vec::with_capacity(task.targets.len());
    let mut changed = Vec::new();
    for (index, (target, answer)) in task.targets.iter().zip(answers).enumerate() {
        match node.partitions.get(target.log) {
            // A read of a later target may have waited for the disk, and this one grown meanwhile.
            Some(partition) if partition.high_watermark() > answer.high_watermark => changed.push(index),
            Some(partition) => changes.push((index, partition.log.durable_changed())),
            None => changed.push(index),
        }
    }
    if !changed.is_empty() {
        return changed;
    }
    let mut deadline = pin!(node.shard.sleep_until(task.deadline));
    let mut cancelled = pin!(cancelled.wait());
    poll_fn(|context| {
        // Every one is polled, so that every one is registered.
        let news =
            changes.iter_mut().filter_map(|(index, change)| pin!(change).poll(context).is_ready().then_some(*index));
        changed.extend(news);
        let is_over = deadline.as_mut().poll(context).is_ready() || cancelled.as_mut().poll(context).is_ready();
        if is_over || !changed.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    changed
}

/// One pass over the targets in their order, within the bytes of the whole. What was answered before stays as it is where it had no records
/// and has not changed since.
async fn read(node: &Node, task: &FetchTask, answers: &mut Vec<Fetched<Slice>>, has_changed: impl Fn(usize) -> bool) {
    let started = node.shard.now();
    let mut left_bytes = task.max_bytes;
    let mut found = false;
    for (index, target) in task.targets.iter().enumerate() {
        if answers.get(index).is_some_and(|answer| answer.bytes == 0) && !has_changed(index) {
            continue;
        }
        let answer = read_one(node, target, left_bytes, !found).await.unwrap_or_else(Fetched::failed);
        found |= answer.bytes > 0;
        left_bytes = left_bytes.saturating_sub(answer.bytes);
        match answers.get_mut(index) {
            Some(before) => *before = answer,
            None => answers.push(answer),
        }
    }
    node.request_meters.fetch_read_ns.record_since(started, node.shard.now());
}

async fn read_one(
    node: &Node,
    target: &FetchTarget,
    left_bytes: usize,
    at_least_one: bool,
) -> Result<Fetched<Slice>, ErrorCode> {
    let partition = node.partitions.get(target.log).ok_or(ErrorCode::NotLeaderOrFollower)?;
    partition.check_epoch(target.current_epoch)?;
    let high_watermark = partition.high_watermark();
    let mut answer = Fetched {
        error: ErrorCode::None,
        high_watermark,
        log_start: partition.log.start_offset(),
        slices: Vec::new(),
        bytes: 0,
        diverging: None,
    };
    if target.last_fetched_epoch != NO_EPOCH {
        answer.diverging = diverging(&partition, target)?;
        if answer.diverging.is_some() {
            return Ok(answer);
        }
    }
    if target.offset < answer.log_start || target.offset > partition.log.end_offset() {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let max_bytes = target.max_bytes.min(left_bytes);
    if target.offset >= high_watermark || (max_bytes == 0 && !at_least_one) {
        return Ok(answer);
    }
    let limits = ReadLimits { max_bytes, at_least_one_batch: at_least_one, upto: high_watermark };
    let meters = &node.request_meters;
    let (read, bytes) = match partition.log.read_tail(target.offset, &limits) {
        Some(read) => (read, &meters.fetched_tail_bytes),
        None => {
            let read = partition.log.read(target.offset, limits).await;
            (read.map_err(|error| partition.read_failed(&error))?, &meters.fetched_disk_bytes)
        }
    };
    bytes.add(read.bytes as u64);
    answer.slices = read.slices;
    answer.bytes = read.bytes;
    Ok(answer)
}

/// Where the client's log leaves this one, if it does (KIP-595). An epoch that this log has not come to is none to diverge from: the client
/// is told to start from an offset that exists.
fn diverging(partition: &Partition, target: &FetchTarget) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    match partition.log.epoch_end(target.last_fetched_epoch) {
        EpochEnd::Unknown => Err(ErrorCode::OffsetOutOfRange),
        EpochEnd::At { epoch, end } if epoch != target.last_fetched_epoch || end < target.offset => {
            Ok(Some((epoch, end)))
        }
        EpochEnd::At { .. } => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::FetchCancels;
    use crate::message::FetchId;
    use base::ShardId;

    #[test]
    fn a_fetch_is_called_off_however_early_and_forgotten_when_it_ends() {
        let cancels = FetchCancels::default();
        let id = |number| FetchId { shard: ShardId(0), number };
        let [first, second] = [1, 2].map(|number| cancels.register(id(number)));
        cancels.cancel(id(1));
        cancels.cancel(id(3));
        assert!(first.is_cancelled() && !second.is_cancelled());
        drop((first, second));
        assert!(cancels.0.borrow().is_empty());
    }
}
