//! Groups that get on and groups that do not, look after look, in a time of our own.

use std::rc::Rc;
use std::time::Duration;

use base::{Instant, LeaderEpoch, Offset, PartitionIndex, Uuid, WallTime};
use storage::retention::Kept;
use wire::Versioned;
use wire::consumer_protocol::{ConsumerProtocolAssignment, TopicPartition as Assigned};

use super::table::Holders;
use super::{GroupLag, LagLimits, Look, Progress, Warning};
use crate::config::NodeConfig;
use crate::coordinator::consumer::{ConsumerHeartbeat, JOINS};
use crate::coordinator::message::{CommittedOffset, GroupRequest, TopicPartition};
use crate::coordinator::topics::{TopicInfo, Topics};
use crate::coordinator::{GroupConfig, GroupSnapshot, GroupTable, MemberSnapshot, Moment, Record};
use crate::message::LagFound;

const LIMITS: LagLimits = LagLimits { headroom_ms: 100_000, stall: Duration::from_secs(60) };

fn moment(ms: i64) -> Moment {
    Moment { instant: Instant(ms.unsigned_abs() * 1_000_000), wall: WallTime(ms) }
}

/// A log from 0 to 100, of which nothing will be deleted.
fn found(committed: i64) -> LagFound {
    LagFound {
        log_start: Offset(0),
        high_watermark: Offset(100),
        next: Offset(committed),
        next_written: None,
        kept: Kept::default(),
        appended_bytes: 0,
        retention_ms: None,
    }
}

/// One partition of one group.
#[derive(Default)]
struct Watched {
    progress: Progress,
}

impl Watched {
    fn look(&mut self, at_ms: i64, committed: i64, holder: Option<&str>, found: LagFound) -> Vec<Warning> {
        let holder: Option<Rc<str>> = holder.map(Rc::from);
        let look = Look { committed: Offset(committed), holder: holder.as_ref(), found, now: moment(at_ms) };
        self.progress.look(&look, &LIMITS)
    }

    fn lag(&self) -> super::Lag {
        *self.progress.lag().expect("it was looked at")
    }
}

#[test]
fn records_and_age() {
    let mut watched = Watched::default();
    assert_eq!(watched.look(5000, 40, None, LagFound { next_written: Some(WallTime(2000)), ..found(40) }), []);
    assert_eq!((watched.lag().records, watched.lag().age_ms), (60, Some(3000)));
    // The same record is not asked for again, and gets older.
    assert_eq!(watched.progress.next_known(), Some(Offset(40)));
    assert_eq!(watched.look(6000, 40, None, found(40)), []);
    assert_eq!(watched.lag().age_ms, Some(4000));
    // Another one is.
    assert_eq!(watched.look(7000, 50, None, found(50)), []);
    assert_eq!((watched.lag().records, watched.lag().age_ms, watched.progress.next_known()), (50, None, None));
    assert_eq!(watched.look(8000, 50, None, LagFound { next_written: Some(WallTime(9000)), ..found(50) }), []);
    assert_eq!(watched.lag().age_ms, Some(0), "written by a clock that is ahead");
    assert_eq!(watched.look(9000, 100, None, found(100)), []);
    assert_eq!((watched.lag().records, watched.lag().age_ms, watched.lag().headroom_ms), (0, Some(0), None));
    assert_eq!(watched.look(9000, 120, None, found(120)), [], "ahead of the log");
    assert_eq!((watched.lag().records, watched.lag().lost), (0, 0));
}

