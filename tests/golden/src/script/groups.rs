//! Groups of the classic protocol: who joins, who leads, what is committed, and what a member out of turn is told.
//!
//! Each version of a step has a group of its own, in which the JoinGroup of that version has one member; the steps of a group follow its
//! life.

use base::{LeaderEpoch, Offset, PartitionIndex};
use wire::messages::delete_groups::DeleteGroupsRequest;
use wire::messages::describe_groups::DescribeGroupsRequest;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::list_groups::ListGroupsRequest;
use wire::messages::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::messages::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::step::{At, Step, kept, step};

/// A subscription to the topic "log", as consumers write it: version 0, one topic, no data of the assignor's.
const SUBSCRIPTION: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 3, b'l', b'o', b'g', 0xff, 0xff, 0xff, 0xff];
/// No partitions.
const ASSIGNMENT: &[u8] = &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

pub fn steps() -> Vec<Step> {
    let mut steps = join();
    steps.extend(sync());
    steps.extend(heartbeat());
    steps.extend(commit());
    steps.extend(fetch());
    steps.extend(look());
    steps.extend(leave());
    steps.extend(alone());
    steps.extend(delete());
    steps
}

fn joining(group: &'static str, member_id: &'static str) -> JoinGroupRequest<'static> {
    let protocol = |name| JoinGroupRequestProtocol { name, metadata: SUBSCRIPTION };
    JoinGroupRequest {
        group_id: group,
        session_timeout_ms: 600_000,
        rebalance_timeout_ms: 600_000,
        member_id,
        protocol_type: "consumer",
        protocols: vec![protocol("range"), protocol("roundrobin")].into(),
        ..Default::default()
    }
}

fn join() -> Vec<Step> {
    vec![
        step("join-group/no-group", |_| joining("", "")),
        step("join-group/unknown-group", |_| joining("no-such-group", "somebody")),
        step("join-group/short-session", |at| JoinGroupRequest {
            session_timeout_ms: 5999,
            ..joining(at.name("g"), "")
        }),
        step("join-group/long-session", |at| JoinGroupRequest {
            session_timeout_ms: 1_800_001,
            ..joining(at.name("g"), "")
        }),
        step("join-group/no-protocols", |at| JoinGroupRequest {
            protocols: Vec::new().into(),
            ..joining(at.name("g"), "")
        }),
        step("join-group/no-protocol-type", |at| JoinGroupRequest { protocol_type: "", ..joining(at.name("g"), "") }),
        step("join-group/first", |at| joining(at.name("g"), "")),
        step("join-group/with-id", |at| joining(at.name("g"), at.member())).at(4..=9),
        step("join-group/again", |at| joining(at.name("g"), at.member())),
        step("join-group/unknown-member", |at| joining(at.name("g"), "somebody")),
        step("join-group/other-protocol-type", |at| JoinGroupRequest {
            protocol_type: "connect",
            ..joining(at.name("g"), "")
        }),
        step("join-group/other-protocol", |at| JoinGroupRequest {
            protocols: vec![JoinGroupRequestProtocol { name: "sticky", metadata: SUBSCRIPTION }].into(),
            ..joining(at.name("g"), "")
        }),
        step("join-group/unknown-instance", |at| JoinGroupRequest {
            group_instance_id: Some("one"),
            ..joining(at.name("g"), at.member())
        })
        .at(5..=9),
        step("join-group/static", |at| JoinGroupRequest {
            group_instance_id: Some("one"),
            ..joining(at.name("static"), "")
        })
        .at(5..=9),
    ]
}

fn syncing(at: &At<'_>, generation_id: i32, member_id: &'static str) -> SyncGroupRequest<'static> {
    SyncGroupRequest {
        group_id: at.name("g"),
        generation_id,
        member_id,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        ..Default::default()
    }
}

fn sync() -> Vec<Step> {
    vec![
        step("sync-group/no-group", |_| SyncGroupRequest {
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            ..Default::default()
        }),
        step("sync-group/unknown-group", |at| SyncGroupRequest {
            group_id: "no-such-group",
            ..syncing(at, 1, "somebody")
        }),
        step("sync-group/unknown-member", |at| syncing(at, 1, "somebody")),
        step("sync-group/other-generation", |at| syncing(at, 2, at.member())),
        step("sync-group/other-protocol", |at| SyncGroupRequest {
            protocol_name: Some("roundrobin"),
            ..syncing(at, 1, at.member())
        })
        .at(5..=5),
        step("sync-group/no-protocol", |at| SyncGroupRequest { protocol_name: None, ..syncing(at, 1, at.member()) })
            .at(5..=5),
        step("sync-group/leader", |at| SyncGroupRequest {
            assignments: vec![SyncGroupRequestAssignment { member_id: at.member(), assignment: ASSIGNMENT }].into(),
            ..syncing(at, 1, at.member())
        }),
        step("sync-group/again", |at| syncing(at, 1, at.member())),
    ]
}

