//! LeaveGroup: a member goes by its word, or several are taken out by an administrator (KIP-345).

use std::rc::Rc;

use net::Reply;
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::coordinator::message::{GroupAnswer, GroupRequest, Leaving};
use crate::router;

/// The first version that names several members.
const BATCH_VERSION: i16 = 3;

/// Lets them go.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let is_batch = context.version >= BATCH_VERSION;
    let (group, members) = {
        let request: LeaveGroupRequest<'_> = context.decode()?;
        let members: Vec<_> = if is_batch {
            let of = |member: wire::messages::leave_group::MemberIdentity<'_>| Leaving {
                member_id: member.member_id.to_owned(),
                instance_id: member.group_instance_id.map(str::to_owned),
            };
            request.members.iter().map(of).collect()
        } else {
            vec![Leaving { member_id: request.member_id.to_owned(), instance_id: None }]
        };
        (request.group_id.to_owned(), members)
    };
    let left = if group.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        match router::ask_group(&context.node, GroupRequest::Leave { group, members: members.clone() }).await {
            GroupAnswer::Left(outcomes) => Ok(outcomes),
            GroupAnswer::Unavailable(error) => Err(error),
            other => unreachable!("Leave is answered by Left, not {other:?}"),
        }
    };
    let (error_code, outcomes) = match left {
        Err(error) => (error, Vec::new()),
        Ok(outcomes) if is_batch => (ErrorCode::None, outcomes),
        Ok(outcomes) => (outcomes.first().copied().unwrap_or(ErrorCode::None), Vec::new()),
    };
    let responses: Vec<_> = members
        .iter()
        .zip(outcomes)
        .map(|(member, error_code)| MemberResponse {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            error_code,
        })
        .collect();
    context.answer(&LeaveGroupResponse { throttle_time_ms: 0, error_code, members: Array::from(responses) })
}
