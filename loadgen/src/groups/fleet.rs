//! Members of all groups, and what is done with them.
//!
//! Owner: the one thread. Each member has a watch, a task that notes what happens to it; a step waits until a group is whole.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Offset, PartitionIndex};
use client::{Client, GroupConsumer, GroupOptions, Happened};
use shard::sync::Event;
use shard::{Class, Task};

use super::{GroupsPlan, Restart};
use crate::report::{GroupHistograms, Latency, new_histogram};
use crate::run::{RunError, failed};

/// What watches note, of all members.
#[derive(Default)]
struct Board {
    histograms: RefCell<GroupHistograms>,
    /// When a member was last told to gather, by group.
    told: RefCell<Vec<Option<Instant>>>,
    /// Times that members were told to gather, and partitions that they lost or were given.
    gathered: Cell<u64>,
    moved: Cell<u64>,
    changed: Event,
}

struct Member {
    consumer: Rc<GroupConsumer>,
    watch: Task<()>,
}

impl Member {
    /// Ends it without a word, unless it has taken leave.
    fn end(self) {
        self.watch.cancel();
    }
}

/// How long a group took to be whole again.
pub struct Took {
    pub whole: Duration,
    /// Since the last of its members was told to gather; `None` where none was.
    pub gathered: Option<Duration>,
}

/// Commits of all members.
pub struct Commits {
    pub count: u64,
    /// Partitions in them.
    pub offsets: u64,
    pub failed: u64,
    pub elapsed: Duration,
}

/// The members of all groups.
pub struct Fleet {
    client: Client,
    plan: GroupsPlan,
    /// Told apart from those of earlier runs, of which members may be left.
    prefix: String,
    board: Rc<Board>,
    groups: Vec<Vec<Member>>,
}

type Share = BTreeSet<(String, PartitionIndex)>;

impl Fleet {
    pub fn new(client: &Client, plan: &GroupsPlan) -> Self {
        let board = Board { told: RefCell::new(vec![None; plan.groups as usize]), ..Board::default() };
        let prefix = format!("{}-{:08x}", plan.topic, client.shard().random() as u32);
        let groups = (0..plan.groups).map(|_| Vec::new()).collect();
        Self { client: client.clone(), plan: plan.clone(), prefix, board: Rc::new(board), groups }
    }

    fn name(&self, group: usize) -> String {
        format!("{}-{group}", self.prefix)
    }

    fn start(&self, group: usize, slot: usize) -> Member {
        let (plan, name) = (&self.plan, self.name(group));
        let options = GroupOptions {
            protocol: plan.kind.0,
            instance: plan.rolling_restart.then(|| format!("member-{slot}")),
            session: plan.session,
            heartbeat: plan.heartbeat,
            reads: false,
            events: true,
            ..GroupOptions::new(name, vec![plan.topic.clone()])
        };
        let consumer = Rc::new(GroupConsumer::join(&self.client, options));
        let shard = self.client.shard();
        let watching = watch(consumer.clone(), self.board.clone(), group);
        Member { consumer, watch: shard.spawn(Class::Normal, shard.account("watch"), watching) }
    }

    /// All members join at once. Returns how long it took until all groups were whole.
    pub async fn join(&mut self) -> Result<Duration, RunError> {
        // The first group of all makes the broker create the topic of offsets: that is not measured.
        let (client, first) = (&self.client, self.name(0));
        let found = client.retrying(client.deadline(), async || client.coordinator_of(&first).await).await;
        found.map_err(failed("the coordinator"))?;
        let began = self.client.shard().now();
        for group in 0..self.groups.len() {
            let members = (0..self.plan.members as usize).map(|slot| self.start(group, slot)).collect();
            self.groups[group] = members;
        }
        for group in 0..self.groups.len() {
            self.whole(group, -1).await?;
        }
        Ok(self.client.shard().now().since(began))
    }

