//! `/metrics`: every shard renders its own, and the one that was asked joins them.

use std::rc::Rc;
use std::time::Duration;

use net::http::{Answer, StatusCode};

use super::answer::{text, typed};
use crate::message::Message;
use crate::observe::{Life, join, of_process, of_shard};

/// How long the shards may take together; the series of one that takes longer are missing.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The text format that Prometheus reads.
pub async fn handle(life: Rc<Life>) -> Answer {
    let Some(node) = life.node() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("no metrics yet: {}\n", life.phase()));
    };
    let deadline = node.shard.now() + ANSWER_LIMIT;
    let mut asked = Vec::new();
    for shard in node.others() {
        asked.extend(node.shard.until(deadline, node.mesh.send_request(shard, Message::RenderMetrics)).await);
    }
    let mut parts = vec![of_process(node).await, of_shard(node).await];
    for answer in asked {
        match node.shard.until(deadline, answer).await {
            Some(Message::MetricsRendered(part)) => parts.push(part),
            Some(other) => unreachable!("RenderMetrics is answered by MetricsRendered, not {other:?}"),
            None => {}
        }
    }
    typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", join(&parts))
}
