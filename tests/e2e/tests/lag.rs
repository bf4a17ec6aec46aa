//! How far groups are behind, as a real broker tells it: metrics, one warning for each thing that goes wrong, and `tidemill group describe`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use base::{LeaderEpoch, Offset, PartitionIndex, WallTime};
use client::{Client, GroupConsumer, GroupOffset, GroupOptions, NewTopic, Producer, ProducerOptions, ProducerRecord};
use e2e::broker::{Broker, Launch, program};
use e2e::runner::{client, on_shard, within};
use shard::Shard;
use wire::messages::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::{Array, ErrorCode};

const HOUR_MS: i64 = 3_600_000;
const SECONDS_MAX: u64 = 60;

/// A look ten times a second; a member is stalled after one.
const CONFIG: &str = "group-initial-rebalance-delay-ms = 0\nretention-check-interval-ms = 100\n\
    group-lag-interval-ms = 100\ngroup-stall-warning-ms = 1000\n";

fn metrics(http: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("the HTTP port is open");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: broker\r\nconnection: close\r\n\r\n")
        .expect("it takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    answer
}

/// The value of a series of a group.
fn value(metrics: &str, name: &str, group: &str) -> Option<f64> {
    let (name, group) = (format!("{name}{{"), format!("group=\"{group}\""));
    let line = metrics.lines().find(|line| line.starts_with(&name) && line.contains(&group))?;
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok())
}

/// One broker and what the tests ask of it.
struct World {
    shard: Shard,
    client: Client,
    producer: Producer,
    broker: Broker,
}

impl World {
    async fn start(shard: &Shard, launch: Launch) -> Self {
        let broker = shard.offload(move || launch.start()).await;
        let client = client(shard, &broker.kafka);
        let options = ProducerOptions { linger: Duration::ZERO, ..ProducerOptions::default() };
        let producer = Producer::open(&client, options).expect("the options are valid");
        Self { shard: shard.clone(), client, producer, broker }
    }

    async fn create(&self, topic: &str, settings: &[(&str, &str)]) {
        let configs = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let new = NewTopic { name: topic.to_owned(), partition_count: Some(1), configs, ..NewTopic::default() };
        self.client.create_topic(&new, false).await.expect("the topic is created");
    }

    /// Records that are so old, each in a batch of its own.
    async fn produce(&self, topic: &str, count: usize, age_ms: i64) {
        for _ in 0..count {
            let timestamp = Some(WallTime(self.shard.wall().0 - age_ms));
            let record = ProducerRecord { topic, value: Some(b"a record"), timestamp, ..ProducerRecord::default() };
            let delivery = self.producer.send(record).await.expect("it is accepted");
            delivery.await.expect("it is written");
        }
    }

    async fn set_offset(&self, group: &str, topic: &str, offset: i64) {
        let offset = GroupOffset {
            topic: topic.to_owned(),
            partition: PartitionIndex(0),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(-1),
            metadata: String::new(),
        };
        self.client.set_group_offsets(group, &[offset]).await.expect("the group has no members");
    }

    async fn metrics(&self) -> String {
        let http = self.broker.http.clone();
        self.shard.offload(move || metrics(&http)).await
    }