#[test]
fn headroom_by_time_is_warned_of_once_until_it_has_recovered() {
    let mut watched = Watched::default();
    let mut at = |now: i64, until: Option<i64>| {
        let kept = Kept { until: until.map(WallTime), bytes: None };
        let warnings = watched.look(now, 10, None, LagFound { kept, ..found(10) });
        assert!(warnings.len() <= 1, "{warnings:?}");
        (watched.lag().headroom_ms, warnings.into_iter().next())
    };
    let short = |headroom_ms| Some(Warning::Headroom { headroom_ms, threshold_ms: 100_000 });
    assert_eq!(at(0, Some(200_000)), (Some(200_000), None));
    assert_eq!(at(100_000, Some(200_000)), (Some(100_000), None), "at the threshold");
    assert_eq!(at(100_001, Some(200_000)), (Some(99_999), short(99_999)));
    assert_eq!(at(150_000, Some(200_000)), (Some(50_000), None), "said already");
    assert_eq!(at(150_000, Some(299_000)), (Some(149_000), None), "better, and not yet well");
    assert_eq!(at(200_000, Some(299_000)), (Some(99_000), None));
    assert_eq!(at(200_000, Some(350_000)), (Some(150_000), None), "well again");
    assert_eq!(at(260_000, Some(350_000)), (Some(90_000), short(90_000)));
    assert_eq!(at(260_000, None), (None, None), "retention was lifted");
    assert_eq!(at(350_001, Some(350_000)), (Some(0), short(0)), "overdue");
}

#[test]
fn short_retention_has_a_threshold_of_its_own() {
    for (retention_ms, threshold_ms) in [(None, 100_000), (Some(10_000_000), 100_000), (Some(40_000), 10_000)] {
        let (mut above, mut below) = (Watched::default(), Watched::default());
        let of = |headroom| {
            let kept = Kept { until: Some(WallTime(headroom)), bytes: None };
            LagFound { kept, retention_ms, ..found(10) }
        };
        assert_eq!(above.look(0, 10, None, of(threshold_ms)), [], "{retention_ms:?}");
        let headroom_ms = threshold_ms - 1;
        assert_eq!(below.look(0, 10, None, of(headroom_ms)), [Warning::Headroom { headroom_ms, threshold_ms }]);
    }
}

#[test]
fn headroom_by_size_goes_by_what_is_appended() {
    let mut watched = Watched::default();
    let mut at = |now: i64, appended_bytes: u64, bytes: u64, until: Option<i64>| {
        let kept = Kept { until: until.map(WallTime), bytes: Some(bytes) };
        let _ = watched.look(now, 10, None, LagFound { kept, appended_bytes, ..found(10) });
        watched.lag().headroom_ms
    };
    assert_eq!(at(0, 5000, 1_000_000, None), None, "one look tells no rate");
    assert_eq!(at(1000, 6000, 1_000_000, None), Some(1_000_000), "a byte a millisecond");
    assert_eq!(at(2000, 7000, 1_000_000, Some(52_000)), Some(50_000), "time comes first");
    assert_eq!(at(2000, 7000, 1000, Some(52_000)), Some(1000), "size comes first");
    assert_eq!(at(2000, 7000, 0, None), Some(0));
    // After five quiet minutes a third of the rate is left.
    let quiet = at(302_000, 7000, 1_000_000, None).expect("it was known");
    assert!((2_700_000..2_730_000).contains(&quiet), "{quiet}");
    // The log was opened again: its count begins anew, and tells nothing yet.
    assert_eq!(at(303_000, 100, 1_000_000, None), Some(quiet));
    let mut silent = Watched::default();
    for now in [0, 1000, 2000] {
        let kept = Kept { until: None, bytes: Some(10) };
        assert_eq!(silent.look(now, 10, None, LagFound { kept, ..found(10) }), []);
        assert_eq!(silent.lag().headroom_ms, None, "nothing is appended");
    }
}

#[test]
fn what_was_deleted_unread_is_counted_and_warned_of_once() {
    let mut watched = Watched::default();
    let from = |start: i64, committed: i64| LagFound { log_start: Offset(start), ..found(start.max(committed)) };
    assert_eq!(watched.look(0, 10, None, from(30, 10)), [Warning::Lost]);
    let lag = watched.lag();
    assert_eq!((lag.lost, lag.headroom_ms, lag.records), (20, Some(0), 90));
    assert_eq!(watched.look(1000, 10, None, from(50, 10)), [], "said already");
    assert_eq!(watched.lag().lost, 40);
    assert_eq!(watched.look(2000, 60, None, from(50, 60)), []);
    assert_eq!((watched.lag().lost, watched.lag().headroom_ms), (0, None));
    assert_eq!(watched.look(3000, 60, None, from(70, 60)), [Warning::Lost], "once more");
    assert_eq!(watched.look(4000, 60, None, from(100, 60)), []);
    assert_eq!((watched.lag().lost, watched.lag().age_ms), (40, None), "nothing is left");
}

