//! Every struct that has its version in front: its fields, the versions that have them and those in which they may be null,
//! as in `table.rs`.

/// Hands the table to a macro: module :: struct { field [versions] null [versions] }.
macro_rules! every_versioned_struct {
    ($use:ident) => {$use! {
        consumer_protocol::ConsumerProtocolSubscription<'_> {
            topics, user_data null [0..], owned_partitions [1..], generation_id [2..], rack_id [3..] null [3..],
        }
        consumer_protocol::ConsumerProtocolAssignment<'_> { assigned_partitions, user_data null [0..] }
        consumer_protocol::TopicPartition<'_> { topic, partitions }

        group_records::OffsetKey<'_> { group_id, topic, partition }
        group_records::GroupKey<'_> { group_id }
        group_records::MemberKey<'_> { group_id, member_id }
        group_records::RegularExpressionKey<'_> { group_id, regular_expression }

        group_records::OffsetCommitValue<'_> {
            offset, leader_epoch [3..], metadata, commit_timestamp, expire_timestamp [1..=1], topic_id [4..],
        }
        group_records::GroupMetadataValue<'_> {
            protocol_type, generation, protocol null [0..], leader null [0..], current_state_timestamp [2..], members,
        }
        group_records::MemberMetadata<'_> {
            member_id, group_instance_id [3..] null [3..], client_id, client_host, rebalance_timeout [1..], session_timeout,
            subscription, assignment,
        }
        group_records::ConsumerGroupMetadataValue { epoch, metadata_hash }
        group_records::ConsumerGroupPartitionMetadataValue<'_> { topics }
        group_records::TopicMetadata<'_> { topic_id, topic_name, num_partitions, partition_metadata }
        group_records::PartitionMetadata<'_> { partition, racks }
        group_records::ConsumerGroupMemberMetadataValue<'_> {
            instance_id null [0..], rack_id null [0..], client_id, client_host, subscribed_topic_names,
            subscribed_topic_regex null [0..], rebalance_timeout_ms, server_assignor null [0..],
            classic_member_metadata null [0..],
        }
        group_records::ClassicMemberMetadata<'_> { session_timeout_ms, supported_protocols }
        group_records::ClassicProtocol<'_> { name, metadata }
        group_records::ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch, assignment_timestamp }
        group_records::ConsumerGroupTargetAssignmentMemberValue<'_> { topic_partitions }
        group_records::TargetPartitions<'_> { topic_id, partitions }
        group_records::ConsumerGroupCurrentMemberAssignmentValue<'_> {
            member_epoch, previous_member_epoch, state, assigned_partitions, partitions_pending_revocation,
        }
        group_records::CurrentPartitions<'_> { topic_id, partitions, assignment_epochs null [0..] }
        group_records::ConsumerGroupRegularExpressionValue<'_> { topics, version, timestamp }
    }};
}

/// Makes samples of the structs in the table.
macro_rules! sample_versioned {
    ($($module:ident :: $name:ident $(<$life:lifetime>)? { $($fields:tt)* })*) => {$(
        sample_fields!(wire::$module::$name $(<$life>)? { $($fields)* });
    )*};
}

every_versioned_struct!(sample_versioned);

/// Calls a macro with each kind of record: the variant of its key, the fields of that, and its value.
macro_rules! every_record {
    ($use:ident) => {
        $use!(LegacyOffsetCommit, OffsetKey, OffsetCommitValue);
        $use!(OffsetCommit, OffsetKey, OffsetCommitValue);
        $use!(GroupMetadata, GroupKey, GroupMetadataValue);
        $use!(ConsumerGroupMetadata, GroupKey, ConsumerGroupMetadataValue);
        $use!(ConsumerGroupPartitionMetadata, GroupKey, ConsumerGroupPartitionMetadataValue);
        $use!(ConsumerGroupMemberMetadata, MemberKey, ConsumerGroupMemberMetadataValue);
        $use!(ConsumerGroupTargetAssignmentMetadata, GroupKey, ConsumerGroupTargetAssignmentMetadataValue);
        $use!(ConsumerGroupTargetAssignmentMember, MemberKey, ConsumerGroupTargetAssignmentMemberValue);
        $use!(ConsumerGroupCurrentMemberAssignment, MemberKey, ConsumerGroupCurrentMemberAssignmentValue);
        $use!(ConsumerGroupRegularExpression, RegularExpressionKey, ConsumerGroupRegularExpressionValue);
    };
}
