//! Settings as DescribeConfigs shows them: value, source, synonyms, type, documentation.
//!
//! A topic's setting is its own or the built-in default. A broker's settings are what its file and command line say, under Kafka's names
//! where Kafka has one and under `tidemill.` where it has none; they are read once, so none can be altered while it runs.

use std::collections::BTreeMap;

use super::group::GROUP_SETTINGS;
use super::keys::Key;
use super::node::NodeConfig;
use super::topic::{SETTINGS, TopicConfig, ValueType};

/// Where a value comes from; Kafka's numbers (`ConfigEntry.ConfigSource`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum ConfigSource {
    Topic = 1,
    /// The broker's file or command line.
    Broker = 4,
    Default = 5,
    Group = 8,
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

/// Every setting of a topic that has a value, in name order.
#[must_use]
pub fn describe_topic(config: &TopicConfig, own: &BTreeMap<String, String>) -> Vec<DescribedSetting> {
    SETTINGS
        .iter()
        .filter(|setting| !setting.is_internal() || own.contains_key(setting.name))
        .filter_map(|setting| {
            // A setting that is not its own is the default, even where another of its names was given.
            let own_value = setting.value(config).filter(|_| own.contains_key(setting.name));
            let default = setting.default_value();
            let mut synonyms = Vec::new();
            if let Some(value) = own_value.clone() {
                synonyms.push(Synonym { name: setting.name, value, source: ConfigSource::Topic });
            }
            if let (Some(name), Some(value)) = (setting.broker_name, default.clone()) {
                synonyms.push(Synonym { name, value, source: ConfigSource::Default });
            }
            Some(DescribedSetting {
                name: setting.name,
                source: if own_value.is_some() { ConfigSource::Topic } else { ConfigSource::Default },
                value: own_value.or(default)?,
                read_only: false,
                synonyms,
                value_type: setting.value_type(),
                doc: setting.doc,
            })
        })
        .collect()
}

/// Every setting of a group, in name order: its own, or what all groups have.
#[must_use]
pub fn describe_group(node: &NodeConfig, own: &BTreeMap<String, String>) -> Vec<DescribedSetting> {
    let built_in = NodeConfig::default();
    let of_setting = |setting: &super::group::GroupSetting| {
        let (of_node, default) = (setting.of_node(node).to_string(), setting.of_node(&built_in).to_string());
        let mut synonyms =
            vec![Synonym { name: setting.broker_name, value: default.clone(), source: ConfigSource::Default }];
        if of_node != default {
            synonyms.insert(0, Synonym { name: setting.broker_name, value: of_node, source: ConfigSource::Broker });
        }
        if let Some(value) = own.get(setting.name).cloned() {
            synonyms.insert(0, Synonym { name: setting.name, value, source: ConfigSource::Group });
        }
        let (value, source) = (synonyms[0].value.clone(), synonyms[0].source);
        let (name, value_type, doc) = (setting.name, ValueType::Int, setting.doc);
        DescribedSetting { name, value, source, read_only: false, synonyms, value_type, doc }
    };
    GROUP_SETTINGS.iter().map(of_setting).collect()
}

