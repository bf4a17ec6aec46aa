//! Every struct of the protocol that this crate knows: its fields, the versions that have them and those in which they may
//! be null. Written from Kafka's definitions a second time, so that a slip in a message's attributes shows.

/// Hands the table to a macro: module here / module of the oracle :: struct { field [versions] null [versions] }; in
/// place of `[versions]` stands `beyond [versions]` where they are beyond those that the oracle has.
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

        delete_records/delete_records_request::DeleteRecordsRequest<'_> { topics, timeout_ms }
        delete_records/delete_records_request::DeleteRecordsTopic<'_> { name, partitions }
        delete_records/delete_records_request::DeleteRecordsPartition { partition_index, offset }
        delete_records/delete_records_response::DeleteRecordsResponse<'_> { throttle_time_ms, topics }
        delete_records/delete_records_response::DeleteRecordsTopicResult<'_> { name, partitions }
        delete_records/delete_records_response::DeleteRecordsPartitionResult {
            partition_index, low_watermark, error_code,
        }

        describe_configs/describe_configs_request::DescribeConfigsRequest<'_> {
            resources, include_synonyms, include_documentation [3..],
        }
        describe_configs/describe_configs_request::DescribeConfigsResource<'_> {
            resource_type, resource_name, configuration_keys null [0..],
        }
        describe_configs/describe_configs_response::DescribeConfigsResponse<'_> { throttle_time_ms, results }
        describe_configs/describe_configs_response::DescribeConfigsResult<'_> {
            error_code, error_message null [0..], resource_type, resource_name, configs,
        }
        describe_configs/describe_configs_response::DescribeConfigsResourceResult<'_> {
            name, value null [0..], read_only, config_source, is_sensitive, synonyms, config_type [3..],
            documentation [3..] null [3..],
        }
        describe_configs/describe_configs_response::DescribeConfigsSynonym<'_> { name, value null [0..], source }

        alter_configs/alter_configs_request::AlterConfigsRequest<'_> { resources, validate_only }
        alter_configs/alter_configs_request::AlterConfigsResource<'_> { resource_type, resource_name, configs }
        alter_configs/alter_configs_request::AlterableConfig<'_> { name, value null [0..] }
        alter_configs/alter_configs_response::AlterConfigsResponse<'_> { throttle_time_ms, responses }
        alter_configs/alter_configs_response::AlterConfigsResourceResponse<'_> {
            error_code, error_message null [0..], resource_type, resource_name,
        }

        describe_log_dirs/describe_log_dirs_request::DescribeLogDirsRequest<'_> { topics null [0..] }
        describe_log_dirs/describe_log_dirs_request::DescribableLogDirTopic<'_> { topic, partitions }
        describe_log_dirs/describe_log_dirs_response::DescribeLogDirsResponse<'_> {
            throttle_time_ms, error_code [3..], results,
        }
        describe_log_dirs/describe_log_dirs_response::DescribeLogDirsResult<'_> {
            error_code, log_dir, topics, total_bytes [4..], usable_bytes [4..], is_cordoned beyond [5..],
        }
        describe_log_dirs/describe_log_dirs_response::DescribeLogDirsTopic<'_> { name, partitions }
        describe_log_dirs/describe_log_dirs_response::DescribeLogDirsPartition {
            partition_index, partition_size, offset_lag, is_future_key,
        }

        create_partitions/create_partitions_request::CreatePartitionsRequest<'_> { topics, timeout_ms, validate_only }
        create_partitions/create_partitions_request::CreatePartitionsTopic<'_> { name, count, assignments null [0..] }
        create_partitions/create_partitions_request::CreatePartitionsAssignment<'_> { broker_ids }
        create_partitions/create_partitions_response::CreatePartitionsResponse<'_> { throttle_time_ms, results }
        create_partitions/create_partitions_response::CreatePartitionsTopicResult<'_> {
            name, error_code, error_message null [0..],
        }

        elect_leaders/elect_leaders_request::ElectLeadersRequest<'_> {
            election_type [1..], topic_partitions null [0..], timeout_ms,
        }
        elect_leaders/elect_leaders_request::TopicPartitions<'_> { topic, partitions }
        elect_leaders/elect_leaders_response::ElectLeadersResponse<'_> {
            throttle_time_ms, error_code [1..], replica_election_results,
        }
        elect_leaders/elect_leaders_response::ReplicaElectionResult<'_> { topic, partition_result }
        elect_leaders/elect_leaders_response::PartitionResult<'_> { partition_id, error_code, error_message null [0..] }

        incremental_alter_configs/incremental_alter_configs_request::IncrementalAlterConfigsRequest<'_> {
            resources, validate_only,
        }
        incremental_alter_configs/incremental_alter_configs_request::AlterConfigsResource<'_> {
            resource_type, resource_name, configs,
        }
        incremental_alter_configs/incremental_alter_configs_request::AlterableConfig<'_> {
            name, config_operation, value null [0..],
        }
        incremental_alter_configs/incremental_alter_configs_response::IncrementalAlterConfigsResponse<'_> {
            throttle_time_ms, responses,
        }

        list_partition_reassignments/list_partition_reassignments_request::ListPartitionReassignmentsRequest<'_> {
            timeout_ms, topics null [0..],
        }
        list_partition_reassignments/list_partition_reassignments_request::ListPartitionReassignmentsTopics<'_> {
            name, partition_indexes,
        }
        list_partition_reassignments/list_partition_reassignments_response::ListPartitionReassignmentsResponse<'_> {
            throttle_time_ms, error_code, error_message null [0..], topics,
        }
        list_partition_reassignments/list_partition_reassignments_response::OngoingTopicReassignment<'_> {
            name, partitions,
        }
        list_partition_reassignments/list_partition_reassignments_response::OngoingPartitionReassignment<'_> {
            partition_index, replicas, adding_replicas, removing_replicas,
        }

        describe_cluster/describe_cluster_request::DescribeClusterRequest {
            include_cluster_authorized_operations, endpoint_type [1..], include_fenced_brokers [2..],
        }
        describe_cluster/describe_cluster_response::DescribeClusterResponse<'_> {
            throttle_time_ms, error_code, error_message null [0..], endpoint_type [1..], cluster_id, controller_id,
            brokers, cluster_authorized_operations,
        }
        describe_cluster/describe_cluster_response::DescribeClusterBroker<'_> {
            broker_id, host, port, rack null [0..], is_fenced [2..],
        }

        describe_producers/describe_producers_request::DescribeProducersRequest<'_> { topics }
        describe_producers/describe_producers_request::TopicRequest<'_> { name, partition_indexes }
        describe_producers/describe_producers_response::DescribeProducersResponse<'_> { throttle_time_ms, topics }
        describe_producers/describe_producers_response::TopicResponse<'_> { name, partitions }
        describe_producers/describe_producers_response::PartitionResponse<'_> {
            partition_index, error_code, error_message null [0..], active_producers,
        }
        describe_producers/describe_producers_response::ProducerState {
            producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset,
        }

        list_config_resources/list_config_resources_request::ListConfigResourcesRequest<'_> { resource_types [1..] }
        list_config_resources/list_config_resources_response::ListConfigResourcesResponse<'_> {
            throttle_time_ms, error_code, config_resources,
        }
        list_config_resources/list_config_resources_response::ConfigResource<'_> { resource_name, resource_type [1..] }

        describe_topic_partitions/describe_topic_partitions_request::DescribeTopicPartitionsRequest<'_> {
            topics, response_partition_limit, cursor null [0..],
        }
        describe_topic_partitions/describe_topic_partitions_request::TopicRequest<'_> { name }
        describe_topic_partitions/describe_topic_partitions_request::Cursor<'_> { topic_name, partition_index }
        describe_topic_partitions/describe_topic_partitions_response::DescribeTopicPartitionsResponse<'_> {
            throttle_time_ms, topics, next_cursor null [0..],
        }
        describe_topic_partitions/describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic<'_> {
            error_code, name null [0..], topic_id, is_internal, partitions, topic_authorized_operations,
        }
        describe_topic_partitions/describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition<'_> {
            error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes,
            eligible_leader_replicas null [0..], last_known_elr null [0..], offline_replicas,
        }

        join_group/join_group_request::JoinGroupRequest<'_> {
            group_id, session_timeout_ms, rebalance_timeout_ms [1..], member_id, group_instance_id [5..] null [5..],
            protocol_type, protocols, reason [8..] null [8..],
        }
        join_group/join_group_request::JoinGroupRequestProtocol<'_> { name, metadata }
        join_group/join_group_response::JoinGroupResponse<'_> {
            throttle_time_ms [2..], error_code, generation_id, protocol_type [7..] null [7..], protocol_name null [7..],
            leader, skip_assignment [9..], member_id, members,
        }
        join_group/join_group_response::JoinGroupResponseMember<'_> {
            member_id, group_instance_id [5..] null [5..], metadata,
        }

        sync_group/sync_group_request::SyncGroupRequest<'_> {
            group_id, generation_id, member_id, group_instance_id [3..] null [3..], protocol_type [5..] null [5..],
            protocol_name [5..] null [5..], assignments,
        }
        sync_group/sync_group_request::SyncGroupRequestAssignment<'_> { member_id, assignment }
        sync_group/sync_group_response::SyncGroupResponse<'_> {
            throttle_time_ms [1..], error_code, protocol_type [5..] null [5..], protocol_name [5..] null [5..],
            assignment,
        }

        heartbeat/heartbeat_request::HeartbeatRequest<'_> {
            group_id, generation_id, member_id, group_instance_id [3..] null [3..],
        }
        heartbeat/heartbeat_response::HeartbeatResponse { throttle_time_ms [1..], error_code }

        leave_group/leave_group_request::LeaveGroupRequest<'_> { group_id, member_id [..=2], members [3..] }
        leave_group/leave_group_request::MemberIdentity<'_> {
            member_id, group_instance_id null [3..], reason [5..] null [5..],
        }
        leave_group/leave_group_response::LeaveGroupResponse<'_> { throttle_time_ms [1..], error_code, members [3..] }
        leave_group/leave_group_response::MemberResponse<'_> { member_id, group_instance_id null [3..], error_code }

        offset_commit/offset_commit_request::OffsetCommitRequest<'_> {
            group_id, generation_id_or_member_epoch, member_id, group_instance_id [7..] null [7..],
            retention_time_ms [..=4], topics,
        }
        offset_commit/offset_commit_request::OffsetCommitRequestTopic<'_> { name [..=9], topic_id [10..], partitions }
        offset_commit/offset_commit_request::OffsetCommitRequestPartition<'_> {
            partition_index, committed_offset, committed_leader_epoch [6..], committed_metadata null [0..],
        }
        offset_commit/offset_commit_response::OffsetCommitResponse<'_> { throttle_time_ms [3..], topics }
        offset_commit/offset_commit_response::OffsetCommitResponseTopic<'_> { name [..=9], topic_id [10..], partitions }
        offset_commit/offset_commit_response::OffsetCommitResponsePartition { partition_index, error_code }

        offset_fetch/offset_fetch_request::OffsetFetchRequest<'_> {
            group_id [..=7], topics [..=7] null [2..=7], groups [8..], require_stable [7..],
        }
        offset_fetch/offset_fetch_request::OffsetFetchRequestTopic<'_> { name, partition_indexes }
        offset_fetch/offset_fetch_request::OffsetFetchRequestGroup<'_> {
            group_id, member_id [9..] null [9..], member_epoch [9..], topics null [8..],
        }
        offset_fetch/offset_fetch_request::OffsetFetchRequestTopics<'_> {
            name [..=9], topic_id [10..], partition_indexes,
        }
        offset_fetch/offset_fetch_response::OffsetFetchResponse<'_> {
            throttle_time_ms [3..], topics [..=7], error_code [2..=7], groups [8..],
        }
        offset_fetch/offset_fetch_response::OffsetFetchResponseTopic<'_> { name, partitions }
        offset_fetch/offset_fetch_response::OffsetFetchResponsePartition<'_> {
            partition_index, committed_offset, committed_leader_epoch [5..], metadata null [0..], error_code,
        }
        offset_fetch/offset_fetch_response::OffsetFetchResponseGroup<'_> { group_id, topics, error_code }
        offset_fetch/offset_fetch_response::OffsetFetchResponseTopics<'_> { name [..=9], topic_id [10..], partitions }
        offset_fetch/offset_fetch_response::OffsetFetchResponsePartitions<'_> {
            partition_index, committed_offset, committed_leader_epoch, metadata null [8..], error_code,
        }

        offset_delete/offset_delete_request::OffsetDeleteRequest<'_> { group_id, topics }
        offset_delete/offset_delete_request::OffsetDeleteRequestTopic<'_> { name, partitions }
        offset_delete/offset_delete_request::OffsetDeleteRequestPartition { partition_index }
        offset_delete/offset_delete_response::OffsetDeleteResponse<'_> { error_code, throttle_time_ms, topics }
        offset_delete/offset_delete_response::OffsetDeleteResponseTopic<'_> { name, partitions }
        offset_delete/offset_delete_response::OffsetDeleteResponsePartition { partition_index, error_code }

        describe_groups/describe_groups_request::DescribeGroupsRequest<'_> {
            groups, include_authorized_operations [3..],
        }
        describe_groups/describe_groups_response::DescribeGroupsResponse<'_> { throttle_time_ms [1..], groups }
        describe_groups/describe_groups_response::DescribedGroup<'_> {
            error_code, error_message [6..] null [6..], group_id, group_state, protocol_type, protocol_data, members,
            authorized_operations [3..],
        }
        describe_groups/describe_groups_response::DescribedGroupMember<'_> {
            member_id, group_instance_id [4..] null [4..], client_id, client_host, member_metadata, member_assignment,
        }

        list_groups/list_groups_request::ListGroupsRequest<'_> { states_filter [4..], types_filter [5..] }
        list_groups/list_groups_response::ListGroupsResponse<'_> { throttle_time_ms [1..], error_code, groups }
        list_groups/list_groups_response::ListedGroup<'_> {
            group_id, protocol_type, group_state [4..], group_type [5..],
        }

        delete_groups/delete_groups_request::DeleteGroupsRequest<'_> { groups_names }
        delete_groups/delete_groups_response::DeleteGroupsResponse<'_> { throttle_time_ms, results }
        delete_groups/delete_groups_response::DeletableGroupResult<'_> {
            group_id, error_code, error_message beyond [3..] null [3..],
        }

        consumer_group_heartbeat/consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest<'_> {
            group_id, member_id, member_epoch, instance_id null [0..], rack_id null [0..], rebalance_timeout_ms,
            subscribed_topic_names null [0..], subscribed_topic_regex [1..] null [1..], server_assignor null [0..],
            topic_partitions null [0..],
        }
        consumer_group_heartbeat/consumer_group_heartbeat_request::TopicPartitions<'_> { topic_id, partitions }
        consumer_group_heartbeat/consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse<'_> {
            throttle_time_ms, error_code, error_message null [0..], member_id null [0..], member_epoch,
            heartbeat_interval_ms, assignment null [0..],
        }
        consumer_group_heartbeat/consumer_group_heartbeat_response::Assignment<'_> { topic_partitions }

        consumer_group_describe/consumer_group_describe_request::ConsumerGroupDescribeRequest<'_> {
            group_ids, include_authorized_operations,
        }
        consumer_group_describe/consumer_group_describe_response::ConsumerGroupDescribeResponse<'_> {
            throttle_time_ms, groups,
        }
        consumer_group_describe/consumer_group_describe_response::DescribedGroup<'_> {
            error_code, error_message null [0..], group_id, group_state, group_epoch, assignment_epoch, assignor_name,
            members, authorized_operations,
        }
        consumer_group_describe/consumer_group_describe_response::Member<'_> {
            member_id, instance_id null [0..], rack_id null [0..], member_epoch, client_id, client_host,
            subscribed_topic_names, subscribed_topic_regex null [0..], assignment, target_assignment, member_type [1..],
        }
        consumer_group_describe/consumer_group_describe_response::Assignment<'_> { topic_partitions }
        consumer_group_describe/consumer_group_describe_response::TopicPartitions<'_> {
            topic_id, topic_name, partitions,
        }
    }};
}

