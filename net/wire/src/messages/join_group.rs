//! JoinGroup (key 11): a member of a classic group asks to take part in the next generation.
//!
//! The answer waits until the generation is complete. Only its leader is told who the members are and what they said of
//! themselves; the leader assigns the partitions and says so in SyncGroup.

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = JoinGroup, versions = "0-9", reply = JoinGroupResponse<'r>)]
pub struct JoinGroupRequest<'a> {
    pub group_id: &'a str,
    /// How long the member may be silent before it counts as dead.
    pub session_timeout_ms: i32,
    /// How long the others wait for the member to join again; −1 where the version has it not: the session timeout.
    #[wire(versions = "1+", default = -1, ignorable)]
    pub rebalance_timeout_ms: i32,
    /// Empty from a member that has no id yet.
    pub member_id: &'a str,
    /// The name of a static member (KIP-345).
    #[wire(versions = "5+", nullable = "5+")]
    pub group_instance_id: Option<&'a str>,
    /// "consumer", "connect", or what the members agree on.
    pub protocol_type: &'a str,
    /// What the member can work with, the best first.
    pub protocols: Array<'a, JoinGroupRequestProtocol<'a>>,
    /// For people to read (KIP-800).
    #[wire(versions = "8+", nullable = "8+", ignorable)]
    pub reason: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct JoinGroupRequestProtocol<'a> {
    pub name: &'a str,
    /// Meant for the leader; for consumers a [`crate::consumer_protocol::ConsumerProtocolSubscription`].
    pub metadata: &'a [u8],
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = JoinGroup, versions = "0-9")]
pub struct JoinGroupResponse<'a> {
    #[wire(versions = "2+", ignorable)]
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(default = -1)]
    pub generation_id: i32,
    #[wire(versions = "7+", nullable = "7+", ignorable)]
    pub protocol_type: Option<&'a str>,
    /// What all members can work with; null, or empty before version 7, with an error.
    #[wire(nullable = "7+", default = Some(""))]
    pub protocol_name: Option<&'a str>,
    pub leader: &'a str,
    /// The leader is to keep the assignment that there is: a static leader came back (KIP-814).
    #[wire(versions = "9+")]
    pub skip_assignment: bool,
    /// From version 4 on with MEMBER_ID_REQUIRED: the id to join with (KIP-394).
    pub member_id: &'a str,
    /// Empty for all but the leader.
    pub members: Array<'a, JoinGroupResponseMember<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct JoinGroupResponseMember<'a> {
    pub member_id: &'a str,
    #[wire(versions = "5+", nullable = "5+", ignorable)]
    pub group_instance_id: Option<&'a str>,
    /// What the member gave with the protocol that was chosen.
    pub metadata: &'a [u8],
}
