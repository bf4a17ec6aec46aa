//! A classic group: its generation, and its members with their assignments.

use super::Value;
use crate::{Array, Wire};

/// A classic group as it was when its leader had handed in the assignment, or when its last member had gone.
#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "0-4", flexible = "4+")]
pub struct GroupMetadataValue<'a> {
    /// "consumer", "connect", or what the members agree on; empty for a group that only ever had offsets.
    pub protocol_type: &'a str,
    pub generation: i32,
    /// What all members can work with; null without members.
    #[wire(nullable = "0+")]
    pub protocol: Option<&'a str>,
    #[wire(nullable = "0+")]
    pub leader: Option<&'a str>,
    /// When the group came into the state it is in, in milliseconds since 1970; −1 for unknown.
    #[wire(versions = "2+", default = -1, ignorable)]
    pub current_state_timestamp: i64,
    pub members: Array<'a, MemberMetadata<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct MemberMetadata<'a> {
    pub member_id: &'a str,
    #[wire(versions = "3+", nullable = "3+", ignorable)]
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    /// In milliseconds; −1 where the version has it not: the session timeout.
    #[wire(versions = "1+", default = -1, ignorable)]
    pub rebalance_timeout: i32,
    /// In milliseconds.
    pub session_timeout: i32,
    /// What the member gave with the protocol that was chosen.
    pub subscription: &'a [u8],
    pub assignment: &'a [u8],
}

impl<'a> Value<'a> for GroupMetadataValue<'a> {
    /// Version 4 says nothing more, and Kafka does not write it yet.
    fn version_written(&self) -> i16 {
        3
    }
}
