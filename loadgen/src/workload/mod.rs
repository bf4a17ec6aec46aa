//! What a run does: the keys of a workload file, each of which is an option of the command line too.
//!
//! [`Keys`] is what was written, in a file and on the command line; [`Workload`] is what is in force, checked and with every default.

mod groups;
mod rate;
mod shapes;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base::{KIB, MIB};
use record::Compression;
use serde::{Deserialize, Serialize};

pub use groups::{Churn, ChurnShape, GroupKind, Groups};
pub use rate::{Rate, Schedule, Step};
pub(crate) use shapes::unit;
pub use shapes::{KeyShape, PayloadShape, RecordBytes};

use crate::units::{Bytes, Span};

/// The keys of a workload as they are written; what is absent has its default.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Keys {
    /// Records a second over all producers: a number, `max`, or steps such as `10k@30s,20k@30s` (the last one lasts) [default: 10k]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The measured time [default: 30s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Time at the rate before it is measured [default: 5s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// How long to wait for what is on its way once nothing more is sent; counted from the last record that came [default: 30s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Span>,

    /// The topic's name; of several topics the names are this, `-` and a number [default: loadgen]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Topics, all of one shape [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<u32>,
    /// Partitions of each topic [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// Copies of each partition [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<u16>,
    /// Settings of the topics when they are created, `NAME=VALUE`; may be given again
    #[arg(long = "topic-setting", value_name = "NAME=VALUE")]
    #[serde(rename = "topic-settings", skip_serializing_if = "Option::is_none")]
    pub topic_settings: Option<Vec<String>>,
    /// Delete the topics when the run is over, if it created them [default: true]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_topics: Option<bool>,

    /// Bytes of a record's value: a number, a range `MIN..MAX` (all equally often), or weights such as `100:9,10KiB:1` [default: 1000]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_bytes: Option<RecordBytes>,
    /// `none`, `uniform`, or `zipf` (`zipf:1.2` for a skew other than 1) [default: none]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyShape>,
    /// How many different keys there are [default: 100k]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_count: Option<u64>,
    /// Bytes of a key, 8 at least [default: 16]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<u32>,
    /// `random`, `ratio:N` (compressible to one Nth), or `file:PATH` (pieces of a file) [default: random]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadShape>,

    /// Producers; each has a connection of its own and an equal share of the rate [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producers: Option<u32>,
    /// `none`, `gzip`, `snappy`, `lz4` or `zstd` [default: none]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
    /// `0`, `1` or `all` [default: all]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<String>,
    /// Whether repetitions are recognised [default: true with acks=all]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotence: Option<bool>,
    /// How long a batch waits for more records [default: 1ms]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linger: Option<Span>,
    /// A batch is closed at this size; 1 sends each record by itself [default: 128KiB]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_bytes: Option<Bytes>,
    /// Batches of one request together [default: 1MiB]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<Bytes>,
    /// Records of each producer that may wait for their acknowledgement; past it nothing is sent, and what is due waits [default: 64MiB]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<Bytes>,
    /// Unanswered requests of each producer, at most 5 where idempotent [default: 5]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// How long a record may take to be acknowledged before it counts as failed [default: 2m]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_timeout: Option<Span>,

    /// Consumers that share the partitions and read what is written; 0: nothing is read [default: 1; 0 where groups read]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers: Option<u32>,
    /// Bytes for which a broker holds a fetch back [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch_min_bytes: Option<Bytes>,
    /// How long it holds it back at most [default: 500ms]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch_max_wait: Option<Span>,
    /// Bytes of one answer [default: 8MiB]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch_max_bytes: Option<Bytes>,
    /// Bytes of one partition in an answer [default: 1MiB]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch_partition_bytes: Option<Bytes>,

    /// Consumer groups that read instead of consumers, each of them everything; the members of one are on one thread [default: 0]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// The group's name; of several groups the names are this, `-` and a number [default: the topic's]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Members of each group, every one with connections of its own [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    /// `classic`, or `consumer` (KIP-848) [default: classic]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_protocol: Option<GroupKind>,
    /// Whether members have names by which they are known again (KIP-345) [default: false]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_members: Option<bool>,
    /// After how long without a sign of life a member is taken for dead; with `consumer` the broker says it [default: 45s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_timeout: Option<Span>,
    /// Between two signs of life; with `consumer` the broker says it [default: 3s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval: Option<Span>,
    /// Between two commits of a member [default: 5s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_interval: Option<Span>,
    /// How a member of each group goes from time to time, in turn: `leave` (it says so), `kill` (it is cut off), `restart` (a static member,
    /// which comes back by its name), or several with commas between them [default: none goes]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnShape>,
    /// Between two members that go [default: 5s]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn_interval: Option<Span>,
    /// From when a member went to when one comes in its place [default: 500ms]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn_away: Option<Span>,

    /// Bytes written before the run for catch-up readers to read [default: 0]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<Bytes>,
    /// Readers that read every partition from the start when the measured time begins, each as fast as it can [default: 0]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_readers: Option<u32>,
    /// Into the measured time, delete the older half of what was prefilled, as retention would [default: never]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_at: Option<Span>,

    /// Connections that are open beside and say nothing [default: 0]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_connections: Option<u32>,
    /// Threads of the generator [default: 1]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
    /// Bind each thread to a core of those that the process may use [default: false]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<bool>,
    /// Verify what is delivered [default: true]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
}

