//! The verbs as a person uses them: real processes, real files, a broker on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidemill");

/// A broker with a data directory of its own; killed, and its directory removed, at the end.
struct Broker {
    child: Child,
    dir: PathBuf,
    address: String,
}

impl Broker {
    fn start(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidemill-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--shards", "2", "--data-dir"])
            .arg(&dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the broker starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut ready).expect("it says when it is ready");
        let address = ready.split_whitespace().find_map(|word| word.strip_prefix("kafka=")).expect("where it listens");
        Self { address: address.to_owned(), child, dir }
    }

    /// Runs a verb against the broker: exit code, standard output, standard error.
    fn run(&self, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
        run(&[arguments, &["--bootstrap", &self.address]].concat(), input)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn run(arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that ends before it has read everything closes the pipe.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn records_go_in_and_come_out() {
    let broker = Broker::start("records");
    let create = ["topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=-1"];
    assert_eq!(broker.run(&create, b"").0, 0);
    let produce = ["produce", "orders", "--key-separator", ":", "--header", "from=test", "--null-marker", "NULL"];
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let arguments = [&produce[..], &["--compression", compression]].concat();
        let (exit, _, error) = broker.run(&arguments, b"a:1\nb:NULL\nc:\xff");
        assert_eq!((exit, error.as_str()), (0, ""), "{compression}");
    }
    let (exit, output, _) = broker.run(&["consume", "orders", "--output", "json"], b"");
    let records = lines(&output);
    assert_eq!((exit, records.len()), (0, 15));
    for record in &records {
        let value = match record["key"].as_str().expect("has a key") {
            "a" => record["value"] == "1",
            "b" => record["value"].is_null() && record.get("value").is_some(),
            _ => record["value_base64"] == "/w==",
        };
        assert!(value, "{record}");
        assert_eq!(record["headers"][0], serde_json::json!({ "key": "from", "value": "test" }));
    }
    // What has an end is counted, what has a place begins there.
    let count = |arguments: &[&str]| {
        let (exit, output, _) = broker.run(&[&["consume", "orders", "--output", "json"], arguments].concat(), b"");
        (exit, output.lines().count())
    };
    let partition = records[0]["partition"].to_string();
    let of_partition = records.iter().filter(|record| record["partition"] == records[0]["partition"]).count();
    assert_eq!(count(&["--count", "4"]), (0, 4));
    assert_eq!(count(&["--follow", "--count", "15"]), (0, 15));
    assert_eq!(count(&["--from", "end"]), (0, 0));
    assert_eq!(count(&["--from", "@0"]), (0, 15));
    assert_eq!(count(&["--from", "2999-01-01T00:00:00Z"]), (0, 0));
    assert_eq!(count(&["--partition", &partition, "--from", "2"]), (0, of_partition - 2));
    assert_eq!(count(&["--from", "1000"]), (5, 0));
}

#[test]
fn topics_are_listed_described_and_deleted() {
    let broker = Broker::start("topics");
    for (arguments, exit) in [
        (&["topic", "create", "one", "--partitions", "3"][..], 0),
        (&["topic", "create", "two", "--validate-only"], 0),
        (&["topic", "create", "one"], 5),
        (&["topic", "create", "bad/name"], 5),
        (&["topic", "create", "three", "--config", "no.such.setting=1"], 5),
        (&["topic", "create", "three", "--replication-factor", "3"], 5),
        (&["topic", "create", "three", "--config", "max.message.bytes=4000000", "--validate-only"], 0),
        // Longer than a commit of this broker may be: refused here, not with the first such batch.
        (&["topic", "create", "three", "--config", "max.message.bytes=5000000"], 5),
        (&["topic", "create"], 2),
        (&["topic", "create", "three", "--partitions", "0"], 2),
        (&["topic", "describe", "two"], 5),
        (&["topic", "delete", "two"], 5),
        (&["produce", "two"], 5),
        (&["consume", "two"], 5),
        (&["consume", "one", "--partition", "3"], 5),
        (&["consume", "one", "--from", "yesterday"], 2),
    ] {
        let (found, _, error) = broker.run(arguments, b"x\n");
        assert_eq!(found, exit, "{arguments:?}: {error}");
        assert_eq!(error.is_empty(), exit == 0, "{error}");
    }
    let (_, output, _) = broker.run(&["topic", "list", "--output", "json"], b"");
    let names: Vec<_> = lines(&output).iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["one"]);
    assert_eq!(broker.run(&["produce", "one", "--partition", "1"], b"x\ny\n").0, 0);
    let (_, output, _) = broker.run(&["topic", "describe", "one", "--output", "json"], b"");
    let ends: Vec<_> = lines(&output).iter().map(|row| row["end_offset"].as_i64()).collect();
    assert_eq!(ends, [Some(0), Some(2), Some(0)]);
    assert_eq!(broker.run(&["topic", "delete", "one"], b"").0, 0);
    assert_eq!(broker.run(&["topic", "describe", "one"], b"").0, 5);
}

#[test]
fn topics_are_altered() {
    let broker = Broker::start("altered");
    assert_eq!(broker.run(&["topic", "create", "one", "--partitions", "2"], b"").0, 0);
    for (arguments, exit) in [
        (&["topic", "alter", "one", "--config", "max.message.bytes=1000", "--config", "retention.ms=-1"][..], 0),
        (&["topic", "alter", "one", "--config", "max.message.bytes=5", "--validate-only"], 0),
        (&["topic", "alter", "one", "--delete-config", "retention.ms"], 0),
        (&["topic", "alter", "one", "--config", "no.such.setting=1"], 5),
        (&["topic", "alter", "one", "--delete-config", "no.such.setting"], 5),
        (&["topic", "alter", "one", "--config", "cleanup.policy=compact"], 5),
        (&["topic", "alter", "one", "--partitions", "2"], 5),
        (&["topic", "alter", "one", "--partitions", "1"], 5),
        (&["topic", "alter", "two", "--partitions", "3"], 5),
        (&["topic", "alter", "two", "--config", "retention.ms=1"], 5),
        (&["topic", "alter", "one"], 2),
        (&["topic", "alter", "one", "--partitions", "0"], 2),
    ] {
        let (found, _, error) = broker.run(arguments, b"");
        assert_eq!(found, exit, "{arguments:?}: {error}");
        assert_eq!(error.is_empty(), exit == 0, "{error}");
    }
    let long = [b'x'; 2000];
    assert_eq!(broker.run(&["produce", "one"], &long).0, 5, "the new bound holds");
    assert_eq!(broker.run(&["topic", "alter", "one", "--delete-config", "max.message.bytes"], b"").0, 0);
    assert_eq!(broker.run(&["produce", "one"], &long).0, 0, "and is gone again");
    let (exit, output, warning) = broker.run(&["topic", "alter", "one", "--partitions", "5"], b"");
    assert_eq!(exit, 0, "{warning}");
    assert!(output.contains("are 5") && warning.contains("records of a key"), "{output}{warning}");
    assert_eq!(broker.run(&["produce", "one", "--partition", "4"], b"x\n").0, 0);
}

#[test]
fn nobody_there_is_an_exit_code_of_its_own() {
    for verb in [&["topic", "list"][..], &["consume", "t"], &["produce", "t"]] {
        let (exit, output, error) = run(&[verb, &["--bootstrap", "127.0.0.1:1"]].concat(), b"x\n");
        assert_eq!((exit, output.as_str()), (4, ""), "{verb:?}");
        assert!(error.contains("127.0.0.1:1") && error.contains("--bootstrap"), "{error}");
        assert_eq!(run(&[verb, &["--bootstrap", "nonsense"]].concat(), b"").0, 2);
    }
}

#[test]
fn files_of_a_stopped_broker_are_dumped_and_verified() {
    let mut broker = Broker::start("files");
    let dir = broker.dir.display().to_string();
    assert_eq!(broker.run(&["topic", "create", "t"], b"").0, 0);
    let input: String = (0..5000).map(|number| format!("{number}\n")).collect();
    assert_eq!(broker.run(&["produce", "t"], input.as_bytes()).0, 0);
    let (exit, _, error) = run(&["log", "verify", &dir], b"");
    assert!(exit == 5 && error.contains("stop the broker"), "{error}");
    broker.kill();

    let (exit, output, _) = run(&["log", "verify", &dir, "--output", "json"], b"");
    let rows = lines(&output);
    let log = rows.iter().find(|row| row["topic"] == "t").expect("the topic's log");
    assert_eq!((exit, log["end_offset"].as_i64(), log["damages"].as_i64()), (0, Some(5000), Some(0)), "{output}");

    // All of it stands in the journal, which also says it when a byte of it rots.
    let journal = newest_journal(&broker.dir);
    let (exit, output, _) = run(&["log", "dump", "--records", "--output", "json", &journal.display().to_string()], b"");
    assert_eq!(exit, 0);
    let appends = lines(&output).iter().filter(|row| row["entry"] == "append").count();
    assert!(appends > 0, "{output}");
    let commits: Vec<u64> = lines(&output).iter().filter_map(|row| row["position"].as_u64()).collect();
    let mut bytes = fs::read(&journal).expect("readable");
    let (second, third) = (commits[commits.len() - 3], commits[commits.len() - 2]);
    bytes[second as usize + 70] ^= 1;
    fs::write(&journal, &bytes).expect("writable");
    let (exit, output, _) = run(&["log", "verify", &dir, "--output", "json"], b"");
    let damage = &lines(&output)[0];
    assert_eq!((exit, damage["position"].as_u64()), (3, Some(second)), "{output} {third}");
    assert_eq!(damage["file"].as_str(), journal.to_str());
}

/// The journal file with the topic's appends: the one with the most commits.
fn newest_journal(dir: &Path) -> PathBuf {
    let shards = fs::read_dir(dir.join("shards")).expect("there");
    let files = shards.flat_map(|shard| fs::read_dir(shard.expect("listed").path()).expect("there"));
    let journals =
        files.map(|file| file.expect("listed").path()).filter(|path| path.to_string_lossy().contains("journal-"));
    let commits = |path: &PathBuf| {
        let bytes = fs::read(path).expect("readable");
        bytes.chunks(4096).filter(|block| block.starts_with(b"TMJ1")).count()
    };
    journals.max_by_key(commits).expect("a journal")
}

#[test]
fn configurations_are_checked_and_shown() {
    let dir = std::env::temp_dir().join(format!("tidemill-config-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("node.toml");
    let file = path.to_str().expect("text");
    for (text, exit, word) in [
        ("shards = 2\njournal-bytes = 33554432\n", 0, "is valid"),
        ("shrads = 2\n", 1, "is `shards` meant?"),
        ("no-such-thing-at-all = 2\n", 1, "config show"),
        ("shards = 0\n", 1, "1 to 256"),
        ("shards = \n", 1, "not valid"),
        ("shards = \"two\"\n", 1, "not valid"),
    ] {
        fs::write(&path, text).expect("written");
        let (found, output, error) = run(&["config", "check", "--config", file], b"");
        assert_eq!(found, exit, "{text}: {error}");
        assert!(format!("{output}{error}").contains(word), "{text}: {output}{error}");
        // A broker says the same, and does not start.
        if exit != 0 {
            let (found, _, error) = run(&["serve", "--config", file], b"");
            assert_eq!(found, 2, "{error}");
            assert!(error.contains(word), "{text}: {error}");
        }
    }
    fs::write(&path, "shards = 2\n").expect("written");
    let (_, output, _) = run(&["config", "show", "--config", file, "--output", "json"], b"");
    let rows = lines(&output);
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).expect("known").clone();
    assert_eq!((row("shards")["value"].as_str(), row("shards")["source"].as_str()), (Some("2"), Some("file")));
    assert_eq!(row("listen")["source"].as_str(), Some("default"));
    assert_eq!(run(&["config", "show"], b"").0, 0);
    assert_eq!(run(&["config", "check", "--config", "/no/such/file"], b"").0, 2);
    let _ = fs::remove_dir_all(&dir);
}
