//! Producer ids: each shard hands out those of a block that the controller gave it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use base::ProducerId;
use wire::ErrorCode;

use super::{AdminReply, AdminRequest, submit};
use crate::node::Node;

/// What is left of a shard's block.
pub struct ProducerIds {
    left: RefCell<Range<i64>>,
}

impl Default for ProducerIds {
    fn default() -> Self {
        Self { left: RefCell::new(0..0) }
    }
}

/// An id that no producer ever had. A block that was half used is lost with a restart, as in Kafka.
///
/// # Errors
/// The code of the controller's refusal.
pub async fn next_producer_id(node: &Rc<Node>) -> Result<ProducerId, ErrorCode> {
    loop {
        if let Some(id) = node.producer_ids.left.borrow_mut().next() {
            return Ok(ProducerId(id));
        }
        match submit(node, AdminRequest::AllocateProducerIds).await {
            // Another request may have brought a block meanwhile: then that one's rest is skipped, which costs only numbers.
            AdminReply::ProducerIds(Ok(block)) => *node.producer_ids.left.borrow_mut() = block,
            AdminReply::ProducerIds(Err(error)) => return Err(error.code),
            other => unreachable!("AllocateProducerIds is answered by ProducerIds, not {other:?}"),
        }
    }
}
