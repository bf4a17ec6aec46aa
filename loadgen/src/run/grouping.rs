//! A group of a run: its members, and those that come and go while it reads.
//!
//! Owner: the thread that the group's number says. A slot is the place of a member: when one goes, another comes in its slot.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use shard::sync::{Event, either};
use shard::{Class, Task};

use super::local::Local;
use super::member::Member;
use crate::membership::Holders;
use crate::verify::Owner;
use crate::workload::{Churn, Groups};

/// How long its members may take until each has its share, at the beginning.
const WHOLE_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks whether they have.
const LOOK: Duration = Duration::from_millis(20);

/// A group at work.
pub struct Group {
    local: Rc<Local>,
    /// Its place among the judges of the thread.
    judge: usize,
    number: u32,
    name: String,
    slots: RefCell<Vec<Option<Rc<Member>>>>,
    /// Members that were ever started.
    started: Cell<u64>,
    holders: RefCell<Holders>,
    /// The run has begun: what members did to gather for the first time is no rebalance.
    has_begun: Cell<bool>,
    is_over: Cell<bool>,
    over: Event,
    churning: RefCell<Option<Task<()>>>,
}

impl Group {
    /// Starts its members.
    pub fn start(local: &Rc<Local>, judge: usize, number: u32) -> Rc<Self> {
        let keys = local.setup.workload.groups.as_ref().expect("there are groups");
        let group = Rc::new(Self {
            local: local.clone(),
            judge,
            number,
            name: keys.group_name(number),
            slots: RefCell::new((0..keys.members).map(|_| None).collect()),
            started: Cell::new(0),
            holders: RefCell::default(),
            has_begun: Cell::new(false),
            is_over: Cell::new(false),
            over: Event::new(),
            churning: RefCell::default(),
        });
        (0..keys.members).for_each(|slot| group.fill(slot));
        group
    }

    pub fn local(&self) -> &Rc<Local> {
        &self.local
    }

    pub fn keys(&self) -> &Groups {
        self.local.setup.workload.groups.as_ref().expect("there are groups")
    }

    pub fn judge(&self) -> usize {
        self.judge
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A static member is the same one in each of its lives.
    fn fill(self: &Rc<Self>, slot: u32) {
        let started = self.started.replace(self.started.get() + 1);
        let identity = if self.keys().static_members { u64::from(slot) } else { started };
        let member = Member::start(self, slot, identity);
        self.slots.borrow_mut()[slot as usize] = Some(member);
    }

    fn members(&self) -> Vec<Rc<Member>> {
        self.slots.borrow().iter().flatten().cloned().collect()
    }

    /// Waits until each of its members has its share.
    ///
    /// # Errors
    /// It takes too long, or a member is refused.
    pub async fn whole(&self) -> Result<(), String> {
        let limit = self.local.shard.now() + WHOLE_WITHIN;
        loop {
            let members = self.members();
            if let Some(error) = members.iter().find_map(|member| member.ended()) {
                return Err(format!("a member of group {}: {error}", self.name));
            }
            let shares: Option<Vec<usize>> = members.iter().map(|member| member.share()).collect();
            if shares.is_some_and(|shares| shares.iter().sum::<usize>() == self.local.setup.bounds.len()) {
                // Its members note it.
                self.local.shard.sleep(LOOK).await;
                return Ok(());
            }
            if self.local.shard.now() >= limit {
                return Err(format!("group {} has not shared its partitions out within {WHOLE_WITHIN:?}", self.name));
            }
            self.local.shard.sleep(LOOK).await;
        }
    }

    /// A member is settled in a generation.
    pub fn settled(&self, generation: i32, is_first: bool, took: Duration) {
        let mut tally = self.local.members.borrow_mut();
        let is_rebalance = self.holders.borrow_mut().settled(generation) && self.has_begun.get();
        if is_first || self.has_begun.get() {
            tally.settled(is_first, took);
        }
        tally.rebalances += u64::from(is_rebalance);
    }

    /// A member has a partition from here on.
    pub fn gained(&self, partition: u32, member: u64, from: i64) -> Owner {
        let moved = self.holders.borrow_mut().gained(partition, member) && self.has_begun.get();
        self.local.members.borrow_mut().partitions_moved += u64::from(moved);
        self.local.judges.borrow_mut()[self.judge].owned(partition, from)
    }

    /// The run begins: has members come and go, if they are to.
    pub fn begin(self: &Rc<Self>) {
        self.has_begun.set(true);
        if self.keys().churn.is_some() {
            let account = self.local.shard.account("churn");
            let task = self.local.shard.spawn(Class::Normal, account, self.clone().churn());
            *self.churning.borrow_mut() = Some(task);
        }
    }

    async fn churn(self: Rc<Self>) {
        let keys = self.keys();
        let Some(shape) = &keys.churn else { return };
        // Groups take turns.
        let interval = keys.churn_interval;
        let phase = interval.mul_f64(f64::from(self.number) / f64::from(keys.count));
        self.local.shard.sleep_until(self.local.begin.get() + phase).await;
        for turn in 0.. {
            self.pause(interval).await;
            if self.is_over.get() {
                return;
            }
            let slot = turn % keys.members as usize;
            self.empty(slot, shape.of_turn(turn)).await;
            self.pause(keys.churn_away).await;
            self.fill(slot as u32);
        }
    }

    /// The member of a slot goes.
    async fn empty(&self, slot: usize, how: Churn) {
        let Some(member) = self.slots.borrow_mut()[slot].take() else { return };
        match how {
            Churn::Leave | Churn::Restart => member.leave().await,
            Churn::Kill => member.cut(),
        }
        self.local.members.borrow_mut().gone(how);
    }

    /// Waits, until no more members are to come and go at most.
    async fn pause(&self, time: Duration) {
        either(self.local.shard.sleep(time), async {
            while !self.is_over.get() {
                self.over.wait().await;
            }
        })
        .await;
    }

    /// No more members come and go; all slots are filled.
    pub async fn end_churn(&self) {
        self.is_over.set(true);
        self.over.notify_all();
        let churning = self.churning.take();
        if let Some(churning) = churning {
            churning.await;
        }
    }

    /// All members leave.
    pub async fn end(&self) {
        let members: Vec<Rc<Member>> = self.slots.take().into_iter().flatten().collect();
        for member in members {
            member.leave().await;
        }
    }
}
