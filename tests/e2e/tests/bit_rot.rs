//! A flipped bit on the disk: in a segment or an index it is its own partition's affair, and never served; in a journal or a manifest
//! it stops the start, which names file and offset, where going on could lose what was acknowledged.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base::{Offset, PartitionIndex, WallTime};
use client::{
    Client, ConsumeError, Consumer, ConsumerOptions, Fault, NewTopic, OffsetSpec, Producer, ProducerOptions,
    ProducerRecord,
};
use e2e::broker::{Broker, Launch, bound_to_this_thread, program};
use e2e::rot::{files, find, flip, partition_dir, position_of};
use e2e::runner::{client, on_shard, within};
use shard::Shard;
use wire::ErrorCode;

const TOPIC: &str = "t";
/// The record whose batch is damaged, in the first segment.
const DAMAGED: i64 = 10;

/// What `log verify` ends with when data is damaged.
const DATA_DAMAGED: i32 = 3;
const FAILED: i32 = 5;

/// Told apart by content: no other record has these bytes.
fn value(partition: i32, index: i64) -> Vec<u8> {
    let mut value = format!("<record {partition}/{index}>").into_bytes();
    value.resize(1000, b'.');
    value
}

fn timestamp(index: i64) -> WallTime {
    WallTime(1_700_000_000_000 + index * 1000)
}

async fn create_topic(client: &Client, partitions: i32) {
    let set = [("internal.segment.bytes", "30000"), ("index.interval.bytes", "4096"), ("retention.ms", "-1")];
    let configs = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let new = NewTopic { name: TOPIC.into(), partition_count: Some(partitions), configs, ..NewTopic::default() };
    client.create_topic(&new, false).await.expect("the topic is created");
}

/// Writes records one by one, each a batch and a commit of its own.
async fn produce(client: &Client, partition: i32, indexes: std::ops::Range<i64>) {
    let producer = Producer::open(client, ProducerOptions::default()).expect("options that agree");
    for index in indexes {
        let record = ProducerRecord {
            topic: TOPIC,
            partition: Some(PartitionIndex(partition)),
            value: Some(&value(partition, index)),
            timestamp: Some(timestamp(index)),
            ..ProducerRecord::default()
        };
        let delivery = producer.send(record).await.expect("the topic exists");
        producer.flush().await;
        assert_eq!(delivery.await.expect("acknowledged").offset, Some(Offset(index)));
    }
}

/// Reads from an offset up to `upto`: how far it came, and why no further. Every record is the one that was written there.
async fn read(client: &Client, partition: i32, from: i64, upto: i64) -> (i64, Option<Fault>) {
    let consumer = Consumer::new(client, ConsumerOptions::default());
    consumer.assign_at(TOPIC, PartitionIndex(partition), Offset(from));
    let mut next = from;
    while next < upto {
        let fetched = match within(client.shard(), 30, "a fetch is answered", consumer.next()).await {
            Ok(fetched) => fetched,
            Err(ConsumeError { fault, .. }) => return (next, Some(fault)),
        };
        let batch = fetched.batch.expect("there are records at all offsets");
        for record in batch.records() {
            assert_eq!(record.offset.0, next, "{partition}");
            assert_eq!(record.value, Some(&value(partition, next)[..]), "{partition} at {next}");
            next += 1;
        }
    }
    (next, None)
}

