//! The contents page of the protocol: a line for each API key that is served.
//!
//! It drives ApiVersions and the dispatch of every request. An API is here only when it is served in full at all its versions.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;

use net::{OnClose, Reply, Started};
use wire::ApiKey;

use super::context::{Context, Refusal};
use super::cost::{self, Cost, each};
use super::{
    alter_configs, api_versions, consumer_group_describe, consumer_group_heartbeat, create_partitions, create_topics,
    delete_groups, delete_records, delete_topics, describe_cluster, describe_configs, describe_groups,
    describe_log_dirs, describe_producers, describe_topic_partitions, fetch, find_coordinator, heartbeat,
    init_producer_id, join_group, leave_group, list_groups, list_offsets, metadata, offset_commit, offset_delete,
    offset_fetch, offset_for_leader_epoch, produce, reassignments, sync_group,
};
use crate::work::Lane;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// What starts a request of one API.
pub type Handler = fn(Rc<Context>) -> Boxed<Result<Started, Refusal>>;

/// How requests of an API stand to others of their connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// May start before earlier pipelined ones are answered.
    Pipelined,
    /// Starts when all earlier ones are answered.
    Serial,
}

/// One API.
pub struct Api {
    pub key: ApiKey,
    /// Served in full.
    pub versions: RangeInclusive<i16>,
    /// The lowest version that ApiVersions names; below `versions` only for Produce.
    pub advertised_min: i16,
    pub class: Class,
    /// What a request may come to on the heap.
    pub cost: Cost,
    pub handler: Handler,
}

impl Api {
    /// Which requests it waits with.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.key {
            ApiKey::Produce => Lane::Produce,
            ApiKey::Fetch => Lane::Fetch,
            // Members wait for one another.
            ApiKey::JoinGroup
            | ApiKey::SyncGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::OffsetCommit
            | ApiKey::ConsumerGroupHeartbeat => Lane::Group,
            _ => Lane::Other,
        }
    }
}

const fn serial(key: ApiKey, versions: RangeInclusive<i16>, cost: Cost, handler: Handler) -> Api {
    Api { key, advertised_min: *versions.start(), versions, class: Class::Serial, cost, handler }
}

