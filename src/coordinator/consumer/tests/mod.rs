//! A group in a time of our own: what members are told, what the log keeps, and what holds whatever they do.

mod random;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Instant, PartitionIndex, Uuid, WallTime};
use storage::LogId;
use wire::ErrorCode;
use wire::group_records::Key;

use super::changes::{Current, GroupEpoch, Resolved, Said, TargetEpoch};
use super::{Change, ConsumerGroup, ConsumerHeartbeat, HeartbeatTold, JOINS, Step, decode, encode};
use crate::config::NodeConfig;
use crate::coordinator::assignor::Partitions;
use crate::coordinator::config::GroupConfig;
use crate::coordinator::effects::{Effects, Record, Timer};
use crate::coordinator::table::Moment;
use crate::coordinator::topics::{TopicInfo, Topics};

const GROUP: &str = "g";

/// Topics that come, go and grow; each has the id of its number.
#[derive(Default)]
struct Cluster {
    version: u64,
    topics: BTreeMap<String, TopicInfo>,
    made: u8,
}

impl Cluster {
    fn set(&mut self, name: &str, partitions: i32) {
        self.version += 1;
        match self.topics.get_mut(name) {
            Some(topic) => topic.partitions = partitions,
            None => {
                self.made += 1;
                self.topics.insert(name.to_owned(), TopicInfo { id: Uuid([self.made; 16]), partitions });
            }
        }
    }

    fn remove(&mut self, name: &str) {
        self.version += 1;
        self.topics.remove(name);
    }
}

impl Topics for Cluster {
    fn version(&self) -> u64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        self.topics.get(name).copied()
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.as_str())
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.topics.keys().map(String::as_str))
    }
}

/// What the log keeps of a group, and what follows from it.
type Durable<'g> = (
    GroupEpoch,
    TargetEpoch,
    Vec<(&'g String, &'g Said, &'g Partitions, &'g Current)>,
    &'g BTreeMap<String, Resolved>,
    &'g BTreeMap<String, String>,
    BTreeMap<&'g LogId, &'g String>,
);

fn durable(group: &ConsumerGroup) -> Durable<'_> {
    let members =
        group.members.iter().map(|(id, member)| (id, &member.said, &member.target, &member.current)).collect();
    (group.epoch, group.assignment, members, &group.regexes, &group.instances, group.owners.iter().collect())
}

struct World {
    group: ConsumerGroup,
    cluster: Cluster,
    config: GroupConfig,
    now_ms: u64,
    timers: BTreeSet<(Instant, Timer)>,
    log: Vec<Change>,
}

impl World {
    fn with_topics(topics: &[(&str, i32)]) -> Self {
        let mut cluster = Cluster::default();
        topics.iter().for_each(|(name, partitions)| cluster.set(name, *partitions));
        Self {
            group: ConsumerGroup::new(GROUP.to_owned()),
            cluster,
            config: GroupConfig::of(&NodeConfig::default()),
            now_ms: 1_000_000,
            timers: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    /// Runs a step of the group and takes its effects up.
    fn step<T>(&mut self, step: impl FnOnce(&mut ConsumerGroup, &mut Step<'_>) -> T) -> T {
        let now = Moment { instant: Instant(self.now_ms * 1_000_000), wall: WallTime(self.now_ms as i64) };
        let mut effects = Effects::default();
        let told = step(
            &mut self.group,
            &mut Step { topics: &self.cluster, config: &self.config, now, effects: &mut effects },
        );
        for record in effects.records {
            match record {
                Record::Consumer { group, change } if group == GROUP => self.log.push(change),
                other => panic!("{other:?}"),
            }
        }
        self.timers.extend(effects.timers);
        told
    }

    fn ask(&mut self, beat: &ConsumerHeartbeat) -> Result<HeartbeatTold, ErrorCode> {
        beat.check().and_then(|()| beat.check_regex()).map_err(|rejection| rejection.error)?;
        let told =
            self.step(
                |group, step| {
                    if beat.member_epoch < JOINS { group.leave(beat, step) } else { group.heartbeat(beat, step) }
                },
            );
        told.map_err(|rejection| rejection.error)
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now_ms + time.as_millis() as u64;
        while let Some((at, timer)) = self.timers.first().filter(|(at, _)| at.0 / 1_000_000 <= end).cloned() {
            self.timers.pop_first();
            self.now_ms = self.now_ms.max(at.0 / 1_000_000);
            self.step(|group, step| group.on_timer(&timer, step));
        }
        self.now_ms = end;
    }

    /// The group as one who reads the log has it; the same as the live one.
    fn restored(&self) -> ConsumerGroup {
        let mut restored = ConsumerGroup::new(GROUP.to_owned());
        for change in &self.log {
            let (key, value) = encode(GROUP, change);
            let read = decode(Key::from_bytes(&key).expect("a key"), value.as_deref()).expect("a value");
            assert_eq!(read, Some((GROUP, change.clone())), "as it was written");
            restored.apply(change.clone());
        }
        assert_eq!(durable(&restored), durable(&self.group));
        restored
    }

    /// The coordinator is another one, which has read the log.
    fn restart(&mut self) {
        self.group = self.restored();
        self.timers.clear();
        self.step(|group, step| group.resume(step));
    }

    fn partition(&self, topic: &str, index: i32) -> LogId {
        LogId { topic_id: self.cluster.topics[topic].id, partition: PartitionIndex(index) }
    }

    /// Indexes of a topic among what a member was told; `None` where it was told nothing.
    fn told(&self, told: &Result<HeartbeatTold, ErrorCode>, topic: &str) -> Option<Vec<i32>> {
        let assignment = told.as_ref().expect("not turned away").assignment.as_ref()?;
        let topic_id = self.cluster.topics[topic].id;
        Some(assignment.iter().filter(|id| id.topic_id == topic_id).map(|id| id.partition.0).collect())
    }
}

fn beat(member_id: &str, member_epoch: i32) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group: GROUP.into(),
        member_id: member_id.into(),
        member_epoch,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: None,
        topics: None,
        regex: None,
        assignor: None,
        owned: None,
        chooses_member_id: true,
    }
}

fn join(member_id: &str, topics: &[&str]) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        rebalance_timeout_ms: Some(30_000),
        topics: Some(topics.iter().map(|topic| (*topic).to_owned()).collect()),
        owned: Some(Vec::new()),
        ..beat(member_id, JOINS)
    }
}

fn owning(beat: ConsumerHeartbeat, owned: impl IntoIterator<Item = LogId>) -> ConsumerHeartbeat {
    ConsumerHeartbeat { owned: Some(owned.into_iter().collect()), ..beat }
}

fn of_instance(beat: ConsumerHeartbeat, instance: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat { instance_id: Some(instance.into()), ..beat }
}