/// Makes samples of the structs in the table.
macro_rules! sample_messages {
    ($($module:ident / $oracle:ident :: $name:ident $(<$life:lifetime>)? { $($fields:tt)* })*) => {$(
        sample_fields!(wire::messages::$module::$name $(<$life>)? { $($fields)* });
    )*};
}

every_struct!(sample_messages);

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
        $use!(DeleteRecordsRequest);
        $use!(DeleteRecordsResponse);
        $use!(DescribeConfigsRequest);
        $use!(DescribeConfigsResponse);
        $use!(AlterConfigsRequest);
        $use!(AlterConfigsResponse);
        $use!(DescribeLogDirsRequest);
        $use!(DescribeLogDirsResponse);
        $use!(CreatePartitionsRequest);
        $use!(CreatePartitionsResponse);
        $use!(ElectLeadersRequest);
        $use!(ElectLeadersResponse);
        $use!(IncrementalAlterConfigsRequest);
        $use!(IncrementalAlterConfigsResponse);
        $use!(ListPartitionReassignmentsRequest);
        $use!(ListPartitionReassignmentsResponse);
        $use!(DescribeClusterRequest);
        $use!(DescribeClusterResponse);
        $use!(DescribeProducersRequest);
        $use!(DescribeProducersResponse);
        $use!(ListConfigResourcesRequest);
        $use!(ListConfigResourcesResponse);
        $use!(DescribeTopicPartitionsRequest);
        $use!(DescribeTopicPartitionsResponse);
        $use!(JoinGroupRequest);
        $use!(JoinGroupResponse);
        $use!(SyncGroupRequest);
        $use!(SyncGroupResponse);
        $use!(HeartbeatRequest);
        $use!(HeartbeatResponse);
        $use!(LeaveGroupRequest);
        $use!(LeaveGroupResponse);
        $use!(OffsetCommitRequest);
        $use!(OffsetCommitResponse);
        $use!(OffsetFetchRequest);
        $use!(OffsetFetchResponse);
        $use!(OffsetDeleteRequest);
        $use!(OffsetDeleteResponse);
        $use!(DescribeGroupsRequest);
        $use!(DescribeGroupsResponse);
        $use!(ListGroupsRequest);
        $use!(ListGroupsResponse);
        $use!(DeleteGroupsRequest);
        $use!(DeleteGroupsResponse);
        $use!(ConsumerGroupHeartbeatRequest);
        $use!(ConsumerGroupHeartbeatResponse);
        $use!(ConsumerGroupDescribeRequest);
        $use!(ConsumerGroupDescribeResponse);
    };
}
