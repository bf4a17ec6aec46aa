//! What the sink serves. `TABLE` is the contents page.

mod fetch;
pub mod identity;
mod metadata;
mod offsets;
mod produce;
mod topics;

use std::ops::RangeInclusive;

use wire::ApiKey;

use super::request::{Api, Handler};

const fn api(key: ApiKey, versions: RangeInclusive<i16>, handler: Handler) -> Api {
    Api { key, advertised_min: *versions.start(), versions, handler }
}

/// Every API that is served, in the order of the keys.
pub const TABLE: &[Api] = &[
    // librdkafka takes a broker for one without message format 2 unless version 2 is named (KAFKA-18659); no client sends it.
    Api { key: ApiKey::Produce, versions: 3..=13, advertised_min: 0, handler: produce::handle },
    api(ApiKey::Fetch, 4..=17, fetch::handle),
    api(ApiKey::ListOffsets, 1..=10, offsets::list),
    api(ApiKey::Metadata, 0..=13, metadata::handle),
    api(ApiKey::ApiVersions, 0..=4, identity::versions),
    api(ApiKey::CreateTopics, 2..=7, topics::create),
    api(ApiKey::DeleteTopics, 1..=6, topics::delete),
    api(ApiKey::DeleteRecords, 0..=2, offsets::delete_records),
    api(ApiKey::InitProducerId, 0..=5, identity::init_producer_id),
    api(ApiKey::DescribeCluster, 0..=2, metadata::describe_cluster),
];
