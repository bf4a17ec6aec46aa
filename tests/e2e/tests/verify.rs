//! `log verify` on what real brokers leave behind: sound after any end, and a single flipped byte is found where it is.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::broker::{Broker, Launch, program};
use serde_json::Value;

/// Checkpoints often, so that segments are sealed and indexes are in their files.
const CONFIG: &str = "checkpoint-interval-ms = 100\n";

fn tidemill(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // One that ends before it has read everything closes the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

/// Exit code and rows of `log verify`.
fn verify(dir: &Path) -> (Option<i32>, Vec<Value>) {
    let output = tidemill(&["log", "verify", "--records", "--output", "json", &dir.display().to_string()], b"");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect())
}

fn fill(broker: &Broker, round: usize) {
    let name = "t";
    if round == 0 {
        let create = ["topic", "create", name, "--partitions", "2", "--config", "segment.bytes=1048576"];
        let more = ["--config", "index.interval.bytes=4096", "--bootstrap", &broker.kafka];
        assert!(tidemill(&[&create[..], &more].concat(), b"").status.success());
    }
    let records: String = (0..40_000).map(|number| format!("{round} {number} {}\n", "x".repeat(60))).collect();
    assert!(tidemill(&["produce", name, "--bootstrap", &broker.kafka], records.as_bytes()).status.success());
}

/// A directory that a broker has filled and then left in good order, and another has opened: so both copies of each manifest have records,
/// however few checkpoints the first one made.
fn filled(launch: &Launch) {
    let broker = launch.start();
    (0..2).for_each(|round| fill(&broker, round));
    assert!(broker.stop().success());
    assert!(launch.start().stop().success());
}

/// Files below `dir` whose names end so, in order of their names.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file with one byte of it flipped, until this is dropped.
struct Flipped<'a> {
    path: &'a Path,
    at: u64,
    byte: u8,
}

impl<'a> Flipped<'a> {
    fn new(path: &'a Path, at: u64) -> Self {
        let mut byte = [0];
        let file = fs::File::options().read(true).write(true).open(path).expect("opened");
        file.read_exact_at(&mut byte, at).expect("within the file");
        file.write_all_at(&[!byte[0]], at).expect("written");
        Self { path, at, byte: byte[0] }
    }
}

impl Drop for Flipped<'_> {
    fn drop(&mut self) {
        let file = fs::File::options().write(true).open(self.path).expect("opened");
        file.write_all_at(&[self.byte], self.at).expect("written");
    }
}

/// Flips a byte, and sees it told as the one damage, at this file and position, with a remedy.
fn check(dir: &Path, path: &Path, at: u64, position: u64) {
    let _flipped = Flipped::new(path, at);
    let (exit, rows) = verify(dir);
    let damages: Vec<_> = rows.iter().filter(|row| row["severity"] == "damage").collect();
    let told = || format!("byte {at} of {}: {damages:#?}", path.display());
    assert_eq!((exit, damages.len()), (Some(3), 1), "{}", told());
    assert_eq!(damages[0]["file"].as_str(), path.to_str(), "{}", told());
    assert_eq!(damages[0]["position"].as_u64(), Some(position), "{}", told());
    assert!(damages[0]["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{}", told());
}

/// The whole manifests that verify found, by whether they are the newest.
fn manifests(rows: &[Value], newest: bool) -> Vec<PathBuf> {
    let rows = rows.iter().filter(|row| row["newest"] == newest);
    rows.map(|row| row["manifest"].as_str().expect("a path").into()).collect()
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(scratch.path().join("data")).config(CONFIG);
    filled(&launch);
    let dir = &launch.data_dir;
    let (exit, rows) = verify(dir);
    assert_eq!(exit, Some(0), "{rows:#?}");
    let of_topic = |row: &&Value| row["topic"] == "t";
    let ends = rows.iter().filter(of_topic).filter_map(|row| row["end_offset"].as_i64()).sum::<i64>();
    assert_eq!(ends, 80_000, "{rows:#?}");

    // The second batch of a sealed segment, by the length that the first one says.
    let segments = files(&dir.join("logs/t"), ".log");
    let sealed = segments.iter().find(|path| path.with_extension("timeindex").exists()).expect("a sealed segment");
    let bytes = fs::read(sealed).expect("readable");
    let length = |at: usize| u32::from_be_bytes(bytes[at + 8..at + 12].try_into().expect("four")) as usize + 12;
    let batch = length(0);
    assert!(bytes.len() > batch + length(batch), "several batches");
    // Base offset, length, epoch, format, checksum, attributes, last offset, producer; the first record, the last byte.
    for at in [7, 8, 11, 15, 16, 20, 22, 26, 50, 61, length(batch) - 1] {
        check(dir, sealed, (batch + at) as u64, batch as u64);
    }
    for (extension, entry_bytes) in [("index", 8), ("timeindex", 12)] {
        let path = sealed.with_extension(extension);
        let entries = fs::metadata(&path).expect("there").len() / entry_bytes;
        assert!(entries > 2, "{entries}");
        for entry in [0, 1, entries - 1] {
            for byte in [1, entry_bytes - 1] {
                check(dir, &path, entry * entry_bytes + byte, entry * entry_bytes);
            }
        }
    }
    // A manifest's head is told at its beginning, its records at the first or at the one that makes no sense: here a topic's name.
    for newest in [true, false] {
        let of_first_shard = &manifests(&rows, newest)[0];
        check(dir, of_first_shard, 17, 0);
        check(dir, of_first_shard, 4096 + 4 + 20 + 2, 4096);
    }
    assert_eq!(verify(dir).0, Some(0), "all is as it was");
}

#[test]
fn a_killed_broker_leaves_no_damage_and_a_flipped_commit_is_found() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let launch = Launch::new(scratch.path().join("data")).config(CONFIG);
    for round in 0..4 {
        let broker = launch.start();
        fill(&broker, round);
        broker.kill();
        let (exit, rows) = verify(&launch.data_dir);
        assert_eq!(exit, Some(0), "{rows:#?}");
    }
    // Another without checkpoints, so that its journal has it all.
    let launch = Launch::new(scratch.path().join("journal"));
    let broker = launch.start();
    for round in 0..3 {
        fill(&broker, round);
    }
    broker.kill();
    let (exit, rows) = verify(&launch.data_dir);
    assert_eq!(exit, Some(0), "{rows:#?}");
    let fullest = |path: &PathBuf| commits(path).len();
    let journal =
        files(&launch.data_dir.join("shards"), "journal-0").into_iter().max_by_key(fullest).expect("a journal");
    let commits = commits(&journal);
    assert!(commits.len() > 4, "{commits:?}");
    for &at in &commits[1..commits.len() - 2] {
        // Its head, and what stands in it.
        check(&launch.data_dir, &journal, at + 30, at);
        check(&launch.data_dir, &journal, at + 100, at);
    }
    // The last one may have been torn: nothing says that it had been durable.
    let last = *commits.last().expect("there are some");
    let _flipped = Flipped::new(&journal, last + 100);
    let (exit, rows) = verify(&launch.data_dir);
    let note = rows.iter().find(|row| row["severity"] == "note" && row["position"] == last);
    assert_eq!(exit, Some(0), "{rows:#?}");
    assert_eq!(note.and_then(|row| row["file"].as_str()), journal.to_str(), "{rows:#?}");
}

/// Where the commits of a journal begin.
fn commits(journal: &Path) -> Vec<u64> {
    let output = tidemill(&["log", "dump", "--output", "json", &journal.display().to_string()], b"");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object a line"));
    rows.filter_map(|row| row["sequence"].as_u64().and(row["position"].as_u64())).collect()
}
