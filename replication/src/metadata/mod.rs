//! The cluster's metadata: a log of [`MetadataRecord`]s and the [`Image`] that replaying them yields.
//!
//! Owned by shard 0, which appends and replays; every other shard holds the newest image behind an `Arc` and never
//! changes it. Pure: this module plans records and replays records, and does neither reading nor writing.
//!
//! # The seam
//!
//! A change of metadata goes through one place in the broker, `propose(records) -> committed`:
//!
//! 1. A handler asks a plan ([`plan_create_topic`], [`plan_create_partitions`], …) about the
//!    newest image; it answers with records, or with the reason why not.
//! 2. `propose` appends the records, each in its [encoding](MetadataRecord::encode), as **one batch** of the log
//!    `__cluster_metadata`. One batch is one commit: after a crash all of a plan is there, or none.
//! 3. When the batch is committed, and only then, its records are replayed into an [`ImageBuilder`] over the image, and
//!    the image it finishes is handed to every shard. The reply goes out after that.
//!
//! Proposals are made one after another: a plan sees the image that all earlier ones have made. Today the log is local
//! and committed means durable; Raft goes behind the same seam, and then committed means held by a majority.
//!
//! Invariants:
//! - only replay changes an image, so recovery and live operation are one path;
//! - the same records in the same order give the same image, on every broker, whatever the hash seeds or the time;
//! - a record that does not fit the image is an error and leaves the image as it was;
//! - numbers of record types, versions and resource kinds stand on disk and are never used again for something else.

mod codec;
mod image;
mod partition_plan;
mod producer_id_plan;
mod record;
mod replica_plan;
mod topic_name;
mod topic_plan;

pub use codec::DecodeError;
pub use image::{Broker, Image, ImageBuilder, Partition, ReplayError, Topic};
pub use partition_plan::{CreatePartitionsError, PartitionsSpec, plan_create_partitions};
pub use producer_id_plan::{PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock, ProducerIdsExhausted, plan_allocate_producer_ids};
pub use record::{
    BrokerRecord, ConfigRecord, FeatureRecord, MetadataRecord, PartitionRecord, ProducerIdsRecord, ResourceKind,
    TopicRecord, TopicRemovalRecord,
};
pub use replica_plan::{Candidate, plan_replicas};
pub use topic_name::{
    CLUSTER_METADATA_TOPIC, NAME_BYTES_MAX, TopicNameError, check_topic_name, is_internal_topic, names_collide,
};
pub use topic_plan::{
    Assignment, AssignmentError, CreateTopicError, CreatedTopic, DeleteTopicError, PARTITION_COUNT_MAX, TopicDefaults,
    TopicRef, TopicSpec, plan_create_topic, plan_delete_topic,
};
