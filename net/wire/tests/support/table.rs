//! Every struct of the protocol that this crate knows: its fields, the versions that have them and those in which they may
//! be null. Written from Kafka's definitions a second time, so that a slip in a message's attributes shows.

/// Hands the table to a macro: module here / module of the oracle :: struct { field [versions] null [versions] }.
macro_rules! every_struct {
    ($use:ident) => {$use! {
        produce/produce_request::ProduceRequest<'_> { transactional_id null [3..], acks, timeout_ms, topic_data }
        produce/produce_request::TopicProduceData<'_> { name [..=12], topic_id [13..], partition_data }
        produce/produce_request::PartitionProduceData<'_> { index, records }
        produce/produce_response::ProduceResponse<'_> { responses, throttle_time_ms, node_endpoints [10..] }
        produce/produce_response::TopicProduceResponse<'_> { name [..=12], topic_id [13..], partition_responses }
        produce/produce_response::PartitionProduceResponse<'_> {
            index, error_code, base_offset, log_append_time_ms, log_start_offset [5..], record_errors [8..],
            error_message [8..] null [8..], current_leader [10..],
        }
        produce/produce_response::BatchIndexAndErrorMessage<'_> { batch_index, batch_index_error_message null [8..] }
        produce/produce_response::LeaderIdAndEpoch { leader_id, leader_epoch }
        produce/produce_response::NodeEndpoint<'_> { node_id, host, port, rack null [10..] }

        fetch/fetch_request::FetchRequest<'_> {
            cluster_id [12..] null [12..], replica_id [..=14], replica_state [15..], max_wait_ms, min_bytes, max_bytes,
            isolation_level, session_id [7..], session_epoch [7..], topics, forgotten_topics_data [7..], rack_id [11..],
        }
        fetch/fetch_request::ReplicaState { replica_id, replica_epoch }
        fetch/fetch_request::FetchTopic<'_> { topic [..=12], topic_id [13..], partitions }
        fetch/fetch_request::FetchPartition {
            partition, current_leader_epoch [9..], fetch_offset, last_fetched_epoch [12..], log_start_offset [5..],
            partition_max_bytes, replica_directory_id [17..],
        }
        fetch/fetch_request::ForgottenTopic<'_> { topic [..=12], topic_id [13..], partitions }
        fetch/fetch_response::FetchResponse<'_> {
            throttle_time_ms, error_code [7..], session_id [7..], responses, node_endpoints [16..],
        }
        fetch/fetch_response::FetchableTopicResponse<'_> { topic [..=12], topic_id [13..], partitions }
        fetch/fetch_response::PartitionData<'_> {
            partition_index, error_code, high_watermark, last_stable_offset, log_start_offset [5..],
            diverging_epoch [12..], current_leader [12..], snapshot_id [12..], aborted_transactions null [4..],
            preferred_read_replica [11..], records,
        }
        fetch/fetch_response::EpochEndOffset { epoch, end_offset }
        fetch/fetch_response::LeaderIdAndEpoch { leader_id, leader_epoch }
        fetch/fetch_response::SnapshotId { end_offset, epoch }
        fetch/fetch_response::AbortedTransaction { producer_id, first_offset }
        fetch/fetch_response::NodeEndpoint<'_> { node_id, host, port, rack null [16..] }

        list_offsets/list_offsets_request::ListOffsetsRequest<'_> {
            replica_id, isolation_level [2..], topics, timeout_ms [10..],
        }
        list_offsets/list_offsets_request::ListOffsetsTopic<'_> { name, partitions }
        list_offsets/list_offsets_request::ListOffsetsPartition {
            partition_index, current_leader_epoch [4..], timestamp,
        }
        list_offsets/list_offsets_response::ListOffsetsResponse<'_> { throttle_time_ms [2..], topics }
        list_offsets/list_offsets_response::ListOffsetsTopicResponse<'_> { name, partitions }
        list_offsets/list_offsets_response::ListOffsetsPartitionResponse {
            partition_index, error_code, timestamp, offset, leader_epoch [4..],
        }

        metadata/metadata_request::MetadataRequest<'_> {
            topics null [1..], allow_auto_topic_creation [4..], include_cluster_authorized_operations [8..=10],
            include_topic_authorized_operations [8..],
        }
        metadata/metadata_request::MetadataRequestTopic<'_> { topic_id [10..], name null [10..] }
        metadata/metadata_response::MetadataResponse<'_> {
            throttle_time_ms [3..], brokers, cluster_id [2..] null [2..], controller_id [1..], topics,
            cluster_authorized_operations [8..=10], error_code [13..],
        }
        metadata/metadata_response::MetadataResponseBroker<'_> { node_id, host, port, rack [1..] null [1..] }
        metadata/metadata_response::MetadataResponseTopic<'_> {
            error_code, name null [12..], topic_id [10..], is_internal [1..], partitions,
            topic_authorized_operations [8..],
        }
        metadata/metadata_response::MetadataResponsePartition<'_> {
            error_code, partition_index, leader_id, leader_epoch [7..], replica_nodes, isr_nodes,
            offline_replicas [5..],
        }

        api_versions/api_versions_request::ApiVersionsRequest<'_> {
            client_software_name [3..], client_software_version [3..],
        }
        api_versions/api_versions_response::ApiVersionsResponse<'_> {
            error_code, api_keys, throttle_time_ms [1..], supported_features [3..], finalized_features_epoch [3..],
            finalized_features [3..], zk_migration_ready [3..],
        }
        api_versions/api_versions_response::ApiVersion { api_key, min_version, max_version }
        api_versions/api_versions_response::SupportedFeatureKey<'_> { name, min_version, max_version }
        api_versions/api_versions_response::FinalizedFeatureKey<'_> { name, max_version_level, min_version_level }

        create_topics/create_topics_request::CreateTopicsRequest<'_> { topics, timeout_ms, validate_only }
        create_topics/create_topics_request::CreatableTopic<'_> {
            name, num_partitions, replication_factor, assignments, configs,
        }
        create_topics/create_topics_request::CreatableReplicaAssignment<'_> { partition_index, broker_ids }
        create_topics/create_topics_request::CreatableTopicConfig<'_> { name, value null [0..] }
        create_topics/create_topics_response::CreateTopicsResponse<'_> { throttle_time_ms, topics }
        create_topics/create_topics_response::CreatableTopicResult<'_> {
            name, topic_id [7..], error_code, error_message null [0..], topic_config_error_code [5..],
            num_partitions [5..], replication_factor [5..], configs [5..] null [5..],
        }
        create_topics/create_topics_response::CreatableTopicConfigs<'_> {
            name, value null [5..], read_only, config_source, is_sensitive,
        }

        delete_topics/delete_topics_request::DeleteTopicsRequest<'_> { topics [6..], topic_names [..=5], timeout_ms }
        delete_topics/delete_topics_request::DeleteTopicState<'_> { name null [6..], topic_id }
        delete_topics/delete_topics_response::DeleteTopicsResponse<'_> { throttle_time_ms, responses }
        delete_topics/delete_topics_response::DeletableTopicResult<'_> {
            name null [6..], topic_id [6..], error_code, error_message [5..] null [5..],
        }

        find_coordinator/find_coordinator_request::FindCoordinatorRequest<'_> {
            key [..=3], key_type [1..], coordinator_keys [4..],
        }
        find_coordinator/find_coordinator_response::FindCoordinatorResponse<'_> {
            throttle_time_ms [1..], error_code [..=3], error_message [1..=3] null [1..=3], node_id [..=3], host [..=3],
            port [..=3], coordinators [4..],
        }
        find_coordinator/find_coordinator_response::Coordinator<'_> {
            key [4..], node_id [4..], host [4..], port [4..], error_code [4..], error_message [4..] null [4..],
        }

        init_producer_id/init_producer_id_request::InitProducerIdRequest<'_> {
            transactional_id null [0..], transaction_timeout_ms, producer_id [3..], producer_epoch [3..],
        }
        init_producer_id/init_producer_id_response::InitProducerIdResponse {
            throttle_time_ms, error_code, producer_id, producer_epoch,
        }

        offset_for_leader_epoch/offset_for_leader_epoch_request::OffsetForLeaderEpochRequest<'_> {
            replica_id [3..], topics,
        }
        offset_for_leader_epoch/offset_for_leader_epoch_request::OffsetForLeaderTopic<'_> { topic, partitions }
        offset_for_leader_epoch/offset_for_leader_epoch_request::OffsetForLeaderPartition {
            partition, current_leader_epoch, leader_epoch,
        }
        offset_for_leader_epoch/offset_for_leader_epoch_response::OffsetForLeaderEpochResponse<'_> {
            throttle_time_ms, topics,
        }
        offset_for_leader_epoch/offset_for_leader_epoch_response::OffsetForLeaderTopicResult<'_> { topic, partitions }
        offset_for_leader_epoch/offset_for_leader_epoch_response::EpochEndOffset {
            error_code, partition, leader_epoch, end_offset,
        }
    }};
}

every_struct!(sample_struct);

/// Calls a macro with the name of every message.
macro_rules! every_message {
    ($use:ident) => {
        $use!(ProduceRequest);
        $use!(ProduceResponse);
        $use!(FetchRequest);
        $use!(FetchResponse);
        $use!(ListOffsetsRequest);
        $use!(ListOffsetsResponse);
        $use!(MetadataRequest);
        $use!(MetadataResponse);
        $use!(ApiVersionsRequest);
        $use!(ApiVersionsResponse);
        $use!(CreateTopicsRequest);
        $use!(CreateTopicsResponse);
        $use!(DeleteTopicsRequest);
        $use!(DeleteTopicsResponse);
        $use!(FindCoordinatorRequest);
        $use!(FindCoordinatorResponse);
        $use!(InitProducerIdRequest);
        $use!(InitProducerIdResponse);
        $use!(OffsetForLeaderEpochRequest);
        $use!(OffsetForLeaderEpochResponse);
    };
}
