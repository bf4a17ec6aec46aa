//! The two brokers that the script is put to: real Kafka, by `scripts/peers/kafka`, and Tidemill, as a user starts it.
//!
//! Both run on loopback with their own defaults; both are one node with the id 1, make topics that are asked for, and give them one
//! partition.

use std::process::Command;

use e2e::broker::{Broker, Launch, root};
use tempfile::TempDir;

use crate::run::Peer;

/// A fresh Tidemill with two shards.
pub struct Tidemill {
    pub peer: Peer,
    broker: Broker,
    dir: TempDir,
}

impl Tidemill {
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // As the other, which does not have its script wait for members that do not come.
        let broker = Launch::new(dir.path().join("data")).config("group-initial-rebalance-delay-ms = 0\n").start();
        Self { peer: Peer { address: broker.kafka.clone(), has_coordinators: false }, broker, dir }
    }

    /// Ends it and removes its data.
    ///
    /// # Panics
    /// It does not end well.
    pub fn stop(self) {
        assert_eq!(self.broker.stop().code(), Some(0), "SIGTERM is an ordinary end");
        self.dir.close().expect("its data can be removed");
    }
}

/// A fresh Apache Kafka 4.4; stopped and removed when it is dropped.
pub struct Kafka {
    pub peer: Peer,
    dir: String,
}

impl Kafka {
    /// # Panics
    /// It does not start: Java and Maven's packages are needed.
    #[must_use]
    pub fn start() -> Self {
        let output = Command::new(root().join("scripts/peers/kafka"))
            .args(["start", "--heap", "512m"])
            .output()
            .expect("scripts/peers/kafka can be run");
        let ready = String::from_utf8_lossy(&output.stdout).into_owned();
        let word = |name: &str| ready.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        let (Some(address), Some(dir)) = (word("kafka="), word("dir=")) else {
            panic!("Kafka did not start: {ready}{}", String::from_utf8_lossy(&output.stderr))
        };
        Self { peer: Peer { address, has_coordinators: true }, dir }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let removed = Command::new(root().join("scripts/peers/kafka")).args(["remove", &self.dir]).status();
        if !removed.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("Kafka in {} was not removed: {removed:?}", self.dir);
        }
    }
}
