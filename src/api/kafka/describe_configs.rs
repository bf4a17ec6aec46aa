//! DescribeConfigs: every setting of a topic, a broker or a group (KIP-133, KIP-226, KIP-569), and ListConfigResources (KIP-1142).

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use net::Reply;
use replication::metadata::check_topic_name;
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::messages::list_config_resources::{ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use crate::cluster::AdminError;
use crate::config::{DescribedSetting, describe_broker, describe_group, describe_topic};

/// What settings belong to, as requests number it (`ConfigResource.Type`).
pub mod resource {
    pub const TOPIC: i8 = 2;
    pub const BROKER: i8 = 4;
    pub const BROKER_LOGGER: i8 = 8;
    pub const CLIENT_METRICS: i8 = 16;
    pub const GROUP: i8 = 32;
}

/// Answers from this shard's view and the node's own settings.
pub fn handle(context: &Rc<Context>) -> Result<Reply, Refusal> {
    let request: DescribeConfigsRequest<'_> = context.decode()?;
    // An answer is far longer than its question: told once, a resource costs no more than there is of it.
    let mut seen = HashSet::new();
    let described: Vec<_> = request
        .resources
        .iter()
        .map(|resource| {
            let is_first = seen.insert((resource.resource_type, resource.resource_name));
            let outcome = if is_first { describe(context, &resource) } else { Err(twice()) };
            (outcome, resource)
        })
        .collect();
    let results = described.iter().map(|(outcome, resource)| {
        let (error_code, error_message) = AdminError::parts(outcome);
        let settings = outcome.iter().flatten();
        DescribeConfigsResult {
            error_code,
            // Empty, not null, where there is none: so Kafka has it here.
            error_message: error_message.or(Some("")),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs: settings.map(|setting| entry(setting, &request)).collect(),
        }
    });
    let results = results.collect();
    context.answer(&DescribeConfigsResponse { throttle_time_ms: 0, results })
}

fn describe(context: &Context, asked: &DescribeConfigsResource<'_>) -> Result<Vec<DescribedSetting>, AdminError> {
    let mut described = match asked.resource_type {
        resource::TOPIC => {
            let name = asked.resource_name;
            check_topic_name(name)
                .map_err(|error| AdminError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            let view = context.node.view();
            let topic = view.topic(name).ok_or_else(|| {
                AdminError::new(ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist."))
            })?;
            describe_topic(&topic.config, &topic.own_settings)
        }
        resource::BROKER if is_this_broker(context, asked.resource_name)? => {
            let view = context.node.view();
            describe_broker(&context.node.config, &format!("{}:{}", view.broker.host, view.broker.port))
        }
        // None are shared by all brokers.
        resource::BROKER => Vec::new(),
        // The levels of its loggers are set when it starts.
        resource::BROKER_LOGGER if is_this_broker(context, asked.resource_name)? => Vec::new(),
        resource::BROKER_LOGGER => return Err(invalid("Broker id must not be empty")),
        resource::GROUP if asked.resource_name.is_empty() => return Err(invalid("Group name must not be empty")),
        // A group need not be there.
        resource::GROUP => {
            let view = context.node.view();
            let own = view.groups().get(asked.resource_name).map(|own| &own.given);
            describe_group(&context.node.config, own.unwrap_or(&BTreeMap::new()))
        }
        other => return Err(not_served(other)),
    };
    // No keys are all keys, as null is.
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        described.retain(|setting| keys.iter().any(|key| key == setting.name));
    }
    Ok(described)
}

/// Whether a broker resource is this broker; an empty name stands for what all brokers share.
pub fn is_this_broker(context: &Context, name: &str) -> Result<bool, AdminError> {
    let own = context.node.view().broker.id;
    match name.parse() {
        _ if name.is_empty() => Ok(false),
        Ok(id) if base::BrokerId(id) == own => Ok(true),
        _ => Err(invalid(&format!("Unexpected broker id, expected {own} or empty string, but received {name}"))),
    }
}

/// Of a resource type that has no settings here.
pub fn not_served(resource_type: i8) -> AdminError {
    invalid(&match resource_type {
        resource::CLIENT_METRICS => "settings of client metrics are not served yet".to_owned(),
        other => format!("Unsupported resource type: {other}"),
    })
}

/// Of a resource that a request names again.
pub fn twice() -> AdminError {
    invalid("Each resource must appear at most once.")
}

fn invalid(reason: &str) -> AdminError {
    AdminError::new(ErrorCode::InvalidRequest, reason)
}

fn entry<'s>(setting: &'s DescribedSetting, request: &DescribeConfigsRequest<'_>) -> DescribeConfigsResourceResult<'s> {
    let synonyms = setting.synonyms.iter().filter(|_| request.include_synonyms);
    let synonym = |of: &'s crate::config::Synonym| DescribeConfigsSynonym {
        name: of.name,
        value: Some(&of.value),
        source: of.source as i8,
    };
    DescribeConfigsResourceResult {
        name: setting.name,
        value: Some(&setting.value),
        read_only: setting.read_only,
        config_source: setting.source as i8,
        is_sensitive: false,
        synonyms: synonyms.map(synonym).collect(),
        config_type: setting.value_type as i8,
        documentation: request.include_documentation.then_some(setting.doc),
    }
}

/// Names the resources that can be described. Version 0 asks for client metrics alone, of which there are none.
pub fn list(context: &Rc<Context>) -> Result<Reply, Refusal> {
    const LISTED: [i8; 5] =
        [resource::TOPIC, resource::BROKER, resource::BROKER_LOGGER, resource::CLIENT_METRICS, resource::GROUP];
    let request: ListConfigResourcesRequest<'_> = context.decode()?;
    let view = context.node.view();
    let types: Vec<i8> = match context.version {
        0 => vec![resource::CLIENT_METRICS],
        _ if request.resource_types.is_empty() => LISTED.to_vec(),
        _ => request.resource_types.to_vec(),
    };
    if !types.iter().all(|asked| LISTED.contains(asked)) {
        let (error_code, config_resources) = (ErrorCode::UnsupportedVersion, Array::empty());
        return context.answer(&ListConfigResourcesResponse { throttle_time_ms: 0, error_code, config_resources });
    }
    let broker_id = view.broker.id.to_string();
    let mut config_resources = Vec::new();
    for resource_type in LISTED.into_iter().filter(|listed| types.contains(listed)) {
        let of_type = |resource_name| ConfigResource { resource_name, resource_type };
        match resource_type {
            resource::TOPIC => config_resources.extend(view.topics().map(|topic| of_type(&topic.name))),
            resource::BROKER | resource::BROKER_LOGGER => config_resources.push(of_type(&broker_id)),
            resource::GROUP => config_resources.extend(view.groups().keys().map(|group| of_type(group))),
            _ => {}
        }
    }
    context.answer(&ListConfigResourcesResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        config_resources: config_resources.into(),
    })
}
