//! FindCoordinator: no coordinator runs on this broker yet, and that is the answer.
//!
//! Clients ask it as soon as they are told to join a group. librdkafka also takes its being served for the sign of a broker that knows lz4
//! (its feature table), and sends lz4 uncompressed to any other.

use std::rc::Rc;

use base::BrokerId;
use net::Reply;
use wire::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::{Context, Refusal};

/// The first version that asks for several keys at once.
const BATCH_VERSION: i16 = 4;
/// The first version that knows share coordinators.
const SHARE_VERSION: i16 = 6;

/// Answers every key with COORDINATOR_NOT_AVAILABLE.
pub fn handle(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let request: FindCoordinatorRequest<'_> = context.decode()?;
    let known_type = match request.key_type {
        0 | 1 => true,
        2 => context.version >= SHARE_VERSION,
        _ => false,
    };
    let (error_code, error_message) = if known_type {
        (ErrorCode::CoordinatorNotAvailable, "groups, transactions and share groups are not served yet")
    } else {
        (ErrorCode::InvalidRequest, "there is no coordinator of this type")
    };
    let nobody = BrokerId(-1);
    if context.version < BATCH_VERSION {
        return context.answer(&FindCoordinatorResponse {
            error_code,
            error_message: Some(error_message),
            node_id: nobody,
            port: -1,
            ..Default::default()
        });
    }
    let coordinators = (&request.coordinator_keys)
        .into_iter()
        .map(|key| Coordinator {
            key,
            node_id: nobody,
            host: "",
            port: -1,
            error_code,
            error_message: Some(error_message),
        })
        .collect();
    context.answer(&FindCoordinatorResponse { coordinators, ..Default::default() })
}
