//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

use wire::messages::alter_configs::{self as whole, AlterConfigsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{self as incremental, IncrementalAlterConfigsRequest};
use wire::messages::list_config_resources::ListConfigResourcesRequest;

use super::setup::{create, topic};
use crate::step::{At, Step, kept, step};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const METRICS: i8 = 16;
const GROUP: i8 = 32;

/// Settings of a broker that both have, and three that only one has.
const BROKER_KEYS: &[&str] = &[
    "auto.create.topics.enable",
    "broker.id",
    "compression.type",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.scheduler.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connections",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "min.insync.replicas",
    "no.such.setting",
    "node.id",
    "num.network.threads",
    "num.partitions",
    "producer.id.expiration.ms",
    "socket.request.max.bytes",
    "tidemill.durability",
    "unclean.leader.election.enable",
];

pub fn steps() -> Vec<Step> {
    let mut steps = described();
    steps.extend(not_described());
    steps.push(topics_to_alter());
    steps.extend(replaced());
    steps.extend(not_replaced());
    steps.extend(changed());
    steps.extend(not_changed());
    steps.extend(of_groups());
    steps
}

/// A topic for each version of the two that alter.
fn topics_to_alter() -> Step {
    step("setup/topics-to-alter", |_| {
        let names = (0..=2).map(|version| format!("replaced-v{version}"));
        let names = names.chain((0..=1).map(|version| format!("changed-v{version}")));
        create(names.map(|name| topic(kept(name), 1, &[("segment.bytes", "2097152")])).collect())
    })
    .at(4..=4)
    .changes()
}

fn asked(
    resource_type: i8,
    resource_name: &'static str,
    keys: Option<&[&'static str]>,
) -> DescribeConfigsResource<'static> {
    let configuration_keys = keys.map(|keys| keys.iter().copied().collect());
    DescribeConfigsResource { resource_type, resource_name, configuration_keys }
}

fn describe(resources: Vec<DescribeConfigsResource<'static>>) -> DescribeConfigsRequest<'static> {
    DescribeConfigsRequest { resources: resources.into(), ..Default::default() }
}

fn described() -> Vec<Step> {
    let all = |at: &At<'_>, resources| DescribeConfigsRequest {
        include_synonyms: true,
        include_documentation: at.version >= 3,
        ..describe(resources)
    };
    vec![
        step("describe-configs/topic", move |at| all(at, vec![asked(TOPIC, "configured", None)])),
        step("describe-configs/topic-in-short", |_| {
            let keys = ["retention.ms", "segment.bytes", "max.message.bytes", "no.such.setting"];
            describe(vec![asked(TOPIC, "configured", Some(&keys)), asked(TOPIC, "empty", Some(&keys))])
        }),
        step("describe-configs/no-keys", |_| describe(vec![asked(TOPIC, "configured", Some(&[]))])),
        step("describe-configs/broker", move |at| all(at, vec![asked(BROKER, "1", Some(BROKER_KEYS))])),
        step("describe-configs/all-brokers", |_| describe(vec![asked(BROKER, "", None)])),
        step("describe-configs/none", |_| describe(vec![])),
    ]
}

fn not_described() -> Vec<Step> {
    vec![
        step("describe-configs/unknown-topics", |_| {
            let names = ["no-such-topic", "bad name!", "", "."];
            describe(names.into_iter().map(|name| asked(TOPIC, name, None)).collect())
        }),
        step("describe-configs/unknown-brokers", |_| {
            let names = ["9", "one", "-1"];
            describe(names.into_iter().map(|name| asked(BROKER, name, None)).collect())
        }),
        step("describe-configs/loggers", |_| {
            let names = ["9", ""];
            describe(names.into_iter().map(|name| asked(LOGGER, name, Some(&[]))).collect())
        }),
        step("describe-configs/loggers-of-this-broker", |_| {
            describe(vec![asked(LOGGER, "1", Some(&["no.such.logger"]))])
        }),
        step("describe-configs/metrics", |_| describe(vec![asked(METRICS, "all", None), asked(METRICS, "", None)])),
        step("describe-configs/groups", |_| describe(vec![asked(GROUP, "readers", Some(&[])), asked(GROUP, "", None)])),
        step("describe-configs/unheard-of", |_| describe(vec![asked(3, "log", None), asked(0, "log", None)])),
        step("describe-configs/twice", |_| {
            let short = || asked(TOPIC, "log", Some(&["retention.ms"]));
            describe(vec![short(), short(), asked(TOPIC, "empty", Some(&["retention.ms"]))])
        }),
    ]
}

type Setting = (&'static str, Option<&'static str>);

fn replace(
    resource_type: i8,
    resource_name: &'static str,
    settings: &[Setting],
) -> whole::AlterConfigsResource<'static> {
    let config = |(name, value): &Setting| whole::AlterableConfig { name, value: *value };
    whole::AlterConfigsResource { resource_type, resource_name, configs: settings.iter().map(config).collect() }
}

