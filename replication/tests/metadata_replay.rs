//! Replaying records: the image is a function of the records, and a snapshot of it makes it again.

use base::{BrokerId, LeaderEpoch, PartitionIndex, ProducerId, Random, Uuid};
use proptest::collection::vec;
use proptest::prelude::*;
use replication::metadata::{
    BrokerRecord, ConfigRecord, DecodeError, FeatureRecord, Image, ImageBuilder, MetadataRecord, PartitionRecord,
    ProducerIdsRecord, ReplayError, ResourceKind, TopicDefaults, TopicRecord, TopicRef, TopicRemovalRecord, TopicSpec,
    plan_allocate_producer_ids, plan_create_topic, plan_delete_topic,
};

const KINDS: [ResourceKind; 4] =
    [ResourceKind::Topic, ResourceKind::Broker, ResourceKind::ClientMetrics, ResourceKind::Group];
const NAMES: [&str; 6] = ["a", "b", "a.b", "a_b", "orders", "bad name"];

fn replayed(image: &Image, records: &[MetadataRecord]) -> Result<Image, ReplayError> {
    let mut builder = ImageBuilder::new(image);
    records.iter().try_for_each(|record| builder.replay(record))?;
    Ok(builder.finish())
}

/// The records of one step of a cluster's life, chosen by `seed`: what a plan makes, or a plain setting.
fn step(image: &Image, seed: u64) -> Vec<MetadataRecord> {
    let mut random = Random::new(seed);
    let broker = BrokerId(random.below(4) as i32);
    let name = NAMES[random.below(6) as usize];
    let live: Vec<BrokerId> = image.brokers().map(|broker| broker.id).collect();
    match random.below(8) {
        0 => vec![MetadataRecord::Broker(BrokerRecord {
            id: broker,
            host: format!("host{}", random.below(3)),
            port: random.below(65536) as u16,
            rack: random.chance(1, 2).then(|| format!("r{}", random.below(3))),
        })],
        1 | 2 => {
            let defaults = TopicDefaults {
                partition_count: 1 + random.below(5) as i32,
                replication_factor: 1 + random.below(3) as i16,
            };
            let configs = vec![("retention.ms".to_owned(), random.below(9).to_string())];
            let spec = TopicSpec { configs, ..TopicSpec::new(name) };
            plan_create_topic(image, &spec, defaults, &live, &mut random).map_or(vec![], |created| created.records)
        }
        3 => plan_delete_topic(image, TopicRef::Name(name)).unwrap_or_default(),
        4 => partition_change(image, name, &mut random),
        5 => vec![MetadataRecord::Config(ConfigRecord {
            resource: KINDS[random.below(4) as usize],
            resource_name: name.to_owned(),
            key: format!("key{}", random.below(3)),
            value: random.chance(2, 3).then(|| random.below(100).to_string()),
        })],
        6 => vec![MetadataRecord::Feature(FeatureRecord {
            name: format!("feature{}", random.below(3)),
            level: random.below(3) as i16,
        })],
        _ => vec![plan_allocate_producer_ids(image, broker).unwrap().1],
    }
}

