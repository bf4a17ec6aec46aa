//! JoinGroup: waits until the generation is complete.

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};

use super::context::{Context, Refusal, keeping};
use crate::coordinator::message::{GroupAnswer, GroupRequest, Join, Joined, JoinedMember, Protocol};
use crate::router;

/// The first version whose dynamic members come twice, the second time with the id that they were given (KIP-394).
const MEMBER_ID_VERSION: i16 = 4;
/// The first version whose protocol may be null.
const NULL_PROTOCOL_VERSION: i16 = 7;
/// The first version whose leader may be told to leave the assignment as it is (KIP-814).
const SKIP_VERSION: i16 = 9;

/// One member of an answer, besides its id and what it said.
const MEMBER_BYTES: usize = 120;

/// Joins the group.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let join = join(&context)?;
    let member_id = join.member_id.clone();
    let joined = if join.group.is_empty() {
        Joined::failed(ErrorCode::InvalidGroupId, member_id)
    } else {
        match router::ask_group(&context.node, GroupRequest::Join(join)).await {
            GroupAnswer::Joined(joined) => joined,
            GroupAnswer::Unavailable(error) => Joined::failed(error, member_id),
            other => unreachable!("Join is answered by Joined, not {other:?}"),
        }
    };
    // What all members said: the leader's alone.
    let said = |member: &JoinedMember| {
        let instance_bytes = member.instance_id.as_ref().map_or(0, String::len);
        member.member_id.len() + instance_bytes + member.metadata.len() + MEMBER_BYTES
    };
    let permit = context.room_for_answer(joined.members.iter().map(said).sum::<usize>() * 2).await;
    let is_nullable = context.version >= NULL_PROTOCOL_VERSION;
    let members: Vec<_> = joined
        .members
        .iter()
        .map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            metadata: &member.metadata,
        })
        .collect();
    let reply = context.answer(&JoinGroupResponse {
        throttle_time_ms: 0,
        error_code: joined.error,
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.as_deref(),
        protocol_name: joined.protocol.as_deref().or((!is_nullable).then_some("")),
        leader: &joined.leader,
        skip_assignment: joined.skip_assignment,
        member_id: &joined.member_id,
        members: members.into(),
    })?;
    Ok(keeping(reply, permit))
}

fn join(context: &Context) -> Result<Join, Refusal> {
    let request: JoinGroupRequest<'_> = context.decode()?;
    let rebalance_timeout_ms =
        if request.rebalance_timeout_ms < 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    Ok(Join {
        group: request.group_id.to_owned(),
        member_id: request.member_id.to_owned(),
        instance_id: request.group_instance_id.map(str::to_owned),
        client_id: context.client_id().to_owned(),
        client_host: context.client_host(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.to_owned(),
        protocols: request
            .protocols
            .iter()
            .map(|protocol| Protocol { name: protocol.name.to_owned(), metadata: protocol.metadata.to_vec() })
            .collect(),
        requires_member_id: context.version >= MEMBER_ID_VERSION,
        may_skip_assignment: context.version >= SKIP_VERSION,
    })
}
