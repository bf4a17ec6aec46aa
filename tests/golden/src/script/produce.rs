//! Produce, from version 3 on; versions 0 to 2 are in [`super::frames`].

use std::ops::RangeInclusive;

use base::{PartitionIndex, Uuid};
use record::{BatchOptions, Compression};
use wire::Records;
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use super::records::{
    self, at as field, at_times, batch, batch_with, compressed, kept, keyless, old_message, patched, timeless,
};
use super::setup::{self, NOBODY};
use super::topics;
use crate::step::{At, NO_SUCH_ID, Step, step};

pub const PRODUCE_VERSIONS: RangeInclusive<i16> = 3..=13;

/// What a request carries for one partition.
#[derive(Clone, Copy)]
pub struct Part {
    topic: &'static str,
    topic_id: Uuid,
    index: i32,
    records: Option<&'static [u8]>,
}

pub fn partition(at: &At<'_>, topic: &'static str, index: i32, records: &'static [u8]) -> Part {
    Part { topic, topic_id: at.id(topic), index, records: Some(records) }
}

/// A request for these partitions, each under a topic of its own unless it follows another of the same topic.
pub fn ask(acks: i16, parts: Vec<Part>) -> ProduceRequest<'static> {
    let mut topics: Vec<(Part, Vec<PartitionProduceData<'static>>)> = Vec::new();
    for part in parts {
        let data = PartitionProduceData {
            index: PartitionIndex(part.index),
            records: part.records.map_or(Records::Null, Records::Bytes),
        };
        match topics.iter_mut().find(|(known, _)| (known.topic, known.topic_id) == (part.topic, part.topic_id)) {
            Some((_, partitions)) => partitions.push(data),
            None => topics.push((part, vec![data])),
        }
    }
    let topics = topics.into_iter().map(|(part, partitions)| TopicProduceData {
        name: part.topic,
        topic_id: part.topic_id,
        partition_data: partitions.into(),
    });
    ProduceRequest { transactional_id: None, acks, timeout_ms: 30_000, topic_data: topics.collect() }
}

