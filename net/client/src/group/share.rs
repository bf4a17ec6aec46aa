//! The share of a member: partitions that come, from where the group was, and go; and what it commits of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{LeaderEpoch, Offset, PartitionIndex};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::{Array, ErrorCode};

use super::{GroupProtocol, Happened, Inner, Place};
use crate::groups::FETCH_GROUPS_VERSION;
use crate::{Error, OffsetSpec, OutOfRange};

impl Inner {
    /// Reads these partitions from now on: those that it had from where it was, the others from where the group was.
    pub(super) async fn take(&self, share: BTreeSet<Place>) -> Result<(), Error> {
        let had: BTreeSet<Place> = self.assigned.borrow().keys().cloned().collect();
        for place in had.difference(&share) {
            self.assigned.borrow_mut().remove(place);
            self.lose(place.clone());
        }
        self.assigned_in.set(self.generation.get());
        let new: Vec<&Place> = share.difference(&had).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut starts = self.committed_of(&new).await?;
        let unread: Vec<&Place> = new.iter().copied().filter(|place| !starts.contains_key(*place)).collect();
        starts.extend(self.begins_of(&unread).await?);
        for (place, start) in starts.into_iter().filter(|(place, _)| share.contains(place)) {
            if self.options.reads {
                self.consumer.assign_at(&place.0, place.1, start);
            }
            self.assigned.borrow_mut().insert(place.clone(), start);
            self.tell(Happened::Gained { topic: place.0, partition: place.1, from: start });
        }
        Ok(())
    }

    fn lose(&self, (topic, partition): Place) {
        self.consumer.unassign(&topic, partition);
        self.tell(Happened::Lost { topic, partition });
    }

    pub(super) fn lose_all(&self) {
        self.unsettle();
        let lost = self.assigned.take();
        lost.into_keys().for_each(|place| self.lose(place));
        self.changed.notify_all();
    }

    /// Where the group was in these partitions; those that it has not read are left out.
    async fn committed_of(&self, places: &[&Place]) -> Result<BTreeMap<Place, Offset>, Error> {
        let mut by_topic: BTreeMap<&str, Vec<PartitionIndex>> = BTreeMap::new();
        for (topic, partition) in places.iter().copied() {
            by_topic.entry(topic).or_default().push(*partition);
        }
        let group = self.options.group.as_str();
        let found = self.client.retrying(self.client.deadline(), async || {
            let mut with_ids = Vec::with_capacity(by_topic.len());
            for (name, partitions) in &by_topic {
                let topic_id = self.client.topic(name).await?.id;
                with_ids.push(OffsetFetchRequestTopics {
                    name,
                    topic_id,
                    partition_indexes: partitions.as_slice().into(),
                });
            }
            let by_name = by_topic.iter().map(|(name, partitions)| OffsetFetchRequestTopic {
                name,
                partition_indexes: partitions.as_slice().into(),
            });
            let version = self.connection().await?.version::<OffsetFetchRequest<'_>>()?;
            let is_batch = version >= FETCH_GROUPS_VERSION;
            let of_group =
                OffsetFetchRequestGroup { group_id: group, topics: Some(with_ids.into()), ..Default::default() };
            let request = OffsetFetchRequest {
                group_id: if is_batch { "" } else { group },
                topics: Some(if is_batch { Array::empty() } else { by_name.collect() }),
                groups: if is_batch { vec![of_group].into() } else { Array::empty() },
                require_stable: false,
            };
            let reply = self.call(&request, Duration::ZERO).await.inspect_err(|_| self.coordinator.set(None))?;
            let response: OffsetFetchResponse<'_> = reply.decode()?;
            self.client.read_offsets(group, &response, version).await
        });
        Ok(found.await?.into_iter().map(|found| ((found.topic, found.partition), found.offset)).collect())
    }

    /// Where partitions are begun that the group has not read.
    async fn begins_of(&self, places: &[&Place]) -> Result<BTreeMap<Place, Offset>, Error> {
        let Some((topic, partition)) = places.first() else { return Ok(BTreeMap::new()) };
        let spec = match self.options.begin {
            OutOfRange::End => OffsetSpec::Latest,
            OutOfRange::Beginning => OffsetSpec::Earliest,
            OutOfRange::Fail => {
                let what = format!("an offset of group {} in {topic}-{partition}", self.options.group);
                return Err(Error::refused(what, ErrorCode::OffsetOutOfRange, None));
            }
        };
        let asked: Vec<_> = places.iter().map(|(topic, partition)| (topic.as_str(), *partition, spec)).collect();
        let found = self.client.list_offsets(&asked).await?;
        let start =
            |(place, found): (&&Place, crate::ListedOffset)| ((*place).clone(), found.offset.unwrap_or_default());
        Ok(places.iter().zip(found).map(start).collect())
    }

    /// Commits what has gone on since the last time, up to where `done` says.
    pub(super) async fn commit(&self, done: impl Fn(&str, PartitionIndex) -> Option<Offset>) -> Result<(), Error> {
        let mut by_topic: BTreeMap<String, Vec<(PartitionIndex, Offset)>> = BTreeMap::new();
        for ((topic, partition), committed) in &*self.assigned.borrow() {
            let position = done(topic, *partition).unwrap_or(*committed);
            if position > *committed {
                by_topic.entry(topic.clone()).or_default().push((*partition, position));
            }
        }
        if by_topic.is_empty() {
            return Ok(());
        }
        let mut topics = Vec::with_capacity(by_topic.len());
        for (name, partitions) in &by_topic {
            let topic_id = self.client.topic(name).await?.id;
            let partitions = partitions.iter().map(|(index, offset)| OffsetCommitRequestPartition {
                partition_index: *index,
                committed_offset: *offset,
                committed_leader_epoch: LeaderEpoch(-1),
                committed_metadata: Some(""),
            });
            topics.push(OffsetCommitRequestTopic { name, topic_id, partitions: partitions.collect() });
        }
        let member_id = self.member_id.borrow().clone();
        // Under the next generation already, it would commit what may be another's by then. With KIP-848 the last epoch is the one that counts.
        let generation = match self.options.protocol {
            GroupProtocol::Classic => self.assigned_in.get(),
            GroupProtocol::Consumer => self.generation.get(),
        };
        let request = OffsetCommitRequest {
            group_id: &self.options.group,
            generation_id_or_member_epoch: generation,
            member_id: &member_id,
            group_instance_id: self.options.instance.as_deref(),
            topics: topics.into(),
            ..Default::default()
        };
        let deadline = self.client.deadline();
        self.client
            .retrying(deadline, async || {
                let reply = self.call(&request, Duration::ZERO).await.inspect_err(|_| self.coordinator.set(None))?;
                let response: OffsetCommitResponse<'_> = reply.decode()?;
                let mut partitions = response.topics.iter().flat_map(|topic| topic.partitions.to_vec());
                match partitions.find(|partition| partition.error_code.is_error()) {
                    Some(refused) => Err(Error::refused(self.what(), refused.error_code, None)),
                    None => Ok(()),
                }
            })
            .await?;
        let mut assigned = self.assigned.borrow_mut();
        for (topic, partitions) in by_topic {
            for (partition, offset) in partitions {
                if let Some(committed) = assigned.get_mut(&(topic.clone(), partition)) {
                    *committed = offset.max(*committed);
                }
            }
        }
        Ok(())
    }
}
