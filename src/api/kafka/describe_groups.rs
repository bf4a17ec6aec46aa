//! DescribeGroups: the state of classic groups and of their members.

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup as Told, DescribedGroupMember,
};
use wire::messages::metadata::NO_AUTHORIZED_OPERATIONS;

use super::context::{Context, Refusal};
use crate::coordinator::message::{DescribedGroup, GroupAnswer, GroupRequest};
use crate::router;

/// The first version in which a group that is not there is an error (KIP-1043).
const NOT_FOUND_VERSION: i16 = 6;

/// Answers every group, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let groups: Vec<String> = {
        let request: DescribeGroupsRequest<'_> = context.decode()?;
        request.groups.iter().map(str::to_owned).collect()
    };
    let mut described = Vec::with_capacity(groups.len());
    for group in &groups {
        described.push(match router::ask_group(&context.node, GroupRequest::Describe { group: group.clone() }).await {
            GroupAnswer::Described(described) => described,
            GroupAnswer::Unavailable(error) => DescribedGroup::failed(error),
            other => unreachable!("Describe is answered by Described, not {other:?}"),
        });
    }
    let missing: Vec<_> = groups.iter().map(|group| wire::cut_to_string(format!("Group {group} not found."))).collect();
    let told = groups
        .iter()
        .zip(&described)
        .zip(&missing)
        .map(|((group, described), missing)| told(context.version, group, described, missing));
    context.answer(&DescribeGroupsResponse { throttle_time_ms: 0, groups: told.collect() })
}

fn told<'d>(version: i16, group: &'d str, described: &'d DescribedGroup, missing: &'d str) -> Told<'d> {
    let members: Vec<_> = described
        .members
        .iter()
        .map(|member| DescribedGroupMember {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            member_metadata: &member.metadata,
            member_assignment: &member.assignment,
        })
        .collect();
    let is_missing = described.error == ErrorCode::GroupIdNotFound;
    let is_error = version >= NOT_FOUND_VERSION || !is_missing;
    Told {
        error_code: if is_error { described.error } else { ErrorCode::None },
        error_message: (is_missing && is_error).then_some(missing),
        group_id: group,
        group_state: described.state,
        protocol_type: &described.protocol_type,
        protocol_data: &described.protocol,
        members: members.into(),
        authorized_operations: NO_AUTHORIZED_OPERATIONS,
    }
}
