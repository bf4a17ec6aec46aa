use super::*;
use crate::report::{Consume, Histograms, Second};

/// A made-up report in which every part has something to show.
pub(crate) fn made_up() -> Report {
    let latency = |scale: f64| Latency {
        count: 500_000,
        min_us: 100.0 * scale,
        mean_us: 900.0 * scale,
        p50_us: 800.0 * scale,
        p90_us: 1500.0 * scale,
        p95_us: 2000.0 * scale,
        p99_us: 5000.0 * scale,
        p99_9_us: 9000.0 * scale,
        p99_99_us: 20_000.0 * scale,
        max_us: 31_000.0 * scale,
    };
    let mut histograms = Histograms::default();
    for ns in (1..1000u64).map(|step| step * 20_000) {
        histograms.produce.record(ns).expect("in range");
        histograms.consume.record(ns / 2).expect("in range");
        histograms.end_to_end.record(ns * 3 / 2).expect("in range");
    }
    let used = |each| ProcessUse { cpu_s: each * 0.5, cpu_us_per_record: each, busy_cores: each / 20.0 };
    let second = |second| Second {
        second,
        due: 50_000,
        acknowledged: 49_000 + u64::from(second),
        delivered: 48_000,
        produce_p50_us: 800.0,
        produce_p99_us: 5000.0,
        produce_max_us: 9000.0,
        ..Second::default()
    };
    Report {
        workload: [("rate".into(), "50000".into()), ("partitions".into(), 24.into()), ("acks".into(), "all".into())]
            .into(),
        context: made_up_context(),
        rate: Rate {
            intended: Some(50_000.0),
            achieved: 49_990.0,
            achieved_mb: 50.8,
            delivered: 49_980.0,
            measured_s: 10.0,
            due: 500_000,
            acknowledged: 500_000,
            behind_max_ms: 3.2,
            unsent: 0,
        },
        produce: latency(1.0),
        consume: Consume { latency: latency(0.1), before_acknowledgement: 0.125 },
        end_to_end: latency(1.1),
        errors: Errors::default(),
        client: used(1.2),
        broker: Some(used(1.4)),
        catch_up: Vec::new(),
        groups: None,
        verified: Verified { enabled: true, acknowledged: 600_000, delivered: 600_000, ..Verified::default() },
        series: (0..10).map(second).collect(),
        histograms,
        group_histograms: Default::default(),
    }
}

fn made_up_context() -> Context {
    Context {
        started_ms: 1_785_492_000_000,
        bootstrap: "127.0.0.1:9092".into(),
        client_version: "0.1.0".into(),
        broker: "cluster abc, 1 broker".into(),
        durability: "durability=disk".into(),
        cores: 2,
        cpu: "Some CPU".into(),
        kernel: "Linux 6.18".into(),
        memory_bytes: 25_276_502_016,
        scheduler: "autogroup off".into(),
        disk: Some(Disk {
            folder: "/data".into(),
            file_system: "ext4".into(),
            mount_options: "rw,relatime".into(),
            io_scheduler: "mq-deadline".into(),
            flush_p50_us: 420.0,
            flush_p99_us: 1300.0,
        }),
        load_average: 0.5,
    }
}

#[test]
fn a_report_is_shown_whole() {
    let expected = "\
workload      rate 50000, partitions 24, acks all

rate          intended 50,000 records/s, achieved 49,990 records/s, 50.8 MB/s
              kept up (at worst 3.20 ms behind)
              delivered 49,980 records/s; measured for 10.0 s

                  p50      p90      p99    p99.9   p99.99      max
produce        800 µs  1.50 ms  5.00 ms  9.00 ms  20.0 ms  31.0 ms
consume       80.0 µs   150 µs   500 µs   900 µs  2.00 ms  3.10 ms
end to end     880 µs  1.65 ms  5.50 ms  9.90 ms  22.0 ms  34.1 ms
consume       12.5 % of the records came before their acknowledgement did, and count as 0

errors        none
cpu           client 1.20 µs a record, 0.06 cores busy
              broker 1.40 µs a record, 0.07 cores busy
verified      600,000 records acknowledged, 600,000 delivered: nothing lost, duplicated, reordered or corrupted

broker        cluster abc, 1 broker at 127.0.0.1:9092
durability    durability=disk
machine       2 cores, Some CPU, 25.3 GB of memory, load average 0.50
kernel        Linux 6.18
scheduler     autogroup off
disk          /data: ext4 (rw,relatime), I/O scheduler mq-deadline, 4 KiB write and flush p50 420 µs, p99 1.30 ms
client        0.1.0, started 2026-07-31 10:00:00 UTC
";
    assert_eq!(render(&made_up()), expected);
}

