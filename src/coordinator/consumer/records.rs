//! Changes of a group as they stand in `__consumer_offsets`: Kafka's own records.

use std::collections::BTreeMap;

use base::{PartitionIndex, Uuid, WallTime};
use storage::LogId;
use wire::group_records::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue, ConsumerGroupTargetAssignmentMetadataValue, CurrentPartitions, GroupKey,
    Key, MemberKey, RegularExpressionKey, TargetPartitions, Value, member_state,
};
use wire::{Array, DecodeError, EncodeError, Versioned};

use super::changes::{Change, Classic, Current, GroupEpoch, MemberState, Resolved, Said, Since, TargetEpoch};
use crate::coordinator::assignor::Partitions;
use crate::coordinator::message::Protocol;

/// The key and the value of a change; no value where what the key names is gone.
///
/// # Panics
/// Where a name is longer than its format can hold: requests carry none that are.
#[must_use]
pub fn encode(group: &str, change: &Change) -> (Vec<u8>, Option<Vec<u8>>) {
    try_encode(group, change).expect("what requests say is short enough")
}

fn try_encode(group_id: &str, change: &Change) -> Result<(Vec<u8>, Option<Vec<u8>>), EncodeError> {
    let group = GroupKey { group_id };
    let (key, value) = match change {
        Change::Epoch(epoch) => (Key::ConsumerGroupMetadata(group), epoch.as_ref().map(encode_epoch)),
        Change::Member { member_id, said } => {
            (Key::ConsumerGroupMemberMetadata(MemberKey { group_id, member_id }), said.as_ref().map(encode_said))
        }
        Change::TargetEpoch(epoch) => {
            (Key::ConsumerGroupTargetAssignmentMetadata(group), epoch.as_ref().map(encode_target_epoch))
        }
        Change::Target { member_id, partitions } => (
            Key::ConsumerGroupTargetAssignmentMember(MemberKey { group_id, member_id }),
            partitions.as_ref().map(encode_target),
        ),
        Change::Current { member_id, current } => (
            Key::ConsumerGroupCurrentMemberAssignment(MemberKey { group_id, member_id }),
            current.as_ref().map(encode_current),
        ),
        Change::Regex { expression, resolved } => (
            Key::ConsumerGroupRegularExpression(RegularExpressionKey { group_id, regular_expression: expression }),
            resolved.as_ref().map(encode_regex),
        ),
    };
    Ok((key.to_bytes()?, value.transpose()?))
}

type Encoded = Result<Vec<u8>, EncodeError>;

fn encode_epoch(epoch: &GroupEpoch) -> Encoded {
    ConsumerGroupMetadataValue { epoch: epoch.epoch, metadata_hash: epoch.topics_hash }.to_record()
}

fn encode_target_epoch(epoch: &TargetEpoch) -> Encoded {
    let TargetEpoch { epoch: assignment_epoch, since } = *epoch;
    ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch, assignment_timestamp: since.0 }.to_record()
}

fn encode_said(said: &Said) -> Encoded {
    let names: Vec<&str> = said.topics.iter().map(String::as_str).collect();
    let protocols: Vec<ClassicProtocol<'_>> = said
        .classic
        .iter()
        .flat_map(|classic| &classic.protocols)
        .map(|protocol| ClassicProtocol { name: &protocol.name, metadata: &protocol.metadata })
        .collect();
    let value = ConsumerGroupMemberMetadataValue {
        instance_id: said.instance_id.as_deref(),
        rack_id: said.rack_id.as_deref(),
        client_id: &said.client_id,
        client_host: &said.client_host,
        subscribed_topic_names: names.into(),
        subscribed_topic_regex: said.regex.as_deref(),
        rebalance_timeout_ms: said.rebalance_timeout_ms,
        server_assignor: said.assignor.as_deref(),
        classic_member_metadata: said.classic.as_ref().map(|classic| ClassicMemberMetadata {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: protocols.into(),
        }),
    };
    value.to_record()
}

fn encode_target(partitions: &Partitions) -> Encoded {
    let topics: Vec<_> = by_topic(partitions.iter().map(|id| (id, ())))
        .into_iter()
        .map(|(topic_id, of_topic)| TargetPartitions {
            topic_id,
            partitions: of_topic.into_iter().map(|(index, ())| index).collect(),
        })
        .collect();
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.into() }.to_record()
}

fn encode_current(current: &Current) -> Encoded {
    let partitions = |since: &Since| -> Array<'static, CurrentPartitions<'static>> {
        let topics = by_topic(since.iter().map(|(id, epoch)| (id, *epoch)));
        let of_topic = |(topic_id, partitions): (Uuid, Vec<(PartitionIndex, i32)>)| CurrentPartitions {
            topic_id,
            partitions: partitions.iter().map(|(index, _)| *index).collect(),
            assignment_epochs: Some(partitions.iter().map(|(_, epoch)| *epoch).collect()),
        };
        topics.into_iter().map(of_topic).collect()
    };
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch,
        previous_member_epoch: current.previous_epoch,
        state: match current.state {
            MemberState::Stable => member_state::STABLE,
            MemberState::UnrevokedPartitions => member_state::UNREVOKED_PARTITIONS,
            MemberState::UnreleasedPartitions => member_state::UNRELEASED_PARTITIONS,
        },
        assigned_partitions: partitions(&current.assigned),
        partitions_pending_revocation: partitions(&current.revoking),
    };
    value.to_record()
}

fn encode_regex(resolved: &Resolved) -> Encoded {
    let names: Vec<&str> = resolved.topics.iter().map(String::as_str).collect();
    let Resolved { version, at, .. } = *resolved;
    ConsumerGroupRegularExpressionValue { topics: names.into(), version, timestamp: at.0 }.to_record()
}

