//! Changing topics that exist: more partitions, other settings.
//!
//! Stateless, like the rest of administration: each call is a request to the controller, with tries until the client's deadline.

use wire::messages::create_partitions::CreatePartitionsTopic;
use wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::{Client, Error};

/// A topic, as requests about settings number what they belong to.
pub(crate) const TOPIC: i8 = 2;
/// Operations on a setting (KIP-339).
const SET: i8 = 0;
const DELETE: i8 = 1;

impl Client {
    /// Gives a topic `partition_count` partitions in all, or only checks whether it could have them. The partition of a key is its hash
    /// modulo their number: records of a key may continue in another partition.
    ///
    /// # Errors
    /// The topic does not exist, or has as many or more; the cluster's refusal with its reason; or nobody answers.
    pub async fn add_partitions(&self, topic: &str, partition_count: i32, validate_only: bool) -> Result<(), Error> {
        let mut maybe_done = false;
        self.retrying(self.deadline(), async || {
            let outcome = self.try_add_partitions(topic, partition_count, validate_only).await;
            // An earlier try whose answer was lost may have done it.
            if outcome.is_err()
                && maybe_done
                && self.describe_topic(topic).await.is_ok_and(|found| has(&found, partition_count))
            {
                return Ok(());
            }
            maybe_done |= outcome.as_ref().is_err_and(Error::may_have_happened);
            outcome
        })
        .await?;
        self.doubt_topic(topic);
        Ok(())
    }

    async fn try_add_partitions(&self, topic: &str, count: i32, validate_only: bool) -> Result<(), Error> {
        let connection = self.controller().await?;
        let topics = [CreatePartitionsTopic { name: topic, count, assignments: None }];
        let request =
            CreatePartitionsRequest { topics: (&topics).into(), timeout_ms: self.timeout_ms(), validate_only };
        let reply = connection.call(&request).await?;
        let response: CreatePartitionsResponse<'_> = reply.decode()?;
        connection.throttle(response.throttle_time_ms);
        let found = response.results.iter().find(|result| result.name == topic);
        let key = ApiKey::CreatePartitions;
        let result = found.ok_or(Error::Nonsense { key, what: "the topic is missing" })?;
        self.outcome(topic, result.error_code, result.error_message).await
    }

    /// Changes settings of a topic, or only checks them: `None` takes a setting back to its default. The others stay.
    ///
    /// # Errors
    /// The topic does not exist; the cluster's refusal with its reason; or nobody answers.
    pub async fn alter_topic(
        &self,
        topic: &str,
        changes: &[(String, Option<String>)],
        validate_only: bool,
    ) -> Result<(), Error> {
        // Doing it twice does no harm.
        self.retrying(self.deadline(), async || self.try_alter_topic(topic, changes, validate_only).await).await
    }

    async fn try_alter_topic(
        &self,
        topic: &str,
        changes: &[(String, Option<String>)],
        validate_only: bool,
    ) -> Result<(), Error> {
        let connection = self.controller().await?;
        let configs: Vec<_> = changes
            .iter()
            .map(|(name, value)| AlterableConfig {
                name,
                config_operation: if value.is_some() { SET } else { DELETE },
                value: value.as_deref(),
            })
            .collect();
        let resources = [AlterConfigsResource { resource_type: TOPIC, resource_name: topic, configs: configs.into() }];
        let request = IncrementalAlterConfigsRequest { resources: (&resources).into(), validate_only };
        let reply = connection.call(&request).await?;
        let response: IncrementalAlterConfigsResponse<'_> = reply.decode()?;
        connection.throttle(response.throttle_time_ms);
        let found = response.responses.iter().find(|result| result.resource_name == topic);
        let key = ApiKey::IncrementalAlterConfigs;
        let result = found.ok_or(Error::Nonsense { key, what: "the topic is missing" })?;
        self.outcome(topic, result.error_code, result.error_message).await
    }

    async fn outcome(&self, topic: &str, code: ErrorCode, message: Option<&str>) -> Result<(), Error> {
        match code {
            ErrorCode::None => Ok(()),
            ErrorCode::UnknownTopicOrPartition => Err(Error::NoTopic { topic: topic.to_owned() }),
            code => Err(self.refusal(format!("topic {topic}"), code, message).await),
        }
    }
}

fn has(topic: &crate::Topic, partition_count: i32) -> bool {
    i32::try_from(topic.partitions.len()) == Ok(partition_count)
}