/// One batch for partition 0 of a topic, with acks −1.
fn one(name: &'static str, topic: &'static str, build: fn(&At<'_>) -> Vec<u8>) -> Step {
    step(name, move |at| ask(-1, vec![partition(at, topic, 0, kept(build(at)))]))
}

/// The same for a topic that only this version uses, where the two brokers may differ in whether they take it: what follows is not to
/// depend on that.
fn own(name: &'static str, topic: &'static str, build: fn(&At<'_>) -> Vec<u8>) -> Step {
    step(name, move |at| ask(-1, vec![partition(at, at.name(topic), 0, kept(build(at)))]))
}

pub fn steps() -> Vec<Step> {
    let mut steps = vec![topics::topic_per_version(), setup::compacted()];
    steps.extend(accepted());
    steps.extend(unknown());
    steps.extend(damaged());
    steps.extend(against_rules());
    steps
}

fn accepted() -> Vec<Step> {
    vec![
        step("produce/two-partitions", |at| {
            let topic = at.name("produce");
            let sent = |index, values| partition(at, topic, index, kept(batch(at, 0, values)));
            ask(-1, vec![sent(0, &["a", "b", "c"]), sent(1, &["d"])])
        }),
        step("produce/acks-1", |at| ask(1, vec![partition(at, at.name("produce"), 0, kept(batch(at, 5, &["e"])))])),
        step("produce/acks-0", |at| ask(0, vec![partition(at, at.name("produce"), 0, kept(batch(at, 5, &["f"])))]))
            .silent(),
        step("produce/keyless", |at| ask(-1, vec![partition(at, at.name("produce"), 0, kept(keyless(at, 0)))])),
        step("produce/gzip", |at| packed(at, Compression::Gzip)),
        step("produce/snappy", |at| packed(at, Compression::Snappy)),
        step("produce/lz4", |at| packed(at, Compression::Lz4)),
        step("produce/zstd", |at| packed(at, Compression::Zstd)),
        step("produce/no-topics", |_| ask(-1, vec![])),
        one("produce/append-time", "stamped", |at| batch(at, 0, &["a", "b"])),
    ]
}

fn packed(at: &At<'_>, compression: Compression) -> ProduceRequest<'static> {
    ask(-1, vec![partition(at, at.name("produce"), 0, kept(compressed(at, compression, &["x", "x", "x"])))])
}

fn unknown() -> Vec<Step> {
    vec![
        step("produce/unknown-topic", |at| {
            let part = |topic, topic_id, index| {
                let records = Some(kept(batch(at, 0, &["a"])));
                Part { topic, topic_id, index, records }
            };
            ask(
                -1,
                vec![
                    part("no-such-topic", NO_SUCH_ID, 0),
                    part("empty", at.id("empty"), 1),
                    part("empty", at.id("empty"), -1),
                ],
            )
        }),
        step("produce/zero-id", |at| {
            let records = Some(kept(batch(at, 0, &["a"])));
            ask(-1, vec![Part { topic: "empty", topic_id: Uuid::ZERO, index: 0, records }])
        })
        .at(13..=13),
        step("produce/bad-name", |at| ask(-1, vec![partition(at, "bad name!", 0, kept(batch(at, 0, &["a"])))]))
            .at(3..=12),
        step("produce/acks-0-unknown-topic", |at| {
            ask(0, vec![partition(at, "no-such-topic", 0, kept(batch(at, 0, &["a"])))])
        })
        .silent(),
        step("produce/acks-2", |at| ask(2, vec![partition(at, "empty", 0, kept(batch(at, 0, &["a"])))])),
        step("produce/metadata-log", |at| {
            ask(-1, vec![partition(at, "__cluster_metadata", 0, kept(batch(at, 0, &["a"])))])
        })
        .at(3..=12),
        step("produce/partition-twice", |at| {
            let sent = |value| partition(at, at.name("twice"), 0, kept(batch(at, 0, &[value])));
            ask(-1, vec![sent("a"), sent("b")])
        }),
        step("produce/one-good-one-bad", |at| {
            let good = partition(at, at.name("produce"), 1, kept(batch(at, 0, &["a"])));
            let bad = partition(at, at.name("produce"), 9, kept(batch(at, 0, &["b"])));
            ask(-1, vec![good, bad])
        }),
    ]
}

/// Bytes that are no sound batch.
fn damaged() -> Vec<Step> {
    vec![
        step("produce/null-records", |at| {
            ask(-1, vec![Part { topic: "empty", topic_id: at.id("empty"), index: 0, records: None }])
        })
        .at(13..=13),
        one("produce/no-batch", "empty", |_| Vec::new()),
        one("produce/bad-crc", "empty", |_| {
            // What it says is told in words, and is to be the same in every run.
            let mut batch = timeless();
            batch[field::CRC] ^= 1;
            batch
        }),
        one("produce/magic-0", "empty", |_| old_message(0)),
        one("produce/magic-1", "empty", |_| old_message(1)),
        one("produce/magic-3", "empty", |at| patched(batch(at, 0, &["a"]), field::MAGIC, &[3])),
        one("produce/magic-minus-1", "empty", |at| patched(batch(at, 0, &["a"]), field::MAGIC, &[0xff])),
        one("produce/two-batches", "empty", |at| [batch(at, 0, &["a"]), batch(at, 0, &["b"])].concat()),
        one("produce/cut-off", "empty", |at| {
            let mut batch = batch(at, 0, &["a"]);
            batch.truncate(batch.len() - 3);
            batch
        }),
        one("produce/short", "empty", |_| vec![0; 8]),
        one("produce/length-too-small", "empty", |at| {
            patched(batch(at, 0, &["a"]), field::BATCH_LENGTH, &4_i32.to_be_bytes())
        }),
        one("produce/length-negative", "empty", |at| {
            patched(batch(at, 0, &["a"]), field::BATCH_LENGTH, &(-1_i32).to_be_bytes())
        }),
        one("produce/record-count", "empty", |at| {
            patched(batch(at, 0, &["a", "b"]), field::RECORD_COUNT, &3_i32.to_be_bytes())
        }),
        one("produce/last-offset-delta", "empty", |at| {
            patched(batch(at, 0, &["a", "b"]), field::LAST_OFFSET_DELTA, &7_i32.to_be_bytes())
        }),
        one("produce/no-records", "empty", |at| {
            patched(batch(at, 0, &["a"]), field::RECORD_COUNT, &0_i32.to_be_bytes())
        }),
        own("produce/garbage-records", "garbage", |at| patched(batch(at, 0, &["abcdefgh"]), 61, &[0xff; 8])),
        own("produce/garbage-compressed", "garbage", |at| {
            patched(compressed(at, Compression::Gzip, &["a", "a"]), 61, &[0xff; 8])
        }),
    ]
}

/// Sound batches that a rule of the broker or of the topic refuses.
fn against_rules() -> Vec<Step> {
    vec![
        one("produce/base-offset", "empty", |at| {
            patched(batch(at, 0, &["a"]), field::BASE_OFFSET, &5_i64.to_be_bytes())
        }),
        one("produce/unknown-compression", "empty", |at| {
            patched(batch(at, 0, &["a"]), field::ATTRIBUTES, &6_u16.to_be_bytes())
        }),
        one("produce/control", "empty", |at| {
            batch_with(at, BatchOptions { control: true, ..Default::default() }, 0, &["a"])
        }),
        own("produce/append-time-from-client", "odd", |at| {
            patched(batch(at, 0, &["a"]), field::ATTRIBUTES, &8_u16.to_be_bytes())
        }),
        one("produce/append-time-from-client-on-append-time", "stamped", |at| {
            patched(batch(at, 0, &["a"]), field::ATTRIBUTES, &8_u16.to_be_bytes())
        }),
        one("produce/too-large", "small", |at| {
            let value = "x".repeat(300);
            batch(at, 0, &[&value])
        }),
        one("produce/too-large-for-the-default", "empty", |at| {
            let value = "x".repeat(1_048_588);
            batch(at, 0, &[&value])
        }),
        one("produce/too-old", "recent", |at| batch(at, 0, &["old"])),
        one("produce/one-too-old", "recent", |at| at_times(at, &[3_000_000, 0, 3_000_010])),
        one("produce/old-enough", "recent", |at| at_times(at, &[3_000_000, 3_000_010])),
        one("produce/too-new", "timely", |at| batch(at, 8 * 3_600_000, &["a", "from tomorrow"])),
        one("produce/too-new-by-default", "empty", |at| batch(at, 8 * 3_600_000, &["from tomorrow"])),
        one("produce/too-new-on-append-time", "stamped", |at| batch(at, 8 * 3_600_000, &["from tomorrow"])),
        own("produce/no-timestamp", "produce", |_| timeless()),
        own("produce/not-enough-copies", "copies", |at| batch(at, 0, &["a"])),
        step("produce/not-enough-copies-acks-1", |at| {
            ask(1, vec![partition(at, at.name("copies"), 0, kept(batch(at, 0, &["a"])))])
        }),
        own("produce/keyless-to-compacted", "compacted", |at| keyless(at, 0)),
        own("produce/keyed-to-compacted", "compacted", |at| batch(at, 0, &["a"])),
        step("produce/transactional-id-without-transaction", |at| ProduceRequest {
            transactional_id: Some("unheard-of"),
            ..ask(-1, vec![partition(at, at.name("odd"), 0, kept(batch(at, 0, &["a"])))])
        }),
        own("produce/transactional-batch-without-producer", "odd", |at| {
            batch_with(at, BatchOptions { transactional: true, ..Default::default() }, 0, &["a"])
        }),
        own("produce/sequence-without-epoch", "odd", |at| records::stamped(at, NOBODY, -1, 0, &["a"])),
        own("produce/producer-without-sequence", "odd", |at| records::stamped(at, NOBODY, 0, -1, &["a"])),
    ]
}
