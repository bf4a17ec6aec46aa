//! Settings as DescribeConfigs shows them: value, source, synonyms, type, documentation.
//!
//! A topic's setting is its own or the built-in default. A broker's settings are what its file and command line say, under Kafka's names
//! where Kafka has one and under `tidemill.` where it has none; they are read once, so none can be altered while it runs.

use std::collections::BTreeMap;

use super::node::{DurabilitySetting, NodeConfig};
use super::topic::{SETTINGS, TopicConfig, ValueType};

/// Where a value comes from; Kafka's numbers (`ConfigEntry.ConfigSource`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum ConfigSource {
    Topic = 1,
    /// The broker's file or command line.
    Broker = 4,
    Default = 5,
}

/// A place that gives a setting a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synonym {
    pub name: &'static str,
    pub value: String,
    pub source: ConfigSource,
}

/// One setting with all there is to say of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedSetting {
    pub name: &'static str,
    pub value: String,
    pub source: ConfigSource,
    pub read_only: bool,
    /// The one that counts first.
    pub synonyms: Vec<Synonym>,
    pub value_type: ValueType,
    pub doc: &'static str,
}

/// Every setting of a topic, in name order.
#[must_use]
pub fn describe_topic(config: &TopicConfig, own: &BTreeMap<String, String>) -> Vec<DescribedSetting> {
    SETTINGS
        .iter()
        .map(|setting| {
            let is_own = own.contains_key(setting.name);
            let value = setting.value(config);
            let mut synonyms = Vec::new();
            if is_own {
                synonyms.push(Synonym { name: setting.name, value: value.clone(), source: ConfigSource::Topic });
            }
            if let Some(name) = setting.broker_name {
                synonyms.push(Synonym { name, value: setting.default_value(), source: ConfigSource::Default });
            }
            DescribedSetting {
                name: setting.name,
                // A setting that is not its own is the default, even where another of its names was given.
                value: if is_own { value } else { setting.default_value() },
                source: if is_own { ConfigSource::Topic } else { ConfigSource::Default },
                read_only: false,
                synonyms,
                value_type: setting.value_type(),
                doc: setting.doc,
            }
        })
        .collect()
}

type Row = (&'static str, ValueType, fn(&NodeConfig) -> String, &'static str);

/// What a node's own settings are called by clients.
const BROKER: &[Row] = &[
    (
        "advertised.listeners",
        ValueType::String,
        |config| listener(config.advertised.as_ref().unwrap_or(&config.listen)),
        "Where clients are told to connect.",
    ),
    (
        "auto.create.topics.enable",
        ValueType::Boolean,
        |config| config.auto_create_topics.to_string(),
        "Whether a topic that a client asks for is created.",
    ),
    ("broker.id", ValueType::Int, |config| config.broker_id.to_string(), "This broker's id."),
    ("default.replication.factor", ValueType::Int, |_| "1".to_owned(), "Replicas of a topic created without a count."),
    ("delete.topic.enable", ValueType::Boolean, |_| "true".to_owned(), "Whether topics can be deleted."),
    (
        "fetch.max.bytes",
        ValueType::Int,
        |config| config.fetch_max_bytes.to_string(),
        "The most that one fetch is answered with.",
    ),
    ("listeners", ValueType::String, |config| listener(&config.listen), "Where the broker listens."),
    ("log.dir", ValueType::String, |config| config.data_dir.display().to_string(), "The data directory."),
    ("log.dirs", ValueType::String, |config| config.data_dir.display().to_string(), "The data directory."),
    (
        "log.retention.check.interval.ms",
        ValueType::Long,
        |config| config.retention_check_interval_ms.to_string(),
        "How often retention is looked at.",
    ),
    (
        "log.retention.hours",
        ValueType::Int,
        |_| "168".to_owned(),
        "How long a topic without retention.ms keeps its records.",
    ),
    (
        "log.roll.hours",
        ValueType::Int,
        |_| "168".to_owned(),
        "The age at which a segment of a topic without segment.ms ends.",
    ),
    ("log.roll.jitter.hours", ValueType::Int, |_| "0".to_owned(), "By how much that may be shortened at random."),
    ("max.connections", ValueType::Int, |config| config.connections_max.to_string(), "Connections at once."),
    (
        "max.incremental.fetch.session.cache.slots",
        ValueType::Int,
        |config| config.fetch_sessions_max.to_string(),
        "Fetch sessions that each shard remembers.",
    ),
    ("node.id", ValueType::Int, |config| config.broker_id.to_string(), "This broker's id."),
    (
        "num.partitions",
        ValueType::Int,
        |config| config.num_partitions.to_string(),
        "Partitions of a topic created without a count.",
    ),
    (
        "producer.id.expiration.ms",
        ValueType::Int,
        |config| config.producer_id_expiration_ms.to_string(),
        "How long an idle producer's sequence numbers are remembered.",
    ),
    ("socket.request.max.bytes", ValueType::Int, |config| config.max_request_bytes.to_string(), "The longest request."),
    (
        "tidemill.background.bytes.in.flight",
        ValueType::Long,
        |config| config.background_bytes_in_flight.to_string(),
        "Bytes of background work that may be under way on the device.",
    ),
    (
        "tidemill.checkpoint.interval.ms",
        ValueType::Long,
        |config| config.checkpoint_interval_ms.to_string(),
        "A checkpoint is made at least so often while anything is dirty.",
    ),
    (
        "tidemill.connection.bytes.in.flight",
        ValueType::Int,
        |config| config.connection_bytes_in_flight.to_string(),
        "Received and unanswered bytes of one connection.",
    ),
    (
        "tidemill.destage.delay.ms",
        ValueType::Long,
        |config| config.destage_delay_ms.to_string(),
        "How long journaled bytes wait before they go to their segments.",
    ),
    (
        "tidemill.disk.reserve.bytes",
        ValueType::Long,
        |config| config.disk_reserve_bytes.to_string(),
        "Free space that produce may not touch.",
    ),
    (
        "tidemill.durability",
        ValueType::String,
        |config| durability(config.durability).to_owned(),
        "When a record counts as held: \"disk\" once flushed, \"replicas\" once written.",
    ),
    (
        "tidemill.journal.bytes",
        ValueType::Long,
        |config| config.journal_bytes.to_string(),
        "The largest journal of one shard.",
    ),
    (
        "tidemill.memory.bytes",
        ValueType::Long,
        |config| config.memory_bytes.to_string(),
        "Memory for buffers and caches of the whole process.",
    ),
    (
        "tidemill.pin",
        ValueType::Boolean,
        |config| config.pin.to_string(),
        "Whether each shard's thread is bound to a core.",
    ),
    (
        "tidemill.shards",
        ValueType::Int,
        |config| config.shards.map_or_else(String::new, |shards| shards.to_string()),
        "Shards; empty for one on each core.",
    ),
];

