//! The bodies of the fuzz targets: hostile bytes in, an answer or an error out, never a panic.

#![allow(dead_code, reason = "each program that includes this file runs a part of it")]

use wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, ApiVersionsRequest, ApiVersionsResponse, ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeProducersRequest, DescribeProducersResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, ElectLeadersRequest, ElectLeadersResponse, FetchRequest, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListConfigResourcesRequest,
    ListConfigResourcesResponse, ListGroupsRequest, ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use wire::{ApiKey, Decoder, Encoder, Message, RequestHeader, ResponseHeader};

/// Reads the message; walks it by comparing it with itself as it is encoded and read again. True if it is one.
macro_rules! read {
    ($message:ident, $decoder:expr, $version:expr) => {{
        let bytes_total = $decoder.position() + $decoder.rest().len();
        match $message::decode_exact($decoder, $version) {
            Ok(message) => {
                let mut encoder = Encoder::new();
                message.encode($version, &mut encoder).expect("what was decoded can be encoded");
                assert!(encoder.bytes().len() <= bytes_total, "encoding made the message longer");
                let again = $message::decode_exact(Decoder::new(encoder.bytes()), $version);
                assert_eq!(again, Ok(message));
                true
            }
            Err(error) => {
                assert!(error.position <= bytes_total, "an error outside the frame: {error}");
                false
            }
        }
    }};
}

/// A frame as a broker gets it. True if it is a request of the protocol.
pub fn request_decode(frame: &[u8]) -> bool {
    let mut decoder = Decoder::new(frame);
    let Ok(header) = RequestHeader::decode(&mut decoder) else { return false };
    let version = header.api_version;
    match header.api_key {
        ApiKey::Produce => read!(ProduceRequest, decoder, version),
        ApiKey::Fetch => read!(FetchRequest, decoder, version),
        ApiKey::ListOffsets => read!(ListOffsetsRequest, decoder, version),
        ApiKey::Metadata => read!(MetadataRequest, decoder, version),
        ApiKey::ApiVersions => read!(ApiVersionsRequest, decoder, version),
        ApiKey::CreateTopics => read!(CreateTopicsRequest, decoder, version),
        ApiKey::DeleteTopics => read!(DeleteTopicsRequest, decoder, version),
        ApiKey::FindCoordinator => read!(FindCoordinatorRequest, decoder, version),
        ApiKey::InitProducerId => read!(InitProducerIdRequest, decoder, version),
        ApiKey::OffsetForLeaderEpoch => read!(OffsetForLeaderEpochRequest, decoder, version),
        ApiKey::DeleteRecords => read!(DeleteRecordsRequest, decoder, version),
        ApiKey::DescribeConfigs => read!(DescribeConfigsRequest, decoder, version),
        ApiKey::AlterConfigs => read!(AlterConfigsRequest, decoder, version),
        ApiKey::DescribeLogDirs => read!(DescribeLogDirsRequest, decoder, version),
        ApiKey::CreatePartitions => read!(CreatePartitionsRequest, decoder, version),
        ApiKey::ElectLeaders => read!(ElectLeadersRequest, decoder, version),
        ApiKey::IncrementalAlterConfigs => read!(IncrementalAlterConfigsRequest, decoder, version),
        ApiKey::ListPartitionReassignments => read!(ListPartitionReassignmentsRequest, decoder, version),
        ApiKey::DescribeCluster => read!(DescribeClusterRequest, decoder, version),
        ApiKey::DescribeProducers => read!(DescribeProducersRequest, decoder, version),
        ApiKey::ListConfigResources => read!(ListConfigResourcesRequest, decoder, version),
        ApiKey::DescribeTopicPartitions => read!(DescribeTopicPartitionsRequest, decoder, version),
        ApiKey::JoinGroup => read!(JoinGroupRequest, decoder, version),
        ApiKey::SyncGroup => read!(SyncGroupRequest, decoder, version),
        ApiKey::Heartbeat => read!(HeartbeatRequest, decoder, version),
        ApiKey::LeaveGroup => read!(LeaveGroupRequest, decoder, version),
        ApiKey::OffsetCommit => read!(OffsetCommitRequest, decoder, version),
        ApiKey::OffsetFetch => read!(OffsetFetchRequest, decoder, version),
        ApiKey::OffsetDelete => read!(OffsetDeleteRequest, decoder, version),
        ApiKey::DescribeGroups => read!(DescribeGroupsRequest, decoder, version),
        ApiKey::ListGroups => read!(ListGroupsRequest, decoder, version),
        ApiKey::DeleteGroups => read!(DeleteGroupsRequest, decoder, version),
        ApiKey::ConsumerGroupHeartbeat => read!(ConsumerGroupHeartbeatRequest, decoder, version),
        ApiKey::ConsumerGroupDescribe => read!(ConsumerGroupDescribeRequest, decoder, version),
        _ => false,
    }
}

