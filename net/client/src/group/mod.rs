//! A member of a consumer group: partitions come and go with the group's generations, and what was read is committed by the reader's word.
//!
//! Owner: the shard of its client. Life cycle: [`GroupConsumer::join`] starts a task that keeps the membership; it leaves the group with
//! [`GroupConsumer::leave`], or is taken for dead once its session is over.
//!
//! Invariants
//! - Nothing is committed that the reader has not said that it is done with ([`GroupConsumer::commit`]): each record is read at least once.
//! - While the group gathers its members, and from a partition that is another's, nothing is handed out.

mod assign;
mod epochs;
mod membership;
mod share;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Instant, Offset, PartitionIndex};
use shard::Task;
use shard::sync::Event;

use crate::{Client, ConsumeError, Consumer, ConsumerOptions, Error, Fetched, Lane, OutOfRange};

/// Who shares the partitions out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupProtocol {
    /// One of the members, by the range assignor.
    #[default]
    Classic,
    /// The coordinator (KIP-848), which also says how often a member gives a sign of life and when it is taken for dead.
    Consumer,
}

/// How a member behaves.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    pub group: String,
    pub topics: Vec<String>,
    pub protocol: GroupProtocol,
    /// The name of a static member (KIP-345): it keeps its partitions over a restart within its session.
    pub instance: Option<String>,
    /// How long the coordinator waits for a sign of life.
    pub session: Duration,
    /// How long it waits for the member to join again.
    pub rebalance: Duration,
    /// Between two signs of life.
    pub heartbeat: Duration,
    /// Where to begin in a partition that the group has not read, or whose offset the log does not hold any more.
    pub begin: OutOfRange,
    /// Whether it reads what it has; without, it has its partitions and commits, and [`GroupConsumer::next`] waits for ever.
    pub reads: bool,
    /// Whether it keeps what happens to it for [`GroupConsumer::take_events`], which has to be called then.
    pub events: bool,
    pub consumer: ConsumerOptions,
}

impl GroupOptions {
    /// The defaults of Kafka's consumers, but that what was not read yet is read from its beginning.
    #[must_use]
    pub fn new(group: String, topics: Vec<String>) -> Self {
        Self {
            group,
            topics,
            protocol: GroupProtocol::default(),
            instance: None,
            session: Duration::from_secs(45),
            rebalance: Duration::from_secs(300),
            heartbeat: Duration::from_secs(3),
            begin: OutOfRange::Beginning,
            reads: true,
            events: false,
            consumer: ConsumerOptions::default(),
        }
    }
}

/// Something that happened to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupEvent {
    pub at: Instant,
    pub happened: Happened,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    /// It joins, or joins again: nothing is handed out until it is settled.
    Gathering,
    /// A partition is read from here on.
    Gained { topic: String, partition: PartitionIndex, from: Offset },
    /// A partition is read no longer.
    Lost { topic: String, partition: PartitionIndex },
    /// A generation (with KIP-848: a member's epoch) is under way.
    Settled { generation: i32 },
}

/// Why a member gets nothing more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// A partition can't be read any further; the others can.
    Partition(ConsumeError),
    /// It is in the group no longer, and will not come back.
    Membership(Error),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(error) => error.fmt(f),
            Self::Membership(error) => write!(f, "not in the group any more: {error}"),
        }
    }
}

impl std::error::Error for GroupError {}

/// A member. Dropping it ends it without a word and cuts its connection; its partitions are shared out once its session is over.
pub struct GroupConsumer {
    inner: Rc<Inner>,
    membership: RefCell<Option<Task<()>>>,
}

type Place = (String, PartitionIndex);

struct Inner {
    client: Client,
    lane: Lane,
    options: GroupOptions,
    consumer: Consumer,
    /// Empty until the coordinator has given one.
    member_id: RefCell<String>,
    /// −1 before the first.
    generation: Cell<i32>,
    /// The generation in which it was given what it has: a member that joins is told of the next one before it is given its share of it.
    assigned_in: Cell<i32>,
    /// The partitions of this generation, and up to where each is committed.
    assigned: RefCell<BTreeMap<Place, Offset>>,
    /// A generation is under way: what is read is this member's.
    is_settled: Cell<bool>,
    /// Where the coordinator was found.
    coordinator: Cell<Option<BrokerId>>,
    /// Why there is no way back.
    ended: RefCell<Option<Error>>,
    is_leaving: Cell<bool>,
    /// What happened, and is not taken yet.
    events: RefCell<VecDeque<GroupEvent>>,
    /// Something of the above.
    changed: Event,
}

