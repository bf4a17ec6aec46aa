//! ListGroups: the groups that this broker coordinates.

use std::rc::Rc;

use net::Reply;
use wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::router;

/// Answers with those in the states and of the types asked for, in any case of letters; an empty list is all.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let listed = match router::list_groups(&context.node).await {
        Ok(listed) => listed,
        Err(error_code) => {
            return context.answer(&ListGroupsResponse { throttle_time_ms: 0, error_code, groups: Array::empty() });
        }
    };
    let request: ListGroupsRequest<'_> = context.decode()?;
    let is_asked = |filter: &Array<'_, &str>, name: &str| {
        filter.is_empty() || filter.iter().any(|asked| asked.eq_ignore_ascii_case(name))
    };
    let groups: Vec<_> = listed
        .iter()
        .filter(|group| is_asked(&request.states_filter, group.state) && is_asked(&request.types_filter, group.kind))
        .map(|group| ListedGroup {
            group_id: &group.group,
            protocol_type: &group.protocol_type,
            group_state: group.state,
            group_type: group.kind,
        })
        .collect();
    context.answer(&ListGroupsResponse { throttle_time_ms: 0, error_code: ErrorCode::None, groups: groups.into() })
}
