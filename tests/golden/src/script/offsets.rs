//! ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};

use crate::step::{At, Step, step};

pub fn steps() -> Vec<Step> {
    let mut steps = list();
    steps.extend(list_errors());
    steps.extend(epochs());
    steps
}

fn query(index: i32, timestamp: i64) -> ListOffsetsPartition {
    ListOffsetsPartition { partition_index: PartitionIndex(index), timestamp, ..Default::default() }
}

fn ask(topics: Vec<(&'static str, Vec<ListOffsetsPartition>)>) -> ListOffsetsRequest<'static> {
    let topic = |(name, partitions): (&'static str, Vec<_>)| ListOffsetsTopic { name, partitions: partitions.into() };
    ListOffsetsRequest {
        replica_id: BrokerId(-1),
        topics: topics.into_iter().map(topic).collect(),
        timeout_ms: 30_000,
        ..Default::default()
    }
}

/// The same special time of partitions with records, of one with append time, and of one with nothing.
fn special(name: &'static str, timestamp: i64) -> Step {
    step(name, move |_| {
        let log = vec![query(0, timestamp), query(1, timestamp), query(2, timestamp)];
        ask(vec![("log", log), ("stamped", vec![query(0, timestamp)]), ("empty", vec![query(0, timestamp)])])
    })
}

/// A time of the script in partition 0 of `log`.
fn time(name: &'static str, offset_ms: i64) -> Step {
    step(name, move |at: &At<'_>| ask(vec![("log", vec![query(0, at.time(offset_ms).0)])]))
}

fn list() -> Vec<Step> {
    vec![
        special("list-offsets/latest", -1),
        special("list-offsets/earliest", -2),
        special("list-offsets/max-timestamp", -3),
        special("list-offsets/earliest-local", -4),
        special("list-offsets/latest-tiered", -5),
        special("list-offsets/earliest-pending-upload", -6),
        special("list-offsets/unheard-of", -7),
        time("list-offsets/before-all", -5),
        time("list-offsets/first", 0),
        time("list-offsets/inside-a-batch", 10),
        time("list-offsets/between-records", 15),
        time("list-offsets/second-batch", 100),
        time("list-offsets/last", 110),
        time("list-offsets/after-all", 111),
        special("list-offsets/time-0", 0),
        step("list-offsets/compressed", |at| ask(vec![("log", vec![query(1, at.time(10).0)])])),
        step("list-offsets/read-committed", |_| ListOffsetsRequest {
            isolation_level: 1,
            ..ask(vec![("log", vec![query(0, -1), query(1, -2)])])
        })
        .at(2..=10),
        step("list-offsets/none", |_| ask(vec![])),
    ]
}

fn list_errors() -> Vec<Step> {
    vec![
        step("list-offsets/unknown", |_| {
            ask(vec![
                ("no-such-topic", vec![query(0, -1)]),
                ("bad name!", vec![query(0, -1)]),
                ("log", vec![query(3, -1), query(-1, -1)]),
            ])
        }),
        step("list-offsets/twice", |_| ask(vec![("log", vec![query(0, -1), query(0, -2), query(1, -1)])])),
        step("list-offsets/topic-twice", |_| {
            ask(vec![("log", vec![query(0, -1)]), ("log", vec![query(1, -1)]), ("log", vec![query(0, -2)])])
        }),
        step("list-offsets/epochs", |_| {
            let with = |epoch, query| ListOffsetsPartition { current_leader_epoch: LeaderEpoch(epoch), ..query };
            ask(vec![("log", vec![with(0, query(0, -1)), with(9, query(1, -1)), with(-1, query(2, -1))])])
        })
        .at(4..=10),
        step("list-offsets/from-a-follower", |_| ListOffsetsRequest {
            replica_id: BrokerId(5),
            ..ask(vec![("log", vec![query(0, -1)])])
        }),
        step("list-offsets/from-a-debugger", |_| ListOffsetsRequest {
            replica_id: BrokerId(-2),
            ..ask(vec![("log", vec![query(0, -1)])])
        }),
    ]
}

fn epochs() -> Vec<Step> {
    let query = |index, current, epoch| OffsetForLeaderPartition {
        partition: PartitionIndex(index),
        current_leader_epoch: LeaderEpoch(current),
        leader_epoch: LeaderEpoch(epoch),
    };
    let topic = |topic, partitions: Vec<_>| OffsetForLeaderTopic { topic, partitions: partitions.into() };
    let ask = |topics: Vec<_>| OffsetForLeaderEpochRequest { replica_id: BrokerId(-1), topics: topics.into() };
    vec![
        step("epochs/known", move |_| {
            ask(vec![
                topic("log", vec![query(0, -1, 0), query(1, 0, 0), query(2, -1, 0)]),
                topic("empty", vec![query(0, 0, 0)]),
            ])
        }),
        step("epochs/from-the-future", move |_| ask(vec![topic("log", vec![query(0, -1, 9), query(1, 9, 0)])])),
        step("epochs/undefined", move |_| ask(vec![topic("log", vec![query(0, -1, -1), query(1, -1, -2)])])),
        step("epochs/unknown", move |_| {
            ask(vec![
                topic("no-such-topic", vec![query(0, -1, 0)]),
                topic("log", vec![query(3, -1, 0), query(-1, -1, 0)]),
            ])
        }),
        step("epochs/twice", move |_| {
            ask(vec![topic("log", vec![query(0, -1, 0), query(0, -1, 0)]), topic("log", vec![query(0, -1, 9)])])
        }),
        step("epochs/from-a-follower", move |_| OffsetForLeaderEpochRequest {
            replica_id: BrokerId(5),
            ..ask(vec![topic("log", vec![query(0, -1, 0)])])
        }),
        step("epochs/none", move |_| ask(vec![])),
    ]
}

/// DeleteRecords; each version has a topic of its own, with five records.
pub fn delete_records() -> Vec<Step> {
    let part =
        |index, offset| DeleteRecordsPartition { partition_index: PartitionIndex(index), offset: Offset(offset) };
    let topic = |name, partitions: Vec<_>| DeleteRecordsTopic { name, partitions: partitions.into() };
    let ask = |topics: Vec<_>| DeleteRecordsRequest { topics: topics.into(), timeout_ms: 30_000 };
    vec![
        step("delete-records/before-an-offset", move |at| ask(vec![topic(at.name("trim"), vec![part(0, 2)])])),
        step("delete-records/lower", move |at| ask(vec![topic(at.name("trim"), vec![part(0, 1)])])),
        step("delete-records/past-the-end", move |at| ask(vec![topic(at.name("trim"), vec![part(0, 6)])])),
        step("delete-records/negative", move |at| ask(vec![topic(at.name("trim"), vec![part(0, -2)])])),
        step("delete-records/all", move |at| ask(vec![topic(at.name("trim"), vec![part(0, -1)])])),
        step("delete-records/unknown", move |at| {
            ask(vec![
                topic("no-such-topic", vec![part(0, 0)]),
                topic("bad name!", vec![part(0, 0)]),
                topic(at.name("trim"), vec![part(1, 0), part(-1, 0)]),
            ])
        }),
        step("delete-records/twice", move |_| {
            ask(vec![topic("empty", vec![part(0, 0), part(0, 0)]), topic("empty", vec![part(0, 0)])])
        }),
        step("delete-records/none", move |_| ask(vec![])),
    ]
}
