//! How a broker ends, and when it refuses to start.

use std::path::Path;

use client::{NewTopic, ProducerOptions};
use e2e::broker::{Ended, Launch};
use e2e::ledger::{Ledger, Promise, Violation};
use e2e::load::{Load, LoadTopic};
use e2e::runner::{client, on_shard};

fn launch(dir: &Path) -> Launch {
    Launch::new(dir.join("data"))
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The broker ends with this code, and says all of these words.
fn check(launch: &Launch, code: i32, words: &[&str]) {
    let Ended { code: found, stdout, stderr } = launch.run();
    assert_eq!(found, Some(code), "{stderr}");
    assert_eq!(stdout, "", "nothing is ready");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in {stderr}");
    }
}

#[test]
fn sigterm_under_load_loses_nothing() {
    let dir = temp();
    let launch = launch(dir.path());
    on_shard(move |shard| async move {
        let broker = launch.start();
        let launch = launch.listen(&broker.kafka);
        let topic = LoadTopic { name: "t".into(), generation: 0, partitions: 4 };
        let new = NewTopic { name: "t".into(), partition_count: Some(4), ..NewTopic::default() };
        client(&shard, &broker.kafka).create_topic(&new, false).await.expect("the topic is created");
        let load = Load::new(&shard, Ledger::default());
        let options = ProducerOptions::default();
        let task =
            load.start_producer(&broker.kafka, std::slice::from_ref(&topic), options, shard.random(), Promise::Settles);
        load.until(30, "records are acknowledged", |ledger| ledger.acknowledged() > 5000).await;
        let status = shard.offload(move || broker.stop()).await;
        assert_eq!(status.code(), Some(0), "SIGTERM is an ordinary end");

        let again = launch.clone();
        let broker = shard.offload(move || again.start()).await;
        load.set_open(false);
        load.until(30, "the rest is acknowledged", Ledger::is_settled).await;
        task.cancel();
        let audited = load.audit(&broker.kafka, &topic).await;
        assert_eq!(audited, Ok::<u64, Violation>(load.ledger.borrow().acknowledged()));
        assert_eq!(shard.offload(move || broker.stop()).await.code(), Some(0));
    });
}

#[test]
fn a_data_directory_belongs_to_one_process() {
    let dir = temp();
    let launch = launch(dir.path());
    let first = launch.start();
    let data = launch.data_dir.display().to_string();
    let holder = format!("process {} (", first.pid());
    check(&launch, 5, &[&data, "another process uses it", &holder, "--data-dir"]);
    first.kill();
    // A lock that outlived its owner would need a hand.
    assert!(launch.start().stop().success());
}

#[test]
fn a_busy_port_is_said_to_be_busy() {
    let dir = temp();
    let first = launch(dir.path()).start();
    let second = Launch::new(dir.path().join("other")).listen(&first.kafka);
    check(&second, 5, &[&first.kafka, "in use", "--listen"]);
    assert!(first.stop().success());
    // What failed to start has left a directory that can be started on.
    assert!(second.start().stop().success());
}

#[test]
fn wrong_usage_ends_with_2() {
    let dir = temp();
    let launch = launch(dir.path());
    for (arguments, word) in
        [(&["--no-such-option"][..], "--no-such-option"), (&["--config", "/no/such/file.toml"], "/no/such/file.toml")]
    {
        check(&launch.more(arguments), 2, &[word]);
    }
    for (config, words) in [
        ("no-such-key = 1", &["no-such-key"][..]),
        ("journal-bytes = 1", &["journal-bytes", "32 MiB"]),
        ("shards = \"many\"", &["shards"]),
    ] {
        check(&launch.config(config), 2, words);
    }
    check(&launch.shards(0), 2, &["shards"]);
    check(&launch.listen("not an address"), 2, &["not an address"]);
    check(&launch.listen("0.0.0.0:0"), 2, &["0.0.0.0:0", "wildcard", "--advertised HOST:PORT"]);
    check(&launch.listen("[::]:0"), 2, &["[::]:0", "wildcard", "--advertised HOST:PORT"]);
    check(&launch.more(&["--advertised", "0.0.0.0:9092"]), 2, &["0.0.0.0:9092", "wildcard"]);
    assert!(!launch.data_dir.exists(), "nothing was made");
}

#[test]
fn a_directory_of_a_newer_format_is_left_alone() {
    let dir = temp();
    let launch = launch(dir.path());
    assert!(launch.start().stop().success());
    let path = launch.data_dir.join("format.toml");
    let text = std::fs::read_to_string(&path).expect("the format is written down");
    let newer: String = text
        .lines()
        .map(|line| if line.starts_with("format") { "format = 999\n".to_owned() } else { format!("{line}\n") })
        .collect();
    assert_ne!(newer, text, "{text}");
    std::fs::write(&path, &newer).expect("can be written");
    check(&launch, 5, &["999", "format"]);
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), newer);
    std::fs::write(&path, text).expect("can be written");
    assert!(launch.start().stop().success());
}
