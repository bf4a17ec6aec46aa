//! What the controller refuses and what it plans, as tables.

use base::{BrokerId, PartitionIndex, ProducerId, Random, Uuid};
use replication::metadata::{
    Assignment, AssignmentError, BrokerRecord, Candidate, ConfigRecord, CreatePartitionsError, CreateTopicError,
    CreatedTopic, DeleteTopicError, Image, ImageBuilder, MetadataRecord, PARTITION_COUNT_MAX, PartitionsSpec,
    ProducerIdBlock, ProducerIdsExhausted, ProducerIdsRecord, ResourceKind, TopicDefaults, TopicNameError, TopicRef,
    TopicSpec, check_topic_name, is_internal_topic, names_collide, plan_allocate_producer_ids, plan_create_partitions,
    plan_create_topic, plan_delete_topic, plan_replicas,
};

const DEFAULTS: TopicDefaults = TopicDefaults { partition_count: 2, replication_factor: 3 };
const LIVE: [BrokerId; 3] = [BrokerId(1), BrokerId(2), BrokerId(3)];

fn replayed(image: &Image, records: &[MetadataRecord]) -> Image {
    let mut builder = ImageBuilder::new(image);
    for record in records {
        builder.replay(record).unwrap();
    }
    builder.finish()
}

/// Brokers 1 to 4, of which 4 is not alive in the tests, and a topic `a.b`.
fn cluster() -> Image {
    let broker =
        |id| MetadataRecord::Broker(BrokerRecord { id: BrokerId(id), host: "h".into(), port: 9092, rack: None });
    let image = replayed(&Image::default(), &[broker(1), broker(2), broker(3), broker(4)]);
    replayed(&image, &create(&image, TopicSpec::new("a.b")).unwrap().records)
}

fn create(image: &Image, spec: TopicSpec) -> Result<CreatedTopic, CreateTopicError> {
    plan_create_topic(image, &spec, DEFAULTS, &LIVE, &mut Random::new(1))
}

fn assigned(assignments: &[(i32, &[i32])]) -> TopicSpec {
    let assignment = |&(index, replicas): &(i32, &[i32])| Assignment {
        index: PartitionIndex(index),
        replicas: replicas.iter().copied().map(BrokerId).collect(),
    };
    TopicSpec { assignments: assignments.iter().map(assignment).collect(), ..TopicSpec::new("t") }
}

#[test]
fn topic_names() {
    let longest = "x".repeat(249);
    for good in ["a", "A-z_0.9", "...", "_", "-", longest.as_str()] {
        assert_eq!(check_topic_name(good), Ok(()), "{good}");
    }
    let too_long = format!("{longest}x");
    for (bad, error) in [
        ("", TopicNameError::Empty),
        (".", TopicNameError::Dots),
        ("..", TopicNameError::Dots),
        (too_long.as_str(), TopicNameError::TooLong { bytes: 250 }),
        ("a b", TopicNameError::BadCharacter { character: ' ' }),
        ("a/b", TopicNameError::BadCharacter { character: '/' }),
        ("größe", TopicNameError::BadCharacter { character: 'ö' }),
        ("a\0", TopicNameError::BadCharacter { character: '\0' }),
    ] {
        assert_eq!(check_topic_name(bad), Err(error), "{bad}");
    }
    for (a, b, collide) in [("a.b", "a_b", true), ("a.b", "a.b", true), ("a.b", "a-b", false), ("a.", "a", false)] {
        assert_eq!((names_collide(a, b), names_collide(b, a)), (collide, collide), "{a} {b}");
    }
    for (name, internal) in
        [("__consumer_offsets", true), ("__transaction_state", true), ("__mine", false), ("", false)]
    {
        assert_eq!(is_internal_topic(name), internal, "{name}");
    }
}

