//! Reads from the partitions of this shard, and the fetches that wait for more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
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

/// The waiting fetches of this shard that may be called off by another.
#[derive(Default)]
pub struct FetchCancels {
    waiting: RefCell<HashMap<FetchId, Rc<Event>>>,
}

impl FetchCancels {
    /// Ends a waiting fetch; without effect where it has been answered.
    pub fn cancel(&self, id: FetchId) {
        if let Some(event) = self.waiting.borrow_mut().remove(&id) {
            event.notify_all();
        }
    }
}

/// Forgets a waiting fetch when it ends in any way.
struct Registered<'a> {
    node: &'a Node,
    id: FetchId,
    cancelled: Rc<Event>,
}

impl<'a> Registered<'a> {
    fn new(node: &'a Node, id: FetchId) -> Self {
        let cancelled = Rc::new(Event::new());
        node.fetch_cancels.waiting.borrow_mut().insert(id, cancelled.clone());
        Self { node, id, cancelled }
    }

    fn is_cancelled(&self) -> bool {
        !self.node.fetch_cancels.waiting.borrow().contains_key(&self.id)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.node.fetch_cancels.waiting.borrow_mut().remove(&self.id);
    }
}

/// Reads every target; waits until `min_bytes` are there, a target fails, the deadline passes or the fetch is cancelled.
pub async fn fetch(node: &Rc<Node>, task: FetchTask) -> Vec<Fetched<Slice>> {
    let mut answers = read_all(node, &task).await;
    if satisfied(&task, &answers) || node.shard.now() >= task.deadline {
        return answers;
    }
    let registered = Registered::new(node, task.id);
    loop {
        let seen: Vec<_> = answers.iter().map(|answer| answer.high_watermark).collect();
        drop(answers);
        let waiting = node.shard.now();
        wait_for_news(node, &task, &seen, &registered.cancelled).await;
        node.request_meters.fetch_wait_ns.record_since(waiting, node.shard.now());
        let over = registered.is_cancelled() || node.shard.now() >= task.deadline;
        answers = read_all(node, &task).await;
        if over || satisfied(&task, &answers) {
            return answers;
        }
    }
}

fn satisfied(task: &FetchTask, answers: &[Fetched<Slice>]) -> bool {
    let bytes: usize = answers.iter().map(|answer| answer.bytes).sum();
    bytes >= task.min_bytes
        || answers.iter().any(|answer| answer.error != ErrorCode::None || answer.diverging.is_some())
}

/// Resolves when a target's high watermark lies beyond the one that was `seen`, its partition is gone, or time is up.
async fn wait_for_news(node: &Node, task: &FetchTask, seen: &[Offset], cancelled: &Event) {
    let mut changes: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::with_capacity(task.targets.len());
    for (target, seen) in task.targets.iter().zip(seen) {
        match node.partitions.get(target.log) {
            // A read of a later target may have waited for the disk, and this one grown meanwhile.
            Some(partition) if partition.high_watermark() > *seen => return,
            Some(partition) => changes.push(Box::pin(async move { partition.log.durable_changed().await })),
            None => return,
        }
    }
    let mut deadline = pin!(node.shard.sleep_until(task.deadline));
    let mut cancelled = pin!(cancelled.wait());
    poll_fn(|context| {
        if deadline.as_mut().poll(context).is_ready() || cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        // Every one is polled, so that every one is registered.
        let mut changed = false;
        for change in &mut changes {
            changed |= change.as_mut().poll(context).is_ready();
        }
        if changed { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// One pass over the targets in their order, within the bytes of the whole.
async fn read_all(node: &Node, task: &FetchTask) -> Vec<Fetched<Slice>> {
    let started = node.shard.now();
    let mut answers = Vec::with_capacity(task.targets.len());
    let mut left_bytes = task.max_bytes;
    let mut found = false;
    for target in &task.targets {
        let answer = read(node, target, left_bytes, !found).await.unwrap_or_else(Fetched::failed);
        found |= answer.bytes > 0;
        left_bytes = left_bytes.saturating_sub(answer.bytes);
        answers.push(answer);
    }
    node.request_meters.fetch_read_ns.record_since(started, node.shard.now());
    answers
}

async fn read(
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
