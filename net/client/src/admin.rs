//! Administration: topics and offsets, asked of whoever can answer.
//!
//! Stateless: each call is a request, or one per leader, with tries until the client's deadline. What the client has no call
//! for goes through [`Client::call_any`] and [`Client::call`].

use std::collections::BTreeMap;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Uuid, WallTime};
use wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics::DeleteTopicState;
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic};
use wire::messages::metadata::MetadataRequestTopic;
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::connection::Connection;
use crate::metadata::{Topic, described_topic};
use crate::{Client, Error, Lane};

/// A topic to create.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NewTopic {
    pub name: String,
    /// `None`: the broker's default, or what `assignments` say.
    pub partition_count: Option<i32>,
    /// `None`: the broker's default, or what `assignments` say.
    pub replication_factor: Option<i16>,
    /// The replicas of each partition, the preferred leader first; empty: the cluster decides.
    pub assignments: Vec<Vec<BrokerId>>,
    pub configs: Vec<(String, String)>,
}

/// A topic as it was created, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreatedTopic {
    pub name: String,
    /// Zero when it was only validated, and from brokers that know no topic ids.
    pub id: Uuid,
    /// −1 from brokers that do not say.
    pub partition_count: i32,
    /// −1 from brokers that do not say.
    pub replication_factor: i16,
    /// Every setting that the broker told, by name.
    pub configs: Vec<(String, Option<String>)>,
}

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetSpec {
    /// The first offset that is kept.
    Earliest,
    /// The offset that the next record gets (the high watermark).
    Latest,
    /// The first record with this timestamp or a later one.
    Time(WallTime),
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
}

impl OffsetSpec {
    /// The number on the wire.
    fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            // A time before the epoch would be read as one of the codes above.
            Self::Time(at) => at.0.max(0),
        }
    }
}

/// An offset that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedOffset {
    /// `None` where no record is as late as the time asked for.
    pub offset: Option<Offset>,
    /// Of the record found, where a time was asked for.
    pub timestamp: Option<WallTime>,
    /// −1 for unknown.
    pub leader_epoch: LeaderEpoch,
}

/// What to ask a leader: of each partition, which of the questions, and the epoch it is thought to lead in.
type Questions<'a> = BTreeMap<(&'a str, PartitionIndex), (usize, LeaderEpoch)>;

impl Client {
    /// Creates a topic, or only checks whether it could be.
    ///
    /// # Errors
    /// The cluster's refusal, with its reason, or nobody answers.
    pub async fn create_topic(&self, topic: &NewTopic, validate_only: bool) -> Result<CreatedTopic, Error> {
        let configs: Vec<_> =
            topic.configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect();
        let assignments: Vec<_> = (0..)
            .zip(&topic.assignments)
            .map(|(index, brokers)| CreatableReplicaAssignment {
                partition_index: PartitionIndex(index),
                broker_ids: brokers.into(),
            })
            .collect();
        let topics = vec![CreatableTopic {
            name: &topic.name,
            num_partitions: topic.partition_count.unwrap_or(-1),
            replication_factor: topic.replication_factor.unwrap_or(-1),
            assignments: assignments.into(),
            configs: configs.into(),
        }];
        let request = CreateTopicsRequest { topics: topics.into(), timeout_ms: self.timeout_ms(), validate_only };
        self.retrying(self.deadline(), async || {
            let connection = self.controller().await?;
            let reply = connection.call(&request).await?;
            let response: CreateTopicsResponse<'_> = reply.decode()?;
            connection.throttle(response.throttle_time_ms);
            let found = response.topics.iter().find(|result| result.name == topic.name);
            let result = found.ok_or(Error::Nonsense { key: ApiKey::CreateTopics, what: "the topic is missing" })?;
            if result.error_code.is_error() {
                return Err(self
                    .refusal(format!("topic {}", topic.name), result.error_code, result.error_message)
                    .await);
            }
            let configs = result.configs.unwrap_or_default();
            Ok(CreatedTopic {
                name: result.name.to_owned(),
                id: result.topic_id,
                partition_count: result.num_partitions,
                replication_factor: result.replication_factor,
                configs: configs.iter().map(|c| (c.name.to_owned(), c.value.map(str::to_owned))).collect(),
            })
        })
        .await
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// There is none of that name, the cluster's refusal with its reason, or nobody answers.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        let mut maybe_deleted = false;
        self.retrying(self.deadline(), async || match self.try_delete_topic(name).await {
            // An earlier try whose answer was lost may have done it.
            Err(Error::NoTopic { .. }) if maybe_deleted => Ok(()),
            other => {
                maybe_deleted |= other.as_ref().is_err_and(Error::may_have_happened);
                other
            }
        })
        .await?;
        self.doubt_topic(name);
        Ok(())
    }

