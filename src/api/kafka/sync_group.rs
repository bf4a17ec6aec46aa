//! SyncGroup: waits until the leader has shared the partitions out.

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::context::{Context, Refusal, keeping};
use crate::coordinator::message::{GroupAnswer, GroupRequest, Speaker, Sync, Synced};
use crate::router;

/// From this version on a member says which protocol it takes the group to have.
const PROTOCOL_VERSION: i16 = 5;

/// Answers with the member's share.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let synced = match sync(&context)? {
        Err(error) => Synced::failed(error),
        Ok(sync) => match router::ask_group(&context.node, GroupRequest::Sync(sync)).await {
            GroupAnswer::Synced(synced) => synced,
            GroupAnswer::Unavailable(error) => Synced::failed(error),
            other => unreachable!("Sync is answered by Synced, not {other:?}"),
        },
    };
    let permit = context.room_for_answer(synced.assignment.len() * 2).await;
    let reply = context.answer(&SyncGroupResponse {
        throttle_time_ms: 0,
        error_code: synced.error,
        protocol_type: synced.protocol_type.as_deref(),
        protocol_name: synced.protocol.as_deref(),
        assignment: &synced.assignment,
    })?;
    Ok(keeping(reply, permit))
}

fn sync(context: &Context) -> Result<Result<Sync, ErrorCode>, Refusal> {
    let request: SyncGroupRequest<'_> = context.decode()?;
    if request.group_id.is_empty() {
        return Ok(Err(ErrorCode::InvalidGroupId));
    }
    if context.version >= PROTOCOL_VERSION && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Ok(Err(ErrorCode::InconsistentGroupProtocol));
    }
    Ok(Ok(Sync {
        group: request.group_id.to_owned(),
        speaker: Speaker {
            member_id: request.member_id.to_owned(),
            instance_id: request.group_instance_id.map(str::to_owned),
            generation: request.generation_id,
        },
        protocol_type: request.protocol_type.map(str::to_owned),
        protocol: request.protocol_name.map(str::to_owned),
        assignments: request
            .assignments
            .iter()
            .map(|assignment| (assignment.member_id.to_owned(), assignment.assignment.to_vec()))
            .collect(),
    }))
}
