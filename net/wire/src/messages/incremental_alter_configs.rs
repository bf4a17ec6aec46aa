//! IncrementalAlterConfigs (key 44): changes some settings of a resource and leaves the others (KIP-339).
//!
//! Resource types and names are as in [`super::describe_configs`].

pub use super::alter_configs::AlterConfigsResourceResponse;
use crate::{Array, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = IncrementalAlterConfigs, versions = "0-1", reply = IncrementalAlterConfigsResponse<'r>)]
pub struct IncrementalAlterConfigsRequest<'a> {
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
    /// 0: set the value; 1: return to the default; 2: add to a list; 3: take out of a list.
    pub config_operation: i8,
    /// Null where the operation takes none.
    #[wire(nullable = "0+")]
    pub value: Option<&'a str>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = IncrementalAlterConfigs, versions = "0-1")]
pub struct IncrementalAlterConfigsResponse<'a> {
    pub throttle_time_ms: i32,
    pub responses: Array<'a, AlterConfigsResourceResponse<'a>>,
}
