//! DeleteGroups (key 42): groups without members go, with their offsets (KIP-229).

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DeleteGroups, versions = "0-3", reply = DeleteGroupsResponse<'r>)]
pub struct DeleteGroupsRequest<'a> {
    pub groups_names: Array<'a, &'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DeleteGroups, versions = "0-3")]
pub struct DeleteGroupsResponse<'a> {
    pub throttle_time_ms: i32,
    pub results: Array<'a, DeletableGroupResult<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DeletableGroupResult<'a> {
    pub group_id: &'a str,
    pub error_code: ErrorCode,
    #[wire(versions = "3+", nullable = "3+", ignorable)]
    pub error_message: Option<&'a str>,
}
