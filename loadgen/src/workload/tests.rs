use super::{Keys, Workload};

fn refused(text: &str) -> String {
    match Keys::parse(text).and_then(|keys| Workload::new(&keys)) {
        Ok(_) => panic!("{text}: taken"),
        Err(invalid) => invalid.to_string(),
    }
}

#[test]
fn options_go_over_the_file_and_what_is_absent_has_its_default() {
    let file = Keys::parse(
        "rate = \"50k\"\npartitions = 24\nlinger = \"5ms\"\nrecord-bytes = 100\n\
        groups = 2\nmembers = 3\nchurn = \"kill\"",
    )
    .expect("keys");
    let options = Keys { partitions: Some(6), ..Keys::default() };
    let workload = Workload::new(&options.over(&file)).expect("valid");
    assert_eq!((workload.partitions, workload.linger.as_millis(), workload.record_bytes.most()), (6, 5, 100));
    assert_eq!(workload.topic, "loadgen");
    // What is said of it can be read back.
    let said = serde_json::to_string(&workload.described()).expect("JSON");
    let again: Keys = serde_json::from_str(&said).expect("keys");
    assert_eq!(Workload::new(&again).expect("valid").described(), workload.described());
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (text, reason) in [
        ("rat = 5", "unknown field `rat`"),
        ("rate = \"fast\"", "`fast` is not"),
        ("partitions = 0", "partitions = 0: it must be from 1"),
        ("acks = \"2\"", "acks = 2: it is 0, 1 or all"),
        ("acks = \"1\"\nidempotence = true", "idempotence wants acks=all"),
        ("record-bytes = 4", "record-bytes: a record has"),
        ("compression = \"rar\"", "compression = rar"),
        ("duration = \"0s\"", "duration must be longer"),
        ("topic-settings = [\"x\"]", "`x` is not NAME=VALUE"),
        ("members = 3", "members: there are no groups"),
        ("groups = 1\nconsumers = 1", "where groups read there are no others"),
        ("groups = 1\nchurn = \"restart\"", "restart wants static-members"),
        ("groups = 1\nchurn = \"leave\"\nstatic-members = true", "leave wants static-members = false"),
        ("groups = 1\nheartbeat-interval = \"45s\"", "must be shorter than session-timeout"),
        ("groups = 1\nchurn = \"sleep\"", "`sleep` is not leave, kill or restart"),
    ] {
        let said = refused(text);
        assert!(said.contains(reason), "{text}: {said}");
    }
}

#[test]
fn every_committed_workload_is_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of workloads") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        let workload = Keys::parse(&text).and_then(|keys| Workload::new(&keys));
        workload.unwrap_or_else(|invalid| panic!("{}: {invalid}", path.display()));
        assert!(text.starts_with("# "), "{}: it says what it is for", path.display());
        names.push(path);
    }
    assert!(names.len() >= 16, "{names:?}");
}