fn replace_all(resources: Vec<whole::AlterConfigsResource<'static>>) -> AlterConfigsRequest<'static> {
    AlterConfigsRequest { resources: resources.into(), validate_only: false }
}

/// What a topic's own settings are after a step.
fn look(name: &'static str, topics: &'static [&'static str]) -> Step {
    step(name, move |_| {
        let keys = ["retention.ms", "segment.bytes", "max.message.bytes", "cleanup.policy"];
        describe(topics.iter().map(|name| asked(TOPIC, name, Some(&keys))).collect())
    })
    .at(4..=4)
}

fn replaced() -> Vec<Step> {
    vec![
        step("alter-configs/set", |at| {
            let settings = [("retention.ms", Some("7200000")), ("max.message.bytes", Some("6000"))];
            replace_all(vec![replace(TOPIC, at.name("replaced"), &settings)])
        })
        .changes(),
        look("alter-configs/was-set", &["replaced-v0", "replaced-v1", "replaced-v2"]),
        step("alter-configs/validate-only", |at| AlterConfigsRequest {
            validate_only: true,
            ..replace_all(vec![replace(TOPIC, at.name("replaced"), &[("retention.ms", Some("1"))])])
        })
        .changes(),
        look("alter-configs/was-validated", &["replaced-v0"]),
        step("alter-configs/nothing-left", |at| replace_all(vec![replace(TOPIC, at.name("replaced"), &[])])).changes(),
        look("alter-configs/was-emptied", &["replaced-v0", "replaced-v2"]),
        step("alter-configs/none", |_| replace_all(vec![])),
    ]
}

fn not_replaced() -> Vec<Step> {
    let of_topic = |name, settings: &[Setting]| step_replace(name, TOPIC, "configured", settings);
    vec![
        step("alter-configs/unknown-topics", |_| {
            let names = ["no-such-topic", "bad name!", ""];
            replace_all(names.into_iter().map(|name| replace(TOPIC, name, &[("retention.ms", Some("1"))])).collect())
        })
        .changes(),
        of_topic("alter-configs/unknown-setting", &[("no.such.setting", Some("1"))]),
        of_topic("alter-configs/no-number", &[("retention.ms", Some("soon"))]),
        of_topic("alter-configs/too-low", &[("retention.ms", Some("-2"))]),
        of_topic("alter-configs/no-value", &[("retention.ms", None)]),
        of_topic("alter-configs/setting-twice", &[("retention.ms", Some("1")), ("retention.ms", Some("2"))]),
        of_topic("alter-configs/empty-name", &[("", Some("1"))]),
        step("alter-configs/twice", |_| {
            let once = |value| replace(TOPIC, "configured", &[("retention.ms", Some(value))]);
            replace_all(vec![once("1"), once("2"), replace(TOPIC, "small", &[("max.message.bytes", Some("200"))])])
        })
        .at(2..=2)
        .changes(),
        step_replace("alter-configs/other-broker", BROKER, "9", &[("log.cleaner.threads", Some("1"))]),
        step_replace("alter-configs/broker-no-number", BROKER, "one", &[("log.cleaner.threads", Some("1"))]),
        step_replace("alter-configs/broker-read-only", BROKER, "1", &[("node.id", Some("1"))]),
        step_replace("alter-configs/logger", LOGGER, "1", &[("kafka", Some("INFO"))]),
        step_replace("alter-configs/unheard-of", 3, "log", &[("retention.ms", Some("1"))]),
        look("alter-configs/unharmed", &["configured", "small"]),
    ]
}

fn step_replace(name: &'static str, kind: i8, resource: &'static str, settings: &[Setting]) -> Step {
    let settings = settings.to_vec();
    step(name, move |_| replace_all(vec![replace(kind, resource, &settings)])).changes()
}

/// Name, operation, value.
type Operation = (&'static str, i8, Option<&'static str>);
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn change(
    resource_type: i8,
    resource_name: &'static str,
    operations: &[Operation],
) -> incremental::AlterConfigsResource<'static> {
    let config = |(name, config_operation, value): &Operation| incremental::AlterableConfig {
        name,
        config_operation: *config_operation,
        value: *value,
    };
    incremental::AlterConfigsResource { resource_type, resource_name, configs: operations.iter().map(config).collect() }
}

fn change_all(resources: Vec<incremental::AlterConfigsResource<'static>>) -> IncrementalAlterConfigsRequest<'static> {
    IncrementalAlterConfigsRequest { resources: resources.into(), validate_only: false }
}

fn step_change(name: &'static str, kind: i8, resource: &'static str, operations: &[Operation]) -> Step {
    let operations = operations.to_vec();
    step(name, move |_| change_all(vec![change(kind, resource, &operations)])).changes()
}

fn changed() -> Vec<Step> {
    vec![
        step("incremental-alter/set", |at| {
            let operations = [("retention.ms", SET, Some("7200000")), ("segment.bytes", DELETE, None)];
            change_all(vec![change(TOPIC, at.name("changed"), &operations)])
        })
        .changes(),
        look("incremental-alter/was-set", &["changed-v0", "changed-v1"]),
        step("incremental-alter/lists", |at| {
            change_all(vec![change(TOPIC, at.name("changed"), &[("cleanup.policy", APPEND, Some("delete"))])])
        })
        .changes(),
        look("incremental-alter/was-appended", &["changed-v0"]),
        step("incremental-alter/validate-only", |at| IncrementalAlterConfigsRequest {
            validate_only: true,
            ..change_all(vec![change(TOPIC, at.name("changed"), &[("retention.ms", DELETE, None)])])
        })
        .changes(),
        look("incremental-alter/was-validated", &["changed-v0"]),
        step("incremental-alter/delete", |at| {
            change_all(vec![change(
                TOPIC,
                at.name("changed"),
                &[("retention.ms", DELETE, None), ("max.message.bytes", DELETE, None)],
            )])
        })
        .changes(),
        look("incremental-alter/was-deleted", &["changed-v0"]),
        step("incremental-alter/nothing", |_| change_all(vec![change(TOPIC, "configured", &[])])).changes(),
        step("incremental-alter/none", |_| change_all(vec![])),
    ]
}

fn not_changed() -> Vec<Step> {
    let of_topic = |name, operations: &[Operation]| step_change(name, TOPIC, "configured", operations);
    vec![
        step("incremental-alter/unknown-topics", |_| {
            let names = ["no-such-topic", "bad name!", ""];
            change_all(names.into_iter().map(|name| change(TOPIC, name, &[("retention.ms", SET, Some("1"))])).collect())
        })
        .changes(),
        of_topic("incremental-alter/unknown-setting", &[("no.such.setting", SET, Some("1"))]),
        of_topic("incremental-alter/delete-unknown-setting", &[("no.such.setting", DELETE, None)]),
        of_topic("incremental-alter/no-number", &[("retention.ms", SET, Some("soon"))]),
        of_topic("incremental-alter/too-low", &[("retention.ms", SET, Some("-2"))]),
        of_topic("incremental-alter/no-value", &[("retention.ms", SET, None)]),
        of_topic("incremental-alter/append-no-value", &[("cleanup.policy", APPEND, None)]),
        of_topic("incremental-alter/append-to-a-number", &[("retention.ms", APPEND, Some("1"))]),
        of_topic("incremental-alter/subtract-from-a-number", &[("retention.ms", SUBTRACT, Some("1"))]),
        of_topic("incremental-alter/append-unknown-policy", &[("cleanup.policy", APPEND, Some("keep"))]),
        of_topic("incremental-alter/append-to-unknown-setting", &[("no.such.setting", APPEND, Some("1"))]),
        of_topic("incremental-alter/subtract-what-is-not-there", &[("cleanup.policy", SUBTRACT, Some("compact"))]),
        of_topic("incremental-alter/subtract-all", &[("cleanup.policy", SUBTRACT, Some("delete"))]),
        of_topic("incremental-alter/unheard-of-operation", &[("retention.ms", 9, Some("1"))]),
        of_topic("incremental-alter/empty-name", &[("", SET, Some("1"))]),
        of_topic(
            "incremental-alter/setting-twice",
            &[("retention.ms", SET, Some("1")), ("retention.ms", DELETE, None)],
        ),
        step("incremental-alter/twice", |_| {
            let once = |value| change(TOPIC, "configured", &[("retention.ms", SET, Some(value))]);
            change_all(vec![once("1"), once("2"), change(TOPIC, "small", &[("max.message.bytes", SET, Some("200"))])])
        })
        .changes(),
        step_change("incremental-alter/other-broker", BROKER, "9", &[("log.cleaner.threads", SET, Some("1"))]),
        step_change("incremental-alter/broker-no-number", BROKER, "one", &[("log.cleaner.threads", SET, Some("1"))]),
        step_change("incremental-alter/broker-read-only", BROKER, "1", &[("node.id", SET, Some("1"))]),
        step_change("incremental-alter/loggers-of-another", LOGGER, "9", &[("kafka", SET, Some("INFO"))]),
        step_change("incremental-alter/logger-unknown-level", LOGGER, "1", &[("kafka", SET, Some("LOUD"))]),
        step_change(
            "incremental-alter/metrics-unknown-setting",
            METRICS,
            "all",
            &[("no.such.setting", SET, Some("1"))],
        ),
        step_change(
            "incremental-alter/group-unknown-setting",
            GROUP,
            "readers",
            &[("no.such.setting", SET, Some("1"))],
        ),
        step_change("incremental-alter/unheard-of", 3, "log", &[("retention.ms", SET, Some("1"))]),
        look("incremental-alter/unharmed", &["configured", "small"]),
    ]
}

const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";

/// The settings of single groups, which need not be there.
fn of_groups() -> Vec<Step> {
    let look = |name: &'static str, group: &'static str| {
        step(name, move |_| DescribeConfigsRequest {
            include_synonyms: true,
            ..describe(vec![asked(GROUP, group, Some(&[SESSION, HEARTBEAT]))])
        })
    };
    let of_group = |name, operations: &[Operation]| step_change(name, GROUP, "tuned", operations);
    vec![
        look("group-settings/of-no-group", "nobody"),
        of_group("group-settings/set", &[(SESSION, SET, Some("50000")), (HEARTBEAT, SET, Some("6000"))]),
        look("group-settings/were-set", "tuned"),
        step("group-settings/listed", |_| ListConfigResourcesRequest { resource_types: [GROUP].into_iter().collect() })
            .at(1..=1),
        of_group("group-settings/too-low", &[(SESSION, SET, Some("44999"))]),
        of_group("group-settings/too-high", &[(HEARTBEAT, SET, Some("15001"))]),
        of_group("group-settings/no-number", &[(HEARTBEAT, SET, Some("often"))]),
        of_group("group-settings/no-value", &[(HEARTBEAT, SET, None)]),
        of_group("group-settings/append", &[(HEARTBEAT, APPEND, Some("6000"))]),
        of_group("group-settings/delete-unknown", &[("no.such.setting", DELETE, None)]),
        of_group("group-settings/one-of-two-is-wrong", &[(SESSION, SET, Some("51000")), (HEARTBEAT, SET, Some("1"))]),
        step_change("group-settings/of-all-groups", GROUP, "", &[(SESSION, SET, Some("50000"))]),
        look("group-settings/unharmed", "tuned"),
        of_group("group-settings/delete", &[(SESSION, DELETE, None)]),
        look("group-settings/was-deleted", "tuned"),
        step_replace("group-settings/replace", GROUP, "tuned", &[(SESSION, Some("55000"))]),
        look("group-settings/was-replaced", "tuned"),
        step_replace("group-settings/empty", GROUP, "tuned", &[]),
        look("group-settings/was-emptied", "tuned"),
    ]
}
