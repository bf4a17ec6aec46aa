//! In virtual time, against brokers that answer exactly when they are told to: what the generator reports is what happened.

#[path = "../../net/client/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use loadgen::report::{Context, Latency, Report, new_histogram};
use loadgen::run::{Plan, run_on};
use loadgen::workload::{Keys, Workload};
use support::{Reaction, run};
use wire::ApiKey;

const MS: u64 = 1_000_000;

/// Runs a workload against one broker that answers Produce as late as `delay` says, by the nanoseconds since the first one came.
fn report_of(workload: &str, delay: impl Fn(u64) -> u64 + 'static) -> Report {
    let keys = Keys::parse(workload).expect("keys");
    let workload = Workload::new(&keys).expect("valid");
    let (report, reported) = std::sync::mpsc::channel();
    run(1, move |cluster, client| async move {
        let shard = client.shard().clone();
        let (clock, mut first) = (shard.clone(), None);
        cluster.borrow_mut().add_topic("loadgen", i32::try_from(workload.partitions).expect("few"));
        cluster.borrow_mut().hook = Box::new(move |_, incoming| {
            if incoming.key != ApiKey::Produce {
                return Reaction::Serve;
            }
            let now = clock.now().0;
            let since = now - *first.get_or_insert(now);
            Reaction::ServeAfter(Duration::from_nanos(delay(since)))
        });
        let bootstrap = cluster.borrow().addresses[0].to_string();
        let plan = Plan { bootstrap, workload, broker_pid: None };
        let result = run_on(&shard, &plan, Context::default()).await;
        report.send(result.expect("it can be run")).expect("it is waited for");
    });
    reported.recv().expect("a report")
}

/// Fifty records a second, each sent by itself as soon as it is due.
const STEADY: &str = "rate = 50\nlinger = \"0\"\nbatch-bytes = 1\nwarm-up = \"1s\"\nduration = \"10s\"\nrecord-bytes = 100\n\
    acks = \"1\"\nin-flight = 60\npayload = \"ratio:2\"\ndelete-topics = false";

/// What the histogram makes of these latencies.
fn latency_of(latencies_ns: impl IntoIterator<Item = u64>) -> Latency {
    let mut histogram = new_histogram();
    latencies_ns.into_iter().for_each(|ns| histogram.record(ns).expect("it grows"));
    Latency::of(&histogram)
}

fn same(reported: &Latency, expected: &Latency) {
    assert_eq!(format!("{reported:?}"), format!("{expected:?}"));
}

/// The latencies of the measured time, by a broker that works on one request after the other, each for as long as `delay` says when it
/// begins.
fn expected(delay: impl Fn(u64) -> u64) -> Latency {
    let mut free = 0;
    let latencies = (0..550u64).map(|number| {
        let due = number * 20 * MS;
        let begin = free.max(due);
        free = begin + delay(begin);
        free - due
    });
    latency_of(latencies.collect::<Vec<_>>().split_off(50))
}

#[test]
fn a_delay_is_reported_as_it_is() {
    let report = report_of(STEADY, |_| 7 * MS);
    same(&report.produce, &latency_of([7 * MS; 500]));
    assert_eq!((report.rate.due, report.rate.acknowledged, report.rate.unsent), (500, 500, 0));
    assert_eq!(report.rate.intended, Some(50.0));
    assert!(report.verified.enabled && report.verified.holds(), "{:?}", report.verified);
    assert_eq!((report.verified.acknowledged, report.verified.delivered), (550, 550));
    assert_eq!(report.series.len(), 10);
    assert!(report.series.iter().all(|second| second.due == 50), "{:?}", report.series);
}

#[test]
fn a_delay_that_changes_is_reported_by_when_records_were_due() {
    // From 4 s on some requests take longer than what lies between them, and those behind them wait.
    let delay = |at: u64| if at < 4_000 * MS { 2 * MS } else { 4 * MS + at % (97 * MS) / 4 };
    let report = report_of(STEADY, delay);
    same(&report.produce, &expected(delay));
    assert!(report.produce.p50_us > 2_500.0 && report.produce.p99_us > 25_000.0, "{:?}", report.produce);
}

#[test]
fn a_stall_of_a_second_lengthens_the_latency_of_all_that_was_due_in_it() {
    const STALL: std::ops::Range<u64> = 5_000 * MS..6_000 * MS;
    let delay = |at: u64| if STALL.contains(&at) { STALL.end - at + 3 * MS } else { 3 * MS };
    let report = report_of(STEADY, delay);
    same(&report.produce, &expected(delay));
    assert_eq!(report.produce.max_us, latency_of([1_003 * MS]).max_us);
    // Fifty of the 500 records waited for its end, and some more for those.
    assert!(report.produce.p50_us < 3_100.0 && report.produce.p95_us > 400_000.0, "{:?}", report.produce);
}

#[test]
fn a_broker_that_takes_too_little_lengthens_latencies_and_is_said_to() {
    // One request at a time and 100 ms for each: ten records a second of the fifty that are due.
    let slow = format!("{STEADY}\nbuffer-bytes = 500").replace("in-flight = 60", "in-flight = 1");
    let report = report_of(&slow, |_| 100 * MS);
    let rate = &report.rate;
    assert!((9.0..=11.0).contains(&rate.achieved), "{rate:?}");
    assert_eq!((rate.intended, rate.due), (Some(50.0), 500));
    // At the end of 11 s some 110 of 550 records were sent, and the last of them some 8.8 s late.
    assert!((430..=445).contains(&rate.unsent), "{rate:?}");
    assert!((8_500.0..=9_000.0).contains(&rate.behind_max_ms), "{rate:?}");
    assert!(report.produce.max_us > 8_500_000.0, "{:?}", report.produce);
}
