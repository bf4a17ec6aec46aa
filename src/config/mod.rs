//! Settings: those of the node (one TOML file and the options of `serve`) and those of topics (Kafka's names), which
//! a policy file may declare.

mod advertised;
mod cleanup;
mod describe;
mod group;
mod keys;
mod node;
pub mod policy;
mod topic;
#[cfg(test)]
mod topic_tests;

pub use advertised::{AdvertisedError, Endpoint, endpoint};
pub use cleanup::CleanupPolicy;
pub use describe::{ConfigSource, DescribedSetting, Synonym, describe_broker, describe_group, describe_topic};
pub use group::{GroupSettings, OwnSettings, OwnSettingsOfGroups};
pub use keys::{KEYS, Key};
pub use node::{ConfigError, DurabilitySetting, HeapBounds, NodeConfig};
pub use topic::{InvalidSetting, SETTINGS, Setting, TimestampType, TopicConfig, ValueType};
