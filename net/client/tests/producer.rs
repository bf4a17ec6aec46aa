//! The producer against brokers that fail, move, forget and stall: what is acknowledged is in the log, once, in order.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Instant, Offset, Random};
use client::{Acks, Client, Delivery, DeliveryError, Producer, ProducerOptions, ProducerRecord, SendError};
use record::Compression;
use support::{Cluster, Hook, Incoming, Reaction, index, run, run_with};
use wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::{ApiKey, ErrorCode};

fn small_batches() -> ProducerOptions {
    ProducerOptions { batch_bytes: 200, linger: Duration::ZERO, ..ProducerOptions::default() }
}

/// Sends records `from..to` to partitions in turn, with their number as value.
async fn send(producer: &Producer, partitions: i32, from: i32, to: i32) -> Vec<(i32, Delivery)> {
    let mut deliveries = Vec::new();
    for number in from..to {
        let value = number.to_string();
        let partition = Some(index(number % partitions));
        let record = ProducerRecord { topic: "t", partition, value: Some(value.as_bytes()), ..Default::default() };
        deliveries.push((number, producer.send(record).await.expect("accepted")));
    }
    deliveries
}

/// The answer to a Produce request with this error for every partition.
fn refuse(incoming: &Incoming, error_code: ErrorCode) -> Reaction {
    let request: ProduceRequest<'_> = incoming.decode();
    let responses = request.topic_data.iter().map(|topic| {
        let answers = topic.partition_data.iter();
        let answers =
            answers.map(|data| PartitionProduceResponse { index: data.index, error_code, ..Default::default() });
        TopicProduceResponse { name: topic.name, topic_id: topic.topic_id, partition_responses: answers.collect() }
    });
    Reaction::Answer(incoming.answer(&ProduceResponse { responses: responses.collect(), ..Default::default() }))
}

/// A hook for Produce requests alone; the number counts them from 1.
fn on_produce(mut hook: impl FnMut(&mut Cluster, &Incoming, u32) -> Reaction + 'static) -> Hook {
    let mut count = 0;
    Box::new(move |cluster, incoming| {
        if incoming.key != ApiKey::Produce {
            return Reaction::Serve;
        }
        count += 1;
        hook(cluster, incoming, count)
    })
}

/// Whatever the faults, every record is acknowledged at the offset where it stands, once and in order.
fn check_exactly_once(seed: u64, partitions: i32, versions: (i16, i16)) {
    run_with(
        3,
        |options| options.timeout = Duration::from_secs(300),
        move |cluster, client| async move {
            cluster.borrow_mut().add_topic("t", partitions);
            cluster.borrow_mut().versions.insert(ApiKey::Produce.code(), versions);
            let mut random = Random::new(seed);
            cluster.borrow_mut().hook = on_produce(move |cluster, incoming, _| match random.below(12) {
                0 => Reaction::HangUp,
                1 => Reaction::ServeAndHangUp,
                2 => refuse(incoming, ErrorCode::NotEnoughReplicas),
                3 => refuse(incoming, ErrorCode::NotLeaderOrFollower),
                4 => Reaction::ServeAfter(Duration::from_millis(random.below(100))),
                5 => {
                    let partition = i32::try_from(random.below(partitions as u64)).expect("few");
                    cluster.lead("t", partition, i32::try_from(random.below(3)).expect("three"));
                    Reaction::Serve
                }
                6 if random.chance(1, 4) => Reaction::Ignore,
                _ => Reaction::Serve,
            });
            let options = ProducerOptions { delivery_timeout: Duration::from_secs(3600), ..small_batches() };
            let producer = Producer::open(&client, options).expect("sound options");
            let deliveries = send(&producer, partitions, 0, 600).await;
            producer.flush().await;
            assert_eq!(producer.buffered_bytes(), 0);
            let mut places = BTreeMap::new();
            for (number, delivery) in deliveries {
                let delivered = delivery
                    .try_outcome()
                    .expect("flushed")
                    .unwrap_or_else(|e| panic!("seed {seed} record {number}: {e}"));
                let offset = delivered.offset.expect("known").0;
                assert_eq!(places.insert((delivered.partition.0, offset), number), None);
            }
            for partition in 0..partitions {
                let values = cluster.borrow_mut().log("t", partition).values();
                let expected: Vec<String> =
                    (0..600).filter(|n| n % partitions == partition).map(|n| n.to_string()).collect();
                assert_eq!(values, expected, "seed {seed}, partition {partition}");
                for (offset, value) in (0..).zip(&values) {
                    assert_eq!(places[&(partition, offset)].to_string(), *value);
                }
            }
        },
    );
}