impl GroupConsumer {
    /// Starts a member; it joins in the background.
    #[must_use]
    pub fn join(client: &Client, options: GroupOptions) -> Self {
        let consumer = ConsumerOptions { out_of_range: options.begin, ..options.consumer.clone() };
        let inner = Rc::new(Inner {
            client: client.clone(),
            lane: client.new_lane(),
            consumer: Consumer::new(client, consumer),
            options,
            member_id: RefCell::default(),
            generation: Cell::new(-1),
            assigned_in: Cell::new(-1),
            assigned: RefCell::default(),
            is_settled: Cell::new(false),
            coordinator: Cell::new(None),
            ended: RefCell::default(),
            is_leaving: Cell::new(false),
            events: RefCell::default(),
            changed: Event::new(),
        });
        inner.tell(Happened::Gathering);
        let class = client.options().connection.class;
        let membership = client.shard().spawn(class, client.account(), membership::keep(inner.clone()));
        Self { inner, membership: Some(membership).into() }
    }

    /// The client that it was made with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The partitions that are this member's now; `None` while the group gathers its members.
    #[must_use]
    pub fn assigned(&self) -> Option<Vec<(String, PartitionIndex)>> {
        self.inner.is_settled.get().then(|| self.inner.assigned.borrow().keys().cloned().collect())
    }

    /// The generation that it is in (with KIP-848: its epoch); −1 before the first.
    #[must_use]
    pub fn generation(&self) -> i32 {
        self.inner.generation.get()
    }

    /// What has happened since the last call, in its order, where [`GroupOptions::events`] are kept.
    #[must_use]
    pub fn take_events(&self) -> VecDeque<GroupEvent> {
        self.inner.events.take()
    }

    /// Why it is in the group no longer, if it is not.
    #[must_use]
    pub fn ended(&self) -> Option<Error> {
        self.inner.ended.borrow().clone()
    }

    /// Goes on reading a partition of this member's at another offset: behind what can't be read, say.
    pub fn seek(&self, topic: &str, partition: PartitionIndex, offset: Offset) {
        if self.inner.owns(topic, partition) {
            self.inner.consumer.assign_at(topic, partition, offset);
        }
    }

    /// Up to where each partition of this member's is committed, or where it begins.
    #[must_use]
    pub fn committed(&self) -> BTreeMap<(String, PartitionIndex), Offset> {
        self.inner.assigned.borrow().clone()
    }

    /// Resolves at the next change of the assignment, or of the membership.
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        self.inner.changed.wait()
    }

    /// The next batch of some partition of this member's; waits for one. Loses nothing when the future is dropped.
    ///
    /// # Errors
    /// A partition can't be read any further, or the member is in the group no longer.
    pub async fn next(&self) -> Result<Fetched, GroupError> {
        let inner = &self.inner;
        loop {
            if let Some(error) = &*inner.ended.borrow() {
                return Err(GroupError::Membership(error.clone()));
            }
            let changed = inner.changed.wait();
            if !inner.is_settled.get() {
                changed.await;
                continue;
            }
            let mut next = None;
            shard::sync::either(async { next = Some(inner.consumer.next().await) }, changed).await;
            match next {
                // It may have been on its way when the partition went.
                Some(Ok(fetched)) if !inner.owns(&fetched.topic, fetched.partition) => {}
                Some(next) => return next.map_err(GroupError::Partition),
                None => {}
            }
        }
    }

    /// Commits up to what was handed out last: the reader is done with it.
    ///
    /// # Errors
    /// The coordinator's refusal: of another generation by now, say, whose members read it again.
    pub async fn commit(&self) -> Result<(), Error> {
        self.inner.commit(|topic, partition| self.inner.consumer.position(topic, partition)).await
    }

    /// Commits up to these offsets, the next that are to be read: the reader is done with what lies before. Partitions that are not this member's
    /// are left out.
    ///
    /// # Errors
    /// As [`GroupConsumer::commit`].
    pub async fn commit_to(&self, offsets: &BTreeMap<(String, PartitionIndex), Offset>) -> Result<(), Error> {
        self.inner.commit(|topic, partition| offsets.get(&(topic.to_owned(), partition)).copied()).await
    }

    /// Leaves the group, so that others have its partitions at once. A static member is expected back: its partitions stay its own until its
    /// session is over.
    ///
    /// # Errors
    /// The coordinator could not be told.
    pub async fn leave(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        inner.is_leaving.set(true);
        inner.changed.notify_all();
        let membership = self.membership.take();
        if let Some(membership) = membership {
            membership.cancel();
        }
        inner.tell_leave().await
    }
}

impl Drop for GroupConsumer {
    fn drop(&mut self) {
        if let Some(membership) = self.membership.take() {
            membership.cancel();
        }
        self.inner.client.close_lane(self.inner.lane);
    }
}

impl Inner {
    fn tell(&self, happened: Happened) {
        if self.options.events {
            self.events.borrow_mut().push_back(GroupEvent { at: self.client.shard().now(), happened });
        }
    }

    fn owns(&self, topic: &str, partition: PartitionIndex) -> bool {
        self.assigned.borrow().contains_key(&(topic.to_owned(), partition))
    }
}
