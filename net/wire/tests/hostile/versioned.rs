//! The bodies of the fuzz targets for what has its version in front: hostile bytes in, a value or an error out, never a panic.

#![allow(dead_code, reason = "each program that includes this file runs a part of it")]

use wire::Versioned;
use wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, version_of};
use wire::group_records::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, GroupMetadataValue, Key, OffsetCommitValue,
};

/// Walks what was read by comparing it with itself as it is written and read again. True if it was read.
macro_rules! read {
    ($read:expr, $struct:ident, $bytes:expr, $version:expr) => {{
        match $read {
            Ok(value) => {
                let written = value.to_bytes($version).expect("what was read can be written");
                assert!(written.len() <= $bytes.len(), "writing made it longer");
                assert_eq!($struct::from_bytes(&written), Ok(value));
                true
            }
            Err(error) => {
                assert!(error.position <= $bytes.len(), "an error outside the bytes: {error}");
                false
            }
        }
    }};
}

macro_rules! read_value {
    ($struct:ident, $bytes:expr) => {{
        let version = $bytes.first_chunk::<2>().map_or(0, |version| i16::from_be_bytes(*version));
        read!($struct::from_bytes($bytes), $struct, $bytes, version)
    }};
}

/// A record of `__consumer_offsets`: two bytes that say how long its key is, the key, and its value. True if it is one.
pub fn group_record(input: &[u8]) -> bool {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return false };
    let Some((key_bytes, value)) = rest.split_at_checked(u16::from_be_bytes(*length).into()) else { return false };
    let key = match Key::from_bytes(key_bytes) {
        Ok(key) => key,
        Err(error) => {
            assert!(error.position <= key_bytes.len(), "an error outside the key: {error}");
            return false;
        }
    };
    assert_eq!(key.to_bytes().as_deref(), Ok(key_bytes));
    match key {
        Key::LegacyOffsetCommit(_) | Key::OffsetCommit(_) => read_value!(OffsetCommitValue, value),
        Key::GroupMetadata(_) => read_value!(GroupMetadataValue, value),
        Key::ConsumerGroupMetadata(_) => read_value!(ConsumerGroupMetadataValue, value),
        Key::ConsumerGroupPartitionMetadata(_) => read_value!(ConsumerGroupPartitionMetadataValue, value),
        Key::ConsumerGroupMemberMetadata(_) => read_value!(ConsumerGroupMemberMetadataValue, value),
        Key::ConsumerGroupTargetAssignmentMetadata(_) => {
            read_value!(ConsumerGroupTargetAssignmentMetadataValue, value)
        }
        Key::ConsumerGroupTargetAssignmentMember(_) => read_value!(ConsumerGroupTargetAssignmentMemberValue, value),
        Key::ConsumerGroupCurrentMemberAssignment(_) => read_value!(ConsumerGroupCurrentMemberAssignmentValue, value),
        Key::ConsumerGroupRegularExpression(_) => read_value!(ConsumerGroupRegularExpressionValue, value),
        Key::Unknown { .. } => true,
    }
}

/// Any bytes as a subscription. True if they are one.
pub fn subscription(bytes: &[u8]) -> bool {
    let version = version_of(bytes).unwrap_or(0);
    read!(ConsumerProtocolSubscription::read(bytes), ConsumerProtocolSubscription, bytes, version)
}

/// Any bytes as an assignment. True if they are one.
pub fn assignment(bytes: &[u8]) -> bool {
    let version = version_of(bytes).unwrap_or(0);
    read!(ConsumerProtocolAssignment::read(bytes), ConsumerProtocolAssignment, bytes, version)
}
