//! The sink over real sockets, seen by the client: what it serves, and each thing that it does wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use base::{Instant, Offset, PartitionIndex};
use client::{
    Acks, Client, ClientOptions, Consumer, ConsumerOptions, DeliveryError, Fault, NewTopic, OffsetSpec, Producer,
    ProducerOptions, ProducerRecord, Start,
};
use e2e::runner::{client, on_shard, within};
use loadgen::sink::{Pace, SinkOptions, start};
use loadgen::units::Bytes;
use record::Compression;
use shard::{Class, Shard};
use wire::ErrorCode;

const TOPIC: &str = "tide";
const P0: PartitionIndex = PartitionIndex(0);
/// No test comes near it.
const LIMIT_S: u64 = 60;

/// Runs `main` against a sink of its own, which has the topic with two partitions.
fn with_sink<F: Future<Output = ()> + 'static>(
    options: SinkOptions,
    main: impl FnOnce(Shard, Client) -> F + Send + 'static,
) {
    let sink = start(options).expect("a sink can be started");
    let address = sink.address().to_string();
    on_shard(move |shard| async move {
        let client = client(&shard, &address);
        let topic = NewTopic { name: TOPIC.into(), partition_count: Some(2), ..Default::default() };
        client.create_topic(&topic, false).await.expect("the topic can be created");
        let work = main(shard.clone(), client);
        within(&shard, LIMIT_S, "the test", work).await;
    });
    sink.stop();
}

fn with_faults(faults: &[&str]) -> SinkOptions {
    let faults = faults.iter().map(|text| text.parse().expect("a fault")).collect();
    SinkOptions { faults, ..Default::default() }
}

/// Each record leaves at once, alone.
fn producer(client: &Client, options: ProducerOptions) -> Producer {
    Producer::open(client, ProducerOptions { linger: Duration::ZERO, ..options }).expect("the options fit")
}

/// Sends a record and waits for its acknowledgement.
async fn send(producer: &Producer, value: &str) -> Result<Option<i64>, DeliveryError> {
    let partition = Some(P0);
    let record = ProducerRecord { topic: TOPIC, partition, value: Some(value.as_bytes()), ..Default::default() };
    let delivery = producer.send(record).await.expect("the record is accepted");
    delivery.await.map(|delivered| delivered.offset.map(|offset| offset.0))
}

/// The next `count` records from the beginning on, as `offset:value`.
async fn receive(client: &Client, count: usize) -> Vec<String> {
    let consumer = Consumer::new(client, ConsumerOptions::default());
    consumer.assign_at(TOPIC, P0, Offset(0));
    let mut received = Vec::new();
    while received.len() < count {
        let fetched = consumer.next().await.expect("the partition can be read");
        for record in fetched.batch.iter().flat_map(|batch| batch.records()) {
            let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            received.push(format!("{}:{value}", record.offset));
        }
    }
    received
}

#[test]
fn each_record_is_delivered_as_its_fault_says() {
    for compression in [Compression::None, Compression::Zstd] {
        let faults = with_faults(&["drop@1", "duplicate@3", "swap@0/5", "corrupt@8", "drop@1/0"]);
        with_sink(faults, move |_, client| async move {
            let producer = producer(&client, ProducerOptions { compression, ..Default::default() });
            let mut offsets = Vec::new();
            for index in 0..10 {
                offsets.push(send(&producer, &format!("r{index}")).await.expect("acknowledged"));
            }
            assert_eq!(offsets, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10].map(Some));
            let expected = ["0:r0", "2:r2", "3:r3", "4:r3", "5:r4", "6:r6", "7:r5", "8:r7", "9:r\u{fffd}", "10:r9"];
            assert_eq!(receive(&client, expected.len()).await, expected);
        });
    }
}

#[test]
fn refused_batches_are_answered_as_their_fault_says() {
    let faults = with_faults(&["refuse@1", "refuse-and-keep@2", "retry@3"]);
    with_sink(faults, |_, client| async move {
        let producer = producer(&client, ProducerOptions::default());
        let refused = |answer: Result<_, DeliveryError>| {
            matches!(answer, Err(DeliveryError::Refused { code: ErrorCode::InvalidRecord, .. }))
        };
        assert_eq!(send(&producer, "r0").await, Ok(Some(0)));
        assert!(refused(send(&producer, "r1").await));
        assert_eq!(send(&producer, "r2").await, Ok(Some(1)));
        assert!(refused(send(&producer, "r3").await));
        assert_eq!(send(&producer, "r4").await, Ok(Some(3)));
        assert_eq!(receive(&client, 4).await, ["0:r0", "1:r2", "2:r3", "3:r4"]);
    });
}

