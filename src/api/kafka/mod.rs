//! The Kafka protocol: one file for each API, one table of all of them.

mod alter_configs;
mod api_versions;
mod context;
mod cost;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod errors;
mod fetch;
mod fetch_reading;
mod fetch_session;
mod find_coordinator;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod produce;
mod produce_legacy;
mod reassignments;
mod service;
mod table;
mod unique;

pub use fetch_session::{FetchSessions, SessionBounds};
pub use service::KafkaService;
pub use table::TABLE;
