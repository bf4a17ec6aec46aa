//! The state of the cluster as its brokers tell it: who they are, what their log directories hold, which features are final.
//!
//! Stateless, like the rest of administration.

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex};
use wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsPartition};
use wire::messages::{
    ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeLogDirsRequest,
    DescribeLogDirsResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::versions::SOFTWARE;
use crate::{Broker, Client, Error};

/// Asks for brokers, not for controllers.
const BROKERS: i8 = 1;

/// Who a cluster is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterDescription {
    pub id: String,
    /// To brokers of Kafka, any live broker that takes requests for the controller.
    pub controller: Option<BrokerId>,
    pub brokers: Vec<DescribedBroker>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribedBroker {
    pub broker: Broker,
    /// Registered, and not allowed to lead anything now.
    pub is_fenced: bool,
}

/// A log directory of one broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDir {
    pub path: String,
    pub error: ErrorCode,
    pub replica_count: usize,
    /// Of all replicas in it.
    pub replica_bytes: u64,
    /// Of the volume that it is on; `None` where the broker does not know.
    pub total_bytes: Option<u64>,
    pub usable_bytes: Option<u64>,
    /// Takes no new replicas.
    pub is_cordoned: bool,
}

/// A feature whose level the cluster has agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinalizedFeature {
    pub name: String,
    pub level: i16,
}

impl Client {
    /// Who the cluster is, by any of its brokers.
    ///
    /// # Errors
    /// The broker's refusal, or nobody answers.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, Error> {
        let reply = self
            .retrying(self.deadline(), async || {
                let connection = self.any_connection().await?;
                let mut request = DescribeClusterRequest { endpoint_type: BROKERS, ..Default::default() };
                // An older broker lists no fenced ones, and can't be asked for them.
                request.include_fenced_brokers = connection.version::<DescribeClusterRequest>()? >= 2;
                connection.call(&request).await
            })
            .await?;
        let response: DescribeClusterResponse<'_> = reply.decode()?;
        if response.error_code.is_error() {
            return Err(Error::refused("the cluster", response.error_code, response.error_message));
        }
        let nonsense = Error::Nonsense { key: ApiKey::DescribeCluster, what: "a broker with a port that is none" };
        let brokers = response.brokers.iter().map(|broker| {
            let port = u16::try_from(broker.port).ok()?;
            let rack = broker.rack.map(str::to_owned);
            let (id, host) = (broker.broker_id, broker.host.to_owned());
            Some(DescribedBroker { broker: Broker { id, host, port, rack }, is_fenced: broker.is_fenced })
        });
        let mut brokers = brokers.collect::<Option<Vec<_>>>().ok_or(nonsense)?;
        brokers.sort_by_key(|described| described.broker.id);
        let controller = Some(response.controller_id).filter(|id| id.0 >= 0);
        Ok(ClusterDescription { id: response.cluster_id.to_owned(), controller, brokers })
    }

    /// The log directories of one broker, which the cluster's metadata must have named before.
    ///
    /// # Errors
    /// The broker's refusal, or it does not answer. One attempt.
    pub async fn log_dirs(&self, broker: BrokerId) -> Result<Vec<LogDir>, Error> {
        let reply = self.call(broker, &DescribeLogDirsRequest { topics: None }).await?;
        let response: DescribeLogDirsResponse<'_> = reply.decode()?;
        if response.error_code.is_error() {
            return Err(Error::refused(format!("log directories of broker {broker}"), response.error_code, None));
        }
        let dirs = response.results.iter().map(|result| {
            let (mut replica_count, mut replica_bytes) = (0, 0u64);
            for topic in &result.topics {
                for partition in &topic.partitions {
                    replica_count += 1;
                    replica_bytes = replica_bytes.saturating_add(u64::try_from(partition.partition_size).unwrap_or(0));
                }
            }
            LogDir {
                path: result.log_dir.to_owned(),
                error: result.error_code,
                replica_count,
                replica_bytes,
                total_bytes: u64::try_from(result.total_bytes).ok(),
                usable_bytes: u64::try_from(result.usable_bytes).ok(),
                is_cordoned: result.is_cordoned,
            }
        });
        Ok(dirs.collect())
    }

    /// The sizes in bytes of partitions, by what the leader of each has of it; those that a leader does not know are missing.
    ///
    /// # Errors
    /// A partition has no leader, or a broker refuses or does not answer. One attempt.
    pub async fn partition_sizes(
        &self,
        partitions: &[(&str, PartitionIndex)],
    ) -> Result<BTreeMap<(String, PartitionIndex), u64>, Error> {
        let mut by_leader: BTreeMap<BrokerId, BTreeMap<&str, Vec<PartitionIndex>>> = BTreeMap::new();
        for &(topic, partition) in partitions {
            let (leader, _) = self.leader(topic, partition).await?;
            by_leader.entry(leader).or_default().entry(topic).or_default().push(partition);
        }
        let mut sizes = BTreeMap::new();
        for (leader, topics) in by_leader {
            let asked =
                |(topic, partitions): (_, Vec<_>)| DescribableLogDirTopic { topic, partitions: partitions.into() };
            let request = DescribeLogDirsRequest { topics: Some(topics.into_iter().map(asked).collect()) };
            let reply = self.call(leader, &request).await?;
            let response: DescribeLogDirsResponse<'_> = reply.decode()?;
            if response.error_code.is_error() {
                return Err(Error::refused(format!("log directories of broker {leader}"), response.error_code, None));
            }
            for dir in &response.results {
                for topic in &dir.topics {
                    let size = |found: DescribeLogDirsPartition| {
                        let bytes = u64::try_from(found.partition_size).ok().filter(|_| !found.is_future_key)?;
                        Some(((topic.name.to_owned(), found.partition_index), bytes))
                    };
                    sizes.extend(topic.partitions.iter().filter_map(size));
                }
            }
        }
        Ok(sizes)
    }

    /// The features whose levels are final; empty from a broker that tells none.
    ///
    /// # Errors
    /// The broker's refusal, or nobody answers.
    pub async fn finalized_features(&self) -> Result<Vec<FinalizedFeature>, Error> {
        let reply = self.call_any(&SOFTWARE).await?;
        let response: ApiVersionsResponse<'_> = reply.decode()?;
        if response.error_code.is_error() {
            return Err(Error::refused("the broker's versions", response.error_code, None));
        }
        let features = response.finalized_features.iter();
        Ok(features
            .map(|found| FinalizedFeature { name: found.name.to_owned(), level: found.max_version_level })
            .collect())
    }
}
