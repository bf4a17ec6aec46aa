//! What members are told, step by step.

use std::time::Duration;

use wire::ErrorCode;

use super::{World, beat, join, of_instance, owning};
use crate::coordinator::consumer::{ConsumerHeartbeat, JOINS};
use crate::coordinator::message::Speaker;

const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

fn epoch(told: &Result<super::HeartbeatTold, ErrorCode>) -> i32 {
    told.as_ref().expect("not turned away").member_epoch
}

/// Two members of a group that reads four partitions, each with two of them, in epoch 2.
fn pair() -> World {
    let mut world = World::with_topics(&[("t", 4)]);
    world.ask(&join("a", &["t"])).expect("joins");
    world.ask(&join("b", &["t"])).expect("joins");
    let all = (0..4).map(|index| world.partition("t", index)).collect::<Vec<_>>();
    let told = world.ask(&owning(beat("a", 1), all));
    let left = world.told(&told, "t").expect("is told to give up");
    let left: Vec<_> = left.into_iter().map(|index| world.partition("t", index)).collect();
    world.ask(&owning(beat("a", 1), left)).expect("has given up");
    world.ask(&beat("b", 2)).expect("gets its share");
    assert_eq!(world.group.state_name(), "Stable");
    world
}

#[test]
fn a_newcomer_waits_for_what_others_give_up() {
    let mut world = World::with_topics(&[("t", 4)]);
    let told = world.ask(&join("a", &["t"]));
    assert_eq!((epoch(&told), world.told(&told, "t")), (1, Some(vec![0, 1, 2, 3])));
    let told = world.ask(&beat("a", 1));
    assert_eq!((epoch(&told), world.told(&told, "t")), (1, None), "as before");
    let told = world.ask(&join("b", &["t"]));
    assert_eq!((epoch(&told), world.told(&told, "t")), (2, Some(vec![])), "nothing is free");
    assert_eq!(world.group.state_name(), "Reconciling");
    let told = world.ask(&beat("a", 1));
    assert_eq!((epoch(&told), world.told(&told, "t")), (1, Some(vec![0, 2])), "gives two up");
    let told = world.ask(&beat("b", 2));
    assert_eq!(world.told(&told, "t"), None, "they are not free yet");
    let has = |world: &World, indexes: &[i32]| -> Vec<_> {
        indexes.iter().map(|index| world.partition("t", *index)).collect()
    };
    let told = world.ask(&owning(beat("a", 1), has(&world, &[0, 1, 2])));
    assert_eq!((epoch(&told), world.told(&told, "t")), (1, None), "it has one still");
    let told = world.ask(&owning(beat("a", 1), has(&world, &[0, 2])));
    assert_eq!((epoch(&told), world.told(&told, "t")), (2, None));
    let told = world.ask(&beat("b", 2));
    assert_eq!((epoch(&told), world.told(&told, "t")), (2, Some(vec![1, 3])));
    assert_eq!(world.group.state_name(), "Stable");
    // One leaves, and the other has all with its next heartbeat.
    let told = world.ask(&beat("a", LEAVES));
    assert_eq!((epoch(&told), world.group.state_name()), (LEAVES, "Assigning"));
    let told = world.ask(&beat("b", 2));
    assert_eq!((epoch(&told), world.told(&told, "t")), (3, Some(vec![0, 1, 2, 3])));
    assert_eq!(world.ask(&beat("b", LEAVES)).map(|told| told.member_id), Ok("b".into()));
    assert_eq!(world.group.state_name(), "Empty");
    world.restored();
}

