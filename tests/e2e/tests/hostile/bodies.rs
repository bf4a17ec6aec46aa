//! What hostile requests are made of: bodies that claim more than they have, and whole ones that ask for as much as they can.

use base::{Offset, PartitionIndex, Random};
use wire::messages::alter_configs::{AlterConfigsResource, AlterableConfig};
use wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::describe_configs::DescribeConfigsResource;
use wire::messages::describe_log_dirs::DescribableLogDirTopic;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata::MetadataRequestTopic;
use wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeTopicPartitionsRequest,
    ElectLeadersRequest, FetchRequest, FindCoordinatorRequest, ListConfigResourcesRequest, ListOffsetsRequest,
    MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};
use wire::{Array, Records, Request, encode_request};

/// Bodies that no schema is needed for: counts up to 2^31, compact ones up to 2^32 and overlong, null where nothing is nullable, arrays
/// that are really there at every place where one may stand, and what the seed makes up.
pub fn without_schema(random: &mut Random) -> Vec<Vec<u8>> {
    const LENGTH: usize = 20_000;
    let repeated = |pattern: &[u8]| pattern.iter().copied().cycle().take(LENGTH).collect::<Vec<u8>>();
    let mut bodies = vec![Vec::new(), vec![0], vec![1; 3]];
    for pattern in [
        &[0xff][..],
        &[0x00],
        &[0x01],
        &[0x02],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0x00, 0x00, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        &[0x00, 0x00, 0x00, 0x01],
        &[0x00, 0x01, b'a'],
        &[0x02, b'a', 0x02, 0x00],
    ] {
        bodies.push(repeated(pattern));
    }
    for before in 0..12 {
        let zeros = vec![0; LENGTH];
        let plain = u32::try_from(LENGTH / 16).expect("small").to_be_bytes();
        bodies.push([&zeros[..before], &plain, &zeros].concat());
        // A compact count of 4,096, and elements that are empty rather than null.
        bodies.push([&zeros[..before], &[0x81, 0x20], &[1; LENGTH]].concat());
    }
    bodies.extend((0..6).map(|_| random_bytes(random, 2000)));
    bodies
}

pub fn random_bytes(random: &mut Random, length_max: u64) -> Vec<u8> {
    let length = random.below(length_max);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// A request that is what it claims to be, as a frame.
fn whole<'a, R: Request<'a>>(version: i16, request: &R) -> Vec<u8> {
    encode_request(version, 7, None, request, Vec::new()).expect("it can be sent").into_structure()
}

/// Requests of about `bytes` that come to the most memory for each of their bytes: the shortest elements, as many as fit; names that are all
/// different where naming something twice is cheaper for the broker.
pub fn greedy(bytes: usize) -> Vec<Vec<u8>> {
    let indexes: Vec<PartitionIndex> = vec![PartitionIndex(0); bytes / 4];
    let names: Vec<String> = (0..bytes / 8).map(|number| format!("{number:06}")).collect();
    let mut requests = about_topics(&names);
    requests.extend(about_partitions(bytes, &indexes));
    requests.extend(about_settings(bytes));
    requests.extend(with_long_names(bytes));
    requests
}

fn about_topics(names: &[String]) -> Vec<Vec<u8>> {
    let strs = || names.iter().map(String::as_str);
    let empty = vec![""; names.len() * 3];
    let metadata = |names: Vec<&str>, version, create| {
        let topics: Vec<_> =
            names.into_iter().map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() }).collect();
        let request = MetadataRequest {
            topics: Some(topics.into()),
            allow_auto_topic_creation: create,
            ..MetadataRequest::default()
        };
        whole(version, &request)
    };
    let topic = |name| CreatableTopic { name, num_partitions: 1, replication_factor: 1, ..CreatableTopic::default() };
    let partitions = |name| CreatePartitionsTopic { name, count: 1, assignments: None };
    vec![
        metadata(strs().collect(), 9, false),
        // Topics are made, so not in all lengths.
        metadata(strs().collect(), 9, names.len() < 1000),
        metadata(empty.clone(), 4, false),
        whole(5, &DeleteTopicsRequest { topic_names: empty.clone().into(), ..Default::default() }),
        whole(4, &FindCoordinatorRequest { coordinator_keys: empty.into(), ..Default::default() }),
        whole(
            7,
            &CreateTopicsRequest {
                topics: strs().map(topic).collect::<Vec<_>>().into(),
                validate_only: true,
                ..Default::default()
            },
        ),
        whole(
            2,
            &CreatePartitionsRequest {
                topics: strs().map(partitions).collect::<Vec<_>>().into(),
                ..Default::default()
            },
        ),
        whole(
            0,
            &DescribeTopicPartitionsRequest {
                topics: strs()
                    .map(|name| wire::messages::describe_topic_partitions::TopicRequest { name })
                    .collect::<Vec<_>>()
                    .into(),
                ..Default::default()
            },
        ),
        whole(1, &ListConfigResourcesRequest { resource_types: vec![2; names.len() * 8].into() }),
    ]
}