    /// The first metrics that are as expected.
    async fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        within(&self.shard, SECONDS_MAX, what, async {
            loop {
                let metrics = self.metrics().await;
                if is_so(&metrics) {
                    return metrics;
                }
                self.shard.sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }

    async fn until_value(&self, name: &str, group: &str, expected: f64) -> String {
        let what = format!("{name} of {group} is {expected}");
        self.until(&what, |metrics| value(metrics, name, group) == Some(expected)).await
    }

    /// A whole look that began after this was called: the second that shows something new began after the first had ended.
    async fn look(&self, topic: &str, group: &str) {
        const RECORDS: &str = "tidemill_group_lag_records";
        for _ in 0..2 {
            let before = value(&self.metrics().await, RECORDS, group).expect("it was looked at");
            self.produce(topic, 1, 0).await;
            self.until_value(RECORDS, group, before + 1.0).await;
        }
    }

    /// The lines of its log that say this.
    fn said(&self, what: &str) -> Vec<String> {
        self.broker.log().lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }

    /// What `tidemill group describe` prints.
    async fn describe(&self, group: &str, format: &str) -> String {
        let arguments = ["group", "describe", group, "--output", format, "--bootstrap", &self.broker.kafka];
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let output = self.shard.offload(move || Command::new(program()).args(arguments).output());
        let output = output.await.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    }

    async fn stop(self) {
        drop(self.producer);
        let broker = self.broker;
        assert_eq!(self.shard.offload(move || broker.stop()).await.code(), Some(0), "SIGTERM is an ordinary end");
    }
}

#[test]
fn headroom_is_told_and_warned_of_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let world = World::start(&shard, launch).await;
        let settings = [("retention.ms", "3600000"), ("internal.segment.bytes", "300")];
        world.create("t", &settings).await;
        // Of an hour that they are kept 50 minutes have passed; those that follow have 40 left.
        world.produce("t", 10, HOUR_MS / 6 * 5).await;
        world.produce("t", 10, HOUR_MS / 3).await;
        world.set_offset("late", "t", 4).await;
        world.set_offset("in-time", "t", 20).await;
        world.set_offset("early", "t", 12).await;
        let metrics = world.until_value("tidemill_group_lag_records", "late", 16.0).await;
        let of = |metrics: &str, name: &str| value(metrics, name, "late").expect("it is told");
        for suffix in ["", "_min"] {
            let headroom = of(&metrics, &format!("tidemill_group_retention_headroom_seconds{suffix}"));
            assert!((1.0..=600.0).contains(&headroom), "{headroom}");
        }
        for suffix in ["", "_max"] {
            let age = of(&metrics, &format!("tidemill_group_lag_seconds{suffix}"));
            assert!((3000.0..3600.0).contains(&age), "{age}");
        }
        assert_eq!(of(&metrics, "tidemill_group_lag_records_max"), 16.0);
        let metrics = world.until_value("tidemill_group_lag_records", "early", 8.0).await;
        let headroom = value(&metrics, "tidemill_group_retention_headroom_seconds", "early").expect("it is told");
        assert!((1800.0..=2400.0).contains(&headroom), "{headroom}");
        let metrics = world.until_value("tidemill_group_lag_records_max", "in-time", 0.0).await;
        assert_eq!(value(&metrics, "tidemill_group_retention_headroom_seconds_min", "in-time"), None);

        described(&world).await;

        world.look("t", "late").await;
        world.look("t", "late").await;
        let said = world.said("retention will soon delete");
        // Below a quarter of the hour, of one of the groups, and once.
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["WARN", "group=\"late\"", "topic=\"t\"", "partition=0", "committed=4"] {
            assert!(said[0].contains(part), "{part}: {}", said[0]);
        }

        deleted(&world).await;
        world.stop().await;
    });
}

/// The same, as the command line shows it.
async fn described(world: &World) {
    let row: serde_json::Value = serde_json::from_str(&world.describe("late", "json").await).expect("one object");
    assert_eq!((&row["committed"], &row["lag"]), (&4.into(), &16.into()));
    let seconds = |name: &str| row[name].as_f64().expect("a number");
    assert!((3000.0..3600.0).contains(&seconds("lag_seconds")), "{row}");
    assert!((1.0..=600.0).contains(&seconds("headroom_seconds")), "{row}");
    let row: serde_json::Value = serde_json::from_str(&world.describe("in-time", "json").await).expect("one object");
    assert_eq!((&row["lag"], &row["headroom_seconds"]), (&0.into(), &serde_json::Value::Null));
    let table = world.describe("late", "table").await;
    let column = table.lines().find_map(|line| line.find("HEADROOM")).expect("there is the column");
    let shown = table.lines().last().and_then(|line| line.get(column..)).expect("there is a row");
    assert!(shown.starts_with(|digit: char| digit.is_ascii_digit()) && shown.contains("m "), "{table}");
}

/// Retention takes what the group has not read.
async fn deleted(world: &World) {
    let changes = [("retention.ms".to_owned(), Some("1".to_owned()))];
    world.client.alter_topic("t", &changes, false).await.expect("it is altered");
    let metrics = world
        .until("all is deleted", |metrics| {
            let value = |name| value(metrics, name, "late");
            value("tidemill_group_lost_records").is_some_and(|lost| Some(lost) == value("tidemill_group_lag_records"))
        })
        .await;
    assert_eq!(value(&metrics, "tidemill_group_retention_headroom_seconds_min", "late"), Some(0.0));
    let row: serde_json::Value = serde_json::from_str(&world.describe("late", "json").await).expect("one object");
    assert_eq!(row["headroom_seconds"], 0.0);
    let said = world.said("records that the group had not read are deleted");
    let of_late: Vec<_> = said.iter().filter(|line| line.contains("group=\"late\"")).collect();
    assert_eq!(of_late.len(), 1, "{said:?}");
    let end = value(&metrics, "tidemill_group_lag_records", "late").expect("it is told") as i64 + 4;
    world.set_offset("late", "t", end).await;
    world.until_value("tidemill_group_lost_records", "late", 0.0).await;
}

