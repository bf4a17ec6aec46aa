//! What this broker knows of its cluster, and the controller that alone changes it.
//!
//! Topic metadata are records in a durable log; the image is what replaying them gives. The controller proposes, the log commits,
//! and every shard gets the new view whole. Raft will stand behind the same seam ([`MetadataLog::propose`]).

mod admin;
mod changes;
mod controller;
mod errors;
mod local;
mod metadata_log;
mod producer_ids;
mod view;

pub use admin::{
    AdminError, AdminReply, AdminRequest, CreatedTopic, DeletedTopic, NewTopic, ResourceChange, SettingOperation,
    SettingsChange, TopicName,
};
pub use controller::{Controller, ControllerQueue, submit};
pub use local::LocalShards;
pub use metadata_log::{METADATA_LOG, MetadataLog, MetadataLogError};
pub use producer_ids::{ProducerIds, next_producer_id};
pub use view::{Broker, LogSpec, PartitionView, Topic, View};