/// Every API that is served, in the order of the keys; with what its requests may come to for each of their bytes.
pub const TABLE: &[Api] = &[
    // librdkafka takes a broker for one without message format 2 unless version 2 is named (KAFKA-18659); versions 0 to 2 are
    // answered with UNSUPPORTED_VERSION.
    Api {
        key: ApiKey::Produce,
        versions: 3..=13,
        advertised_min: 0,
        class: Class::Pipelined,
        cost: each(0).and(cost::produce),
        handler: produce::start,
    },
    // 60 bytes for each partition of four that is to leave the session.
    serial(ApiKey::Fetch, 4..=17, each(20).and(cost::fetch), |context| later(OnClose::Drop, fetch::handle(context))),
    serial(ApiKey::ListOffsets, 1..=10, each(40), |context| later(OnClose::Drop, list_offsets::handle(context))),
    serial(ApiKey::Metadata, 0..=13, each(48).and(cost::metadata), |context| {
        later(OnClose::Finish, metadata::handle(context))
    }),
    // An offset is 14 bytes and a share of its topic's name; its record has the name and the group's once more.
    serial(ApiKey::OffsetCommit, 2..=10, each(40).and(cost::offset_commit), |context| {
        later(OnClose::Drop, offset_commit::handle(context))
    }),
    serial(ApiKey::OffsetFetch, 1..=10, each(60).and(cost::offset_fetch), |context| {
        later(OnClose::Drop, offset_fetch::handle(context))
    }),
    // A key of one byte is answered with a sentence.
    serial(ApiKey::FindCoordinator, 0..=6, each(300), |context| {
        later(OnClose::Finish, find_coordinator::handle(context))
    }),
    // What a member says is kept with the group. What all say, and what comes of it, is counted once it is told: while members wait for one another,
    // none may hold what the others need.
    serial(ApiKey::JoinGroup, 0..=9, each(4), |context| later(OnClose::Drop, join_group::handle(context))),
    serial(ApiKey::Heartbeat, 0..=4, each(2), |context| later(OnClose::Drop, heartbeat::handle(context))),
    serial(ApiKey::LeaveGroup, 0..=5, each(60), |context| later(OnClose::Drop, leave_group::handle(context))),
    serial(ApiKey::SyncGroup, 0..=5, each(8), |context| later(OnClose::Drop, sync_group::handle(context))),
    // A name of one byte is answered with a sentence.
    serial(ApiKey::DescribeGroups, 0..=6, each(150).and(cost::group_answer), |context| {
        later(OnClose::Drop, describe_groups::handle(context))
    }),
    serial(ApiKey::ListGroups, 0..=5, each(8).and(cost::group_answer), |context| {
        later(OnClose::Drop, list_groups::handle(context))
    }),
    serial(ApiKey::ApiVersions, 0..=4, each(1), |context| now(api_versions::handle(&context))),
    // Settings and assignments are copied on their way through the controller.
    serial(ApiKey::CreateTopics, 2..=7, each(110).and(cost::create_topics), |context| {
        later(OnClose::Finish, create_topics::handle(context))
    }),
    // A name of two bytes is answered with a sentence.
    serial(ApiKey::DeleteTopics, 1..=6, each(160), |context| later(OnClose::Finish, delete_topics::handle(context))),
    serial(ApiKey::DeleteRecords, 0..=2, each(40), |context| later(OnClose::Finish, delete_records::handle(context))),
    serial(ApiKey::InitProducerId, 0..=5, each(1), |context| later(OnClose::Drop, init_producer_id::handle(context))),
    serial(ApiKey::OffsetForLeaderEpoch, 2..=4, each(64), |context| {
        later(OnClose::Drop, offset_for_leader_epoch::handle(context))
    }),
    // A resource of four bytes is answered with a sentence.
    serial(ApiKey::DescribeConfigs, 1..=4, each(150).and(cost::describe_configs), |context| {
        now(describe_configs::handle(&context))
    }),
    serial(ApiKey::AlterConfigs, 0..=2, each(120), |context| later(OnClose::Finish, alter_configs::replace(context))),
    serial(ApiKey::DescribeLogDirs, 1..=5, each(24).and(cost::describe_log_dirs), |context| {
        later(OnClose::Drop, describe_log_dirs::handle(context))
    }),
    serial(ApiKey::CreatePartitions, 0..=3, each(80), |context| {
        later(OnClose::Finish, create_partitions::handle(context))
    }),
    serial(ApiKey::DeleteGroups, 0..=2, each(80), |context| later(OnClose::Finish, delete_groups::handle(context))),
    serial(ApiKey::ElectLeaders, 0..=2, each(60), |context| now(reassignments::elect(&context))),
    serial(ApiKey::IncrementalAlterConfigs, 0..=1, each(120), |context| {
        later(OnClose::Finish, alter_configs::change(context))
    }),
    serial(ApiKey::ListPartitionReassignments, 0..=0, each(1), |context| now(reassignments::list(&context))),
    serial(ApiKey::OffsetDelete, 0..=0, each(60), |context| later(OnClose::Finish, offset_delete::handle(context))),
    serial(ApiKey::DescribeCluster, 0..=2, each(1), |context| now(describe_cluster::handle(&context))),
    serial(ApiKey::DescribeProducers, 0..=0, each(100).and(cost::describe_producers), |context| {
        later(OnClose::Drop, describe_producers::handle(context))
    }),
    // What a member says is kept with the group; a topic of one byte is a name on its way, one that is kept and one in its record. A partition
    // of four bytes is told again, and moves from one map to another.
    serial(ApiKey::ConsumerGroupHeartbeat, 0..=1, each(60).and(cost::group_answer), |context| {
        later(OnClose::Drop, consumer_group_heartbeat::handle(context))
    }),
    // A name of one byte is answered with a sentence.
    serial(ApiKey::ConsumerGroupDescribe, 0..=1, each(150).and(cost::group_answer), |context| {
        later(OnClose::Drop, consumer_group_describe::handle(context))
    }),
    serial(ApiKey::ListConfigResources, 0..=1, each(4).and(cost::list_config_resources), |context| {
        now(describe_configs::list(&context))
    }),
    serial(ApiKey::DescribeTopicPartitions, 0..=0, each(90).and(cost::describe_topic_partitions), |context| {
        now(describe_topic_partitions::handle(&context))
    }),
];

/// The line of a key, and where in the table it stands.
#[must_use]
pub fn find(key: i16) -> Option<(usize, &'static Api)> {
    TABLE.iter().enumerate().find(|(_, api)| api.key.code() == key)
}

fn now(reply: Result<Reply, Refusal>) -> Boxed<Result<Started, Refusal>> {
    Box::pin(std::future::ready(reply.map(Started::Done)))
}

fn later(
    on_close: OnClose,
    reply: impl Future<Output = Result<Reply, Refusal>> + 'static,
) -> Boxed<Result<Started, Refusal>> {
    let reply = Box::pin(async move { reply.await.unwrap_or_else(|refusal| Reply::Close(refusal.to_string())) });
    Box::pin(std::future::ready(Ok(Started::Later(reply, on_close))))
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn keys_are_in_order_and_versions_not_empty() {
        assert!(TABLE.windows(2).all(|pair| pair[0].key.code() < pair[1].key.code()));
        assert!(TABLE.iter().all(|api| !api.versions.is_empty() && api.advertised_min <= *api.versions.start()));
    }
}
