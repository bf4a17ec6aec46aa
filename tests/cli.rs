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
        let (child, address) = Self::serve(&dir);
        Self { child, dir, address }
    }

    /// Kills it and starts it again on its data, on another port.
    fn restart(&mut self) {
        self.kill();
        (self.child, self.address) = Self::serve(&self.dir);
    }

    fn serve(dir: &Path) -> (Child, String) {
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--shards", "2", "--data-dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the broker starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut ready).expect("it says when it is ready");
        let address = ready.split_whitespace().find_map(|word| word.strip_prefix("kafka=")).expect("where it listens");
        (child, address.to_owned())
    }

    /// Runs a verb against the broker: exit code, standard output, standard error.
    fn run(&self, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
        run(&[arguments, &["--bootstrap", &self.address]].concat(), input)
    }

    /// Stops it in good order; its directory is the caller's to remove.
    fn stop(mut self) -> PathBuf {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
        std::mem::take(&mut self.dir)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        if !self.dir.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.dir);
        }
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
        (&["topic", "alter", "one", "--config", "cleanup.policy=keep"], 5),
        (&["topic", "alter", "one", "--config", "cleanup.policy=compact,delete", "--validate-only"], 0),
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

const POLICY: &str = r#"
[[topics]]
name = "orders"
partitions = 3
replication_factor = 1
min_insync_replicas = 1
cleanup_policy = "delete"
retention_ms = 86_400_000
retention_topic_bytes = 1_073_741_824
compression = "producer"
key_schema = "orders-key:1"
value_schema = "orders-value:3"
delivery_contract = "at least once, in order of the key"

[[topics]]
name = "audit"
retention_ms = -1
"#;

/// Applies a policy and gives the plan's rows, each as `topic change what from to`.
fn apply(broker: &Broker, file: &Path, options: &[&str]) -> (i32, Vec<String>, String) {
    let file = file.to_str().expect("text");
    let (exit, output, error) = broker.run(&[&["topic", "apply", file, "--output", "json"], options].concat(), b"");
    let cell = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let row = |row| ["topic", "change", "what", "from", "to"].map(|key| cell(row, key)).join(" ");
    (exit, lines(&output).iter().map(row).collect(), error)
}

/// The settings that are a topic's own, as describe tells them, and its number of partitions.
fn own_settings(broker: &Broker, topic: &str) -> (serde_json::Value, usize) {
    let (exit, output, error) = broker.run(&["topic", "describe", topic, "--output", "json"], b"");
    assert_eq!(exit, 0, "{error}");
    let rows = lines(&output);
    (rows[0]["settings"].clone(), rows.len())
}

