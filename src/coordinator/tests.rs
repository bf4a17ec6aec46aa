//! Groups through their table, in a time of our own: what members are told, what the log keeps, and what holds whatever happens.

mod migration;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Instant, LeaderEpoch, Offset, PartitionIndex, Random, Uuid, WallTime};
use wire::ErrorCode;

use super::message::{
    Commit, FetchOffsets, GroupAnswer, GroupRequest, Join, Joined, Leaving, OffsetToCommit, Protocol, Speaker, Sync,
    Synced, Ticket, TopicPartition,
};
use super::topics::{TopicInfo, Topics};
use super::{GroupConfig, GroupTable, Moment, Record};
use crate::config::NodeConfig;

const GROUP: &str = "g";
const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 60_000;

/// The one topic there is, with four partitions.
struct OneTopic;

const TOPIC: &str = "t";
const TOPIC_ID: Uuid = Uuid([1; 16]);

impl Topics for OneTopic {
    fn version(&self) -> u64 {
        0
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        (name == TOPIC).then_some(TopicInfo { id: TOPIC_ID, partitions: 4 })
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        (id == TOPIC_ID).then_some(TOPIC)
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::once(TOPIC))
    }
}

struct World {
    table: GroupTable,
    now_ms: u64,
    tickets: Ticket,
    answers: BTreeMap<Ticket, GroupAnswer>,
    log: Vec<Record>,
}

impl World {
    fn new() -> Self {
        let table = GroupTable::new(GroupConfig::of(&NodeConfig::default()));
        Self { table, now_ms: 1_000_000, tickets: 0, answers: BTreeMap::new(), log: Vec::new() }
    }

    fn now(&self) -> Moment {
        Moment { instant: Instant(self.now_ms * 1_000_000), wall: WallTime(self.now_ms as i64) }
    }

    fn take_up(&mut self, effects: super::Effects) {
        let now = self.now();
        self.log.extend(effects.records.iter().cloned());
        self.table.appended(effects.records, now);
        for (ticket, answer) in effects.answers {
            assert!(self.answers.insert(ticket, answer).is_none(), "answered twice");
        }
    }

    fn ask(&mut self, request: GroupRequest) -> Ticket {
        self.tickets += 1;
        let (ticket, now) = (self.tickets, self.now());
        let effects = self.table.handle(request, ticket, format!("m{ticket}"), &OneTopic, now);
        self.take_up(effects);
        ticket
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now_ms + time.as_millis() as u64;
        while let Some(next) = self.table.next_deadline().map(|at| at.0 / 1_000_000).filter(|at| *at <= end) {
            self.now_ms = self.now_ms.max(next);
            while let Some(effects) = self.table.tick(&OneTopic, self.now()) {
                self.take_up(effects);
            }
        }
        self.now_ms = end;
    }

    fn joined(&mut self, ticket: Ticket) -> Option<Joined> {
        match self.answers.remove(&ticket)? {
            GroupAnswer::Joined(joined) => Some(joined),
            other => panic!("{other:?}"),
        }
    }

    fn synced(&mut self, ticket: Ticket) -> Option<Synced> {
        match self.answers.remove(&ticket)? {
            GroupAnswer::Synced(synced) => Some(synced),
            other => panic!("{other:?}"),
        }
    }

    fn done(&mut self, request: GroupRequest) -> ErrorCode {
        let ticket = self.ask(request);
        match self.answers.remove(&ticket) {
            Some(GroupAnswer::Done(outcome)) => outcome,
            Some(GroupAnswer::Left(outcomes) | GroupAnswer::Committed(outcomes)) => outcomes[0],
            other => panic!("{other:?}"),
        }
    }

    fn join(&mut self, member_id: &str) -> Ticket {
        self.ask(join(member_id, None))
    }

    /// A member that has its id, and waits for its first generation.
    fn enter(&mut self) -> (String, Ticket) {
        let asked = self.join("");
        let id = self.joined(asked).expect("told at once");
        assert_eq!(id.error, ErrorCode::MemberIdRequired);
        let ticket = self.join(&id.member_id);
        (id.member_id, ticket)
    }

    fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        self.done(GroupRequest::Heartbeat { group: GROUP.into(), speaker: speaker(member_id, generation) })
    }

    fn sync(&mut self, member_id: &str, generation: i32, shares: &[(&str, &str)]) -> Ticket {
        let assignments = shares.iter().map(|(id, share)| ((*id).to_owned(), share.as_bytes().to_vec())).collect();
        let (protocol_type, protocol) = (Some("consumer".to_owned()), None);
        let speaker = speaker(member_id, generation);
        self.ask(GroupRequest::Sync(Sync { group: GROUP.into(), speaker, protocol_type, protocol, assignments }))
    }

    fn state(&mut self) -> &'static str {
        let ticket = self.ask(GroupRequest::Describe { group: GROUP.into() });
        match self.answers.remove(&ticket) {
            Some(GroupAnswer::Described(described)) => described.state,
            other => panic!("{other:?}"),
        }
    }

    /// Two members of a stable group, the leader first, in generation 1.
    fn pair(&mut self) -> [String; 2] {
        let (one, other) = (self.enter(), self.enter());
        self.pass(Duration::from_secs(7));
        let told = [&one, &other].map(|(_, ticket)| self.joined(*ticket).expect("the generation has begun"));
        let leader = told[0].leader.clone();
        let [leads, follows] = if one.0 == leader { [one.0, other.0] } else { [other.0, one.0] };
        let waits = self.sync(&follows, 1, &[]);
        let leaders = self.sync(&leads, 1, &[(&leads, "a"), (&follows, "b")]);
        assert_eq!(self.synced(leaders).map(|synced| synced.assignment), Some(b"a".to_vec()));
        assert_eq!(self.synced(waits).map(|synced| synced.assignment), Some(b"b".to_vec()));
        [leads, follows]
    }
}

fn join(member_id: &str, instance: Option<&str>) -> GroupRequest {
    GroupRequest::Join(Join {
        group: GROUP.into(),
        member_id: member_id.into(),
        instance_id: instance.map(str::to_owned),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range"), protocol("sticky")],
        requires_member_id: true,
        may_skip_assignment: true,
    })
}

fn protocol(name: &str) -> Protocol {
    Protocol { name: name.into(), metadata: name.as_bytes().to_vec() }
}

fn speaker(member_id: &str, generation: i32) -> Speaker {
    Speaker { member_id: member_id.into(), instance_id: None, generation }
}

fn commit(member_id: &str, generation: i32, offset: i64) -> GroupRequest {
    let offset = OffsetToCommit {
        topic: "t".into(),
        topic_id: Uuid::ZERO,
        partition: PartitionIndex(0),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(-1),
        metadata: "here".into(),
    };
    let speaker = speaker(member_id, generation);
    GroupRequest::Commit(Commit {
        group: GROUP.into(),
        speaker,
        offsets: vec![offset],
        retention_ms: None,
        knows_epochs: false,
    })
}

fn all_offsets() -> GroupRequest {
    let (partitions, member_epoch) = (None, -1);
    GroupRequest::FetchOffsets(FetchOffsets { group: GROUP.into(), partitions, member_id: None, member_epoch })
}

fn fetch_offsets(partitions: Vec<TopicPartition>) -> GroupRequest {
    let (partitions, member_epoch) = (Some(partitions), -1);
    GroupRequest::FetchOffsets(FetchOffsets { group: GROUP.into(), partitions, member_id: None, member_epoch })
}

fn leave(member_id: &str) -> GroupRequest {
    GroupRequest::Leave {
        group: GROUP.into(),
        members: vec![Leaving { member_id: member_id.into(), instance_id: None }],
    }
}

