//! The consumer: every record once, in order, whatever leaders and connections do; damage and gaps are said.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Offset, Random, WallTime};
use client::{Assigned, Client, Consumer, ConsumerOptions, Fault, OutOfRange, Start};
use record::Compression;
use support::{Reaction, index, run};
use wire::ApiKey;
use wire::messages::FetchRequest;

/// Reads until every partition has been read to its end; returns the offsets of each.
async fn drain(consumer: &Consumer, ends: &BTreeMap<i32, i64>) -> BTreeMap<i32, Vec<i64>> {
    let mut offsets: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    let done = || ends.iter().all(|(p, end)| consumer.position("t", index(*p)).expect("assigned").0 >= *end);
    while !done() {
        let fetched = consumer.next().await.expect("readable");
        let read = offsets.entry(fetched.partition.0).or_default();
        for record in fetched.batch.iter().flat_map(|batch| batch.records()) {
            assert_eq!(record.value, Some(record.offset.0.to_string().as_bytes()));
            assert_eq!(record.headers.last("h"), Some(None));
            read.push(record.offset.0);
        }
    }
    offsets
}

async fn assign(client: &Client, options: ConsumerOptions, start: Start) -> (Consumer, Assigned) {
    let consumer = Consumer::new(client, options);
    let assigned = consumer.assign("t", index(0), start).await.expect("assigned");
    (consumer, assigned)
}

fn check_everything_is_read(seed: u64, fetch_versions: (i16, i16)) {
    run(3, move |cluster, client| async move {
        let mut random = Random::new(seed);
        cluster.borrow_mut().add_topic("t", 5);
        cluster.borrow_mut().versions.insert(ApiKey::Fetch.code(), fetch_versions);
        let mut ends = BTreeMap::new();
        for round in 0..20 {
            for partition in 0..5 {
                let compression = Compression::ALL[(round + partition as usize) % 5];
                let records = 1 + random.below(9) as usize;
                cluster.borrow_mut().fill("t", partition, records, compression);
                ends.insert(partition, cluster.borrow_mut().log("t", partition).end);
            }
        }
        cluster.borrow_mut().hook = Box::new(move |cluster, incoming| match (incoming.key, random.below(10)) {
            (ApiKey::Fetch, 0) => Reaction::HangUp,
            (ApiKey::Fetch, 1) => Reaction::ServeAndHangUp,
            (ApiKey::Fetch, 2) => Reaction::ServeAfter(Duration::from_millis(random.below(50))),
            (ApiKey::Fetch, 3) => {
                cluster.sessions.clear();
                Reaction::Serve
            }
            (ApiKey::Fetch, 4) => {
                cluster.lead("t", random.below(5) as i32, random.below(3) as i32);
                Reaction::Serve
            }
            _ => Reaction::Serve,
        });
        let options = ConsumerOptions { check_epochs: false, ..ConsumerOptions::default() };
        let consumer = Consumer::new(&client, options);
        let partitions: Vec<_> = (0..5).map(index).collect();
        let assigned = consumer.assign_all("t", &partitions, Start::Beginning).await.expect("assigned");
        for (partition, assigned) in (0..5).zip(assigned) {
            assert_eq!((assigned.start, assigned.end), (Offset(0), Offset(ends[&partition])));
        }
        for (partition, offsets) in drain(&consumer, &ends).await {
            assert_eq!(offsets, (0..ends[&partition]).collect::<Vec<_>>(), "seed {seed}");
        }
    });
}

#[test]
fn under_faults_every_record_is_read_once_and_in_order() {
    for seed in 0..15 {
        check_everything_is_read(seed, [(4, 17), (4, 12), (4, 6)][seed as usize % 3]);
    }
}

#[test]
fn reading_begins_where_it_is_asked_to() {
    // start, first offset read
    let table = [
        (Start::Beginning, 0),
        (Start::Offset(Offset(7)), 7),
        (Start::Time(WallTime(4)), 4),
        (Start::Time(WallTime(1000)), 20),
        (Start::End, 20),
    ];
    for (start, first) in table {
        run(1, move |cluster, client| async move {
            cluster.borrow_mut().add_topic("t", 1);
            cluster.borrow_mut().fill("t", 0, 20, Compression::Zstd);
            let (consumer, assigned) = assign(&client, ConsumerOptions::default(), start).await;
            assert_eq!((assigned.start.0, assigned.end.0), (first, 20));
            cluster.borrow_mut().fill("t", 0, 5, Compression::None);
            let read = drain(&consumer, &BTreeMap::from([(0, 25)])).await;
            assert_eq!(read[&0], (first..25).collect::<Vec<_>>());
        });
    }
}

