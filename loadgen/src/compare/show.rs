//! A comparison as a table for people and as a page. Pure.

use super::{Comparison, FIGURES, Figure, Ratio};
use crate::report::html::{by_percentile, page as whole_page, percentile_plot, rows};
use crate::report::table::{context, findings, kept_up, named, workload};
use crate::report::text::{aligned, count};
use crate::report::{Context, Report};

/// The whole table, ending with a line break.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let mut lines = vec![heading(comparison)];
    if let Some(report) = comparison.reports.first().and_then(|reports| reports.first()) {
        named(&mut lines, "workload", workload(report));
        machine(&report.context).into_iter().for_each(|(name, text)| named(&mut lines, name, [text]));
    }
    brokers(comparison).into_iter().for_each(|(name, text)| named(&mut lines, &name, [text]));
    lines.push(String::new());
    let mut table = vec![column_names(comparison)];
    table.extend(FIGURES.iter().map(|figure| row(comparison, figure)));
    lines.extend(aligned(&table));
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        lines.push(String::new());
        lines.extend(remarks);
    }
    lines.join("\n") + "\n"
}

/// The page: the table, the distributions of all names over all rounds, and what was compared.
#[must_use]
pub fn page(comparison: &Comparison) -> String {
    let names: Vec<String> = column_names(comparison);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let figures: Vec<Vec<String>> = FIGURES.iter().map(|figure| row(comparison, figure)).collect();
    let mut body = rows(&[], &[vec![heading(comparison)]]);
    body.push_str(&rows(&names, &figures));
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        body.push_str("<h2>Remarks</h2>\n");
        body.push_str(&rows(&[], &remarks.into_iter().map(|remark| vec![remark]).collect::<Vec<_>>()));
    }
    body.push_str("<h2>Latency by percentile, all rounds together</h2>\n");
    let merged: Vec<_> = (0..comparison.names.len()).map(|place| comparison.merged(place)).collect();
    for distribution in 0..3 {
        let named = merged.iter().map(|histograms| histograms.named()[distribution]);
        let lines: Vec<_> =
            comparison.names.iter().zip(named).map(|(name, (_, histogram))| by_percentile(name, histogram)).collect();
        let title = merged.first().map_or("", |histograms| histograms.named()[distribution].0).replace('_', " ");
        body.push_str(&percentile_plot(&title, &lines));
    }
    body.push_str("<h2>What was compared</h2>\n");
    let pairs = |pairs: Vec<(String, String)>| {
        rows(&[], &pairs.into_iter().map(|(name, text)| vec![name, text]).collect::<Vec<_>>())
    };
    body.push_str(&pairs(brokers(comparison)));
    if let Some(report) = comparison.reports.first().and_then(|reports| reports.first()) {
        let machine = machine(&report.context).into_iter().map(|(name, text)| (name.to_owned(), text));
        let lines = workload(report).into_iter().map(|line| ("workload".to_owned(), line));
        body.push_str(&pairs(machine.chain(lines).collect()));
    }
    whole_page(&format!("tidemill-loadgen compare: {}", comparison.names.join(", ")), &body)
}

fn heading(comparison: &Comparison) -> String {
    let rounds = comparison.reports.first().map_or(0, Vec::len);
    let first = comparison.names.first().map_or("", String::as_str);
    format!(
        "{} rounds of each, interleaved; medians of the rounds; ratios to {first}: median (least..most) of each round's",
        count(rounds as u64)
    )
}

/// The lines of a context that are the machine's, not the broker's.
fn machine(of: &Context) -> Vec<(&'static str, String)> {
    context(of).into_iter().filter(|(name, _)| !matches!(*name, "broker" | "durability")).collect()
}

/// Each name with who its broker is and when a record is on the disk there.
fn brokers(comparison: &Comparison) -> Vec<(String, String)> {
    let said = |reports: &Vec<Report>| match reports.first() {
        Some(Report { context, .. }) => format!("{} at {}; {}", context.broker, context.bootstrap, context.durability),
        None => String::new(),
    };
    comparison.names.iter().zip(&comparison.reports).map(|(name, reports)| (name.clone(), said(reports))).collect()
}

fn column_names(comparison: &Comparison) -> Vec<String> {
    let mut names = vec![String::new()];
    for (place, name) in comparison.names.iter().enumerate() {
        names.push(name.clone());
        if place > 0 {
            names.push(format!("{name} / {}", comparison.names[0]));
        }
    }
    names
}

fn row(comparison: &Comparison, figure: &Figure) -> Vec<String> {
    let mut row = vec![figure.name.to_owned()];
    for place in 0..comparison.names.len() {
        row.push(comparison.median_of(place, figure).map_or_else(|| "-".to_owned(), figure.shown));
        if place > 0 {
            row.push(comparison.ratio_of(place, figure).map_or_else(|| "-".to_owned(), shown));
        }
    }
    row
}

fn shown(ratio: Ratio) -> String {
    let Ratio { median, min, max } = ratio;
    format!("{median:.2} ({min:.2}..{max:.2})")
}

/// What makes figures worth less: runs that fell behind, records that failed, verification that did.
fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    for (name, round, report) in comparison.runs() {
        let run = format!("{name}, round {round}");
        if !report.rate.kept_up() {
            remarks.push(format!("{run}: {}", kept_up(&report.rate)));
        }
        if report.errors.failed_records > 0 {
            remarks.push(format!("{run}: {} records failed", count(report.errors.failed_records)));
        }
        if !report.verified.holds() {
            remarks.push(format!("{run}: VERIFICATION FAILED"));
            remarks.extend(findings(&report.verified.findings).into_iter().map(|finding| format!("  {finding}")));
        }
    }
    remarks
}
