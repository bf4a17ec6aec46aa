//! Peers that together ask for more memory than there is: producers with more in flight, readers that take nothing. Everyone who
//! goes on reading is answered, and the broker stays within its setting.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Offset, PartitionIndex, WallTime};
use client::NewTopic;
use e2e::broker::Launch;
use e2e::runner::{client, on_shard};
use record::{BatchBuilder, BatchOptions, Compression};
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{FetchRequest, FetchResponse, ProduceRequest, ProduceResponse};
use wire::{Decoder, ErrorCode, Message, Records, Request, ResponseHeader, encode_request};

const TOPIC: &str = "t";
const PARTITIONS: i32 = 8;
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;
/// Longer than any answer takes; a broker whose uses of memory wait for each other never answers.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(kafka: &str) -> TcpStream {
    let stream = TcpStream::connect(kafka).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn batch(bytes: usize) -> Vec<u8> {
    batch_with(Compression::None, bytes)
}

fn batch_with(compression: Compression, bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    builder.add(WallTime(1_700_000_000_000), None, Some(&vec![7; bytes]), &[]).expect("a record");
    builder.finish().expect("a batch")
}

fn encoded<'a, R: Request<'a>>(version: i16, request: &R) -> Vec<u8> {
    encode_request(version, 7, Some("flood"), request, Vec::new()).expect("it can be sent").into_structure()
}

fn produce(partition: i32, batch: &[u8]) -> Vec<u8> {
    let data = PartitionProduceData { index: PartitionIndex(partition), records: Records::Bytes(batch) };
    let topic = TopicProduceData { name: TOPIC, partition_data: vec![data].into(), ..TopicProduceData::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 120_000, topic_data: vec![topic].into(), ..ProduceRequest::default() };
    encoded(PRODUCE_VERSION, &request)
}

/// All partitions from their beginning, as much as may be.
fn fetch() -> Vec<u8> {
    let partitions: Vec<_> = (0..PARTITIONS)
        .map(|partition| FetchPartition {
            partition: PartitionIndex(partition),
            fetch_offset: Offset(0),
            partition_max_bytes: 50 << 20,
            ..FetchPartition::default()
        })
        .collect();
    let topic = FetchTopic { topic: TOPIC, partitions: partitions.into(), ..FetchTopic::default() };
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![topic].into(),
        ..FetchRequest::default()
    };
    encoded(FETCH_VERSION, &request)
}

fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer in time");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).expect("a whole answer");
    frame
}

fn expect_produced(stream: &mut TcpStream) {
    expect_answered(stream, ErrorCode::None);
}

fn expect_answered(stream: &mut TcpStream, expected: ErrorCode) {
    let frame = answer(stream);
    let mut decoder = Decoder::new(&frame);
    ResponseHeader::decode(&mut decoder, ProduceRequest::KEY, PRODUCE_VERSION).expect("a header");
    let response = ProduceResponse::decode_exact(decoder, PRODUCE_VERSION).expect("an answer to Produce");
    for topic in &response.responses {
        for partition in &topic.partition_responses {
            assert_eq!(partition.error_code, expected);
        }
    }
}

fn fetched_bytes(stream: &mut TcpStream) -> usize {
    let frame = answer(stream);
    let mut decoder = Decoder::new(&frame);
    ResponseHeader::decode(&mut decoder, FetchRequest::KEY, FETCH_VERSION).expect("a header");
    let response = FetchResponse::decode_exact(decoder, FETCH_VERSION).expect("an answer to Fetch");
    assert_eq!(response.error_code, ErrorCode::None);
    let mut bytes = 0;
    for topic in &response.responses {
        bytes += (&topic.partitions).into_iter().map(|p| p.records.bytes().map_or(0, <[u8]>::len)).sum::<usize>();
    }
    bytes
}

/// A peer that blocks on its socket has a thread of its own.
#[allow(clippy::disallowed_methods)]
fn peer(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::spawn(run)
}

/// A broker of one shard with 128 MiB, and the topic.
fn with_broker(test: impl FnOnce(String) + Send + 'static) {
    with_broker_and_topic(&[], test);
}

/// The same; the topic has these settings.
fn with_broker_and_topic(settings: &[(&str, &str)], test: impl FnOnce(String) + Send + 'static) {
    let configs = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).shards(1).config("memory-bytes = 134217728\n");
    on_shard(move |shard| async move {
        let broker = launch.start();
        let new = NewTopic { name: TOPIC.into(), partition_count: Some(PARTITIONS), configs, ..NewTopic::default() };
        client(&shard, &broker.kafka).create_topic(&new, false).await.expect("the topic is created");
        let kafka = broker.kafka.clone();
        shard.offload(move || test(kafka)).await;
        let most = broker.proc_number("status", "VmHWM") >> 10;
        println!("resident at most: {most} MiB, where memory-bytes is 128 MiB");
        assert!(most <= 128, "{most} MiB resident");
        assert!(shard.offload(move || broker.stop()).await.success());
    });
}

