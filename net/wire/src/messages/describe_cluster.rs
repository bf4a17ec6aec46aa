//! DescribeCluster (key 60): the brokers, or from version 1 on the controllers (KIP-700, KIP-919).

use base::BrokerId;

use super::metadata::NO_AUTHORIZED_OPERATIONS;
use crate::{Array, ErrorCode, Wire};

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(request = DescribeCluster, versions = "0-2", reply = DescribeClusterResponse<'r>)]
pub struct DescribeClusterRequest {
    pub include_cluster_authorized_operations: bool,
    /// 1: brokers; 2: controllers.
    #[wire(versions = "1+", default = 1)]
    pub endpoint_type: i8,
    /// Registered brokers that may lead nothing are listed too (KIP-1073).
    #[wire(versions = "2+")]
    pub include_fenced_brokers: bool,
}

#[derive(Clone, PartialEq, Debug, Wire)]
#[wire(response = DescribeCluster, versions = "0-2")]
pub struct DescribeClusterResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(nullable = "0+")]
    pub error_message: Option<&'a str>,
    /// As in the request.
    #[wire(versions = "1+", default = 1)]
    pub endpoint_type: i8,
    pub cluster_id: &'a str,
    /// From a broker, the id of some live broker; −1 for none.
    #[wire(default = BrokerId(-1))]
    pub controller_id: BrokerId,
    pub brokers: Array<'a, DescribeClusterBroker<'a>>,
    /// A bit per operation, where they were asked for.
    #[wire(default = NO_AUTHORIZED_OPERATIONS)]
    pub cluster_authorized_operations: i32,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
pub struct DescribeClusterBroker<'a> {
    pub broker_id: BrokerId,
    pub host: &'a str,
    pub port: i32,
    #[wire(nullable = "0+")]
    pub rack: Option<&'a str>,
    #[wire(versions = "2+")]
    pub is_fenced: bool,
}