#[test]
fn an_offset_outside_the_log_is_told_or_moved() {
    let table = [(OutOfRange::Fail, None), (OutOfRange::Beginning, Some(10)), (OutOfRange::End, Some(20))];
    for (out_of_range, goes_on) in table {
        run(1, move |cluster, client| async move {
            cluster.borrow_mut().add_topic("t", 1);
            cluster.borrow_mut().fill("t", 0, 10, Compression::None);
            cluster.borrow_mut().fill("t", 0, 10, Compression::None);
            cluster.borrow_mut().log("t", 0).start = 10;
            let options = ConsumerOptions { out_of_range, ..ConsumerOptions::default() };
            let (consumer, _) = assign(&client, options, Start::Offset(Offset(3))).await;
            let Some(first) = goes_on else {
                let error = consumer.next().await.expect_err("out of range");
                assert_eq!(error.fault, Fault::OutOfRange { wanted: Offset(3) });
                assert!(consumer.try_next().is_none(), "said once");
                consumer.assign("t", index(0), Start::Beginning).await.expect("assigned again");
                assert_eq!(drain(&consumer, &BTreeMap::from([(0, 20)])).await[&0], (10..20).collect::<Vec<_>>());
                return;
            };
            let shard = cluster.borrow().shard.clone();
            // The consumer has asked for an end by then; new records follow.
            shard.sleep(Duration::from_secs(2)).await;
            cluster.borrow_mut().fill("t", 0, 5, Compression::None);
            let read = drain(&consumer, &BTreeMap::from([(0, 25)])).await;
            assert_eq!(read[&0], (first..25).collect::<Vec<_>>());
        });
    }
}

#[test]
fn damage_is_told_after_all_that_is_sound() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 2);
        for partition in [0, 1] {
            cluster.borrow_mut().fill("t", partition, 10, Compression::None);
            cluster.borrow_mut().fill("t", partition, 10, Compression::None);
        }
        *cluster.borrow_mut().log("t", 0).batches[1].last_mut().expect("has bytes") ^= 1;
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        consumer.assign_all("t", &[index(0), index(1)], Start::Beginning).await.expect("assigned");
        let (mut read, mut faults) = ([0, 0], Vec::new());
        while read != [10, 20] || faults.is_empty() {
            match consumer.next().await {
                Ok(fetched) => {
                    let count = fetched.batch.map_or(0, |batch| batch.records().count());
                    read[fetched.partition.0 as usize] += count;
                }
                Err(error) => faults.push((error.partition.0, error.fault)),
            }
        }
        assert!(matches!(&faults[..], [(0, Fault::Corrupt(corrupt))] if corrupt.offset == Offset(10)));
    });
}

#[test]
fn a_truncated_log_is_noticed_when_the_leader_changes() {
    run(2, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        cluster.borrow_mut().fill("t", 0, 10, Compression::None);
        cluster.borrow_mut().fill("t", 0, 10, Compression::None);
        let (consumer, _) = assign(&client, ConsumerOptions::default(), Start::Beginning).await;
        drain(&consumer, &BTreeMap::from([(0, 20)])).await;
        cluster.borrow_mut().log("t", 0).truncate(10);
        cluster.borrow_mut().lead("t", 0, 1);
        cluster.borrow_mut().fill("t", 0, 30, Compression::None);
        let error = consumer.next().await.expect_err("diverged");
        assert_eq!(error.fault, Fault::Diverged { read: Offset(20), end: Offset(10) });
    });
}

#[test]
fn within_a_session_only_changes_are_asked_for() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 3);
        cluster.borrow_mut().fill("t", 1, 3, Compression::None);
        let sizes = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = sizes.clone();
        cluster.borrow_mut().hook = Box::new(move |_, incoming| {
            if incoming.key == ApiKey::Fetch {
                let request: FetchRequest<'_> = incoming.decode();
                let partitions = request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
                seen.borrow_mut().push((request.session_epoch, partitions));
            }
            Reaction::Serve
        });
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        let partitions: Vec<_> = (0..3).map(index).collect();
        consumer.assign_all("t", &partitions, Start::Beginning).await.expect("assigned");
        drain(&consumer, &BTreeMap::from([(1, 3)])).await;
        let shard = cluster.borrow().shard.clone();
        shard.sleep(Duration::from_millis(1200)).await;
        assert_eq!(sizes.borrow()[..3], [(0, 3), (1, 1), (2, 0)]);
    });
}

#[test]
fn what_is_fetched_ahead_is_bounded() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        for _ in 0..60 {
            cluster.borrow_mut().fill("t", 0, 4, Compression::None);
        }
        let (consumer, assigned) = assign(&client, ConsumerOptions::default(), Start::Beginning).await;
        let shard = cluster.borrow().shard.clone();
        shard.sleep(Duration::from_secs(5)).await;
        let fetches = cluster.borrow().requests.iter().filter(|(key, _)| *key == ApiKey::Fetch).count();
        assert_eq!(fetches, 2, "two responses ahead, then the reader is waited for");
        let read = drain(&consumer, &BTreeMap::from([(0, assigned.end.0)])).await;
        assert_eq!(read[&0].len(), 240);
    });
}

#[test]
fn a_partition_that_does_not_exist_is_an_error() {
    run(1, |cluster, client| async move {
        cluster.borrow_mut().add_topic("t", 1);
        let consumer = Consumer::new(&client, ConsumerOptions::default());
        let error = consumer.assign("t", index(1), Start::Beginning).await.expect_err("no such partition");
        assert_eq!(error.to_string(), "topic t has no partition 1: it has 1");
        consumer.assign_at("nowhere", index(0), Offset(0));
        assert!(matches!(consumer.next().await.expect_err("no such topic").fault, Fault::Failed(_)));
    });
}
