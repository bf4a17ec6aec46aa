//! ListConfigResources (key 74): the resources that have settings (KIP-1142).
//!
//! Version 0 was called ListClientMetricsResources and lists those alone (KIP-714). Resource types are as in
//! [`super::describe_configs`].

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ListConfigResources, versions = "0-1", reply = ListConfigResourcesResponse<'r>)]
pub struct ListConfigResourcesRequest<'a> {
    /// Empty for all types that the broker lists.
    #[wire(versions = "1+")]
    pub resource_types: Array<'a, i8>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ListConfigResources, versions = "0-1")]
pub struct ListConfigResourcesResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub config_resources: Array<'a, ConfigResource<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ConfigResource<'a> {
    pub resource_name: &'a str,
    /// Client metrics where the version does not say.
    #[wire(versions = "1+", default = 16, ignorable)]
    pub resource_type: i8,
}
