//! What operators ask of the partitions of this shard: their sizes, their producers, their oldest records to go.

use std::rc::Rc;

use base::Offset;
use storage::{ActiveProducer, LogId, StoreError};
use wire::ErrorCode;

use crate::message::RecordsDeletion;
use crate::node::Node;

/// Moves the starts of logs up, one after another, and answers each with its start then.
pub async fn delete_records(node: &Rc<Node>, deletions: Vec<RecordsDeletion>) -> Vec<Result<Offset, ErrorCode>> {
    let mut starts = Vec::with_capacity(deletions.len());
    for deletion in deletions {
        starts.push(delete_before(node, deletion).await);
    }
    starts
}

async fn delete_before(node: &Node, deletion: RecordsDeletion) -> Result<Offset, ErrorCode> {
    let partition = node.partitions.get(deletion.log).ok_or(ErrorCode::NotLeaderOrFollower)?;
    // As in Kafka: compaction alone decides what goes.
    let cleanup = partition.config().cleanup;
    if cleanup.compact && !cleanup.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let high_watermark = partition.high_watermark();
    let before = deletion.before.unwrap_or(high_watermark);
    if before.0 < 0 || before > high_watermark {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    partition.log.advance_start(before).await.map_err(|error| match error {
        StoreError::NotFound => ErrorCode::NotLeaderOrFollower,
        error => {
            tracing::warn!(log = %deletion.log, %error, "records could not be deleted");
            ErrorCode::KafkaStorageError
        }
    })?;
    Ok(partition.log.start_offset())
}

/// The size of every log here, in bytes of batches.
#[must_use]
pub fn log_sizes(node: &Node) -> Vec<(LogId, u64)> {
    node.store.logs().iter().map(|log| (log.id(), log.size_bytes())).collect()
}

/// Producers after which no further partition of a request has its own told: there may be thousands for each.
const PRODUCERS_TOLD_MAX: usize = 5000;

/// The idempotent producers of each partition; INVALID_REQUEST for those that come after too many, to be asked for by themselves.
#[must_use]
pub fn producers(node: &Node, logs: Vec<LogId>) -> Vec<Result<Vec<ActiveProducer>, ErrorCode>> {
    let mut told = 0;
    let of = |log| {
        if told >= PRODUCERS_TOLD_MAX {
            return Err(ErrorCode::InvalidRequest);
        }
        let partition = node.partitions.get(log).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let producers = partition.log.producers();
        told += producers.len();
        Ok(producers)
    };
    logs.into_iter().map(of).collect()
}
