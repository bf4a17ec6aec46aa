//! Metadata and DescribeTopicPartitions.

use base::{PartitionIndex, Uuid};
use wire::messages::describe_topic_partitions::{Cursor, DescribeTopicPartitionsRequest, TopicRequest};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::step::{At, NO_SUCH_ID, Step, kept, step};

fn named(name: &'static str) -> MetadataRequestTopic<'static> {
    MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(name) }
}

fn by_id(topic_id: Uuid) -> MetadataRequestTopic<'static> {
    MetadataRequestTopic { topic_id, name: None }
}

/// For these topics, none of which is to be made.
fn ask(topics: Vec<MetadataRequestTopic<'static>>) -> MetadataRequest<'static> {
    MetadataRequest { topics: Some(topics.into()), allow_auto_topic_creation: false, ..Default::default() }
}

/// What lists all topics.
pub fn all() -> Vec<Step> {
    let describe = |names: &[&'static str], limit, cursor| DescribeTopicPartitionsRequest {
        topics: names.iter().map(|&name| TopicRequest { name }).collect(),
        response_partition_limit: limit,
        cursor,
    };
    let cursor = |topic_name, index| Some(Cursor { topic_name, partition_index: PartitionIndex(index) });
    vec![
        step("metadata/all", |at| MetadataRequest {
            topics: if at.version == 0 { Some(vec![].into()) } else { None },
            ..Default::default()
        }),
        step("describe-topic-partitions/all", move |_| describe(&[], 2000, None)),
        step("describe-topic-partitions/page-of-all", move |_| describe(&[], 3, None)),
        step("describe-topic-partitions/page-from-a-cursor", move |_| describe(&[], 2, cursor("log", 1))),
        step("describe-topic-partitions/from-a-cursor-at-no-topic", move |_| describe(&[], 2000, cursor("small-", 0))),
        step("describe-topic-partitions/from-a-cursor-behind-all", move |_| describe(&[], 2000, cursor("zzz", 0))),
        step("describe-topic-partitions/named", move |_| describe(&["log", "empty"], 2000, None)),
        step("describe-topic-partitions/unknown", move |_| describe(&["log", "no-such-topic"], 2000, None)),
        step("describe-topic-partitions/twice", move |_| describe(&["log", "empty", "log"], 2000, None)),
        step("describe-topic-partitions/bad-name", move |_| describe(&["log", "bad name!"], 2000, None)),
        step("describe-topic-partitions/empty-name", move |_| describe(&["log", ""], 2000, None)),
        step("describe-topic-partitions/limit-0", move |_| describe(&["log"], 0, None)),
        step("describe-topic-partitions/limit-negative", move |_| describe(&["log"], -1, None)),
        step("describe-topic-partitions/limit-ends-with-a-topic", move |_| describe(&["empty", "log"], 1, None)),
        step("describe-topic-partitions/cursor-negative", move |_| describe(&["log"], 2000, cursor("log", -1))),
        step("describe-topic-partitions/cursor-past-the-partitions", move |_| {
            describe(&["log"], 2000, cursor("log", 9))
        }),
        step("describe-topic-partitions/cursor-not-among-the-named", move |_| {
            describe(&["log", "empty"], 2000, cursor("fence", 0))
        }),
    ]
}

pub fn steps() -> Vec<Step> {
    let mut steps = known();
    steps.extend(unknown());
    steps.extend(created());
    steps
}

fn known() -> Vec<Step> {
    vec![
        step("metadata/named", |at| {
            // Before version 4 a request always allows topics to be made; these are there.
            let asked = ask(vec![named("log"), named("empty")]);
            MetadataRequest { allow_auto_topic_creation: at.version < 4, ..asked }
        }),
        step("metadata/none", |_| ask(vec![])).at(4..=13),
        step("metadata/none-of-old", |_| MetadataRequest { topics: Some(vec![].into()), ..Default::default() })
            .at(1..=3),
        step("metadata/twice", |_| ask(vec![named("empty"), named("log"), named("empty")])).at(4..=13),
        step("metadata/operations", |_| MetadataRequest {
            include_cluster_authorized_operations: true,
            include_topic_authorized_operations: true,
            ..ask(vec![named("empty"), named("no-such-topic")])
        })
        .at(8..=10),
        step("metadata/topic-operations", |_| MetadataRequest {
            include_topic_authorized_operations: true,
            ..ask(vec![named("empty"), named("no-such-topic")])
        })
        .at(11..=13),
        step("metadata/by-id", |at| ask(vec![by_id(at.id("log")), by_id(NO_SUCH_ID)])).at(12..=13),
        step("metadata/by-id-and-name", |at| {
            let both = MetadataRequestTopic { topic_id: at.id("empty"), name: Some("log") };
            ask(vec![both])
        })
        .at(10..=13),
        step("metadata/by-ids-and-by-names", |at| ask(vec![by_id(at.id("log")), named("empty")])).at(12..=13),
    ]
}

fn unknown() -> Vec<Step> {
    vec![
        step("metadata/unknown", |_| ask(vec![named("no-such-topic"), named("empty")])).at(4..=13),
        step("metadata/bad-names", |_| {
            let long = kept("x".repeat(250));
            ask(vec![named("bad name!"), named("."), named(".."), named(""), named(long), named("empty")])
        })
        .at(4..=13),
        step("metadata/bad-name-to-be-made", |_| MetadataRequest {
            topics: Some(vec![named("bad name!"), named("")].into()),
            ..Default::default()
        }),
        step("metadata/metadata-log", |_| ask(vec![named("__cluster_metadata")])).at(4..=13),
        step("metadata/by-id-before-its-time", |at| ask(vec![by_id(at.id("log"))])).at(10..=11),
        step("metadata/neither-id-nor-name", |_| ask(vec![by_id(Uuid::ZERO)])).at(10..=13),
    ]
}

fn created() -> Vec<Step> {
    let make = |at: &At<'_>, name| MetadataRequest {
        topics: Some(vec![named(at.name(name))].into()),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    vec![
        step("metadata/makes-a-topic", move |at| make(at, "auto")).changes(),
        step("metadata/made-a-topic", move |at| make(at, "auto")),
        step("metadata/makes-no-metadata-log", |_| MetadataRequest {
            topics: Some(vec![named("__cluster_metadata")].into()),
            ..Default::default()
        }),
        step("metadata/makes-what-collides", |_| MetadataRequest {
            topics: Some(vec![named("two.copies")].into()),
            ..Default::default()
        })
        .changes(),
    ]
}