fn heartbeat() -> Vec<Step> {
    let beat = |at: &At<'_>, generation_id, member_id| HeartbeatRequest {
        group_id: at.name("g"),
        generation_id,
        member_id,
        group_instance_id: None,
    };
    vec![
        step("heartbeat/member", move |at| beat(at, 1, at.member())),
        step("heartbeat/other-generation", move |at| beat(at, 0, at.member())),
        step("heartbeat/unknown-member", move |at| beat(at, 1, "somebody")),
        step("heartbeat/unknown-instance", move |at| HeartbeatRequest {
            group_instance_id: Some("one"),
            ..beat(at, 1, at.member())
        })
        .at(3..=4),
        step("heartbeat/unknown-group", move |at| HeartbeatRequest {
            group_id: "no-such-group",
            ..beat(at, 1, "somebody")
        }),
        step("heartbeat/no-group", move |at| HeartbeatRequest { group_id: "", ..beat(at, 1, "somebody") }),
    ]
}

fn committing(
    at: &At<'_>,
    group: &'static str,
    generation: i32,
    member_id: &'static str,
    partitions: &[(&'static str, i32, &'static str)],
) -> OffsetCommitRequest<'static> {
    let topic = |(name, index, metadata): &(&'static str, i32, &'static str)| OffsetCommitRequestTopic {
        name,
        topic_id: at.id(name),
        partitions: vec![OffsetCommitRequestPartition {
            partition_index: PartitionIndex(*index),
            committed_offset: Offset(3),
            committed_leader_epoch: LeaderEpoch(0),
            committed_metadata: Some(metadata),
        }]
        .into(),
    };
    OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: generation,
        member_id,
        topics: partitions.iter().map(topic).collect(),
        ..Default::default()
    }
}

/// Metadata of one byte more than is kept.
fn too_long() -> &'static str {
    kept("m".repeat(4097))
}

fn commit() -> Vec<Step> {
    vec![
        step("offset-commit/member", |at| committing(at, at.name("g"), 1, at.member(), &[("log", 0, "here")]))
            .at(2..=9),
        step("offset-commit/other-generation", |at| committing(at, at.name("g"), 2, at.member(), &[("log", 0, "")]))
            .at(2..=9),
        step("offset-commit/unknown-member", |at| committing(at, at.name("g"), 1, "somebody", &[("log", 0, "")]))
            .at(2..=9),
        step("offset-commit/no-member", |at| committing(at, at.name("g"), -1, "", &[("log", 0, "")])).at(2..=9),
        step("offset-commit/unknown-group", |at| committing(at, "no-such-group", 1, "somebody", &[("log", 0, "")])),
        step("offset-commit/alone", |at| {
            committing(at, at.name("alone"), -1, "", &[("log", 0, "here"), ("log", 1, ""), ("empty", 0, "there")])
        }),
        step("offset-commit/unknown-topics", |at| {
            committing(at, at.name("alone"), -1, "", &[("no-such-topic", 0, ""), ("log", 9, ""), ("empty", -1, "")])
        }),
        step("offset-commit/long-metadata", |at| {
            committing(at, at.name("alone"), -1, "", &[("log", 2, too_long()), ("empty", 0, "")])
        }),
        step("offset-commit/nothing", |at| committing(at, at.name("alone"), -1, "", &[])),
        step("offset-commit/no-group", |at| committing(at, "", -1, "", &[("log", 0, "")])),
    ]
}

