//! Fetches over the shards that own what is read.
//!
//! A fetch that may wait asks every owner once, and waits for the first that has something; the others are then told to answer with what
//! they have. So a long poll costs each owner one message and one look at its partitions, however long it waits. Only where
//! all of them together have less than was asked for does it go on, in rounds.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use base::{Instant, ShardId};
use shard::Slice;
use wire::ErrorCode;

use super::Boxed;
use crate::message::{FetchId, FetchTarget, FetchTask, Fetched, Message};
use crate::node::Node;
use crate::partition;

/// What a fetch is to gather.
pub struct FetchPlan {
    /// Each with the owner of its partition.
    pub targets: Vec<(ShardId, FetchTarget)>,
    pub max_bytes: usize,
    pub min_bytes: usize,
    pub deadline: Instant,
}

/// The targets of one owner, each with its place in the plan.
struct Part {
    owner: ShardId,
    places: Vec<usize>,
    targets: Vec<FetchTarget>,
}

fn split(targets: Vec<(ShardId, FetchTarget)>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, (owner, target)) in targets.into_iter().enumerate() {
        // Shards are few, and partitions that follow one another are often of different ones.
        let index = parts.iter().position(|part| part.owner == owner).unwrap_or_else(|| {
            parts.push(Part { owner, places: Vec::new(), targets: Vec::new() });
            parts.len() - 1
        });
        parts[index].places.push(place);
        parts[index].targets.push(target);
    }
    parts
}

/// What one round asks of every owner.
#[derive(Clone, Copy)]
struct Ask {
    max_bytes: usize,
    min_bytes: usize,
    deadline: Instant,
}

/// Reads from every target, and waits for as much as is asked for, until the deadline.
pub async fn fetch(node: &Rc<Node>, plan: FetchPlan) -> Vec<Fetched<Slice>> {
    let count = plan.targets.len();
    let ask = Ask { max_bytes: plan.max_bytes, min_bytes: plan.min_bytes, deadline: plan.deadline };
    let parts = split(plan.targets);
    let answers = if parts.len() <= 1 {
        Round::start(node, &parts, ask).await.answers().await
    } else {
        fetch_from_many(node, &parts, ask).await
    };
    let mut answers = in_order(count, parts, answers);
    trim(&mut answers, plan.max_bytes);
    answers
}

/// Puts the answers of the parts back into the order of the plan.
fn in_order(count: usize, parts: Vec<Part>, answers: Vec<Vec<Fetched<Slice>>>) -> Vec<Fetched<Slice>> {
    let lines = parts.into_iter().zip(answers);
    let mut lines: Vec<_> =
        lines.map(|(part, answers)| (part.places.into_iter().peekable(), answers.into_iter())).collect();
    // Each part has its places in ascending order, so the next one is at the head of a line.
    let next = |place| {
        let line = lines.iter_mut().find_map(|(places, answers)| places.next_if_eq(&place).map(|_| answers));
        line.and_then(Iterator::next).unwrap_or_else(|| Fetched::failed(ErrorCode::NotLeaderOrFollower))
    };
    (0..count).map(next).collect()
}

/// The answers of the parts, in their order.
async fn fetch_from_many(node: &Rc<Node>, parts: &[Part], ask: Ask) -> Vec<Vec<Fetched<Slice>>> {
    let mut answers = first_news(node, parts, Ask { min_bytes: ask.min_bytes.min(1), ..ask }).await;
    loop {
        let all = answers.iter().flatten();
        let bytes: usize = all.clone().map(|answer| answer.bytes).sum();
        let mut failed = all.map(|answer| answer.error != ErrorCode::None || answer.diverging.is_some());
        if bytes >= ask.min_bytes || failed.any(|failed| failed) || node.shard.now() >= ask.deadline {
            return answers;
        }
        // Too little all together: wait for the first news beyond what was just read, then read all of it again.
        let beyond: Vec<_> = parts.iter().zip(&answers).map(|(part, answers)| part.beyond(answers)).collect();
        drop(answers);
        drop(first_news(node, &beyond, Ask { max_bytes: 1, min_bytes: 1, ..ask }).await);
        answers = Round::start(node, parts, Ask { min_bytes: 0, ..ask }).await.answers().await;
    }
}