#[test]
fn a_member_that_does_not_get_on_is_warned_of_once() {
    /// What is warned of, and whether it counts as stalled.
    type Told = (Vec<Warning>, bool);
    let stalled = |seconds: i64| vec![Warning::Stalled { for_ms: seconds * 1000 }];
    // Second, offset, holder.
    let steps: &[(i64, i64, Option<&str>, Told)] = &[
        (0, 100, Some("a"), (vec![], false)),
        (600, 100, Some("a"), (vec![], false)), // Nothing to read.
        (601, 99, Some("a"), (vec![], false)),
        (660, 99, Some("a"), (vec![], false)),
        (662, 99, Some("a"), (stalled(61), true)),
        (700, 99, Some("a"), (vec![], true)),
        (701, 99, None, (vec![], false)), // Nobody has it.
        (702, 99, Some("a"), (vec![], true)),
        (710, 98, Some("a"), (vec![], false)), // Set back.
        (769, 98, Some("a"), (vec![], false)),
        (770, 98, Some("a"), (stalled(60), true)),
        (780, 98, Some("b"), (vec![], false)),
        (839, 98, Some("b"), (vec![], false)),
        (840, 98, Some("b"), (stalled(60), true)),
        (850, 100, Some("b"), (vec![], false)),
    ];
    let mut watched = Watched::default();
    for (second, committed, holder, (warnings, is_stalled)) in steps {
        let found = found(*committed);
        assert_eq!(watched.look(second * 1000, *committed, *holder, found), *warnings, "at {second}");
        assert_eq!(watched.lag().is_stalled, *is_stalled, "at {second}");
    }
}

#[test]
fn a_partition_that_is_handed_on_without_progress_is_warned_of_once() {
    let handed = |times: u16| vec![Warning::HandedOn { times }];
    let steps: &[(i64, Option<&str>, Vec<Warning>)] = &[
        (10, None, vec![]),
        (10, Some("a"), vec![]), // The first that is seen.
        (10, None, vec![]),
        (10, Some("a"), vec![]), // Back again.
        (10, Some("b"), vec![]),
        (10, Some("c"), vec![]),
        (11, Some("a"), vec![]), // It got on.
        (11, Some("b"), vec![]),
        (11, None, vec![]),
        (11, Some("c"), vec![]),
        (11, Some("d"), handed(3)),
        (11, Some("e"), vec![]),
        (100, Some("f"), vec![]), // All is read.
        (100, Some("a"), vec![]),
        (100, Some("b"), vec![]),
        (100, Some("c"), vec![]),
        (10, Some("c"), vec![]), // Set back.
        (10, Some("a"), vec![]),
        (10, Some("b"), vec![]),
        (10, Some("c"), handed(3)),
    ];
    let mut watched = Watched::default();
    for (second, (committed, holder, warnings)) in steps.iter().enumerate() {
        let warned = watched.look(second as i64 * 1000, *committed, *holder, found(*committed));
        assert_eq!(warned, *warnings, "at {second}");
    }
    assert!(watched.lag().is_handed_on);
}

/// One topic of 600 partitions.
struct OneTopic;

const TOPIC: &str = "t";
const TOPIC_ID: Uuid = Uuid([1; 16]);
const PARTITIONS: i32 = 600;

impl Topics for OneTopic {
    fn version(&self) -> u64 {
        0
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        (name == TOPIC).then_some(TopicInfo { id: TOPIC_ID, partitions: PARTITIONS })
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        (id == TOPIC_ID).then_some(TOPIC)
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::once(TOPIC))
    }
}