    /// One more member comes.
    pub async fn comes(&mut self, group: u32) -> Result<Took, RunError> {
        let group = group as usize;
        let (began, generation) = self.begin(group);
        let newcomer = self.start(group, self.groups[group].len());
        self.groups[group].push(newcomer);
        self.took(group, began, generation).await
    }

    /// The newest member goes. A static one is not expected to: its name is taken from it when its session is over.
    pub async fn goes(&mut self, group: u32) -> Result<Took, RunError> {
        let group = group as usize;
        let (began, generation) = self.begin(group);
        let Some(member) = self.groups[group].pop() else { return Ok(Took { whole: Duration::ZERO, gathered: None }) };
        member.consumer.leave().await.map_err(|error| RunError(format!("a member that leaves: {error}")))?;
        member.end();
        self.took(group, began, generation).await
    }

    fn begin(&self, group: usize) -> (Instant, i32) {
        self.board.told.borrow_mut()[group] = None;
        let generation = self.groups[group].iter().map(|member| member.consumer.generation()).max();
        (self.client.shard().now(), generation.unwrap_or(-1))
    }

    async fn took(&self, group: usize, began: Instant, generation: i32) -> Result<Took, RunError> {
        self.whole(group, generation).await?;
        let now = self.client.shard().now();
        let told = self.board.told.borrow()[group];
        Ok(Took { whole: now.since(began), gathered: told.map(|told| now.since(told)) })
    }

    /// Waits until a group is whole in a generation after this one.
    async fn whole(&self, group: usize, after: i32) -> Result<(), RunError> {
        let limit = self.client.shard().now() + self.plan.limit;
        loop {
            let changed = self.board.changed.wait();
            if self.is_whole(group, after)? {
                return Ok(());
            }
            if self.client.shard().until(limit, changed).await.is_none() {
                let limit = self.plan.limit;
                return Err(RunError(format!("group {group} has not shared its partitions out within {limit:?}")));
            }
        }
    }

    fn is_whole(&self, group: usize, after: i32) -> Result<bool, RunError> {
        let members = &self.groups[group];
        let Some(first) = members.first() else { return Ok(true) };
        let generation = first.consumer.generation();
        let mut all = Share::new();
        for member in members {
            if let Some(error) = member.consumer.ended() {
                return Err(RunError(format!("a member of group {group}: {error}")));
            }
            if member.consumer.generation() != generation || generation <= after {
                return Ok(false);
            }
            let Some(share) = member.consumer.assigned() else { return Ok(false) };
            let (before, count) = (all.len(), share.len());
            all.extend(share);
            if all.len() != before + count {
                return Ok(false);
            }
        }
        Ok(all.len() == self.plan.partitions as usize)
    }

    /// All members commit all that they have, again and again, each as soon as it is answered.
    pub async fn commit(&self) -> Result<Commits, RunError> {
        let shard = self.client.shard();
        let (began, until) = (shard.now(), shard.now() + self.plan.commit_for);
        let counts: Rc<[Cell<u64>; 3]> = Rc::default();
        let committing = self.groups.iter().flatten().map(|member| {
            let task = commit_until(member.consumer.clone(), self.board.clone(), counts.clone(), until);
            shard.spawn(Class::Latency, shard.account("commit"), task)
        });
        for task in committing.collect::<Vec<_>>() {
            task.await;
        }
        let [count, offsets, failed] = [0, 1, 2].map(|place: usize| counts[place].get());
        Ok(Commits { count, offsets, failed, elapsed: shard.now().since(began) })
    }

