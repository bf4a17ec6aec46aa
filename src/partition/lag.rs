//! How far readers of this shard's partitions are behind, and how long retention lets them be.

use std::rc::Rc;

use base::WallTime;
use storage::ReadError;
use storage::retention::Kept;

use crate::message::{LagFound, LagQuery};
use crate::node::Node;

/// Questions answered before others get a turn.
const QUERIES_A_POLL: usize = 64;

/// Answers in the order of `queries`, one after another: at most one batch is being read. `None` where the partition is not here.
pub async fn measure_lag(node: &Rc<Node>, queries: Vec<LagQuery>) -> Vec<Option<LagFound>> {
    let mut found = Vec::with_capacity(queries.len());
    for (index, query) in queries.into_iter().enumerate() {
        found.push(measure(node, query).await);
        if index % QUERIES_A_POLL == QUERIES_A_POLL - 1 {
            node.shard.yield_now().await;
        }
    }
    found
}

async fn measure(node: &Node, query: LagQuery) -> Option<LagFound> {
    let partition = node.partitions.get(query.log)?;
    let log = &partition.log;
    let high_watermark = partition.high_watermark();
    let log_start = log.start_offset();
    let next = query.committed.max(log_start);
    let mut found = LagFound {
        log_start,
        high_watermark,
        next,
        next_written: None,
        kept: if next < high_watermark { log.kept(next) } else { Kept::default() },
        appended_bytes: log.appended_bytes(),
        retention_ms: log.config().retention_ms,
    };
    if next < high_watermark && query.next_known != Some(next) {
        found.next_written = match log.record_at(next).await {
            Ok(record) => record.map(|record| record.timestamp).filter(|written| *written >= WallTime(0)),
            Err(error) => {
                // Retention may have passed it meanwhile.
                if !matches!(error, ReadError::OutOfRange { .. }) {
                    partition.read_failed(&error);
                }
                None
            }
        };
    }
    Some(found)
}