fn partition_change(image: &Image, name: &str, random: &mut Random) -> Vec<MetadataRecord> {
    let Some(topic) = image.topic(name) else { return vec![] };
    let index = PartitionIndex(random.below(topic.partitions.len() as u64) as i32);
    let mut record = topic.partition(index).unwrap().record(topic.id, index);
    record.partition_epoch += 1;
    record.leader_epoch.0 += random.below(2) as i32;
    let at = random.below(record.replicas.len() as u64) as usize;
    record.leader = random.chance(1, 2).then(|| record.replicas[at]);
    record.isr.retain(|_| random.chance(1, 2));
    vec![MetadataRecord::Partition(record)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_makes_the_image_again(steps in vec(any::<u64>(), 0..80)) {
        let mut image = Image::default();
        let mut log = Vec::new();
        for seed in steps {
            let records = step(&image, seed);
            image = replayed(&image, &records).unwrap();
            log.extend(records);
        }
        let snapshot = image.snapshot();
        prop_assert_eq!(&replayed(&Image::default(), &snapshot).unwrap(), &image);
        prop_assert_eq!(&replayed(&Image::default(), &log).unwrap(), &image, "one by one or all at once");
        prop_assert_eq!(&replayed(&Image::default(), &snapshot).unwrap().snapshot(), &snapshot);
        let names: Vec<_> = image.topics().map(|topic| topic.name.to_string()).collect();
        prop_assert!(names.is_sorted());
        for record in log.iter().chain(&snapshot) {
            prop_assert_eq!(MetadataRecord::decode(&record.encode()), Ok(record.clone()));
        }
    }

    #[test]
    fn any_bytes_decode_or_do_not(bytes in vec(any::<u8>(), 0..200), record_type in 0u16..9) {
        let framed = [&record_type.to_be_bytes()[..], &[0, 0], &bytes].concat();
        for bytes in [&bytes, &framed] {
            if let Ok(record) = MetadataRecord::decode(bytes) {
                prop_assert_eq!(&record.encode(), bytes, "there is one encoding of a record");
                let _ = ImageBuilder::default().replay(&record);
            }
        }
    }
}

#[test]
fn steps_reach_every_type_of_record() {
    let mut image = Image::default();
    let mut seen = [0; 8];
    for seed in 0..3000 {
        let records = step(&image, seed);
        image = replayed(&image, &records).unwrap();
        records.iter().for_each(|record| seen[usize::from(record.encode()[1])] += 1);
    }
    assert!(seen[1..].iter().all(|&count| count >= 100), "{seen:?}");
}

fn examples() -> Vec<(MetadataRecord, Vec<u8>)> {
    let id = Uuid([0xaa; 16]);
    let record = |record_type: u8, fields: &[&[u8]]| [&[0, record_type, 0, 0][..], &fields.concat()].concat();
    vec![
        (
            MetadataRecord::Feature(FeatureRecord { name: "fe".into(), level: 3 }),
            record(1, &[&[0, 0, 0, 2], b"fe", &[0, 3]]),
        ),
        (
            MetadataRecord::Broker(BrokerRecord { id: BrokerId(1), host: "h".into(), port: 258, rack: None }),
            record(2, &[&[0, 0, 0, 1], &[0, 0, 0, 1], b"h", &[1, 2], &[0]]),
        ),
        (MetadataRecord::Topic(TopicRecord { id, name: "t".into() }), record(3, &[&[0xaa; 16], &[0, 0, 0, 1], b"t"])),
        (MetadataRecord::TopicRemoval(TopicRemovalRecord { topic_id: id }), record(4, &[&[0xaa; 16]])),
        (
            MetadataRecord::Partition(PartitionRecord {
                topic_id: id,
                index: PartitionIndex(1),
                replicas: vec![BrokerId(2), BrokerId(3)],
                isr: vec![],
                leader: None,
                leader_epoch: LeaderEpoch(4),
                partition_epoch: 5,
            }),
            record(
                5,
                &[
                    &[0xaa; 16],
                    &[0, 0, 0, 1],
                    &[0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3],
                    &[0, 0, 0, 0],
                    &[0xff; 4],
                    &[0, 0, 0, 4],
                    &[0, 0, 0, 5],
                ],
            ),
        ),
        (
            MetadataRecord::Config(ConfigRecord {
                resource: ResourceKind::Topic,
                resource_name: "t".into(),
                key: "k".into(),
                value: Some("v".into()),
            }),
            record(6, &[&[2], &[0, 0, 0, 1], b"t", &[0, 0, 0, 1], b"k", &[1, 0, 0, 0, 1], b"v"]),
        ),
        (
            MetadataRecord::ProducerIds(ProducerIdsRecord { broker: BrokerId(1), next: ProducerId(1000) }),
            record(7, &[&[0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 3, 0xe8]]),
        ),
    ]
}

#[test]
fn bytes_on_disk_stay_what_they_are() {
    for (record, bytes) in examples() {
        assert_eq!(record.encode(), bytes, "{record:?}");
        assert_eq!(MetadataRecord::decode(&bytes), Ok(record.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(MetadataRecord::decode(&bytes[..cut]), Err(DecodeError::Truncated), "{record:?} cut at {cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(MetadataRecord::decode(&longer), Err(DecodeError::TrailingBytes { bytes: 1 }));
        let mut newer = bytes.clone();
        newer[3] = 1;
        let record_type = u16::from(bytes[1]);
        assert_eq!(MetadataRecord::decode(&newer), Err(DecodeError::UnknownVersion { record_type, version: 1 }));
    }
}

#[test]
fn bytes_that_are_no_record() {
    let check = |bytes: &[u8], expected| assert_eq!(MetadataRecord::decode(bytes), Err(expected), "{bytes:?}");
    check(&[0, 0, 0, 0], DecodeError::UnknownType { record_type: 0 });
    check(&[0, 8, 0, 0], DecodeError::UnknownType { record_type: 8 });
    check(&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff], DecodeError::Truncated);
    check(&[0, 1, 0, 0, 0, 0, 0, 1, 0xff, 0, 0], DecodeError::NotText);
    check(&[0, 6, 0, 0, 3], DecodeError::BadValue { field: "resource kind" });
    check(&[0, 6, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2], DecodeError::BadValue { field: "presence mark" });
}

#[test]
fn records_that_contradict_the_image() {
    let id = Uuid([1; 16]);
    let other = Uuid([2; 16]);
    let topic = |id, name: &str| MetadataRecord::Topic(TopicRecord { id, name: name.into() });
    let good = PartitionRecord {
        topic_id: id,
        index: PartitionIndex(0),
        replicas: vec![BrokerId(1), BrokerId(2)],
        isr: vec![BrokerId(2)],
        leader: Some(BrokerId(2)),
        leader_epoch: LeaderEpoch(5),
        partition_epoch: 5,
    };
    let ids = |next| MetadataRecord::ProducerIds(ProducerIdsRecord { broker: BrokerId(1), next: ProducerId(next) });
    let start = [topic(id, "t"), MetadataRecord::Partition(good.clone()), ids(2000)];
    let image = replayed(&Image::default(), &start).unwrap();
    let check = |record: &MetadataRecord, expected: ReplayError| {
        let mut builder = ImageBuilder::new(&image);
        assert_eq!(builder.replay(record), Err(expected), "{record:?}");
        assert_eq!(builder.finish(), image, "nothing of it was applied");
    };
    check(&topic(other, "t"), ReplayError::TopicExists { name: "t".into(), id: other });
    check(&topic(id, "u"), ReplayError::TopicExists { name: "u".into(), id });
    let removal = MetadataRecord::TopicRemoval(TopicRemovalRecord { topic_id: other });
    check(&removal, ReplayError::UnknownTopic { id: other });
    check(&ids(1999), ReplayError::StaleProducerIds { next: ProducerId(1999) });

    let next = PartitionRecord { partition_epoch: 6, ..good };
    let partition = |change: &dyn Fn(&mut PartitionRecord), expected| {
        let mut record = next.clone();
        change(&mut record);
        check(&MetadataRecord::Partition(record), expected);
    };
    let index = PartitionIndex(0);
    partition(&|p| p.topic_id = other, ReplayError::UnknownTopic { id: other });
    for gap in [2, -1, i32::MAX] {
        let index = PartitionIndex(gap);
        partition(&|p| p.index = index, ReplayError::PartitionGap { topic_id: id, index, partition_count: 1 });
    }
    let stale = ReplayError::StalePartition { topic_id: id, index };
    partition(&|p| p.partition_epoch = 5, stale.clone());
    partition(&|p| p.leader_epoch = LeaderEpoch(4), stale);
    let bad = ReplayError::BadReplicas { topic_id: id, index };
    partition(&|p| p.replicas.clear(), bad.clone());
    partition(&|p| p.replicas.push(BrokerId(1)), bad.clone());
    partition(&|p| p.isr.push(BrokerId(2)), bad.clone());
    partition(&|p| p.isr.push(BrokerId(3)), bad.clone());
    partition(&|p| p.leader = Some(BrokerId(3)), bad);
}
