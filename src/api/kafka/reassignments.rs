//! ListPartitionReassignments and ElectLeaders as a broker answers them that is alone in its cluster: every partition has its one
//! replica where it belongs, and that replica leads.

use std::rc::Rc;

use net::Reply;
use wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};

/// None is ever under way (KIP-455).
pub fn list(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let _request: ListPartitionReassignmentsRequest<'_> = context.decode()?;
    context.answer(&ListPartitionReassignmentsResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        error_message: None,
        topics: Array::empty(),
    })
}

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// No election is ever needed (KIP-183, KIP-460). Asked about all partitions, the answer names those of each topic that had one: none.
pub fn elect(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let request: ElectLeadersRequest<'_> = context.decode()?;
    let view = context.node.view();
    let known_type = matches!(request.election_type, PREFERRED | UNCLEAN);
    let error_code = if known_type { ErrorCode::None } else { ErrorCode::InvalidRequest };
    let replica_election_results = match &request.topic_partitions {
        None if known_type => view
            .topics()
            .map(|topic| ReplicaElectionResult { topic: &topic.name, partition_result: Array::empty() })
            .collect(),
        asked => asked
            .iter()
            .flatten()
            .map(|topic| {
                let found = view.topic(topic.topic);
                let result = |partition_id| {
                    let error_code = match found.filter(|found| found.has(partition_id)) {
                        _ if !known_type => error_code,
                        Some(_) => ErrorCode::ElectionNotNeeded,
                        None => ErrorCode::UnknownTopicOrPartition,
                    };
                    PartitionResult { partition_id, error_code, error_message: Some(error_code.message()) }
                };
                let partition_result = topic.partitions.iter().map(result).collect();
                ReplicaElectionResult { topic: topic.topic, partition_result }
            })
            .collect(),
    };
    // Version 0 has no place for an error of the whole request.
    let error_code = if context.version == 0 { ErrorCode::None } else { error_code };
    context.answer(&ElectLeadersResponse { throttle_time_ms: 0, error_code, replica_election_results })
}
