//! The settings of topics, as the cluster tells them (KIP-133).
//!
//! Stateless: requests to any broker, with tries until the client's deadline.

use std::collections::{BTreeMap, BTreeSet};

use wire::messages::describe_configs::{DescribeConfigsResource, DescribeConfigsResult};
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use wire::{ApiKey, Array, ErrorCode};

use crate::alter::TOPIC;
use crate::{Client, Error};

/// The answer for one topic is a few kilobytes.
const TOPICS_AT_ONCE: usize = 100;
/// `config_source` of a setting that was given to the topic itself.
const OF_THE_TOPIC: i8 = 1;

/// One setting of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSetting {
    pub name: String,
    /// `None` where there is no value, and where the broker keeps it to itself.
    pub value: Option<String>,
    /// Given to the topic; all others are defaults.
    pub is_own: bool,
}

impl Client {
    /// The settings of each of these topics that exists, in the broker's order.
    ///
    /// # Errors
    /// The cluster's refusal with its reason, or nobody answers.
    pub async fn topic_settings<'n>(
        &self,
        topics: impl IntoIterator<Item = &'n str>,
    ) -> Result<BTreeMap<String, Vec<TopicSetting>>, Error> {
        let names: Vec<&str> = topics.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut settings = BTreeMap::new();
        for names in names.chunks(TOPICS_AT_ONCE) {
            settings.extend(self.retrying(self.deadline(), async || self.try_topic_settings(names).await).await?);
        }
        Ok(settings)
    }

    async fn try_topic_settings(&self, names: &[&str]) -> Result<BTreeMap<String, Vec<TopicSetting>>, Error> {
        let resource =
            |resource_name| DescribeConfigsResource { resource_type: TOPIC, resource_name, configuration_keys: None };
        let resources: Array<'_, _> = names.iter().copied().map(resource).collect();
        let request = DescribeConfigsRequest { resources, include_synonyms: false, include_documentation: false };
        let reply = self.any_connection().await?.call(&request).await?;
        let response: DescribeConfigsResponse<'_> = reply.decode()?;
        let mut settings = BTreeMap::new();
        for name in names {
            let found = response.results.iter().find(|result| result.resource_name == *name);
            let key = ApiKey::DescribeConfigs;
            let result = found.ok_or(Error::Nonsense { key, what: "a topic is missing" })?;
            match result.error_code {
                ErrorCode::None => drop(settings.insert((*name).to_owned(), settings_of(&result))),
                // Gone since it was listed, or never there: the others are told all the same.
                ErrorCode::UnknownTopicOrPartition => {}
                code => return Err(Error::refused(format!("topic {name}"), code, result.error_message)),
            }
        }
        Ok(settings)
    }
}

fn settings_of(result: &DescribeConfigsResult<'_>) -> Vec<TopicSetting> {
    let setting = result.configs.iter().map(|config| TopicSetting {
        name: config.name.to_owned(),
        value: config.value.map(str::to_owned),
        is_own: config.config_source == OF_THE_TOPIC,
    });
    setting.collect()
}
