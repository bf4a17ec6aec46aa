//! The report on groups as a table for people. Pure.

use super::{GroupsReport, Restart};
use crate::report::Latency;
use crate::report::table::named;
use crate::report::text::{aligned, bytes, count, digits, rate, time_us};

/// The whole table, ending with a line break.
#[must_use]
pub fn table(report: &GroupsReport) -> String {
    let mut lines = Vec::new();
    let GroupsReport { groups, members, partitions, protocol, .. } = report;
    let heartbeat =
        report.heartbeat_s.map_or_else(|| "as the broker says".into(), |s| format!("every {} s", digits(s)));
    let shape = format!("{groups} of {members} members on {partitions} partitions, protocol {protocol}");
    named(&mut lines, "groups", [format!("{shape}, heartbeats {heartbeat}, at {}", report.bootstrap)]);
    let whole = format!("all whole after {}, {} members a second", seconds(report.joined_s), rate(report.joins_per_s));
    named(&mut lines, "join", [whole]);
    let (commits, offsets) = (rate(report.commits_per_s), rate(report.offsets_per_s));
    let failed = count(report.commits_failed);
    named(&mut lines, "commit", [format!("{commits} commits a second, {offsets} offsets a second; {failed} failed")]);
    named(&mut lines, "restart", report.restart.iter().flat_map(restart));
    if let Some([before, with_all, end]) = report.broker_memory_bytes {
        let [before, with_all, end] = [before, with_all, end].map(bytes);
        named(&mut lines, "memory", [format!("broker {before} before, {with_all} with all members, {end} at the end")]);
    }
    lines.push(String::new());
    lines.extend(aligned(&rows(report)));
    lines.join("\n") + "\n"
}

fn seconds(seconds: f64) -> String {
    time_us(seconds * 1e6)
}

fn restart(restart: &Restart) -> [String; 2] {
    let (members, took) = (count(u64::from(restart.members)), seconds(restart.elapsed_s));
    let (moved, disturbed) = (count(restart.partitions_moved), count(restart.members_disturbed));
    [
        format!("{members} members one after another in {took}"),
        format!("{moved} partitions moved; others had to gather {disturbed} times"),
    ]
}

fn rows(report: &GroupsReport) -> Vec<Vec<String>> {
    let heading = ["", "count", "min", "p50", "p90", "p99", "max"].map(str::to_owned).to_vec();
    let mut rows = vec![heading];
    let mut row = |name: &str, latency: &Latency| {
        let Latency { min_us, p50_us, p90_us, p99_us, max_us, .. } = *latency;
        let shown = |us: f64| if latency.count == 0 { "-".to_owned() } else { time_us(us) };
        let mut cells = vec![name.to_owned(), count(latency.count)];
        cells.extend([min_us, p50_us, p90_us, p99_us, max_us].map(shown));
        rows.push(cells);
    };
    row("a member joins", &report.join);
    row("one comes, all have their share", &report.comes);
    row("one goes, all have their share", &report.goes);
    row("  of that since all were told", &report.gathered);
    row("a commit", &report.commit);
    if let Some(restart) = &report.restart {
        row("one is restarted, and back", &restart.back);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_shown_whole() {
        let latency = |ms: f64| Latency {
            count: 5,
            min_us: ms * 500.0,
            p50_us: ms * 1e3,
            p90_us: ms * 2e3,
            p99_us: ms * 3e3,
            max_us: ms * 4e3,
            ..Latency::default()
        };
        let report = GroupsReport {
            bootstrap: "h:1".into(),
            groups: 1,
            members: 500,
            partitions: 1000,
            protocol: "classic".into(),
            heartbeat_s: Some(3.0),
            joined_s: 4.0,
            joins_per_s: 125.0,
            join: latency(800.0),
            comes: latency(3000.0),
            goes: latency(3100.0),
            gathered: Latency::default(),
            commit: latency(2.0),
            commits: 50_000,
            commits_per_s: 5000.0,
            offsets_per_s: 10_000.0,
            commits_failed: 0,
            restart: Some(Restart { members: 500, elapsed_s: 9.0, back: latency(18.0), ..Restart::default() }),
            broker_memory_bytes: Some([100_000_000, 120_000_000, 130_000_000]),
        };
        let expected = "\
groups        1 of 500 members on 1000 partitions, protocol classic, heartbeats every 3.00 s, at h:1
join          all whole after 4.00 s, 125 members a second
commit        5,000 commits a second, 10,000 offsets a second; 0 failed
restart       500 members one after another in 9.00 s
              0 partitions moved; others had to gather 0 times
memory        broker 100 MB before, 120 MB with all members, 130 MB at the end

                                 count      min      p50      p90      p99      max
a member joins                       5   400 ms   800 ms   1.60 s   2.40 s   3.20 s
one comes, all have their share      5   1.50 s   3.00 s   6.00 s   9.00 s   12.0 s
one goes, all have their share       5   1.55 s   3.10 s   6.20 s   9.30 s   12.4 s
  of that since all were told        0        -        -        -        -        -
a commit                             5  1.00 ms  2.00 ms  4.00 ms  6.00 ms  8.00 ms
one is restarted, and back           5  9.00 ms  18.0 ms  36.0 ms  54.0 ms  72.0 ms
";
        assert_eq!(table(&report), expected);
    }
}
