//! A member of a group: reads what it is given, holds it against what producers were told, commits now and then.
//!
//! Owner: the thread of its group. Life cycle: [`Member::start`]; it goes by [`Member::leave`], which commits and takes leave, or by
//! [`Member::cut`], which is the end of it as a crash would be: its connections are cut, and nobody is told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::time::Duration;

use base::{Instant, Offset, PartitionIndex};
use client::{Client, Error, Fetched, GroupConsumer, GroupError, GroupEvent, GroupOptions, Happened};
use shard::sync::either;
use shard::{Class, Task};
use wire::ErrorCode;

use super::consuming::{self, pass_over, take_in};
use super::grouping::Group;
use super::setup::client;
use crate::verify::Owner;

/// What a coordinator says to who is in a generation that is over.
const OF_ANOTHER_GENERATION: [ErrorCode; 5] = [
    ErrorCode::IllegalGeneration,
    ErrorCode::RebalanceInProgress,
    ErrorCode::UnknownMemberId,
    ErrorCode::StaleMemberEpoch,
    ErrorCode::FencedMemberEpoch,
];

/// A partition of a member's.
#[derive(Clone, Copy)]
struct Held {
    owner: Owner,
    /// What comes after the last record that was delivered.
    next: i64,
    /// Up to where it is committed, or where it began.
    committed: i64,
}

/// A member at work.
pub struct Member {
    group: Rc<Group>,
    /// By which it is told apart from others that had its partitions.
    identity: u64,
    consumer: GroupConsumer,
    _client: Client,
    held: RefCell<HashMap<u32, Held>>,
    /// Since when it waits for its share.
    gathering: Cell<Option<Instant>>,
    has_joined: Cell<bool>,
    tasks: RefCell<Vec<Task<()>>>,
}

impl Member {
    /// Starts one in a slot of its group; it joins in the background.
    pub fn start(group: &Rc<Group>, slot: u32, identity: u64) -> Rc<Self> {
        let (local, keys) = (group.local(), group.keys());
        let setup = &local.setup;
        let client = client(&local.shard, &setup.bootstrap);
        let topics = setup.topics.iter().map(ToString::to_string).collect();
        let options = GroupOptions {
            protocol: keys.kind.0,
            instance: keys.static_members.then(|| format!("member-{slot}")),
            session: keys.session,
            heartbeat: keys.heartbeat,
            events: true,
            consumer: consuming::options(setup),
            ..GroupOptions::new(group.name().to_owned(), topics)
        };
        let member = Rc::new(Self {
            group: group.clone(),
            identity,
            consumer: GroupConsumer::join(&client, options),
            _client: client,
            held: RefCell::default(),
            gathering: Cell::new(None),
            has_joined: Cell::new(false),
            tasks: RefCell::default(),
        });
        // Members take turns, so that their commits do not come all at once.
        let first = keys.commit_interval.mul_f64(f64::from(slot + 1) / f64::from(keys.members));
        let account = local.shard.account("member");
        let reading = local.shard.spawn(Class::Latency, account.clone(), member.clone().read());
        let committing = local.shard.spawn(Class::Latency, account, member.clone().commit_for_ever(first));
        member.tasks.borrow_mut().extend([reading, committing]);
        member
    }

    /// How many partitions it has; `None` while the group gathers.
    pub fn share(&self) -> Option<usize> {
        self.consumer.assigned().map(|assigned| assigned.len())
    }

    /// Why it is in the group no longer, if it is not.
    pub fn ended(&self) -> Option<Error> {
        self.consumer.ended()
    }

    async fn read(self: Rc<Self>) {
        loop {
            let changed = self.consumer.changed();
            self.absorb();
            let mut next = None;
            either(async { next = Some(self.consumer.next().await) }, changed).await;
            // What it was given comes before the first record of it.
            self.absorb();
            match next {
                None => {}
                Some(Ok(fetched)) => self.take_in(&fetched),
                Some(Err(GroupError::Partition(error))) => {
                    let member = Rc::downgrade(&self);
                    let go_on = move |topic: &str, partition, offset| seek(&member, topic, partition, offset);
                    pass_over(self.group.local(), self.group.judge(), error, go_on).await;
                }
                Some(Err(error @ GroupError::Membership(_))) => {
                    self.group.local().failed(0, format!("a member: {error}"));
                    return;
                }
            }
        }
    }

