//! Topic settings under Kafka's names: parsed, checked, and refused where this broker does not serve them.
//!
//! A setting that is known to Kafka but not served here is refused with a reason, never ignored; one that asks for what always
//! holds here (`flush.messages`, `preallocate=false`) is accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use record::{Compression, Recompression};
use storage::{CompactionConfig, LogConfig, SpaceClass};

use super::cleanup::CleanupPolicy;

/// Which clock stamps a record (KIP-32).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// All settings of one topic, with the defaults for those that were not given.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicConfig {
    pub timestamp_type: TimestampType,
    /// How far a record's time may lie before the broker's, in milliseconds.
    pub timestamp_before_max_ms: i64,
    /// How far a record's time may lie after the broker's, in milliseconds.
    pub timestamp_after_max_ms: i64,
    pub max_message_bytes: i32,
    /// How batches are stored; none: as their producers compressed them.
    pub compression: Option<Compression>,
    /// 1 to 9; −1 for the codec's default.
    pub gzip_level: i32,
    /// −131072 to 22.
    pub zstd_level: i32,
    pub min_insync_replicas: i32,
    pub retention_ms: i64,
    pub retention_bytes: i64,
    /// For the whole topic; each partition keeps its share (total ÷ partitions). −1: no bound.
    pub retention_topic_bytes: i64,
    pub segment_bytes: i32,
    pub segment_ms: i64,
    pub segment_jitter_ms: i64,
    pub segment_index_bytes: i32,
    pub index_interval_bytes: i32,
    pub file_delete_delay_ms: i64,
    pub cleanup: CleanupPolicy,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub max_compaction_lag_ms: i64,
    /// From 0 to 1.
    pub min_cleanable_dirty_ratio: f64,
    pub key_schema: Option<Arc<str>>,
    pub value_schema: Option<Arc<str>>,
    pub delivery_contract: Option<Arc<str>>,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            max_message_bytes: 1_048_588,
            compression: None,
            gzip_level: -1,
            zstd_level: 3,
            min_insync_replicas: 1,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            retention_topic_bytes: 1 << 40,
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 32 << 10,
            file_delete_delay_ms: 60_000,
            cleanup: CleanupPolicy::DELETE,
            delete_retention_ms: 86_400_000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            key_schema: None,
            value_schema: None,
            delivery_contract: None,
        }
    }
}

/// One setting that can't be taken, in words for the person who gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidSetting(pub String);

impl std::fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSetting {}

/// How a setting's text becomes a field.
enum Kind {
    Int {
        min: i32,
        set: fn(&mut TopicConfig, i32),
        get: fn(&TopicConfig) -> i32,
    },
    Long {
        min: i64,
        set: fn(&mut TopicConfig, i64),
        get: fn(&TopicConfig) -> i64,
    },
    /// The level of a codec; `bounds` says in words what `is_valid` asks for.
    Level {
        is_valid: fn(i32) -> bool,
        bounds: &'static str,
        set: fn(&mut TopicConfig, i32),
        get: fn(&TopicConfig) -> i32,
    },
    Compression,
    Timestamp,
    Cleanup,
    /// From 0 to 1.
    Ratio {
        set: fn(&mut TopicConfig, f64),
        get: fn(&TopicConfig) -> f64,
    },
    /// Only this value is served; the reason tells why another is refused.
    Only {
        value: &'static str,
        value_type: ValueType,
        reason: &'static str,
    },
    /// Any whole number from 1: what it asks for always holds.
    AlwaysHolds {
        default: &'static str,
    },
    /// One line of text for people, which the broker keeps and does not read; there is none until it is given.
    Label {
        set: fn(&mut TopicConfig, Arc<str>),
        get: fn(&TopicConfig) -> Option<&Arc<str>>,
    },
}

/// What kind of value a setting has; Kafka's numbers (`ConfigDef.Type` in DescribeConfigs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum ValueType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
}

/// One setting of topics.
pub struct Setting {
    /// Kafka's name, or our own.
    pub name: &'static str,
    /// What Kafka calls the broker's default for it, if that has a name and the same unit.
    pub broker_name: Option<&'static str>,
    pub doc: &'static str,
    kind: Kind,
}