fn listener(address: &str) -> String {
    format!("PLAINTEXT://{address}")
}

fn durability(setting: DurabilitySetting) -> &'static str {
    match setting {
        DurabilitySetting::Disk => "disk",
        DurabilitySetting::Replicas => "replicas",
    }
}

/// Every setting of a broker, in name order: its own, and the defaults of topics under the broker's names for them. `advertised` is where
/// clients are told to connect, a port that was left to the system included.
#[must_use]
pub fn describe_broker(config: &NodeConfig, advertised: &str) -> Vec<DescribedSetting> {
    let built_in = NodeConfig::default();
    let mut described = BTreeMap::new();
    for setting in SETTINGS {
        if let Some(name) = setting.broker_name {
            let value = setting.default_value();
            described.insert(name, of_broker(name, value.clone(), value, setting.value_type(), setting.doc));
        }
    }
    let config = NodeConfig { advertised: Some(advertised.to_owned()), ..config.clone() };
    for &(name, value_type, value, doc) in BROKER {
        described.insert(name, of_broker(name, value(&config), value(&built_in), value_type, doc));
    }
    described.into_values().collect()
}

fn of_broker(
    name: &'static str,
    value: String,
    default: String,
    value_type: ValueType,
    doc: &'static str,
) -> DescribedSetting {
    let differs = value != default;
    let mut synonyms = vec![Synonym { name, value: default, source: ConfigSource::Default }];
    if differs {
        synonyms.insert(0, Synonym { name, value: value.clone(), source: ConfigSource::Broker });
    }
    let source = if differs { ConfigSource::Broker } else { ConfigSource::Default };
    DescribedSetting { name, value, source, read_only: true, synonyms, value_type, doc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topics_own_settings_come_before_the_defaults() {
        let own = BTreeMap::from([("retention.bytes".to_owned(), "5".to_owned())]);
        let config = TopicConfig::from_settings([("retention.bytes", "5")]).expect("valid");
        let described = describe_topic(&config, &own);
        let find = |name: &str| described.iter().find(|setting| setting.name == name).expect("known");
        let own = find("retention.bytes");
        assert_eq!((own.value.as_str(), own.source, own.value_type), ("5", ConfigSource::Topic, ValueType::Long));
        let synonyms: Vec<_> = own.synonyms.iter().map(|of| (of.name, of.value.as_str(), of.source as i8)).collect();
        assert_eq!(synonyms, [("retention.bytes", "5", 1), ("log.retention.bytes", "-1", 5)]);
        let default = find("cleanup.policy");
        assert_eq!(
            (default.value.as_str(), default.source, default.synonyms.len()),
            ("delete", ConfigSource::Default, 1)
        );
    }

    #[test]
    fn a_brokers_settings_are_in_order_and_say_where_they_come_from() {
        let config = NodeConfig { num_partitions: 7, ..NodeConfig::default() };
        let described = describe_broker(&config, "example:1234");
        assert!(described.windows(2).all(|pair| pair[0].name < pair[1].name));
        let find = |name: &str| described.iter().find(|setting| setting.name == name).expect("known");
        assert_eq!((find("num.partitions").value.as_str(), find("num.partitions").source), ("7", ConfigSource::Broker));
        assert_eq!(find("num.partitions").synonyms[1].value, "1");
        assert_eq!(find("log.segment.bytes").source, ConfigSource::Default);
        assert_eq!(find("advertised.listeners").value, "PLAINTEXT://example:1234");
        assert!(described.iter().all(|setting| setting.read_only && !setting.doc.is_empty()));
    }
}
