//! What the clients of the simulated store know: their logs, their producers, what was acknowledged. It outlives every crash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{PartitionIndex, PlacementEpoch, Random, ShardId, Uuid, WallTime};
use sim::batches::{Mark, Recipe, Stamp};
use sim::compacted::{self, Remains, Rules, Written};
use sim::faults::Register;
use sim::judge::{ChangeId, History, Outcome};
use storage::LogId;

use crate::moves::Left;
use crate::session::Setup;

/// Where a log is in its life, as its clients know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Asked for, not confirmed: it may exist.
    Creating,
    Live,
    /// Its removal was asked for, not confirmed: it may exist.
    Removing,
    Gone,
}

/// A batch that a producer sent and has no answer for.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub recipe: Recipe,
    pub change: Option<ChangeId>,
}

/// An idempotent producer that writes to one log.
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
    pub next: i32,
    /// In the order they were sent; the first is the oldest.
    pub unanswered: VecDeque<Sent>,
    /// What a crash left unanswered, to be sent again before anything new.
    pub again: VecDeque<Recipe>,
}

pub struct LogModel {
    pub id: LogId,
    pub topic: String,
    pub life: Life,
    pub history: History,
    pub producers: Vec<Producer>,
    /// The epoch that batches are stamped with.
    pub epoch: i32,
    /// The log's latest epoch is at least this (a truncation may take some of it back) and at most what was asked for.
    pub epoch_promised: i32,
    pub epoch_asked: i32,
    /// A truncation, removal or change of epoch is under way: nobody else touches the log.
    pub busy: bool,
    /// A change of it failed, or its files did: it is left alone until the next start.
    pub unsure: bool,
    pub retention: bool,
    /// It is compacted; and whether its tombstones may go.
    pub compaction: Option<Compaction>,
    /// The high watermark has been there: nothing below is cut.
    pub committed: i64,
    pub segment_bytes: u64,
    /// Counts truncations, so that a read that was overtaken by one is not judged.
    pub cuts: u64,
    /// Its shard, where that is certain.
    pub owner: Option<ShardId>,
    /// On its way to another shard.
    pub moving: bool,
    /// Counts moves, those that came to nothing too.
    pub moves: u64,
    /// Shards that have a record of an earlier stay: they must forget it before the log may be removed.
    pub left: Vec<Left>,
    /// Where it has been since the process started.
    pub homes: BTreeSet<ShardId>,
}

/// How a log is compacted.
#[derive(Clone, Copy, Debug)]
pub struct Compaction {
    pub keys: u32,
    pub tombstones_go: bool,
    pub min_dirty_ppm: u32,
}

/// What was read of a log.
pub enum Found {
    Whole(Vec<Mark>),
    /// Of one that is compacted.
    Compacted(Vec<Remains>),
}

/// Batches with their records, as they were appended.
fn written(recipes: &BTreeMap<u64, Recipe>, batches: &[Mark]) -> Vec<Written> {
    batches.iter().map(|mark| Written { mark: *mark, rows: recipes[&mark.content].rows() }).collect()
}

impl LogModel {
    fn rules(&self) -> Rules {
        let tombstones_go = self.compaction.is_some_and(|compaction| compaction.tombstones_go);
        // Of a log that was cut the store may remember fewer producers than its batches name.
        Rules { tombstones_go, producers_stay: self.cuts == 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.life == Life::Live && !self.busy && !self.unsure
    }

    /// The log's latest epoch is known exactly.
    pub fn set_epoch(&mut self, latest: i32) {
        self.epoch = latest;
        self.epoch_promised = latest;
        self.epoch_asked = latest;
    }

    /// After a crash: what is unanswered is sent again, in order, where it follows from what the log now holds.
    pub fn settle_producers(&mut self) {
        let known = self.history.producers();
        for producer in &mut self.producers {
            let mut again: VecDeque<Recipe> = producer.unanswered.drain(..).map(|sent| sent.recipe).collect();
            again.extend(producer.again.drain(..));
            let last = known.get(&producer.id).and_then(VecDeque::back);
            let follows = |stamp: Stamp| match last {
                None => stamp.sequence == 0,
                Some((known, mark)) if known.epoch == stamp.epoch => stamp.sequence <= next_sequence(*known, mark),
                Some(_) => stamp.sequence == 0,
            };
            match (again.front().and_then(|recipe| recipe.stamp), last) {
                (Some(first), _) if follows(first) => producer.again = again,
                (None, Some((known, mark))) if known.epoch == producer.epoch => {
                    producer.next = next_sequence(*known, mark);
                }
                _ => producer.restart(),
            }
        }
    }

    /// A truncation took batches of some producers: their clients begin anew.
    pub fn restart_cut_producers(&mut self, end: i64) {
        let known = self.history.producers();
        for producer in &mut self.producers {
            let cut = known.get(&producer.id).and_then(VecDeque::back).is_some_and(|(_, mark)| mark.last >= end);
            if cut {
                producer.restart();
            }
        }
    }
}

fn next_sequence(stamp: Stamp, mark: &Mark) -> i32 {
    stamp.sequence + (mark.last - mark.base + 1) as i32
}

impl Producer {
    pub fn new(id: i64) -> Self {
        Self { id, epoch: 0, next: 0, unanswered: VecDeque::new(), again: VecDeque::new() }
    }

