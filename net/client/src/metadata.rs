//! What the client knows of the cluster: brokers and their addresses, topics, partitions and their leaders.
//!
//! Owner: one [`crate::Client`]. Pure: made and changed by Metadata responses alone.
//!
//! Invariants: within one topic id the leader epoch of a partition never goes back, so an answer of a broker that lags behind
//! does not send anybody to a leader that was replaced (KIP-320).

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{BrokerId, Instant, LeaderEpoch, NO_EPOCH, PartitionIndex, Uuid};
use wire::ErrorCode;
use wire::messages::MetadataResponse;
use wire::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};

/// Where a broker listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broker {
    pub id: BrokerId,
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
}

impl Broker {
    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A topic as the cluster described it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    pub name: Rc<str>,
    /// Zero from brokers that know no topic ids.
    pub id: Uuid,
    pub is_internal: bool,
    /// In order of their index, which is their place: a topic with a gap counts up to the gap.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    pub error: ErrorCode,
    pub leader: Option<BrokerId>,
    pub leader_epoch: LeaderEpoch,
    pub replicas: Vec<BrokerId>,
    pub in_sync: Vec<BrokerId>,
    pub offline: Vec<BrokerId>,
}

impl Topic {
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        usize::try_from(index.0).ok().and_then(|index| self.partitions.get(index))
    }
}

/// What is known, and since when.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    brokers: BTreeMap<BrokerId, Broker>,
    /// With the time it was last heard of; `None` once that is no longer believed.
    topics: BTreeMap<Rc<str>, (Rc<Topic>, Option<Instant>)>,
    controller: Option<BrokerId>,
    cluster_id: Option<String>,
}

impl Metadata {
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &Broker> {
        self.brokers.values()
    }

    #[must_use]
    pub fn controller(&self) -> Option<BrokerId> {
        self.controller
    }

    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Rc<Topic>> {
        self.topics.get(name).map(|(topic, _)| topic)
    }

    /// The name of the topic that has this id.
    #[must_use]
    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.topics.values().find(|(topic, _)| topic.id == id).map(|(topic, _)| &*topic.name)
    }

    /// The topic, unless it was last heard of before `oldest`.
    #[must_use]
    pub fn topic_since(&self, name: &str, oldest: Instant) -> Option<&Rc<Topic>> {
        self.topics.get(name).filter(|(_, heard)| *heard >= Some(oldest)).map(|(topic, _)| topic)
    }

    /// Has a topic asked for anew. Its epochs are remembered.
    pub fn doubt_topic(&mut self, name: &str) {
        if let Some((_, heard)) = self.topics.get_mut(name) {
            *heard = None;
        }
    }

    /// Takes in a response: its brokers replace those known, its topics theirs.
    pub fn update(&mut self, response: &MetadataResponse<'_>, now: Instant) {
        if !response.brokers.is_empty() {
            // A port that is none can't be connected to; the broker is as good as absent.
            let brokers = response.brokers.iter().filter_map(|broker| {
                let (id, port) = (broker.node_id, u16::try_from(broker.port).ok()?);
                let rack = broker.rack.map(str::to_owned);
                Some((id, Broker { id, host: broker.host.to_owned(), port, rack }))
            });
            self.brokers = brokers.collect();
        }
        self.controller = Some(response.controller_id).filter(|id| id.0 >= 0);
        self.cluster_id = response.cluster_id.map(str::to_owned).or(self.cluster_id.take());
        for topic in &response.topics {
            let Some(name) = topic.name else { continue };
            if topic.error_code.is_error() {
                // A topic that is gone is forgotten; one that is in trouble is kept as it was.
                if matches!(topic.error_code, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId) {
                    self.topics.remove(name);
                }
                continue;
            }
            let topic = self.merged(name, &topic);
            self.topics.insert(topic.name.clone(), (Rc::new(topic), Some(now)));
        }
    }

    /// A topic of a response, with what is known better.
    fn merged(&self, name: &str, described: &MetadataResponseTopic<'_>) -> Topic {
        let old = self.topic(name);
        let same_topic = old.filter(|old| old.id == described.topic_id);
        let mut listed: BTreeMap<PartitionIndex, Partition> = BTreeMap::new();
        for partition in &described.partitions {
            let index = partition.partition_index;
            let (mut new, old) = (described_partition(&partition), same_topic.and_then(|topic| topic.partition(index)));
            if let Some(old) = old.filter(|old| old.leader_epoch > new.leader_epoch && new.leader_epoch != NO_EPOCH) {
                (new.leader, new.leader_epoch) = (old.leader, old.leader_epoch);
            }
            listed.insert(index, new);
        }
        let in_place = listed.into_iter().enumerate();
        let in_place = in_place.take_while(|(place, (index, _))| usize::try_from(index.0).is_ok_and(|i| i == *place));
        Topic {
            name: old.map_or_else(|| name.into(), |old| old.name.clone()),
            id: described.topic_id,
            is_internal: described.is_internal,
            partitions: in_place.map(|(_, (_, partition))| partition).collect(),
        }
    }
}

