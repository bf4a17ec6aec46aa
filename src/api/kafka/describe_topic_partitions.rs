//! DescribeTopicPartitions: topics in pages (KIP-966).

use std::collections::BTreeSet;
use std::rc::Rc;

use base::{PartitionIndex, Uuid};
use net::Reply;
use replication::metadata::{check_topic_name, is_internal_topic};
use wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use wire::messages::metadata::NO_AUTHORIZED_OPERATIONS;
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use super::metadata::TOPIC_OPERATIONS;
use crate::cluster::{PartitionView, Topic, View};

/// Partitions in one answer (`max.request.partition.size.limit`).
pub const PARTITIONS_MAX: usize = 2000;

/// Answers from this shard's view: topics in name order, from the cursor on, until the page is full.
pub fn handle(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let request: DescribeTopicPartitionsRequest<'_> = context.decode()?;
    let view = context.node.view();
    let all = request.topics.is_empty();
    let mut names: BTreeSet<&str> = match all {
        true => view.topics().map(|topic| topic.name.as_str()).collect(),
        false => request.topics.iter().map(|topic| topic.name).collect(),
    };
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let (topics, next_cursor) = match request.cursor {
        Some(cursor) if cursor.partition_index.0 < 0 || !(all || names.contains(cursor.topic_name)) => {
            (names.into_iter().map(|name| failed(name, ErrorCode::InvalidRequest)).collect(), None)
        }
        cursor => {
            names.retain(|name| cursor.as_ref().is_none_or(|cursor| *name >= cursor.topic_name));
            page(&view, &names, cursor, limit)
        }
    };
    context.answer(&DescribeTopicPartitionsResponse { throttle_time_ms: 0, topics: topics.into(), next_cursor })
}

fn page<'v>(
    view: &'v View,
    names: &BTreeSet<&'v str>,
    cursor: Option<Cursor<'v>>,
    limit: usize,
) -> (Vec<DescribeTopicPartitionsResponseTopic<'v>>, Option<Cursor<'v>>) {
    let mut topics = Vec::new();
    let mut left = limit;
    for &name in names {
        let Some(topic) = view.topic(name) else {
            topics.push(unknown(name));
            continue;
        };
        let first = match &cursor {
            Some(cursor) if cursor.topic_name == name => usize::try_from(cursor.partition_index.0).unwrap_or(0),
            _ => 0,
        };
        let rest = topic.partitions.len().saturating_sub(first);
        if left == 0 && rest > 0 {
            return (topics, Some(cursor_at(name, first)));
        }
        let taken = rest.min(left);
        topics.push(described(topic, first, taken));
        left -= taken;
        if taken < rest {
            return (topics, Some(cursor_at(name, first + taken)));
        }
    }
    (topics, None)
}

fn cursor_at(topic_name: &str, partition: usize) -> Cursor<'_> {
    Cursor { topic_name, partition_index: PartitionIndex(i32::try_from(partition).unwrap_or(i32::MAX)) }
}

fn described(topic: &Topic, first: usize, count: usize) -> DescribeTopicPartitionsResponseTopic<'_> {
    let partitions = (0..).map(PartitionIndex).zip(&topic.partitions).skip(first).take(count);
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::None,
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: is_internal_topic(&topic.name),
        partitions: partitions.map(|(index, partition)| partition_answer(index, partition)).collect(),
        topic_authorized_operations: TOPIC_OPERATIONS,
    }
}

fn partition_answer(
    partition_index: PartitionIndex,
    partition: &PartitionView,
) -> DescribeTopicPartitionsResponsePartition<'_> {
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::None,
        partition_index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone().into(),
        isr_nodes: partition.isr.clone().into(),
        eligible_leader_replicas: Some(Array::empty()),
        last_known_elr: Some(Array::empty()),
        offline_replicas: Array::empty(),
    }
}

/// Who may do all to every topic may do so to one that is not there.
fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    let error_code = match check_topic_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic { topic_authorized_operations: TOPIC_OPERATIONS, ..failed(name, error_code) }
}

fn failed(name: &str, error_code: ErrorCode) -> DescribeTopicPartitionsResponseTopic<'_> {
    DescribeTopicPartitionsResponseTopic {
        error_code,
        name: Some(name),
        topic_id: Uuid::ZERO,
        is_internal: false,
        partitions: Array::empty(),
        topic_authorized_operations: NO_AUTHORIZED_OPERATIONS,
    }
}
