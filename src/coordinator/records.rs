//! Records of coordinators as they stand in `__consumer_offsets`: Kafka's own format, so that its tools read them.

use base::WallTime;
use wire::group_records::{GroupKey, GroupMetadataValue, Key, MemberMetadata, OffsetCommitValue, OffsetKey, Value};
use wire::{DecodeError, Versioned};

use super::consumer;
use super::effects::{GroupSnapshot, MemberSnapshot, Record};
use super::message::{CommittedOffset, TopicPartition};

/// The key and the value of a record; no value where what the key names is gone.
///
/// # Panics
/// Where a name is longer than its format can hold: requests carry none that are.
#[must_use]
pub fn encode(record: &Record) -> (Vec<u8>, Option<Vec<u8>>) {
    let offset_key = |group: &str, of: &TopicPartition| {
        Key::OffsetCommit(OffsetKey { group_id: group, topic: &of.topic, partition: of.partition }).to_bytes()
    };
    let group_key = |group: &str| Key::GroupMetadata(GroupKey { group_id: group }).to_bytes();
    let (key, value) = match record {
        Record::Group { group, snapshot } => (group_key(group), Some(encode_group(snapshot))),
        Record::GroupRemoved { group } => (group_key(group), None),
        Record::Offset { group, of, committed } => (offset_key(group, of), Some(encode_offset(committed))),
        Record::OffsetRemoved { group, of } => (offset_key(group, of), None),
        Record::Consumer { group, change } => return consumer::encode(group, change),
    };
    (key.expect("names of a request are short enough"), value)
}

fn encode_offset(committed: &CommittedOffset) -> Vec<u8> {
    let value = OffsetCommitValue {
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: &committed.metadata,
        commit_timestamp: committed.committed_at.0,
        expire_timestamp: committed.expires_at.map_or(-1, |at| at.0),
        topic_id: committed.topic_id,
    };
    value.to_record().expect("metadata of a request is short enough")
}

fn encode_group(snapshot: &GroupSnapshot) -> Vec<u8> {
    let members: Vec<MemberMetadata<'_>> = snapshot
        .members
        .iter()
        .map(|member| MemberMetadata {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: &member.metadata,
            assignment: &member.assignment,
        })
        .collect();
    let value = GroupMetadataValue {
        protocol_type: &snapshot.protocol_type,
        generation: snapshot.generation,
        protocol: snapshot.protocol.as_deref(),
        leader: snapshot.leader.as_deref(),
        current_state_timestamp: snapshot.state_since.0,
        members: members.into(),
    };
    value.to_record().expect("what requests said of members is short enough")
}

/// The record of a key and a value. `None` for one of a kind that is not kept here.
///
/// # Errors
/// Bytes that are not such a record.
pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, DecodeError> {
    Ok(Some(match Key::from_bytes(key)? {
        Key::OffsetCommit(key) | Key::LegacyOffsetCommit(key) => {
            let of = TopicPartition { topic: key.topic.to_owned(), partition: key.partition };
            let group = key.group_id.to_owned();
            match value {
                None => Record::OffsetRemoved { group, of },
                Some(value) => Record::Offset { group, of, committed: decode_offset(value)? },
            }
        }
        Key::GroupMetadata(key) => {
            let group = key.group_id.to_owned();
            match value {
                None => Record::GroupRemoved { group },
                Some(value) => Record::Group { group, snapshot: decode_group(value)? },
            }
        }
        key => match consumer::decode(key, value)? {
            Some((group, change)) => Record::Consumer { group: group.to_owned(), change },
            None => return Ok(None),
        },
    }))
}

fn decode_offset(bytes: &[u8]) -> Result<CommittedOffset, DecodeError> {
    let value = OffsetCommitValue::from_bytes(bytes)?;
    Ok(CommittedOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.to_owned(),
        committed_at: WallTime(value.commit_timestamp),
        expires_at: (value.expire_timestamp != -1).then_some(WallTime(value.expire_timestamp)),
        topic_id: value.topic_id,
    })
}

fn decode_group(bytes: &[u8]) -> Result<GroupSnapshot, DecodeError> {
    let value = GroupMetadataValue::from_bytes(bytes)?;
    let member = |member: MemberMetadata<'_>| MemberSnapshot {
        member_id: member.member_id.to_owned(),
        instance_id: member.group_instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        client_host: member.client_host.to_owned(),
        rebalance_timeout_ms: if member.rebalance_timeout < 0 {
            member.session_timeout
        } else {
            member.rebalance_timeout
        },
        session_timeout_ms: member.session_timeout,
        metadata: member.subscription.to_vec(),
        assignment: member.assignment.to_vec(),
    };
    Ok(GroupSnapshot {
        protocol_type: value.protocol_type.to_owned(),
        generation: value.generation,
        protocol: value.protocol.map(str::to_owned),
        leader: value.leader.map(str::to_owned),
        state_since: WallTime(value.current_state_timestamp),
        members: value.members.iter().map(member).collect(),
    })
}