/// A topic of a response as it stands there.
pub(crate) fn described_topic(name: &str, described: &MetadataResponseTopic<'_>) -> Topic {
    Metadata::default().merged(name, described)
}

fn described_partition(partition: &MetadataResponsePartition<'_>) -> Partition {
    Partition {
        error: partition.error_code,
        leader: Some(partition.leader_id).filter(|id| id.0 >= 0),
        leader_epoch: partition.leader_epoch,
        replicas: partition.replica_nodes.to_vec(),
        in_sync: partition.isr_nodes.to_vec(),
        offline: partition.offline_replicas.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Array;
    use wire::messages::metadata::MetadataResponseBroker;

    /// Partitions as (index, leader, epoch), after which the topic's are checked as (leader, epoch) in order.
    fn check(metadata: &mut Metadata, id: u8, partitions: &[(i32, i32, i32)], expected: &[(Option<i32>, i32)]) {
        let partitions: Vec<_> = partitions
            .iter()
            .map(|&(index, leader, epoch)| MetadataResponsePartition {
                partition_index: PartitionIndex(index),
                leader_id: BrokerId(leader),
                leader_epoch: LeaderEpoch(epoch),
                ..Default::default()
            })
            .collect();
        let topic = MetadataResponseTopic {
            name: Some("t"),
            topic_id: Uuid([id; 16]),
            partitions: partitions.into(),
            ..Default::default()
        };
        let response = MetadataResponse { topics: vec![topic].into(), ..Default::default() };
        metadata.update(&response, Instant(0));
        let topic = metadata.topic("t").expect("just described");
        let found: Vec<_> = topic.partitions.iter().map(|p| (p.leader.map(|id| id.0), p.leader_epoch.0)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn leader_epochs_go_forward_within_a_topic_id() {
        let mut metadata = Metadata::default();
        check(&mut metadata, 1, &[(0, 1, 5), (1, 2, 5)], &[(Some(1), 5), (Some(2), 5)]);
        check(&mut metadata, 1, &[(1, -1, 6), (0, 3, 4)], &[(Some(1), 5), (None, 6)]);
        check(&mut metadata, 1, &[(0, 3, 7), (1, 1, -1)], &[(Some(3), 7), (Some(1), -1)]);
        check(&mut metadata, 2, &[(0, 2, 0)], &[(Some(2), 0)]);
        check(&mut metadata, 2, &[(2, 2, 0), (0, 1, 1), (-1, 1, 1)], &[]);
    }

    #[test]
    fn a_topic_that_is_gone_is_forgotten_and_one_in_trouble_is_kept() {
        let mut metadata = Metadata::default();
        check(&mut metadata, 1, &[(0, 1, 5)], &[(Some(1), 5)]);
        for (code, known) in [(ErrorCode::LeaderNotAvailable, true), (ErrorCode::UnknownTopicOrPartition, false)] {
            let topic = MetadataResponseTopic { name: Some("t"), error_code: code, ..Default::default() };
            let broker = MetadataResponseBroker { node_id: BrokerId(7), host: "::1", port: 9, rack: None };
            let response = MetadataResponse {
                topics: vec![topic].into(),
                brokers: Array::from(vec![broker, MetadataResponseBroker { port: 70_000, ..Default::default() }]),
                ..Default::default()
            };
            metadata.update(&response, Instant(1));
            assert_eq!(metadata.topic("t").is_some(), known);
        }
        assert_eq!(metadata.brokers().map(Broker::address).collect::<Vec<_>>(), ["[::1]:9"]);
    }
}
