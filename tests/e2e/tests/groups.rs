//! Groups over `kill -9`, on one, two and three shards: no committed offset is lost or goes back, and a member that was in a generation before is in it
//! after.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::{Offset, PartitionIndex};
use client::{Client, ClientOptions, NewTopic};
use e2e::broker::Launch;
use e2e::runner::{client, on_shard, within};
use shard::{Class, Shard};
use wire::ErrorCode;
use wire::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

const GROUPS: usize = 24;
const TOPIC: &str = "t";

/// What each group was told that it has committed, and what it has asked for.
#[derive(Default)]
struct Promises {
    acknowledged: RefCell<BTreeMap<usize, i64>>,
    sent: RefCell<BTreeMap<usize, i64>>,
    over: Cell<bool>,
}

#[test]
fn groups_outlive_kill_9_on_any_number_of_shards() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config("group-initial-rebalance-delay-ms = 0\n");
    on_shard(move |shard| async move {
        let promises = Rc::new(Promises::default());
        let mut member = None;
        for (round, shards) in [2, 1, 3, 2].into_iter().enumerate() {
            let launch = launch.shards(shards);
            let broker = shard.offload(move || launch.start()).await;
            let client = client(&shard, &broker.kafka);
            if round == 0 {
                let new = NewTopic { name: TOPIC.into(), partition_count: Some(1), ..NewTopic::default() };
                client.create_topic(&new, false).await.expect("the topic is created");
            }
            find_coordinator(&client).await;
            audit(&shard, &client, &promises).await;
            match &member {
                None => member = Some(join(&client).await),
                Some(id) => assert_eq!(heartbeat(&shard, &client, id).await, ErrorCode::None, "round {round}"),
            }
            promises.over.set(false);
            let tasks: Vec<_> = (0..GROUPS).map(|group| commits(&shard, &client, &promises, group)).collect();
            let total = || promises.acknowledged.borrow().values().sum::<i64>();
            let goal = total() + 2000;
            while total() < goal {
                shard.sleep(Duration::from_millis(5)).await;
            }
            promises.over.set(true);
            shard.offload(move || broker.kill()).await;
            tasks.into_iter().for_each(shard::Task::cancel);
        }
        let launch = launch.shards(2);
        let broker = shard.offload(move || launch.start()).await;
        let client = client(&shard, &broker.kafka);
        find_coordinator(&client).await;
        audit(&shard, &client, &promises).await;
        assert_eq!(shard.offload(move || broker.stop()).await.code(), Some(0), "SIGTERM is an ordinary end");
    });
}

#[test]
fn a_member_with_the_longest_name_that_there_is_joins() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config("group-initial-rebalance-delay-ms = 0\n");
    on_shard(move |shard| async move {
        let broker = launch.start();
        let mut options = ClientOptions::new(vec![broker.kafka.clone()]);
        options.connection.client_id = "n".repeat(wire::STRING_BYTES_MAX);
        let client = Client::new(&shard, options);
        find_coordinator(&client).await;
        let id = join(&client).await;
        assert_eq!(heartbeat(&shard, &client, &id).await, ErrorCode::None);
        // No name is too long to be told that there is nothing of it.
        let longest = "g".repeat(wire::STRING_BYTES_MAX);
        let request = DescribeGroupsRequest { groups: vec![longest.as_str()].into(), ..Default::default() };
        let reply = client.call_any(&request).await.expect("answered");
        let response: DescribeGroupsResponse<'_> = reply.decode().expect("an answer");
        assert_eq!(response.groups.iter().next().expect("one group").error_code, ErrorCode::GroupIdNotFound);
        assert_eq!(shard.offload(move || broker.stop()).await.code(), Some(0), "SIGTERM is an ordinary end");
    });
}