    /// Restarts one static member after another.
    pub async fn restart(&mut self) -> Result<Restart, RunError> {
        let began = self.client.shard().now();
        let (mut restart, mut back) = (Restart::default(), new_histogram());
        for group in 0..self.groups.len() {
            for slot in 0..self.groups[group].len() {
                let took = self.restart_one(group, slot, &mut restart).await?;
                back.record(took.as_nanos() as u64).expect("it grows");
            }
        }
        // What members learn of it they learn with a heartbeat.
        self.client.shard().sleep(self.plan.heartbeat + self.plan.heartbeat / 2).await;
        for group in 0..self.groups.len() {
            self.whole(group, -1).await?;
        }
        restart.members_disturbed += self.board.gathered.get();
        restart.partitions_moved += self.board.moved.get();
        restart.elapsed_s = self.client.shard().now().since(began).as_secs_f64();
        restart.back = Latency::of(&back);
        Ok(restart)
    }

    async fn restart_one(&mut self, group: usize, slot: usize, restart: &mut Restart) -> Result<Duration, RunError> {
        let began = self.client.shard().now();
        let share = |member: &Member| -> Share { member.consumer.assigned().into_iter().flatten().collect() };
        let had = share(&self.groups[group][slot]);
        if restart.members == 0 {
            self.board.gathered.set(0);
            self.board.moved.set(0);
        }
        let member = &self.groups[group][slot];
        member.consumer.leave().await.map_err(|error| RunError(format!("a member that stops: {error}")))?;
        let again = self.start(group, slot);
        std::mem::replace(&mut self.groups[group][slot], again).end();
        self.whole(group, -1).await?;
        let has = share(&self.groups[group][slot]);
        restart.partitions_moved += had.symmetric_difference(&has).count() as u64;
        restart.members += 1;
        Ok(self.client.shard().now().since(began))
    }

    /// All leave. Returns what was measured of them.
    pub async fn end(self) -> GroupHistograms {
        for member in self.groups.into_iter().flatten() {
            // Whoever can't say that it leaves is forgotten after its session.
            let _ = member.consumer.leave().await;
            member.end();
        }
        self.board.histograms.take()
    }
}

/// Notes what happens to a member, for ever.
async fn watch(consumer: Rc<GroupConsumer>, board: Rc<Board>, group: usize) {
    let (mut since, mut has_joined) = (None, false);
    loop {
        let changed = consumer.changed();
        for event in consumer.take_events() {
            match event.happened {
                Happened::Gathering => {
                    since = Some(event.at);
                    if has_joined {
                        board.told.borrow_mut()[group] = Some(event.at);
                        board.gathered.set(board.gathered.get() + 1);
                    }
                }
                Happened::Settled { .. } => {
                    let took = since.take().map_or(Duration::ZERO, |since| event.at.since(since));
                    let mut histograms = board.histograms.borrow_mut();
                    let histogram = if has_joined { &mut histograms.rebalance } else { &mut histograms.join };
                    histogram.record(took.as_nanos() as u64).expect("it grows");
                    has_joined = true;
                }
                // What it was given first is its share.
                Happened::Gained { .. } | Happened::Lost { .. } => {
                    board.moved.set(board.moved.get() + u64::from(has_joined));
                }
            }
        }
        board.changed.notify_all();
        changed.await;
    }
}

/// Commits one offset more of each partition, as often as it is answered. Counts commits, partitions and failures.
async fn commit_until(consumer: Rc<GroupConsumer>, board: Rc<Board>, counts: Rc<[Cell<u64>; 3]>, until: Instant) {
    let add = |place: usize, count: u64| counts[place].set(counts[place].get() + count);
    let mut offsets: BTreeMap<(String, PartitionIndex), Offset> = consumer.committed();
    let shard = consumer.client().shard().clone();
    while shard.now() < until && !offsets.is_empty() {
        offsets.values_mut().for_each(|offset| offset.0 += 1);
        let began = shard.now();
        match consumer.commit_to(&offsets).await {
            Ok(()) => {
                let took = shard.now().since(began).as_nanos() as u64;
                board.histograms.borrow_mut().commit.record(took).expect("it grows");
                add(0, 1);
                add(1, offsets.len() as u64);
            }
            Err(_) => {
                add(2, 1);
                shard.sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
