//! Requests to group coordinators: which partition of `__consumer_offsets` a group is in, and the shard that has it.

use std::rc::Rc;

use base::{BrokerId, PartitionIndex, ShardId};
use storage::LogId;
use wire::ErrorCode;

use crate::cluster::{AdminReply, AdminRequest, NewTopic, Topic, submit};
use crate::config::NodeConfig;
use crate::coordinator::OFFSETS_TOPIC;
use crate::coordinator::message::{GroupAnswer, GroupRequest, ListedGroup};
use crate::message::Message;
use crate::node::Node;

/// `offsets.topic.segment.bytes`: small, so that it is compacted soon.
const SEGMENT_BYTES: u32 = 100 << 20;

/// Java's hash of a string, which says where clients and tools of Kafka's find a group.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of a group among so many. A hash whose absolute value is no `i32` counts as 0, as in Kafka.
fn partition_of(group: &str, count: usize) -> PartitionIndex {
    let count = i32::try_from(count).unwrap_or(i32::MAX).max(1);
    PartitionIndex(java_hash(group).checked_abs().unwrap_or(0) % count)
}

/// The owner of a group's partition, and which that is.
fn place(topic: &Topic, group: &str) -> Option<(ShardId, LogId)> {
    let index = partition_of(group, topic.partitions.len());
    Some((topic.partition(index)?.owner, LogId { topic_id: topic.id, partition: index }))
}

/// Asks the coordinator of a group.
pub async fn ask_group(node: &Rc<Node>, request: GroupRequest) -> GroupAnswer {
    let placed = node.view().topic(OFFSETS_TOPIC).and_then(|topic| place(topic, request.group()));
    match placed {
        // Nobody was told of a coordinator yet.
        None => GroupAnswer::Unavailable(ErrorCode::NotCoordinator),
        Some((owner, log)) if owner == node.shard.id() => ask_here(node, log.partition, request).await,
        Some((owner, log)) => {
            let message = Message::Group { partition: log.partition, request: Box::new(request) };
            match node.mesh.request(owner, message).await {
                Message::GroupAnswered(answer) => *answer,
                other => unreachable!("Group is answered by GroupAnswered, not {other:?}"),
            }
        }
    }
}

/// Asks a coordinator of this shard.
pub async fn ask_here(node: &Node, partition: PartitionIndex, request: GroupRequest) -> GroupAnswer {
    match node.coordinators.get(partition) {
        Some(coordinator) => coordinator.ask(request).await,
        None => GroupAnswer::Unavailable(ErrorCode::NotCoordinator),
    }
}

/// All groups of this broker.
///
/// # Errors
/// `COORDINATOR_LOAD_IN_PROGRESS` where some are not known yet.
pub async fn list_groups(node: &Rc<Node>) -> Result<Vec<ListedGroup>, ErrorCode> {
    let mut replies = Vec::new();
    for shard in node.others() {
        replies.push(node.mesh.send_request(shard, Message::ListGroups).await);
    }
    let mut listed = node.coordinators.list()?;
    for reply in replies {
        match reply.await {
            Message::GroupsListed(there) => listed.extend(there?),
            other => unreachable!("ListGroups is answered by GroupsListed, not {other:?}"),
        }
    }
    Ok(listed)
}

/// The topic that groups are kept in, as it is created.
#[must_use]
pub fn offsets_topic(config: &NodeConfig) -> NewTopic {
    let setting = |name: &str, value: String| (name.to_owned(), Some(value));
    NewTopic {
        name: OFFSETS_TOPIC.to_owned(),
        partitions: config.offsets_partitions,
        replication_factor: 1,
        settings: vec![
            setting("cleanup.policy", "compact".to_owned()),
            setting("compression.type", "producer".to_owned()),
            setting("segment.bytes", SEGMENT_BYTES.to_string()),
        ],
        ..NewTopic::default()
    }
}

/// This broker, once there is the topic that groups are kept in.
///
/// # Errors
/// `COORDINATOR_NOT_AVAILABLE` where it can't be created.
pub async fn find_coordinator(node: &Rc<Node>) -> Result<BrokerId, ErrorCode> {
    let is_there = |node: &Rc<Node>| node.view().topic(OFFSETS_TOPIC).is_some();
    if !is_there(node) {
        let request = AdminRequest::CreateTopics { topics: vec![offsets_topic(&node.config)], validate_only: false };
        if let AdminReply::CreateTopics(results) = submit(node, request).await
            && let Some(Err(error)) = results.first()
            && error.code != ErrorCode::TopicAlreadyExists
        {
            tracing::warn!(reason = %error.reason, "the topic for groups can't be created");
        }
        if !is_there(node) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
    }
    Ok(node.view().broker.id)
}

#[cfg(test)]
mod tests {
    use super::{java_hash, partition_of};

    #[test]
    fn groups_are_where_kafka_has_them() {
        // "".hashCode() and so on, in Java.
        for (text, hash) in [("", 0), ("a", 97), ("group", 98_629_247), ("my-group", -1_906_497_762), ("😀", 1_772_899)]
        {
            assert_eq!(java_hash(text), hash, "{text}");
        }
        // The one hash whose absolute value is none.
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_of("polygenelubricants", 50).0, 0);
        assert_eq!(partition_of("group", 50).0, 47);
        // A negative one: where Apache Kafka 4.4 has written the records of this group.
        assert_eq!(partition_of("single", 50).0, 34);
        assert_eq!(partition_of("my-group", 50).0, 12);
    }
}