    /// A new incarnation, which begins at sequence 0.
    fn restart(&mut self) {
        self.epoch += 1;
        self.next = 0;
        self.unanswered.clear();
        self.again.clear();
    }

    pub fn stamp(&self) -> Stamp {
        Stamp { producer: self.id, epoch: self.epoch, sequence: self.next }
    }
}

/// Everything the clients know.
pub struct Model {
    pub setup: Setup,
    /// An append that was acknowledged is there after a crash. Not so where the power goes and nothing promised to flush.
    pub keeps_appends: bool,
    pub logs: Vec<LogModel>,
    pub random: Random,
    pub register: Register,
    /// The first broken promise.
    pub broken: Option<String>,
    pub operations: u64,
    /// In this run of the process operations on files fail now and then, or have failed.
    pub faulty: bool,
    /// In this run of the process the disk is full, or was.
    pub full: bool,
    /// All batches are large, so that the journals fill.
    pub filling: bool,
    /// The stores are being closed.
    pub closing: bool,
    /// Topics with a log that was removed in this run of the process: its shard, and the checkpoints that it had made then.
    pub removed: Vec<(String, ShardId, u64)>,
    /// Where such a topic got a log again before the next checkpoint: both are in the journal until there is one.
    pub recreated: Vec<(ShardId, u64)>,
    /// Operations that may still be begun in this round.
    pub budget: u64,
    /// Workers that have not ended.
    pub working: u32,
    /// Appends that wait for their answer.
    pub waiting: u32,
    /// What each batch in a log was made of, by its hash.
    pub recipes: BTreeMap<u64, Recipe>,
    next_tag: u64,
    next_producer: i64,
    next_topic: u64,
}

impl Model {
    pub fn new(mut random: Random) -> Self {
        let next_topic = random.next_u64() >> 1;
        let setup = Setup::any(&mut random);
        Self {
            keeps_appends: setup.is_durable() || random.chance(1, 2),
            setup,
            logs: Vec::new(),
            random,
            register: Register::default(),
            broken: None,
            operations: 0,
            faulty: false,
            full: false,
            filling: false,
            closing: false,
            removed: Vec::new(),
            recreated: Vec::new(),
            budget: 0,
            working: 0,
            waiting: 0,
            recipes: BTreeMap::new(),
            next_tag: 1,
            next_producer: 1000,
            next_topic,
        }
    }

    pub fn fail(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub fn tag(&mut self) -> u64 {
        self.next_tag += 1 << 8;
        self.next_tag
    }

    /// A log to be created; some share a topic's name with one that was removed.
    pub fn new_log(&mut self) -> usize {
        self.next_topic += 1;
        let id = LogId {
            topic_id: Uuid::from_random(self.next_topic, !self.next_topic),
            partition: PartitionIndex(self.random.below(3) as i32),
        };
        let topic = format!("topic-{}", self.random.below(3));
        let mut producers = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            self.next_producer += 1;
            producers.push(Producer::new(self.next_producer));
        }
        let compaction = self.random.chance(1, 3).then(|| Compaction {
            keys: [3, 40, 400][self.random.below(3) as usize],
            tombstones_go: self.random.chance(1, 2),
            min_dirty_ppm: [0, 300_000][self.random.below(2) as usize],
        });
        let segment_bytes = match compaction {
            None => [32 << 10, 64 << 10, 256 << 10, 1 << 20],
            Some(_) => [8 << 10, 16 << 10, 32 << 10, 128 << 10],
        };
        self.logs.push(LogModel {
            id,
            topic,
            life: Life::Creating,
            history: History::default(),
            producers,
            epoch: 0,
            epoch_promised: 0,
            epoch_asked: 0,
            busy: false,
            unsure: false,
            retention: self.random.chance(1, 6),
            compaction,
            committed: 0,
            segment_bytes: segment_bytes[self.random.below(4) as usize],
            cuts: 0,
            owner: None,
            moving: false,
            moves: 0,
            left: Vec::new(),
            homes: BTreeSet::new(),
        });
        self.logs.len() - 1
    }

    /// What a batch for a log is made of: mostly small, now and then large; a truncated one is followed by one of its size.
    pub fn recipe(&mut self, log: usize, stamp: Option<Stamp>, now: WallTime) -> Recipe {
        let value_bytes = match if self.filling { 0 } else { self.random.below(40) } {
            0 => 20_000 + self.random.below(80_000),
            1..8 => 500 + self.random.below(4000),
            _ => 10 + self.random.below(300),
        } as u32;
        let records = if value_bytes > 5000 { 1 } else { 1 + self.random.below(4) as u32 };
        let keys = self.logs[log].compaction.map_or(0, |compaction| compaction.keys);
        Recipe { tag: self.tag(), records, value_bytes, stamp, timestamp: now, keys }
    }

