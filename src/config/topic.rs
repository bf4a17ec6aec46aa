//! Topic settings under Kafka's names: parsed, checked, and refused where this broker does not serve them.
//!
//! A setting that is known to Kafka but not served here is refused with a reason, never ignored; one that asks for what always
//! holds here (`flush.messages`, `preallocate=false`) is accepted.

use std::collections::BTreeMap;

use storage::LogConfig;

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
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            max_message_bytes: 1_048_588,
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
    Timestamp,
    /// Only this value is served; the reason tells why another is refused.
    Only {
        value: &'static str,
        reason: &'static str,
    },
    /// Any whole number from 1: what it asks for always holds.
    AlwaysHolds {
        default: &'static str,
    },
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

const NO_COMPACTION: &str = "compaction is not served yet; only cleanup.policy=delete is";

/// Every topic setting this broker takes, in name order: Kafka's names, and `retention.topic.bytes` of our own.
const SETTINGS: &[(&str, Kind)] = &[
    ("cleanup.policy", Kind::Only { value: "delete", reason: NO_COMPACTION }),
    (
        "compression.type",
        Kind::Only {
            value: "producer",
            reason: "recompression is not served yet; batches stay as the producer sent them",
        },
    ),
    ("file.delete.delay.ms", long!(file_delete_delay_ms, 0)),
    ("flush.messages", Kind::AlwaysHolds { default: "9223372036854775807" }),
    ("flush.ms", Kind::AlwaysHolds { default: "9223372036854775807" }),
    ("index.interval.bytes", int!(index_interval_bytes, 0)),
    // As in Kafka: `segment.bytes` without its lower bound (KIP-1030), for tests.
    ("internal.segment.bytes", int!(segment_bytes, 1)),
    ("max.message.bytes", int!(max_message_bytes, 0)),
    ("message.timestamp.after.max.ms", long!(timestamp_after_max_ms, 0)),
    ("message.timestamp.before.max.ms", long!(timestamp_before_max_ms, 0)),
    ("message.timestamp.type", Kind::Timestamp),
    ("min.insync.replicas", int!(min_insync_replicas, 1)),
    ("preallocate", Kind::Only { value: "false", reason: "segments are always allocated in growing steps" }),
    ("retention.bytes", long!(retention_bytes, -1)),
    ("retention.ms", long!(retention_ms, -1)),
    ("retention.topic.bytes", long!(retention_topic_bytes, -1)),
    ("segment.bytes", int!(segment_bytes, 1 << 20)),
    ("segment.index.bytes", int!(segment_index_bytes, 4)),
    ("segment.jitter.ms", long!(segment_jitter_ms, 0)),
    ("segment.ms", long!(segment_ms, 1)),
    (
        "unclean.leader.election.enable",
        Kind::Only { value: "false", reason: "an unclean election would lose acknowledged records" },
    ),
];