#[test]
fn topics_that_can_not_be_created() {
    let image = cluster();
    let check = |spec: TopicSpec, expected: CreateTopicError| {
        assert_eq!(create(&image, spec.clone()), Err(expected), "{spec:?}");
    };
    use CreateTopicError as E;
    let name = |name: &str| TopicSpec::new(name);
    check(name("__cluster_metadata"), E::Reserved { name: "__cluster_metadata".into() });
    check(name("a b"), E::Name(TopicNameError::BadCharacter { character: ' ' }));
    check(name("a.b"), E::Exists { name: "a.b".into() });
    check(name("a_b"), E::Collides { name: "a_b".into(), with: "a.b".into() });
    for replication_factor in [0, -2, i16::MIN] {
        let spec = TopicSpec { replication_factor, partition_count: 0, ..name("t") };
        check(spec, E::ReplicationFactor { replication_factor });
    }
    for partition_count in [0, -2, i32::MIN] {
        check(TopicSpec { partition_count, ..name("t") }, E::PartitionCount { partition_count });
    }
    let too_many = TopicSpec { partition_count: i32::MAX, ..name("t") };
    check(too_many, E::TooManyPartitions { partition_count: i32::MAX as usize });
    let spec = TopicSpec { replication_factor: 4, ..name("t") };
    check(spec, E::NotEnoughBrokers { replication_factor: 4, broker_count: 3 });

    check(TopicSpec { replication_factor: 1, ..assigned(&[(0, &[1])]) }, E::AssignmentAndCounts);
    check(TopicSpec { partition_count: 1, ..assigned(&[(0, &[1])]) }, E::AssignmentAndCounts);
    let bad = |assignments: &[(i32, &[i32])], error| check(assigned(assignments), E::Assignment(error));
    let index = PartitionIndex;
    bad(&[(1, &[1])], AssignmentError::NotConsecutive);
    bad(&[(0, &[1]), (2, &[1])], AssignmentError::NotConsecutive);
    bad(&[(-1, &[1])], AssignmentError::NotConsecutive);
    bad(&[(0, &[1]), (0, &[2])], AssignmentError::DuplicatePartition { index: index(0) });
    bad(&[(0, &[])], AssignmentError::NoReplicas { index: index(0) });
    bad(&[(0, &[1, 2, 1])], AssignmentError::DuplicateReplica { index: index(0), broker: BrokerId(1) });
    bad(&[(0, &[1, 9])], AssignmentError::UnknownBroker { index: index(0), broker: BrokerId(9) });
    let unequal = AssignmentError::UnequalSizes { index: index(1), replicas: 1, expected: 2 };
    bad(&[(0, &[1, 2]), (1, &[1])], unequal);
    bad(&[(0, &[4])], AssignmentError::NoLiveReplica { index: index(0) });
    let many = vec![Assignment { index: index(0), replicas: vec![BrokerId(1)] }; PARTITION_COUNT_MAX + 1];
    let spec = TopicSpec { assignments: many, ..name("t") };
    check(spec, E::TooManyPartitions { partition_count: PARTITION_COUNT_MAX + 1 });
}

#[test]
fn topics_that_can() {
    let image = cluster();
    let configs = vec![("retention.ms".to_owned(), "1".to_owned())];
    let created = create(&image, TopicSpec { configs, ..TopicSpec::new("t") }).unwrap();
    assert_eq!((created.partition_count, created.replication_factor), (2, 3));
    let image = replayed(&image, &created.records);
    let topic = image.topic("t").unwrap();
    assert_eq!((topic.id, image.topic_by_id(topic.id)), (created.topic_id, Some(topic)));
    assert_eq!(image.config(ResourceKind::Topic, "t", "retention.ms"), Some("1"));
    for partition in &topic.partitions {
        assert_eq!((partition.leader, partition.leader_epoch.0), (Some(partition.replicas[0]), 0));
        assert_eq!((partition.isr.len(), &partition.isr), (3, &partition.replicas));
    }
    assert_ne!(topic.partitions[0].leader, topic.partitions[1].leader);
    assert!(topic.partition(PartitionIndex(2)).is_none() && topic.partition(PartitionIndex(-1)).is_none());

    // Out of order, and with a broker that is not alive: it is a replica, and neither in sync nor the leader.
    let created = create(&image, assigned(&[(1, &[2, 3]), (0, &[4, 1])]).renamed("u")).unwrap();
    assert_eq!((created.partition_count, created.replication_factor), (2, 2));
    let image = replayed(&image, &created.records);
    let [first, second] = &image.topic("u").unwrap().partitions[..] else { panic!("two partitions") };
    assert_eq!(first.replicas, [BrokerId(4), BrokerId(1)]);
    assert_eq!((first.leader, &first.isr), (Some(BrokerId(1)), &vec![BrokerId(1)]));
    assert_eq!(second.leader, Some(BrokerId(2)));
}

