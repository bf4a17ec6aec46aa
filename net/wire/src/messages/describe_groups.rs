//! DescribeGroups (key 15): the state of classic groups and of their members.

use super::metadata::NO_AUTHORIZED_OPERATIONS;
use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DescribeGroups, versions = "0-6", reply = DescribeGroupsResponse<'r>)]
pub struct DescribeGroupsRequest<'a> {
    pub groups: Array<'a, &'a str>,
    #[wire(versions = "3+")]
    pub include_authorized_operations: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeGroups, versions = "0-6")]
pub struct DescribeGroupsResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    pub groups: Array<'a, DescribedGroup<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribedGroup<'a> {
    /// Up to version 5 a group that does not exist is one in the state "Dead"; from version 6 on it is
    /// GROUP_ID_NOT_FOUND (KIP-1043).
    pub error_code: ErrorCode,
    #[wire(versions = "6+", nullable = "6+")]
    pub error_message: Option<&'a str>,
    pub group_id: &'a str,
    /// As Kafka names it, "Stable"; empty with an error.
    pub group_state: &'a str,
    pub protocol_type: &'a str,
    /// The name of the protocol that was chosen; empty while there is none.
    pub protocol_data: &'a str,
    pub members: Array<'a, DescribedGroupMember<'a>>,
    /// A bit per operation, where they were asked for.
    #[wire(versions = "3+", default = NO_AUTHORIZED_OPERATIONS)]
    pub authorized_operations: i32,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DescribedGroupMember<'a> {
    pub member_id: &'a str,
    #[wire(versions = "4+", nullable = "4+", ignorable)]
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    /// What the member gave with the protocol that was chosen; empty while there is none.
    pub member_metadata: &'a [u8],
    pub member_assignment: &'a [u8],
}