/// What Kafka knows and this broker does not serve yet.
const NOT_SERVED: &[&str] = &[
    "delete.retention.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
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
    /// The first setting that is unknown, out of bounds, or not served.
    pub fn from_settings<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, InvalidSetting> {
        let mut config = Self::default();
        for (name, value) in given {
            config.set(name, value)?;
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let Some((_, kind)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
            return Err(InvalidSetting(if NOT_SERVED.contains(&name) {
                format!("{name} is not served yet, and would be without effect")
            } else {
                format!("Unknown topic config name: {name}")
            }));
        };
        let value = value.trim();
        match kind {
            Kind::Int { min, set, .. } => set(self, number(name, value, *min)?),
            Kind::Long { min, set, .. } => set(self, number(name, value, *min)?),
            Kind::AlwaysHolds { .. } => {
                number::<i64>(name, value, 0)?;
            }
            Kind::Timestamp => {
                self.timestamp_type = match value {
                    "CreateTime" => TimestampType::CreateTime,
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => return Err(invalid(name, value, "String must be one of: CreateTime, LogAppendTime")),
                }
            }
            Kind::Only { value: served, reason } => {
                if value != *served {
                    return Err(invalid(name, value, reason));
                }
            }
        }
        Ok(())
    }

    /// What the log of one of `partitions` partitions is told. `producer_expiration_ms` is the node's.
    #[must_use]
    pub fn log_config(&self, partitions: usize, producer_expiration_ms: i64) -> LogConfig {
        let limit = |bytes: i64| u64::try_from(bytes).ok();
        let partitions = u64::try_from(partitions.max(1)).unwrap_or(u64::MAX);
        LogConfig {
            segment_bytes: u64::try_from(self.segment_bytes).unwrap_or(1),
            segment_ms: self.segment_ms,
            segment_jitter_ms: self.segment_jitter_ms,
            retention_ms: (self.retention_ms >= 0).then_some(self.retention_ms),
            retention_bytes: limit(self.retention_bytes),
            retention_topic_bytes_share: limit(self.retention_topic_bytes).map(|bytes| bytes / partitions),
            index_interval_bytes: u32::try_from(self.index_interval_bytes).unwrap_or(0),
            max_message_bytes: u32::try_from(self.max_message_bytes).unwrap_or(0),
            delete_delay_ms: self.file_delete_delay_ms,
            producer_expiration_ms,
            internal: false,
        }
    }

    /// Every setting with its value as text and whether it differs from the default, in name order.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<&'static str, String> {
        SETTINGS
            .iter()
            .map(|(name, kind)| {
                let value = match kind {
                    Kind::Int { get, .. } => get(self).to_string(),
                    Kind::Long { get, .. } => get(self).to_string(),
                    Kind::Timestamp => match self.timestamp_type {
                        TimestampType::CreateTime => "CreateTime".to_owned(),
                        TimestampType::LogAppendTime => "LogAppendTime".to_owned(),
                    },
                    Kind::Only { value, .. } => (*value).to_owned(),
                    Kind::AlwaysHolds { default } => (*default).to_owned(),
                };
                (*name, value)
            })
            .collect()
    }
}

fn invalid(name: &str, value: &str, reason: &str) -> InvalidSetting {
    InvalidSetting(format!("Invalid value {value} for configuration {name}: {reason}"))
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

#[cfg(test)]
mod tests {
    use super::{SETTINGS, TopicConfig};

    fn check(given: &[(&str, &str)]) -> Result<TopicConfig, String> {
        TopicConfig::from_settings(given.iter().copied()).map_err(|error| error.0)
    }

    #[test]
    fn settings_are_taken_or_refused_with_a_reason() {
        assert_eq!(check(&[("retention.ms", "5")]).unwrap().retention_ms, 5);
        assert_eq!(check(&[("retention.bytes", "-1")]).unwrap().retention_bytes, -1);
        for (name, value, word) in [
            ("cleanup.policy", "compact", "compaction"),
            ("cleanup.policy", "compact,delete", "compaction"),
            ("retention.ms", "-2", "at least -1"),
            ("segment.bytes", "x", "whole number"),
            ("segment.bytes", "99999999999", "in range"),
            ("message.timestamp.type", "createtime", "one of"),
            ("min.compaction.lag.ms", "1", "not served"),
            ("no.such.setting", "1", "Unknown topic config name"),
        ] {
            let refused = check(&[(name, value)]).unwrap_err();
            assert!(refused.contains(word), "{name}={value}: {refused}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_describes_itself() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let described = TopicConfig::default().describe();
        let again = TopicConfig::from_settings(described.iter().map(|(name, value)| (*name, value.as_str())));
        assert_eq!(again, Ok(TopicConfig::default()));
    }

    #[test]
    fn a_topics_bytes_are_shared_by_its_partitions() {
        let share =
            |bytes| check(&[("retention.topic.bytes", bytes)]).unwrap().log_config(10, 1).retention_topic_bytes_share;
        assert_eq!(share("1000"), Some(100));
        assert_eq!(share("-1"), None);
    }
}
