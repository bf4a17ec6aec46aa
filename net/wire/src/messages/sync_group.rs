//! SyncGroup (key 14): the leader of a classic group hands in the assignment, and each member is told its own.

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = SyncGroup, versions = "0-5", reply = SyncGroupResponse<'r>)]
pub struct SyncGroupRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    #[wire(versions = "3+", nullable = "3+")]
    pub group_instance_id: Option<&'a str>,
    /// What the member takes the type and the name of the protocol to be; to be compared with the group's (KIP-559).
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub protocol_type: Option<&'a str>,
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub protocol_name: Option<&'a str>,
    /// Empty from all but the leader.
    pub assignments: Array<'a, SyncGroupRequestAssignment<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct SyncGroupRequestAssignment<'a> {
    pub member_id: &'a str,
    /// Meant for the member; for consumers a [`crate::consumer_protocol::ConsumerProtocolAssignment`].
    pub assignment: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(response = SyncGroup, versions = "0-5")]
pub struct SyncGroupResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub protocol_type: Option<&'a str>,
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub protocol_name: Option<&'a str>,
    /// Empty where the leader gave the member nothing.
    pub assignment: &'a [u8],
}
