//! OffsetCommit: keeps how far a group has read.

use std::rc::Rc;

use net::Reply;
use wire::ErrorCode;
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::context::{Context, Refusal};
use super::planned;
use crate::cluster::Topic;
use crate::coordinator::message::{Commit, GroupAnswer, GroupRequest, OffsetToCommit, Speaker};
use crate::router;

/// The first version whose members may be of a group whose coordinator assigns the partitions (KIP-848).
const MEMBER_EPOCH_VERSION: i16 = 9;
/// The first version whose topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 10;

/// Answers every partition, in order, once the offsets are committed.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (commit, known) = plan(&context)?;
    let count = commit.offsets.len();
    let committed = if count == 0 {
        Vec::new()
    } else {
        match router::ask_group(&context.node, GroupRequest::Commit(commit)).await {
            GroupAnswer::Committed(committed) => committed,
            GroupAnswer::Unavailable(error) => vec![error; count],
            other => unreachable!("Commit is answered by Committed, not {other:?}"),
        }
    };
    let mut outcomes = planned::outcomes(known, committed);
    let request: OffsetCommitRequest<'_> = context.decode()?;
    let topics = (&request.topics)
        .into_iter()
        .map(|topic| OffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: (&topic.partitions)
                .into_iter()
                .zip(outcomes.by_ref())
                .map(|(partition, error_code)| OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code,
                })
                .collect(),
        })
        .collect();
    context.answer(&OffsetCommitResponse { throttle_time_ms: 0, topics })
}

/// What to ask of the coordinator, and for every partition an answer where there is nothing to ask.
fn plan(context: &Context) -> Result<(Commit, Vec<Option<ErrorCode>>), Refusal> {
    let request: OffsetCommitRequest<'_> = context.decode()?;
    let view = context.node.view();
    let by_id = context.version >= TOPIC_ID_VERSION;
    let (mut offsets, mut outcomes) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let (found, unknown): (Option<&Topic>, _) = if by_id {
            (view.topic_by_id(topic.topic_id), ErrorCode::UnknownTopicId)
        } else {
            (view.topic(topic.name), ErrorCode::UnknownTopicOrPartition)
        };
        for partition in &topic.partitions {
            let Some(found) = found else {
                outcomes.push(Some(unknown));
                continue;
            };
            if !found.has(partition.partition_index) {
                outcomes.push(Some(ErrorCode::UnknownTopicOrPartition));
                continue;
            }
            offsets.push(OffsetToCommit {
                topic: found.name.clone(),
                topic_id: found.id,
                partition: partition.partition_index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.unwrap_or_default().to_owned(),
            });
            outcomes.push(None);
        }
    }
    let speaker = Speaker {
        member_id: request.member_id.to_owned(),
        instance_id: request.group_instance_id.map(str::to_owned),
        generation: request.generation_id_or_member_epoch,
    };
    let retention_ms = (request.retention_time_ms != -1).then_some(request.retention_time_ms);
    let group = request.group_id.to_owned();
    let knows_epochs = context.version >= MEMBER_EPOCH_VERSION;
    Ok((Commit { group, speaker, offsets, retention_ms, knows_epochs }, outcomes))
}
