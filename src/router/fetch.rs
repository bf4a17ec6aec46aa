//! Fetches over the shards that own what is read.
//!
//! A fetch that may wait asks every owner once, and waits for the first that has something; the others are then told to answer with what
//! they have. So a long poll costs each owner one message and one look at what has changed, however long it waits. Only where
//! all of them together have less than was asked for does it go on, in rounds.
//!
//! The owners keep what a fetch session reads ([`ReaderHandle`]): they are told what changes of it, and answer what has news.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use base::{Instant, ShardId};
use shard::Slice;

use super::Boxed;
use crate::message::{FetchId, FetchTarget, FetchTask, Fetched, Message, Patience, ReaderId, Scope};
use crate::node::Node;
use crate::partition;

/// What a fetch is to gather.
pub struct FetchPlan<'r> {
    /// Whose wants the owners know already; without one, what is in the plan is all that is read.
    pub reader: Option<&'r ReaderHandle>,
    /// One for each shard that owns something of what is read, changed or not.
    pub parts: Vec<FetchPart>,
    pub is_complete: bool,
    pub max_bytes: usize,
    pub min_bytes: usize,
    pub deadline: Instant,
}

/// What changes of that which one shard owns.
#[derive(Debug)]
pub struct FetchPart {
    pub owner: ShardId,
    /// Places that are read no longer.
    pub forgotten: Vec<u32>,
    pub targets: Vec<FetchTarget>,
}

/// Readers that have gone, each with a shard that is yet to be told. Clones are the same.
#[derive(Clone, Default)]
pub struct GoneReaders(Rc<RefCell<Vec<(ShardId, ReaderId)>>>);

impl GoneReaders {
    /// Tells the owners. Dropped meanwhile, it leaves to the next call what it has not come to.
    pub async fn tell(&self, node: &Node) {
        loop {
            let Some((owner, id)) = self.0.borrow().last().copied() else { return };
            if owner == node.shard.id() {
                node.readers.forget(id);
            } else {
                node.mesh.post(owner, Message::ForgetReader(id)).await;
            }
            self.0.borrow_mut().retain(|gone| *gone != (owner, id));
        }
    }
}

/// One who reads with fetch after fetch. Once it is dropped, its owners are told to forget it ([`GoneReaders::tell`]).
pub struct ReaderHandle {
    id: ReaderId,
    /// Those that may know it.
    owners: RefCell<Vec<ShardId>>,
    gone: GoneReaders,
}

impl ReaderHandle {
    #[must_use]
    pub fn new(node: &Node) -> Self {
        let FetchId { shard, number } = node.next_fetch_id();
        Self { id: ReaderId { shard, number }, owners: RefCell::default(), gone: node.gone_readers.clone() }
    }

