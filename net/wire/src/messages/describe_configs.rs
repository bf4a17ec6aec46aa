//! DescribeConfigs (key 32): settings with their values and where these come from (KIP-133, KIP-226, KIP-569).
//!
//! A resource type, here and in the other APIs about settings, is 2 for a topic, 4 for a broker, 8 for a broker's
//! loggers, 16 for client metrics, 32 for a group. Topics, metrics and groups go by their name, brokers by their id in
//! decimal; an empty name stands for the settings that all brokers share.

use crate::{Array, ErrorCode, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(request = DescribeConfigs, versions = "1-4", reply = DescribeConfigsResponse<'r>)]
pub struct DescribeConfigsRequest<'a> {
    pub resources: Array<'a, DescribeConfigsResource<'a>>,
    #[wire(versions = "1+")]
    pub include_synonyms: bool,
    #[wire(versions = "3+")]
    pub include_documentation: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeConfigsResource<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    /// Null for all of them.
    #[wire(nullable = "0+", default = Some(Array::empty()))]
    pub configuration_keys: Option<Array<'a, &'a str>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeConfigs, versions = "1-4")]
pub struct DescribeConfigsResponse<'a> {
    pub throttle_time_ms: i32,
    pub results: Array<'a, DescribeConfigsResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeConfigsResult<'a> {
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub configs: Array<'a, DescribeConfigsResourceResult<'a>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
pub struct DescribeConfigsResourceResult<'a> {
    pub name: &'a str,
    /// Null where there is none, and where it is sensitive.
    #[wire(nullable = "0+")]
    pub value: Option<&'a str>,
    pub read_only: bool,
    /// 1: set for the topic; 2: for this broker; 3: for all brokers; 4: in the broker's file; 5: built in; 6: set for a
    /// logger; 7: for client metrics; 8: for the group. 0 or −1 for unknown.
    #[wire(versions = "1+", default = -1, ignorable)]
    pub config_source: i8,
    pub is_sensitive: bool,
    /// Every place that gives the setting a value, the one that counts first; empty where not asked for.
    #[wire(versions = "1+", ignorable)]
    pub synonyms: Array<'a, DescribeConfigsSynonym<'a>>,
    /// 0: unknown; 1: a boolean; 2: a string; 3, 4, 5: a number of 32, 16, 64 bits; 6: a double; 7: a list; 8: a class;
    /// 9: a password.
    #[wire(versions = "3+", ignorable)]
    pub config_type: i8,
    /// Null where not asked for.
    #[wire(versions = "3+", nullable = "0+", default = Some(""), ignorable)]
    pub documentation: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DescribeConfigsSynonym<'a> {
    /// The broker's name for the setting, where the value is the broker's.
    #[wire(versions = "1+")]
    pub name: &'a str,
    #[wire(versions = "1+", nullable = "0+")]
    pub value: Option<&'a str>,
    /// A number of `config_source`.
    #[wire(versions = "1+")]
    pub source: i8,
}
