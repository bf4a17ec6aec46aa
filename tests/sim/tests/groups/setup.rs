//! What is there before anybody joins: the topics, and the one that groups are kept in, small enough to be compacted all the time.

use std::time::Duration;

use wire::ErrorCode;
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use crate::logs::OFFSETS_TOPIC;
use crate::model::{GROUPS, KEYED, Partition, TOPICS, Topic};
use crate::seat::Link;

/// As DescribeConfigs numbers them.
const RESOURCE_TOPIC: i8 = 2;
const SET: i8 = 0;
const RESET: i8 = 1;

/// What makes the compaction of a topic busy.
const BUSY: [(&str, &str); 3] =
    [("internal.segment.bytes", "3000"), ("min.cleanable.dirty.ratio", "0.01"), ("delete.retention.ms", "1000")];

/// Makes all of it.
pub async fn set_up(link: &mut Link) {
    for (number, (name, partitions)) in TOPICS.into_iter().enumerate() {
        let mut configs = Vec::new();
        if number == KEYED {
            configs.push(CreatableTopicConfig { name: "cleanup.policy", value: Some("compact") });
            configs.extend(BUSY.map(|(name, value)| CreatableTopicConfig { name, value: Some(value) }));
        }
        let topics = [CreatableTopic {
            name,
            num_partitions: partitions as i32,
            replication_factor: 1,
            configs: configs.into(),
            ..Default::default()
        }];
        let request = CreateTopicsRequest { topics: (&topics).into(), timeout_ms: 3000, validate_only: false };
        let reply = link.call(&request, Duration::ZERO).await.expect("nothing is in the way yet");
        let response: CreateTopicsResponse<'_> = reply.decode().expect("an answer of the protocol");
        let result = response.topics.iter().next().expect("one was asked for");
        assert_eq!(result.error_code, ErrorCode::None, "{name}: {:?}", result.error_message);
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        link.model.borrow_mut().topics.push(Topic { name, id: result.topic_id, partitions });
    }
    find_coordinator(link).await;
    let mut configs: Vec<_> =
        BUSY.iter().map(|(name, value)| AlterableConfig { name, config_operation: SET, value: Some(value) }).collect();
    // It has a size of its own, which counts more.
    configs.push(AlterableConfig { name: "segment.bytes", config_operation: RESET, value: None });
    let resources =
        [AlterConfigsResource { resource_type: RESOURCE_TOPIC, resource_name: OFFSETS_TOPIC, configs: configs.into() }];
    let request = IncrementalAlterConfigsRequest { resources: (&resources).into(), validate_only: false };
    let reply = link.call(&request, Duration::ZERO).await.expect("nothing is in the way yet");
    let response: IncrementalAlterConfigsResponse<'_> = reply.decode().expect("an answer of the protocol");
    let told = response.responses.iter().next().expect("one was asked for");
    assert_eq!(told.error_code, ErrorCode::None, "{:?}", told.error_message);
}

/// Makes the topic that groups are kept in.
async fn find_coordinator(link: &mut Link) {
    let keys: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
    let request = FindCoordinatorRequest { key_type: 0, coordinator_keys: keys.into(), ..Default::default() };
    let reply = link.call(&request, Duration::ZERO).await.expect("nothing is in the way yet");
    let response: FindCoordinatorResponse<'_> = reply.decode().expect("an answer of the protocol");
    for told in &response.coordinators {
        assert_eq!(told.error_code, ErrorCode::None, "{}", told.key);
    }
}