/// `tidemill log verify`, with what it prints.
fn verify(data_dir: &Path) -> (Option<i32>, String) {
    let mut command = bound_to_this_thread(program());
    let output = command.args(["log", "verify"]).arg(data_dir).stderr(Stdio::piped()).output().expect("it can be run");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn start(shard: &Shard, launch: &Launch) -> (Broker, Client) {
    let launch = launch.clone();
    let broker = shard.offload(move || launch.start()).await;
    let client = client(shard, &broker.kafka);
    (broker, client)
}

async fn kill(shard: &Shard, broker: Broker) {
    shard.offload(move || broker.kill()).await;
}

async fn stop(shard: &Shard, broker: Broker) {
    assert!(shard.offload(move || broker.stop()).await.success());
}

/// Damage to a partition's first segment.
struct Damage {
    partition: i32,
    file: PathBuf,
    /// Of the batch.
    position: u64,
}

#[test]
fn damage_in_a_partition_is_its_own_and_never_served() {
    const RECORDS: i64 = 100;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).config("retention-check-interval-ms = 100\n");
    on_shard(move |shard| async move {
        let (broker, client) = start(&shard, &launch).await;
        create_topic(&client, 7).await;
        for partition in 0..7 {
            produce(&client, partition, 0..RECORDS).await;
        }
        stop(&shard, broker).await;
        assert_eq!(verify(&launch.data_dir).0, Some(0));

        let segment = files(&partition_dir(&launch.data_dir, TOPIC, 0), ".log").remove(0);
        let batch_bytes = position_of(&segment, DAMAGED + 1) - position_of(&segment, DAMAGED);
        // In the body, and in each field of the header that the batch's checksum does not cover.
        let damages: Vec<Damage> = [500, 7, 10, 15, 16]
            .into_iter()
            .zip(0..)
            .map(|(byte, partition)| {
                let file = files(&partition_dir(&launch.data_dir, TOPIC, partition), ".log").remove(0);
                let position = position_of(&file, DAMAGED);
                flip(&file, position + byte, 6);
                Damage { partition, file, position }
            })
            .collect();
        // The third entry of each index: a position, an offset.
        let indexes = [(5, ".index", 2 * 8 + 6), (6, ".timeindex", 2 * 12 + 11)].map(|(partition, suffix, at)| {
            let file = files(&partition_dir(&launch.data_dir, TOPIC, partition), suffix).remove(0);
            let sound = std::fs::read(&file).expect("an index");
            flip(&file, at, 1);
            (file, sound)
        });
        let (code, found) = verify(&launch.data_dir);
        assert_eq!(code, Some(DATA_DAMAGED), "{found}");
        for Damage { file, position, .. } in &damages {
            let (file, position_of_next) = (file.to_string_lossy(), position + batch_bytes);
            // A leader epoch that went up shows at the batch that follows.
            let places = [*position, position_of_next].map(|at| format!("{file}: DAMAGED at byte {at}:"));
            assert!(places.iter().any(|place| found.contains(place)), "{} is not in {found}", places[0]);
        }

        let (broker, client) = start(&shard, &launch).await;
        check_damages(&client, &broker, &damages, RECORDS).await;
        check_indexes(&client, &indexes, RECORDS).await;
        stop(&shard, broker).await;
    });
}

async fn check_damages(client: &Client, broker: &Broker, damages: &[Damage], records: i64) {
    for _ in 0..3 {
        for damage in damages {
            let (next, fault) = read(client, damage.partition, 0, records).await;
            let code = match &fault {
                Some(Fault::Failed(error)) => error.code(),
                _ => None,
            };
            // What Kafka's consumers report to their application.
            assert_eq!((next, code), (DAMAGED, Some(ErrorCode::CorruptMessage)), "{}: {fault:?}", damage.partition);
            // Above the next entry of the index the rest is as good as ever.
            assert_eq!(read(client, damage.partition, DAMAGED + 10, records).await, (records, None));
        }
    }
    assert_eq!(read(client, damages[0].partition, DAMAGED + 1, records).await, (records, None), "right behind it");
    let log = broker.log();
    for Damage { file, position, .. } in damages {
        let said = format!("{} is damaged at byte {position}:", file.display());
        assert_eq!(log.matches(&said).count(), 1, "{said} is said once:\n{log}");
    }
}

/// A damaged index costs nobody a record, and is soon as it was.
async fn check_indexes(client: &Client, indexes: &[(PathBuf, Vec<u8>)], records: i64) {
    for partition in [5, 6] {
        assert_eq!(read(client, partition, 0, records).await, (records, None));
    }
    let rebuilt = async {
        loop {
            for index in 0..30 {
                assert_eq!(read(client, 5, index, index + 1).await, (index + 1, None));
                let asked = [(TOPIC, PartitionIndex(6), OffsetSpec::Time(timestamp(index)))];
                let found = client.list_offsets(&asked).await.expect("an answer");
                assert_eq!(found[0].offset, Some(Offset(index)));
            }
            if indexes.iter().all(|(file, sound)| std::fs::read(file).is_ok_and(|now| now == *sound)) {
                return;
            }
        }
    };
    within(client.shard(), 60, "the indexes are rebuilt", rebuilt).await;
}

/// The start stops, and says all of these words.
fn check_stopped(launch: &Launch, words: &[&str]) {
    let ended = launch.run();
    assert_eq!(ended.code, Some(FAILED), "{}", ended.stderr);
    assert_eq!(ended.stdout, "", "nothing is ready");
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in {}", ended.stderr);
    }
}

