//! The HTTP port of a real broker: metrics that agree with what clients did, health, and peers that send rubbish or nothing.

use std::io::{Read, Write};
use std::net::TcpStream;

use client::{NewTopic, ProducerOptions};
use e2e::broker::{Broker, Launch};
use e2e::ledger::{Ledger, Promise};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard};

const PARTITIONS: i32 = 6;
/// Over both shards: fewer than there are.
const TOLD_MAX: i32 = 4;

fn connect(broker: &Broker) -> TcpStream {
    TcpStream::connect(&broker.http).expect("the HTTP port is open")
}

/// Sends `bytes` and reads to the end: the status, where there is one, and the body.
fn exchange(broker: &Broker, bytes: &[u8]) -> (Option<u16>, String) {
    let mut stream = connect(broker);
    stream.write_all(bytes).expect("it takes a request");
    let mut answer = Vec::new();
    // Rubbish may be answered with a reset.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn get(broker: &Broker, path: &str) -> (Option<u16>, String) {
    exchange(broker, format!("GET {path} HTTP/1.1\r\nhost: broker\r\nconnection: close\r\n\r\n").as_bytes())
}

/// The values of a metric's series that hold all of `labels`.
fn values(metrics: &str, name: &str, labels: &[&str]) -> Vec<f64> {
    let series =
        metrics.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    series
        .filter(|line| labels.iter().all(|label| line.contains(label)))
        .map(|line| line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a series has a number"))
        .collect()
}

fn sum(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    values(metrics, name, labels).iter().sum::<f64>() as u64
}

#[test]
fn metrics_agree_with_what_clients_did() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config(&format!("metrics-partitions-max = {TOLD_MAX}\n"));
    on_shard(move |shard| async move {
        let broker = launch.start();
        let new = NewTopic { name: "t".into(), partition_count: Some(PARTITIONS), ..NewTopic::default() };
        client(&shard, &broker.kafka).create_topic(&new, false).await.expect("the topic is created");
        let topics = [LoadTopic { name: "t".into(), generation: 0, partitions: PARTITIONS }];
        let load = Load::new(&shard, Ledger::default());
        let options = ProducerOptions::default();
        let task = load.start_producer(&broker.kafka, &topics, options, shard.random(), Promise::Settles);
        load.until(30, "records are acknowledged", |ledger| ledger.acknowledged() > 3000).await;
        load.set_open(false);
        load.until(30, "the rest is acknowledged", Ledger::is_settled).await;
        task.cancel();
        load.audit(&broker.kafka, &topics[0]).await.expect("all is there");
        let records = load.ledger.borrow().acknowledged();
        shard.offload(move || check_metrics(&broker, records)).await;
    });
}

fn check_metrics(broker: &Broker, records: u64) {
    assert_eq!(get(broker, "/readyz"), (Some(200), "ready\n".to_owned()));
    assert_eq!(get(broker, "/healthz"), (Some(200), "ok\n".to_owned()));
    let (status, metrics) = get(broker, "/metrics");
    assert_eq!(status, Some(200));
    let count = |name, labels: &[&str]| sum(&metrics, name, labels);

    assert_eq!(
        count("tidemill_produced_records_total", &[]),
        records,
        "nothing was sent twice, and nothing is counted so"
    );
    let requests = count("tidemill_requests_total", &["api=\"Produce\""]);
    assert!(requests > 0);
    for stage in ["check", "place", "hold"] {
        let label = format!("stage=\"{stage}\"");
        assert_eq!(count("tidemill_produce_stage_seconds_count", &[&label]), requests, "{stage}");
    }
    assert_eq!(count("tidemill_produce_seconds_count", &[]), requests);
    // A fetch whose client went away is not answered.
    let answered = count("tidemill_fetch_seconds_count", &[]);
    assert!((1..=count("tidemill_requests_total", &["api=\"Fetch\""])).contains(&answered), "{answered}");
    let read = count("tidemill_fetched_bytes_total", &[]);
    assert!(read >= count("tidemill_produced_bytes_total", &[]), "the audit read all of it");
    for shard in ["shard=\"0\"", "shard=\"1\""] {
        assert!(count("tidemill_commit_seconds_count", &[shard]) > 0, "{shard}");
        assert!(count("tidemill_commit_bytes_sum", &[shard]) > 0, "{shard}");
        assert!(values(&metrics, "tidemill_shard_busy_seconds_total", &[shard])[0] > 0.0);
        assert!(values(&metrics, "tidemill_queue_delay_seconds_count", &[shard, "class=\"latency\""])[0] > 0.0);
    }
    // Those of the topic, and the one of the metadata log.
    assert_eq!(count("tidemill_partitions", &[]), PARTITIONS as u64 + 1);
    let told = values(&metrics, "tidemill_partition_high_watermark", &[]).len();
    assert_eq!(told as i32, TOLD_MAX);
    assert_eq!(count("tidemill_partitions_untold", &[]), (PARTITIONS + 1 - TOLD_MAX) as u64);
    assert!(count("process_resident_memory_bytes", &[]) > 0);
}

#[test]
fn rubbish_and_silence_hold_nobody_up() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data"));
    let broker = launch.start();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(64 << 10));
    let checks: &[(&[u8], &[u16])] = &[
        (b"GET /nothing HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n", &[404]),
        (b"POST /metrics HTTP/1.1\r\nhost: b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", &[405]),
        (b"\x00\x00\x00\x12\x00\x03\x00\x00 this is Kafka's protocol\r\n\r\n", &[400]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400]),
        (long.as_bytes(), &[414, 431]),
    ];
    for (bytes, expected) in checks {
        let (status, _) = exchange(&broker, bytes);
        assert!(status.is_some_and(|status| expected.contains(&status)), "{status:?} for {}", bytes.escape_ascii());
    }
    // Two requests on one connection; the answers come in order.
    let twice = b"GET /readyz HTTP/1.1\r\nhost: b\r\n\r\nGET /healthz HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n";
    let (status, rest) = exchange(&broker, twice);
    assert!(status == Some(200) && rest.starts_with("ready\n") && rest.ends_with("ok\n"), "{rest}");

    // More than there is room for, silent, half a request each: one that is closed makes room for one that asks.
    let mut silent: Vec<_> = (0..300).map(|_| connect(&broker)).collect();
    for stream in &mut silent {
        let _ = stream.write_all(b"GET /metr");
    }
    drop(silent.drain(..200));
    let mut answered = (None, String::new());
    while answered.0.is_none() {
        answered = get(&broker, "/healthz");
    }
    assert_eq!(answered, (Some(200), "ok\n".to_owned()));
    // The others do not keep it from ending.
    let log = launch.log_path();
    assert!(broker.stop().success());
    let log = std::fs::read_to_string(log).expect("there is a log");
    assert!(!log.contains("did not end"), "{log}");
}