#[test]
fn who_speaks_of_another_epoch_is_fenced_unless_an_answer_was_lost() {
    let mut world = pair();
    let owned = |world: &World, indexes: &[i32]| -> Vec<_> {
        indexes.iter().map(|index| world.partition("t", *index)).collect()
    };
    let fenced = Err(ErrorCode::FencedMemberEpoch);
    assert_eq!(world.ask(&beat("a", 3)), fenced);
    assert_eq!(world.ask(&beat("a", 1)), fenced, "it does not say what it owns");
    assert_eq!(world.ask(&owning(beat("a", 1), owned(&world, &[0, 1]))), fenced, "it owns what it should not");
    let told = world.ask(&owning(beat("a", 1), owned(&world, &[0])));
    assert_eq!(epoch(&told), 2, "the answer that told it was lost");
    let told = world.ask(&join("a", &["t"]));
    assert_eq!((epoch(&told), world.told(&told, "t")), (2, Some(vec![0, 2])), "one that joins again has its place");
    assert_eq!(world.ask(&beat("c", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.ask(&beat("c", LEAVES)), Err(ErrorCode::UnknownMemberId));
    world.config.consumer.size_max = 2;
    assert_eq!(world.ask(&join("c", &["t"])), Err(ErrorCode::GroupMaxSizeReached));
}

#[test]
fn the_silent_and_those_who_give_nothing_up_are_fenced() {
    let mut world = pair();
    for _ in 0..5 {
        world.pass(Duration::from_secs(10));
        world.ask(&beat("b", 2)).or_else(|_| world.ask(&beat("b", 3))).expect("a member");
    }
    assert_eq!(world.ask(&beat("a", 2)), Err(ErrorCode::UnknownMemberId), "silent for fifty seconds");
    let told = world.ask(&owning(beat("b", 3), []));
    assert_eq!(epoch(&told), 3);
    assert_eq!(world.group.members["b"].current.assigned.len(), 4);
    // Now it has two to give up, and goes on with heartbeats that do not say that it has.
    world.ask(&join("c", &["t"])).expect("joins");
    for _ in 0..3 {
        assert_eq!(epoch(&world.ask(&beat("b", 3))), 3);
        world.pass(Duration::from_secs(9));
        world.ask(&beat("c", 4)).expect("a member");
    }
    world.pass(Duration::from_secs(3));
    assert_eq!(world.ask(&beat("b", 3)), Err(ErrorCode::UnknownMemberId), "thirty seconds are over");
    let told = world.ask(&beat("c", 4));
    assert_eq!(world.told(&told, "t"), Some(vec![0, 1, 2, 3]));
    world.restored();
}

#[test]
fn an_instance_that_starts_again_has_its_place() {
    let mut world = World::with_topics(&[("t", 4)]);
    world.ask(&of_instance(join("a", &["t"]), "one")).expect("joins");
    let told = world.ask(&of_instance(join("b", &["t"]), "one"));
    assert_eq!(told, Err(ErrorCode::UnreleasedInstanceId));
    let told = world.ask(&of_instance(join("a", &["t"]), "one"));
    assert_eq!(epoch(&told), 1, "the same member, which has missed its answer");
    let told = world.ask(&of_instance(beat("a", LEAVES_FOR_A_WHILE), "one"));
    assert_eq!(epoch(&told), LEAVES_FOR_A_WHILE);
    world.ask(&join("c", &["t"])).expect("joins");
    let told = world.ask(&beat("c", 2));
    assert_eq!(world.told(&told, "t"), None, "what it has is still its own");
    let told = world.ask(&of_instance(join("b", &["t"]), "one"));
    assert_eq!((epoch(&told), world.told(&told, "t").map(|share| share.len())), (2, Some(2)));
    for (old, expected) in [
        (of_instance(beat("a", 1), "one"), ErrorCode::FencedInstanceId),
        (of_instance(beat("a", LEAVES), "one"), ErrorCode::FencedInstanceId),
        (beat("a", 1), ErrorCode::UnknownMemberId),
        (of_instance(beat("a", 1), "two"), ErrorCode::UnknownMemberId),
        (of_instance(beat("a", LEAVES), "two"), ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(world.ask(&old), Err(expected));
    }
    // One that does not come back is gone with its session, and its partitions go to the other.
    world.ask(&of_instance(beat("b", LEAVES_FOR_A_WHILE), "one")).expect("leaves");
    for _ in 0..5 {
        world.pass(Duration::from_secs(10));
        let member_epoch = world.group.members["c"].current.epoch;
        world.ask(&beat("c", member_epoch)).expect("a member");
    }
    assert_eq!(world.group.members.len(), 1);
    assert_eq!(world.group.members["c"].current.assigned.len(), 4);
    world.restored();
}

#[test]
fn a_rolling_restart_of_instances_moves_nothing() {
    let mut world = World::with_topics(&[("t", 24)]);
    let ids: Vec<String> = (0..6).map(|number| format!("m{number}")).collect();
    for id in &ids {
        world.ask(&of_instance(join(id, &["t"]), id)).expect("joins");
    }
    for _ in 0..3 {
        for id in &ids {
            let current = &world.group.members[id].current;
            let (member_epoch, owned) = (current.epoch, current.assigned.keys().copied().collect::<Vec<_>>());
            world.ask(&owning(beat(id, member_epoch), owned)).expect("a member");
        }
    }
    assert_eq!(world.group.state_name(), "Stable");
    let epoch_before = world.group.epoch;
    for id in &ids {
        let had: Vec<_> = world.group.members[id].current.assigned.keys().copied().collect();
        world.ask(&of_instance(beat(id, LEAVES_FOR_A_WHILE), id)).expect("leaves");
        let told = world.ask(&of_instance(join(&format!("{id}-again"), &["t"]), id)).expect("is back");
        assert_eq!(told.assignment, Some(had));
    }
    assert_eq!((world.group.epoch, world.group.state_name()), (epoch_before, "Stable"));
    world.restored();
}

#[test]
fn topics_that_come_grow_and_go_make_an_epoch() {
    let mut world = World::with_topics(&[("t", 1)]);
    world.ask(&join("a", &["t", "later"])).expect("joins");
    let told = world.ask(&beat("a", 1));
    assert_eq!(epoch(&told), 1);
    world.cluster.set("unread", 3);
    assert_eq!(epoch(&world.ask(&beat("a", 1))), 1, "nobody reads it");
    world.cluster.set("t", 2);
    let told = world.ask(&beat("a", 1));
    assert_eq!((epoch(&told), world.told(&told, "t")), (2, Some(vec![0, 1])));
    world.cluster.set("later", 1);
    let told = world.ask(&beat("a", 2));
    assert_eq!((epoch(&told), world.told(&told, "later")), (3, Some(vec![0])));
    // A topic that is made again is another one.
    world.cluster.remove("later");
    world.cluster.set("later", 1);
    let told = world.ask(&beat("a", 3));
    assert_eq!((epoch(&told), world.told(&told, "later")), (3, Some(vec![])), "gives the old one up");
    let told = world.ask(&owning(beat("a", 3), [world.partition("t", 0), world.partition("t", 1)]));
    assert_eq!((epoch(&told), world.told(&told, "later")), (4, Some(vec![0])));
    // What one coordinator has seen, the next does not take for new.
    let records = world.log.len();
    world.restart();
    assert_eq!(epoch(&world.ask(&beat("a", 4))), 4);
    assert_eq!(world.log.len(), records);
}

#[test]
fn regular_expressions_follow_the_topics() {
    let mut world = World::with_topics(&[("eu-1", 1), ("us-1", 1)]);
    let by_regex = |regex: &str, member: ConsumerHeartbeat| ConsumerHeartbeat {
        regex: Some(regex.into()),
        topics: None,
        ..member
    };
    let told = world.ask(&by_regex("eu-.*", join("a", &[])));
    assert_eq!((epoch(&told), world.told(&told, "eu-1")), (1, Some(vec![0])));
    assert!(world.group.reads("eu-1") && !world.group.reads("us-1"));
    world.cluster.set("eu-2", 1);
    let told = world.ask(&beat("a", 1));
    assert_eq!((epoch(&told), world.told(&told, "eu-2")), (2, Some(vec![0])));
    world.cluster.set("us-2", 1);
    assert_eq!(epoch(&world.ask(&beat("a", 2))), 2, "no match of its own");
    // Names and an expression add up; an empty expression is none.
    let both = ConsumerHeartbeat { topics: Some(vec!["us-1".into()]), ..beat("a", 2) };
    let told = world.ask(&both);
    assert_eq!((epoch(&told), told.expect("told").assignment.map(|all| all.len())), (3, Some(3)));
    world.ask(&by_regex("", beat("a", 3))).expect("a member");
    assert!(world.group.regexes.is_empty() && !world.group.reads("eu-1"));
    world.restored();
}

#[test]
fn requests_that_say_what_makes_no_sense() {
    let join = || join("a", &["t"]);
    let invalid = ErrorCode::InvalidRequest;
    let blank = || Some(" ".to_owned());
    let cases = [
        (ConsumerHeartbeat { member_id: String::new(), ..join() }, invalid),
        (ConsumerHeartbeat { member_id: String::new(), chooses_member_id: false, ..beat("", 1) }, invalid),
        (ConsumerHeartbeat { group: String::new(), ..join() }, invalid),
        (ConsumerHeartbeat { instance_id: blank(), ..join() }, invalid),
        (ConsumerHeartbeat { rack_id: blank(), ..join() }, invalid),
        (ConsumerHeartbeat { rebalance_timeout_ms: None, ..join() }, invalid),
        (ConsumerHeartbeat { owned: None, ..join() }, invalid),
        (owning(join(), [Default::default()]), invalid),
        (ConsumerHeartbeat { topics: None, ..join() }, invalid),
        (beat("a", LEAVES_FOR_A_WHILE), invalid),
        (beat("a", -3), invalid),
        (ConsumerHeartbeat { assignor: Some("sticky".into()), ..join() }, ErrorCode::UnsupportedAssignor),
        (ConsumerHeartbeat { regex: Some("(".into()), ..join() }, ErrorCode::InvalidRegularExpression),
    ];
    for (beat, expected) in cases {
        let rejection = beat.check().and_then(|()| beat.check_regex()).expect_err("makes no sense");
        assert_eq!(rejection.error, expected, "{beat:?}");
    }
    let allowed = ConsumerHeartbeat { member_id: String::new(), chooses_member_id: false, ..join() };
    for beat in [join(), allowed, ConsumerHeartbeat { topics: None, regex: Some(String::new()), ..join() }] {
        assert_eq!(beat.check(), Ok(()), "{beat:?}");
    }
}

#[test]
fn most_votes_choose_the_assignor() {
    let mut world = World::with_topics(&[("t", 4)]);
    let wishing = |id: &str, assignor: &str| ConsumerHeartbeat { assignor: Some(assignor.into()), ..join(id, &["t"]) };
    assert_eq!(world.group.describe().assignor, "uniform");
    world.ask(&wishing("a", "range")).expect("joins");
    assert_eq!(world.group.describe().assignor, "range");
    world.ask(&wishing("b", "uniform")).expect("joins");
    assert_eq!(world.group.describe().assignor, "uniform", "a tie");
    world.ask(&join("c", &["t"])).expect("joins");
    world.ask(&wishing("d", "range")).expect("joins");
    assert_eq!(world.group.describe().assignor, "range");
}

#[test]
fn offsets_are_taken_from_members_of_the_epoch() {
    let world = pair();
    let speaker = |id: &str, generation: i32| Speaker { member_id: id.into(), instance_id: None, generation };
    let group = &world.group;
    assert_eq!(group.admit_commit(&speaker("a", 2), true), Ok(()));
    assert_eq!(group.admit_commit(&speaker("a", 2), false), Err(ErrorCode::UnsupportedVersion));
    assert_eq!(group.admit_commit(&speaker("a", 3), true), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(group.admit_commit(&speaker("c", 2), true), Err(ErrorCode::UnknownMemberId));
    assert_eq!(group.admit_commit(&speaker("", -1), true), Err(ErrorCode::UnknownMemberId));
    // An epoch from before is good for what the member has had since then.
    assert_eq!(group.admit_commit(&speaker("a", 1), true), Ok(()));
    assert!(group.admits_offset(&speaker("a", 1), world.partition("t", 0)));
    assert!(!group.admits_offset(&speaker("a", 1), world.partition("t", 1)), "it has been given up");
    assert!(group.admits_offset(&speaker("a", 2), world.partition("t", 1)), "whatever it is, as in Kafka");
    assert!(!group.admits_offset(&speaker("b", 1), world.partition("t", 1)), "it has had it since epoch 2");
    for (member_id, epoch, expected) in [
        (None, -1, Ok(())),
        (Some(""), -1, Ok(())),
        (Some("a"), 2, Ok(())),
        (Some("a"), 1, Err(ErrorCode::StaleMemberEpoch)),
        (Some("c"), JOINS, Err(ErrorCode::UnknownMemberId)),
    ] {
        assert_eq!(group.admit_fetch(member_id, epoch), expected, "{member_id:?} {epoch}");
    }
}
