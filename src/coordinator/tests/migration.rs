//! Groups of both kinds behind one table, and groups that change their kind while they have members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{PartitionIndex, Random};
use storage::LogId;
use wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition as Named};
use wire::{Array, ErrorCode, Versioned};

use super::{GROUP, TOPIC, TOPIC_ID, World, fetch_offsets, join, leave, speaker};
use crate::config::NodeConfig;
use crate::coordinator::consumer::{ConsumerHeartbeat, HeartbeatTold};
use crate::coordinator::message::{
    GroupAnswer, GroupRequest, Join, Joined, Leaving, ListedGroup, Protocol, Speaker, Sync, TopicPartition,
};
use crate::coordinator::{ConsumerGroupConfig, GroupConfig, GroupTable, Migration};

const LEAVES: i32 = -1;

fn partitions(indexes: &[i32]) -> Array<'static, Named<'static>> {
    let partitions: Vec<_> = indexes.iter().copied().map(PartitionIndex).collect();
    let named = Named { topic: TOPIC, partitions: partitions.into() };
    if indexes.is_empty() { Array::empty() } else { vec![named].into() }
}

/// What a cooperative member says that reads the topic and owns some of it.
fn subscription(owned: &[i32]) -> Vec<u8> {
    let said = ConsumerProtocolSubscription {
        topics: vec![TOPIC].into(),
        user_data: None,
        owned_partitions: partitions(owned),
        generation_id: -1,
        rack_id: None,
    };
    said.to_bytes(3).expect("short")
}

fn share(indexes: &[i32]) -> Vec<u8> {
    let share = ConsumerProtocolAssignment { assigned_partitions: partitions(indexes), user_data: None };
    share.to_bytes(3).expect("short")
}

fn indexes(share: &[u8]) -> Vec<i32> {
    let read = ConsumerProtocolAssignment::read(share).expect("a share");
    read.assigned_partitions.iter().flat_map(|named| named.partitions.to_vec()).map(|index| index.0).collect()
}

fn beat(member_id: &str, member_epoch: i32, owned: Option<&[i32]>) -> ConsumerHeartbeat {
    let joins = member_epoch == 0;
    let id = |index: &i32| LogId { topic_id: TOPIC_ID, partition: PartitionIndex(*index) };
    ConsumerHeartbeat {
        group: GROUP.into(),
        member_id: member_id.into(),
        member_epoch,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: joins.then_some(60_000),
        topics: joins.then(|| vec![TOPIC.to_owned()]),
        regex: None,
        assignor: None,
        owned: owned.map(|owned| owned.iter().map(id).collect()),
        chooses_member_id: true,
    }
}

impl World {
    fn beat(&mut self, beat: ConsumerHeartbeat) -> Result<HeartbeatTold, ErrorCode> {
        let ticket = self.ask(GroupRequest::ConsumerHeartbeat(beat));
        match self.answers.remove(&ticket) {
            Some(GroupAnswer::ConsumerHeartbeat(told)) => told.map_err(|rejection| rejection.error),
            other => panic!("{other:?}"),
        }
    }

    /// A cooperative member of the classic protocol joins.
    fn rejoin(&mut self, member_id: &str, instance: Option<&str>, owned: &[i32]) -> Option<Joined> {
        let GroupRequest::Join(asked) = join(member_id, instance) else { unreachable!() };
        let protocols = vec![Protocol { name: "cooperative-sticky".into(), metadata: subscription(owned) }];
        let ticket = self.ask(GroupRequest::Join(Join { protocols, ..asked }));
        self.joined(ticket)
    }

    /// What a classic member is told its share is.
    fn share(&mut self, member_id: &str, generation: i32) -> Result<Vec<i32>, ErrorCode> {
        let ticket = self.sync(member_id, generation, &[]);
        let synced = self.synced(ticket).expect("told at once");
        if synced.error == ErrorCode::None { Ok(indexes(&synced.assignment)) } else { Err(synced.error) }
    }

    fn listed(&self) -> ListedGroup {
        self.table.list().next().expect("the group is there")
    }

    /// One who reads the log has the groups as they are.
    fn check_log(&self) {
        let mut restored = GroupTable::new(GroupConfig::of(&NodeConfig::default()));
        self.log.iter().for_each(|record| restored.replay(record.clone(), self.now()));
        let of = |table: &GroupTable| table.list().map(|group| (group.group, group.kind)).collect::<Vec<_>>();
        assert_eq!(of(&restored), of(&self.table));
    }

