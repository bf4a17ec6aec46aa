//! The report as a table for people. Pure.

use super::text::{aligned, bytes, count, digits, percent, rate, time_ms, time_us, utc};
use super::{
    ACHIEVED_SHARE_MIN, CatchUp, Context, Disk, Errors, Finding, FindingKind, GroupFigures, Latency, ProcessUse, Rate,
    Report, Verified,
};

/// Findings that are shown; the report has the others.
const FINDINGS_SHOWN: usize = 10;
/// Width of the names on the left.
const NAME_WIDTH: usize = 12;

/// The whole table, ending with a line break.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut lines = Vec::new();
    named(&mut lines, "workload", workload(report));
    lines.push(String::new());
    named(&mut lines, "rate", rates(&report.rate));
    lines.push(String::new());
    lines.extend(latencies(report));
    let share = report.consume.before_acknowledgement;
    if report.consume.latency.count > 0 {
        let shown = format!("{} of the records came before their acknowledgement did, and count as 0", percent(share));
        named(&mut lines, "consume", [shown]);
    }
    lines.push(String::new());
    named(&mut lines, "groups", report.groups.iter().flat_map(groups));
    named(&mut lines, "errors", errors(&report.errors));
    named(&mut lines, "cpu", cpu(report));
    named(&mut lines, "catch-up", report.catch_up.iter().map(catch_up));
    named(&mut lines, "verified", verified(&report.verified));
    lines.push(String::new());
    lines.extend(context(&report.context).into_iter().flat_map(|(name, text)| {
        let mut line = Vec::new();
        named(&mut line, name, [text]);
        line
    }));
    lines.join("\n") + "\n"
}

/// Lines behind one name.
pub fn named(lines: &mut Vec<String>, name: &str, texts: impl IntoIterator<Item = String>) {
    for (index, text) in texts.into_iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        lines.push(format!("{name:NAME_WIDTH$}  {text}"));
    }
}

/// The keys that shape a workload most; all of them are in the JSON form.
const WORKLOAD_KEYS: &[&str] = &[
    "rate",
    "topics",
    "partitions",
    "replication",
    "record-bytes",
    "keys",
    "compression",
    "producers",
    "consumers",
    "groups",
    "members",
    "group-protocol",
    "churn",
    "churn-interval",
    "acks",
    "idempotence",
    "linger",
    "batch-bytes",
    "duration",
    "threads",
    "topic-settings",
];

