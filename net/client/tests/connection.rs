//! One connection: versions, order, endings.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use base::Instant;
use client::{Connection, ConnectionOptions, Error, Sending};
use support::{Incoming, Reaction, Shared, run};
use wire::ApiKey;
use wire::messages::{MetadataRequest, MetadataResponse, ProduceRequest};

async fn connect(cluster: &Shared) -> Result<Connection, Error> {
    let (shard, address) = (cluster.borrow().shard.clone(), cluster.borrow().addresses[0]);
    let options = ConnectionOptions { request_timeout: Duration::from_secs(2), ..Default::default() };
    Connection::open(&shard, &shard.account("test"), address, options).await
}

#[test]
fn the_highest_common_versions_are_found_with_any_broker() {
    // What the broker serves of ApiVersions and Metadata; the questions asked; the version of Metadata
    let table = [
        ((0, 4), (0, 13), vec![4], Some(13)),
        ((0, 9), (0, 99), vec![4], Some(13)),
        ((0, 3), (0, 12), vec![4, 3], Some(12)),
        ((0, 0), (0, 1), vec![4, 0], Some(1)),
        ((2, 2), (5, 9), vec![4, 2], Some(9)),
        ((0, 4), (14, 15), vec![4], None),
    ];
    for (own, metadata, asked, picked) in table {
        run(1, move |cluster, _| async move {
            cluster.borrow_mut().versions.insert(ApiKey::ApiVersions.code(), own);
            cluster.borrow_mut().versions.insert(ApiKey::Metadata.code(), metadata);
            let connection = connect(&cluster).await.expect("connects");
            let seen: Vec<i16> = cluster.borrow().requests.iter().map(|(_, version)| *version).collect();
            assert_eq!((seen, connection.version::<MetadataRequest<'_>>().ok()), (asked, picked));
        });
    }
}

#[test]
fn answers_come_to_their_requests_and_a_dropped_one_takes_nothing_along() {
    run(1, |cluster, _| async move {
        cluster.borrow_mut().add_topic("t", 1);
        let connection = connect(&cluster).await.expect("connects");
        let version = connection.version::<MetadataRequest<'_>>().expect("served");
        let mut answers = Vec::new();
        for number in 0..20 {
            let all = number % 2 == 0;
            let topics = if all { None } else { Some(Default::default()) };
            let request = MetadataRequest { topics, ..Default::default() };
            let slot = connection.slot().await.expect("open");
            let answer = connection.start(slot, version, &request, Sending::default()).expect("in line");
            if number % 3 != 0 {
                answers.push((all, answer));
            }
        }
        for (all, answer) in answers {
            let reply = answer.wait().await.expect("answered");
            let response: MetadataResponse<'_> = reply.decode().expect("an answer");
            assert_eq!(response.topics.len(), usize::from(all));
        }
    });
}

/// Starts five requests against a broker that reacts like this to the third, and returns how each ended.
fn five(reaction: impl Fn(&Incoming) -> Reaction + 'static) -> Vec<Result<(), Error>> {
    let ends = Rc::new(RefCell::new(Vec::new()));
    let result = ends.clone();
    run(1, |cluster, _| async move {
        let connection = connect(&cluster).await.expect("connects");
        let mut count = 0;
        cluster.borrow_mut().hook = Box::new(move |_, incoming| {
            count += 1;
            if count == 3 { reaction(incoming) } else { Reaction::Serve }
        });
        let version = connection.version::<MetadataRequest<'_>>().expect("served");
        let mut answers = Vec::new();
        for _ in 0..5 {
            let slot = connection.slot().await.expect("open");
            let answer = connection.start(slot, version, &MetadataRequest::default(), Sending::default());
            answers.push(answer.expect("in line"));
        }
        for answer in answers {
            let end = answer.wait().await.map(|_| ());
            ends.borrow_mut().push(end);
        }
        assert!(connection.is_closed());
        assert!(matches!(connection.slot().await.err(), Some(Error::Connect { .. })), "nothing more can be sent");
    });
    result.take()
}

#[test]
fn when_a_connection_ends_everybody_is_told() {
    let outcomes = |ends: &[Result<(), Error>]| -> Vec<&'static str> {
        let name = |end: &Result<(), Error>| match end {
            Ok(()) => "answered",
            Err(Error::Closed { .. }) => "closed",
            Err(Error::TimedOut { .. }) => "timed out",
            Err(Error::Decode { .. }) => "malformed",
            Err(Error::Nonsense { .. }) => "nonsense",
            Err(other) => panic!("{other}"),
        };
        ends.iter().map(name).collect()
    };
    let hung_up = five(|_| Reaction::HangUp);
    assert_eq!(outcomes(&hung_up), ["answered", "answered", "closed", "closed", "closed"]);
    // An answer that never comes, so that the next two answers are taken for it.
    let ignored = five(|_| Reaction::Ignore);
    assert_eq!(outcomes(&ignored), ["answered", "answered", "nonsense", "closed", "closed"]);
    let cut = five(|_| Reaction::Answer(vec![0, 0, 0, 2, 1, 1]));
    assert_eq!(outcomes(&cut), ["answered", "answered", "malformed", "closed", "closed"]);
    let lying = five(|_| Reaction::Answer(vec![0x7f, 0xff, 0xff, 0xff, 1, 1]));
    assert_eq!(outcomes(&lying), ["answered", "answered", "closed", "closed", "closed"]);
    let negative = five(|_| Reaction::Answer(vec![0xff; 9]));
    assert_eq!(outcomes(&negative), ["answered", "answered", "closed", "closed", "closed"]);
}

#[test]
fn silence_ends_a_connection_in_time() {
    run(1, |cluster, _| async move {
        let shard = cluster.borrow().shard.clone();
        cluster.borrow_mut().hook = Box::new(|_, incoming| match incoming.key {
            ApiKey::ApiVersions => Reaction::Serve,
            _ => Reaction::Ignore,
        });
        let connection = connect(&cluster).await.expect("connects");
        let error = connection.call(&MetadataRequest::default()).await.expect_err("no answer");
        assert!(matches!(error, Error::TimedOut { .. }) && error.may_have_happened());
        assert_eq!(shard.now(), Instant(2_000_000_000));
        // A peer that takes connections and says nothing is as good as none.
        cluster.borrow_mut().hook = Box::new(|_, _| Reaction::Ignore);
        let error = connect(&cluster).await.err().expect("silent");
        assert!(error.is_unreachable(), "{error}");
        let (account, nowhere) = (shard.account("test"), ([127, 0, 0, 1], 999).into());
        let error = Connection::open(&shard, &account, nowhere, ConnectionOptions::default()).await.err();
        assert!(error.expect("nobody listens").is_unreachable());
    });
}

#[test]
fn a_throttle_holds_requests_back() {
    run(1, |cluster, _| async move {
        let shard = cluster.borrow().shard.clone();
        let connection = connect(&cluster).await.expect("connects");
        connection.throttle(-5);
        drop(connection.slot().await.expect("not throttled"));
        assert_eq!(shard.now(), Instant(0));
        connection.throttle(250);
        assert!(connection.try_slot().expect("open").is_none());
        connection.call(&MetadataRequest::default()).await.expect("answered");
        assert_eq!(shard.now(), Instant(250_000_000));
        connection.throttle(i32::MAX);
        drop(connection.slot().await.expect("not for ever"));
        assert_eq!(shard.now(), Instant(60_250_000_000));
        assert!(connection.version::<ProduceRequest<'_>>().is_ok());
    });
}
