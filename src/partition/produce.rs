//! Appends to the partitions of this shard.
//!
//! A batch that the log can't take at once (the journal is catching up, the log is being truncated) waits in its partition's backlog, and all that
//! come after it behind it, so that the order of a producer's batches is the order of their offsets. What waits there is bounded by
//! what connections may have in flight.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use base::{Instant, Offset, WallTime};
use shard::Slice;
use shard::sync::oneshot;
use storage::{AppendError, AppendOptions, Durable, ProducerError};
use wire::ErrorCode;

use super::Partition;
use crate::config::TimestampType;
use crate::message::{Acks, BatchTask, Produced};
use crate::node::Node;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// A batch that has its place, and its answer once that is held.
pub struct Placed {
    answer: Produced,
    durable: Durable,
}

/// A batch on its way into the log.
enum Appending {
    Placed(Placed),
    /// In the backlog.
    Waiting(oneshot::Receiver<Result<Placed, Produced>>),
}

/// Batches that wait for room, oldest first.
pub type Backlog = VecDeque<(Slice, oneshot::Sender<Result<Placed, Produced>>)>;

/// Gives every batch its place, in the log or behind those that wait for room, before it returns; the future resolves, in the
/// order of `tasks`, once `acks` allows an answer.
pub fn produce(node: &Rc<Node>, acks: Acks, deadline: Instant, tasks: Vec<BatchTask<Slice>>) -> Boxed<Vec<Produced>> {
    let appending: Vec<_> = tasks.into_iter().map(|task| append(node, task)).collect();
    let node = node.clone();
    Box::pin(async move {
        let mut produced = Vec::with_capacity(appending.len());
        for appending in appending {
            produced.push(match appending {
                Ok(appending) => finish(&node, acks, deadline, appending).await,
                Err(failed) => failed,
            });
        }
        produced
    })
}

fn append(node: &Rc<Node>, task: BatchTask<Slice>) -> Result<Appending, Produced> {
    let partition =
        node.partitions.get(task.log).ok_or_else(|| Produced::failed(ErrorCode::NotLeaderOrFollower, None))?;
    // The one replica of a single broker is all that there can be in sync. As in Kafka (KIP-966), `min.insync.replicas` asks for no more
    // replicas than a partition has.
    if partition.backlog.borrow().is_empty() {
        match partition.try_append(&task.batch, node.shard.wall()) {
            Attempt::Over(outcome) => return outcome.map(Appending::Placed),
            Attempt::NoRoom => work_off_backlog(node, &partition),
        }
    }
    let (sender, receiver) = oneshot::channel();
    partition.backlog.borrow_mut().push_back((task.batch, sender));
    Ok(Appending::Waiting(receiver))
}

enum Attempt {
    Over(Result<Placed, Produced>),
    NoRoom,
}

impl Partition {
    fn try_append(&self, batch: &[u8], now: WallTime) -> Attempt {
        let append_time = (self.config().timestamp_type == TimestampType::LogAppendTime).then_some(now);
        let options = AppendOptions { leader_epoch: self.leader_epoch(), append_time, wall_now: now };
        let placed = |base_offset, log_start, append_time: Option<WallTime>, durable| {
            let append_time = append_time.unwrap_or(WallTime(-1));
            let error = ErrorCode::None;
            let answer = Produced { base_offset, append_time, log_start, ..Produced::failed(error, None) };
            Attempt::Over(Ok(Placed { answer, durable }))
        };
        match self.log.append(batch, options) {
            Ok(appended) => placed(appended.base_offset, appended.log_start, append_time, appended.durable),
            // Answered as the first time, and no sooner than it is held.
            Err(AppendError::Duplicate(first)) => {
                let append_time = append_time.map(|_| first.timestamp);
                placed(first.base_offset, first.log_start, append_time, first.durable)
            }
            Err(AppendError::Backpressure | AppendError::Busy) => Attempt::NoRoom,
            Err(error) => Attempt::Over(Err(refused(&error, self.log.start_offset()))),
        }
    }
}

/// Runs until the backlog is empty again; started by the batch that found no room.
fn work_off_backlog(node: &Rc<Node>, partition: &Rc<Partition>) {
    let (node_of_task, partition) = (node.clone(), partition.clone());
    node.spawn_latency(async move {
        loop {
            // Taken before the attempt, so that room made in between is not missed.
            let room = partition.log.room();
            let Some((batch, _)) = partition.backlog.borrow().front().map(|(batch, _)| (batch.clone(), ())) else {
                return;
            };
            match partition.try_append(&batch, node_of_task.shard.wall()) {
                Attempt::NoRoom => room.await,
                Attempt::Over(outcome) => {
                    if let Some((_, sender)) = partition.backlog.borrow_mut().pop_front() {
                        // Who sent it may be gone; the batch has its place all the same.
                        let _ = sender.send(outcome);
                    }
                }
            }
        }
    });
}

async fn finish(node: &Node, acks: Acks, deadline: Instant, appending: Appending) -> Produced {
    let work = async {
        let placed = match appending {
            Appending::Placed(placed) => placed,
            Appending::Waiting(receiver) => match receiver.await {
                Ok(outcome) => outcome?,
                Err(_) => return Err(Produced::failed(ErrorCode::NotLeaderOrFollower, None)),
            },
        };
        if acks != Acks::None {
            let lost = |lost: storage::Lost| Produced::failed(ErrorCode::KafkaStorageError, Some(lost.to_string()));
            placed.durable.await.map_err(lost)?;
        }
        Ok(placed.answer)
    };
    match node.shard.until(deadline, work).await {
        Some(outcome) => outcome.unwrap_or_else(|failed| failed),
        // The outcome is unknown to the client, as Kafka says it.
        None => Produced::failed(ErrorCode::RequestTimedOut, None),
    }
}

/// Kafka's code for each refusal of the log.
fn refused(error: &AppendError, log_start: Offset) -> Produced {
    let code = match error {
        AppendError::Producer(ProducerError::OutOfOrder { .. }) => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::Producer(ProducerError::Fenced { .. }) => ErrorCode::InvalidProducerEpoch,
        AppendError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::Invalid(_) | AppendError::NotOneBatch => ErrorCode::CorruptMessage,
        AppendError::StaleEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        AppendError::NoSpace(_) | AppendError::Offline => ErrorCode::KafkaStorageError,
        AppendError::Gone => ErrorCode::NotLeaderOrFollower,
        AppendError::Duplicate(_) | AppendError::Backpressure | AppendError::Busy => {
            unreachable!("a duplicate is answered and what finds no room waits")
        }
    };
    Produced { log_start, ..Produced::failed(code, Some(error.to_string())) }
}