#[test]
fn members_that_start_together_are_one_generation() {
    let mut world = World::new();
    let (first, first_wait) = world.enter();
    world.pass(Duration::from_millis(2500));
    // Another comes within the delay: three more seconds from its end on.
    let (second, second_wait) = world.enter();
    world.pass(Duration::from_millis(2000));
    assert!(world.joined(first_wait).is_none());
    world.pass(Duration::from_millis(2000));
    let [first_told, second_told] = [first_wait, second_wait].map(|ticket| world.joined(ticket).expect("begun"));
    assert_eq!((first_told.generation, first_told.leader.as_str()), (1, first.as_str()));
    assert_eq!(first_told.protocol.as_deref(), Some("range"), "what both want first");
    let members: BTreeSet<_> = first_told.members.iter().map(|member| member.member_id.clone()).collect();
    assert_eq!(members, BTreeSet::from([first.clone(), second.clone()]));
    assert!(second_told.members.is_empty(), "for the leader alone");
    let (waits, early) = (world.sync(&second, 1, &[]), world.heartbeat(&second, 1));
    assert!(world.synced(waits).is_none() && early == ErrorCode::None);
    let leaders = world.sync(&first, 1, &[(&second, "all")]);
    assert_eq!(world.synced(leaders).expect("told").assignment, b"", "nothing was said of it");
    assert_eq!(world.state(), "Stable");
}

#[test]
fn who_joins_again_while_that_waits_is_answered_both_times() {
    let mut world = World::new();
    let (id, first) = world.enter();
    let later: Vec<_> = (0..10).map(|_| world.join(&id)).collect();
    // Nine wait; of more, the oldest fails.
    assert_eq!(world.joined(first).expect("the oldest").error, ErrorCode::RebalanceInProgress);
    assert_eq!(world.joined(later[0]).expect("the next").error, ErrorCode::RebalanceInProgress);
    assert!(later.iter().all(|ticket| world.joined(*ticket).is_none()));
    world.pass(Duration::from_secs(4));
    let told: Vec<_> = later[1..].iter().map(|ticket| world.joined(*ticket).expect("begun")).collect();
    assert_eq!((told[0].error, told[0].generation, told[0].members.len()), (ErrorCode::None, 1, 1));
    assert!(told.iter().all(|other| *other == told[0]));
    // Both fail when it leaves before.
    let mut world = World::new();
    let (id, first) = world.enter();
    let waits = [first, world.join(&id)];
    assert_eq!(world.done(leave(&id)), ErrorCode::None);
    let failed = waits.map(|ticket| world.joined(ticket).expect("told").error);
    assert_eq!(failed, [ErrorCode::UnknownMemberId; 2]);
}

