//! DescribeLogDirs: the data directory, its space, and the size of each log in it (KIP-113, KIP-827).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use base::PartitionIndex;
use net::Reply;
use storage::LogId;
use wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::cluster::View;
use crate::router;

/// Asks every shard for the sizes of its logs.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = read(&context)?;
    let sizes = router::log_sizes(&context.node).await;
    let data_dir = &context.node.config.data_dir;
    let space = context.node.shard.fs().space(data_dir).await;
    let path = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone());
    let view = context.node.view();
    let topics: Vec<_> = sized(&view, asked.as_ref(), &sizes);
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let log_dir = path.to_string_lossy();
    let result = match &space {
        Ok(space) => DescribeLogDirsResult {
            error_code: ErrorCode::None,
            log_dir: &log_dir,
            topics: topics.into(),
            total_bytes: bytes(space.total_bytes),
            usable_bytes: bytes(space.free_bytes),
            is_cordoned: false,
        },
        Err(_) => DescribeLogDirsResult {
            error_code: ErrorCode::KafkaStorageError,
            log_dir: &log_dir,
            topics: Array::empty(),
            total_bytes: -1,
            usable_bytes: -1,
            is_cordoned: false,
        },
    };
    context.answer(&DescribeLogDirsResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        results: vec![result].into(),
    })
}

/// The partitions asked for; `None` for all there are.
type Asked = Option<BTreeMap<String, BTreeSet<PartitionIndex>>>;

fn read(context: &Context) -> Result<Asked, Refusal> {
    let request: DescribeLogDirsRequest<'_> = context.decode()?;
    Ok(request.topics.map(|topics| {
        let mut asked: BTreeMap<String, BTreeSet<PartitionIndex>> = BTreeMap::new();
        for topic in &topics {
            asked.entry(topic.topic.to_owned()).or_default().extend(topic.partitions.iter());
        }
        asked
    }))
}

fn sized<'v>(
    view: &'v View,
    asked: Option<&BTreeMap<String, BTreeSet<PartitionIndex>>>,
    sizes: &HashMap<LogId, u64>,
) -> Vec<DescribeLogDirsTopic<'v>> {
    let mut topics = Vec::new();
    for topic in view.topics() {
        let wanted = |index: &PartitionIndex| {
            asked.is_none_or(|asked| asked.get(&topic.name).is_some_and(|indexes| indexes.contains(index)))
        };
        let partitions: Vec<_> = (0..)
            .map(PartitionIndex)
            .take(topic.partitions.len())
            .filter(wanted)
            .filter_map(|index| {
                let bytes = sizes.get(&LogId { topic_id: topic.id, partition: index })?;
                Some(DescribeLogDirsPartition {
                    partition_index: index,
                    partition_size: i64::try_from(*bytes).unwrap_or(i64::MAX),
                    offset_lag: 0,
                    is_future_key: false,
                })
            })
            .collect();
        if !partitions.is_empty() {
            topics.push(DescribeLogDirsTopic { name: &topic.name, partitions: partitions.into() });
        }
    }
    topics
}
