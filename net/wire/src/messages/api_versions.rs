//! ApiVersions (key 18): what a broker serves; every client's first request (KIP-511).
//!
//! A request above the broker's versions is answered at version 0 with `UNSUPPORTED_VERSION` and the range of this API.

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = ApiVersions, versions = "0-4", reply = ApiVersionsResponse<'r>)]
pub struct ApiVersionsRequest<'a> {
    #[wire(versions = "3+", ignorable)]
    pub client_software_name: &'a str,
    #[wire(versions = "3+", ignorable)]
    pub client_software_version: &'a str,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = ApiVersions, versions = "0-4")]
pub struct ApiVersionsResponse<'a> {
    pub error_code: ErrorCode,
    pub api_keys: Array<'a, ApiVersion>,
    #[wire(versions = "1+", ignorable)]
    pub throttle_time_ms: i32,
    /// Up to version 3 without features whose lowest version is 0: those clients refuse them.
    #[wire(versions = "3+", tag = 0, ignorable)]
    pub supported_features: Array<'a, SupportedFeatureKey<'a>>,
    /// −1 where `finalized_features` are not known.
    #[wire(versions = "3+", tag = 1, default = -1, ignorable)]
    pub finalized_features_epoch: i64,
    #[wire(versions = "3+", tag = 2, ignorable)]
    pub finalized_features: Array<'a, FinalizedFeatureKey<'a>>,
    #[wire(versions = "3+", tag = 3, ignorable)]
    pub zk_migration_ready: bool,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct ApiVersion {
    /// A number, not an [`crate::ApiKey`]: a peer may serve what this crate has never heard of.
    pub api_key: i16,
    pub min_version: i16,
    pub max_version: i16,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct SupportedFeatureKey<'a> {
    #[wire(versions = "3+")]
    pub name: &'a str,
    #[wire(versions = "3+")]
    pub min_version: i16,
    #[wire(versions = "3+")]
    pub max_version: i16,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct FinalizedFeatureKey<'a> {
    #[wire(versions = "3+")]
    pub name: &'a str,
    #[wire(versions = "3+")]
    pub max_version_level: i16,
    #[wire(versions = "3+")]
    pub min_version_level: i16,
}
