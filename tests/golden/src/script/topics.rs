//! CreateTopics, CreatePartitions, DeleteTopics and DeleteRecords.

use base::{BrokerId, PartitionIndex, Uuid};
use wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic};
use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::produce::ProduceRequest;

use super::offsets;
use super::produce::{self, PRODUCE_VERSIONS};
use super::records::{self, batch};
use super::setup::{create, topic};
use crate::step::{At, NO_SUCH_ID, Step, kept, step};

pub fn steps() -> Vec<Step> {
    let mut steps = created();
    steps.extend(not_created());
    steps.extend(assignments());
    steps.extend(grown());
    steps.push(trim_topics());
    steps.push(step("setup/trim-records", trim_records).at(9..=9));
    steps.extend(offsets::delete_records());
    steps.extend(deleted());
    steps
}

/// A topic for each version of DeleteRecords.
fn trim_topics() -> Step {
    let names = (0..=2).map(|version| topic(kept(format!("trim-v{version}")), 1, &[]));
    step("setup/trim-topics", move |_| create(names.clone().collect())).at(4..=4).changes()
}

fn trim_records(at: &At<'_>) -> ProduceRequest<'static> {
    let sent = |version| {
        let records = records::kept(batch(at, 0, &["a", "b", "c", "d", "e"]));
        produce::partition(at, kept(format!("trim-v{version}")), 0, records)
    };
    produce::ask(-1, (0..=2).map(sent).collect())
}

/// Topics for steps of Produce, which change what they use: one for each version.
pub fn topic_per_version() -> Step {
    let of_version = |version: i16| {
        let name = |name: &str| kept(format!("{name}-v{version}"));
        let plain = ["produce", "idempotent", "twice", "garbage", "odd"].map(|plain| topic(name(plain), 2, &[]));
        plain.into_iter().chain([topic(name("copies"), 1, &[("min.insync.replicas", "2")])])
    };
    step("setup/topic-per-version", move |_| create(PRODUCE_VERSIONS.flat_map(of_version).collect()))
        .at(4..=4)
        .changes()
}

fn assigned(name: &'static str, assignments: &[(i32, &[i32])]) -> CreatableTopic<'static> {
    let assignment = |(index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: PartitionIndex(*index),
        broker_ids: brokers.iter().copied().map(BrokerId).collect(),
    };
    CreatableTopic {
        name,
        num_partitions: -1,
        replication_factor: -1,
        assignments: assignments.iter().map(assignment).collect(),
        ..Default::default()
    }
}

fn created() -> Vec<Step> {
    vec![
        step("create-topics/plain", |at| create(vec![topic(at.name("made"), 2, &[])])).changes(),
        step("create-topics/defaults", |at| {
            let defaults =
                CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic(at.name("default"), 1, &[]) };
            create(vec![defaults])
        })
        .changes(),
        step("create-topics/configs", |at| {
            let configs = [("retention.ms", "3600000"), ("max.message.bytes", "5000"), ("cleanup.policy", "delete")];
            create(vec![topic(at.name("with-configs"), 1, &configs)])
        })
        .changes(),
        step("create-topics/assignments", |at| create(vec![assigned(at.name("assigned"), &[(1, &[1]), (0, &[1])])]))
            .changes(),
        step("create-topics/validate-only", |at| CreateTopicsRequest {
            validate_only: true,
            ..create(vec![topic(at.name("never"), 3, &[("retention.ms", "5")]), topic("log", 1, &[])])
        })
        .changes(),
        step("create-topics/none", |_| create(vec![])),
    ]
}

fn not_created() -> Vec<Step> {
    let replicated = |name, replication_factor| CreatableTopic { replication_factor, ..topic(name, 1, &[]) };
    let configured = |name, configs: &[(&'static str, Option<&'static str>)]| CreatableTopic {
        configs: configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: *value }).collect(),
        ..topic(name, 1, &[])
    };
    vec![
        step("create-topics/names", |_| {
            let long = kept("x".repeat(250));
            let names = ["log", "bad name!", ".", "..", "", long, "__cluster_metadata", "two.copies", "two_copies"];
            create(names.into_iter().map(|name| topic(name, 1, &[])).collect())
        })
        .changes(),
        step("create-topics/twice", |at| {
            create(vec![topic("twice", 1, &[]), topic(at.name("once"), 1, &[]), topic("twice", 2, &[])])
        })
        .changes(),
        step("create-topics/counts", move |_| {
            create(vec![
                topic("no-partitions", 0, &[]),
                topic("minus-2-partitions", -2, &[]),
                replicated("no-replicas", 0),
                replicated("minus-2-replicas", -2),
                replicated("two-replicas", 2),
            ])
        })
        .changes(),
        step("create-topics/too-many-partitions", |_| create(vec![topic("too-many", 10_001, &[])])).changes(),
        step("create-topics/settings", move |_| {
            create(vec![
                configured("unknown-setting", &[("no.such.setting", Some("1"))]),
                configured("no-number", &[("retention.ms", Some("soon"))]),
                configured("too-low", &[("retention.ms", Some("-2"))]),
                configured("too-high", &[("segment.bytes", Some("99999999999"))]),
                configured("no-value", &[("retention.ms", None)]),
                configured("empty-value", &[("retention.ms", Some(""))]),
                configured("no-such-choice", &[("message.timestamp.type", Some("Whenever"))]),
                configured("no-such-policy", &[("cleanup.policy", Some("keep"))]),
                configured("no-boolean", &[("preallocate", Some("perhaps"))]),
                configured("setting-twice", &[("retention.ms", Some("1")), ("retention.ms", Some("2"))]),
            ])
        })
        .changes(),
    ]
}