macro_rules! int {
    ($field:ident, $min:expr) => {
        Kind::Int { min: $min, set: |config, value| config.$field = value, get: |config| config.$field }
    };
}

macro_rules! long {
    ($field:ident, $min:expr) => {
        Kind::Long { min: $min, set: |config, value| config.$field = value, get: |config| config.$field }
    };
}

macro_rules! label {
    ($field:ident) => {
        Kind::Label { set: |config, value| config.$field = Some(value), get: |config| config.$field.as_ref() }
    };
}

macro_rules! settings {
    ($($name:literal, $broker_name:expr, $kind:expr, $doc:literal;)*) => {
        &[$(Setting { name: $name, broker_name: $broker_name, doc: $doc, kind: $kind },)*]
    };
}

const NO_LZ4_LEVELS: &str = "lz4 is served with its fast compressor only, which is what Kafka takes for 9, its default";
const NO_UNCLEAN: &str = "an unclean election would lose acknowledged records";
const NO_PREALLOCATION: &str = "segments are always allocated in growing steps";

/// The longest label: enough for a place or a sentence, and little beside a topic's other metadata.
const LABEL_BYTES_MAX: usize = 1024;

/// Every topic setting this broker takes, in name order: Kafka's names, and of our own `retention.topic.bytes` and the labels.
pub const SETTINGS: &[Setting] = settings! {
    "cleanup.policy", Some("log.cleanup.policy"),
        Kind::Cleanup,
        "What becomes of old records: \"delete\" drops segments by retention, \"compact\" leaves the last record of each key; both, or neither.";
    "compression.gzip.level", Some("compression.gzip.level"),
        Kind::Level {
            is_valid: |level| level == -1 || (1..=9).contains(&level),
            bounds: "Value must be between 1 and 9 or equal to -1",
            set: |config, level| config.gzip_level = level,
            get: |config| config.gzip_level,
        },
        "How hard batches are compressed that compression.type=gzip rebuilds, from 1 to 9; -1 for the codec's default.";
    "compression.lz4.level", Some("compression.lz4.level"),
        Kind::Only { value: "9", value_type: ValueType::Int, reason: NO_LZ4_LEVELS },
        "How hard batches are compressed that compression.type=lz4 rebuilds: always 9, which is lz4's fast compressor.";
    "compression.type", Some("compression.type"), Kind::Compression,
        "How batches are stored: uncompressed, gzip, snappy, lz4 or zstd; \"producer\" keeps what the producer chose.";
    "compression.zstd.level", Some("compression.zstd.level"),
        Kind::Level {
            is_valid: |level| (-131_072..=22).contains(&level),
            bounds: "Value must be between -131072 and 22",
            set: |config, level| config.zstd_level = level,
            get: |config| config.zstd_level,
        },
        "How hard batches are compressed that compression.type=zstd rebuilds, from -131072 to 22.";
    "delete.retention.ms", Some("log.cleaner.delete.retention.ms"), long!(delete_retention_ms, 0),
        "How long a record without a value stays in a compacted topic once compaction has met it.";
    "delivery.contract", None, label!(delivery_contract),
        "A label, shown and without effect: what readers of the topic may count on.";
    "file.delete.delay.ms", Some("log.segment.delete.delay.ms"), long!(file_delete_delay_ms, 0),
        "How long the files of a dropped segment stay in the trash.";
    "flush.messages", Some("log.flush.interval.messages"), Kind::AlwaysHolds { default: "9223372036854775807" },
        "Accepted and without effect: with durability \"disk\" every record is flushed before it is acknowledged.";
    "flush.ms", None, Kind::AlwaysHolds { default: "9223372036854775807" },
        "Accepted and without effect: with durability \"disk\" every record is flushed before it is acknowledged.";
    "index.interval.bytes", Some("log.index.interval.bytes"), int!(index_interval_bytes, 0),
        "Bytes of a segment for each entry of its indexes.";
    // As in Kafka: `segment.bytes` without its lower bound (KIP-1030), for tests.
    "internal.segment.bytes", None, int!(segment_bytes, 1),
        "segment.bytes without its lower bound, for tests.";
    "key.schema", None, label!(key_schema),
        "A label, shown and without effect: the schema of the records' keys.";
    "max.compaction.lag.ms", Some("log.cleaner.max.compaction.lag.ms"), long!(max_compaction_lag_ms, 1),
        "How long a record of a compacted topic may wait for compaction at most, whatever min.cleanable.dirty.ratio says.";
    "max.message.bytes", Some("message.max.bytes"), int!(max_message_bytes, 0),
        "The largest batch that is taken, as it was sent.";
    "message.timestamp.after.max.ms", Some("log.message.timestamp.after.max.ms"), long!(timestamp_after_max_ms, 0),
        "How far a record's timestamp may lie ahead of the broker's clock; with CreateTime only.";
    "message.timestamp.before.max.ms", Some("log.message.timestamp.before.max.ms"), long!(timestamp_before_max_ms, 0),
        "How far a record's timestamp may lie behind the broker's clock; with CreateTime only.";
    "message.timestamp.type", Some("log.message.timestamp.type"), Kind::Timestamp,
        "CreateTime keeps the producer's timestamps, LogAppendTime puts the broker's in their place.";
    "min.cleanable.dirty.ratio", Some("log.cleaner.min.cleanable.ratio"),
        Kind::Ratio {
            set: |config, ratio| config.min_cleanable_dirty_ratio = ratio,
            get: |config| config.min_cleanable_dirty_ratio,
        },
        "The share of a compacted log that must not have been compacted yet before it is, from 0 to 1.";
    "min.compaction.lag.ms", Some("log.cleaner.min.compaction.lag.ms"), long!(min_compaction_lag_ms, 0),
        "How long a record of a compacted topic stays at least, also where a later one replaces it.";
    "min.insync.replicas", Some("min.insync.replicas"), int!(min_insync_replicas, 1),
        "In-sync replicas without which a produce with acks=all is refused; never more than the topic has replicas.";
    "preallocate", Some("log.preallocate"),
        Kind::Only { value: "false", value_type: ValueType::Boolean, reason: NO_PREALLOCATION },
        "Whether a segment's file is made in full at once; files always grow in steps.";
    "retention.bytes", Some("log.retention.bytes"), long!(retention_bytes, -1),
        "Bytes that each partition keeps; -1 for no bound.";
    "retention.ms", None, long!(retention_ms, -1),
        "How long records are kept; -1 for ever.";
    "retention.topic.bytes", None, long!(retention_topic_bytes, -1),
        "Bytes that the whole topic keeps, shared evenly by its partitions; -1 for no bound.";
    "segment.bytes", Some("log.segment.bytes"), int!(segment_bytes, 1 << 20),
        "The size at which a segment ends and the next begins.";
    "segment.index.bytes", Some("log.index.size.max.bytes"), int!(segment_index_bytes, 4),
        "The size of an index at which its segment ends.";
    "segment.jitter.ms", None, long!(segment_jitter_ms, 0),
        "By how much segment.ms may be shortened at random, so that segments do not all end at once.";
    "segment.ms", None, long!(segment_ms, 1),
        "The age at which a segment ends, full or not.";
    "unclean.leader.election.enable", Some("unclean.leader.election.enable"),
        Kind::Only { value: "false", value_type: ValueType::Boolean, reason: NO_UNCLEAN },
        "Whether a replica that lacks acknowledged records may lead.";
    "value.schema", None, label!(value_schema),
        "A label, shown and without effect: the schema of the records' values.";
};

