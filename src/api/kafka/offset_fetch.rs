//! OffsetFetch: how far groups have read.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{LeaderEpoch, Offset, PartitionIndex, Uuid};
use net::Reply;
use wire::ErrorCode;
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::context::{Context, Refusal};
use crate::coordinator::message::{CommittedOffset, FetchOffsets, GroupAnswer, GroupRequest, TopicPartition};
use crate::router;

/// The first version that says an error of the whole group once.
const GROUP_ERROR_VERSION: i16 = 2;
/// The first version that asks for several groups (KIP-709).
const BATCH_VERSION: i16 = 8;
/// The first version whose topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 10;

/// What is asked about one group.
struct Asked {
    group: String,
    /// `None` for all.
    topics: Option<Vec<AskedTopic>>,
    /// Of who asks as a member of a group whose coordinator assigns the partitions.
    member_id: Option<String>,
    member_epoch: i32,
}

struct AskedTopic {
    /// `None` for an id that is unknown.
    name: Option<String>,
    id: Uuid,
    partitions: Vec<PartitionIndex>,
}

/// What is told about one group.
struct Told {
    group: String,
    error: ErrorCode,
    topics: Vec<ToldTopic>,
}

struct ToldTopic {
    name: String,
    id: Uuid,
    partitions: Vec<(PartitionIndex, Result<Option<CommittedOffset>, ErrorCode>)>,
}

/// Answers every group, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let asked = asked(&context)?;
    let mut told = Vec::with_capacity(asked.len());
    for asked in asked {
        told.push(tell(&context, asked).await);
    }
    if context.version >= BATCH_VERSION {
        let groups = told.iter().map(group_response).collect();
        return context.answer(&OffsetFetchResponse { groups, ..Default::default() });
    }
    let Some(told) = told.first() else { return context.answer(&OffsetFetchResponse::default()) };
    let says_error = context.version >= GROUP_ERROR_VERSION;
    let topics = told
        .topics
        .iter()
        .map(|topic| OffsetFetchResponseTopic {
            name: &topic.name,
            partitions: topic.partitions.iter().map(|(index, outcome)| single(*index, outcome)).collect(),
        })
        .collect();
    let error_code = if says_error { told.error } else { ErrorCode::None };
    context.answer(&OffsetFetchResponse { topics, error_code, ..Default::default() })
}

fn asked(context: &Context) -> Result<Vec<Asked>, Refusal> {
    let request: OffsetFetchRequest<'_> = context.decode()?;
    if context.version >= BATCH_VERSION {
        return Ok(request.groups.iter().map(|group| asked_group(context, &group)).collect());
    }
    let topics = request.topics.map(|topics| {
        let topic = |topic: wire::messages::offset_fetch::OffsetFetchRequestTopic<'_>| AskedTopic {
            name: Some(topic.name.to_owned()),
            id: Uuid::ZERO,
            partitions: topic.partition_indexes.to_vec(),
        };
        topics.iter().map(topic).collect()
    });
    Ok(vec![Asked { group: request.group_id.to_owned(), topics, member_id: None, member_epoch: -1 }])
}

fn asked_group(context: &Context, group: &OffsetFetchRequestGroup<'_>) -> Asked {
    let view = context.node.view();
    let by_id = context.version >= TOPIC_ID_VERSION;
    let topics = group.topics.as_ref().map(|topics| {
        topics
            .iter()
            .map(|topic| {
                let known = view.topic_by_id(topic.topic_id).map(|known| known.name.clone());
                AskedTopic {
                    name: if by_id { known } else { Some(topic.name.to_owned()) },
                    id: topic.topic_id,
                    partitions: topic.partition_indexes.to_vec(),
                }
            })
            .collect()
    });
    Asked {
        group: group.group_id.to_owned(),
        topics,
        member_id: group.member_id.map(str::to_owned),
        member_epoch: group.member_epoch,
    }
}

