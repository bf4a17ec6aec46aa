//! FindCoordinator (key 10): which broker coordinates a group, a transaction or a share partition; in batches from version 4 on (KIP-699).

use base::BrokerId;

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = FindCoordinator, versions = "0-6", reply = FindCoordinatorResponse<'r>)]
pub struct FindCoordinatorRequest<'a> {
    #[wire(versions = "0-3")]
    pub key: &'a str,
    /// 0: a group; 1: a transaction; 2: a share partition (from version 6 on).
    #[wire(versions = "1+", ignorable)]
    pub key_type: i8,
    #[wire(versions = "4+")]
    pub coordinator_keys: Array<'a, &'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = FindCoordinator, versions = "0-6")]
pub struct FindCoordinatorResponse<'a> {
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    #[wire(versions = "0-3", ignorable)]
    pub error_code: ErrorCode,
    #[wire(versions = "1-3", nullable = "1-3", default = Some(""), ignorable)]
    pub error_message: Option<&'a str>,
    #[wire(versions = "0-3")]
    pub node_id: BrokerId,
    #[wire(versions = "0-3")]
    pub host: &'a str,
    #[wire(versions = "0-3")]
    pub port: i32,
    #[wire(versions = "4+")]
    pub coordinators: Array<'a, Coordinator<'a>>,
}

/// Where one key's coordinator is, or why it is not known.
#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct Coordinator<'a> {
    #[wire(versions = "4+")]
    pub key: &'a str,
    #[wire(versions = "4+")]
    pub node_id: BrokerId,
    #[wire(versions = "4+")]
    pub host: &'a str,
    #[wire(versions = "4+")]
    pub port: i32,
    #[wire(versions = "4+")]
    pub error_code: ErrorCode,
    #[wire(versions = "4+", nullable = "4+", ignorable)]
    pub error_message: Option<&'a str>,
}