fn about_partitions(bytes: usize, indexes: &[PartitionIndex]) -> Vec<Vec<u8>> {
    let topic = super::TOPIC;
    let list = vec![ListOffsetsPartition { timestamp: -1, ..Default::default() }; bytes / 12];
    let epochs =
        vec![OffsetForLeaderPartition { leader_epoch: base::LeaderEpoch(1), ..Default::default() }; bytes / 12];
    // Before the beginning: nothing is deleted.
    let delete = vec![DeleteRecordsPartition { offset: Offset(0), ..Default::default() }; bytes / 12];
    let empty = vec![PartitionProduceData { records: Records::Bytes(&[]), ..Default::default() }; bytes / 8];
    vec![
        whole(
            1,
            &ListOffsetsRequest {
                topics: vec![ListOffsetsTopic { name: topic, partitions: list.into() }].into(),
                ..Default::default()
            },
        ),
        whole(
            3,
            &OffsetForLeaderEpochRequest {
                topics: vec![OffsetForLeaderTopic { topic, partitions: epochs.into() }].into(),
                ..Default::default()
            },
        ),
        whole(
            1,
            &DeleteRecordsRequest {
                topics: vec![DeleteRecordsTopic { name: topic, partitions: delete.into() }].into(),
                ..Default::default()
            },
        ),
        whole(
            2,
            &ElectLeadersRequest {
                topic_partitions: Some(
                    vec![wire::messages::elect_leaders::TopicPartitions { topic, partitions: indexes.into() }].into(),
                ),
                ..Default::default()
            },
        ),
        whole(
            0,
            &DescribeProducersRequest {
                topics: vec![wire::messages::describe_producers::TopicRequest {
                    name: topic,
                    partition_indexes: indexes.into(),
                }]
                .into(),
            },
        ),
        whole(
            2,
            &DescribeLogDirsRequest {
                topics: Some(vec![DescribableLogDirTopic { topic, partitions: indexes.into() }].into()),
            },
        ),
        whole(
            8,
            &ProduceRequest {
                acks: 1,
                timeout_ms: 1000,
                topic_data: vec![TopicProduceData { name: topic, partition_data: empty.into(), ..Default::default() }]
                    .into(),
                ..Default::default()
            },
        ),
    ]
}

fn about_settings(bytes: usize) -> Vec<Vec<u8>> {
    let numbers: Vec<String> = (0..bytes / 8).map(|number| number.to_string()).collect();
    let resources: Vec<_> = numbers
        .iter()
        .map(|name| DescribeConfigsResource { resource_type: 4, resource_name: name, configuration_keys: None })
        .collect();
    let configs = vec![AlterableConfig { name: "", value: None }; bytes / 4];
    let resource = AlterConfigsResource { resource_type: 2, resource_name: "no-such", configs: configs.into() };
    let settings = vec![CreatableTopicConfig { name: "", value: None }; bytes / 4];
    let assignments = vec![CreatableReplicaAssignment::default(); bytes / 6];
    let new_topic = |assignments: Array<'static, _>, configs: Array<'static, _>| {
        let topic = CreatableTopic { name: "n", num_partitions: -1, replication_factor: -1, assignments, configs };
        CreateTopicsRequest { topics: vec![topic].into(), validate_only: true, ..Default::default() }
    };
    let partitions = vec![CreatePartitionsAssignment::default(); bytes / 2];
    let more = CreatePartitionsTopic { name: super::TOPIC, count: 1 << 20, assignments: Some(partitions.into()) };
    vec![
        whole(
            4,
            &DescribeConfigsRequest {
                resources: resources.into(),
                include_synonyms: true,
                include_documentation: true,
            },
        ),
        whole(1, &AlterConfigsRequest { resources: vec![resource].into(), validate_only: true }),
        whole(7, &new_topic(Array::empty(), settings.into())),
        whole(7, &new_topic(assignments.into(), Array::empty())),
        whole(2, &CreatePartitionsRequest { topics: vec![more].into(), validate_only: true, ..Default::default() }),
    ]
}

/// One long name and as many partitions as fit, in a fetch session; and the same without waiting for records.
fn with_long_names(bytes: usize) -> Vec<Vec<u8>> {
    let name = "n".repeat(wire::STRING_BYTES_MAX.min(bytes / 2));
    let mut partitions = vec![FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() }; bytes / 2 / 24];
    // All different: a session keeps each once.
    partitions.iter_mut().zip(0..).for_each(|(partition, index)| partition.partition = PartitionIndex(index));
    let fetch = |topic, max_wait_ms, min_bytes| FetchRequest {
        max_wait_ms,
        min_bytes,
        max_bytes: 1 << 20,
        session_epoch: 0,
        topics: vec![FetchTopic { topic, partitions: partitions.clone().into(), ..Default::default() }].into(),
        ..Default::default()
    };
    vec![whole(7, &fetch(name.as_str(), 0, 0)), whole(7, &fetch(super::TOPIC, i32::MAX, i32::MAX))]
}

/// All that there is of a topic, from its beginning.
pub fn fetch_all() -> Vec<u8> {
    let partition = |partition| FetchPartition {
        partition: PartitionIndex(partition),
        fetch_offset: Offset(0),
        partition_max_bytes: 50 << 20,
        ..Default::default()
    };
    let partitions: Vec<_> = (0..super::PARTITIONS).map(partition).collect();
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic { topic: super::TOPIC, partitions: partitions.into(), ..Default::default() }].into(),
        ..Default::default()
    };
    whole(12, &request)
}

/// Every topic there is.
pub fn metadata_of_all() -> Vec<u8> {
    whole(9, &MetadataRequest { topics: None, ..MetadataRequest::default() })
}