fn place(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: topic.to_owned(), partition: PartitionIndex(partition) }
}

fn commits(table: &mut GroupTable, group: &str, of: &TopicPartition, topic_id: Uuid) {
    let committed = CommittedOffset {
        offset: Offset(i64::from(of.partition.0)),
        leader_epoch: LeaderEpoch(-1),
        metadata: String::new(),
        committed_at: WallTime(0),
        expires_at: None,
        topic_id,
    };
    table.replay(Record::Offset { group: group.to_owned(), of: of.clone(), committed }, moment(0));
}

/// A group whose members share the partitions out: each has what is named behind it.
fn classic(group: &str, shares: &[(&str, &[i32])]) -> Record {
    let member = |(id, partitions): &(&str, &[i32])| {
        let partitions = partitions.iter().copied().map(PartitionIndex).collect::<Vec<_>>().into();
        let assigned = Assigned { topic: TOPIC, partitions };
        let assignment = ConsumerProtocolAssignment { assigned_partitions: vec![assigned].into(), user_data: None };
        MemberSnapshot {
            member_id: (*id).to_owned(),
            instance_id: None,
            client_id: format!("client of {id}"),
            client_host: "/127.0.0.1".to_owned(),
            rebalance_timeout_ms: 1000,
            session_timeout_ms: 1000,
            metadata: Vec::new(),
            assignment: assignment.to_bytes(0).expect("it can be written"),
        }
    };
    let snapshot = GroupSnapshot {
        protocol_type: "consumer".to_owned(),
        generation: 1,
        protocol: Some("range".to_owned()),
        leader: None,
        state_since: WallTime(0),
        members: shares.iter().map(member).collect(),
    };
    Record::Group { group: group.to_owned(), snapshot }
}

fn table() -> GroupTable {
    GroupTable::new(GroupConfig::of(&NodeConfig::default()))
}

