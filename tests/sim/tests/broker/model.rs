//! What the clients of the simulated broker know: topics, what they sent, what they were told. It outlives every crash.

use base::{Random, Uuid};
use record::Compression;
use sim::batches::Mark;
use sim::faults::Register;
use sim::ledger::Ledger;

/// Where a topic is in its life, as its clients know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Asked for, and no answer came: it may exist.
    Creating,
    Live,
    /// Its deletion was asked for, and no answer came: it may exist.
    Deleting,
    Gone,
}

/// The values of `compression.type` with what the header of a stored batch then says; none: as it was sent.
const COMPRESSIONS: [(&str, Option<Compression>); 6] = [
    ("zstd", Some(Compression::Zstd)),
    ("uncompressed", Some(Compression::None)),
    ("producer", None),
    ("lz4", Some(Compression::Lz4)),
    ("gzip", Some(Compression::Gzip)),
    ("snappy", Some(Compression::Snappy)),
];

pub struct Topic {
    pub name: String,
    /// Its `compression.type`.
    pub compression: &'static str,
    /// The codec that all its batches are stored with, if it has one of its own.
    pub stored_with: Option<Compression>,
    /// Known once an answer or the broker's metadata told it.
    pub id: Option<Uuid>,
    pub life: Life,
    pub partitions: Vec<Ledger>,
}

/// Everything the clients know.
pub struct Model {
    pub topics: Vec<Topic>,
    pub random: Random,
    pub register: Register,
    /// The first broken promise.
    pub broken: Option<String>,
    pub operations: u64,
    /// Operations that may still be begun in this round.
    pub budget: u64,
    /// Clients that have not ended.
    pub working: u32,
    /// A topic was deleted and created again under its name since the broker was started last.
    pub recreated: bool,
    next_tag: u64,
    next_name: u64,
}

impl Model {
    pub fn new(random: Random) -> Self {
        Self {
            topics: Vec::new(),
            random,
            register: Register::default(),
            broken: None,
            operations: 0,
            budget: 0,
            working: 0,
            recreated: false,
            next_tag: 0,
            next_name: 0,
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

    /// One more operation; `false` when the round has had its share.
    pub fn begin(&mut self) -> bool {
        if self.budget == 0 || self.broken.is_some() {
            return false;
        }
        self.budget -= 1;
        self.operations += 1;
        true
    }

    /// A topic to be created, under a name of its own or that of one that is gone.
    pub fn new_topic(&mut self) -> usize {
        let gone = self.topics.iter().filter(|topic| topic.life == Life::Gone).map(|topic| topic.name.clone());
        let free: Vec<String> =
            gone.filter(|name| self.topics.iter().all(|t| t.name != *name || t.life == Life::Gone)).collect();
        let name = match free.get(self.random.below(free.len() as u64 + 1) as usize) {
            Some(name) => {
                self.register.hit("topic created again under its name");
                name.clone()
            }
            None => {
                self.next_name += 1;
                format!("topic-{}", self.next_name)
            }
        };
        let partitions = vec![Ledger::default(); 1 + self.random.below(4) as usize];
        // Every other topic keeps batches as they are sent; the rest go through what there is.
        let (compression, stored_with) = match self.topics.len() {
            index if index % 2 == 0 => COMPRESSIONS[index / 2 % COMPRESSIONS.len()],
            _ => ("producer", None),
        };
        self.topics.push(Topic { name, compression, stored_with, id: None, life: Life::Creating, partitions });
        self.topics.len() - 1
    }

    /// The codec that a client compresses the batch of this tag with: each in turn, and half of them with none.
    pub fn codec_of(tag: u64) -> Compression {
        let turn = (tag >> 8) as usize;
        if turn.is_multiple_of(2) { Compression::None } else { Compression::ALL[turn / 2 % Compression::ALL.len()] }
    }

    /// Batches that a read of a topic gave are stored with the topic's codec.
    pub fn check_codecs(&mut self, topic: usize, found: &[Mark]) -> Result<(), String> {
        let Some(codec) = self.topics[topic].stored_with else { return Ok(()) };
        match found.iter().find(|mark| mark.codec != codec as u8) {
            Some(other) => Err(format!("{other:?} is not stored with {codec}")),
            None => Ok(()),
        }
    }

    /// A batch was taken: notes what had to be done for that.
    pub fn note_stored(&mut self, topic: usize, sent_with: Compression, bytes: usize) {
        let Some(codec) = self.topics[topic].stored_with else { return };
        self.register.hit(match (codec == sent_with, bytes > 64 << 10) {
            (true, _) => "batch kept in a topic of its codec",
            (false, false) => "small batch stored with another codec",
            (false, true) => "large batch stored with another codec",
        });
    }

    /// A live topic with an id, and one of its partitions.
    pub fn pick(&mut self) -> Option<(usize, usize)> {
        let live: Vec<usize> = (0..self.topics.len()).filter(|&at| self.topics[at].life == Life::Live).collect();
        let topic = *live.get(self.random.below(live.len() as u64) as usize)?;
        let partition = self.random.below(self.topics[topic].partitions.len() as u64) as usize;
        Some((topic, partition))
    }
}

impl Model {
    /// Holds the broker's list of topics (name, id, partitions) against what is known, and settles what is not. Only after a restart
    /// can nothing be under way any more: what is in doubt until then stays so.
    pub fn settle(&mut self, found: &[(String, Uuid, usize)], restarted: bool) {
        for (name, id, partitions) in found {
            let known = self.topics.iter_mut().find(|topic| topic.id == Some(*id));
            let topic = match known {
                Some(topic) => topic,
                None => {
                    let created =
                        |topic: &&mut Topic| topic.id.is_none() && topic.name == *name && topic.life == Life::Creating;
                    match self.topics.iter_mut().find(created) {
                        Some(topic) => topic,
                        None => return self.fail(format!("topic {name} ({id}) was never created")),
                    }
                }
            };
            topic.id = Some(*id);
            match topic.life {
                Life::Gone => return self.fail(format!("topic {name} ({id}) was deleted, and is back")),
                Life::Creating => topic.life = Life::Live,
                Life::Live | Life::Deleting => {}
            }
            if topic.partitions.len() != *partitions {
                let wanted = topic.partitions.len();
                return self.fail(format!("topic {name} has {partitions} partitions where {wanted} were asked for"));
            }
        }
        let is_there = |topic: &Topic| topic.id.is_some_and(|id| found.iter().any(|(_, other, _)| *other == id));
        for topic in &mut self.topics {
            let there = is_there(topic);
            match topic.life {
                Life::Live if !there => {
                    let what = format!("topic {} ({:?}) is gone", topic.name, topic.id);
                    return self.fail(what);
                }
                Life::Deleting if there && restarted => topic.life = Life::Live,
                Life::Deleting if !there => topic.life = Life::Gone,
                Life::Creating if !there && restarted => topic.life = Life::Gone,
                _ => {}
            }
        }
    }
}
