//! The topics and records that the rest of the script reads.

use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::messages::init_producer_id::InitProducerIdRequest;
use wire::messages::produce::ProduceRequest;

use super::FENCE;
use super::produce::{PRODUCE_VERSIONS, ask, partition};
use super::records::{batch, batch_with, compressed, kept, stamped};
use crate::step::{At, Step, kept as kept_text, step};
use base::ProducerId;
use record::{BatchOptions, Compression};

pub fn steps() -> Vec<Step> {
    vec![
        step("setup/fence", |_| create(vec![topic(FENCE, 1, &[])])).at(4..=4).changes(),
        step("setup/topics", |_| create(topics())).at(4..=4).changes(),
        step("setup/records", records).at(9..=9),
        step("setup/second-batches", second).at(9..=9),
        step("setup/producer", |_| InitProducerIdRequest::default()).at(4..=4).patient(),
        step("setup/idempotent", |at| {
            ask(-1, vec![partition(at, "written", 0, kept(stamped(at, at.producer(0), 0, 0, &["a", "b"])))])
        })
        .at(9..=9),
    ]
}

/// A compacted topic for each version of Produce. They come late: what lists all topics is not to depend on them.
pub fn compacted() -> Step {
    let compacted = |version| topic(kept_text(format!("compacted-v{version}")), 1, &[("cleanup.policy", "compact")]);
    step("setup/compacted", move |_| create(PRODUCE_VERSIONS.map(compacted).collect())).at(4..=4).changes()
}

fn topics() -> Vec<CreatableTopic<'static>> {
    vec![
        topic("log", 3, &[]),
        topic("written", 2, &[]),
        topic("empty", 1, &[]),
        topic("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]),
        topic("small", 1, &[("max.message.bytes", "200")]),
        topic("recent", 1, &[("message.timestamp.before.max.ms", "1800000")]),
        topic("timely", 1, &[("message.timestamp.after.max.ms", "60000")]),
        topic("two_copies", 1, &[("min.insync.replicas", "2")]),
        topic("configured", 2, &[("retention.ms", "86400000"), ("segment.bytes", "2097152")]),
    ]
}

pub fn create(topics: Vec<CreatableTopic<'static>>) -> CreateTopicsRequest<'static> {
    CreateTopicsRequest { topics: topics.into(), timeout_ms: 30_000, validate_only: false }
}

pub fn topic(name: &'static str, partitions: i32, configs: &[(&'static str, &'static str)]) -> CreatableTopic<'static> {
    let config = |(name, value): &(&'static str, &'static str)| CreatableTopicConfig { name, value: Some(value) };
    CreatableTopic {
        name,
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    }
}

/// Partition 0 of `log`: three batches; partition 1: every compression; partition 2: nothing.
fn records(at: &At<'_>) -> ProduceRequest<'static> {
    ask(
        -1,
        vec![
            partition(at, "log", 0, kept(batch(at, 0, &["one", "two", "three"]))),
            partition(at, "log", 1, kept(compressed(at, Compression::Gzip, &["packed", "packed"]))),
            partition(at, "stamped", 0, kept(batch(at, 0, &["late", "later"]))),
        ],
    )
}

fn second(at: &At<'_>) -> ProduceRequest<'static> {
    let options = BatchOptions { compression: Compression::Zstd, ..Default::default() };
    ask(
        -1,
        vec![
            partition(at, "log", 0, kept(batch(at, 100, &["four", "five"]))),
            partition(at, "log", 1, kept(batch_with(at, options, 100, &["more", "more"]))),
        ],
    )
}

/// A producer id that nobody was given.
pub const NOBODY: ProducerId = ProducerId(1 << 40);