async fn tell(context: &Context, asked: Asked) -> Told {
    let Asked { group, topics, member_id, member_epoch } = asked;
    let partitions = topics.as_ref().map(|topics| {
        let named = topics.iter().filter_map(|topic| Some((topic.name.as_ref()?, &topic.partitions)));
        let of = |(name, partitions): (&String, &Vec<PartitionIndex>)| -> Vec<TopicPartition> {
            partitions.iter().map(|index| TopicPartition { topic: name.clone(), partition: *index }).collect()
        };
        named.flat_map(of).collect::<Vec<_>>()
    });
    let asked = FetchOffsets { group: group.clone(), partitions, member_id, member_epoch };
    let (error, offsets) = match router::ask_group(&context.node, GroupRequest::FetchOffsets(asked)).await {
        GroupAnswer::Offsets(offsets) => (ErrorCode::None, offsets),
        GroupAnswer::Unavailable(error) => (error, Vec::new()),
        other => unreachable!("FetchOffsets is answered by Offsets, not {other:?}"),
    };
    let topics = match topics {
        None => all_topics(context, offsets),
        // Version 1 has no other place for the error of the group than the partitions; later ones leave them out.
        Some(_) if error != ErrorCode::None && context.version >= GROUP_ERROR_VERSION => Vec::new(),
        Some(asked) => {
            let mut offsets =
                offsets.into_iter().map(|(_, committed)| Ok(committed)).chain(std::iter::repeat_with(|| Err(error)));
            let topic = |topic: AskedTopic| {
                let is_known = topic.name.is_some();
                let outcome = |index| match is_known {
                    true => (index, offsets.next().unwrap_or(Ok(None))),
                    false => (index, Err(ErrorCode::UnknownTopicId)),
                };
                let partitions = topic.partitions.into_iter().map(outcome).collect();
                ToldTopic { name: topic.name.unwrap_or_default(), id: topic.id, partitions }
            };
            asked.into_iter().map(topic).collect()
        }
    };
    Told { group, error, topics }
}

/// All offsets of a group, by topic. A topic that is gone has no id any more, so where ids are spoken it is left out.
fn all_topics(context: &Context, offsets: Vec<(TopicPartition, Option<CommittedOffset>)>) -> Vec<ToldTopic> {
    let view = context.node.view();
    let mut topics: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (of, committed) in offsets {
        topics.entry(of.topic).or_default().push((of.partition, Ok(committed)));
    }
    let by_id = context.version >= TOPIC_ID_VERSION;
    let told = topics.into_iter().filter_map(|(name, partitions)| {
        let id = view.topic(&name).map(|topic| topic.id);
        if by_id && id.is_none() { None } else { Some(ToldTopic { name, id: id.unwrap_or(Uuid::ZERO), partitions }) }
    });
    told.collect()
}

fn group_response(told: &Told) -> OffsetFetchResponseGroup<'_> {
    let topics = told
        .topics
        .iter()
        .map(|topic| OffsetFetchResponseTopics {
            name: &topic.name,
            topic_id: topic.id,
            partitions: topic.partitions.iter().map(|(index, outcome)| one_of_many(*index, outcome)).collect(),
        })
        .collect();
    OffsetFetchResponseGroup { group_id: &told.group, topics, error_code: told.error }
}

/// Offset, leader epoch, metadata and error of an outcome.
fn parts(outcome: &Result<Option<CommittedOffset>, ErrorCode>) -> (Offset, LeaderEpoch, Option<&str>, ErrorCode) {
    match outcome {
        Ok(Some(committed)) => (committed.offset, committed.leader_epoch, Some(&committed.metadata), ErrorCode::None),
        Ok(None) => (Offset(-1), LeaderEpoch(-1), Some(""), ErrorCode::None),
        Err(error) => (Offset(-1), LeaderEpoch(-1), Some(""), *error),
    }
}

fn single(
    partition_index: PartitionIndex,
    outcome: &Result<Option<CommittedOffset>, ErrorCode>,
) -> OffsetFetchResponsePartition<'_> {
    let (committed_offset, committed_leader_epoch, metadata, error_code) = parts(outcome);
    OffsetFetchResponsePartition { partition_index, committed_offset, committed_leader_epoch, metadata, error_code }
}

fn one_of_many(
    partition_index: PartitionIndex,
    outcome: &Result<Option<CommittedOffset>, ErrorCode>,
) -> OffsetFetchResponsePartitions<'_> {
    let (committed_offset, committed_leader_epoch, metadata, error_code) = parts(outcome);
    OffsetFetchResponsePartitions { partition_index, committed_offset, committed_leader_epoch, metadata, error_code }
}
