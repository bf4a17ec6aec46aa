//! Idempotent producers: their ids, their sequences, and what a broker tells of them.

use base::{PartitionIndex, ProducerEpoch, ProducerId};
use wire::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use wire::messages::init_producer_id::InitProducerIdRequest;

use super::produce::{ask, partition};
use super::records::{kept, stamped};
use super::setup::NOBODY;
use crate::step::{At, Step, step};

/// A batch of the first producer for this version's own topic.
fn sequence(name: &'static str, epoch: i16, sequence: i32, values: &'static [&'static str]) -> Step {
    step(name, move |at: &At<'_>| {
        let batch = kept(stamped(at, at.producer(0), epoch, sequence, values));
        ask(-1, vec![partition(at, at.name("idempotent"), 0, batch)])
    })
}

pub fn steps() -> Vec<Step> {
    let mut steps = ids();
    steps.extend(sequences());
    steps.extend(described());
    steps
}

fn ids() -> Vec<Step> {
    let identity = |id, epoch| InitProducerIdRequest {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        ..Default::default()
    };
    vec![
        step("init-producer-id/new", move |_| identity(-1, -1)),
        step("init-producer-id/timeout-ignored", |_| InitProducerIdRequest {
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        }),
        step("init-producer-id/raise-epoch", move |at| identity(at.producer(0).0, 0)).at(3..=5),
        step("init-producer-id/id-without-epoch", move |_| identity(5, -1)).at(3..=5),
        step("init-producer-id/epoch-without-id", move |_| identity(-1, 5)).at(3..=5),
    ]
}

fn sequences() -> Vec<Step> {
    vec![
        sequence("idempotent/first", 0, 0, &["a", "b"]),
        sequence("idempotent/again", 0, 0, &["a", "b"]),
        sequence("idempotent/next", 0, 2, &["c"]),
        sequence("idempotent/gap", 0, 9, &["z"]),
        sequence("idempotent/behind", 0, 1, &["b"]),
        sequence("idempotent/higher-epoch-not-at-0", 1, 3, &["d"]),
        sequence("idempotent/higher-epoch", 1, 0, &["d"]),
        sequence("idempotent/fenced-epoch", 0, 3, &["d"]),
        step("idempotent/unheard-of-producer", |at| {
            ask(-1, vec![partition(at, at.name("idempotent"), 1, kept(stamped(at, NOBODY, 0, 40, &["a"])))])
        }),
        step("idempotent/last-sequence", |at| {
            let batch = kept(stamped(at, at.producer(0), 0, i32::MAX - 1, &["a", "b"]));
            ask(-1, vec![partition(at, at.name("idempotent"), 1, batch)])
        }),
        step("idempotent/sequence-wraps", |at| {
            let batch = kept(stamped(at, at.producer(0), 0, 0, &["c"]));
            ask(-1, vec![partition(at, at.name("idempotent"), 1, batch)])
        }),
    ]
}

fn described() -> Vec<Step> {
    let topic = |name, partitions: &[i32]| TopicRequest {
        name,
        partition_indexes: partitions.iter().copied().map(PartitionIndex).collect(),
    };
    vec![
        step("describe-producers/known", move |_| DescribeProducersRequest {
            topics: vec![topic("idempotent-v3", &[0, 1]), topic("written", &[0]), topic("empty", &[0])].into(),
        }),
        step("describe-producers/unknown", move |_| DescribeProducersRequest {
            topics: vec![topic("empty", &[1, -1]), topic("no-such-topic", &[0]), topic("bad name!", &[0])].into(),
        }),
        step("describe-producers/twice", move |_| DescribeProducersRequest {
            topics: vec![topic("written", &[0, 0]), topic("written", &[0])].into(),
        }),
        step("describe-producers/none", |_| DescribeProducersRequest::default()),
    ]
}
