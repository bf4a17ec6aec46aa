//! What consumers tell each other: the bytes are those of an independent implementation, and versions to come can be read.

use base::PartitionIndex;
use bytes::Bytes;
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as TheirAssigned;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as TheirOwned;
use kafka_protocol::messages::{self as theirs, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition, VERSION_NEWEST, version_of,
};
use wire::{DecodeFault, Versioned};

use crate::sample::{Sample, Source};
use crate::{SAMPLES, encoded, reads_what_it_wrote, refuses_every_part, refuses_more, refuses_versions};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn bytes(bytes: Option<&[u8]>) -> Option<Bytes> {
    bytes.map(Bytes::copy_from_slice)
}

fn numbers(partitions: &wire::Array<'_, PartitionIndex>) -> Vec<i32> {
    partitions.iter().map(|partition| partition.0).collect()
}

/// The oracle's bytes, behind the version that it leaves to its caller.
fn judged(version: i16, theirs: &impl Encodable) -> Vec<u8> {
    let mut written = version.to_be_bytes().to_vec();
    theirs.encode(&mut written, version).unwrap();
    written
}

#[test]
fn it_is_read_as_it_was_written() {
    check_versions!(ConsumerProtocolSubscription);
    check_versions!(ConsumerProtocolAssignment);
    refuses_versions::<ConsumerProtocolSubscription>("ConsumerProtocolSubscription");
    refuses_versions::<ConsumerProtocolAssignment>("ConsumerProtocolAssignment");
}

#[test]
fn another_implementation_writes_the_same_bytes() {
    for version in ConsumerProtocolSubscription::VERSIONS {
        for seed in 0..SAMPLES {
            let ours = ConsumerProtocolSubscription::sample(&mut Source::new(version, seed));
            let mut owned = Vec::new();
            for one in &ours.owned_partitions {
                let theirs = TheirOwned::default().with_topic(TopicName(text(one.topic)));
                owned.push(theirs.with_partitions(numbers(&one.partitions)));
            }
            let theirs = theirs::ConsumerProtocolSubscription::default()
                .with_topics(ours.topics.iter().map(text).collect())
                .with_user_data(bytes(ours.user_data))
                .with_owned_partitions(owned)
                .with_generation_id(ours.generation_id)
                .with_rack_id(ours.rack_id.map(text));
            assert_eq!(ours.to_bytes(version), Ok(judged(version, &theirs)), "{version} {seed}");
        }
    }
    for version in ConsumerProtocolAssignment::VERSIONS {
        for seed in 0..SAMPLES {
            let ours = ConsumerProtocolAssignment::sample(&mut Source::new(version, seed));
            let mut assigned = Vec::new();
            for one in &ours.assigned_partitions {
                let theirs = TheirAssigned::default().with_topic(TopicName(text(one.topic)));
                assigned.push(theirs.with_partitions(numbers(&one.partitions)));
            }
            let theirs = theirs::ConsumerProtocolAssignment::default()
                .with_assigned_partitions(assigned)
                .with_user_data(bytes(ours.user_data));
            assert_eq!(ours.to_bytes(version), Ok(judged(version, &theirs)), "{version} {seed}");
        }
    }
}

#[test]
fn a_version_to_come_is_read_as_the_newest_known() {
    let partitions = [PartitionIndex(4), PartitionIndex(5)];
    let owned = [TopicPartition { topic: "orders", partitions: (&partitions).into() }];
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["orders", "payments"].into(),
        owned_partitions: (&owned).into(),
        generation_id: 7,
        rack_id: Some("r"),
        ..Default::default()
    };
    let assignment = ConsumerProtocolAssignment { assigned_partitions: (&owned).into(), user_data: Some(b"u") };
    for version in [VERSION_NEWEST, VERSION_NEWEST + 1, i16::MAX] {
        let later = |mut bytes: Vec<u8>| {
            bytes[..2].copy_from_slice(&version.to_be_bytes());
            bytes.extend(b"what a later version appends");
            bytes
        };
        let bytes = later(subscription.to_bytes(VERSION_NEWEST).unwrap());
        assert_eq!(ConsumerProtocolSubscription::read(&bytes).as_ref(), Ok(&subscription));
        assert_eq!(version_of(&bytes), Ok(VERSION_NEWEST));
        let bytes = later(assignment.to_bytes(VERSION_NEWEST).unwrap());
        assert_eq!(ConsumerProtocolAssignment::read(&bytes).as_ref(), Ok(&assignment));
    }
}

#[test]
fn an_old_version_is_read_without_what_it_lacks() {
    let owned = [TopicPartition { topic: "orders", ..Default::default() }];
    let full = ConsumerProtocolSubscription {
        topics: vec!["orders"].into(),
        user_data: Some(b""),
        owned_partitions: (&owned).into(),
        generation_id: 7,
        rack_id: Some("r"),
    };
    for version in ConsumerProtocolSubscription::VERSIONS {
        let mut expected = full.clone();
        if version < 3 {
            expected.rack_id = None;
        }
        if version < 2 {
            expected.generation_id = -1;
        }
        if version < 1 {
            expected.owned_partitions = Default::default();
        }
        let bytes = full.to_bytes(version).unwrap();
        assert_eq!((ConsumerProtocolSubscription::read(&bytes), version_of(&bytes)), (Ok(expected), Ok(version)));
    }
}

#[test]
fn garbage_is_an_error() {
    let unsupported = DecodeFault::UnsupportedVersion { name: "ConsumerProtocol", version: -1 };
    let table: [(&[u8], DecodeFault); 6] = [
        (b"", DecodeFault::Truncated { needed: 2, left: 0 }),
        (b"\xff\xff\0\0\0\0\xff\xff\xff\xff", unsupported),
        (b"\0\0\x7f\xff\xff\xff", DecodeFault::CountTooLarge { count: 0x7fff_ffff, left: 0 }),
        (b"\0\0\0\0\0\x01\0\x09t", DecodeFault::Truncated { needed: 9, left: 1 }),
        (b"\0\0\0\0\0\0\0\0\0\x05u", DecodeFault::Truncated { needed: 5, left: 1 }),
        // Version 1 without what the member owns, as some clients once wrote it: an error in Kafka too.
        (b"\0\x01\0\0\0\0\xff\xff\xff\xff", DecodeFault::Truncated { needed: 4, left: 0 }),
    ];
    for (bytes, fault) in table {
        assert_eq!(ConsumerProtocolSubscription::read(bytes).unwrap_err().fault, fault, "{bytes:x?}");
    }
}