#[test]
fn what_is_not_as_it_should_be_stands_out() {
    let mut report = made_up();
    report.rate = Rate { achieved: 40_000.0, behind_max_ms: 1999.0, unsent: 100_000, ..report.rate };
    report.errors.failed_records = 30;
    report.errors.retried_batches = 7;
    report.errors.reasons = [("timed out".into(), 10), ("NOT_LEADER".into(), 2000)].into();
    report.broker = None;
    report.context.disk = None;
    report.consume = Consume::default();
    let lost = |offset| Finding { kind: FindingKind::Lost, topic: "t".into(), partition: 3, offset, number: Some(9) };
    report.verified.lost = 12;
    report.verified.corrupted = 1;
    report.verified.foreign = 4;
    report.verified.allowed = 6;
    report.catch_up = vec![CatchUp { bytes: 5_000_000, elapsed_s: 2.0, mb_per_s: 2.5, finished: false }];
    report.verified.findings = (0..12).map(|offset| lost(Some(offset))).collect();
    report.verified.findings[1] =
        Finding { kind: FindingKind::Corrupted, topic: "t".into(), partition: 3, offset: None, number: None };
    let shown = render(&report);
    for line in [
        "FELL BEHIND by 2.00 s, 100,000 records unsent",
        "80.0 % of the intended rate was acknowledged within the measured time",
        "30 records failed, 7 batches were sent again\n              2,000 × NOT_LEADER\n              10 × timed out\n",
        "broker not known",
        "FAILED, 12 lost, 1 corrupted\n              6 came again or late",
        "4 records of others stand on the topics",
        "catch-up      5.00 MB read in 2.00 s, 2.50 MB/s: NOT all of it",
        "lost: t-3 offset 0 (record 9 of its producer there)\n              corrupted: t-3 offset not known\n",
        "and 2 more",
        "disk          unknown",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let consume = shown.lines().find(|line| line.starts_with("consume")).expect("a line for it");
    assert_eq!(consume.split_whitespace().collect::<Vec<_>>(), ["consume", "-", "-", "-", "-", "-", "-"]);
    report.verified.enabled = false;
    assert!(render(&report).contains("not verified"));
    report.rate.intended = None;
    assert!(!render(&report).contains("FELL BEHIND"));
}

#[test]
fn the_json_form_has_the_names_that_scripts_read() {
    let report = made_up();
    let json = serde_json::to_value(&report).expect("a report has a JSON form");
    for pointer in [
        "/rate/intended",
        "/rate/achieved",
        "/produce/p50_us",
        "/produce/p99_us",
        "/produce/p99_9_us",
        "/produce/p99_99_us",
        "/produce/max_us",
        "/consume/p99_us",
        "/consume/before_acknowledgement",
        "/end_to_end/p99_us",
        "/verified/lost",
        "/series/0/acknowledged",
        "/context/kernel",
        "/client/cpu_us_per_record",
    ] {
        assert!(
            json.pointer(pointer).is_some_and(serde_json::Value::is_number) || pointer == "/context/kernel",
            "{pointer}"
        );
    }
    let again: Report = serde_json::from_value(json.clone()).expect("what is written can be read");
    assert_eq!(serde_json::to_value(&again).expect("JSON"), json);
}
