//! Bytes that Kafka 4.4's own classes wrote (`Examples.java` writes `examples.txt`): the records of `__consumer_offsets`, and
//! the messages at versions that the oracle of `tests/protocol/` does not know yet.

mod log;

use std::collections::BTreeMap;
use std::fmt::Debug;

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid};
use wire::group_records::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, CurrentPartitions, GroupKey, GroupMetadataValue, Key, MemberKey,
    MemberMetadata, OffsetCommitValue, OffsetKey, PartitionMetadata, RegularExpressionKey, TargetPartitions,
    TopicMetadata, member_state,
};
use wire::messages::delete_groups::DeletableGroupResult;
use wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse, OffsetCommitRequest, OffsetFetchRequest};
use wire::{Decoder, Encoder, ErrorCode, Message, Versioned};

const ORDERS: Uuid = Uuid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const TIME: i64 = 1_700_000_000_000;

/// The lines of the file that no check has asked for yet.
struct Examples(BTreeMap<&'static str, &'static [u8]>);

impl Examples {
    fn read() -> Self {
        let mut lines = BTreeMap::new();
        for line in include_str!("examples.txt").lines() {
            let (name, hex) = line.split_once(' ').expect("a line is a name and bytes");
            assert!(lines.insert(name, &*bytes_of(hex).leak()).is_none(), "{name} twice");
        }
        Self(lines)
    }

    fn take(&mut self, name: &str) -> &'static [u8] {
        self.0.remove(name).unwrap_or_else(|| panic!("no example {name}, or asked for twice"))
    }

    fn key(&mut self, name: &str, key: Key<'_>) {
        let bytes = self.take(name);
        assert_eq!(key.to_bytes().as_deref(), Ok(bytes), "{name}");
        assert_eq!(Key::from_bytes(bytes), Ok(key), "{name}");
    }

    /// At each version the bytes of `value` are these, and what they are read as has these bytes again.
    fn value<T: Versioned<'static>>(&mut self, name: &str, value: &T) {
        for version in T::VERSIONS {
            let bytes = self.take(&format!("{name}/{version}"));
            assert_eq!(value.to_bytes(version).as_deref(), Ok(bytes), "{name} {version}");
            let read = T::from_bytes(bytes).unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            assert_eq!(read.to_bytes(version).as_deref(), Ok(bytes), "{name} {version}");
        }
    }

    fn message<M: Message<'static> + PartialEq + Debug>(&mut self, version: i16, message: &M) {
        let bytes = self.take(&format!("{}/{version}", M::NAME));
        let mut encoder = Encoder::new();
        message.encode(version, &mut encoder).unwrap();
        assert_eq!(encoder.bytes(), bytes, "{} {version}", M::NAME);
        assert_eq!(M::decode_exact(Decoder::new(bytes), version).as_ref(), Ok(message), "{} {version}", M::NAME);
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2) && hex.is_ascii(), "{hex:?} is not bytes");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn keys(examples: &mut Examples) {
    let offset = OffsetKey { group_id: "größe", topic: "orders", partition: PartitionIndex(7) };
    let group = GroupKey { group_id: "größe" };
    let member = MemberKey { group_id: "größe", member_id: "m" };
    let expression = RegularExpressionKey { group_id: "größe", regular_expression: "o.*" };
    let unknown = |kind| Key::Unknown { kind, fields: b"\0\x07gr\xc3\xb6\xc3\x9fe" };
    let table = [
        ("LegacyOffsetCommitKey", Key::LegacyOffsetCommit(offset)),
        ("OffsetCommitKey", Key::OffsetCommit(offset)),
        ("GroupMetadataKey", Key::GroupMetadata(group)),
        ("ConsumerGroupMetadataKey", Key::ConsumerGroupMetadata(group)),
        ("ConsumerGroupPartitionMetadataKey", Key::ConsumerGroupPartitionMetadata(group)),
        ("ConsumerGroupMemberMetadataKey", Key::ConsumerGroupMemberMetadata(member)),
        ("ConsumerGroupTargetAssignmentMetadataKey", Key::ConsumerGroupTargetAssignmentMetadata(group)),
        ("ConsumerGroupTargetAssignmentMemberKey", Key::ConsumerGroupTargetAssignmentMember(member)),
        ("ConsumerGroupCurrentMemberAssignmentKey", Key::ConsumerGroupCurrentMemberAssignment(member)),
        ("ConsumerGroupRegularExpressionKey", Key::ConsumerGroupRegularExpression(expression)),
        ("ShareGroupMetadataKey", unknown(11)),
        ("StreamsGroupTopologyKey", unknown(23)),
    ];
    for (name, key) in table {
        examples.key(name, key);
    }
}

