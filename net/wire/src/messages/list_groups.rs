//! ListGroups (key 16): the groups that this broker coordinates, of every type.

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ListGroups, versions = "0-5", reply = ListGroupsResponse<'r>)]
pub struct ListGroupsRequest<'a> {
    /// Names of states, "Stable"; empty for all (KIP-518).
    #[wire(versions = "4+")]
    pub states_filter: Array<'a, &'a str>,
    /// Names of types, "classic"; empty for all (KIP-848).
    #[wire(versions = "5+")]
    pub types_filter: Array<'a, &'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ListGroups, versions = "0-5")]
pub struct ListGroupsResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub groups: Array<'a, ListedGroup<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ListedGroup<'a> {
    pub group_id: &'a str,
    pub protocol_type: &'a str,
    #[wire(versions = "4+", ignorable)]
    pub group_state: &'a str,
    #[wire(versions = "5+", ignorable)]
    pub group_type: &'a str,
}