/// What a setting of a broker shows.
enum Shown {
    /// The value of one of the node's keys, with what the key means.
    Key(&'static str),
    /// The same, an address, as a listener.
    Listener(&'static str),
    /// Always this, and why it is there.
    Always(&'static str, &'static str),
}

/// What a node's own settings are called by clients.
const BROKER: &[(&str, ValueType, Shown)] = &[
    ("advertised.listeners", ValueType::String, Shown::Listener("advertised")),
    ("auto.create.topics.enable", ValueType::Boolean, Shown::Key("auto-create-topics")),
    ("broker.id", ValueType::Int, Shown::Key("broker-id")),
    ("connections.max.idle.ms", ValueType::Long, Shown::Key("connections-max-idle-ms")),
    ("default.replication.factor", ValueType::Int, Shown::Always("1", "Replicas of a topic created without a count.")),
    ("delete.topic.enable", ValueType::Boolean, Shown::Always("true", "Whether topics can be deleted.")),
    ("fetch.max.bytes", ValueType::Int, Shown::Key("fetch-max-bytes")),
    ("group.consumer.heartbeat.interval.ms", ValueType::Int, Shown::Key("group-consumer-heartbeat-interval-ms")),
    ("group.consumer.session.timeout.ms", ValueType::Int, Shown::Key("group-consumer-session-timeout-ms")),
    ("group.initial.rebalance.delay.ms", ValueType::Int, Shown::Key("group-initial-rebalance-delay-ms")),
    ("group.max.session.timeout.ms", ValueType::Int, Shown::Key("group-session-timeout-max-ms")),
    ("group.max.size", ValueType::Int, Shown::Key("group-members-max")),
    ("group.min.session.timeout.ms", ValueType::Int, Shown::Key("group-session-timeout-min-ms")),
    ("listeners", ValueType::String, Shown::Listener("listen")),
    ("log.dir", ValueType::String, Shown::Key("data-dir")),
    ("log.dirs", ValueType::String, Shown::Key("data-dir")),
    ("log.retention.check.interval.ms", ValueType::Long, Shown::Key("retention-check-interval-ms")),
    (
        "log.retention.hours",
        ValueType::Int,
        Shown::Always("168", "How long a topic without retention.ms keeps its records."),
    ),
    (
        "log.roll.hours",
        ValueType::Int,
        Shown::Always("168", "The age at which a segment of a topic without segment.ms ends."),
    ),
    ("log.roll.jitter.hours", ValueType::Int, Shown::Always("0", "By how much that may be shortened at random.")),
    ("max.connections", ValueType::Int, Shown::Key("connections-max")),
    ("max.incremental.fetch.session.cache.slots", ValueType::Int, Shown::Key("fetch-sessions-max")),
    ("node.id", ValueType::Int, Shown::Key("broker-id")),
    ("num.partitions", ValueType::Int, Shown::Key("num-partitions")),
    ("offset.metadata.max.bytes", ValueType::Int, Shown::Key("offset-metadata-max-bytes")),
    ("offsets.retention.minutes", ValueType::Int, Shown::Key("offsets-retention-minutes")),
    ("offsets.topic.num.partitions", ValueType::Int, Shown::Key("offsets-partitions")),
    ("producer.id.expiration.ms", ValueType::Int, Shown::Key("producer-id-expiration-ms")),
    ("socket.request.max.bytes", ValueType::Int, Shown::Key("max-request-bytes")),
    ("tidemill.background.bytes.in.flight", ValueType::Long, Shown::Key("background-bytes-in-flight")),
    ("tidemill.checkpoint.interval.ms", ValueType::Long, Shown::Key("checkpoint-interval-ms")),
    ("tidemill.connection.bytes.in.flight", ValueType::Int, Shown::Key("connection-bytes-in-flight")),
    ("tidemill.destage.delay.ms", ValueType::Long, Shown::Key("destage-delay-ms")),
    ("tidemill.disk.reserve.bytes", ValueType::Long, Shown::Key("disk-reserve-bytes")),
    ("tidemill.durability", ValueType::String, Shown::Key("durability")),
    ("tidemill.journal.bytes", ValueType::Long, Shown::Key("journal-bytes")),
    ("tidemill.memory.bytes", ValueType::Long, Shown::Key("memory-bytes")),
    ("tidemill.pin", ValueType::Boolean, Shown::Key("pin")),
    ("tidemill.shards", ValueType::Int, Shown::Key("shards")),
];

impl Shown {
    /// Its value in `config`, and what it means.
    fn of(&self, config: &NodeConfig) -> (String, &'static str) {
        let key = |name: &str| Key::find(name).expect("a row names one of the node's keys");
        match *self {
            Self::Key(name) => (key(name).value(config), key(name).doc),
            Self::Listener(name) => (format!("PLAINTEXT://{}", key(name).value(config)), key(name).doc),
            Self::Always(value, doc) => (value.to_owned(), doc),
        }
    }
}

/// Every setting of a broker, in name order: its own, and the defaults of topics under the broker's names for them. `advertised` is where
/// clients are told to connect, a port that was left to the system included.
#[must_use]
pub fn describe_broker(config: &NodeConfig, advertised: &str) -> Vec<DescribedSetting> {
    // Where no address is advertised, it is the one that is listened on.
    let advertises =
        |address: &str, node: &NodeConfig| NodeConfig { advertised: Some(address.to_owned()), ..node.clone() };
    let built_in = NodeConfig::default();
    let built_in = advertises(&built_in.listen, &built_in);
    let config = advertises(advertised, config);
    let mut described = BTreeMap::new();
    for setting in SETTINGS {
        if let (Some(name), Some(value)) = (setting.broker_name, setting.default_value()) {
            described.insert(name, of_broker(name, value.clone(), value, setting.value_type(), setting.doc));
        }
    }
    for (name, value_type, shown) in BROKER {
        let ((value, doc), (default, _)) = (shown.of(&config), shown.of(&built_in));
        described.insert(*name, of_broker(name, value, default, *value_type, doc));
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
        assert!(described.iter().all(|setting| !setting.name.starts_with("internal.")));
        let default = find("cleanup.policy");
        assert_eq!(
            (default.value.as_str(), default.source, default.synonyms.len()),
            ("delete", ConfigSource::Default, 1)
        );
    }

    #[test]
    fn a_label_is_told_once_it_is_given() {
        let own = BTreeMap::from([("key.schema".to_owned(), " orders-key:1 ".to_owned())]);
        let given = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let described = describe_topic(&TopicConfig::from_settings(given).expect("valid"), &own);
        let find = |name: &str| described.iter().find(|setting| setting.name == name);
        let label = find("key.schema").expect("given");
        assert_eq!((label.value.as_str(), label.source), ("orders-key:1", ConfigSource::Topic));
        assert_eq!(label.synonyms.len(), 1, "a broker has no default for it");
        assert_eq!(find("value.schema"), None);
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