#[test]
fn under_faults_each_record_is_written_once_and_in_order() {
    for seed in 0..12 {
        check_exactly_once(seed, 4, (0, 13));
        check_exactly_once(1000 + seed, 1, (3, 8));
    }
}

/// With little time, some records are given up. What is said of each is true all the same, and nothing is written twice.
fn check_what_is_said(seed: u64) {
    run_with(
        3,
        |options| options.connection.request_timeout = Duration::from_millis(200),
        move |cluster, client| async move {
            cluster.borrow_mut().add_topic("t", 2);
            let mut random = Random::new(seed);
            cluster.borrow_mut().hook = on_produce(move |cluster, incoming, _| match random.below(8) {
                0 => Reaction::HangUp,
                1 => Reaction::ServeAndHangUp,
                2 => refuse(incoming, ErrorCode::NotEnoughReplicas),
                3 => Reaction::ServeAfter(Duration::from_millis(random.below(300))),
                4 => Reaction::Ignore,
                5 if random.chance(1, 6) => refuse(incoming, ErrorCode::MessageTooLarge),
                6 => {
                    cluster.lead("t", 0, i32::try_from(random.below(3)).expect("three"));
                    Reaction::Serve
                }
                _ => Reaction::Serve,
            });
            let options = ProducerOptions { delivery_timeout: Duration::from_millis(400), ..small_batches() };
            let producer = Producer::open(&client, options).expect("sound options");
            let mut deliveries = Vec::new();
            for first in (0..600).step_by(60) {
                deliveries.extend(send(&producer, 2, first, first + 60).await);
                client.shard().sleep(Duration::from_millis(150)).await;
            }
            producer.flush().await;
            let logs: Vec<Vec<String>> = (0..2).map(|p| cluster.borrow_mut().log("t", p).values()).collect();
            for values in &logs {
                let numbers: Vec<i32> = values.iter().map(|value| value.parse().expect("a number")).collect();
                assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}: {numbers:?}");
            }
            for (number, delivery) in deliveries {
                let values = &logs[usize::try_from(number % 2).expect("positive")];
                let place = values.iter().position(|value| *value == number.to_string());
                match delivery.try_outcome().expect("flushed") {
                    Ok(delivered) => {
                        let place =
                            place.unwrap_or_else(|| panic!("seed {seed}: {number} was acknowledged and is not there"));
                        let offset = delivered.offset.map(|offset| offset.0);
                        assert!(offset.is_none_or(|offset| offset == place as i64), "seed {seed}: {number}");
                    }
                    Err(error) => {
                        let told = place.is_none() || error.may_have_been_written();
                        assert!(told, "seed {seed}: {number} is there, and was said not to be: {error}");
                    }
                }
            }
        },
    );
}

#[test]
fn what_is_said_of_a_record_is_true() {
    (0..40).for_each(check_what_is_said);
}