#[test]
fn a_policy_is_applied_once_and_holds() {
    let mut broker = Broker::start("policy");
    let toml = broker.dir.join("policy.toml");
    fs::write(&toml, POLICY).expect("written");
    let created = [
        "orders create partitions - 3",
        "orders create replication factor - 1",
        "orders create cleanup.policy - delete",
        "orders create compression.type - producer",
        "orders create delivery.contract - at least once, in order of the key",
        "orders create key.schema - orders-key:1",
        "orders create min.insync.replicas - 1",
        "orders create retention.ms - 86400000",
        "orders create retention.topic.bytes - 1073741824",
        "orders create value.schema - orders-value:3",
        "audit create partitions - -",
        "audit create replication factor - -",
        "audit create retention.ms - -1",
    ]
    .map(str::to_owned);
    assert_eq!(apply(&broker, &toml, &["--dry-run"]), (0, created.to_vec(), String::new()));
    assert_eq!(broker.run(&["topic", "list", "--output", "json"], b"").1, "", "a dry run changes nothing");
    assert_eq!(apply(&broker, &toml, &[]), (0, created.to_vec(), String::new()));
    assert_eq!(apply(&broker, &toml, &[]), (0, vec![], String::new()), "a second time there is nothing to do");
    let (exit, output, _) = broker.run(&["topic", "apply", toml.to_str().expect("text")], b"");
    assert_eq!((exit, output.as_str()), (0, "nothing to change in 2 topics\n"));

    // A setting that the policy does not name is left alone.
    assert_eq!(broker.run(&["topic", "alter", "orders", "--config", "segment.ms=5"], b"").0, 0);
    let yaml = broker.dir.join("policy.yaml");
    let changed = "name: orders\npartitions: 5\nretention_ms: 5000\nvalue_schema: orders-value:4\nreset: [retention_topic_bytes]\n";
    fs::write(&yaml, changed).expect("written");
    let changes = [
        "orders add partitions partitions 3 5",
        "orders set retention.ms 86400000 5000",
        "orders set value.schema orders-value:3 orders-value:4",
        "orders reset retention.topic.bytes 1073741824 1099511627776",
    ]
    .map(str::to_owned);
    let before = own_settings(&broker, "orders");
    assert_eq!(apply(&broker, &yaml, &["--dry-run"]), (0, changes.to_vec(), String::new()));
    assert_eq!(own_settings(&broker, "orders"), before);
    assert_eq!(apply(&broker, &yaml, &[]), (0, changes.to_vec(), String::new()));
    let expected = serde_json::json!({
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delivery.contract": "at least once, in order of the key",
        "key.schema": "orders-key:1",
        "min.insync.replicas": "1",
        "retention.ms": "5000",
        "segment.ms": "5",
        "value.schema": "orders-value:4",
    });
    assert_eq!(own_settings(&broker, "orders"), (expected.clone(), 5));

    broker.restart();
    assert_eq!(own_settings(&broker, "orders"), (expected, 5), "labels outlive the process");
    assert_eq!(apply(&broker, &yaml, &[]), (0, vec![], String::new()));
    let (exit, output, _) = broker.run(&["topic", "describe", "orders"], b"");
    assert_eq!(exit, 0);
    assert!(output.lines().any(|line| line == "orders  key.schema           orders-key:1"), "{output}");
    let altered =
        ["topic", "alter", "orders", "--config", "key.schema=orders-key:2", "--delete-config", "value.schema"];
    assert_eq!(broker.run(&altered, b"").0, 0);
    let (settings, _) = own_settings(&broker, "orders");
    assert_eq!((settings["key.schema"].as_str(), settings.get("value.schema")), (Some("orders-key:2"), None));
}

#[test]
fn a_policy_that_can_not_be_had_changes_nothing() {
    let broker = Broker::start("refused-policy");
    assert_eq!(broker.run(&["topic", "create", "orders", "--partitions", "3"], b"").0, 0);
    let path = broker.dir.join("policy.yaml");
    for (policy, refused) in [
        ("{name: orders, partitions: 2}", "orders impossible partitions 3 2"),
        ("{name: orders, replication_factor: 2}", "orders impossible replication factor 1 2"),
        // What only the broker knows: its longest batch, its number of brokers.
        ("{name: orders, max_message_bytes: 5000000}", "orders impossible settings - -"),
        ("{name: audit, replication_factor: 2}", "audit impossible topic - -"),
    ] {
        let text = format!("topics:\n- {{name: first}}\n- {policy}\n");
        fs::write(&path, text).expect("written");
        for options in [&[][..], &["--dry-run"]] {
            let (exit, rows, error) = apply(&broker, &path, options);
            assert_eq!(exit, 5, "{policy}: {error}");
            assert!(error.contains("nothing was changed"), "{policy}: {error}");
            assert!(rows.iter().any(|row| row == refused), "{policy}: {rows:?}");
            assert!(rows[0].starts_with("first create"), "{rows:?}");
            let (_, output, _) = broker.run(&["topic", "list", "--output", "json"], b"");
            assert_eq!(lines(&output).len(), 1, "{policy}: {output}");
        }
    }
    assert_eq!(own_settings(&broker, "orders"), (serde_json::json!({}), 3));

    fs::write(&path, "name: orders\nretention_s: 5\n").expect("written");
    let (exit, _, error) = apply(&broker, &path, &[]);
    assert!(exit == 2 && error.contains("policy.yaml:2: ") && error.contains("is `retention_ms` meant?"), "{error}");
    fs::write(&path, vec![b' '; (1 << 20) + 1]).expect("written");
    let (exit, _, error) = apply(&broker, &path, &[]);
    assert!(exit == 2 && error.contains("1048576 bytes"), "{error}");
    fs::write(&path, b"name: \xff").expect("written");
    for wrong in [path.as_path(), Path::new("/no/such/file.yaml"), Path::new("/dev/null"), &broker.dir.join("x.json")] {
        let (exit, _, error) = apply(&broker, wrong, &[]);
        assert!(exit == 2 && error.contains(wrong.to_str().expect("text")), "{error}");
    }
}