#[test]
fn rot_in_the_journal_stops_the_start_and_a_torn_end_does_not() {
    const RECORDS: i64 = 40;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).shards(1);
    on_shard(move |shard| async move {
        let (broker, client) = start(&shard, &launch).await;
        create_topic(&client, 1).await;
        produce(&client, 0, 0..RECORDS).await;
        kill(&shard, broker).await;

        let shard_dir = launch.data_dir.join("shards/0");
        let journals: Vec<PathBuf> = files(&shard_dir, "").into_iter().filter(|path| is_journal(path)).collect();
        let of_record = |index: i64| find(&journals, &value(0, index)[..20]);
        // Acknowledged, and a later commit says that it was durable.
        let (file, at) = of_record(5);
        flip(&file, at, 3);
        let launch_again = launch.clone();
        let offset = format!("offset {}", at / 4096 * 4096);
        let file_name = file.display().to_string();
        let words = [file_name.clone(), offset, "restore".to_owned()];
        shard.offload(move || check_stopped(&launch_again, &words.each_ref().map(String::as_str))).await;
        let (code, found) = verify(&launch.data_dir);
        assert_eq!(code, Some(DATA_DAMAGED));
        assert!(found.contains(&file_name), "{found}");
        flip(&file, at, 3);

        // The last commit: a crash may have torn it, as far as anybody can tell.
        let (file, at) = of_record(RECORDS - 1);
        flip(&file, at, 3);
        let (broker, client) = start(&shard, &launch).await;
        assert_eq!(read(&client, 0, 0, RECORDS - 1).await, (RECORDS - 1, None));
        let asked = [(TOPIC, PartitionIndex(0), OffsetSpec::Latest)];
        assert_eq!(client.list_offsets(&asked).await.expect("an answer")[0].offset, Some(Offset(RECORDS - 1)));
        stop(&shard, broker).await;
    });
}

fn is_journal(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal-"))
}

/// The two copies of shard 0's manifest with their versions, the newer one first.
fn manifests(data_dir: &Path) -> [(u64, PathBuf); 2] {
    let mut copies = ["manifest-a", "manifest-b"].map(|name| {
        let path = data_dir.join("shards/0").join(name);
        let content = std::fs::read(&path).expect("a manifest");
        let version = content.get(16..24).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
        (version, path)
    });
    copies.sort_unstable_by(|a, b| b.cmp(a));
    copies
}

/// Writes until there is a newer manifest, and a commit that follows it; then kills the broker. The records written.
async fn kill_behind_a_checkpoint(shard: &Shard, launch: &Launch) -> i64 {
    let (mut broker, mut client) = start(shard, launch).await;
    create_topic(&client, 1).await;
    let mut records = 0;
    loop {
        let before = manifests(&launch.data_dir)[0].0;
        let mut newest = before;
        while newest == before {
            produce(&client, 0, records..records + 1).await;
            records += 1;
            newest = manifests(&launch.data_dir)[0].0;
        }
        produce(&client, 0, records..records + 1).await;
        records += 1;
        kill(shard, broker).await;
        // Unless the next one has come already.
        if manifests(&launch.data_dir)[0].0 == newest {
            return records;
        }
        (broker, client) = start(shard, launch).await;
    }
}

#[test]
fn a_damaged_manifest_stops_the_start_rather_than_lose_what_its_journal_had() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(dir.path().join("data")).shards(1).config("checkpoint-interval-ms = 1500\n");
    on_shard(move |shard| async move {
        let records = kill_behind_a_checkpoint(&shard, &launch).await;
        let [(_, newest), (_, older)] = manifests(&launch.data_dir);
        let format = launch.data_dir.join("format.toml");
        for (flips, words) in [
            (vec![(&newest, 20)], vec![newest.display().to_string(), "offset 0".into(), "restore".into()]),
            (vec![(&newest, 4096 + 40)], vec![newest.display().to_string(), "offset 4096".into(), "restore".into()]),
            (
                vec![(&newest, 20), (&older, 20)],
                vec![newest.display().to_string(), older.display().to_string(), "restore".into()],
            ),
            (vec![(&format, 0)], vec![format.display().to_string(), "restore".into()]),
        ] {
            flips.iter().for_each(|(file, at)| flip(file, *at, 3));
            let launch = launch.clone();
            shard.offload(move || check_stopped(&launch, &words.iter().map(String::as_str).collect::<Vec<_>>())).await;
            flips.iter().for_each(|(file, at)| flip(file, *at, 3));
        }
        // The older copy is of no use to anybody any more.
        flip(&older, 20, 3);
        let (broker, client) = start(&shard, &launch).await;
        assert_eq!(read(&client, 0, 0, records).await, (records, None));
        stop(&shard, broker).await;
    });
}