    async fn try_delete_topic(&self, name: &str) -> Result<(), Error> {
        let connection = self.controller().await?;
        // The versions differ in the field that the names go into.
        let by_state = connection.version::<DeleteTopicsRequest<'_>>()? >= 6;
        let state = [DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO }];
        let names = [name];
        let request = DeleteTopicsRequest {
            topics: if by_state { (&state).into() } else { Default::default() },
            topic_names: if by_state { Default::default() } else { (&names).into() },
            timeout_ms: self.timeout_ms(),
        };
        let reply = connection.call(&request).await?;
        let response: DeleteTopicsResponse<'_> = reply.decode()?;
        connection.throttle(response.throttle_time_ms);
        let found = response.responses.iter().find(|result| result.name == Some(name));
        let result = found.ok_or(Error::Nonsense { key: ApiKey::DeleteTopics, what: "the topic is missing" })?;
        match result.error_code {
            ErrorCode::None => Ok(()),
            ErrorCode::UnknownTopicOrPartition => Err(Error::NoTopic { topic: name.to_owned() }),
            code => Err(self.refusal(format!("topic {name}"), code, result.error_message).await),
        }
    }

    /// All topics, in order of their names.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn topics(&self) -> Result<Vec<Topic>, Error> {
        let reply = self.retrying(self.deadline(), async || self.ask_for_metadata(None).await).await?;
        let response: MetadataResponse<'_> = reply.decode()?;
        let named = response.topics.iter().filter_map(|topic| Some((topic.name?, topic)));
        let mut topics: Vec<Topic> = named.map(|(name, topic)| described_topic(name, &topic)).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// One topic as the cluster describes it now, never created by the question.
    ///
    /// # Errors
    /// The topic does not exist, or nobody answers.
    pub async fn describe_topic(&self, name: &str) -> Result<Topic, Error> {
        let asked = [MetadataRequestTopic { name: Some(name), ..Default::default() }];
        let attempt = async || self.ask_for_metadata(Some((&asked).into())).await;
        let reply = self.retrying(self.deadline(), attempt).await?;
        let response: MetadataResponse<'_> = reply.decode()?;
        let found = response.topics.iter().find(|topic| topic.name == Some(name));
        match found.filter(|topic| !topic.error_code.is_error()) {
            Some(topic) => Ok(described_topic(name, &topic)),
            None => Err(Error::NoTopic { topic: name.to_owned() }),
        }
    }

    /// Offsets of partitions, each asked of its leader; answered in the order of the questions.
    ///
    /// # Errors
    /// A partition does not exist, a leader does not answer.
    pub async fn list_offsets(&self, asked: &[(&str, PartitionIndex, OffsetSpec)]) -> Result<Vec<ListedOffset>, Error> {
        let mut found: Vec<Option<ListedOffset>> = vec![None; asked.len()];
        self.retrying(self.deadline(), async || {
            while found.iter().any(Option::is_none) {
                self.list_offsets_round(asked, &mut found).await?;
            }
            Ok(())
        })
        .await?;
        Ok(found.into_iter().map(|found| found.expect("tried until all were found")).collect())
    }

    /// Asks the open questions, of each partition the first: a request may name a partition only once.
    async fn list_offsets_round(
        &self,
        asked: &[(&str, PartitionIndex, OffsetSpec)],
        found: &mut [Option<ListedOffset>],
    ) -> Result<(), Error> {
        let mut by_leader: BTreeMap<BrokerId, Questions<'_>> = BTreeMap::new();
        for (index, &(topic, partition, _)) in asked.iter().enumerate() {
            if found[index].is_none() {
                let (leader, epoch) = self.leader(topic, partition).await?;
                by_leader.entry(leader).or_default().entry((topic, partition)).or_insert((index, epoch));
            }
        }
        for (leader, questions) in by_leader {
            let result = self.list_offsets_of(leader, asked, &questions, found).await;
            if result.as_ref().is_err_and(Error::is_about_metadata) {
                questions.keys().for_each(|(topic, _)| self.doubt_topic(topic));
            }
            result?;
        }
        Ok(())
    }

    /// The questions that one leader can answer.
    async fn list_offsets_of(
        &self,
        leader: BrokerId,
        asked: &[(&str, PartitionIndex, OffsetSpec)],
        questions: &Questions<'_>,
        found: &mut [Option<ListedOffset>],
    ) -> Result<(), Error> {
        let mut by_topic: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (&(topic, partition_index), &(index, current_leader_epoch)) in questions {
            let timestamp = asked[index].2.timestamp();
            let question = ListOffsetsPartition { partition_index, current_leader_epoch, timestamp };
            by_topic.entry(topic).or_default().push(question);
        }
        let topics =
            by_topic.into_iter().map(|(name, partitions)| ListOffsetsTopic { name, partitions: partitions.into() });
        let request = ListOffsetsRequest {
            replica_id: BrokerId(-1),
            isolation_level: 0,
            topics: topics.collect(),
            timeout_ms: self.timeout_ms(),
        };
        let connection = self.connection(leader, Lane::CONTROL).await?;
        let reply = connection.call(&request).await?;
        let response: ListOffsetsResponse<'_> = reply.decode()?;
        connection.throttle(response.throttle_time_ms);
        let mut answers = BTreeMap::new();
        for topic in &response.topics {
            answers.extend(topic.partitions.iter().map(|answer| ((topic.name, answer.partition_index), answer)));
        }
        for (&(topic, partition), &(index, _)) in questions {
            let answer = answers.get(&(topic, partition));
            let missing = Error::Nonsense { key: ApiKey::ListOffsets, what: "a partition is missing" };
            let answer = answer.ok_or(missing)?;
            if answer.error_code.is_error() {
                return Err(Error::refused(format!("{topic}-{partition}"), answer.error_code, None));
            }
            found[index] = Some(listed(answer));
        }
        Ok(())
    }

    /// A connection to the controller, or to anybody where none is known.
    pub(crate) async fn controller(&self) -> Result<Connection, Error> {
        if self.with_metadata(|metadata| metadata.brokers().len()) == 0 {
            self.ask_for_metadata(Some(Default::default())).await?;
        }
        match self.with_metadata(crate::Metadata::controller) {
            Some(controller) => self.connection(controller, Lane::CONTROL).await,
            None => self.any_connection().await,
        }
    }

    /// A refusal; where the broker is not the controller, the next try asks who is.
    pub(crate) async fn refusal(&self, what: String, code: ErrorCode, message: Option<&str>) -> Error {
        if code == ErrorCode::NotController
            && let Err(error) = self.ask_for_metadata(Some(Default::default())).await
        {
            return error;
        }
        Error::refused(what, code, message)
    }

    /// What brokers are told about how long they may take: less than this client waits.
    pub(crate) fn timeout_ms(&self) -> i32 {
        let timeout = self.options().timeout.min(self.options().connection.request_timeout);
        let timeout = timeout.saturating_sub(Duration::from_millis(500)).max(Duration::from_millis(500));
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

fn listed(answer: &ListOffsetsPartitionResponse) -> ListedOffset {
    ListedOffset {
        offset: Some(answer.offset).filter(|offset| offset.0 >= 0),
        timestamp: Some(WallTime(answer.timestamp)).filter(|timestamp| timestamp.0 >= 0),
        leader_epoch: answer.leader_epoch,
    }
}