/// Keys that contradict each other, or that are out of their bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

impl Keys {
    /// The keys of a file.
    ///
    /// # Errors
    /// It is not TOML, has a key that does not exist, or a value that is none.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        toml::from_str(text).map_err(|error| Invalid(error.to_string()))
    }

    /// These keys, and those of `below` that are absent here.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let as_table = |keys: &Self| toml::Table::try_from(keys).expect("keys are a table");
        let mut table = as_table(below);
        table.extend(as_table(self));
        table.try_into().expect("written from keys")
    }
}

/// How many replicas must hold a record before it is acknowledged.
pub use client::Acks;

/// A workload in force.
#[derive(Clone, Debug)]
pub struct Workload {
    pub rate: Rate,
    pub duration: Duration,
    pub warm_up: Duration,
    pub drain: Duration,
    pub topic: String,
    pub topics: u32,
    pub partitions: u32,
    pub replication: u16,
    pub topic_settings: Vec<(String, String)>,
    pub delete_topics: bool,
    pub record_bytes: RecordBytes,
    pub keys: KeyShape,
    pub key_count: u64,
    pub key_bytes: usize,
    pub payload: PayloadShape,
    pub producers: u32,
    pub compression: Compression,
    pub acks: Acks,
    pub idempotence: bool,
    pub linger: Duration,
    pub batch_bytes: usize,
    pub request_bytes: usize,
    pub buffer_bytes: usize,
    pub in_flight: usize,
    pub delivery_timeout: Duration,
    pub consumers: u32,
    pub fetch_min_bytes: u32,
    pub fetch_max_wait: Duration,
    pub fetch_max_bytes: u32,
    pub fetch_partition_bytes: u32,
    /// Where groups read instead of consumers.
    pub groups: Option<Groups>,
    pub prefill_bytes: u64,
    pub catch_up_readers: u32,
    pub delete_at: Option<Duration>,
    pub idle_connections: u32,
    pub threads: u16,
    pub pin: bool,
    pub verify: bool,
}

/// Without a word on it.
const DRAIN: Duration = Duration::from_secs(30);
const BYTES_MAX: u64 = 1 << 30;

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<u64, Invalid> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Invalid(format!("{key} = {value}: it must be from {least} to {most}")))
}

fn size(key: &str, value: Option<Bytes>, default: usize) -> Result<usize, Invalid> {
    Ok(within(key, value.map_or(default as u64, |bytes| bytes.0), 1, BYTES_MAX)? as usize)
}

fn count(key: &str, value: Option<u32>, default: u32, least: u32, most: u32) -> Result<u32, Invalid> {
    Ok(within(key, u64::from(value.unwrap_or(default)), u64::from(least), u64::from(most))? as u32)
}

fn span(value: Option<Span>, default: Duration) -> Duration {
    value.map_or(default, |span| span.0)
}

