//! DeleteGroups: groups without members, with their offsets.

use std::rc::Rc;

use net::Reply;
use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

use super::context::{Context, Refusal};
use crate::coordinator::message::{GroupAnswer, GroupRequest};
use crate::router;

/// Answers every group, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let groups: Vec<String> = {
        let request: DeleteGroupsRequest<'_> = context.decode()?;
        request.groups_names.iter().map(str::to_owned).collect()
    };
    let mut outcomes = Vec::with_capacity(groups.len());
    for group in &groups {
        outcomes.push(match router::ask_group(&context.node, GroupRequest::Delete { group: group.clone() }).await {
            GroupAnswer::Done(outcome) | GroupAnswer::Unavailable(outcome) => outcome,
            other => unreachable!("Delete is answered by Done, not {other:?}"),
        });
    }
    let results = groups
        .iter()
        .zip(outcomes)
        .map(|(group_id, error_code)| DeletableGroupResult { group_id, error_code, error_message: None })
        .collect();
    context.answer(&DeleteGroupsResponse { throttle_time_ms: 0, results })
}
