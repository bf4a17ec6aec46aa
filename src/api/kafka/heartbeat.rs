//! Heartbeat of a classic member.

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::context::{Context, Refusal};
use crate::coordinator::message::{GroupAnswer, GroupRequest, Speaker};
use crate::router;

/// Notes the sign of life; tells the member whether it is to join again.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let request = {
        let request: HeartbeatRequest<'_> = context.decode()?;
        let speaker = Speaker {
            member_id: request.member_id.to_owned(),
            instance_id: request.group_instance_id.map(str::to_owned),
            generation: request.generation_id,
        };
        GroupRequest::Heartbeat { group: request.group_id.to_owned(), speaker }
    };
    let error_code = if request.group().is_empty() {
        ErrorCode::InvalidGroupId
    } else {
        match router::ask_group(&context.node, request).await {
            GroupAnswer::Done(outcome) => outcome,
            // A coordinator that is loading knows of no rebalance yet, and the member need not do anything about that (as in Kafka).
            GroupAnswer::Unavailable(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
            GroupAnswer::Unavailable(error) => error,
            other => unreachable!("Heartbeat is answered by Done, not {other:?}"),
        }
    };
    context.answer(&HeartbeatResponse { throttle_time_ms: 0, error_code })
}