    /// Takes in what happened to it.
    fn absorb(&self) {
        for GroupEvent { at, happened } in self.consumer.take_events() {
            match happened {
                Happened::Gathering => self.gathering.set(Some(at)),
                Happened::Settled { generation } => {
                    let is_first = !self.has_joined.replace(true);
                    let took = self.gathering.take().map(|since| at.since(since));
                    self.group.settled(generation, is_first, took.unwrap_or_default());
                }
                Happened::Gained { topic, partition, from } => self.gain(&topic, partition, from),
                Happened::Lost { topic, partition } => self.lose(&topic, partition),
            }
        }
    }

    fn gain(&self, topic: &str, partition: PartitionIndex, Offset(from): Offset) {
        if let Some(number) = self.group.local().setup.find(topic, partition) {
            let owner = self.group.gained(number, self.identity, from);
            self.held.borrow_mut().insert(number, Held { owner, next: from, committed: from });
        }
    }

    fn lose(&self, topic: &str, partition: PartitionIndex) {
        let local = self.group.local();
        let held = local.setup.find(topic, partition).and_then(|number| self.held.borrow_mut().remove(&number));
        if let Some(held) = held {
            local.judges.borrow_mut()[self.group.judge()].disowned(held.owner);
        }
    }

    fn take_in(&self, fetched: &Fetched) {
        let local = self.group.local();
        let Some(number) = local.setup.find(&fetched.topic, fetched.partition) else { return };
        let owner = self.held.borrow_mut().get_mut(&number).map(|held| {
            held.next = fetched.next_offset.0;
            held.owner
        });
        if owner.is_some() {
            take_in(local, self.group.judge(), (number, owner), fetched);
        }
    }

    async fn commit_for_ever(self: Rc<Self>, first: Duration) {
        let shard = &self.group.local().shard;
        let mut at = shard.now() + first;
        loop {
            shard.sleep_until(at).await;
            self.commit().await;
            at = shard.now().max(at + self.group.keys().commit_interval);
        }
    }

    /// Commits what was delivered since the last time.
    async fn commit(&self) {
        self.absorb();
        let (local, setup) = (self.group.local(), &self.group.local().setup);
        let held: Vec<(u32, Held)> = self.held.borrow().iter().map(|(number, held)| (*number, *held)).collect();
        let read: Vec<(u32, Held)> = held.into_iter().filter(|(_, held)| held.next > held.committed).collect();
        if read.is_empty() {
            return;
        }
        let place = |(number, held): &(u32, Held)| {
            let (topic, partition) = setup.place(*number);
            ((topic.to_string(), partition), Offset(held.next))
        };
        let offsets: BTreeMap<_, _> = read.iter().map(place).collect();
        let (began, began_ns) = (local.shard.now(), local.now_ns());
        if let Err(error) = self.consumer.commit_to(&offsets).await {
            local.members.borrow_mut().commits_failed += 1;
            // Others have the partitions by now, as happens.
            if !error.code().is_some_and(|code| OF_ANOTHER_GENERATION.contains(&code)) {
                local.failed(0, format!("a commit: {error}"));
            }
            return;
        }
        let took_ns = local.shard.now().since(began).as_nanos() as u64;
        local.members.borrow_mut().committed(&local.window, began_ns + took_ns, took_ns);
        let mut judges = local.judges.borrow_mut();
        for (number, Held { owner, next, .. }) in read {
            judges[self.group.judge()].committed(number, owner, next);
            if let Some(held) = self.held.borrow_mut().get_mut(&number).filter(|held| held.owner == owner) {
                held.committed = next;
            }
        }
    }

    /// Reads no more, commits, and takes leave. A static member is expected back.
    pub async fn leave(&self) {
        self.stop();
        self.commit().await;
        if let Err(error) = self.consumer.leave().await {
            self.group.local().failed(0, format!("a member that leaves: {error}"));
        }
        self.disown();
    }

    /// Ends it without a word; its connections are cut when the last handle goes.
    pub fn cut(&self) {
        self.stop();
        self.disown();
    }

    fn stop(&self) {
        self.tasks.take().into_iter().for_each(Task::cancel);
    }

    fn disown(&self) {
        let mut judges = self.group.local().judges.borrow_mut();
        self.held.take().into_values().for_each(|held| judges[self.group.judge()].disowned(held.owner));
    }
}

/// Has a member go on reading a partition.
fn seek(member: &Weak<Member>, topic: &str, partition: PartitionIndex, offset: Option<Offset>) {
    let Some(member) = member.upgrade() else { return };
    let number = member.group.local().setup.find(topic, partition);
    let at = number.and_then(|number| member.held.borrow().get(&number).map(|held| Offset(held.next)));
    if let Some(offset) = offset.or(at) {
        member.consumer.seek(topic, partition, offset);
    }
}