    /// Two classic members of a stable group in generation 1, each with two partitions.
    fn classic_pair(&mut self) -> [String; 2] {
        let ids = [(); 2].map(|()| self.rejoin("", None, &[]).expect("told its id").member_id);
        let GroupRequest::Join(asked) = join("", None) else { unreachable!() };
        let tickets = ids.clone().map(|member_id| {
            let protocols = vec![Protocol { name: "cooperative-sticky".into(), metadata: subscription(&[]) }];
            self.ask(GroupRequest::Join(Join { member_id, protocols, ..asked.clone() }))
        });
        self.pass(Duration::from_secs(7));
        let leader = self.joined(tickets[0]).expect("begun").leader;
        self.joined(tickets[1]).expect("begun");
        let assignments = vec![(ids[0].clone(), share(&[0, 1])), (ids[1].clone(), share(&[2, 3]))];
        let sync = Sync {
            group: GROUP.into(),
            speaker: speaker(&leader, 1),
            protocol_type: None,
            protocol: None,
            assignments,
        };
        self.ask(GroupRequest::Sync(sync));
        self.answers.clear();
        assert_eq!(self.state(), "Stable");
        ids
    }
}

fn owned(told: &HeartbeatTold) -> Vec<i32> {
    told.assignment.iter().flatten().map(|id| id.partition.0).collect()
}