#[test]
fn who_comes_later_makes_all_join_again() {
    let mut world = World::new();
    let [leads, follows] = world.pair();
    let (third, third_wait) = world.enter();
    assert_eq!(world.heartbeat(&leads, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(world.done(commit(&follows, 1, 5)), ErrorCode::None, "what was read before is kept");
    let rejoined = [world.join(&leads), world.join(&follows)];
    let told = world.joined(third_wait).expect("the last has joined");
    assert_eq!((told.generation, told.leader), (2, leads.clone()));
    assert!(rejoined.iter().all(|ticket| world.joined(*ticket).is_some()));
    assert_eq!(world.heartbeat(&third, 1), ErrorCode::IllegalGeneration);
    assert_eq!(world.done(commit(&third, 2, 5)), ErrorCode::RebalanceInProgress, "before it has its share");
    // One leaves while the others wait for their shares: they are told to join again.
    let waits = world.sync(&third, 2, &[]);
    assert_eq!(world.done(leave(&follows)), ErrorCode::None);
    assert_eq!(world.synced(waits).expect("told").error, ErrorCode::RebalanceInProgress);
    assert_eq!(world.heartbeat(&follows, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn the_silent_are_gone_and_the_last_takes_the_generation_along() {
    let mut world = World::new();
    let [leads, follows] = world.pair();
    for _ in 0..3 {
        world.pass(Duration::from_secs(4));
        assert_ne!(world.heartbeat(&follows, 1), ErrorCode::UnknownMemberId);
    }
    assert_eq!(world.heartbeat(&leads, 1), ErrorCode::UnknownMemberId, "silent for twelve seconds");
    assert_eq!(world.heartbeat(&follows, 1), ErrorCode::RebalanceInProgress);
    let alone = world.join(&follows);
    let told = world.joined(alone).expect("nobody else is waited for");
    assert_eq!((told.generation, told.leader.as_str()), (2, follows.as_str()));
    assert_eq!(world.done(leave(&follows)), ErrorCode::None);
    assert_eq!(world.state(), "Empty");
    let Some(Record::Group { snapshot, .. }) = world.log.last() else { panic!("the log has it") };
    assert_eq!((snapshot.generation, snapshot.members.len()), (3, 0));
}

#[test]
fn who_does_not_join_or_sync_in_time_is_left_behind() {
    let mut world = World::new();
    let [leads, follows] = world.pair();
    let (third, third_wait) = world.enter();
    let waits = world.join(&follows);
    // The leader goes on with its heartbeats and does not join.
    for _ in 0..15 {
        world.pass(Duration::from_secs(4));
        world.heartbeat(&leads, 1);
    }
    let told = world.joined(waits).expect("time was up");
    assert_eq!((told.generation, told.members.len()), (2, 2));
    assert_eq!(told.leader, follows, "one that has joined leads");
    assert!(world.joined(third_wait).is_some());
    // Now neither asks for its share.
    for _ in 0..14 {
        world.pass(Duration::from_secs(4));
        assert_eq!([&third, &follows].map(|id| world.heartbeat(id, 2)), [ErrorCode::None; 2]);
    }
    world.pass(Duration::from_secs(4));
    assert_eq!([&third, &follows].map(|id| world.heartbeat(id, 2)), [ErrorCode::UnknownMemberId; 2]);
}

#[test]
fn a_group_whose_record_is_refused_is_what_its_log_says() {
    let mut world = World::new();
    let [leads, follows] = world.pair();
    assert_eq!(world.done(commit(&follows, 1, 5)), ErrorCode::None);
    let (third, third_wait) = world.enter();
    let rejoined = [world.join(&leads), world.join(&follows)];
    assert!([third_wait, rejoined[0], rejoined[1]].map(|ticket| world.joined(ticket)).iter().all(Option::is_some));
    let waits = world.sync(&third, 2, &[]);
    // The leader's shares are more than the log takes: what it would have told the others is not so.
    let config = GroupConfig::of(&NodeConfig::default());
    let mut read = GroupTable::new(config);
    world.log.iter().for_each(|record| read.replay(record.clone(), world.now()));
    let bytes = read.bytes();
    let effects = world.table.revert(GROUP, read, ErrorCode::UnknownServerError, &OneTopic, world.now());
    world.take_up(effects);
    assert_eq!(world.synced(waits).expect("told").error, ErrorCode::UnknownServerError);
    assert_eq!(world.table.bytes(), bytes);
    assert_eq!([&leads, &follows].map(|id| world.heartbeat(id, 1)), [ErrorCode::None; 2]);
    assert_eq!(world.heartbeat(&third, 2), ErrorCode::UnknownMemberId);
    let asked = world.ask(all_offsets());
    assert!(matches!(world.answers.remove(&asked), Some(GroupAnswer::Offsets(found)) if found.len() == 1));
    // Deadlines of before are no longer theirs, and those of the restored members are.
    world.pass(Duration::from_secs(9));
    assert_eq!(world.heartbeat(&leads, 1), ErrorCode::None);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.heartbeat(&follows, 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.heartbeat(&leads, 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn an_instance_that_starts_again_has_its_place() {
    let mut world = World::new();
    let first = world.ask(join("", Some("one")));
    let second = world.ask(join("", Some("two")));
    world.pass(Duration::from_secs(7));
    let [first, second] = [first, second].map(|ticket| world.joined(ticket).expect("begun"));
    let (leads, follows) = if first.leader == first.member_id { (first, second) } else { (second, first) };
    let instance = |told: &Joined| if told.member_id == "m1" { "one" } else { "two" };
    world.sync(&leads.member_id, 1, &[(&leads.member_id, "a"), (&follows.member_id, "b")]);
    let records = world.log.len();
    let again = world.ask(join("", Some(instance(&leads))));
    let again = world.joined(again).expect("told at once");
    assert_eq!((again.error, again.generation, again.skip_assignment), (ErrorCode::None, 1, true));
    assert!(again.leader == again.member_id && again.members.len() == 2);
    assert_eq!(world.log.len(), records + 1, "the log knows who stands for it now");
    let share = world.sync(&again.member_id, 1, &[]);
    assert_eq!(world.synced(share).expect("told").assignment, b"a");
    let old = Speaker { instance_id: Some(instance(&leads).into()), ..speaker(&leads.member_id, 1) };
    assert_eq!(world.done(GroupRequest::Heartbeat { group: GROUP.into(), speaker: old }), ErrorCode::FencedInstanceId);
    assert_eq!(world.heartbeat(&follows.member_id, 1), ErrorCode::None, "nobody joins again");
    // An administrator takes it out by its name.
    let leaving = Leaving { member_id: String::new(), instance_id: Some(instance(&leads).into()) };
    assert_eq!(world.done(GroupRequest::Leave { group: GROUP.into(), members: vec![leaving] }), ErrorCode::None);
    assert_eq!(world.heartbeat(&follows.member_id, 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn requests_that_fit_no_group() {
    let mut world = World::new();
    assert_eq!(world.heartbeat("nobody", 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.done(commit("nobody", 1, 5)), ErrorCode::IllegalGeneration);
    assert_eq!(world.done(leave("nobody")), ErrorCode::UnknownMemberId);
    let stranger = world.join("stranger");
    assert_eq!(world.joined(stranger).expect("told").error, ErrorCode::UnknownMemberId);
    let GroupRequest::Join(valid) = join("", None) else { unreachable!() };
    let cases = [
        (Join { session_timeout_ms: 5999, ..valid.clone() }, ErrorCode::InvalidSessionTimeout),
        (Join { session_timeout_ms: 1_800_001, ..valid.clone() }, ErrorCode::InvalidSessionTimeout),
        (Join { protocols: Vec::new(), ..valid.clone() }, ErrorCode::InconsistentGroupProtocol),
        (Join { protocol_type: String::new(), ..valid.clone() }, ErrorCode::InconsistentGroupProtocol),
    ];
    for (join, expected) in cases {
        let ticket = world.ask(GroupRequest::Join(join));
        assert_eq!(world.joined(ticket).expect("told").error, expected);
    }
    assert_eq!(world.table.list().count(), 0, "none of them has made a group");
    world.pair();
    let other = Join { protocols: vec![protocol("cooperative")], ..valid };
    let ticket = world.ask(GroupRequest::Join(other));
    assert_eq!(world.joined(ticket).expect("told").error, ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn offsets_without_members_and_groups_that_go() {
    let mut world = World::new();
    assert_eq!(world.done(commit("", -1, 7)), ErrorCode::None);
    assert_eq!(world.state(), "Empty");
    let partitions =
        vec![0, 1].into_iter().map(|index| TopicPartition { topic: "t".into(), partition: PartitionIndex(index) });
    let partitions: Vec<_> = partitions.collect();
    let ticket = world.ask(fetch_offsets(partitions.clone()));
    let Some(GroupAnswer::Offsets(offsets)) = world.answers.remove(&ticket) else { panic!() };
    let known = offsets.iter().map(|(_, committed)| committed.as_ref().map(|committed| committed.offset.0));
    assert_eq!(known.collect::<Vec<_>>(), [Some(7), None]);
    let members = world.pair();
    assert_eq!(world.done(commit("", -1, 8)), ErrorCode::UnknownMemberId, "members alone commit now");
    assert_eq!(world.done(GroupRequest::Delete { group: GROUP.into() }), ErrorCode::NonEmptyGroup);
    let ticket = world.ask(GroupRequest::DeleteOffsets { group: GROUP.into(), partitions });
    let Some(GroupAnswer::OffsetsDeleted(ErrorCode::None, outcomes)) = world.answers.remove(&ticket) else { panic!() };
    assert_eq!(outcomes, [ErrorCode::GroupSubscribedToTopic; 2], "what members say is not known");
    for member in members {
        world.done(leave(&member));
        world.pass(Duration::from_secs(61));
    }
    assert_eq!(world.done(GroupRequest::Delete { group: GROUP.into() }), ErrorCode::None);
    assert_eq!(world.done(GroupRequest::Delete { group: GROUP.into() }), ErrorCode::GroupIdNotFound);
    assert_eq!(world.table.list().count(), 0);
}

#[test]
fn a_full_coordinator_takes_nothing_more_in() {
    let mut world = World::new();
    world.done(commit("", -1, 7));
    let bytes = world.table.bytes();
    world.table.set_full(true);
    assert_eq!(world.done(commit("", -1, 8)), ErrorCode::None, "it has a place already");
    assert_eq!(world.table.bytes(), bytes);
    let joined = world.join("");
    assert_eq!(world.joined(joined).expect("told").error, ErrorCode::GroupMaxSizeReached);
    let GroupRequest::Commit(mut other) = commit("", -1, 9) else { unreachable!() };
    other.group = "other".into();
    assert_eq!(world.done(GroupRequest::Commit(other)), ErrorCode::PolicyViolation);
    world.table.set_full(false);
    world.done(GroupRequest::Delete { group: GROUP.into() });
    assert_eq!(world.table.bytes(), 0);
}

#[test]
fn a_topic_that_is_gone_takes_its_offsets_along() {
    // What was committed with the id of a topic, without an id, and of another topic.
    let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
    let commits = [("t", 0, old), ("t", 1, new), ("t", 2, Uuid::ZERO), ("other", 0, old)];
    let left = |is_there: fn(&str, Uuid) -> bool| {
        let mut world = World::new();
        for (topic, partition, topic_id) in commits {
            let GroupRequest::Commit(mut request) = commit("", -1, 7) else { unreachable!() };
            let offset = &mut request.offsets[0];
            (offset.topic, offset.topic_id, offset.partition) = (topic.into(), topic_id, PartitionIndex(partition));
            assert_eq!(world.done(GroupRequest::Commit(request)), ErrorCode::None);
        }
        let effects = world.table.forget_topics(is_there);
        world.take_up(effects);
        let ticket = world.ask(all_offsets());
        let Some(GroupAnswer::Offsets(offsets)) = world.answers.remove(&ticket) else { panic!() };
        let known = offsets.into_iter().map(|(of, _)| format!("{}-{}", of.topic, of.partition.0));
        (known.collect::<Vec<_>>(), world.state())
    };
    let (all, _) = left(|_, _| true);
    assert_eq!(all, ["other-0", "t-0", "t-1", "t-2"]);
    let (without, _) = left(|name, _| name != "t");
    assert_eq!(without, ["other-0"]);
    let (anew, _) = left(|name, id| name != "t" || id == Uuid::ZERO || id == Uuid([2; 16]));
    assert_eq!(anew, ["other-0", "t-1", "t-2"]);
    assert_eq!(left(|_, _| false), (vec![], "Dead"), "a group that had offsets alone goes with the last");
}

#[test]
fn what_nobody_needs_is_forgotten() {
    let mut world = World::new();
    world.done(commit("", -1, 7));
    let week = Duration::from_secs(7 * 24 * 3600);
    world.pass(week - Duration::from_millis(1));
    assert!(world.table.expire(world.now()).records.is_empty());
    world.pass(Duration::from_millis(1));
    let due = world.table.expire(world.now());
    assert_eq!(due.records.len(), 1);
    world.take_up(due);
    assert_eq!(world.table.list().count(), 0);
    // Members keep theirs, and for a week after they have gone.
    let [leads, follows] = world.pair();
    world.done(commit(&leads, 1, 9));
    for _ in 0..(8 * 24 * 3600 / 5) {
        world.pass(Duration::from_secs(5));
        world.heartbeat(&leads, 1);
        world.heartbeat(&follows, 1);
    }
    assert!(world.table.expire(world.now()).records.is_empty());
    world.done(leave(&leads));
    world.done(leave(&follows));
    world.pass(week - Duration::from_secs(1));
    assert!(world.table.expire(world.now()).records.is_empty());
    world.pass(Duration::from_secs(62));
    let due = world.table.expire(world.now());
    world.take_up(due);
    assert_eq!(world.table.list().count(), 0);
}

/// Members join, sync, stall, leave and come again at random. Each generation has one leader and one assignment, everybody is answered in the
/// end, and a coordinator that reads the log has the groups as they were.
#[test]
fn whatever_members_do() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let mut world = World::new();
        let mut open: BTreeSet<Ticket> = BTreeSet::new();
        let mut known: Vec<(String, i32)> = Vec::new();
        let mut leaders: BTreeMap<i32, String> = BTreeMap::new();
        let mut shares: BTreeMap<(i32, String), Vec<u8>> = BTreeMap::new();
        let mut asked: BTreeMap<Ticket, (String, i32)> = BTreeMap::new();
        for step in 0..300 {
            let who = (!known.is_empty()).then(|| known[random.below(known.len() as u64) as usize].clone());
            let ticket = match (random.below(10), who) {
                (0 | 1, _) | (_, None) => world.ask(join("", [None, Some("x"), Some("y")][random.below(3) as usize])),
                (2 | 3, Some((id, _))) => world.join(&id),
                (4 | 5, Some((id, generation))) => {
                    let all: Vec<_> = known.iter().map(|(id, _)| (id.as_str(), format!("{step}"))).collect();
                    let all: Vec<_> = all.iter().map(|(id, share)| (*id, share.as_str())).collect();
                    let ticket = world.sync(&id, generation, &all);
                    asked.insert(ticket, (id, generation));
                    ticket
                }
                (6, Some((id, _))) => world.ask(leave(&id)),
                (_, Some((id, generation))) => {
                    world.ask(GroupRequest::Heartbeat { group: GROUP.into(), speaker: speaker(&id, generation) })
                }
            };
            open.insert(ticket);
            world.pass(Duration::from_millis(random.below(4000)));
            for (ticket, answer) in std::mem::take(&mut world.answers) {
                open.remove(&ticket);
                match answer {
                    GroupAnswer::Joined(told) if told.error == ErrorCode::None => {
                        // An older leader may have been replaced by its next life.
                        if !told.members.is_empty() {
                            let leader = leaders.entry(told.generation).or_insert_with(|| told.leader.clone());
                            assert!(*leader == told.leader || told.skip_assignment, "seed {seed}: two leaders");
                        }
                        known.retain(|(id, _)| *id != told.member_id);
                        known.push((told.member_id, told.generation));
                    }
                    GroupAnswer::Joined(told) if told.error == ErrorCode::MemberIdRequired => {
                        known.push((told.member_id, -1));
                    }
                    GroupAnswer::Synced(told) if told.error == ErrorCode::None => {
                        let (id, generation) = asked[&ticket].clone();
                        let share = shares.entry((generation, id)).or_insert_with(|| told.assignment.clone());
                        assert_eq!(*share, told.assignment, "seed {seed}: a share changes within a generation");
                    }
                    _ => {}
                }
            }
        }
        // All have gone silent.
        world.pass(Duration::from_secs(1000));
        open.retain(|ticket| !world.answers.contains_key(ticket));
        assert!(open.is_empty(), "seed {seed}: {open:?} wait for ever");
        assert!(["Empty", "Dead"].contains(&world.state()), "seed {seed}");
        let mut restored = GroupTable::new(GroupConfig::of(&NodeConfig::default()));
        let now = world.now();
        world.log.iter().for_each(|record| restored.replay(record.clone(), now));
        let listed = |table: &GroupTable| table.list().map(|group| (group.group, group.state)).collect::<Vec<_>>();
        assert_eq!(listed(&restored), listed(&world.table), "seed {seed}");
        assert_eq!(restored.bytes(), world.table.bytes(), "seed {seed}");
    }
}