#[test]
fn a_damaged_batch_is_seen_by_its_checksum() {
    with_sink(with_faults(&["corrupt-batch@1"]), |_, client| async move {
        let producer = producer(&client, ProducerOptions::default());
        for (offset, value) in [(0, "r0"), (1, "r1")] {
            assert_eq!(send(&producer, value).await, Ok(Some(offset)));
        }
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        consumer.assign_at(TOPIC, P0, Offset(0));
        assert_eq!(consumer.next().await.expect("sound").next_offset, Offset(1));
        let error = consumer.next().await.expect_err("damaged");
        assert!(matches!(error.fault, Fault::Corrupt(_)), "{error}");
    });
}

/// A sink that works by this schedule.
fn with_pace(delays: &str, stalls: &[&str], deliver_delay: Duration) -> SinkOptions {
    let stalls = stalls.iter().map(|text| text.parse().expect("a stall")).collect();
    let pace = Pace { delays: delays.parse().expect("a schedule"), stalls, deliver_delay };
    SinkOptions { pace, ..Default::default() }
}

/// What happens to the first record of the partition.
struct Passage {
    sent: Instant,
    acknowledged: Instant,
    delivered: Instant,
}

/// Sends a record to a reader that waits for it.
async fn pass(shard: &Shard, client: &Client, options: ProducerOptions) -> Passage {
    let producer = producer(client, options);
    let reading = {
        let (shard, client) = (shard.clone(), client.clone());
        let account = shard.account("reader");
        shard.clone().spawn(Class::Latency, account, async move {
            assert_eq!(receive(&client, 1).await, ["0:r0"]);
            shard.now()
        })
    };
    let sent = shard.now();
    assert_eq!(send(&producer, "r0").await, Ok(Some(0)));
    Passage { sent, acknowledged: shard.now(), delivered: reading.await }
}

#[test]
fn an_acknowledgement_comes_no_earlier_than_its_delay() {
    let delay = Duration::from_millis(100);
    for (acks, idempotent) in [(Acks::All, true), (Acks::One, false)] {
        with_sink(with_pace("100ms", &[], Duration::ZERO), move |shard, client| async move {
            let passage = pass(&shard, &client, ProducerOptions { acks, idempotent, ..Default::default() }).await;
            assert!(passage.acknowledged >= passage.sent + delay);
            assert!(passage.delivered >= passage.sent + delay, "what is not acknowledged can't be read");
        });
    }
}

#[test]
fn nothing_is_acknowledged_or_delivered_during_a_stall() {
    let length = Duration::from_millis(200);
    with_sink(with_pace("0", &["0s+200ms"], Duration::ZERO), move |shard, client| async move {
        let passage = pass(&shard, &client, ProducerOptions::default()).await;
        assert!(passage.acknowledged >= passage.sent + length);
        assert!(passage.delivered >= passage.sent + length);
    });
}

#[test]
fn records_are_delivered_no_earlier_than_their_delay() {
    let delay = Duration::from_millis(200);
    with_sink(with_pace("100ms", &[], Duration::from_millis(100)), move |shard, client| async move {
        let passage = pass(&shard, &client, ProducerOptions::default()).await;
        assert!(passage.delivered >= passage.sent + delay);
    });
}

#[test]
fn what_finds_no_room_goes_oldest_first() {
    let options = SinkOptions { keep: Bytes(4096), ..Default::default() };
    with_sink(options, |_, client| async move {
        let producer = producer(&client, ProducerOptions { acks: Acks::One, idempotent: false, ..Default::default() });
        for index in 0..100 {
            assert_eq!(send(&producer, &format!("r{index}")).await, Ok(Some(index)));
        }
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        let assigned = consumer.assign(TOPIC, P0, Start::Beginning).await.expect("the partition is there");
        assert!(assigned.start > Offset(0) && assigned.end == Offset(100), "{assigned:?}");
        assert_eq!(consumer.next().await.expect("readable").next_offset, Offset(assigned.start.0 + 1));
    });
}