#[test]
fn producers_with_more_in_flight_than_memory_are_all_answered() {
    const PRODUCERS: i32 = 64;
    const IN_FLIGHT: usize = 40;
    with_broker(|kafka| {
        let producer = |n: i32| {
            let mut stream = connect(&kafka);
            let request = produce(n % PARTITIONS, &batch(100_000));
            peer(move || {
                (0..IN_FLIGHT).for_each(|_| stream.write_all(&request).expect("it is taken"));
                (0..IN_FLIGHT).for_each(|_| expect_produced(&mut stream));
            })
        };
        let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
        producers.into_iter().for_each(|producer| producer.join().expect("every request is answered"));
    });
}

/// A few bytes on the wire that are stored as many: of those there is room for a few at a time, and each producer has more in flight.
#[test]
fn batches_that_expand_are_all_answered() {
    const PRODUCERS: i32 = 32;
    const IN_FLIGHT: usize = 12;
    with_broker_and_topic(&[("compression.type", "uncompressed")], |kafka| {
        let codecs = [Compression::Zstd, Compression::Gzip, Compression::Lz4, Compression::Snappy];
        // Worked on in place, by the helper, and given up by it: what that would expand to is past any bound.
        let kinds = [(50_000, ErrorCode::None), (900_000, ErrorCode::None), (100 << 20, ErrorCode::MessageTooLarge)];
        let producer = |n: i32| {
            let mut stream = connect(&kafka);
            let codec = codecs[n as usize % codecs.len()];
            // As sent, the last kind is small enough with these two only.
            let kinds = &kinds[..if matches!(codec, Compression::Zstd | Compression::Gzip) { 3 } else { 2 }];
            let requests: Vec<_> = kinds
                .iter()
                .map(|(bytes, expected)| (produce(n % PARTITIONS, &batch_with(codec, *bytes)), *expected))
                .collect();
            peer(move || {
                let turns = || (0..IN_FLIGHT).map(|turn| &requests[turn % requests.len()]);
                turns().for_each(|(request, _)| stream.write_all(request).expect("it is taken"));
                turns().for_each(|(_, expected)| expect_answered(&mut stream, *expected));
            })
        };
        let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
        producers.into_iter().for_each(|producer| producer.join().expect("every request is answered"));
    });
}

#[test]
fn long_requests_take_turns() {
    with_broker(|kafka| {
        // Eight batches of almost 1 MB in one request, more of them at once than there is memory for.
        let batch = batch(900_000);
        let data = |n| PartitionProduceData { index: PartitionIndex(n), records: Records::Bytes(&batch) };
        let partitions: Vec<_> = (0..PARTITIONS).map(data).collect();
        let topic = TopicProduceData { name: TOPIC, partition_data: partitions.into(), ..TopicProduceData::default() };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 120_000,
            topic_data: vec![topic].into(),
            ..ProduceRequest::default()
        };
        let request = encoded(PRODUCE_VERSION, &request);
        let producer = |_| {
            let (mut stream, request) = (connect(&kafka), request.clone());
            peer(move || {
                for _ in 0..4 {
                    stream.write_all(&request).expect("it is taken");
                    expect_produced(&mut stream);
                }
            })
        };
        let producers: Vec<_> = (0..16).map(producer).collect();
        producers.into_iter().for_each(|producer| producer.join().expect("every request is answered"));
    });
}

#[test]
fn readers_that_take_nothing_stop_nobody() {
    const STOPPED: usize = 60;
    with_broker(|kafka| {
        let mut producer = connect(&kafka);
        let request = |n: i32| produce(n % PARTITIONS, &batch(500_000));
        let mut more = |from: i32, to: i32| {
            for n in from..to {
                producer.write_all(&request(n)).expect("it is taken");
                expect_produced(&mut producer);
            }
        };
        more(0, 80);
        let stopped = |_| {
            let mut stream = connect(&kafka);
            // Two: the second waits behind an answer that is not taken.
            (0..2).for_each(|_| stream.write_all(&fetch()).expect("it is taken"));
            stream
        };
        let stopped: Vec<_> = (0..STOPPED).map(stopped).collect();
        // More than the whole memory, all of which goes through the tails that those readers hold on to.
        more(80, 400);
        let mut reader = connect(&kafka);
        for _ in 0..20 {
            reader.write_all(&fetch()).expect("it is taken");
            assert!(fetched_bytes(&mut reader) > 0, "a reader that takes its answers gets some");
        }
        drop(stopped);
    });
}