/// All that there is to look at in a group, as a pass goes through it.
fn gone_through(table: &GroupTable, group: &str, count_max: usize) -> Vec<super::ToLookAt> {
    let (mut holders, mut member): (_, Option<String>) = (Holders::default(), None);
    while let Some((id, share)) = table.share_after(group, member.as_deref()) {
        holders.add(&id, &share);
        member = Some(id);
    }
    let mut all: Vec<super::ToLookAt> = Vec::new();
    loop {
        let last = all.last().map(|at| at.of.clone());
        let more = table.to_look_at(group, last.as_ref(), count_max, &mut holders, &OneTopic);
        assert!(more.len() <= count_max);
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

#[test]
fn a_pass_goes_through_all_groups_and_sees_who_has_what() {
    let mut table = table();
    table.replay(classic("shared", &[("m1", &[0, 2]), ("m2", &[1])]), moment(0));
    for partition in 0..PARTITIONS {
        commits(&mut table, "shared", &place(TOPIC, partition), TOPIC_ID);
    }
    commits(&mut table, "alone", &place(TOPIC, 0), Uuid::ZERO);
    commits(&mut table, "alone", &place(TOPIC, PARTITIONS), TOPIC_ID);
    commits(&mut table, "alone", &place(TOPIC, 1), Uuid([9; 16]));
    commits(&mut table, "alone", &place("gone", 0), TOPIC_ID);
    let next = |last: Option<&str>| table.group_after(last);
    assert_eq!(next(None).as_deref(), Some("alone"));
    assert_eq!(next(Some("alone")).as_deref(), Some("shared"));
    assert_eq!(next(Some("shared")), None);
    for count_max in [1, 256, 1000] {
        let all = gone_through(&table, "shared", count_max);
        let partitions: Vec<i32> = all.iter().map(|at| at.of.partition.0).collect();
        assert_eq!(partitions, (0..PARTITIONS).collect::<Vec<_>>());
        let holders: Vec<_> = all.iter().take(4).map(|at| at.holder.as_deref()).collect();
        assert_eq!(holders, [Some("m1"), Some("m2"), Some("m1"), None]);
    }
    let there: Vec<_> = gone_through(&table, "alone", 256).iter().map(|at| (at.of.clone(), at.log.is_some())).collect();
    let expected = [(place("gone", 0), false), (place(TOPIC, 0), true), (place(TOPIC, 1), false)];
    assert_eq!(there[..3], expected, "a topic that is gone, one that was made anew");
    assert_eq!(there[3..], [(place(TOPIC, PARTITIONS), false)], "a partition that never was");
    let client = table.client_of("shared", "m2");
    assert_eq!(client, Some(("client of m2".to_owned(), "/127.0.0.1".to_owned())));
}

#[test]
fn members_that_the_broker_assigns_partitions_are_seen() {
    let mut table = table();
    let beat = ConsumerHeartbeat {
        group: "g".to_owned(),
        member_id: "m".to_owned(),
        member_epoch: JOINS,
        instance_id: None,
        rack_id: None,
        client_id: "reader".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout_ms: Some(1000),
        topics: Some(vec![TOPIC.to_owned()]),
        regex: None,
        assignor: None,
        owned: Some(Vec::new()),
        chooses_member_id: true,
    };
    let request = GroupRequest::ConsumerHeartbeat(beat);
    let effects = table.handle(request, 1, String::new(), &OneTopic, moment(0));
    table.appended(effects.records, moment(0));
    for partition in 0..4 {
        commits(&mut table, "g", &place(TOPIC, partition), TOPIC_ID);
    }
    let all = gone_through(&table, "g", 3);
    assert_eq!(all.iter().map(|at| at.holder.as_deref()).collect::<Vec<_>>(), [Some("m"); 4]);
    let (one, other) = (all[0].holder.as_ref(), all[3].holder.as_ref());
    assert!(one.zip(other).is_some_and(|(one, other)| Rc::ptr_eq(one, other)), "a name is kept once");
    assert_eq!(table.client_of("g", "m"), Some(("reader".to_owned(), "/127.0.0.1".to_owned())));
}

#[test]
fn what_was_seen_goes_with_the_offset_and_adds_up() {
    let mut table = table();
    let empty = table.bytes();
    for partition in 0..3 {
        commits(&mut table, "g", &place(TOPIC, partition), TOPIC_ID);
    }
    let look = |table: &mut GroupTable| {
        let mut sums = GroupLag::default();
        for at in gone_through(table, "g", 2) {
            let found = LagFound { next_written: Some(WallTime(100)), ..found(at.committed.0) };
            let look = Look { committed: at.committed, holder: None, found, now: moment(1100) };
            assert_eq!(table.seen("g", &at.of, Some(&look), &LIMITS, &mut sums), []);
        }
        table.seen_all("g", sums);
    };
    assert_eq!(table.lag("g"), None);
    look(&mut table);
    let lag = table.lag("g").expect("it was looked at");
    assert_eq!((lag.partitions, lag.records_max, lag.age_ms_max, lag.headroom_ms_min), (3, 100, 1000, None));
    let (lags, last) = table.partition_lags("g", None, 2);
    assert_eq!(lags.iter().map(|lag| lag.lag.records).collect::<Vec<_>>(), [100, 99]);
    let (lags, last) = table.partition_lags("g", last.as_ref(), 2);
    assert_eq!((lags.len(), last.clone()), (1, Some(place(TOPIC, 2))));
    assert_eq!(table.partition_lags("g", last.as_ref(), 2), (vec![], None));
    // A topic that is gone for a moment is known anew.
    assert_eq!(table.seen("g", &place(TOPIC, 0), None, &LIMITS, &mut GroupLag::default()), []);
    assert_eq!(table.partition_lags("g", None, 9).0.len(), 2);
    for partition in 0..3 {
        let of = place(TOPIC, partition);
        table.replay(Record::OffsetRemoved { group: "g".to_owned(), of }, moment(0));
    }
    look(&mut table);
    assert_eq!((table.lag("g"), table.bytes()), (None, empty));
}
