//! DescribeCluster (KIP-700).

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::describe_cluster::{DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse};
use wire::messages::metadata::NO_AUTHORIZED_OPERATIONS;

use super::context::{Context, Refusal};
use super::metadata::CLUSTER_OPERATIONS;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers from this shard's view.
pub fn handle(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let request: DescribeClusterRequest = context.decode()?;
    let endpoint_type = request.endpoint_type;
    let (error_code, error_message) = match endpoint_type {
        BROKERS => (ErrorCode::None, None),
        CONTROLLERS => {
            let reason =
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            (ErrorCode::MismatchedEndpointType, Some(reason))
        }
        _ => (ErrorCode::UnsupportedEndpointType, Some("The endpoint type is not supported.")),
    };
    let view = context.node.view();
    if error_code.is_error() {
        return context.answer(&DescribeClusterResponse { error_code, error_message, ..Default::default() });
    }
    let broker = DescribeClusterBroker {
        broker_id: view.broker.id,
        host: &view.broker.host,
        port: i32::from(view.broker.port),
        rack: None,
        is_fenced: false,
    };
    let all = request.include_cluster_authorized_operations;
    context.answer(&DescribeClusterResponse {
        throttle_time_ms: 0,
        error_code,
        error_message,
        endpoint_type,
        cluster_id: &view.cluster_id,
        controller_id: view.controller,
        brokers: vec![broker].into(),
        cluster_authorized_operations: if all { CLUSTER_OPERATIONS } else { NO_AUTHORIZED_OPERATIONS },
    })
}