impl Setting {
    /// The setting of that name.
    ///
    /// # Errors
    /// It is unknown, or not served.
    pub fn named(name: &str) -> Result<&'static Self, InvalidSetting> {
        SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| {
            InvalidSetting(if Self::is_not_served(name) {
                format!("{name} is not served yet, and would be without effect")
            } else {
                format!("Unknown topic config name: {name}")
            })
        })
    }

    /// For tests alone: told of a topic only where it was given.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.name.starts_with("internal.")
    }

    /// Whether two values of it, as text, come to the same here.
    #[must_use]
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        let config = |value| TopicConfig::from_settings([(self.name, value)]);
        one == other || config(one).is_ok_and(|one| Ok(one) == config(other))
    }

    /// Whether Kafka has a setting of that name which this broker does not serve yet.
    #[must_use]
    pub fn is_not_served(name: &str) -> bool {
        NOT_SERVED.contains(&name)
    }

    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self.kind {
            Kind::Int { .. } | Kind::Level { .. } => ValueType::Int,
            Kind::Long { .. } | Kind::AlwaysHolds { .. } => ValueType::Long,
            Kind::Compression | Kind::Timestamp | Kind::Label { .. } => ValueType::String,
            Kind::Cleanup => ValueType::List,
            Kind::Ratio { .. } => ValueType::Double,
            Kind::Only { value_type, .. } => value_type,
        }
    }

    #[must_use]
    pub fn default_value(&self) -> Option<String> {
        self.value(&TopicConfig::default())
    }

    /// Its value in `config`, as text; none of a label that was not given.
    #[must_use]
    pub fn value(&self, config: &TopicConfig) -> Option<String> {
        Some(match self.kind {
            Kind::Int { get, .. } | Kind::Level { get, .. } => get(config).to_string(),
            Kind::Long { get, .. } => get(config).to_string(),
            Kind::Compression => compression_name(config.compression).to_owned(),
            Kind::Cleanup => config.cleanup.to_string(),
            // As Java writes it: 1.0, not 1.
            Kind::Ratio { get, .. } => format!("{:?}", get(config)),
            Kind::Timestamp => match config.timestamp_type {
                TimestampType::CreateTime => "CreateTime".to_owned(),
                TimestampType::LogAppendTime => "LogAppendTime".to_owned(),
            },
            Kind::Only { value, .. } => value.to_owned(),
            Kind::AlwaysHolds { default } => default.to_owned(),
            Kind::Label { get, .. } => get(config)?.to_string(),
        })
    }
}