#[test]
fn members_that_do_not_get_on_are_told_and_warned_of_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let world = World::start(&shard, launch).await;
        const STALLED: &str = "tidemill_group_stalled_partitions";
        world.create("t", &[]).await;
        world.produce("t", 5, 0).await;
        for group in ["stuck", "stuck-848", "deserted"] {
            world.set_offset(group, "t", 2).await;
        }
        let member = GroupConsumer::join(&world.client, GroupOptions::new("stuck".into(), vec!["t".into()]));
        let first = within(&shard, SECONDS_MAX, "it is given something to read", member.next()).await;
        assert_eq!(first.expect("a batch").batch.map(|batch| batch.records().count()), Some(1));
        heartbeat(&world, "stuck-848", "m-848", 0).await;
        for group in ["stuck", "stuck-848"] {
            let metrics = world.until_value(STALLED, group, 1.0).await;
            assert_eq!(value(&metrics, "tidemill_group_reassigned_partitions", group), Some(0.0));
        }
        world.look("t", "stuck").await;
        assert_eq!(value(&world.metrics().await, STALLED, "deserted"), Some(0.0), "nobody has it");
        let said = world.said("holds a partition and does not get on");
        assert_eq!(said.len(), 2, "{said:?}");
        for (group, member) in [("stuck", "member=\"tidemill-"), ("stuck-848", "member=\"m-848\"")] {
            let group = format!("group=\"{group}\"");
            let line = said.iter().find(|line| line.contains(&group)).expect("it is of both");
            for part in
                ["WARN", member, "client=\"", "host=\"", "127.0.0.1", "topic=\"t\"", "partition=0", "committed=2"]
            {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
        member.commit().await.expect("it is a member");
        world.until_value(STALLED, "stuck", 0.0).await;
        member.leave().await.expect("it was a member");
        world.stop().await;
    });
}

#[test]
fn a_partition_that_is_handed_on_without_progress_is_told_and_warned_of_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config(CONFIG);
    on_shard(move |shard| async move {
        let world = World::start(&shard, launch).await;
        const HANDED_ON: &str = "tidemill_group_reassigned_partitions";
        world.create("t", &[]).await;
        world.produce("t", 5, 0).await;
        world.set_offset("poisoned", "t", 2).await;
        world.until_value("tidemill_group_lag_records", "poisoned", 3.0).await;
        for member in ["m1", "m2", "m3", "m4", "m5"] {
            heartbeat(&world, "poisoned", member, 0).await;
            world.look("t", "poisoned").await;
            let count = value(&world.metrics().await, HANDED_ON, "poisoned");
            assert_eq!(count, Some(if member < "m4" { 0.0 } else { 1.0 }), "{member}");
            heartbeat(&world, "poisoned", member, -1).await;
        }
        let said = world.said("a partition goes from member to member");
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["WARN", "group=\"poisoned\"", "member=\"m4\"", "times=3", "committed=2"] {
            assert!(said[0].contains(part), "{part}: {}", said[0]);
        }
        world.set_offset("poisoned", "t", 3).await;
        world.until_value(HANDED_ON, "poisoned", 0.0).await;
        world.stop().await;
    });
}

/// A member of the consumer protocol joins (0), or leaves (−1).
async fn heartbeat(world: &World, group_id: &str, member_id: &str, member_epoch: i32) {
    let joins = member_epoch == 0;
    let request = ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: joins.then(|| vec!["t"].into()),
        topic_partitions: joins.then(Array::empty),
        ..Default::default()
    };
    let reply = world.client.call_any(&request).await.expect("answered");
    let response: ConsumerGroupHeartbeatResponse<'_> = reply.decode().expect("an answer");
    assert_eq!(response.error_code, ErrorCode::None, "{:?}", response.error_message);
}