fn assignments() -> Vec<Step> {
    vec![
        step("create-topics/bad-assignments", |_| {
            let counted = CreatableTopic { num_partitions: 1, ..assigned("with-partitions", &[(0, &[1])]) };
            let replicated = CreatableTopic { replication_factor: 1, ..assigned("with-replicas", &[(0, &[1])]) };
            create(vec![
                counted,
                replicated,
                assigned("gap", &[(0, &[1]), (2, &[1])]),
                assigned("not-from-0", &[(1, &[1])]),
                assigned("negative", &[(-1, &[1])]),
                assigned("partition-twice", &[(0, &[1]), (0, &[1])]),
                assigned("replica-twice", &[(0, &[1, 1])]),
                assigned("no-such-broker", &[(0, &[9])]),
                assigned("no-brokers", &[(0, &[])]),
                assigned("unequal", &[(0, &[1]), (1, &[1, 9])]),
            ])
        })
        .changes(),
    ]
}

fn grown() -> Vec<Step> {
    let to = |name, count, assignments: Option<&[&[i32]]>| CreatePartitionsTopic {
        name,
        count,
        assignments: assignments.map(|assignments| {
            let assignment = |brokers: &&[i32]| CreatePartitionsAssignment {
                broker_ids: brokers.iter().copied().map(BrokerId).collect(),
            };
            assignments.iter().map(assignment).collect()
        }),
    };
    let ask =
        |topics: Vec<_>| CreatePartitionsRequest { topics: topics.into(), timeout_ms: 30_000, validate_only: false };
    vec![
        step("setup/topics-to-grow", |_| {
            let names = (0..=3).flat_map(|version| ["grow", "grow-by-hand"].map(|name| format!("{name}-v{version}")));
            create(names.map(|name| topic(kept(name), 1, &[])).collect())
        })
        .at(4..=4)
        .changes(),
        step("create-partitions/validate-only", move |at| CreatePartitionsRequest {
            validate_only: true,
            ..ask(vec![to(at.name("grow"), 9, None), to(at.name("grow"), 1, None)])
        })
        .changes(),
        step("create-partitions/more", move |at| {
            ask(vec![to(at.name("grow"), 3, None), to(at.name("grow-by-hand"), 3, Some(&[&[1], &[1]]))])
        })
        .changes(),
        step("create-partitions/counts", move |_| {
            ask(vec![to("log", 3, None), to("empty", 0, None), to("configured", -1, None)])
        })
        .changes(),
        step("create-partitions/too-many", move |_| ask(vec![to("stamped", 20_000, None)])).changes(),
        step("create-partitions/fewer", move |_| ask(vec![to("log", 2, None)])).changes(),
        step("create-partitions/unknown", move |_| {
            ask(vec![to("no-such-topic", 3, None), to("bad name!", 3, None), to("", 3, None)])
        })
        .changes(),
        step("create-partitions/twice", move |_| {
            ask(vec![to("log", 4, None), to("log", 5, None), to("empty", 1, None)])
        })
        .changes(),
        step("create-partitions/bad-assignments", move |_| {
            ask(vec![
                to("log", 5, Some(&[&[1]])),
                to("empty", 2, Some(&[])),
                to("configured", 3, Some(&[&[9]])),
                to("stamped", 2, Some(&[&[]])),
                to("small", 2, Some(&[&[1, 1]])),
                to("recent", 2, Some(&[&[1], &[1]])),
            ])
        })
        .changes(),
        step("create-partitions/none", move |_| ask(vec![])),
    ]
}