/// Partitions under their topics.
fn by_topic<'a, T>(partitions: impl Iterator<Item = (&'a LogId, T)>) -> BTreeMap<Uuid, Vec<(PartitionIndex, T)>> {
    let mut topics: BTreeMap<Uuid, Vec<_>> = BTreeMap::new();
    for (id, with) in partitions {
        topics.entry(id.topic_id).or_default().push((id.partition, with));
    }
    topics
}

/// The change that a record says, and of which group. `None` for a record of another kind.
///
/// # Errors
/// Bytes that are not such a record.
pub fn decode<'k>(key: Key<'k>, value: Option<&[u8]>) -> Result<Option<(&'k str, Change)>, DecodeError> {
    Ok(Some(match key {
        Key::ConsumerGroupMetadata(key) => (key.group_id, Change::Epoch(value.map(decode_epoch).transpose()?)),
        Key::ConsumerGroupMemberMetadata(MemberKey { group_id, member_id }) => {
            let said = value.map(decode_said).transpose()?;
            (group_id, Change::Member { member_id: member_id.to_owned(), said })
        }
        Key::ConsumerGroupTargetAssignmentMetadata(key) => {
            (key.group_id, Change::TargetEpoch(value.map(decode_target_epoch).transpose()?))
        }
        Key::ConsumerGroupTargetAssignmentMember(MemberKey { group_id, member_id }) => {
            let partitions = value.map(decode_target).transpose()?;
            (group_id, Change::Target { member_id: member_id.to_owned(), partitions })
        }
        Key::ConsumerGroupCurrentMemberAssignment(MemberKey { group_id, member_id }) => {
            let current = value.map(decode_current).transpose()?;
            (group_id, Change::Current { member_id: member_id.to_owned(), current })
        }
        Key::ConsumerGroupRegularExpression(RegularExpressionKey { group_id, regular_expression }) => {
            let resolved = value.map(decode_regex).transpose()?;
            (group_id, Change::Regex { expression: regular_expression.to_owned(), resolved })
        }
        _ => return Ok(None),
    }))
}

fn decode_epoch(bytes: &[u8]) -> Result<GroupEpoch, DecodeError> {
    let value = ConsumerGroupMetadataValue::from_bytes(bytes)?;
    Ok(GroupEpoch { epoch: value.epoch, topics_hash: value.metadata_hash })
}

fn decode_target_epoch(bytes: &[u8]) -> Result<TargetEpoch, DecodeError> {
    let value = ConsumerGroupTargetAssignmentMetadataValue::from_bytes(bytes)?;
    Ok(TargetEpoch { epoch: value.assignment_epoch, since: WallTime(value.assignment_timestamp) })
}

fn decode_said(bytes: &[u8]) -> Result<Said, DecodeError> {
    let value = ConsumerGroupMemberMetadataValue::from_bytes(bytes)?;
    let classic = |classic: ClassicMemberMetadata<'_>| Classic {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .iter()
            .map(|protocol| Protocol { name: protocol.name.to_owned(), metadata: protocol.metadata.to_vec() })
            .collect(),
    };
    Ok(Said {
        instance_id: value.instance_id.map(str::to_owned),
        rack_id: value.rack_id.map(str::to_owned),
        client_id: value.client_id.to_owned(),
        client_host: value.client_host.to_owned(),
        topics: value.subscribed_topic_names.iter().map(str::to_owned).collect(),
        regex: value.subscribed_topic_regex.filter(|regex| !regex.is_empty()).map(str::to_owned),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        assignor: value.server_assignor.map(str::to_owned),
        classic: value.classic_member_metadata.map(classic),
    })
}

fn decode_target(bytes: &[u8]) -> Result<Partitions, DecodeError> {
    let value = ConsumerGroupTargetAssignmentMemberValue::from_bytes(bytes)?;
    let of_topic = |topic: TargetPartitions<'_>| {
        let id = |partition| LogId { topic_id: topic.topic_id, partition };
        topic.partitions.iter().map(id).collect::<Vec<_>>()
    };
    Ok(value.topic_partitions.iter().flat_map(of_topic).collect())
}

fn decode_current(bytes: &[u8]) -> Result<Current, DecodeError> {
    let value = ConsumerGroupCurrentMemberAssignmentValue::from_bytes(bytes)?;
    // Older logs do not say since when a member has a partition: for all they know, since its epoch.
    let of_topic = |topic: CurrentPartitions<'_>| {
        let epochs: Vec<i32> = topic.assignment_epochs.as_ref().map(|epochs| epochs.to_vec()).unwrap_or_default();
        let since = |(place, partition)| {
            let id = LogId { topic_id: topic.topic_id, partition };
            (id, epochs.get(place).copied().unwrap_or(value.member_epoch))
        };
        topic.partitions.iter().enumerate().map(since).collect::<Vec<_>>()
    };
    Ok(Current {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: match value.state {
            member_state::UNREVOKED_PARTITIONS => MemberState::UnrevokedPartitions,
            member_state::UNRELEASED_PARTITIONS => MemberState::UnreleasedPartitions,
            _ => MemberState::Stable,
        },
        assigned: value.assigned_partitions.iter().flat_map(of_topic).collect(),
        revoking: value.partitions_pending_revocation.iter().flat_map(of_topic).collect(),
    })
}

fn decode_regex(bytes: &[u8]) -> Result<Resolved, DecodeError> {
    let value = ConsumerGroupRegularExpressionValue::from_bytes(bytes)?;
    let topics = value.topics.iter().map(str::to_owned).collect();
    Ok(Resolved { topics, version: value.version, at: WallTime(value.timestamp) })
}
