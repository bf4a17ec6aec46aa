//! ApiVersions and InitProducerId: who the broker is to clients, and who they are to it.

use std::rc::Rc;

use base::{ProducerEpoch, ProducerId};
use net::{Reply, Started};
use wire::ErrorCode;
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::super::broker::Broker;
use super::super::request::{Api, Asker, Refusal, Request};
use super::TABLE;

fn range(api: &Api) -> ApiVersion {
    ApiVersion { api_key: api.key.code(), min_version: api.advertised_min, max_version: *api.versions.end() }
}

/// Names every API of the table.
pub fn versions(_: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let response = ApiVersionsResponse { api_keys: TABLE.iter().map(range).collect(), ..Default::default() };
    request.asker.answer(&response).map(Started::Done)
}

/// The answer to a version of ApiVersions that is not served.
pub fn unsupported(asker: Asker, api: &Api) -> Result<Reply, Refusal> {
    let error_code = ErrorCode::UnsupportedVersion;
    asker.answer(&ApiVersionsResponse { error_code, api_keys: vec![range(api)].into(), ..Default::default() })
}

/// A new identity for every request; there are no transactions.
pub fn init_producer_id(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: InitProducerIdRequest<'_> = request.decode()?;
    let response = if asked.transactional_id.is_some() {
        InitProducerIdResponse {
            error_code: ErrorCode::InvalidRequest,
            producer_id: ProducerId(-1),
            producer_epoch: ProducerEpoch(-1),
            ..Default::default()
        }
    } else {
        let id = broker.next_producer_id.get();
        broker.next_producer_id.set(id + 1);
        InitProducerIdResponse { producer_id: ProducerId(id), producer_epoch: ProducerEpoch(0), ..Default::default() }
    };
    request.asker.answer(&response).map(Started::Done)
}
