//! Fetch: records, limits, errors, and sessions.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Uuid};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState};

use crate::step::{At, NO_SUCH_ID, Step, step};

fn partition(index: i32, offset: i64) -> FetchPartition {
    FetchPartition {
        partition: PartitionIndex(index),
        fetch_offset: Offset(offset),
        partition_max_bytes: 1 << 20,
        ..Default::default()
    }
}

fn topic(at: &At<'_>, name: &'static str, partitions: Vec<FetchPartition>) -> FetchTopic<'static> {
    FetchTopic { topic: name, topic_id: at.id(name), partitions: partitions.into() }
}

const CONSUMER: ReplicaState = ReplicaState { replica_id: BrokerId(-1), replica_epoch: -1 };

/// Without a session, and without waiting.
fn ask(topics: Vec<FetchTopic<'static>>) -> FetchRequest<'static> {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 10 << 20,
        topics: topics.into(),
        replica_state: CONSUMER,
        ..Default::default()
    }
}

fn log(at: &At<'_>, partitions: Vec<FetchPartition>) -> FetchRequest<'static> {
    ask(vec![topic(at, "log", partitions)])
}

pub fn steps() -> Vec<Step> {
    let mut steps = records();
    steps.extend(errors());
    steps.extend(sessions());
    steps.extend(session_errors());
    steps
}

fn records() -> Vec<Step> {
    vec![
        step("fetch/all", |at| {
            let stamped = topic(at, "stamped", vec![partition(0, 0)]);
            let written = topic(at, "written", vec![partition(0, 0)]);
            let log = topic(at, "log", vec![partition(0, 0), partition(1, 0), partition(2, 0)]);
            ask(vec![log, stamped, written])
        }),
        step("fetch/inside-a-batch", |at| log(at, vec![partition(0, 1), partition(1, 3)])),
        step("fetch/at-the-end", |at| log(at, vec![partition(0, 5)])),
        step("fetch/read-committed", |at| FetchRequest { isolation_level: 1, ..log(at, vec![partition(0, 3)]) }),
        step("fetch/partition-limit-below-a-batch", |at| {
            let limited = FetchPartition { partition_max_bytes: 1, ..partition(0, 0) };
            log(at, vec![limited])
        }),
        step("fetch/partition-limit-cuts", |at| {
            let limited = FetchPartition { partition_max_bytes: 150, ..partition(0, 0) };
            log(at, vec![limited, FetchPartition { partition: PartitionIndex(1), ..limited }])
        }),
        step("fetch/limit-of-the-whole", |at| FetchRequest {
            max_bytes: 1,
            ..log(at, vec![partition(0, 0), partition(1, 0)])
        }),
        step("fetch/limits-of-0", |at| {
            let limited = FetchPartition { partition_max_bytes: 0, ..partition(0, 0) };
            FetchRequest { max_bytes: 0, min_bytes: 0, ..log(at, vec![limited]) }
        }),
        step("fetch/nothing", |_| ask(vec![])),
        step("fetch/topic-twice", |at| {
            ask(vec![topic(at, "log", vec![partition(0, 3)]), topic(at, "log", vec![partition(0, 0), partition(1, 2)])])
        }),
        step("fetch/current-epoch", |at| {
            let known = FetchPartition { current_leader_epoch: LeaderEpoch(0), ..partition(0, 3) };
            log(at, vec![known])
        }),
        step("fetch/last-epoch", |at| {
            let known = FetchPartition { last_fetched_epoch: LeaderEpoch(0), ..partition(0, 3) };
            log(at, vec![known])
        })
        .at(12..=17),
        step("fetch/rack", |at| FetchRequest { rack_id: "nowhere", ..log(at, vec![partition(0, 3)]) }),
    ]
}

fn errors() -> Vec<Step> {
    vec![
        step("fetch/out-of-range", |at| log(at, vec![partition(0, 6), partition(1, 1 << 40), partition(2, -2)])),
        step("fetch/unknown", |at| {
            let unknown =
                FetchTopic { topic: "no-such-topic", topic_id: NO_SUCH_ID, partitions: vec![partition(0, 0)].into() };
            ask(vec![unknown, topic(at, "log", vec![partition(3, 0), partition(-1, 0), partition(0, 3)])])
        }),
        step("fetch/zero-id", |_| {
            let zero = FetchTopic { topic: "log", topic_id: Uuid::ZERO, partitions: vec![partition(0, 0)].into() };
            ask(vec![zero])
        })
        .at(13..=17),
        step("fetch/bad-name", |at| ask(vec![topic(at, "bad name!", vec![partition(0, 0)])])).at(4..=12),
        step("fetch/epoch-from-the-future", |at| {
            let known = FetchPartition { current_leader_epoch: LeaderEpoch(9), ..partition(0, 0) };
            log(at, vec![known])
        })
        .at(9..=17),
        step("fetch/last-epoch-from-the-future", |at| {
            let known = FetchPartition { last_fetched_epoch: LeaderEpoch(9), ..partition(0, 3) };
            log(at, vec![known])
        })
        .at(12..=17),
        step("fetch/last-epoch-and-past-the-end", |at| {
            let known = FetchPartition { last_fetched_epoch: LeaderEpoch(0), ..partition(0, 9) };
            log(at, vec![known])
        })
        .at(12..=17),
        step("fetch/from-a-follower", |at| FetchRequest {
            replica_id: BrokerId(if at.version < 15 { 5 } else { -1 }),
            replica_state: match at.version {
                15.. => ReplicaState { replica_id: BrokerId(5), replica_epoch: 1 },
                _ => CONSUMER,
            },
            ..log(at, vec![partition(0, 0)])
        }),
        step("fetch/isolation-unheard-of", |at| FetchRequest { isolation_level: 7, ..log(at, vec![partition(0, 3)]) }),
        step("fetch/cluster-id-of-another", |at| FetchRequest {
            cluster_id: Some("another"),
            ..log(at, vec![partition(0, 3)])
        })
        .at(12..=17),
    ]
}

/// The same session goes on from step to step, one for each version.
fn sessions() -> Vec<Step> {
    let go_on = |at: &At<'_>, epoch, topics| FetchRequest {
        session_id: at.session(),
        session_epoch: epoch,
        min_bytes: 0,
        ..ask(topics)
    };
    vec![
        step("session/open", |at| FetchRequest {
            session_epoch: 0,
            ..log(at, vec![partition(0, 3), partition(1, 0), partition(2, 0)])
        })
        .at(7..=17),
        step("session/no-news", move |at| go_on(at, 1, vec![topic(at, "log", vec![partition(0, 5), partition(1, 4)])]))
            .at(7..=17),
        step("session/still-no-news", move |at| go_on(at, 2, vec![])).at(7..=17),
        step("session/rewound", move |at| go_on(at, 3, vec![topic(at, "log", vec![partition(0, 3)])])).at(7..=17),
        step("session/wrong-epoch", move |at| go_on(at, 9, vec![])).at(7..=17),
        step("session/forget-and-add", move |at| FetchRequest {
            forgotten_topics_data: vec![ForgottenTopic {
                topic: "log",
                topic_id: at.id("log"),
                partitions: vec![PartitionIndex(0)].into(),
            }]
            .into(),
            ..go_on(at, 4, vec![topic(at, "stamped", vec![partition(0, 0)])])
        })
        .at(7..=17),
        step("session/error-in-it", move |at| go_on(at, 5, vec![topic(at, "log", vec![partition(1, 99)])])).at(7..=17),
        step("session/error-again", move |at| go_on(at, 6, vec![])).at(7..=17),
        step("session/closed", move |at| go_on(at, -1, vec![topic(at, "log", vec![partition(0, 3)])])).at(7..=17),
        step("session/after-it-was-closed", move |at| go_on(at, 7, vec![])).at(7..=17),
    ]
}

fn session_errors() -> Vec<Step> {
    vec![
        step("session/unheard-of", |at| FetchRequest {
            session_id: 123_456,
            session_epoch: 1,
            ..log(at, vec![partition(0, 3)])
        })
        .at(7..=17),
        step("session/0-goes-on", |at| FetchRequest {
            session_id: 0,
            session_epoch: 3,
            ..log(at, vec![partition(0, 3)])
        })
        .at(7..=17),
        step("session/unknown-topic", |at| {
            let unknown =
                FetchTopic { topic: "no-such-topic", topic_id: NO_SUCH_ID, partitions: vec![partition(0, 0)].into() };
            FetchRequest { session_epoch: 0, ..ask(vec![unknown, topic(at, "log", vec![partition(0, 3)])]) }
        })
        .at(7..=17),
        step("session/with-names", |at| FetchRequest { session_epoch: 0, ..log(at, vec![partition(0, 3)]) })
            .at(12..=12),
        step("session/with-names-goes-on-with-ids", |at| FetchRequest {
            session_id: at.session_of(12),
            session_epoch: 1,
            ..ask(vec![])
        })
        .at(13..=13),
    ]
}