/// The workload, so many keys on a line.
#[must_use]
pub fn workload(report: &Report) -> Vec<String> {
    let value = |key: &&str| {
        let value = report.workload.get(*key).filter(|value| value.as_array().is_none_or(|list| !list.is_empty()))?;
        Some(format!("{key} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    let keys: Vec<String> = WORKLOAD_KEYS.iter().filter_map(value).collect();
    keys.chunks(5).map(|keys| keys.join(", ")).collect()
}

/// Whether the generator kept to the rate, and by how much it did not.
#[must_use]
pub fn kept_up(rate: &Rate) -> String {
    if rate.intended.is_none() {
        return "as many as go: no schedule to keep".to_owned();
    }
    if rate.kept_up() {
        return format!("kept up (at worst {} behind)", time_ms(rate.behind_ms()));
    }
    format!("FELL BEHIND by {}, {} records unsent", time_ms(rate.behind_ms()), count(rate.unsent))
}

/// What there is to say of a rate, line by line.
#[must_use]
pub fn rates(measured: &Rate) -> Vec<String> {
    let (achieved, mb) = (rate(measured.achieved), digits(measured.achieved_mb));
    let of = match measured.intended {
        Some(intended) => format!("intended {} records/s, achieved {achieved} records/s, {mb} MB/s", rate(intended)),
        None => format!("intended as many as go, achieved {achieved} records/s, {mb} MB/s"),
    };
    let mut lines = vec![of, kept_up(measured)];
    if let Some(intended) = measured.intended.filter(|intended| measured.achieved < intended * ACHIEVED_SHARE_MIN) {
        let share = percent(measured.achieved / intended);
        lines.push(format!("{share} of the intended rate was acknowledged within the measured time"));
    }
    let (delivered, seconds) = (rate(measured.delivered), digits(measured.measured_s));
    lines.push(format!("delivered {delivered} records/s; measured for {seconds} s"));
    lines
}

/// The heading and the distributions.
fn latencies(report: &Report) -> Vec<String> {
    let heading = ["", "p50", "p90", "p99", "p99.9", "p99.99", "max"].map(str::to_owned).to_vec();
    let mut rows = vec![heading];
    for (name, latency) in distributions(report) {
        let mut row = vec![format!("{name:NAME_WIDTH$}")];
        row.extend(figures(latency));
        rows.push(row);
    }
    aligned(&rows)
}

/// The distributions, as they are shown: three of records, and three more where groups read.
#[must_use]
pub fn distributions(report: &Report) -> Vec<(&'static str, &Latency)> {
    let mut all =
        vec![("produce", &report.produce), ("consume", &report.consume.latency), ("end to end", &report.end_to_end)];
    if let Some(groups) = &report.groups {
        all.extend([("join", &groups.join), ("rebalance", &groups.rebalance), ("commit", &groups.commit)]);
    }
    all
}

/// What became of groups and their members.
#[must_use]
pub fn groups(found: &GroupFigures) -> [String; 3] {
    let GroupFigures { groups, members, protocol, .. } = found;
    let (joined, commits) = (count(found.join.count), count(found.commits));
    let gone = [(found.left, "left"), (found.killed, "were killed"), (found.restarted, "were restarted")];
    let gone: Vec<String> = gone.iter().map(|(times, how)| format!("{} {how}", count(*times))).collect();
    [
        format!(
            "{groups} of {members} members, protocol {protocol}; members joined {joined} times, {}",
            gone.join(", ")
        ),
        format!("{} rebalances, {} partitions moved", count(found.rebalances), count(found.partitions_moved)),
        format!("{commits} commits, {} a second; {} failed", rate(found.commits_per_s), count(found.commits_failed)),
    ]
}

/// p50, p90, p99, p99.9, p99.99 and the maximum.
#[must_use]
pub fn figures(latency: &Latency) -> [String; 6] {
    let shown = |us: f64| if latency.count == 0 { "-".to_owned() } else { time_us(us) };
    [latency.p50_us, latency.p90_us, latency.p99_us, latency.p99_9_us, latency.p99_99_us, latency.max_us].map(shown)
}

/// Records that failed, batches that were sent again, and why.
#[must_use]
pub fn errors(errors: &Errors) -> Vec<String> {
    let (failed, retried) = (errors.failed_records, errors.retried_batches);
    if failed == 0 && retried == 0 && errors.reasons.is_empty() {
        return vec!["none".to_owned()];
    }
    let mut lines = vec![format!("{} records failed, {} batches were sent again", count(failed), count(retried))];
    let mut reasons: Vec<_> = errors.reasons.iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    lines.extend(reasons.into_iter().map(|(reason, times)| format!("{} × {reason}", count(*times))));
    lines
}

/// CPU of both sides.
#[must_use]
pub fn cpu(report: &Report) -> Vec<String> {
    let of = |name: &str, used: &ProcessUse| {
        let (each, cores) = (digits(used.cpu_us_per_record), digits(used.busy_cores));
        format!("{name} {each} µs a record, {cores} cores busy")
    };
    let broker = match &report.broker {
        Some(used) => of("broker", used),
        None => "broker not known: --broker-pid names its process where it is on this machine".to_owned(),
    };
    vec![of("client", &report.client), broker]
}

/// How far a reader from the start came, and how fast.
#[must_use]
pub fn catch_up(reader: &CatchUp) -> String {
    let whole = if reader.finished { "all of it" } else { "NOT all of it" };
    let (read, speed) = (bytes(reader.bytes), digits(reader.mb_per_s));
    format!("{read} read in {}, {speed} MB/s: {whole}", time_us(reader.elapsed_s * 1e6))
}

/// What was verified, and the first findings.
#[must_use]
pub fn verified(found: &Verified) -> Vec<String> {
    if !found.enabled {
        return vec!["not verified: verify is false, or nothing is read".to_owned()];
    }
    let of = format!("{} records acknowledged, {} delivered", count(found.acknowledged), count(found.delivered));
    let mut lines = if found.holds() {
        vec![format!("{of}: nothing lost, duplicated, reordered or corrupted")]
    } else {
        let kinds = [
            (found.lost, "lost"),
            (found.duplicated, "duplicated"),
            (found.reordered, "reordered"),
            (found.corrupted, "corrupted"),
            (found.unexpected, "unexpected"),
            (found.regressed, "begun below a commit"),
        ];
        let kinds = kinds.iter().filter(|(times, _)| *times > 0);
        let kinds: Vec<String> = kinds.map(|(times, kind)| format!("{} {kind}", count(*times))).collect();
        vec![format!("{of}: FAILED, {}", kinds.join(", "))]
    };
    if found.allowed > 0 {
        let allowed = count(found.allowed);
        lines.push(format!("{allowed} came again or late, as they may where producers are not idempotent"));
    }
    if found.redelivered > 0 {
        let again = count(found.redelivered);
        lines.push(format!("{again} came again after their partition had changed hands, uncommitted, as they may"));
    }
    if found.foreign > 0 {
        lines.push(format!("{} records of others stand on the topics and were passed over", count(found.foreign)));
    }
    lines.extend(findings(&found.findings));
    lines
}

/// The first findings, a line for each.
#[must_use]
pub fn findings(findings: &[Finding]) -> Vec<String> {
    let mut lines: Vec<String> = findings.iter().take(FINDINGS_SHOWN).map(finding).collect();
    let more = findings.len().saturating_sub(FINDINGS_SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more, which the JSON form has"));
    }
    lines
}

fn finding(found: &Finding) -> String {
    let kind = match found.kind {
        FindingKind::Lost => "lost",
        FindingKind::Duplicated => "duplicated",
        FindingKind::Reordered => "reordered",
        FindingKind::Corrupted => "corrupted",
        FindingKind::Unexpected => "unexpected",
        FindingKind::Regressed => "begun below a commit",
    };
    let at = found.offset.map_or_else(|| "offset not known".to_owned(), |offset| format!("offset {offset}"));
    let number = found.number.map(|number| format!(" (record {number} of its producer there)")).unwrap_or_default();
    format!("{kind}: {}-{} {at}{number}", found.topic, found.partition)
}

/// Where it ran, as names and texts.
#[must_use]
pub fn context(context: &Context) -> Vec<(&'static str, String)> {
    let unless_empty = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let memory = if context.memory_bytes == 0 { "unknown".to_owned() } else { bytes(context.memory_bytes) };
    let machine = format!("{} cores, {}, {memory} of memory", context.cores, unless_empty(&context.cpu));
    vec![
        ("broker", format!("{} at {}", unless_empty(&context.broker), context.bootstrap)),
        ("durability", unless_empty(&context.durability)),
        ("machine", format!("{machine}, load average {}", digits(context.load_average))),
        ("kernel", unless_empty(&context.kernel)),
        ("scheduler", unless_empty(&context.scheduler)),
        ("disk", context.disk.as_ref().map_or_else(|| "unknown".to_owned(), disk)),
        ("client", format!("{}, started {}", unless_empty(&context.client_version), utc(context.started_ms))),
    ]
}

fn disk(disk: &Disk) -> String {
    let flush = match disk.flush_p50_us {
        0.0 => "flush not measured".to_owned(),
        p50 => format!("4 KiB write and flush p50 {}, p99 {}", time_us(p50), time_us(disk.flush_p99_us)),
    };
    let Disk { folder, file_system, mount_options, io_scheduler, .. } = disk;
    format!("{folder}: {file_system} ({mount_options}), I/O scheduler {io_scheduler}, {flush}")
}

#[cfg(test)]
pub(crate) mod tests;
