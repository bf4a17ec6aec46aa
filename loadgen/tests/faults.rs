//! Against a null broker that loses, repeats, exchanges and damages records in known places: the generator reports exactly that.

use std::process::Command;

use loadgen::report::{Context, Finding, FindingKind, Report};
use loadgen::run::{Plan, run};
use loadgen::sink::{Sink, SinkOptions, start};
use loadgen::workload::{Keys, Workload};

/// Two thousand records, each in a batch of its own.
const WORKLOAD: &str =
    "rate = 4000\nduration = \"500ms\"\nwarm-up = \"0\"\nbatch-bytes = 1\nrecord-bytes = 100\ndrain = \"1s\"";
const RECORDS: u64 = 2000;

fn sink_with(faults: &[&str]) -> Sink {
    let faults = faults.iter().map(|fault| fault.parse().expect("a fault")).collect();
    start(SinkOptions { faults, ..SinkOptions::default() }).expect("it listens")
}

fn report_of(faults: &[&str], more: &str) -> Report {
    let sink = sink_with(faults);
    let (keys, below) = (Keys::parse(more).expect("keys"), Keys::parse(WORKLOAD).expect("keys"));
    let workload = Workload::new(&keys.over(&below)).expect("valid");
    let plan = Plan { bootstrap: sink.address().to_string(), workload, broker_pid: None };
    run(&plan, Context::default(), &mut |_| {}).expect("it can be run")
}

fn finding(kind: FindingKind, offset: i64, number: u64) -> Finding {
    Finding { kind, topic: "loadgen".into(), partition: 0, offset: Some(offset), number: Some(number) }
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let report = report_of(&[], "");
    assert!(report.verified.enabled && report.verified.holds(), "{:?}", report.verified);
    assert_eq!((report.verified.acknowledged, report.verified.delivered), (RECORDS, RECORDS));
}

#[test]
fn each_fault_is_found_where_it_is_and_nothing_else() {
    // The broker refuses a record and keeps it: it is at the offset that the next one would have had.
    let cases = [
        ("drop@500", finding(FindingKind::Lost, 500, 500)),
        ("duplicate@500", finding(FindingKind::Duplicated, 501, 500)),
        ("swap@500", finding(FindingKind::Reordered, 501, 500)),
        ("corrupt@500", finding(FindingKind::Corrupted, 500, 500)),
        ("corrupt-batch@500", finding(FindingKind::Corrupted, 500, 500)),
    ];
    for (fault, expected) in cases {
        let verified = report_of(&[fault], "").verified;
        assert_eq!(verified.findings, [expected], "{fault}");
        let counts = [verified.lost, verified.duplicated, verified.reordered, verified.corrupted, verified.unexpected];
        assert_eq!(counts.iter().sum::<u64>(), 1, "{fault}: {verified:?}");
        assert_eq!(verified.acknowledged, RECORDS, "{fault}");
    }
}

#[test]
fn faults_in_batches_of_many_compressed_records_are_found_too() {
    let batches = "batch-bytes = \"128KiB\"\nlinger = \"20ms\"\ncompression = \"lz4\"";
    let verified = report_of(&["drop@100", "corrupt@700", "duplicate@1500"], batches).verified;
    let found = |kind| verified.findings.iter().filter(move |found| found.kind == kind).collect::<Vec<_>>();
    assert_eq!(found(FindingKind::Lost), [&finding(FindingKind::Lost, 100, 100)]);
    assert_eq!(found(FindingKind::Corrupted), [&finding(FindingKind::Corrupted, 700, 700)]);
    // The copy stands behind the whole batch, wherever that ends.
    let [again] = found(FindingKind::Duplicated)[..] else { panic!("{verified:?}") };
    assert!(again.number == Some(1500) && again.offset > Some(1500), "{again:?}");
    assert_eq!(verified.findings.len(), 3, "{verified:?}");
}

#[test]
fn what_is_refused_is_a_failure_and_no_loss_unless_it_is_there_all_the_same() {
    let refused = report_of(&["refuse@500"], "");
    assert!(refused.verified.holds(), "{:?}", refused.verified);
    assert!(refused.errors.failed_records >= 1, "{:?}", refused.errors);
    assert_eq!(refused.verified.acknowledged + refused.errors.failed_records, RECORDS);

    let kept = report_of(&["refuse-and-keep@500"], "idempotence = false\nin-flight = 1");
    assert_eq!((kept.verified.unexpected, kept.errors.failed_records), (1, 1), "{:?}", kept.verified);

    let retried = report_of(&["retry@500"], "");
    assert!(retried.verified.holds() && retried.errors.failed_records == 0, "{:?}", retried.verified);
    assert!(retried.errors.retried_batches >= 1, "{:?}", retried.errors);
}

/// Runs the program against a sink; its exit code, and what it said.
fn program(faults: &[&str], arguments: &[&str]) -> (Option<i32>, String) {
    let sink = sink_with(faults);
    let output = Command::new(env!("CARGO_BIN_EXE_tidemill-loadgen"))
        .args(arguments)
        .args(["--bootstrap", &sink.address().to_string()])
        .args(["--rate", "1k", "--duration", "1s", "--warm-up", "0", "--drain", "1s", "--record-bytes", "100"])
        .output()
        .expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let (code, said) = program(&[], &["run", "--output", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = program(&["drop@300"], &["run"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("lost") && said.contains("300"), "{said}");
    let (code, said) = program(&[], &["check", "--target", "rate>=500", "--target", "produce_p99<=30s"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = program(&[], &["check", "--target", "rate>=2000"]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = program(&[], &["run", "--acks", "2"]);
    assert_eq!(code, Some(2), "{said}");
}