#[test]
fn nobody_there_is_an_exit_code_of_its_own() {
    for verb in [&["topic", "list"][..], &["consume", "t"], &["produce", "t"], &["cluster", "status"]] {
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
    let rows = lines(&output);
    let damage = rows.iter().find(|row| row["severity"] == "damage").expect("there is one");
    assert_eq!((exit, damage["position"].as_u64()), (3, Some(second)), "{output} {third}");
    assert_eq!(damage["file"].as_str(), journal.to_str());
    let (exit, output, _) = run(&["doctor", "--data-dir", &dir], b"");
    assert!(exit == 1 && output.contains("log verify"), "{output}");
}

#[test]
fn files_of_every_kind_are_dumped() {
    let broker = Broker::start("dumped");
    assert_eq!(broker.run(&["topic", "create", "t", "--config", "index.interval.bytes=1024"], b"").0, 0);
    for _ in 0..3 {
        assert_eq!(broker.run(&["produce", "t"], &[b'x'; 3000]).0, 0);
    }
    let dir = broker.stop();
    let log_dir = fs::read_dir(dir.join("logs/t")).expect("there").next().expect("a partition").expect("listed").path();
    let dump = |path: &Path| {
        let (exit, output, error) =
            run(&["log", "dump", "--records", "--output", "json", &path.display().to_string()], b"");
        assert_eq!(exit, 0, "{path:?}: {output}{error}");
        lines(&output)
    };
    let batches = dump(&log_dir.join("00000000000000000000.log"));
    let batches: Vec<_> = batches.iter().filter(|row| row.get("base_offset").is_some()).collect();
    assert_eq!(batches.iter().map(|row| row["base_offset"].as_i64()).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    // Each entry names a batch: the first has none, for nothing was appended before it.
    let [offsets, times] =
        ["index", "timeindex"].map(|kind| dump(&log_dir.join(format!("00000000000000000000.{kind}"))));
    assert_eq!((offsets.len(), times.len()), (2, 2));
    for ((offset, time), batch) in offsets.iter().zip(&times).zip(&batches[1..]) {
        assert_eq!((&offset["last_offset"], &offset["batch_position"]), (&batch["last_offset"], &batch["position"]));
        assert_eq!((&time["last_offset"], &time["timestamp"]), (&batch["last_offset"], &batch["max_timestamp"]));
    }
    let shards = [0, 1].map(|shard| dump(&dir.join(format!("shards/{shard}"))));
    let rows: Vec<_> = shards.iter().flatten().collect();
    let log = rows.iter().find(|row| row["topic"] == "t").expect("a manifest knows the log");
    assert_eq!((log["start_offset"].as_i64(), log["end_offset"].as_i64()), (Some(0), Some(3)));
    assert!(rows.iter().any(|row| row["entry"] == "create"), "a journal has the log's beginning");
    // What is no file of ours is not guessed at.
    assert_eq!(run(&["log", "dump", &dir.join("format.toml").display().to_string()], b"").0, 5);
    assert_eq!(run(&["log", "dump", &dir.join("no-such-file").display().to_string()], b"").0, 5);
    let _ = fs::remove_dir_all(&dir);
}

#[test]
fn the_state_of_the_cluster_is_told() {
    let broker = Broker::start("status");
    assert_eq!(broker.run(&["topic", "create", "t", "--partitions", "3"], b"").0, 0);
    assert_eq!(broker.run(&["produce", "t"], &[b'x'; 1000]).0, 0);
    let (exit, output, error) = broker.run(&["cluster", "status", "--output", "json"], b"");
    let status = &lines(&output)[0];
    assert_eq!((exit, error.as_str(), status["healthy"].as_bool()), (0, "", Some(true)), "{output}");
    assert_eq!((status["controller"].as_i64(), status["brokers"][0]["id"].as_i64()), (Some(1), Some(1)));
    let port = broker.address.rsplit_once(':').expect("an address").1;
    assert_eq!(status["brokers"][0]["port"].to_string(), port);
    assert_eq!((status["topics"].as_i64(), status["partitions"].as_i64()), (Some(1), Some(3)));
    let dir = &status["log_dirs"][0];
    assert_eq!((dir["path"].as_str(), dir["replicas"].as_i64()), (broker.dir.to_str(), Some(3)));
    assert!(dir["replica_bytes"].as_u64() > Some(1000) && dir["usable_bytes"].as_u64() > Some(0), "{output}");
    let (exit, output, _) = broker.run(&["cluster", "status"], b"");
    assert!(exit == 0 && output.lines().any(|line| line == "healthy"), "{output}");
}

#[test]
fn the_doctor_says_what_stands_in_the_way() {
    let mut broker = Broker::start("doctor");
    let dir = broker.dir.display().to_string();
    let doctor = |dir: &str| run(&["doctor", "--data-dir", dir, "--output", "json"], b"");
    let (exit, output, _) = doctor(&dir);
    let holder = format!("process {}", broker.child.id());
    assert!(exit == 1 && output.contains("is in use") && output.contains(&holder), "{output}");
    broker.kill();
    for dir in [&dir, "/tmp/no/such/directory/yet"] {
        let (exit, output, error) = doctor(dir);
        let rows = lines(&output);
        assert_eq!((exit, error.as_str(), rows[0]["io_uring"].as_bool()), (0, "", Some(true)), "{output}");
        assert_eq!(rows.last().and_then(|row| row["fit"].as_bool()), Some(true));
    }
    assert!(!Path::new("/tmp/no").exists(), "nothing is made");
    let format = broker.dir.join("format.toml");
    let text = fs::read_to_string(&format).expect("readable");
    for (text, word) in [
        (text.replace("node_id = 1", "node_id = 7"), "belongs to broker 7"),
        (text.replace("format = 1", "format = 9"), "format 9"),
        (String::new(), "can't be understood"),
    ] {
        fs::write(&format, text).expect("writable");
        let (exit, output, _) = doctor(&dir);
        assert!(exit == 1 && output.contains(word), "{word}: {output}");
    }
    let file = format.display().to_string();
    for (dir, word) in [(file.as_str(), "is a file"), ("/proc/nothing", "no file can be made in /proc")] {
        let (exit, output, _) = doctor(dir);
        assert!(exit == 1 && output.contains(word), "{word}: {output}");
    }
    let settings = broker.dir.join("node.toml");
    for (text, exit, word) in [
        ("memory-bytes = 70368744177664\n", 0, "memory-bytes is 64.0 TiB"),
        ("disk-reserve-bytes = 1125899906842624\n", 1, "less than the reserve"),
        ("shards = 0\n", 1, "shards = 0 is out of bounds"),
        ("listen = \"0.0.0.0:9092\"\n", 1, "--advertised"),
    ] {
        fs::write(&settings, format!("data-dir = \"/tmp/no/such/directory/yet\"\n{text}")).expect("writable");
        let (found, output, _) = run(&["doctor", "--config", settings.to_str().expect("text")], b"");
        assert_eq!(found, exit, "{text}: {output}");
        assert!(output.contains(word), "{text}: {output}");
    }
    assert_eq!(run(&["doctor", "--config", "/no/such/file"], b"").0, 2);
    assert_eq!(run(&["doctor"], b"").0, 0);
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
        ("listen = \"0.0.0.0:9092\"\n", 1, "--advertised HOST:PORT"),
        ("listen = \"0.0.0.0:9092\"\nadvertised = \"broker:0\"\n", 0, "is valid"),
        ("advertised = \"[::]:9092\"\n", 1, "wildcard"),
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