#[test]
fn every_compression_and_no_acknowledgement_at_all() {
    for compression in Compression::ALL {
        for acks in [Acks::Zero, Acks::One, Acks::All] {
            run(1, move |cluster, client| async move {
                cluster.borrow_mut().add_topic("t", 1);
                let idempotent = acks == Acks::All;
                let options = ProducerOptions { acks, compression, idempotent, ..small_batches() };
                let producer = Producer::open(&client, options).expect("sound options");
                let deliveries = send(&producer, 1, 0, 50).await;
                for (number, delivery) in deliveries {
                    let offset = delivery.await.expect("sent").offset;
                    assert_eq!(offset, (acks != Acks::Zero).then_some(Offset(i64::from(number))));
                }
                // Without acknowledgements what was sent may still be on its way: an answer behind it says that it arrived.
                client.list_offsets(&[("t", index(0), client::OffsetSpec::Latest)]).await.expect("answered");
                let values = cluster.borrow_mut().log("t", 0).values();
                assert_eq!(values.len(), 50);
            });
        }
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    run(1, |_, client| async move {
        let check = |options: ProducerOptions| assert!(Producer::open(&client, options).is_err());
        check(ProducerOptions { acks: Acks::One, ..Default::default() });
        check(ProducerOptions { retries: false, ..Default::default() });
    });
}

#[test]
fn a_lost_tail_is_noticed_and_the_partition_goes_on_under_a_new_identity() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        let producer = Producer::open(&client, small_batches()).expect("sound options");
        for (_, delivery) in send(&producer, 1, 0, 30).await {
            delivery.await.expect("acknowledged");
        }
        let kept = {
            let mut cluster = cluster.borrow_mut();
            let log = cluster.log("t", 0);
            let second = record::BatchView::parse(&log.batches[1]).expect("stored").base_offset().0;
            log.truncate(second);
            second
        };
        let deliveries = send(&producer, 1, 30, 60).await;
        producer.flush().await;
        let (mut lost, mut written) = (0, Vec::new());
        for (number, delivery) in deliveries {
            match delivery.await {
                Ok(_) => written.push(number),
                Err(DeliveryError::OutOfOrderSequence) => lost += 1,
                Err(other) => panic!("{other}"),
            }
        }
        // The batch that met the gap is given up, those behind it are written in order.
        assert!(lost > 0 && !written.is_empty());
        assert_eq!(written, (30 + lost..60).collect::<Vec<i32>>());
        let values = cluster.borrow_mut().log("t", 0).values();
        let expected: Vec<String> = (0..kept).chain((30 + i64::from(lost))..60).map(|n| n.to_string()).collect();
        assert_eq!(values, expected);
        assert_eq!(cluster.borrow_mut().log("t", 0).producers.len(), 2, "a new producer id");
    });
}

#[test]
fn a_fenced_producer_ends() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 2);
        let hook = on_produce(|_, incoming, _| refuse(incoming, ErrorCode::InvalidProducerEpoch));
        cluster.borrow_mut().hook = hook;
        let producer = Producer::open(&client, small_batches()).expect("sound options");
        for (_, delivery) in send(&producer, 2, 0, 40).await {
            let error = delivery.await.expect_err("fenced");
            assert!(matches!(error, DeliveryError::Fenced { .. }) && !error.may_have_been_written());
        }
        let ended = producer.send(ProducerRecord { topic: "t", ..Default::default() }).await.err();
        assert!(matches!(ended, Some(SendError::Ended(DeliveryError::Fenced { .. }))));
    });
}

/// Sends ten records to a broker that reacts like this, and returns how the first ended and when.
fn ends_with(options: ProducerOptions, hook: Hook) -> (DeliveryError, Duration) {
    let result = std::rc::Rc::new(std::cell::RefCell::new(None));
    let sent = result.clone();
    run(1, move |cluster, client| async move {
        let shard = cluster.borrow().shard.clone();
        cluster.borrow_mut().add_topic("t", 1);
        client.topic("t").await.expect("there");
        cluster.borrow_mut().hook = hook;
        let start = shard.now();
        let producer = Producer::open(&client, options).expect("sound options");
        let deliveries = send(&producer, 1, 0, 10).await;
        producer.flush().await;
        let error = deliveries[0].1.try_outcome().expect("flushed").expect_err("not acknowledged");
        *sent.borrow_mut() = Some((error, shard.now() - start));
    });
    result.take().expect("the test ran")
}