/// Waits until an owner has as much as is asked for, or an error, or time is up; then all owners answer with what they have.
async fn first_news(node: &Rc<Node>, parts: &[Part], ask: Ask) -> Vec<Vec<Fetched<Slice>>> {
    let mut round = Round::start(node, parts, ask).await;
    round.first().await;
    round.call_off().await;
    round.answers().await
}

impl Part {
    /// The same partitions from what will come next.
    fn beyond(&self, answers: &[Fetched<Slice>]) -> Self {
        let next = |(target, answer): (&FetchTarget, &Fetched<Slice>)| FetchTarget {
            offset: answer.high_watermark.max(target.offset),
            ..*target
        };
        Self { owner: self.owner, places: Vec::new(), targets: self.targets.iter().zip(answers).map(next).collect() }
    }
}

enum Asked {
    Waiting(Boxed<Vec<Fetched<Slice>>>),
    Answered(Vec<Fetched<Slice>>),
}

impl Asked {
    fn is_answered(&self) -> bool {
        matches!(self, Self::Answered(_))
    }
}

/// One request to every owner. Dropped while owners still wait for records, it tells them that nobody wants their answers any more.
struct Round<'n> {
    node: &'n Rc<Node>,
    id: FetchId,
    may_wait: bool,
    /// By part.
    asked: Vec<(ShardId, Asked)>,
}

impl<'n> Round<'n> {
    async fn start(node: &'n Rc<Node>, parts: &[Part], mut ask: Ask) -> Self {
        let id = node.next_fetch_id();
        let mut round = Self { node, id, may_wait: ask.min_bytes > 0, asked: Vec::with_capacity(parts.len()) };
        let task = |part: &Part, ask: Ask| {
            let Ask { max_bytes, min_bytes, deadline } = ask;
            FetchTask { id, targets: part.targets.clone(), max_bytes, min_bytes, deadline }
        };
        let own = node.shard.id();
        // One's own first: where they have something the others need not wait.
        let mut here = parts.iter().find(|part| part.owner == own).map(|part| round.ask_here(task(part, ask)));
        if let Some(asked) = &mut here
            && round.may_wait
            && poll_fn(|context| Poll::Ready(asked.is_ready(context))).await
        {
            ask.min_bytes = 0;
            round.may_wait = false;
        }
        for part in parts {
            let asked = match here.take_if(|_| part.owner == own) {
                Some(asked) => asked,
                None => round.ask_there(part.owner, task(part, ask)).await,
            };
            round.asked.push((part.owner, asked));
        }
        round
    }

    fn ask_here(&self, task: FetchTask) -> Asked {
        let node = self.node.clone();
        let waiting = node.fetch_cancels.register(task.id);
        Asked::Waiting(Box::pin(async move { partition::fetch(&node, task, &waiting).await }))
    }

    async fn ask_there(&self, owner: ShardId, task: FetchTask) -> Asked {
        let sent = self.node.mesh.send_request(owner, Message::Fetch(task)).await;
        Asked::Waiting(Box::pin(async move {
            match sent.await {
                Message::Fetched(fetched) => {
                    fetched.into_iter().map(|answer| answer.map(Slice::from_foreign)).collect()
                }
                other => unreachable!("a Fetch is answered by Fetched, not {other:?}"),
            }
        }))
    }