trait Renamed {
    fn renamed(self, name: &str) -> Self;
}

impl Renamed for TopicSpec {
    fn renamed(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }
}

#[test]
fn deleting_topics() {
    let image = cluster();
    let id = image.topic("a.b").unwrap().id;
    let setting = MetadataRecord::Config(ConfigRecord {
        resource: ResourceKind::Topic,
        resource_name: "a.b".into(),
        key: "k".into(),
        value: Some("v".into()),
    });
    let image = replayed(&image, &[setting]);
    for topic in [TopicRef::Name("a.b"), TopicRef::Id(id)] {
        let gone = replayed(&image, &plan_delete_topic(&image, topic).unwrap());
        assert_eq!((gone.topic("a.b"), gone.topic_by_id(id), gone.topics().len()), (None, None, 0));
        assert_eq!(gone.config(ResourceKind::Topic, "a.b", "k"), None, "a new topic of that name starts afresh");
        assert!(create(&gone, TopicSpec::new("a_b")).is_ok());
    }
    let unknown = DeleteTopicError::UnknownName { name: "x".into() };
    assert_eq!(plan_delete_topic(&image, TopicRef::Name("x")), Err(unknown));
    let unknown = DeleteTopicError::UnknownId { id: Uuid::ZERO };
    assert_eq!(plan_delete_topic(&image, TopicRef::Id(Uuid::ZERO)), Err(unknown));
    assert!(image.topic("a.b").is_some(), "an image never changes");
}

#[test]
fn blocks_of_producer_ids() {
    let mut image = Image::default();
    for block in 0..3 {
        let (taken, record) = plan_allocate_producer_ids(&image, BrokerId(1)).unwrap();
        assert_eq!(taken, ProducerIdBlock { first: ProducerId(1000 * block), count: 1000 });
        image = replayed(&image, &[record]);
    }
    let next = ProducerId(i64::MAX - 999);
    let image = replayed(&image, &[MetadataRecord::ProducerIds(ProducerIdsRecord { broker: BrokerId(1), next })]);
    assert_eq!(plan_allocate_producer_ids(&image, BrokerId(1)), Err(ProducerIdsExhausted));
}

#[test]
fn replicas_are_spread() {
    for (racks, per_rack, factor) in [(1, 1, 1), (1, 5, 3), (3, 2, 3), (3, 1, 2), (2, 3, 3), (4, 4, 3), (2, 2, 4)] {
        let names: Vec<String> = (0..racks).map(|rack| format!("rack{rack}")).collect();
        let candidates: Vec<Candidate<'_>> = (0..racks * per_rack)
            .map(|at| Candidate { id: BrokerId(at as i32), rack: Some(names[at % racks].as_str()) })
            .collect();
        for seed in 0..50 {
            let rounds = 6;
            let count = candidates.len() * rounds;
            let plan = plan_replicas(&candidates, count, factor, &mut Random::new(seed));
            assert_eq!(plan.len(), count);
            let mut leads = vec![0; candidates.len()];
            let mut holds = vec![0; candidates.len()];
            for replicas in &plan {
                let ids: Vec<usize> = replicas.iter().map(|id| id.0 as usize).collect();
                let mut used: Vec<usize> = ids.iter().map(|id| id % racks).collect();
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), racks.min(factor), "{racks} racks of {per_rack}, {factor} replicas: {ids:?}");
                leads[ids[0]] += 1;
                ids.iter().for_each(|&id| holds[id] += 1);
                let mut distinct = ids.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), factor);
            }
            assert_eq!(leads, vec![rounds; candidates.len()], "every broker leads as many");
            let (least, most) = (holds.iter().min().unwrap(), holds.iter().max().unwrap());
            assert!(most - least <= rounds * (factor - 1), "{racks} racks of {per_rack}, {factor} replicas: {holds:?}");
        }
    }
    assert_eq!(plan_replicas(&[], 2, 3, &mut Random::new(0)), vec![vec![], vec![]]);
}

