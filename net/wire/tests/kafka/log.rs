//! What a Kafka 4.4 broker wrote to `__consumer_offsets` (`Log.java` writes `log.txt`): all of it is read, says what happened,
//! and is written again as the same bytes.

use std::collections::BTreeSet;

use base::{Offset, PartitionIndex};
use wire::Versioned;
use wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, PROTOCOL_TYPE};
use wire::group_records::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, GroupMetadataValue, Key, OffsetCommitValue, OffsetKey, Value,
};

use crate::bytes_of;

/// The keys and values of the log, in order; no value is a tombstone.
fn log() -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let record = |line: &str| {
        let (key, value) = line.split_once(' ').expect("a line is a key and a value");
        (bytes_of(key), (value != "-").then(|| bytes_of(value)))
    };
    include_str!("log.txt").lines().map(record).collect()
}

/// What the bytes are read as is written as the same bytes, at the version that Kafka chose.
fn check<'a, V: Value<'a>>(bytes: &'a [u8]) {
    let value = V::from_bytes(bytes).unwrap_or_else(|error| panic!("{bytes:x?}: {error}"));
    assert_eq!(value.to_record().as_deref(), Ok(bytes));
}

#[test]
fn every_record_is_read_and_written_again() {
    let mut seen = BTreeSet::new();
    for (key_bytes, value) in &log() {
        let key = Key::from_bytes(key_bytes).unwrap();
        assert_eq!(key.to_bytes().as_ref(), Ok(key_bytes));
        seen.insert((key.kind(), value.is_some()));
        let Some(value) = value else { continue };
        match key {
            Key::LegacyOffsetCommit(_) | Key::OffsetCommit(_) => check::<OffsetCommitValue>(value),
            Key::GroupMetadata(_) => check::<GroupMetadataValue>(value),
            Key::ConsumerGroupMetadata(_) => check::<ConsumerGroupMetadataValue>(value),
            Key::ConsumerGroupPartitionMetadata(_) => check::<ConsumerGroupPartitionMetadataValue>(value),
            Key::ConsumerGroupMemberMetadata(_) => check::<ConsumerGroupMemberMetadataValue>(value),
            Key::ConsumerGroupTargetAssignmentMetadata(_) => check::<ConsumerGroupTargetAssignmentMetadataValue>(value),
            Key::ConsumerGroupTargetAssignmentMember(_) => check::<ConsumerGroupTargetAssignmentMemberValue>(value),
            Key::ConsumerGroupCurrentMemberAssignment(_) => check::<ConsumerGroupCurrentMemberAssignmentValue>(value),
            Key::ConsumerGroupRegularExpression(_) => check::<ConsumerGroupRegularExpressionValue>(value),
            Key::Unknown { kind, .. } => panic!("a record of the unknown kind {kind}"),
        }
    }
    // Each kind that Kafka 4.4 writes, with a value and as a tombstone, or the log says too little.
    for kind in [1, 2, 3, 5, 6, 7, 8, 16] {
        assert!(seen.contains(&(kind, true)), "no value of kind {kind}");
        assert!(seen.contains(&(kind, false)), "no tombstone of kind {kind}");
    }
}

#[test]
fn a_commit_and_its_deletion() {
    let log = log();
    let of = OffsetKey { group_id: "classic", topic: "orders", partition: PartitionIndex(0) };
    let mut commits = log.iter().filter(|(key, _)| Key::from_bytes(key) == Ok(Key::OffsetCommit(of)));
    let (_, value) = commits.next().expect("the group committed");
    let value = OffsetCommitValue::from_bytes(value.as_ref().expect("not deleted yet")).unwrap();
    assert_eq!((value.offset, value.metadata, value.expire_timestamp), (Offset(1), "note", -1));
    let (_, value) = commits.next().expect("the offset was deleted");
    assert_eq!((value, commits.next()), (&None, None));
}

#[test]
fn what_the_members_of_a_classic_group_told_each_other() {
    let log = log();
    let mut seen = 0;
    for (key, value) in &log {
        let Ok(Key::GroupMetadata(key)) = Key::from_bytes(key) else { continue };
        let Some(value) = value else { continue };
        let group = GroupMetadataValue::from_bytes(value).unwrap();
        for member in &group.members {
            assert_eq!((key.group_id, group.protocol_type), ("classic", PROTOCOL_TYPE));
            assert_eq!((member.group_instance_id, member.client_id), (Some("static"), "c"));
            let subscription = ConsumerProtocolSubscription::read(member.subscription).unwrap();
            assert_eq!(subscription.topics.to_vec(), ["orders"]);
            let assignment = ConsumerProtocolAssignment::read(member.assignment).unwrap().assigned_partitions.to_vec();
            assert_eq!((assignment.len(), assignment[0].topic, assignment[0].partitions.len()), (1, "orders", 2));
            seen += 1;
        }
    }
    assert!(seen > 0, "no generation with a member");
}
