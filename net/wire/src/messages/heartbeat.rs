//! Heartbeat (key 12): a member of a classic group is alive, and learns of the next rebalance.

use crate::{ErrorCode, Wire};

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(request = Heartbeat, versions = "0-4", reply = HeartbeatResponse)]
pub struct HeartbeatRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    #[wire(versions = "3+", nullable = "3+")]
    pub group_instance_id: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(response = Heartbeat, versions = "0-4")]
pub struct HeartbeatResponse {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
}
