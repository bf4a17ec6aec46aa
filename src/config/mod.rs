//! Settings: those of the node (one TOML file and the options of `serve`) and those of topics (Kafka's names).

mod node;
mod topic;

pub use node::{ConfigError, DurabilitySetting, NodeConfig};
pub use topic::{InvalidSetting, TimestampType, TopicConfig};
