//! `/healthz`: does every shard answer? `/readyz`: does the node take requests?
//!
//! A node that recovers is alive and not ready. A full disk is neither's business: reads go on, and a restart would not help.

use std::rc::Rc;
use std::time::Duration;

use base::ShardId;
use net::http::{Answer, StatusCode};

use super::answer::text;
use crate::message::Message;
use crate::node::Node;
use crate::observe::{Life, Phase};

/// How long a shard may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// 200 while all shards answer, 503 with the names of those that do not.
pub async fn healthz(life: Rc<Life>) -> Answer {
    let Some(node) = life.node() else { return text(StatusCode::OK, format!("ok: {}\n", life.phase())) };
    let silent = silent_shards(node).await;
    if silent.is_empty() {
        return text(StatusCode::OK, "ok\n".to_owned());
    }
    let named: Vec<_> = silent.iter().map(ToString::to_string).collect();
    let reason = format!("these shards have not answered within {ANSWER_LIMIT:?}: {}\n", named.join(", "));
    text(StatusCode::SERVICE_UNAVAILABLE, reason)
}

/// 200 while the node takes requests, 503 with what it does instead.
pub async fn readyz(life: Rc<Life>) -> Answer {
    match life.phase() {
        Phase::Serving => text(StatusCode::OK, "ready\n".to_owned()),
        other => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {other}\n")),
    }
}

async fn silent_shards(node: &Rc<Node>) -> Vec<ShardId> {
    let deadline = node.shard.now() + ANSWER_LIMIT;
    let mut asked = Vec::new();
    let mut silent = Vec::new();
    for shard in node.others() {
        match node.shard.until(deadline, node.mesh.send_request(shard, Message::Ping)).await {
            Some(answer) => asked.push((shard, answer)),
            None => silent.push(shard),
        }
    }
    for (shard, answer) in asked {
        if node.shard.until(deadline, answer).await.is_none() {
            silent.push(shard);
        }
    }
    silent.sort_unstable();
    silent
}