/// A frame as a client gets it, behind four bytes that say which request it answers: key and version. True if it is a
/// response of the protocol.
pub fn response_decode(input: &[u8]) -> bool {
    let Some((asked, frame)) = input.split_first_chunk::<4>() else { return false };
    let key = ApiKey::from_code(i16::from_be_bytes([asked[0], asked[1]]));
    let Some(key) = key else { return false };
    let version = i16::from_be_bytes([asked[2], asked[3]]);
    let mut decoder = Decoder::new(frame);
    if ResponseHeader::decode(&mut decoder, key, version).is_err() {
        return false;
    }
    match key {
        ApiKey::Produce => read!(ProduceResponse, decoder, version),
        ApiKey::Fetch => read!(FetchResponse, decoder, version),
        ApiKey::ListOffsets => read!(ListOffsetsResponse, decoder, version),
        ApiKey::Metadata => read!(MetadataResponse, decoder, version),
        ApiKey::ApiVersions => read!(ApiVersionsResponse, decoder, version),
        ApiKey::CreateTopics => read!(CreateTopicsResponse, decoder, version),
        ApiKey::DeleteTopics => read!(DeleteTopicsResponse, decoder, version),
        ApiKey::FindCoordinator => read!(FindCoordinatorResponse, decoder, version),
        ApiKey::InitProducerId => read!(InitProducerIdResponse, decoder, version),
        ApiKey::OffsetForLeaderEpoch => read!(OffsetForLeaderEpochResponse, decoder, version),
        ApiKey::DeleteRecords => read!(DeleteRecordsResponse, decoder, version),
        ApiKey::DescribeConfigs => read!(DescribeConfigsResponse, decoder, version),
        ApiKey::AlterConfigs => read!(AlterConfigsResponse, decoder, version),
        ApiKey::DescribeLogDirs => read!(DescribeLogDirsResponse, decoder, version),
        ApiKey::CreatePartitions => read!(CreatePartitionsResponse, decoder, version),
        ApiKey::ElectLeaders => read!(ElectLeadersResponse, decoder, version),
        ApiKey::IncrementalAlterConfigs => read!(IncrementalAlterConfigsResponse, decoder, version),
        ApiKey::ListPartitionReassignments => read!(ListPartitionReassignmentsResponse, decoder, version),
        ApiKey::DescribeCluster => read!(DescribeClusterResponse, decoder, version),
        ApiKey::DescribeProducers => read!(DescribeProducersResponse, decoder, version),
        ApiKey::ListConfigResources => read!(ListConfigResourcesResponse, decoder, version),
        ApiKey::DescribeTopicPartitions => read!(DescribeTopicPartitionsResponse, decoder, version),
        ApiKey::JoinGroup => read!(JoinGroupResponse, decoder, version),
        ApiKey::SyncGroup => read!(SyncGroupResponse, decoder, version),
        ApiKey::Heartbeat => read!(HeartbeatResponse, decoder, version),
        ApiKey::LeaveGroup => read!(LeaveGroupResponse, decoder, version),
        ApiKey::OffsetCommit => read!(OffsetCommitResponse, decoder, version),
        ApiKey::OffsetFetch => read!(OffsetFetchResponse, decoder, version),
        ApiKey::OffsetDelete => read!(OffsetDeleteResponse, decoder, version),
        ApiKey::DescribeGroups => read!(DescribeGroupsResponse, decoder, version),
        ApiKey::ListGroups => read!(ListGroupsResponse, decoder, version),
        ApiKey::DeleteGroups => read!(DeleteGroupsResponse, decoder, version),
        ApiKey::ConsumerGroupHeartbeat => read!(ConsumerGroupHeartbeatResponse, decoder, version),
        ApiKey::ConsumerGroupDescribe => read!(ConsumerGroupDescribeResponse, decoder, version),
        _ => false,
    }
}