fn offsets(examples: &mut Examples) {
    let full = OffsetCommitValue {
        offset: Offset(1000),
        leader_epoch: LeaderEpoch(5),
        metadata: "note",
        commit_timestamp: TIME,
        expire_timestamp: 1_800_000_000_000,
        topic_id: ORDERS,
    };
    // The legacy value is version 0 of the other.
    let legacy = examples.take("LegacyOffsetCommitValue/0");
    assert_eq!(full.to_bytes(0).as_deref(), Ok(legacy));
    let expected =
        OffsetCommitValue { offset: Offset(1000), metadata: "note", commit_timestamp: TIME, ..Default::default() };
    assert_eq!(OffsetCommitValue::from_bytes(legacy), Ok(expected));
    examples.value("OffsetCommitValue", &full);
    examples.value("OffsetCommitValue-bare", &OffsetCommitValue { commit_timestamp: 1, ..Default::default() });
}

fn classic_group(examples: &mut Examples) {
    let member = MemberMetadata {
        member_id: "m",
        group_instance_id: Some("static"),
        client_id: "c",
        client_host: "/127.0.0.1",
        rebalance_timeout: 300_000,
        session_timeout: 45_000,
        subscription: &[1, 2, 3],
        assignment: &[4, 5],
    };
    let dynamic = MemberMetadata { member_id: "n", group_instance_id: None, assignment: &[], ..member };
    let group = GroupMetadataValue {
        protocol_type: "consumer",
        generation: 3,
        protocol: Some("range"),
        leader: Some("m"),
        current_state_timestamp: TIME,
        members: vec![member, dynamic].into(),
    };
    examples.value("GroupMetadataValue", &group);
    examples.value("GroupMetadataValue-empty", &GroupMetadataValue::default());
}

fn consumer_group(examples: &mut Examples) {
    examples.value("ConsumerGroupMetadataValue", &ConsumerGroupMetadataValue { epoch: 9, metadata_hash: -2 });
    examples.value("ConsumerGroupMetadataValue-bare", &ConsumerGroupMetadataValue { epoch: 9, metadata_hash: 0 });
    let racks = PartitionMetadata { partition: PartitionIndex(1), racks: vec!["a", "b"].into() };
    let topic = TopicMetadata {
        topic_id: ORDERS,
        topic_name: "orders",
        num_partitions: 2,
        partition_metadata: vec![racks].into(),
    };
    let topics = ConsumerGroupPartitionMetadataValue { topics: vec![topic].into() };
    examples.value("ConsumerGroupPartitionMetadataValue", &topics);
    let classic = ClassicMemberMetadata {
        session_timeout_ms: 45_000,
        supported_protocols: vec![ClassicProtocol { name: "range", metadata: &[1, 2] }].into(),
    };
    let member = ConsumerGroupMemberMetadataValue {
        instance_id: Some("static"),
        rack_id: Some("r"),
        client_id: "c",
        client_host: "/127.0.0.1",
        subscribed_topic_names: vec!["orders", "payments"].into(),
        subscribed_topic_regex: Some("o.*"),
        rebalance_timeout_ms: 300_000,
        server_assignor: Some("uniform"),
        classic_member_metadata: Some(classic),
    };
    examples.value("ConsumerGroupMemberMetadataValue", &member);
    let mut bare = ConsumerGroupMemberMetadataValue { client_id: "c", client_host: "h", ..Default::default() };
    examples.value("ConsumerGroupMemberMetadataValue-bare", &bare);
    bare.classic_member_metadata = None;
    examples.value("ConsumerGroupMemberMetadataValue-null", &bare);
    let expression =
        ConsumerGroupRegularExpressionValue { topics: vec!["orders"].into(), version: 12, timestamp: TIME };
    examples.value("ConsumerGroupRegularExpressionValue", &expression);
}

