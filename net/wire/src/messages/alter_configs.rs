//! AlterConfigs (key 33): replaces all settings of a resource; what the request does not name returns to its default
//! (KIP-133).
//!
//! Resource types and names are as in [`super::describe_configs`].

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = AlterConfigs, versions = "0-2", reply = AlterConfigsResponse<'r>)]
pub struct AlterConfigsRequest<'a> {
    pub resources: Array<'a, AlterConfigsResource<'a>>,
    /// Check everything, change nothing.
    pub validate_only: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct AlterConfigsResource<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub configs: Array<'a, AlterableConfig<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct AlterableConfig<'a> {
    pub name: &'a str,
    #[wire(nullable = "0+")]
    pub value: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = AlterConfigs, versions = "0-2")]
pub struct AlterConfigsResponse<'a> {
    pub throttle_time_ms: i32,
    pub responses: Array<'a, AlterConfigsResourceResponse<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct AlterConfigsResourceResponse<'a> {
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    pub resource_type: i8,
    pub resource_name: &'a str,
}