impl Workload {
    /// The workload that these keys ask for.
    ///
    /// # Errors
    /// A value out of its bounds, or keys that contradict each other.
    pub fn new(keys: &Keys) -> Result<Self, Invalid> {
        let acks = match keys.acks.as_deref().unwrap_or("all") {
            "0" => Acks::Zero,
            "1" => Acks::One,
            "all" | "-1" => Acks::All,
            other => return Err(Invalid(format!("acks = {other}: it is 0, 1 or all"))),
        };
        let codec = keys.compression.as_deref().unwrap_or("none");
        let compression = Compression::from_name(codec)
            .ok_or_else(|| Invalid(format!("compression = {codec}: it is none, gzip, snappy, lz4 or zstd")))?;
        let groups = Groups::new(keys)?;
        let drain = DRAIN + groups.as_ref().map_or(Duration::ZERO, Groups::unnoticed);
        let workload = Self {
            rate: keys.rate.clone().unwrap_or_default(),
            duration: span(keys.duration, Duration::from_secs(30)),
            warm_up: span(keys.warm_up, Duration::from_secs(5)),
            drain: span(keys.drain, drain),
            topic: keys.topic.clone().unwrap_or_else(|| "loadgen".into()),
            topics: count("topics", keys.topics, 1, 1, 100_000)?,
            partitions: count("partitions", keys.partitions, 1, 1, 1_000_000)?,
            replication: keys.replication.unwrap_or(1),
            topic_settings: settings(keys.topic_settings.as_deref().unwrap_or_default())?,
            delete_topics: keys.delete_topics.unwrap_or(true),
            record_bytes: keys.record_bytes.clone().unwrap_or_default(),
            keys: keys.keys.unwrap_or_default(),
            key_count: within("key-count", keys.key_count.unwrap_or(100_000), 1, 1 << 40)?,
            key_bytes: count("key-bytes", keys.key_bytes, 16, 8, 1 << 20)? as usize,
            payload: keys.payload.clone().unwrap_or_default(),
            producers: count("producers", keys.producers, 1, 0, 100_000)?,
            compression,
            acks,
            idempotence: keys.idempotence.unwrap_or(acks == Acks::All),
            linger: span(keys.linger, Duration::from_millis(1)),
            batch_bytes: size("batch-bytes", keys.batch_bytes, 128 * KIB)?,
            request_bytes: size("request-bytes", keys.request_bytes, MIB)?,
            buffer_bytes: size("buffer-bytes", keys.buffer_bytes, 64 * MIB)?,
            in_flight: count("in-flight", keys.in_flight, 5, 1, 1000)? as usize,
            delivery_timeout: span(keys.delivery_timeout, Duration::from_secs(120)),
            consumers: count("consumers", keys.consumers, u32::from(groups.is_none()), 0, 10_000)?,
            fetch_min_bytes: size("fetch-min-bytes", keys.fetch_min_bytes, 1)? as u32,
            fetch_max_wait: span(keys.fetch_max_wait, Duration::from_millis(500)),
            fetch_max_bytes: size("fetch-max-bytes", keys.fetch_max_bytes, 8 * MIB)? as u32,
            fetch_partition_bytes: size("fetch-partition-bytes", keys.fetch_partition_bytes, MIB)? as u32,
            groups,
            prefill_bytes: keys.prefill.map_or(0, |bytes| bytes.0),
            catch_up_readers: count("catch-up-readers", keys.catch_up_readers, 0, 0, 100)?,
            delete_at: keys.delete_at.map(|span| span.0),
            idle_connections: count("idle-connections", keys.idle_connections, 0, 0, 1_000_000)?,
            threads: count("threads", keys.threads.map(u32::from), 1, 1, 256)? as u16,
            pin: keys.pin.unwrap_or(false),
            verify: keys.verify.unwrap_or(true),
        };
        workload.check()
    }