fn deleted() -> Vec<Step> {
    let of = |at: &At<'_>, topics: Vec<DeleteTopicState<'static>>| {
        let names = topics.iter().filter_map(|topic| topic.name).collect();
        let (topics, topic_names) =
            if at.version < 6 { (vec![].into(), names) } else { (topics.into(), vec![].into()) };
        DeleteTopicsRequest { topics, topic_names, timeout_ms: 30_000 }
    };
    let named = |name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
    let by_id = |topic_id| DeleteTopicState { name: None, topic_id };
    vec![
        step("setup/topics-to-delete", |_| {
            let names = (1..=6).flat_map(|version| ["drop", "drop-twice"].map(|name| format!("{name}-v{version}")));
            let names = names.chain(["drop-by-id".to_owned()]);
            create(names.map(|name| topic(kept(name), 1, &[])).collect())
        })
        .at(4..=4)
        .changes(),
        step("delete-topics/named", move |at| of(at, vec![named(at.name("drop")), named("no-such-topic")])).changes(),
        step("delete-topics/gone", move |at| of(at, vec![named(at.name("drop"))])).changes(),
        step("delete-topics/twice", move |at| {
            of(at, vec![named(at.name("drop-twice")), named(at.name("drop-twice")), named("no-such-topic")])
        })
        .changes(),
        step("delete-topics/bad-names", move |at| {
            of(at, vec![named("bad name!"), named(""), named("__cluster_metadata")])
        })
        .changes(),
        step("delete-topics/by-id", move |at| of(at, vec![by_id(at.id("drop-by-id")), by_id(NO_SUCH_ID)]))
            .at(6..=6)
            .changes(),
        step("delete-topics/by-id-again", move |at| of(at, vec![by_id(at.id("drop-by-id"))])).at(6..=6).changes(),
        step("delete-topics/id-twice", move |at| of(at, vec![by_id(NO_SUCH_ID), by_id(NO_SUCH_ID)]))
            .at(6..=6)
            .changes(),
        step("delete-topics/id-and-name", move |at| {
            let both = DeleteTopicState { name: Some("log"), topic_id: at.id("log") };
            of(at, vec![both])
        })
        .at(6..=6)
        .changes(),
        step("delete-topics/named-by-name-and-by-id", move |at| {
            of(at, vec![named("drop-twice-v6"), by_id(at.id("drop-twice-v6"))])
        })
        .at(6..=6)
        .changes(),
        step("delete-topics/neither-id-nor-name", move |at| of(at, vec![by_id(Uuid::ZERO)])).at(6..=6).changes(),
        step("delete-topics/none", move |at| of(at, vec![])),
    ]
}
