//! ApiVersions, DescribeCluster, and what is told of the cluster as a whole.

use base::PartitionIndex;
use wire::messages::api_versions::ApiVersionsRequest;
use wire::messages::describe_cluster::DescribeClusterRequest;
use wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use wire::messages::list_config_resources::ListConfigResourcesRequest;
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};

use crate::step::{Step, raw, step};

pub fn steps() -> Vec<Step> {
    let of = |client_software_name, client_software_version| ApiVersionsRequest {
        client_software_name,
        client_software_version,
    };
    let cluster = |endpoint_type| DescribeClusterRequest {
        include_cluster_authorized_operations: false,
        endpoint_type,
        include_fenced_brokers: false,
    };
    vec![
        step("api-versions/plain", move |_| of("golden", "1.0")),
        step("api-versions/no-name", move |_| of("", "")).at(3..=4),
        step("api-versions/bad-name", move |_| of("gold en", "1.0")).at(3..=4),
        step("api-versions/bad-version", move |_| of("golden", "-1.0")).at(3..=4),
        raw::<ApiVersionsRequest<'static>>("api-versions/above-all", 6..=7, |_| vec![0])
            .read_as_version_0::<ApiVersionsRequest<'static>>(),
        step("describe-cluster/brokers", move |_| cluster(1)),
        step("describe-cluster/operations", |_| DescribeClusterRequest {
            include_cluster_authorized_operations: true,
            ..Default::default()
        }),
        step("describe-cluster/controllers", move |_| cluster(2)).at(1..=2),
        step("describe-cluster/unheard-of", move |_| cluster(3)).at(1..=2),
        step("describe-cluster/fenced-brokers", |_| DescribeClusterRequest {
            include_fenced_brokers: true,
            ..Default::default()
        })
        .at(2..=2),
    ]
}

/// What is told of all topics, before steps make more.
pub fn all() -> Vec<Step> {
    let mut steps = log_dirs();
    steps.extend(elections());
    steps.extend(reassignments());
    steps.extend(resources());
    steps
}

fn indexes(indexes: &[i32]) -> wire::Array<'static, PartitionIndex> {
    indexes.iter().copied().map(PartitionIndex).collect()
}

fn log_dirs() -> Vec<Step> {
    let of = |topics: &[(&'static str, &[i32])]| DescribeLogDirsRequest {
        topics: Some(
            topics
                .iter()
                .map(|(topic, partitions)| DescribableLogDirTopic { topic, partitions: indexes(partitions) })
                .collect(),
        ),
    };
    vec![
        step("describe-log-dirs/all", |_| DescribeLogDirsRequest { topics: None }),
        step("describe-log-dirs/some", move |_| of(&[("log", &[0, 1]), ("empty", &[0])])),
        step("describe-log-dirs/unknown", move |_| of(&[("no-such-topic", &[0]), ("log", &[9])])),
        step("describe-log-dirs/none", move |_| of(&[])),
    ]
}

fn elections() -> Vec<Step> {
    let of = |election_type, topics: &[(&'static str, &[i32])]| ElectLeadersRequest {
        election_type,
        topic_partitions: Some(
            topics
                .iter()
                .map(|(topic, partitions)| TopicPartitions { topic, partitions: indexes(partitions) })
                .collect(),
        ),
        timeout_ms: 30_000,
    };
    vec![
        step("elect-leaders/preferred", move |_| of(0, &[("log", &[0, 1]), ("empty", &[0])])),
        step("elect-leaders/unclean", move |_| of(1, &[("log", &[0])])).at(1..=2),
        step("elect-leaders/unheard-of", move |_| of(5, &[("log", &[0])])).at(1..=2),
        step("elect-leaders/all", move |_| ElectLeadersRequest { topic_partitions: None, ..of(0, &[]) }),
        step("elect-leaders/unknown", move |_| {
            of(0, &[("log", &[9, -1]), ("no-such-topic", &[0]), ("bad name!", &[0])])
        }),
        step("elect-leaders/twice", move |_| of(0, &[("log", &[0, 0]), ("log", &[0])])),
        step("elect-leaders/none", move |_| of(0, &[])),
    ]
}

fn reassignments() -> Vec<Step> {
    let of = |topics: Option<&[(&'static str, &[i32])]>| ListPartitionReassignmentsRequest {
        timeout_ms: 30_000,
        topics: topics.map(|topics| {
            let topic = |(name, partitions): &(&'static str, &[i32])| ListPartitionReassignmentsTopics {
                name,
                partition_indexes: indexes(partitions),
            };
            topics.iter().map(topic).collect()
        }),
    };
    vec![
        step("list-reassignments/all", move |_| of(None)),
        step("list-reassignments/known", move |_| of(Some(&[("log", &[0, 1])]))),
        step("list-reassignments/unknown", move |_| of(Some(&[("no-such-topic", &[0]), ("log", &[9])]))),
        step("list-reassignments/none", move |_| of(Some(&[]))),
    ]
}

fn resources() -> Vec<Step> {
    let of = |types: &[i8]| ListConfigResourcesRequest { resource_types: types.iter().copied().collect() };
    let only = |name, resource_type| step(name, move |_| of(&[resource_type])).at(1..=1);
    vec![
        step("list-config-resources/client-metrics", move |_| of(&[])).at(0..=0),
        step("list-config-resources/all", move |_| of(&[])).at(1..=1),
        only("list-config-resources/topics", 2),
        only("list-config-resources/brokers", 4),
        only("list-config-resources/loggers", 8),
        only("list-config-resources/metrics", 16),
        only("list-config-resources/groups", 32),
        only("list-config-resources/unheard-of", 3),
        step("list-config-resources/twice", move |_| of(&[4, 4, 2])).at(1..=1),
    ]
}
