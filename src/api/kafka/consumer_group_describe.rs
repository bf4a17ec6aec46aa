//! ConsumerGroupDescribe: groups whose coordinator assigns the partitions, with what each member has and is to have (KIP-848).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::PartitionIndex;
use net::Reply;
use storage::LogId;
use wire::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup, Member, TopicPartitions,
};
use wire::messages::metadata::NO_AUTHORIZED_OPERATIONS;
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::cluster::View;
use crate::coordinator::consumer::{DescribedConsumer, DescribedConsumerGroup, Rejection};
use crate::coordinator::message::{GroupAnswer, GroupRequest};
use crate::router;

/// The types of members.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

/// Answers every group, in order.
pub async fn handle(context: Rc<Context>) -> Result<Reply, Refusal> {
    let groups: Vec<String> = {
        let request: ConsumerGroupDescribeRequest<'_> = context.decode()?;
        request.group_ids.iter().map(str::to_owned).collect()
    };
    let mut described = Vec::with_capacity(groups.len());
    for group in &groups {
        if group.is_empty() {
            described.push(Err(Rejection { error: ErrorCode::InvalidGroupId, reason: String::new() }));
            continue;
        }
        let request = GroupRequest::DescribeConsumer { group: group.clone() };
        described.push(match router::ask_group(&context.node, request).await {
            GroupAnswer::ConsumerDescribed(described) => described,
            GroupAnswer::Unavailable(error) => Err(Rejection { error, reason: String::new() }),
            other => unreachable!("DescribeConsumer is answered by ConsumerDescribed, not {other:?}"),
        });
    }
    let view = context.node.view();
    let told = groups.iter().zip(&described).map(|(group, described)| match described {
        Ok(described) => told(&view, group, described),
        Err(rejection) => failed(group, rejection),
    });
    context.answer(&ConsumerGroupDescribeResponse { throttle_time_ms: 0, groups: told.collect() })
}

fn failed<'d>(group_id: &'d str, rejection: &'d Rejection) -> DescribedGroup<'d> {
    DescribedGroup {
        error_code: rejection.error,
        error_message: Some(rejection.reason.as_str()).filter(|reason| !reason.is_empty()),
        group_id,
        group_state: "",
        group_epoch: 0,
        assignment_epoch: 0,
        assignor_name: "",
        members: Array::empty(),
        authorized_operations: NO_AUTHORIZED_OPERATIONS,
    }
}

fn told<'d>(view: &'d View, group_id: &'d str, described: &'d DescribedConsumerGroup) -> DescribedGroup<'d> {
    let members: Vec<_> = described.members.iter().map(|member| told_member(view, member)).collect();
    DescribedGroup {
        error_code: ErrorCode::None,
        error_message: None,
        group_id,
        group_state: described.state,
        group_epoch: described.epoch,
        assignment_epoch: described.assignment_epoch,
        assignor_name: described.assignor,
        members: members.into(),
        authorized_operations: NO_AUTHORIZED_OPERATIONS,
    }
}

fn told_member<'d>(view: &'d View, member: &'d DescribedConsumer) -> Member<'d> {
    Member {
        member_id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        member_epoch: member.member_epoch,
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: member.topics.iter().map(String::as_str).collect(),
        // Empty for none, as in Kafka.
        subscribed_topic_regex: Some(member.regex.as_deref().unwrap_or_default()),
        assignment: assignment(view, &member.assigned),
        target_assignment: assignment(view, &member.target),
        member_type: if member.is_classic { CLASSIC_MEMBER } else { CONSUMER_MEMBER },
    }
}

/// Partitions by topic. A topic that is gone has no name any more and is left out.
fn assignment<'d>(view: &'d View, partitions: &[LogId]) -> Assignment<'d> {
    let mut topics: BTreeMap<&str, (base::Uuid, Vec<PartitionIndex>)> = BTreeMap::new();
    for id in partitions {
        if let Some(topic) = view.topic_by_id(id.topic_id) {
            topics.entry(&topic.name).or_insert_with(|| (topic.id, Vec::new())).1.push(id.partition);
        }
    }
    let topic = |(topic_name, (topic_id, partitions)): (&'d str, (base::Uuid, Vec<PartitionIndex>))| TopicPartitions {
        topic_id,
        topic_name,
        partitions: partitions.into(),
    };
    Assignment { topic_partitions: topics.into_iter().map(topic).collect() }
}
