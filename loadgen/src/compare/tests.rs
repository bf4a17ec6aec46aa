use super::*;
use crate::report::table::tests::made_up;
use crate::report::{Finding, FindingKind};

#[test]
fn the_median_is_in_the_middle() {
    for (values, middle) in [
        (&[][..], None),
        (&[3.0], Some(3.0)),
        (&[3.0, 1.0], Some(2.0)),
        (&[9.0, 1.0, 3.0], Some(3.0)),
        (&[9.0, 1.0, 3.0, 5.0], Some(4.0)),
    ] {
        assert_eq!(median(values), middle, "{values:?}");
    }
}

#[test]
fn ratios_are_taken_within_rounds() {
    let some = |value: f64, first: f64| (Some(value), Some(first));
    for (pairs, expected) in [
        // The machine was half as fast in the second round: no ratio shows it.
        (vec![some(20.0, 10.0), some(10.0, 5.0), some(30.0, 10.0)], Some((2.0, 2.0, 3.0))),
        (vec![some(20.0, 10.0), (None, Some(1.0)), (Some(1.0), None)], Some((2.0, 2.0, 2.0))),
        (vec![some(20.0, 0.0)], None),
        (vec![], None),
    ] {
        let found = ratio(pairs.clone().into_iter()).map(|ratio| (ratio.median, ratio.min, ratio.max));
        assert_eq!(found, expected, "{pairs:?}");
    }
}

fn names() -> Vec<String> {
    vec!["ours".into(), "theirs".into(), "third".into()]
}

#[test]
fn each_round_begins_with_another() {
    let mut runs = Vec::new();
    let done = compare(&names(), 4, &mut |place, round| {
        runs.push((round, place));
        Ok::<_, ()>(made_up())
    });
    assert_eq!(runs, [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 0), (3, 2), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2)]);
    assert!(done.expect("every run has a report").reports.iter().all(|reports| reports.len() == 4));
    let failed =
        compare(&names(), 2, &mut |place, round| if (place, round) == (1, 2) { Err("no") } else { Ok(made_up()) });
    let Failed { name, round, error } = failed.expect_err("a run failed");
    assert_eq!((name.as_str(), round, error), ("theirs", 2, "no"));
}

/// Two names over three rounds: the second has half the rate and a p99 of 2, 4 and 3 times.
fn comparison() -> Comparison {
    compare(&names()[..2], 3, &mut |place, round| {
        let mut report = made_up();
        if place == 1 {
            report.rate.achieved /= 2.0;
            report.produce.p99_us *= [2.0, 4.0, 3.0][round as usize - 1];
            report.broker = None;
        }
        Ok::<_, ()>(report)
    })
    .expect("every run has a report")
}

#[test]
fn the_table_has_medians_and_ratios_with_their_spread() {
    let shown = table(&comparison());
    for line in [
        "3 rounds of each, interleaved",
        "ours          cluster abc, 1 broker at 127.0.0.1:9092; durability=disk",
        "machine       2 cores",
        "theirs, round 1: FELL BEHIND",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let cells = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{shown}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("rate, records/s"), ["rate, records/s", "49,990", "24,995", "0.50 (0.50..0.50)"]);
    assert_eq!(cells("produce p99 "), ["produce p99", "5.00 ms", "15.0 ms", "3.00 (2.00..4.00)"]);
    assert_eq!(cells("broker CPU"), ["broker CPU, µs a record", "1.40", "-", "-"]);
    assert_eq!(table(&Comparison { names: Vec::new(), reports: Vec::new() }).lines().count(), 2 + 1 + FIGURES.len());
}

#[test]
fn the_json_form_has_the_statistics_and_every_report() {
    let json = comparison().json();
    assert_eq!(json["rounds"], 3);
    assert_eq!(json["figures"]["produce.p99_us"]["theirs"]["ratio"]["max"], 4.0);
    assert_eq!(json["figures"]["produce.p99_us"]["theirs"]["median"], 15_000.0);
    assert!(json["figures"]["rate.achieved"]["ours"].get("ratio").is_none());
    assert!(json["figures"]["broker.cpu_us_per_record"]["theirs"]["median"].is_null());
    assert_eq!(json["reports"]["theirs"].as_array().map(Vec::len), Some(3));
    // Every figure is named as the report's JSON form has it.
    for figure in FIGURES {
        let pointer = format!("/{}", figure.key.replace('.', "/"));
        assert!(json["reports"]["ours"][0].pointer(&pointer).is_some_and(serde_json::Value::is_number), "{pointer}");
    }
}

#[test]
fn what_failed_in_any_run_is_said() {
    let mut comparison = comparison();
    assert!(comparison.holds());
    let verified = &mut comparison.reports[1][2].verified;
    verified.lost = 1;
    let finding = Finding { kind: FindingKind::Lost, topic: "t".into(), partition: 0, offset: Some(7), number: None };
    verified.findings = vec![finding];
    assert!(!comparison.holds());
    let shown = table(&comparison);
    assert!(shown.contains("theirs, round 3: VERIFICATION FAILED\n  lost: t-0 offset 7\n"), "{shown}");
}

#[test]
fn the_page_draws_all_names_over_all_rounds() {
    let comparison = comparison();
    assert_eq!(comparison.merged(1).produce.len(), 3 * comparison.reports[1][0].histograms.produce.len());
    let page = page(&comparison);
    assert_eq!(page.matches("<svg").count(), 3);
    for part in ["<i></i>ours</span>", "<i></i>theirs</span>", "3.00 (2.00..4.00)", "prefers-color-scheme: dark"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
}