    fn is_asked_of(&self, owner: ShardId) {
        let mut owners = self.owners.borrow_mut();
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
}

impl Drop for ReaderHandle {
    fn drop(&mut self) {
        let owners = self.owners.take();
        self.gone.0.borrow_mut().extend(owners.into_iter().map(|owner| (owner, self.id)));
    }
}

/// What one round asks of every owner.
#[derive(Clone, Copy)]
struct Ask {
    reader: Option<ReaderId>,
    scope: Scope,
    max_bytes: usize,
    patience: Patience,
    deadline: Instant,
}

/// Reads what the owners have news of, and waits for as much as is asked for, until the deadline. The answers of a complete plan are in the
/// order of their places.
pub async fn fetch(node: &Rc<Node>, plan: FetchPlan<'_>) -> Vec<Fetched<Slice>> {
    if plan.parts.is_empty() {
        return Vec::new();
    }
    // Several rounds are a reader's, be it of this fetch alone.
    let has_rounds = plan.parts.len() > 1 && plan.min_bytes > 1;
    let own_reader = (has_rounds && plan.reader.is_none()).then(|| ReaderHandle::new(node));
    let reader = plan.reader.or(own_reader.as_ref());
    if let Some(reader) = reader {
        plan.parts.iter().for_each(|part| reader.is_asked_of(part.owner));
    }
    let patience = |bytes| if bytes > 0 { Patience::Bytes(bytes) } else { Patience::None };
    let ask = Ask {
        reader: reader.map(|reader| reader.id),
        scope: if plan.is_complete { Scope::All } else { Scope::News },
        max_bytes: plan.max_bytes,
        patience: patience(plan.min_bytes),
        deadline: plan.deadline,
    };
    let answers = if plan.parts.len() == 1 {
        Round::start(node, plan.parts, ask).await.answers().await
    } else {
        let first = Ask { patience: patience(plan.min_bytes.min(1)), ..ask };
        fetch_from_many(node, plan.parts, first, plan.min_bytes).await
    };
    let mut answers: Vec<_> = answers.into_iter().flatten().collect();
    if plan.is_complete {
        answers.sort_by_key(|answer| answer.place);
    }
    trim(&mut answers, plan.max_bytes);
    answers
}

/// The answers of the parts, in their order.
async fn fetch_from_many(
    node: &Rc<Node>,
    parts: Vec<FetchPart>,
    ask: Ask,
    min_bytes: usize,
) -> Vec<Vec<Fetched<Slice>>> {
    let owners: Vec<_> = parts.iter().map(|part| part.owner).collect();
    let mut answers = first_news(node, parts, ask).await;
    loop {
        let bytes: usize = answers.iter().flatten().map(|answer| answer.bytes).sum();
        let is_remarkable = answers.iter().flatten().any(Fetched::is_remarkable);
        if bytes >= min_bytes || is_remarkable || node.shard.now() >= ask.deadline {
            return answers;
        }
        // Too little all together: wait for the first change since that was read, then read all of it again.
        drop(answers);
        let unchanged = |owner: &ShardId| FetchPart { owner: *owner, forgotten: Vec::new(), targets: Vec::new() };
        let ask = Ask { scope: Scope::Again, patience: Patience::Change, ..ask };
        answers = first_news(node, owners.iter().map(unchanged).collect(), ask).await;
    }
}

/// Waits until an owner has what is asked for, or an error, or time is up; then all owners answer with what they have.
async fn first_news(node: &Rc<Node>, parts: Vec<FetchPart>, ask: Ask) -> Vec<Vec<Fetched<Slice>>> {
    let mut round = Round::start(node, parts, ask).await;
    round.first().await;
    round.call_off().await;
    round.answers().await
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
    async fn start(node: &'n Rc<Node>, parts: Vec<FetchPart>, mut ask: Ask) -> Self {
        let id = node.next_fetch_id();
        let may_wait = ask.patience != Patience::None;
        let mut round = Self { node, id, may_wait, asked: Vec::with_capacity(parts.len()) };
        let task = |part: FetchPart, ask: Ask| {
            let (FetchPart { forgotten, targets, .. }, Ask { reader, scope, max_bytes, patience, deadline }) =
                (part, ask);
            FetchTask { id, reader, forgotten, targets, scope, max_bytes, patience, deadline }
        };
        let own = node.shard.id();
        let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
        // One's own first: where they have something the others need not wait.
        let own_part = parts.iter_mut().find_map(|part| part.take_if(|part| part.owner == own));
        let mut here = own_part.map(|part| round.ask_here(task(part, ask)));
        if let Some(asked) = &mut here
            && round.may_wait
            && poll_fn(|context| Poll::Ready(asked.is_ready(context))).await
        {
            ask.patience = Patience::None;
            round.may_wait = false;
        }
        for part in parts {
            let (owner, asked) = match part {
                Some(part) => (part.owner, round.ask_there(part.owner, task(part, ask)).await),
                None => (own, here.take().expect("one part is this shard's")),
            };
            round.asked.push((owner, asked));
        }
        round
    }

    fn ask_here(&self, task: FetchTask) -> Asked {
        let node = self.node.clone();
        let (waiting, reader) = (node.fetch_cancels.register(task.id), node.readers.of(&task));
        Asked::Waiting(Box::pin(async move { partition::fetch(&node, &reader, task, &waiting).await }))
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