fn consumer_group_assignments(examples: &mut Examples) {
    let partitions = |numbers: &[i32]| numbers.iter().map(|number| PartitionIndex(*number)).collect();
    let name = "ConsumerGroupTargetAssignmentMetadataValue";
    let mut target = ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch: 9, assignment_timestamp: TIME };
    examples.value(name, &target);
    target.assignment_timestamp = 0;
    examples.value(&format!("{name}-bare"), &target);
    let topic = TargetPartitions { topic_id: ORDERS, partitions: partitions(&[0, 1, 258]) };
    let target = ConsumerGroupTargetAssignmentMemberValue { topic_partitions: vec![topic].into() };
    examples.value("ConsumerGroupTargetAssignmentMemberValue", &target);
    let assigned = CurrentPartitions {
        topic_id: ORDERS,
        partitions: partitions(&[0, 1]),
        assignment_epochs: Some(vec![7, 9].into()),
    };
    let unsaid = CurrentPartitions { topic_id: ORDERS, partitions: partitions(&[2]), ..Default::default() };
    let null = CurrentPartitions { topic_id: ORDERS, partitions: partitions(&[3]), assignment_epochs: None };
    let current = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: 9,
        previous_member_epoch: 8,
        state: member_state::UNREVOKED_PARTITIONS,
        assigned_partitions: vec![assigned].into(),
        partitions_pending_revocation: vec![unsaid, null].into(),
    };
    examples.value("ConsumerGroupCurrentMemberAssignmentValue", &current);
}

fn messages(examples: &mut Examples) {
    let partition = OffsetCommitRequestPartition {
        partition_index: PartitionIndex(7),
        committed_offset: Offset(1000),
        committed_leader_epoch: LeaderEpoch(5),
        committed_metadata: None,
    };
    let topic = OffsetCommitRequestTopic { name: "", topic_id: ORDERS, partitions: vec![partition].into() };
    let commit = OffsetCommitRequest {
        group_id: "g",
        generation_id_or_member_epoch: 4,
        member_id: "m",
        group_instance_id: Some("static"),
        topics: vec![topic].into(),
        ..Default::default()
    };
    examples.message(10, &commit);
    let topic = OffsetFetchRequestTopics {
        name: "",
        topic_id: ORDERS,
        partition_indexes: vec![PartitionIndex(0), PartitionIndex(7)].into(),
    };
    let one = OffsetFetchRequestGroup {
        group_id: "g",
        member_id: Some("m"),
        member_epoch: 4,
        topics: Some(vec![topic].into()),
    };
    let all = OffsetFetchRequestGroup { group_id: "all", topics: None, ..Default::default() };
    let fetch = OffsetFetchRequest { groups: vec![one, all].into(), require_stable: true, ..Default::default() };
    examples.message(10, &fetch);
    examples.message(3, &DeleteGroupsRequest { groups_names: vec!["g"].into() });
    let result =
        DeletableGroupResult { group_id: "g", error_code: ErrorCode::NonEmptyGroup, error_message: Some("members") };
    examples.message(3, &DeleteGroupsResponse { throttle_time_ms: 1, results: vec![result].into() });
}

#[test]
fn the_bytes_are_those_that_kafka_writes() {
    let mut examples = Examples::read();
    keys(&mut examples);
    offsets(&mut examples);
    classic_group(&mut examples);
    consumer_group(&mut examples);
    consumer_group_assignments(&mut examples);
    messages(&mut examples);
    assert_eq!(examples.0.keys().collect::<Vec<_>>(), Vec::<&&str>::new(), "examples that nothing was compared with");
}