/// About these groups; the first alone where a version takes one. No topics: all of them.
fn fetching(
    at: &At<'_>,
    groups: &[&'static str],
    topics: Option<&[(&'static str, &[i32])]>,
) -> OffsetFetchRequest<'static> {
    let is_batch = at.version >= 8;
    let indexes = |indexes: &[i32]| indexes.iter().map(|index| PartitionIndex(*index)).collect();
    let single = topics.map(|topics| {
        topics
            .iter()
            .map(|(name, partitions)| OffsetFetchRequestTopic { name, partition_indexes: indexes(partitions) })
            .collect()
    });
    let group = |group: &&'static str| OffsetFetchRequestGroup {
        group_id: group,
        topics: topics.map(|topics| {
            topics
                .iter()
                .map(|(name, partitions)| OffsetFetchRequestTopics {
                    name,
                    topic_id: at.id(name),
                    partition_indexes: indexes(partitions),
                })
                .collect()
        }),
        ..Default::default()
    };
    OffsetFetchRequest {
        group_id: if is_batch { "" } else { groups[0] },
        topics: if is_batch { Some(Vec::new().into()) } else { single },
        groups: groups.iter().filter(|_| is_batch).map(group).collect(),
        require_stable: false,
    }
}

fn fetch() -> Vec<Step> {
    vec![
        step("offset-fetch/member", |at| fetching(at, &[at.name("g")], Some(&[("log", &[0, 1])]))).at(2..=9),
        step("offset-fetch/some", |at| {
            fetching(at, &[at.name("alone")], Some(&[("log", &[0, 2, 9]), ("empty", &[0])]))
        })
        .at(2..=10),
        step("offset-fetch/all", |at| fetching(at, &[at.name("alone")], None)).at(2..=10),
        step("offset-fetch/unknown-group", |at| fetching(at, &["no-such-group"], Some(&[("log", &[0])]))),
        step("offset-fetch/all-of-unknown-group", |at| fetching(at, &["no-such-group"], None)).at(2..=10),
        step("offset-fetch/unknown-topic", |at| fetching(at, &[at.name("alone")], Some(&[("no-such-topic", &[0])]))),
        step("offset-fetch/groups", |at| fetching(at, &[at.name("alone"), "no-such-group"], Some(&[("log", &[0])])))
            .at(8..=10),
        step("offset-fetch/nothing", |at| fetching(at, &[at.name("alone")], Some(&[]))),
        step("offset-fetch/no-group", |at| fetching(at, &[""], Some(&[("log", &[0])]))),
    ]
}

fn look() -> Vec<Step> {
    vec![
        step("describe-groups/stable", |at| DescribeGroupsRequest {
            groups: vec![at.name("g"), "no-such-group"].into(),
            include_authorized_operations: false,
        }),
        step("describe-groups/completing", |at| DescribeGroupsRequest {
            groups: vec![kept(format!("g-v{}", at.version.max(6)))].into(),
            include_authorized_operations: false,
        })
        .at(6..=6),
        step("describe-groups/alone", |_| DescribeGroupsRequest {
            groups: vec!["alone-v2"].into(),
            include_authorized_operations: false,
        }),
        step("describe-groups/none", |_| DescribeGroupsRequest::default()),
        step("list-groups/all", |_| ListGroupsRequest::default()),
        step("list-groups/stable", |_| ListGroupsRequest {
            states_filter: vec!["Stable"].into(),
            ..Default::default()
        })
        .at(4..=4),
        step("list-groups/completing", |_| ListGroupsRequest {
            states_filter: vec!["CompletingRebalance", "NoSuchState"].into(),
            ..Default::default()
        })
        .at(4..=5),
        step("list-groups/of-no-such-type", |_| ListGroupsRequest {
            types_filter: vec!["share"].into(),
            ..Default::default()
        })
        .at(5..=5),
    ]
}

/// These members; the first alone where a version takes one.
fn leaving(at: &At<'_>, group: &'static str, members: &[&'static str]) -> LeaveGroupRequest<'static> {
    let is_batch = at.version >= 3;
    let member = |member_id: &&'static str| MemberIdentity { member_id, ..Default::default() };
    LeaveGroupRequest {
        group_id: group,
        member_id: if is_batch { "" } else { members[0] },
        members: members.iter().filter(|_| is_batch).map(member).collect(),
    }
}

fn leave() -> Vec<Step> {
    vec![
        step("leave-group/unknown-member", |at| leaving(at, at.name("g"), &["somebody"])),
        step("leave-group/unknown-group", |at| leaving(at, "no-such-group", &["somebody"])),
        step("leave-group/no-group", |at| leaving(at, "", &["somebody"])),
        step("leave-group/member", |at| leaving(at, at.name("g"), &[at.member(), "somebody"])),
        step("leave-group/instance", |_| LeaveGroupRequest {
            group_id: "static-v5",
            members: vec![
                MemberIdentity { group_instance_id: Some("two"), ..Default::default() },
                MemberIdentity { member_id: "somebody", group_instance_id: Some("one"), ..Default::default() },
                MemberIdentity { group_instance_id: Some("one"), ..Default::default() },
            ]
            .into(),
            ..Default::default()
        })
        .at(5..=5),
    ]
}

fn alone() -> Vec<Step> {
    vec![
        step("describe-groups/empty", |at| DescribeGroupsRequest {
            groups: vec![kept(format!("g-v{}", at.version.min(5)))].into(),
            include_authorized_operations: false,
        }),
        step("offset-delete/unknown-group", |_| OffsetDeleteRequest {
            group_id: "no-such-group",
            ..Default::default()
        }),
        step("offset-delete/some", |_| OffsetDeleteRequest {
            group_id: "alone-v2",
            topics: ["log", "no-such-topic"]
                .into_iter()
                .map(|name| OffsetDeleteRequestTopic {
                    name,
                    partitions: vec![
                        OffsetDeleteRequestPartition { partition_index: PartitionIndex(0) },
                        OffsetDeleteRequestPartition { partition_index: PartitionIndex(2) },
                        OffsetDeleteRequestPartition { partition_index: PartitionIndex(9) },
                    ]
                    .into(),
                })
                .collect(),
        }),
        step("offset-delete/of-members", |_| OffsetDeleteRequest {
            group_id: "g-v9",
            topics: vec![OffsetDeleteRequestTopic {
                name: "log",
                partitions: vec![OffsetDeleteRequestPartition { partition_index: PartitionIndex(0) }].into(),
            }]
            .into(),
        }),
    ]
}

fn delete() -> Vec<Step> {
    vec![
        step("delete-groups/some", |at| DeleteGroupsRequest {
            groups_names: vec![at.name("g"), "g-v9", "no-such-group", ""].into(),
        })
        .at(0..=2),
        step("delete-groups/again", |at| DeleteGroupsRequest { groups_names: vec![at.name("g")].into() }).at(0..=2),
        step("delete-groups/none", |_| DeleteGroupsRequest::default()).at(0..=2),
    ]
}