    /// Waits until one of the owners has answered.
    async fn first(&mut self) {
        poll_fn(|context| {
            let mut any = false;
            for (_, asked) in &mut self.asked {
                any |= asked.is_ready(context);
            }
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Has those answer that still wait for records.
    async fn call_off(&mut self) {
        if !std::mem::take(&mut self.may_wait) {
            return;
        }
        let waiting = self.asked.iter().filter(|(_, asked)| !asked.is_answered());
        for owner in waiting.map(|(owner, _)| *owner) {
            if owner == self.node.shard.id() {
                self.node.fetch_cancels.cancel(self.id);
            } else {
                self.node.mesh.post(owner, Message::CancelFetch(self.id)).await;
            }
        }
    }

    /// The answers of all owners, in the order in which they were asked.
    async fn answers(mut self) -> Vec<Vec<Fetched<Slice>>> {
        let mut answers = Vec::with_capacity(self.asked.len());
        for (_, asked) in &mut self.asked {
            poll_fn(|context| if asked.is_ready(context) { Poll::Ready(()) } else { Poll::Pending }).await;
        }
        for (_, asked) in self.asked.drain(..) {
            if let Asked::Answered(answer) = asked {
                answers.push(answer);
            }
        }
        answers
    }
}

impl Asked {
    /// Looks for the answer, and keeps it.
    fn is_ready(&mut self, context: &mut std::task::Context<'_>) -> bool {
        if let Self::Waiting(wait) = self
            && let Poll::Ready(answer) = wait.as_mut().poll(context)
        {
            *self = Self::Answered(answer);
        }
        self.is_answered()
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if !self.may_wait {
            return;
        }
        let (own, id) = (self.node.shard.id(), self.id);
        for (owner, _) in self.asked.drain(..).filter(|(owner, asked)| *owner != own && !asked.is_answered()) {
            let mesh = self.node.mesh.clone();
            self.node.spawn_latency(async move { mesh.post(owner, Message::CancelFetch(id)).await });
        }
    }
}

/// Keeps the total under `max_bytes`: shards were each granted all of it. The first batches found stay, as Kafka promises progress.
fn trim(answers: &mut [Fetched<Slice>], max_bytes: usize) {
    let mut total = 0;
    for answer in answers {
        if total > 0 && total + answer.bytes > max_bytes {
            answer.slices.clear();
            answer.bytes = 0;
        }
        total += answer.bytes;
    }
}

#[cfg(test)]
mod tests {
    use base::{NO_EPOCH, Offset, PartitionIndex, ShardId, Uuid};
    use storage::LogId;
    use wire::ErrorCode;

    use super::{FetchTarget, Fetched, in_order, split};

    #[test]
    fn answers_come_in_the_order_of_the_plan_whoever_owns_what() {
        let target = |index| FetchTarget {
            log: LogId { topic_id: Uuid::ZERO, partition: PartitionIndex(index) },
            offset: Offset(0),
            max_bytes: 1,
            current_epoch: NO_EPOCH,
            last_fetched_epoch: NO_EPOCH,
        };
        for owners in [&[][..], &[3], &[0, 0], &[1, 0, 1, 1, 2, 0]] {
            let plan = owners.iter().zip(0..).map(|(owner, index)| (ShardId(*owner), target(index))).collect();
            let parts = split(plan);
            // Each answer says which partition it is of.
            let of = |target: &FetchTarget| Fetched {
                high_watermark: Offset(i64::from(target.log.partition.0)),
                ..Fetched::failed(ErrorCode::None)
            };
            let answers = parts.iter().map(|part| part.targets.iter().map(of).collect()).collect();
            let marks =
                in_order(owners.len(), parts, answers).iter().map(|answer| answer.high_watermark.0).collect::<Vec<_>>();
            assert_eq!(marks, (0..owners.len() as i64).collect::<Vec<_>>(), "{owners:?}");
        }
        // An owner that has gone away answers for none of its partitions.
        let parts = split(vec![(ShardId(0), target(0)), (ShardId(1), target(1))]);
        let answers = in_order(2, parts, vec![vec![Fetched::failed(ErrorCode::None)], Vec::new()]);
        assert_eq!(answers[1].error, ErrorCode::NotLeaderOrFollower);
    }
}
