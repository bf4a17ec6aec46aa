//! FindCoordinator: this broker coordinates all groups; nobody transactions and share groups yet.
//!
//! Clients ask it as soon as they are told to join a group. librdkafka also takes its being served for the sign of a broker that knows lz4
//! (its feature table), and sends lz4 uncompressed to any other.

use std::rc::Rc;

use base::BrokerId;
use net::Reply;
use wire::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::{Context, Refusal};
use crate::router;

/// The first version that asks for several keys at once.
const BATCH_VERSION: i16 = 4;
/// The first version that knows share coordinators.
const SHARE_VERSION: i16 = 6;

/// What a key stands for.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Answers every key; creates the topic that groups are kept in where it is missing.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let key_type = context.decode::<FindCoordinatorRequest<'_>>()?.key_type;
    let found = match key_type {
        GROUP => router::find_coordinator(&context.node)
            .await
            .map_err(|error| (error, "the topic that groups are kept in can't be created")),
        TRANSACTION => Err((ErrorCode::CoordinatorNotAvailable, "transactions are not served yet")),
        SHARE if context.version >= SHARE_VERSION => {
            Err((ErrorCode::CoordinatorNotAvailable, "share groups are not served yet"))
        }
        _ => Err((ErrorCode::InvalidRequest, "there is no coordinator of this type")),
    };
    let request: FindCoordinatorRequest<'_> = context.decode()?;
    let view = context.node.view();
    let broker = &view.broker;
    let (node_id, host, port, error_code, error_message) = match found {
        Ok(id) => (id, broker.host.as_str(), i32::from(broker.port), ErrorCode::None, "NONE"),
        Err((error, message)) => (BrokerId(-1), "", -1, error, message),
    };
    let error_message = Some(error_message);
    if context.version < BATCH_VERSION {
        return context.answer(&FindCoordinatorResponse {
            error_code,
            error_message,
            node_id,
            host,
            port,
            ..Default::default()
        });
    }
    let coordinators = (&request.coordinator_keys)
        .into_iter()
        .map(|key| Coordinator { key, node_id, host, port, error_code, error_message })
        .collect();
    context.answer(&FindCoordinatorResponse { coordinators, ..Default::default() })
}
