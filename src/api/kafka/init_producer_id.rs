//! InitProducerId for idempotent producers (KIP-98, KIP-360).

use std::rc::Rc;

use base::{ProducerEpoch, ProducerId};
use net::Reply;
use wire::ErrorCode;
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::context::{Context, Refusal};
use crate::cluster;

/// A new identity for every request without a transactional id, as Kafka answers it; transactions are not served yet.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let refused = {
        let request: InitProducerIdRequest<'_> = context.decode()?;
        // An identity is an id and an epoch; half of one is a mistake of the client.
        let half = (request.producer_id == ProducerId(-1)) != (request.producer_epoch == ProducerEpoch(-1));
        half || request.transactional_id.is_some()
    };
    let identity =
        if refused { Err(ErrorCode::InvalidRequest) } else { cluster::next_producer_id(&context.node).await };
    let response = match identity {
        Ok(producer_id) => {
            InitProducerIdResponse { producer_id, producer_epoch: ProducerEpoch(0), ..Default::default() }
        }
        Err(error_code) => InitProducerIdResponse {
            error_code,
            producer_id: ProducerId(-1),
            producer_epoch: ProducerEpoch(-1),
            ..Default::default()
        },
    };
    context.answer(&response)
}
