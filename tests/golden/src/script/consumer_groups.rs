//! Groups whose coordinator assigns the partitions (KIP-848): each version of a step has a group of its own.

use wire::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use wire::messages::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, TopicPartitions};

use crate::step::{At, Step, step};

const MEMBER: &str = "a-member";

/// Says everything, as a member does that joins.
fn beat(at: &At<'_>, member_epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: at.name("assigned"),
        member_id: MEMBER,
        member_epoch,
        rebalance_timeout_ms: 300_000,
        subscribed_topic_names: Some(vec!["log"].into()),
        topic_partitions: Some(Vec::new().into()),
        ..Default::default()
    }
}

/// Says that nothing has changed.
fn quiet(at: &At<'_>, member_epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: -1,
        subscribed_topic_names: None,
        topic_partitions: None,
        ..beat(at, member_epoch)
    }
}

pub fn steps() -> Vec<Step> {
    let describe = |groups: Vec<&'static str>| ConsumerGroupDescribeRequest {
        group_ids: groups.into(),
        include_authorized_operations: false,
    };
    vec![
        step("consumer-group-heartbeat/no-group", |at| ConsumerGroupHeartbeatRequest { group_id: "", ..beat(at, 0) }),
        step("consumer-group-heartbeat/no-timeout", |at| ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: -1,
            ..beat(at, 0)
        }),
        step("consumer-group-heartbeat/no-topics", |at| ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: None,
            ..beat(at, 0)
        }),
        step("consumer-group-heartbeat/owns-already", |at| ConsumerGroupHeartbeatRequest {
            topic_partitions: Some(
                vec![TopicPartitions { topic_id: at.id("log"), partitions: vec![base::PartitionIndex(0)].into() }]
                    .into(),
            ),
            ..beat(at, 0)
        }),
        step("consumer-group-heartbeat/no-such-assignor", |at| ConsumerGroupHeartbeatRequest {
            server_assignor: Some("no-such-assignor"),
            ..beat(at, 0)
        }),
        step("consumer-group-heartbeat/bad-regex", |at| ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: None,
            subscribed_topic_regex: Some("[a-"),
            ..beat(at, 0)
        })
        .at(1..=1),
        step("consumer-group-heartbeat/no-id", |at| ConsumerGroupHeartbeatRequest { member_id: "", ..beat(at, 0) })
            .at(1..=1),
        step("consumer-group-heartbeat/unknown-group", |at| ConsumerGroupHeartbeatRequest {
            group_id: "no-such-group",
            ..quiet(at, 5)
        }),
        step("consumer-group-heartbeat/join", |at| beat(at, 0)),
        step("consumer-group-heartbeat/quiet", |at| quiet(at, at.epoch())),
        step("consumer-group-heartbeat/later-epoch", |at| quiet(at, 9)),
        step("consumer-group-heartbeat/unknown-member", |at| ConsumerGroupHeartbeatRequest {
            member_id: "nobody",
            ..quiet(at, 1)
        }),
        step("consumer-group-heartbeat/bad-epoch", |at| quiet(at, -3)),
        step("consumer-group-describe/stable", move |_| describe(vec!["assigned-v0", "g-v0", "no-such-group"])),
        step("consumer-group-describe/none", move |_| describe(vec![])),
        step("consumer-group-describe/no-group", move |_| describe(vec![""])),
        step("consumer-group-heartbeat/leave", |at| quiet(at, -1)),
        step("consumer-group-describe/empty", move |_| describe(vec!["assigned-v0"])),
    ]
}