    /// The process ended: nobody waits for an answer any more.
    pub fn process_ended(&mut self) {
        self.working = 0;
        self.waiting = 0;
        self.faulty = false;
        self.full = false;
        self.filling = false;
        self.closing = false;
        self.removed.clear();
        self.recreated.clear();
        for log in &mut self.logs {
            log.busy = false;
            log.unsure = false;
            log.moving = false;
            log.left.clear();
            log.homes.clear();
        }
    }

    /// The process was crashed: what it was in the middle of.
    pub fn note_crash(&mut self) {
        for log in self.logs.iter().filter(|log| log.life != Life::Gone) {
            if log.moving {
                self.register.hit("crash with a move open");
            }
            if !log.left.is_empty() {
                self.register.hit("crash with a moved log not forgotten");
            }
            if log.left.iter().any(|left| log.history.settled_end() > left.end) {
                self.register.hit("crash with a moved log not forgotten, and appended to since");
            }
        }
    }

    /// The epoch with which a shard that a log has left is to forget it, if it is not doing so already.
    pub fn begin_to_forget(&mut self, index: usize, shard: ShardId) -> Option<PlacementEpoch> {
        let left = &mut self.logs[index].left;
        let left = left.iter_mut().find(|left| left.shard == shard && !left.forgetting)?;
        left.forgetting = true;
        Some(left.placement)
    }

    /// What a recovered log must be, given what a reader found in it.
    pub fn recovered(&mut self, index: usize, start: i64, end: i64, found: &Found) {
        let log = &mut self.logs[index];
        let (id, acknowledged) = (log.id, log.history.settled_end());
        let outcome = match found {
            Found::Whole(batches) => log.history.check_recovered(start, end, batches, log.retention),
            Found::Compacted(remains) => self.check_compacted(index, start, end, remains),
        };
        self.logs[index].committed = self.logs[index].committed.min(end);
        match outcome {
            Ok(outcome) => {
                self.register.add("recovery: unacknowledged changes kept", outcome.kept as u64);
                self.register.add("recovery: unacknowledged changes lost", outcome.lost as u64);
            }
            Err(why) => return self.fail(format!("log {id}, acknowledged up to {acknowledged}: {why}")),
        }
        if let Err(why) = self.logs[index].history.check_sequences() {
            return self.fail(format!("log {id}: {why}"));
        }
        self.logs[index].settle_producers();
    }

    fn check_compacted(&mut self, index: usize, start: i64, end: i64, found: &[Remains]) -> Result<Outcome, String> {
        let rules = self.logs[index].rules();
        let (recipes, log) = (&self.recipes, &mut self.logs[index]);
        let mut result = Err("it ends elsewhere".to_owned());
        let settled = log.history.settle(start, end, log.retention, |batches| {
            result = compacted::check(&written(recipes, batches), start, end, found, rules);
            result.is_ok()
        })?;
        let outcome = settled.ok_or_else(|| format!("recovered {start}..{end}, compacted: {result:?}"))?;
        let missing = result.unwrap_or_default();
        self.register.add("compaction: records gone", missing.records as u64);
        self.register.add("compaction: tombstones gone", missing.tombstones as u64);
        self.register.add("compaction: batches emptied", missing.emptied_batches as u64);
        Ok(outcome)
    }

    /// A read of a compacted log, from an offset up to another, gave `found`: nothing where all that stood there has been replaced.
    pub fn check_compacted_read(
        &self,
        index: usize,
        (from, upto): (i64, i64),
        found: &[Remains],
    ) -> Result<(), String> {
        let log = &self.logs[index];
        let upto = found.last().map_or(upto, |last| last.last + 1);
        // Read in a moment, while the log went on: the last of a producer may have become one of many.
        let rules = Rules { producers_stay: false, ..log.rules() };
        let written = written(&self.recipes, log.history.batches_from(from));
        compacted::check(&written, from, upto, found, rules).map(drop)
    }

    /// Each of these was part of something that was appended just there.
    pub fn check_genuine(&self, index: usize, found: &Found) -> Result<(), String> {
        let history = &self.logs[index].history;
        let remains = match found {
            Found::Whole(batches) => return history.check_genuine(batches),
            Found::Compacted(remains) => remains,
        };
        for (number, batch) in remains.iter().enumerate() {
            let is_part = |content: u64| {
                let rows = self.recipes[&content].rows();
                batch.rows.iter().all(|(offset, row)| rows.get((offset - batch.base) as usize) == Some(row))
            };
            if !history.contents_at(batch.base).any(is_part) {
                return Err(format!("{batch:?} was never appended"));
            }
            if number > 0 && remains[number - 1].last >= batch.base {
                return Err(format!("{batch:?} follows {:?}", remains[number - 1]));
            }
        }
        Ok(())
    }

    pub fn by_id(&self) -> BTreeMap<LogId, usize> {
        self.logs.iter().enumerate().map(|(index, log)| (log.id, index)).collect()
    }
}