#[test]
fn a_consumer_joins_classic_members_and_leaves_them_again() {
    let mut world = World::new();
    let [a, b] = world.classic_pair();
    let told = world.beat(beat("c", 0, Some(&[]))).expect("joins");
    assert_eq!((told.member_epoch, owned(&told)), (2, vec![]), "nothing is free");
    assert_eq!((world.listed().kind, world.listed().state), ("consumer", "Reconciling"));
    assert_eq!(world.state(), "Dead", "DescribeGroups knows classic groups alone");
    // One of the others has something to give up: it is asked to join, told less, and joins without.
    assert_eq!([&a, &b].map(|id| world.heartbeat(id, 1)), [ErrorCode::RebalanceInProgress; 2]);
    let joined = world.rejoin(&a, None, &[0, 1]).expect("at once");
    assert_eq!((joined.error, joined.generation, joined.members.len()), (ErrorCode::None, 2, 0));
    assert_eq!(world.share(&a, 2), Ok(vec![0, 1]), "all that it had");
    assert_eq!(world.heartbeat(&a, 2), ErrorCode::None);
    let joined = world.rejoin(&b, None, &[2, 3]).expect("at once");
    assert_eq!(joined.generation, 1, "until it has given up");
    assert_eq!(world.share(&b, 1), Ok(vec![2]));
    assert_eq!(world.heartbeat(&b, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(owned(&world.beat(beat("c", 2, None)).expect("a member")), [0; 0]);
    assert_eq!(world.rejoin(&b, None, &[2]).expect("at once").generation, 2);
    assert_eq!(world.share(&b, 2), Ok(vec![2]));
    assert_eq!(world.share(&b, 1), Err(ErrorCode::IllegalGeneration));
    assert_eq!(owned(&world.beat(beat("c", 2, None)).expect("a member")), vec![3]);
    assert_eq!(world.listed().state, "Stable");
    // A member of one protocol is none in the words of the other.
    assert_eq!(world.heartbeat("c", 2), ErrorCode::UnknownMemberId);
    assert_eq!(world.done(leave("c")), ErrorCode::UnknownMemberId);
    world.check_log();
    // The last consumer leaves: the others are among themselves again.
    world.beat(beat("c", LEAVES, None)).expect("leaves");
    assert_eq!((world.listed().kind, world.listed().state), ("classic", "PreparingRebalance"));
    assert_eq!([&a, &b].map(|id| world.heartbeat(id, 2)), [ErrorCode::RebalanceInProgress; 2]);
    assert_eq!(world.beat(beat("c", 2, None)), Err(ErrorCode::GroupIdNotFound));
    assert!(world.rejoin(&a, None, &[0, 1]).is_none(), "waits for the other");
    let joined = world.rejoin(&b, None, &[2]).expect("all have joined");
    assert_eq!((joined.error, joined.generation), (ErrorCode::None, 3));
    world.check_log();
}

#[test]
fn classic_members_among_others_must_go_on_in_time() {
    let mut world = World::new();
    let [a, b] = world.classic_pair();
    world.beat(beat("c", 0, Some(&[]))).expect("joins");
    // One joins and does not ask for its share, the other does not join; both send heartbeats.
    assert_eq!(world.heartbeat(&b, 1), ErrorCode::RebalanceInProgress);
    let generation = world.rejoin(&a, None, &[0, 1]).expect("at once").generation;
    for _ in 0..15 {
        world.pass(Duration::from_millis(3900));
        assert_ne!(world.heartbeat(&a, generation), ErrorCode::UnknownMemberId);
        assert_ne!(world.heartbeat(&b, 1), ErrorCode::UnknownMemberId);
        let epoch = world.beat(beat("c", 2, None)).map(|told| told.member_epoch);
        assert_eq!(epoch, Ok(2));
    }
    world.pass(Duration::from_millis(2000));
    assert_eq!(world.heartbeat(&b, 1), ErrorCode::UnknownMemberId, "a minute is over");
    assert_eq!(world.heartbeat(&a, generation), ErrorCode::UnknownMemberId);
    let told = world.beat(beat("c", 2, None)).expect("a member");
    assert_eq!(owned(&told), [0, 1, 2, 3]);
    world.check_log();
    // The silent are gone after their own session, which is shorter than a consumer's.
    world.rejoin("", Some("one"), &[]).expect("at once");
    assert_eq!(world.listed().state, "Reconciling");
    world.pass(Duration::from_secs(11));
    assert_eq!(world.listed().state, "Assigning");
    assert_eq!(world.beat(beat("c", 3, None)).map(|told| told.member_epoch), Err(ErrorCode::FencedMemberEpoch));
}

#[test]
fn an_instance_changes_its_protocol_and_keeps_its_place() {
    let mut world = World::new();
    let joined = world.rejoin("", Some("one"), &[]);
    assert!(joined.is_none(), "waits for others to start");
    world.pass(Duration::from_secs(7));
    let id = world.answers.values().find_map(|answer| match answer {
        GroupAnswer::Joined(joined) => Some(joined.member_id.clone()),
        _ => None,
    });
    let id = id.expect("begun");
    world.answers.clear();
    world.sync(&id, 1, &[]);
    world.answers.clear();
    let upgraded = ConsumerHeartbeat { instance_id: Some("one".into()), ..beat("c", 0, Some(&[])) };
    let told = world.beat(upgraded).expect("joins in its place");
    assert_eq!((told.member_epoch, owned(&told).len(), world.listed().kind), (2, 4, "consumer"));
    let old = Speaker { instance_id: Some("one".into()), ..speaker(&id, 1) };
    assert_eq!(world.done(GroupRequest::Heartbeat { group: GROUP.into(), speaker: old }), ErrorCode::FencedInstanceId);
    // And back: nobody need join again, as each has what it is to have.
    let joined = world.rejoin("", Some("one"), &[]).expect("at once");
    assert_eq!((joined.error, joined.generation), (ErrorCode::None, 2));
    assert_eq!((world.listed().kind, world.listed().state), ("classic", "Stable"));
    assert_eq!(world.share(&joined.member_id, 2), Ok(vec![0, 1, 2, 3]));
    world.check_log();
    // An administrator takes it out by its name.
    let leaving = Leaving { member_id: String::new(), instance_id: Some("one".into()) };
    assert_eq!(world.done(GroupRequest::Leave { group: GROUP.into(), members: vec![leaving] }), ErrorCode::None);
}

#[test]
fn what_is_no_consumer_group_or_may_not_change_stays_as_it_is() {
    let mut world = World::new();
    let GroupRequest::Join(asked) = join("", None) else { unreachable!() };
    let connect = Join { protocol_type: "connect".into(), requires_member_id: false, ..asked.clone() };
    world.ask(GroupRequest::Join(connect));
    assert_eq!(world.beat(beat("c", 0, Some(&[]))), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(world.listed().kind, "classic");
    let closed = Migration { may_upgrade: false, may_downgrade: false };
    let consumer = ConsumerGroupConfig { migration: closed, ..GroupConfig::of(&NodeConfig::default()).consumer };
    let mut world = World::new();
    world.table = GroupTable::new(GroupConfig { consumer, ..GroupConfig::of(&NodeConfig::default()) });
    world.classic_pair();
    assert_eq!(world.beat(beat("c", 0, Some(&[]))), Err(ErrorCode::GroupIdNotFound));
    assert_eq!((world.listed().kind, world.state()), ("classic", "Stable"));
    // What members say must be the consumer protocol.
    let mut world = World::new();
    world.pair();
    assert_eq!(world.beat(beat("c", 0, Some(&[]))), Err(ErrorCode::GroupIdNotFound));
    assert_eq!((world.listed().kind, world.state()), ("classic", "Stable"));
    assert_eq!(
        world.beat(ConsumerHeartbeat { group: "other".into(), ..beat("c", 1, None) }),
        Err(ErrorCode::GroupIdNotFound)
    );
}

#[test]
fn an_empty_group_is_whichever_its_first_member_wants() {
    let mut world = World::new();
    world.done(super::commit("", -1, 7));
    let partition = TopicPartition { topic: TOPIC.into(), partition: PartitionIndex(0) };
    let told = world.beat(beat("c", 0, Some(&[]))).expect("joins");
    assert_eq!((told.member_epoch, world.listed().kind), (1, "consumer"));
    assert_eq!(world.done(GroupRequest::Delete { group: GROUP.into() }), ErrorCode::NonEmptyGroup);
    world.beat(beat("c", LEAVES, None)).expect("leaves");
    assert_eq!((world.listed().kind, world.listed().state), ("consumer", "Empty"));
    world.check_log();
    let ticket = world.ask(fetch_offsets(vec![partition]));
    let Some(GroupAnswer::Offsets(offsets)) = world.answers.remove(&ticket) else { panic!() };
    assert_eq!(offsets[0].1.as_ref().map(|committed| committed.offset.0), Some(7), "offsets stay");
    world.pair();
    assert_eq!(world.listed().kind, "classic");
    world.check_log();
    // Deleted, it begins from nothing.
    let mut world = World::new();
    world.beat(beat("c", 0, Some(&[]))).expect("joins");
    world.beat(beat("c", LEAVES, None)).expect("leaves");
    assert_eq!(world.done(GroupRequest::Delete { group: GROUP.into() }), ErrorCode::None);
    assert_eq!(world.table.list().count(), 0);
    let told = world.beat(beat("c", 0, Some(&[]))).expect("joins");
    assert_eq!((told.member_epoch, owned(&told).len()), (1, 4));
    world.check_log();
}

/// A client of either protocol, cooperative.
#[derive(Clone, Default)]
struct Client {
    is_classic: bool,
    epoch: i32,
    owned: BTreeSet<i32>,
    told: BTreeSet<i32>,
    must_join: bool,
}

/// Clients of both protocols come and go at random: no partition is with two of them, and in the end each is with one.
#[test]
fn whatever_members_of_both_protocols_do() {
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let mut world = World::new();
        world.beat(beat("first", 0, Some(&[]))).expect("joins");
        let mut clients: BTreeMap<String, Client> = BTreeMap::new();
        clients.insert("first".into(), Client::default());
        let mut made = 0;
        for step in 0..240 {
            let changes = step < 120;
            // One consumer stays, so that the coordinator assigns throughout.
            match random.below(8) {
                0 if changes && clients.len() < 6 => {
                    made += 1;
                    let client = Client { is_classic: random.chance(1, 2), must_join: true, ..Client::default() };
                    let id = if client.is_classic {
                        world.rejoin("", None, &[]).expect("told its id").member_id
                    } else {
                        format!("c{made}")
                    };
                    clients.insert(id, client);
                }
                1 if changes && clients.len() > 1 => {
                    let id = clients.keys().nth(random.below(clients.len() as u64) as usize).expect("one").clone();
                    if id != "first" {
                        let client = clients.remove(&id).expect("one of them");
                        if client.is_classic {
                            world.done(leave(&id));
                        } else if client.epoch > 0 {
                            world.beat(beat(&id, LEAVES, None)).expect("leaves");
                        }
                    }
                }
                _ => {}
            }
            for id in clients.keys().cloned().collect::<Vec<_>>() {
                let mut client = clients.remove(&id).expect("one of them");
                client.go_on(&id, &mut world);
                let taken = |other: &&Client| !other.owned.is_disjoint(&client.owned);
                assert_eq!(clients.values().find(taken).map(|other| &other.owned), None, "seed {seed}: of {id}");
                clients.insert(id, client);
            }
            world.pass(Duration::from_millis(random.below(2000)));
        }
        assert_eq!(world.listed().state, "Stable", "seed {seed}");
        let all: Vec<i32> = clients.values().flat_map(|client| &client.owned).copied().collect();
        assert_eq!(BTreeSet::from_iter(all), BTreeSet::from([0, 1, 2, 3]), "seed {seed}");
        world.check_log();
    }
}

impl Client {
    /// Gives up what it must, says how it is, and reads what it may.
    fn go_on(&mut self, id: &str, world: &mut World) {
        self.owned = &self.owned & &self.told;
        let owned: Vec<i32> = self.owned.iter().copied().collect();
        if !self.is_classic {
            let told = world.beat(beat(id, self.epoch, Some(&owned))).expect("a member");
            self.epoch = told.member_epoch;
            if let Some(assignment) = told.assignment {
                self.told = assignment.iter().map(|id| id.partition.0).collect();
                self.owned.extend(&self.told);
            }
        } else if self.must_join {
            let joined = world.rejoin(id, None, &owned).expect("at once");
            assert_eq!(joined.error, ErrorCode::None);
            (self.epoch, self.must_join) = (joined.generation, false);
            match world.share(id, self.epoch) {
                Ok(share) => {
                    self.told = share.into_iter().collect();
                    self.owned = &self.owned & &self.told;
                    self.owned.extend(&self.told);
                }
                Err(error) => {
                    assert_eq!(error, ErrorCode::RebalanceInProgress);
                    self.must_join = true;
                }
            }
        } else {
            let outcome = world.heartbeat(id, self.epoch);
            self.must_join = outcome == ErrorCode::RebalanceInProgress;
            assert!(self.must_join || outcome == ErrorCode::None, "{outcome:?}");
        }
    }
}
