//! What the clients of the simulated groups know: topics, what was written to them, what each group has read. It outlives every crash.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{Random, Uuid};
use sim::compacted::Written;
use sim::faults::Register;
use sim::groups::classic::Generations;
use sim::groups::commits::{Commits, Found};
use sim::groups::consumer::Holders;
use sim::groups::{Moment, Place};

pub type SharedModel = Rc<RefCell<Model>>;

/// Topics that groups read, and the one that is compacted, which comes last.
pub const TOPICS: [(&str, usize); 3] = [("orders", 3), ("clicks", 2), ("keyed", 1)];
/// The topics that each group reads, by their numbers: those before this one.
pub const TOPICS_READ: usize = 2;
pub const KEYED: usize = 2;

/// Who shares the partitions of a group out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One of its members.
    Classic,
    /// Its coordinator (KIP-848).
    Consumer,
}

pub const GROUPS: [(&str, Kind); 3] =
    [("readers", Kind::Classic), ("watchers", Kind::Consumer), ("others", Kind::Classic)];

pub struct Topic {
    pub name: &'static str,
    pub id: Uuid,
    pub partitions: Vec<Partition>,
}

/// What was written to a partition, by its one writer.
#[derive(Default)]
pub struct Partition {
    pub written: Vec<Written>,
}

impl Partition {
    pub fn end(&self) -> i64 {
        self.written.last().map_or(0, |written| written.mark.last + 1)
    }
}

/// What a member has, for as long as it behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The generation, or the member's epoch.
    pub epoch: i32,
    pub places: BTreeSet<Place>,
}

pub struct Group {
    pub name: &'static str,
    pub commits: Commits,
    pub generations: Generations,
    pub holders: Holders,
    /// By the number of the seat: what its member has now.
    pub shares: BTreeMap<usize, Share>,
    /// When the broker was started last.
    started: Moment,
    /// Since when its coordinator is known to have read its log.
    loaded: Option<Moment>,
}

impl Group {
    /// The broker is about to start.
    pub fn restarted(&mut self, at: Moment) {
        self.commits.crashed(at);
        (self.started, self.loaded) = (at, None);
    }

    /// Somebody who asked at `asked` was told at `told` what only a coordinator knows that has read its log.
    pub fn note_loaded(&mut self, asked: Moment, told: Moment) {
        if asked > self.started {
            self.loaded.get_or_insert(told);
        }
    }

    /// A member that asked at `asked` was told that its generation goes on. While the log is read, everybody is, as by Kafka.
    pub fn confirm_generation(&self, generation: i32, asked: Moment) -> Result<(), String> {
        match self.loaded {
            Some(loaded) if loaded < asked => self.generations.confirmed(generation, asked),
            _ => Ok(()),
        }
    }
}

/// Everything the clients know.
pub struct Model {
    pub topics: Vec<Topic>,
    pub groups: Vec<Group>,
    pub random: Random,
    pub register: Register,
    /// The first broken promise.
    pub broken: Option<String>,
    pub operations: u64,
    /// Nobody misbehaves any more, and nothing more is written.
    pub calm: bool,
    /// All are to end.
    pub over: bool,
    /// Nothing more is written at all.
    pub closing: bool,
    /// Clients that have not ended, and those of them that write.
    pub working: u32,
    pub writing: u32,
    moment: Moment,
    next_tag: u64,
}

impl Model {
    pub fn new(random: Random) -> Self {
        let group = |(name, kind): (&'static str, Kind)| Group {
            name,
            commits: Commits::new(kind == Kind::Classic),
            generations: Generations::default(),
            holders: Holders::default(),
            shares: BTreeMap::new(),
            started: 0,
            loaded: None,
        };
        Self {
            topics: Vec::new(),
            groups: GROUPS.map(group).into(),
            random,
            register: Register::default(),
            broken: None,
            operations: 0,
            calm: false,
            over: false,
            closing: false,
            working: 0,
            writing: 0,
            moment: 0,
            next_tag: 0,
        }
    }

    pub fn fail(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    /// Holds a finding of the judge's against the group.
    pub fn judge(&mut self, group: usize, finding: Result<(), String>) {
        if let Err(why) = finding {
            let name = self.groups[group].name;
            self.fail(format!("group {name}: {why}"));
        }
    }

    /// The next moment.
    pub fn now(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Whether somebody misbehaves now: one time in so many, as long as anybody may.
    pub fn mischief(&mut self, one_in: u64) -> bool {
        !self.calm && self.random.chance(1, one_in)
    }

    pub fn tag(&mut self) -> u64 {
        self.next_tag += 1 << 8;
        self.next_tag
    }

    /// The partitions that each group reads.
    pub fn places(&self) -> BTreeSet<Place> {
        let topics = self.topics.iter().take(TOPICS_READ).enumerate();
        topics.flat_map(|(topic, known)| (0..known.partitions.len() as i32).map(move |index| (topic, index))).collect()
    }

    pub fn topic_named(&self, name: &str) -> Option<usize> {
        self.topics.iter().position(|topic| topic.name == name)
    }

    pub fn topic_of(&self, id: Uuid) -> Option<usize> {
        self.topics.iter().position(|topic| topic.id == id)
    }

    /// What a group was told of its offsets.
    pub fn read_offsets(&mut self, group: usize, found: &BTreeMap<Place, Found>, asked: Moment) {
        let told = self.now();
        self.groups[group].note_loaded(asked, told);
        for (place, found) in found {
            let finding = self.groups[group].commits.read(*place, found, asked, told);
            self.judge(group, finding);
        }
    }

    /// Why a group has not come to rest; none once each partition has one member of one generation, and is read to its end.
    pub fn unrest(&self, group: usize) -> Option<String> {
        let group = &self.groups[group];
        let epochs: BTreeSet<i32> = group.shares.values().map(|share| share.epoch).collect();
        if epochs.len() != 1 {
            return Some(format!("group {}: its members are in the epochs {epochs:?}", group.name));
        }
        let mut left = self.places();
        for (seat, share) in &group.shares {
            if let Some(place) = share.places.iter().find(|place| !left.remove(place)) {
                return Some(format!("group {}: {place:?} is not member {seat}'s alone", group.name));
            }
        }
        if !left.is_empty() {
            return Some(format!("group {}: {left:?} are nobody's", group.name));
        }
        let end = |place: &Place| self.topics[place.0].partitions[place.1 as usize].end();
        let behind = |place: &Place| group.commits.reached(*place).unwrap_or(0) < end(place);
        self.places().into_iter().find(behind).map(|place| format!("group {}: {place:?} is not read", group.name))
    }
}
