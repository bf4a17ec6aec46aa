//! Questions about offsets, answered from the logs of this shard.

use std::rc::Rc;

use base::{NO_EPOCH, Offset, WallTime};
use storage::EpochEnd;
use wire::ErrorCode;

use crate::message::{EpochEndFound, EpochEndQuery, ListOffset, ListedOffset, OffsetSpec};
use crate::node::Node;

impl ListedOffset {
    #[must_use]
    pub fn failed(error: ErrorCode) -> Self {
        Self { error, offset: Offset(-1), timestamp: WallTime(-1), epoch: NO_EPOCH }
    }
}

impl EpochEndFound {
    #[must_use]
    pub fn failed(error: ErrorCode) -> Self {
        Self { error, epoch: NO_EPOCH, end: Offset(-1) }
    }
}

/// Answers in the order of `queries`.
pub async fn list_offsets(node: &Rc<Node>, queries: Vec<ListOffset>) -> Vec<ListedOffset> {
    let mut listed = Vec::with_capacity(queries.len());
    for query in queries {
        listed.push(list_offset(node, query).await.unwrap_or_else(ListedOffset::failed));
    }
    listed
}

async fn list_offset(node: &Node, query: ListOffset) -> Result<ListedOffset, ErrorCode> {
    let partition = node.partitions.get(query.log).ok_or(ErrorCode::NotLeaderOrFollower)?;
    partition.check_epoch(query.current_epoch)?;
    let high_watermark = partition.high_watermark();
    let failed = |error| partition.read_failed(&error);
    let found = match query.spec {
        OffsetSpec::Earliest => Some((partition.log.start_offset(), WallTime(-1))),
        OffsetSpec::Latest => Some((high_watermark, WallTime(-1))),
        OffsetSpec::MaxTimestamp => {
            partition.log.max_timestamp().await.map_err(failed)?.map(|at| (at.offset, at.timestamp))
        }
        OffsetSpec::AtTime(time) => {
            partition.log.offset_for_time(time).await.map_err(failed)?.map(|at| (at.offset, at.timestamp))
        }
    };
    Ok(found.map_or_else(
        || ListedOffset::failed(ErrorCode::None),
        |(offset, timestamp)| ListedOffset {
            error: ErrorCode::None,
            offset,
            timestamp,
            epoch: partition.log.epoch_at(offset).unwrap_or(NO_EPOCH),
        },
    ))
}

/// Answers in the order of `queries`.
pub fn epoch_ends(node: &Rc<Node>, queries: Vec<EpochEndQuery>) -> Vec<EpochEndFound> {
    queries.into_iter().map(|query| epoch_end(node, query).unwrap_or_else(EpochEndFound::failed)).collect()
}

fn epoch_end(node: &Node, query: EpochEndQuery) -> Result<EpochEndFound, ErrorCode> {
    let partition = node.partitions.get(query.log).ok_or(ErrorCode::NotLeaderOrFollower)?;
    partition.check_epoch(query.current_epoch)?;
    let (epoch, end) = match partition.log.epoch_end(query.epoch) {
        EpochEnd::Unknown => (NO_EPOCH, Offset(-1)),
        // What is not committed could still be lost: nobody is to rely on it.
        EpochEnd::At { epoch, end } => (epoch, end.min(partition.high_watermark())),
    };
    Ok(EpochEndFound { error: ErrorCode::None, epoch, end })
}