#[test]
fn a_delivery_ends_in_time_and_says_whether_it_may_have_been_written() {
    let timed = ProducerOptions { delivery_timeout: Duration::from_secs(5), ..small_batches() };
    let (error, after) = ends_with(timed.clone(), on_produce(|_, _, _| Reaction::ServeAndHangUp));
    assert!(matches!(error, DeliveryError::Unknown { .. }) && error.may_have_been_written(), "{error}");
    assert!((5..8).contains(&after.as_secs()), "{after:?}");

    let (error, after) =
        ends_with(timed.clone(), on_produce(|_, incoming, _| refuse(incoming, ErrorCode::NotEnoughReplicas)));
    assert!(matches!(error, DeliveryError::Expired { cause: Some(_) }) && !error.may_have_been_written(), "{error}");
    assert!((5..8).contains(&after.as_secs()), "{after:?}");

    let (error, _) =
        ends_with(timed.clone(), on_produce(|_, incoming, _| refuse(incoming, ErrorCode::MessageTooLarge)));
    let too_large = DeliveryError::Refused { code: ErrorCode::MessageTooLarge, message: None };
    assert_eq!(error, too_large);

    let once = ProducerOptions { idempotent: false, retries: false, ..timed.clone() };
    let (error, after) = ends_with(once, on_produce(|_, _, _| Reaction::Ignore));
    assert!(matches!(error, DeliveryError::Unknown { .. }), "{error}");
    assert_eq!(after.as_secs(), 2, "the time of a request");

    let nobody: Hook = Box::new(|_, _| Reaction::HangUp);
    let (error, _) = ends_with(timed, nobody);
    assert!(!error.may_have_been_written(), "no identity, so nothing was sent: {error}");
}

#[test]
fn memory_is_bounded_and_what_lingers_makes_room() {
    run(1, |cluster, client| async move {
        let shard = cluster.borrow().shard.clone();
        cluster.borrow_mut().add_topic("t", 1);
        let options = ProducerOptions { linger: Duration::from_secs(3600), buffer_bytes: 1000, ..Default::default() };
        let producer = Producer::open(&client, options).expect("sound options");
        let before = shard.now();
        let deliveries = send(&producer, 1, 0, 200).await;
        assert!(producer.buffered_bytes() <= 1000);
        drop(deliveries);
        producer.flush().await;
        assert_eq!(cluster.borrow_mut().log("t", 0).values().len(), 200);
        assert!(shard.now() - before < Duration::from_secs(1));
        let value = [0; 1001];
        let record = ProducerRecord { topic: "t", value: Some(&value), ..Default::default() };
        assert!(matches!(producer.send(record).await.err(), Some(SendError::TooLarge { .. })));
    });
}

#[test]
fn a_throttle_holds_the_next_request_back() {
    run(1, |cluster, client| async move {
        let shard = cluster.borrow().shard.clone();
        cluster.borrow_mut().add_topic("t", 1);
        cluster.borrow_mut().throttle_ms = 300;
        let producer = Producer::open(&client, small_batches()).expect("sound options");
        for (first, at_ms) in [(0, 0), (1, 300), (2, 600)] {
            let (_, delivery) = send(&producer, 1, first, first + 1).await.remove(0);
            delivery.await.expect("acknowledged");
            assert_eq!(shard.now(), Instant(at_ms * 1_000_000));
        }
    });
}

#[test]
fn what_can_not_be_sent_is_refused_at_once() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        let producer = Producer::open(&client, small_batches()).expect("sound options");
        let unknown = producer.send(ProducerRecord { topic: "nowhere", ..Default::default() }).await.err();
        let Some(SendError::Topic(error)) = unknown else { panic!("no such topic") };
        assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
        let record = ProducerRecord { topic: "t", partition: Some(index(1)), ..Default::default() };
        assert!(matches!(producer.send(record).await.err(), Some(SendError::Topic(_))));
        let (_, delivery) = send(&producer, 1, 0, 1).await.remove(0);
        assert_eq!(delivery.await.expect("acknowledged").offset, Some(Offset(0)));
    });
}

#[test]
fn a_dropped_producer_abandons_what_it_has() {
    run(1, |cluster, client: Client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        let options = ProducerOptions { linger: Duration::from_secs(3600), ..Default::default() };
        let producer = Producer::open(&client, options).expect("sound options");
        let (_, delivery) = send(&producer, 1, 0, 1).await.remove(0);
        drop(producer);
        assert_eq!(delivery.await, Err(DeliveryError::Abandoned { may_have_been_written: false }));
    });
}
