//! LeaveGroup (key 13): a member goes, or from version 3 on an administrator sends several away (KIP-345).

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = LeaveGroup, versions = "0-5", reply = LeaveGroupResponse<'r>)]
pub struct LeaveGroupRequest<'a> {
    pub group_id: &'a str,
    #[wire(versions = "0-2")]
    pub member_id: &'a str,
    #[wire(versions = "3+")]
    pub members: Array<'a, MemberIdentity<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct MemberIdentity<'a> {
    /// Empty where the instance id says who it is.
    #[wire(versions = "3+")]
    pub member_id: &'a str,
    #[wire(versions = "3+", nullable = "3+")]
    pub group_instance_id: Option<&'a str>,
    /// For people to read (KIP-800).
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub reason: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = LeaveGroup, versions = "0-5")]
pub struct LeaveGroupResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    /// Up to version 2 the member's own error, from version 3 on the group's.
    pub error_code: ErrorCode,
    #[wire(versions = "3+")]
    pub members: Array<'a, MemberResponse<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct MemberResponse<'a> {
    #[wire(versions = "3+")]
    pub member_id: &'a str,
    #[wire(versions = "3+", nullable = "3+")]
    pub group_instance_id: Option<&'a str>,
    #[wire(versions = "3+")]
    pub error_code: ErrorCode,
}