/// What `compression.type` may be, in Kafka's order.
const COMPRESSIONS: [Option<Compression>; 6] = [
    Some(Compression::None),
    Some(Compression::Zstd),
    Some(Compression::Lz4),
    Some(Compression::Snappy),
    Some(Compression::Gzip),
    None,
];

/// Its name as a value of `compression.type`, where no compression is not called "none" as in a producer.
fn compression_name(compression: Option<Compression>) -> &'static str {
    match compression {
        None => "producer",
        Some(Compression::None) => "uncompressed",
        Some(codec) => codec.name(),
    }
}

/// What Kafka knows and this broker does not serve yet.
const NOT_SERVED: &[&str] = &[
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "remote.copy.disabled",
    "remote.delete.on.disable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
];

impl TopicConfig {
    /// The defaults overlaid with `given`.
    ///
    /// # Errors
    /// The first setting that is unknown, out of bounds, or not served; or two that go against each other.
    pub fn from_settings<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, InvalidSetting> {
        let mut config = Self::default();
        for (name, value) in given {
            config.set(name, value)?;
        }
        let (min, max) = (config.min_compaction_lag_ms, config.max_compaction_lag_ms);
        if min > max {
            let conflict = format!("min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})");
            return Err(InvalidSetting(format!("conflict topic config setting {conflict}")));
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let setting = Setting::named(name)?;
        let value = value.trim();
        match setting.kind {
            Kind::Int { min, set, .. } => set(self, number(name, value, min)?),
            Kind::Long { min, set, .. } => set(self, number(name, value, min)?),
            Kind::AlwaysHolds { .. } => {
                number::<i64>(name, value, 0)?;
            }
            Kind::Level { is_valid, bounds, set, .. } => {
                let level = number(name, value, i32::MIN)?;
                if !is_valid(level) {
                    return Err(invalid(name, value, bounds));
                }
                set(self, level);
            }
            Kind::Compression => {
                let found = COMPRESSIONS.iter().find(|compression| compression_name(**compression) == value);
                self.compression = *found.ok_or_else(|| {
                    let names = COMPRESSIONS.map(compression_name).join(", ");
                    invalid(name, value, &format!("String must be one of: {names}"))
                })?;
            }
            Kind::Cleanup => {
                let reason = "String must be one of: compact, delete";
                self.cleanup = CleanupPolicy::parse(value).ok_or_else(|| invalid(name, value, reason))?;
            }
            Kind::Ratio { set, .. } => {
                let ratio = value.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                set(self, ratio.ok_or_else(|| invalid(name, value, "Value must be a number from 0 to 1"))?);
            }
            Kind::Label { set, .. } => set(self, label(name, value)?),
            Kind::Timestamp => {
                self.timestamp_type = match value {
                    "CreateTime" => TimestampType::CreateTime,
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => return Err(invalid(name, value, "String must be one of: CreateTime, LogAppendTime")),
                }
            }
            Kind::Only { value: served, reason, .. } => {
                if value != served {
                    return Err(invalid(name, value, reason));
                }
            }
        }
        Ok(())
    }

    /// What becomes of batches that have another codec; none: they are stored as sent.
    #[must_use]
    pub fn recompression(&self) -> Option<Recompression> {
        self.compression.map(|codec| {
            let level = match codec {
                Compression::Gzip if self.gzip_level > 0 => Some(self.gzip_level),
                Compression::Zstd => Some(self.zstd_level),
                _ => None,
            };
            Recompression { codec, level }
        })
    }

    /// What the log of one of `partitions` partitions is told. `producer_expiration_ms` is the node's.
    #[must_use]
    pub fn log_config(&self, partitions: usize, producer_expiration_ms: i64) -> LogConfig {
        // Without `delete` nothing falls to retention.
        let limit = |bytes: i64| u64::try_from(bytes).ok().filter(|_| self.cleanup.delete);
        let partitions = u64::try_from(partitions.max(1)).unwrap_or(u64::MAX);
        LogConfig {
            segment_bytes: u64::try_from(self.segment_bytes).unwrap_or(1),
            segment_ms: self.segment_ms,
            segment_jitter_ms: self.segment_jitter_ms,
            retention_ms: (self.retention_ms >= 0 && self.cleanup.delete).then_some(self.retention_ms),
            retention_bytes: limit(self.retention_bytes),
            retention_topic_bytes_share: limit(self.retention_topic_bytes).map(|bytes| bytes / partitions),
            index_interval_bytes: u32::try_from(self.index_interval_bytes).unwrap_or(0),
            max_message_bytes: u32::try_from(self.max_message_bytes).unwrap_or(0),
            delete_delay_ms: self.file_delete_delay_ms,
            producer_expiration_ms,
            space: SpaceClass::Normal,
            // Until partitions have more than one.
            only_replica: true,
            compaction: self.cleanup.compact.then(|| CompactionConfig {
                delete_retention_ms: self.delete_retention_ms,
                min_lag_ms: self.min_compaction_lag_ms,
                max_lag_ms: self.max_compaction_lag_ms,
                min_dirty_ppm: (self.min_cleanable_dirty_ratio * 1e6).round() as u32,
            }),
        }
    }

    /// Every setting that has a value, as text, in name order.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<&'static str, String> {
        SETTINGS.iter().filter_map(|setting| Some((setting.name, setting.value(self)?))).collect()
    }
}

fn invalid(name: &str, value: &str, reason: &str) -> InvalidSetting {
    InvalidSetting(format!("Invalid value {value} for configuration {name}: {reason}"))
}

fn label(name: &str, value: &str) -> Result<Arc<str>, InvalidSetting> {
    let refused = |reason: String| Err(InvalidSetting(format!("Invalid value for configuration {name}: {reason}")));
    if value.is_empty() {
        return refused("It must not be empty; delete the setting to take the label away".to_owned());
    }
    if value.len() > LABEL_BYTES_MAX {
        return refused(format!("It has {} bytes and may have {LABEL_BYTES_MAX}", value.len()));
    }
    if value.chars().any(char::is_control) {
        return refused("It must be one line, without control characters".to_owned());
    }
    Ok(value.into())
}

fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy>(
    name: &str,
    value: &str,
    min: T,
) -> Result<T, InvalidSetting> {
    let number: T = value.parse().map_err(|_| invalid(name, value, "Not a whole number in range"))?;
    if number < min {
        return Err(invalid(name, value, &format!("Value must be at least {min}")));
    }
    Ok(number)
}