    fn check(self) -> Result<Self, Invalid> {
        let least = crate::payload::STAMP_BYTES;
        let refused = if self.duration.is_zero() {
            "duration must be longer than nothing".to_owned()
        } else if self.idempotence && self.acks != Acks::All {
            "idempotence wants acks=all".to_owned()
        } else if self.record_bytes.least() < least {
            format!("record-bytes: a record has {least} bytes at least, by which it is known again")
        } else if self.record_bytes.most() + self.key_bytes + 64 > self.buffer_bytes {
            "buffer-bytes: no record would find room in it".to_owned()
        } else if u64::from(self.topics) * u64::from(self.partitions) > 1_000_000 {
            "there are more than a million partitions".to_owned()
        } else if self.topic.is_empty() || self.topic.len() > 200 {
            "topic: a name has from 1 to 200 letters".to_owned()
        } else if self.groups.is_some() && self.consumers > 0 {
            "consumers: where groups read there are no others".to_owned()
        } else {
            return Ok(self);
        };
        Err(Invalid(refused))
    }

    /// Whether somebody reads what is written.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.consumers > 0 || self.groups.is_some()
    }

    /// The same on topics, and with groups, of its own: `tail` stands at the end of their names.
    pub fn rename(&mut self, tail: &str) {
        self.topic.push_str(tail);
        if let Some(groups) = &mut self.groups {
            groups.name.push_str(tail);
        }
    }

    /// The names of the topics.
    #[must_use]
    pub fn topic_names(&self) -> Vec<String> {
        if self.topics == 1 {
            return vec![self.topic.clone()];
        }
        (0..self.topics).map(|number| format!("{}-{number}", self.topic)).collect()
    }

    /// Every key as it is in force, for the report.
    #[must_use]
    pub fn described(&self) -> BTreeMap<String, serde_json::Value> {
        let settings: Vec<String> = self.topic_settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let acks = match self.acks {
            Acks::Zero => "0",
            Acks::One => "1",
            Acks::All => "all",
        };
        let bytes = |value: usize| Some(Bytes(value as u64));
        let keys = Keys {
            rate: Some(self.rate.clone()),
            duration: Some(Span(self.duration)),
            warm_up: Some(Span(self.warm_up)),
            drain: Some(Span(self.drain)),
            topic: Some(self.topic.clone()),
            topics: Some(self.topics),
            partitions: Some(self.partitions),
            replication: Some(self.replication),
            topic_settings: Some(settings),
            delete_topics: Some(self.delete_topics),
            record_bytes: Some(self.record_bytes.clone()),
            keys: Some(self.keys),
            key_count: Some(self.key_count),
            key_bytes: Some(self.key_bytes as u32),
            payload: Some(self.payload.clone()),
            producers: Some(self.producers),
            compression: Some(self.compression.name().into()),
            acks: Some(acks.into()),
            idempotence: Some(self.idempotence),
            linger: Some(Span(self.linger)),
            batch_bytes: bytes(self.batch_bytes),
            request_bytes: bytes(self.request_bytes),
            buffer_bytes: bytes(self.buffer_bytes),
            in_flight: Some(self.in_flight as u32),
            delivery_timeout: Some(Span(self.delivery_timeout)),
            consumers: Some(self.consumers),
            fetch_min_bytes: bytes(self.fetch_min_bytes as usize),
            fetch_max_wait: Some(Span(self.fetch_max_wait)),
            fetch_max_bytes: bytes(self.fetch_max_bytes as usize),
            fetch_partition_bytes: bytes(self.fetch_partition_bytes as usize),
            prefill: Some(Bytes(self.prefill_bytes)),
            catch_up_readers: Some(self.catch_up_readers),
            delete_at: self.delete_at.map(Span),
            idle_connections: Some(self.idle_connections),
            threads: Some(self.threads),
            pin: Some(self.pin),
            verify: Some(self.verify),
            ..self.groups.as_ref().map(Groups::described).unwrap_or_default()
        };
        serde_json::from_value(serde_json::to_value(keys).expect("keys have a JSON form")).expect("keys are an object")
    }
}

fn settings(written: &[String]) -> Result<Vec<(String, String)>, Invalid> {
    let setting = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Invalid(format!("topic-settings: `{text}` is not NAME=VALUE"))),
    };
    written.iter().map(setting).collect()
}

#[cfg(test)]
mod tests;