#[test]
fn topics_grow_and_never_shrink() {
    let image = cluster();
    let before = image.topic("a.b").unwrap().partitions.clone();
    let ids = |brokers: &[i32]| brokers.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let spec = |topic: &str, partition_count, assignments: Option<&[&[i32]]>| PartitionsSpec {
        topic: topic.to_owned(),
        partition_count,
        assignments: assignments.map(|all| all.iter().map(|brokers| ids(brokers)).collect()),
    };
    let plan = |spec: &PartitionsSpec| plan_create_partitions(&image, spec, &LIVE, &mut Random::new(1));
    for (spec, partitions) in [(spec("a.b", 3, None), 3), (spec("a.b", 4, Some(&[&[3, 1, 2], &[2, 4, 1]])), 4)] {
        let records = plan(&spec).unwrap();
        assert!(records.iter().all(|record| matches!(record, MetadataRecord::Partition(_))), "{spec:?}");
        let after = replayed(&image, &records).topic("a.b").unwrap().partitions.clone();
        assert_eq!((after.len(), &after[..2]), (partitions, &before[..]), "{spec:?}");
        for (partition, assigned) in after[2..].iter().zip(spec.assignments.iter().flatten()) {
            assert_eq!((&partition.replicas, partition.leader), (assigned, Some(assigned[0])));
            assert!(partition.isr.iter().all(|broker| LIVE.contains(broker)), "only who lives is in sync");
        }
    }
    let no_increase =
        |partition_count| CreatePartitionsError::NoIncrease { name: "a.b".into(), current: 2, partition_count };
    let index = PartitionIndex(2);
    let assigned = |error: AssignmentError| CreatePartitionsError::Assignment(error);
    for (spec, error) in [
        (spec("no", 3, None), CreatePartitionsError::UnknownTopic { name: "no".into() }),
        (spec("a.b", 2, None), no_increase(2)),
        (spec("a.b", 1, None), no_increase(1)),
        (spec("a.b", -1, None), no_increase(-1)),
        (spec("a.b", i32::MAX, None), CreatePartitionsError::TooMany { added: i32::MAX as usize - 2 }),
        (spec("a.b", 4, Some(&[&[1, 2, 3]])), CreatePartitionsError::AssignmentCount { added: 2, assignments: 1 }),
        (spec("a.b", 3, Some(&[])), CreatePartitionsError::AssignmentCount { added: 1, assignments: 0 }),
        (spec("a.b", 3, Some(&[&[]])), assigned(AssignmentError::NoReplicas { index })),
        (spec("a.b", 3, Some(&[&[1, 2, 9]])), assigned(AssignmentError::UnknownBroker { index, broker: BrokerId(9) })),
        (
            spec("a.b", 3, Some(&[&[1, 2, 1]])),
            assigned(AssignmentError::DuplicateReplica { index, broker: BrokerId(1) }),
        ),
        (spec("a.b", 3, Some(&[&[1]])), assigned(AssignmentError::UnequalSizes { index, replicas: 1, expected: 3 })),
    ] {
        assert_eq!(plan(&spec), Err(error), "{spec:?}");
    }
    let two = [BrokerId(1), BrokerId(2)];
    let few = plan_create_partitions(&image, &spec("a.b", 3, None), &two, &mut Random::new(1));
    assert_eq!(few, Err(CreatePartitionsError::NotEnoughBrokers { replication_factor: 3, broker_count: 2 }));
}
