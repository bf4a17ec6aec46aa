//! InitProducerId (key 22): an identity for an idempotent or transactional producer (KIP-98, KIP-360).
//!
//! Version 6, two-phase commit (KIP-939), is not released by Kafka 4.4 and not here.

use base::{ProducerEpoch, ProducerId};

use crate::{ErrorCode, Wire};

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(request = InitProducerId, versions = "0-5", reply = InitProducerIdResponse)]
pub struct InitProducerIdRequest<'a> {
    /// Null for a producer that is idempotent only.
    #[wire(nullable = "0+")]
    pub transactional_id: Option<&'a str>,
    pub transaction_timeout_ms: i32,
    /// What the producer has, to have its epoch raised; −1 for a new identity.
    #[wire(versions = "3+", default = ProducerId(-1))]
    pub producer_id: ProducerId,
    #[wire(versions = "3+", default = ProducerEpoch(-1))]
    pub producer_epoch: ProducerEpoch,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(response = InitProducerId, versions = "0-5")]
pub struct InitProducerIdResponse {
    #[wire(ignorable)]
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    #[wire(default = ProducerId(-1))]
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
}
