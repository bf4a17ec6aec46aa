//! The messages, one file per API: the contents page of what this crate can read and write.
//!
//! Field names, order, versions and defaults are those of Kafka 4.4's definitions (`common/message/*.json` in the
//! `kafka-clients` jar), with two differences that no served version shows: fields that exist only in versions outside a
//! message's own are left out, and a nullable string is null by default where Kafka has an empty one.

pub mod api_versions;
pub mod create_topics;
pub mod delete_topics;
pub mod fetch;
pub mod find_coordinator;
pub mod init_producer_id;
pub mod list_offsets;
pub mod metadata;
pub mod offset_for_leader_epoch;
pub mod produce;

pub use api_versions::{ApiVersionsRequest, ApiVersionsResponse};
pub use create_topics::{CreateTopicsRequest, CreateTopicsResponse};
pub use delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
pub use fetch::{FetchRequest, FetchResponse};
pub use find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
pub use metadata::{MetadataRequest, MetadataResponse};
pub use offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
pub use produce::{ProduceRequest, ProduceResponse};
