//! A member of a consumer group: partitions come and go with the group's generations, and what was read is committed by the reader's word.
//!
//! Owner: the shard of its client. Life cycle: [`GroupConsumer::join`] starts a task that keeps the membership; it leaves the group with
//! [`GroupConsumer::leave`], or is taken for dead once its session is over.
//!
//! Invariants
//! - Nothing is committed that the reader has not said that it is done with ([`GroupConsumer::commit`]): each record is read at least once.
//! - While the group gathers its members, and from a partition that is another's, nothing is handed out.

mod assign;
mod membership;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Offset, PartitionIndex};
use shard::Task;
use shard::sync::Event;

use crate::{Client, ConsumeError, Consumer, ConsumerOptions, Error, Fetched, Lane, OutOfRange};

/// How a member behaves.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    pub group: String,
    pub topics: Vec<String>,
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
    pub consumer: ConsumerOptions,
}

impl GroupOptions {
    /// The defaults of Kafka's consumers, but that what was not read yet is read from its beginning.
    #[must_use]
    pub fn new(group: String, topics: Vec<String>) -> Self {
        Self {
            group,
            topics,
            instance: None,
            session: Duration::from_secs(45),
            rebalance: Duration::from_secs(300),
            heartbeat: Duration::from_secs(3),
            begin: OutOfRange::Beginning,
            consumer: ConsumerOptions::default(),
        }
    }
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

/// A member. Dropping it ends it without a word; its partitions are shared out once its session is over.
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
    /// The partitions of this generation, and up to where each is committed.
    assigned: RefCell<BTreeMap<Place, Offset>>,
    /// A generation is under way: what is read is this member's.
    is_settled: Cell<bool>,
    /// Where the coordinator was found.
    coordinator: Cell<Option<BrokerId>>,
    /// Why there is no way back.
    ended: RefCell<Option<Error>>,
    is_leaving: Cell<bool>,
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
            assigned: RefCell::default(),
            is_settled: Cell::new(false),
            coordinator: Cell::new(None),
            ended: RefCell::default(),
            is_leaving: Cell::new(false),
            changed: Event::new(),
        });
        let class = client.options().connection.class;
        let membership = client.shard().spawn(class, client.account(), membership::keep(inner.clone()));
        Self { inner, membership: Some(membership).into() }
    }

    /// The partitions that are this member's now; `None` while the group gathers its members.
    #[must_use]
    pub fn assigned(&self) -> Option<Vec<(String, PartitionIndex)>> {
        self.inner.is_settled.get().then(|| self.inner.assigned.borrow().keys().cloned().collect())
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

    /// Leaves the group, so that others have its partitions at once.
    ///
    /// # Errors
    /// The coordinator could not be told.
    pub async fn leave(self) -> Result<(), Error> {
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

impl Inner {
    fn owns(&self, topic: &str, partition: PartitionIndex) -> bool {
        self.assigned.borrow().contains_key(&(topic.to_owned(), partition))
    }
}