/// They wait for one another with their requests: more of them than the lane of groups had room for when each request held the memory of an answer.
#[test]
fn six_hundred_members_join_at_once() {
    const MEMBERS: usize = 600;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).shards(1);
    on_shard(move |shard| async move {
        let broker = launch.start();
        let first = client(&shard, &broker.kafka);
        find_coordinator(&first).await;
        let joined = Rc::new(Cell::new(0));
        let tasks: Vec<_> = (0..MEMBERS)
            .map(|_| {
                let (client, joined) = (client(&shard, &broker.kafka), joined.clone());
                shard.spawn(Class::Normal, shard.account("members"), async move {
                    let (first, _, id) = ask_to_join(&client, "many", "", b"said").await;
                    assert_eq!(first, ErrorCode::MemberIdRequired);
                    let (told, generation, _) = ask_to_join(&client, "many", &id, b"said").await;
                    assert_eq!((told, generation), (ErrorCode::None, 1));
                    joined.set(joined.get() + 1);
                })
            })
            .collect();
        within(&shard, 120, "all members are in one generation", async {
            while joined.get() < MEMBERS {
                shard.sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        drop(tasks);
        assert_eq!(shard.offload(move || broker.stop()).await.code(), Some(0), "SIGTERM is an ordinary end");
    });
}

#[test]
fn a_generation_too_large_for_its_record_fails_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch =
        Launch::new(dir.path().join("data")).config("group-initial-rebalance-delay-ms = 0\noffsets-partitions = 1\n");
    on_shard(move |shard| async move {
        let broker = launch.start();
        let client = client(&shard, &broker.kafka);
        find_coordinator(&client).await;
        let id = join(&client).await;
        // Neither is too long for a request, both together are for a record.
        let large = vec![0; 700_000];
        for _ in 0..3 {
            let (first, _, its) = ask_to_join(&client, "large", "", &large).await;
            assert_eq!(first, ErrorCode::MemberIdRequired);
            let (joined, generation, _) = ask_to_join(&client, "large", &its, &large).await;
            assert_eq!((joined, generation), (ErrorCode::None, 1));
            let told = sync(&client, "large", &its, &large).await;
            assert_eq!(told, (ErrorCode::UnknownServerError, Vec::new()), "as Kafka tells them");
            let beat = beat(&client, "large", &its, 1).await;
            assert_eq!(beat, ErrorCode::UnknownMemberId, "the group is what the log has of it");
        }
        assert_eq!(beat(&client, "members", &id, 1).await, ErrorCode::None, "its neighbour has not noticed");
        assert_eq!(shard.offload(move || broker.stop()).await.code(), Some(0), "SIGTERM is an ordinary end");
    });
}

async fn find_coordinator(client: &Client) {
    let request = FindCoordinatorRequest { coordinator_keys: vec!["g"].into(), ..Default::default() };
    let reply = client.call_any(&request).await.expect("answered");
    let response: FindCoordinatorResponse<'_> = reply.decode().expect("an answer");
    let found = response.coordinators.iter().next().expect("one key");
    assert_eq!(found.error_code, ErrorCode::None);
}

/// Commits one offset after another for a group, each once the one before is acknowledged.
fn commits(shard: &Shard, client: &Client, promises: &Rc<Promises>, group: usize) -> shard::Task<()> {
    let (client, promises) = (client.clone(), promises.clone());
    shard.spawn(Class::Latency, shard.account("commits"), async move {
        let name = format!("alone-{group}");
        while !promises.over.get() {
            let next = promises.sent.borrow().get(&group).copied().unwrap_or(0) + 1;
            promises.sent.borrow_mut().insert(group, next);
            let partitions = vec![OffsetCommitRequestPartition {
                partition_index: PartitionIndex(0),
                committed_offset: Offset(next),
                committed_metadata: Some("here"),
                ..Default::default()
            }];
            let request = OffsetCommitRequest {
                group_id: &name,
                topics: vec![OffsetCommitRequestTopic {
                    name: TOPIC,
                    topic_id: client.topic(TOPIC).await.expect("it is there").id,
                    partitions: partitions.into(),
                }]
                .into(),
                ..Default::default()
            };
            let Ok(connection) = client.any_connection().await else { return };
            let Ok(reply) = connection.call(&request).await else { return };
            let response: OffsetCommitResponse<'_> = reply.decode().expect("an answer");
            let topic = response.topics.iter().next().expect("one topic");
            match topic.partitions.iter().next().expect("one partition").error_code {
                ErrorCode::None => {
                    promises.acknowledged.borrow_mut().insert(group, next);
                }
                error => assert!(error.is_retriable(), "{error:?}"),
            }
        }
    })
}

/// Every group has what it was told, or what it has asked for since.
async fn audit(shard: &Shard, client: &Client, promises: &Promises) {
    let groups: Vec<usize> = promises.acknowledged.borrow().keys().copied().collect();
    for group in groups {
        let name = format!("alone-{group}");
        let found = within(shard, 30, "the coordinator has read its log", async {
            loop {
                match committed(client, &name).await {
                    Ok(offset) => break offset.0,
                    Err(error) => assert!(error.is_retriable(), "{error:?}"),
                }
                shard.sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let (told, asked) = (promises.acknowledged.borrow()[&group], promises.sent.borrow()[&group]);
        assert!((told..=asked).contains(&found), "group {group} has {found}, was told {told}, has asked for {asked}");
    }
}

async fn committed(client: &Client, group: &str) -> Result<Offset, ErrorCode> {
    let topic_id = client.topic(TOPIC).await.expect("it is there").id;
    let topics =
        vec![OffsetFetchRequestTopics { name: TOPIC, topic_id, partition_indexes: vec![PartitionIndex(0)].into() }];
    let asked = OffsetFetchRequestGroup { group_id: group, topics: Some(topics.into()), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![asked].into(), ..Default::default() };
    let reply = client.call_any(&request).await.expect("answered");
    let response: OffsetFetchResponse<'_> = reply.decode().expect("an answer");
    let told = response.groups.iter().next().expect("one group");
    if told.error_code.is_error() {
        return Err(told.error_code);
    }
    let topic = told.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    assert_eq!((partition.error_code, partition.metadata), (ErrorCode::None, Some("here")));
    Ok(partition.committed_offset)
}

/// A member that has its share in generation 1.
async fn join(client: &Client) -> String {
    let (first, _, id) = ask_to_join(client, "members", "", b"").await;
    assert_eq!(first, ErrorCode::MemberIdRequired);
    assert_eq!(ask_to_join(client, "members", &id, b"").await, (ErrorCode::None, 1, id.clone()));
    assert_eq!(sync(client, "members", &id, b"all").await, (ErrorCode::None, b"all".to_vec()));
    id
}

async fn ask_to_join(client: &Client, group_id: &str, member_id: &str, metadata: &[u8]) -> (ErrorCode, i32, String) {
    let protocols = vec![JoinGroupRequestProtocol { name: "range", metadata }];
    let request = JoinGroupRequest {
        group_id,
        session_timeout_ms: 300_000,
        rebalance_timeout_ms: 300_000,
        member_id,
        protocol_type: "test",
        protocols: protocols.into(),
        ..Default::default()
    };
    let reply = client.call_any(&request).await.expect("answered");
    let response: JoinGroupResponse<'_> = reply.decode().expect("an answer");
    (response.error_code, response.generation_id, response.member_id.to_owned())
}

/// The leader's, in generation 1.
async fn sync(client: &Client, group_id: &str, member_id: &str, assignment: &[u8]) -> (ErrorCode, Vec<u8>) {
    let request = SyncGroupRequest {
        group_id,
        generation_id: 1,
        member_id,
        protocol_type: Some("test"),
        protocol_name: Some("range"),
        assignments: vec![SyncGroupRequestAssignment { member_id, assignment }].into(),
        ..Default::default()
    };
    let reply = client.call_any(&request).await.expect("answered");
    let response: SyncGroupResponse<'_> = reply.decode().expect("an answer");
    (response.error_code, response.assignment.to_vec())
}

/// Of generation 1, once the coordinator knows that a member of generation 0 is none: as long as it reads its log it has nothing to object.
async fn heartbeat(shard: &Shard, client: &Client, member_id: &str) -> ErrorCode {
    within(shard, 30, "the coordinator has read its log", async {
        while beat(client, "members", member_id, 0).await != ErrorCode::IllegalGeneration {
            shard.sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    beat(client, "members", member_id, 1).await
}

async fn beat(client: &Client, group_id: &str, member_id: &str, generation_id: i32) -> ErrorCode {
    let request = HeartbeatRequest { group_id, generation_id, member_id, group_instance_id: None };
    let reply = client.call_any(&request).await.expect("answered");
    let response: HeartbeatResponse = reply.decode().expect("an answer");
    response.error_code
}
