//! ListOffsets: the ends of a partition, or the offset of a time (KIP-79, KIP-734, KIP-405).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use base::{PartitionIndex, WallTime};
use net::Reply;
use storage::LogId;
use wire::ErrorCode;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

use super::context::{Context, Refusal};
use super::planned;
use crate::message::{ListOffset, ListedOffset, OffsetSpec};
use crate::router;

/// The first version that tells the epoch of the record found.
const LEADER_EPOCH_VERSION: i16 = 4;

/// Answers every partition of the request, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (queries, known) = plan(&context)?;
    let mut listed = planned::outcomes(known, router::list_offsets(&context.node, queries).await);
    let request: ListOffsetsRequest<'_> = context.decode()?;
    let mut seen = HashSet::new();
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: (&topic.partitions)
                .into_iter()
                .filter(|partition| seen.insert((topic.name, partition.partition_index)))
                .zip(listed.by_ref())
                .map(|(partition, listed)| ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    error_code: listed.error,
                    timestamp: listed.timestamp.0,
                    offset: listed.offset,
                    leader_epoch: if context.version >= LEADER_EPOCH_VERSION { listed.epoch } else { base::NO_EPOCH },
                })
                .collect(),
        })
        .collect();
    context.answer(&ListOffsetsResponse { throttle_time_ms: 0, topics })
}

/// The questions for the owners, and for every partition an answer where there is none to ask. A partition that is named again is refused, and
/// answered once.
fn plan(context: &Context) -> Result<(Vec<ListOffset>, Vec<Option<ListedOffset>>), Refusal> {
    let request: ListOffsetsRequest<'_> = context.decode()?;
    let view = context.node.view();
    let mut counts: HashMap<(&str, PartitionIndex), usize> = HashMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *counts.entry((topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let mut seen = HashSet::new();
    let mut queries = Vec::new();
    let mut listed = Vec::new();
    for topic in &request.topics {
        let found = view.topic(topic.name);
        for partition in &topic.partitions {
            let key = (topic.name, partition.partition_index);
            if !seen.insert(key) {
                continue;
            }
            let query = match found {
                _ if counts[&key] > 1 => Err(ErrorCode::InvalidRequest),
                Some(found) if found.has(partition.partition_index) => {
                    let log = LogId { topic_id: found.id, partition: partition.partition_index };
                    query(context.version, log, &partition)
                }
                _ => Err(ErrorCode::UnknownTopicOrPartition),
            };
            match query {
                Ok(Some(query)) => {
                    queries.push(query);
                    listed.push(None);
                }
                Ok(None) => listed.push(Some(ListedOffset::failed(ErrorCode::None))),
                Err(error) => listed.push(Some(ListedOffset::failed(error))),
            }
        }
    }
    Ok((queries, listed))
}

/// `None`: known to have no such offset.
fn query(version: i16, log: LogId, partition: &ListOffsetsPartition) -> Result<Option<ListOffset>, ErrorCode> {
    let spec = match partition.timestamp {
        -1 => OffsetSpec::Latest,
        -2 => OffsetSpec::Earliest,
        -3 if version >= 7 => OffsetSpec::MaxTimestamp,
        // All of a log is local, so the earliest local offset is the earliest, and nothing is tiered.
        -4 if version >= 8 => OffsetSpec::Earliest,
        -5 if version >= 9 => return Ok(None),
        time if time >= 0 => OffsetSpec::AtTime(WallTime(time)),
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    Ok(Some(ListOffset { log, spec, current_epoch: partition.current_leader_epoch }))
}