#[test]
fn topics_and_offsets_are_administered() {
    with_sink(SinkOptions::default(), |_, client| async move {
        let producer = producer(&client, ProducerOptions { acks: Acks::Zero, idempotent: false, ..Default::default() });
        for value in ["r0", "r1"] {
            assert_eq!(send(&producer, value).await, Ok(None));
        }
        assert_eq!(receive(&client, 2).await, ["0:r0", "1:r1"]);
        let ask = [OffsetSpec::Earliest, OffsetSpec::Latest, OffsetSpec::MaxTimestamp].map(|spec| (TOPIC, P0, spec));
        for (question, expected) in ask.iter().zip([0, 2, 1]) {
            let found = client.list_offsets(&[*question]).await.expect("the partition is there");
            // Both may bear the same time; the first of them counts.
            let found = found[0].offset.expect("there are records").0;
            assert!(found == expected || question.2 == OffsetSpec::MaxTimestamp && found == 0, "{question:?}: {found}");
        }
        let again = NewTopic { name: TOPIC.into(), ..Default::default() };
        assert!(client.create_topic(&again, false).await.is_err());
        client.delete_topic(TOPIC).await.expect("it is there");
        let created = client.create_topic(&again, false).await.expect("the name is free again");
        assert_eq!(created.partition_count, 1);
    });
}

/// What a connection answers to these bytes, up to `until` bytes or its end.
fn answer_to(address: SocketAddr, frame: &[u8], until: u64) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("the sink listens");
    let length = u32::try_from(frame.len()).expect("short");
    socket.write_all(&[&length.to_be_bytes(), frame].concat()).expect("it reads");
    let mut answer = Vec::new();
    socket.take(until).read_to_end(&mut answer).expect("it answers, or closes");
    answer
}

#[test]
fn what_is_not_served_is_told_or_ends_the_connection() {
    let sink = start(SinkOptions::default()).expect("a sink can be started");
    // Version 127 of ApiVersions (18), correlation id 7, no client id, no tags.
    let answer = answer_to(sink.address(), &[0, 18, 0, 127, 0, 0, 0, 7, 0xff, 0xff, 0], 20);
    // At version 0: length, correlation id, UNSUPPORTED_VERSION, and one range: that of ApiVersions.
    assert_eq!(answer, [0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
    // JoinGroup (11), a version of Produce that is named and never sent, and what is no request at all.
    for frame in [&[0, 11, 0, 0, 0, 0, 0, 1, 0xff, 0xff][..], &[0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff], &[1]] {
        assert_eq!(answer_to(sink.address(), frame, 1), [0; 0]);
    }
}

#[test]
fn the_verb_says_where_it_listens_and_ends_on_sigterm() {
    let mut sink = Command::new(env!("CARGO_BIN_EXE_tidemill-loadgen"))
        .args(["sink", "--partitions", "3", "--fault", "drop@0", "--stall", "1h+1s", "--delay", "0s:0,1h:1s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = String::new();
    let mut lines = BufReader::new(sink.stdout.take().expect("it is piped"));
    lines.read_line(&mut said).expect("it speaks");
    let address = said.trim_end().strip_prefix("ready kafka=").expect("the ready line").to_owned();
    on_shard(move |shard| async move {
        let work = async {
            let client =
                Client::new(&shard, ClientOptions { create_topics: true, ..ClientOptions::new(vec![address]) });
            let producer = producer(&client, ProducerOptions::default());
            assert_eq!(client.topic(TOPIC).await.expect("it is made").partitions.len(), 3);
            for (value, offset) in [("r0", 0), ("r1", 1)] {
                assert_eq!(send(&producer, value).await, Ok(Some(offset)));
            }
            assert_eq!(receive(&client, 1).await, ["1:r1"]);
        };
        within(&shard, LIMIT_S, "the verb", work).await;
    });
    let pid = rustix::process::Pid::from_child(&sink);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(sink.wait().expect("it ends").success());
    said.clear();
    assert_eq!(lines.read_line(&mut said).expect("the pipe is sound"), 0, "one line only: {said}");
}
