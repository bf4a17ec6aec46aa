//! A small file system of a test's own, and who fills it.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use base::PartitionIndex;
use client::{Acks, Client, DeliveryError, Producer, ProducerOptions, ProducerRecord};

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// A new ext4 of `mib` MiB at `at`; the kernel gives its loop device back when it is unmounted.
///
/// # Panics
/// When it can't be made.
pub fn mount(dir: &Path, at: &Path, mib: u64) {
    let image = dir.join("image");
    let file = std::fs::File::create(&image).expect("the image can be made");
    file.set_len(mib << 20).expect("the image can be sized");
    std::fs::create_dir(at).expect("the directory can be made");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    run("mkfs.ext4", &["-q", "-m", "0", &path(&image)]);
    run("mount", &["-o", "loop", &path(&image), &path(at)]);
}

/// Writes to a file until its file system has not one byte more; gives the bytes.
///
/// # Panics
/// When it fails otherwise.
pub fn fill_to_the_last_byte(path: &Path) -> u64 {
    let mut file = std::fs::File::create(path).expect("the file can be made");
    let chunk = vec![0x5a; 1 << 20];
    let mut bytes = 0;
    // Delayed allocation finds out late: what is synced has its blocks.
    for piece in [1 << 20, 4096, 1] {
        loop {
            match file.write(&chunk[..piece]).and_then(|written| file.sync_data().map(|()| written)) {
                Ok(written) => bytes += written as u64,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
    bytes
}

/// Whether each partition of a topic takes a record of so many bytes, asked once of each.
///
/// # Panics
/// When the topic does not exist.
pub async fn probe(client: &Client, topic: &str, partitions: i32, bytes: usize) -> Vec<Result<(), DeliveryError>> {
    let options = ProducerOptions { idempotent: false, retries: false, acks: Acks::All, ..ProducerOptions::default() };
    let producer = Producer::open(client, options).expect("options that agree");
    let value = vec![b'?'; bytes];
    let mut outcomes = Vec::new();
    for partition in 0..partitions {
        let partition = Some(PartitionIndex(partition));
        let record = ProducerRecord { topic, partition, value: Some(&value), ..ProducerRecord::default() };
        let delivery = producer.send(record).await.expect("the topic exists");
        producer.flush().await;
        outcomes.push(delivery.await.map(drop));
    }
    outcomes
}

/// Whether no partition takes a record. Every refusal there is must be one that a client tries again after.
///
/// # Panics
/// When one is not.
pub async fn is_full(client: &Client, topic: &str, partitions: i32) -> bool {
    let outcomes = probe(client, topic, partitions, 1).await;
    for outcome in &outcomes {
        let retriable = match outcome {
            Ok(()) => true,
            Err(DeliveryError::Refused { code, .. }) => code.is_retriable(),
            Err(_) => false,
        };
        assert!(retriable, "{outcome:?}");
    }
    outcomes.iter().all(Result::is_err)
}
