//! The report as one HTML file: no script, nothing loaded from anywhere, readable in light and dark. Pure.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::plot::{Line, Plot, Scale, nines};
use super::text::{count, escaped, rate, time_us};
use super::{Report, Second, table};

/// The most points of a line over time: of a longer run several seconds become one point.
const TIME_POINTS_MAX: usize = 600;
/// Ticks of a distribution for each halving of what is left to 100 %.
const TICKS_PER_HALF_DISTANCE: u32 = 4;

const STYLE: &str = include_str!("page.css");

/// A whole page around `body`, which is HTML already.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A table with the names of its rows on the left; `heading` may be empty, and rows with nothing beside their name are left out.
#[must_use]
pub fn rows(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = "<table>".to_owned();
    if !heading.is_empty() {
        let cells: Vec<String> = heading.iter().map(|cell| format!("<th>{}</th>", escaped(cell))).collect();
        write!(out, "<thead><tr>{}</tr></thead>", cells.concat()).expect("text");
    }
    for row in rows.iter().filter(|row| row.len() < 2 || row[1..].iter().any(|cell| !cell.is_empty())) {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("<th>{}</th>", escaped(cell)),
            _ => format!("<td>{}</td>", escaped(cell).replace('\n', "<br>")),
        });
        write!(out, "<tr>{}</tr>", cells.collect::<Vec<_>>().concat()).expect("text");
    }
    out.push_str("</table>\n");
    out
}

/// The page of a report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut body = summary(report);
    body.push_str("<h2>Latency by percentile</h2>\n");
    let lines: Vec<Line> =
        report.histograms.named().iter().map(|(name, histogram)| by_percentile(&spoken(name), histogram)).collect();
    body.push_str(&percentile_plot("produce, consume, end to end", &lines));
    if report.groups.is_some() {
        let of_groups = report.group_histograms.named();
        let lines: Vec<Line> = of_groups.iter().map(|(name, histogram)| by_percentile(name, histogram)).collect();
        body.push_str(&percentile_plot("join, rebalance, commit", &lines));
    }
    body.push_str("<h2>Over time</h2>\n");
    over_time(&mut body, &report.series);
    body.push_str("<h2>Context</h2>\n");
    let context = table::context(&report.context).into_iter().map(|(name, text)| vec![name.to_owned(), text]);
    body.push_str(&rows(&[], &context.collect::<Vec<_>>()));
    body.push_str("<h2>Workload</h2>\n");
    let workload = report
        .workload
        .iter()
        .map(|(key, value)| vec![key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)]);
    body.push_str(&rows(&[], &workload.collect::<Vec<_>>()));
    page(&format!("tidemill-loadgen: {}", report.context.bootstrap), &body)
}

/// The name of a distribution, in words.
fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

/// The figures as tables.
fn summary(report: &Report) -> String {
    let lines = |name: &str, lines: Vec<String>| vec![name.to_owned(), lines.join("\n")];
    let mut out = rows(&[], &[lines("rate", table::rates(&report.rate))]);
    let figures: Vec<Vec<String>> = table::distributions(report)
        .into_iter()
        .map(|(name, latency)| {
            let mut row = vec![name.to_owned(), count(latency.count)];
            row.extend(table::figures(latency));
            row
        })
        .collect();
    out.push_str(&rows(&["", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"], &figures));
    let share = super::text::percent(report.consume.before_acknowledgement);
    out.push_str(&rows(
        &[],
        &[
            lines(
                "before their acknowledgement",
                vec![format!("{share} of the records were delivered, and count as 0")],
            ),
            lines("groups", report.groups.iter().flat_map(table::groups).collect()),
            lines("errors", table::errors(&report.errors)),
            lines("cpu", table::cpu(report)),
            lines("catch-up readers", report.catch_up.iter().map(table::catch_up).collect()),
            lines("verified", table::verified(&report.verified)),
        ],
    ));
    out
}

/// A histogram of nanoseconds as a line from 0 % to its last record, in microseconds.
#[must_use]
pub fn by_percentile(name: &str, histogram: &Histogram<u64>) -> Line {
    let (mut points, mut notes) = (Vec::new(), Vec::new());
    // The maximum stands where the last record does: 100 % has no place on an axis of nines.
    let last = 1.0 - 1.0 / (histogram.len().max(1) as f64);
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        let (share, us) = (step.quantile_iterated_to().min(last), step.value_iterated_to() as f64 / 1e3);
        points.push((share, us));
        let at = if share < last { nines_or_more(share) } else { "max".to_owned() };
        notes.push(format!("{name} {at}: {}", time_us(us)));
        if share >= last {
            break;
        }
    }
    Line { name: name.to_owned(), points, notes }
}

/// A percentile with the digits that tell it from its neighbours.
fn nines_or_more(share: f64) -> String {
    let at = nines(share);
    if at.starts_with("100") { format!("{:.6}%", share * 100.0) } else { at }
}

/// Lines by percentile, drawn.
#[must_use]
pub fn percentile_plot(title: &str, lines: &[Line]) -> String {
    let (x_label, y_label) = ("percentile", "latency");
    Plot { title, x_label, y_label, x: Scale::Nines, y: Scale::Log, lines, y_text: time_us }.svg()
}

/// How a figure of a second is read.
type Figure = fn(&Second) -> f64;

/// Rates and latencies by the second.
fn over_time(out: &mut String, series: &[Second]) {
    let rates: [(&str, Figure); 3] = [
        ("due", |second| second.due as f64),
        ("acknowledged", |second| second.acknowledged as f64),
        ("delivered", |second| second.delivered as f64),
    ];
    out.push_str(&time_plot("records a second", "records/s", Scale::Linear, rate, series, &rates));
    let behind: [(&str, Figure); 1] = [("behind the schedule", |second| second.behind_ms * 1e3)];
    let latencies: [(&str, [(&str, Figure); 3]); 3] = [
        (
            "produce",
            [
                ("p50", |second| second.produce_p50_us),
                ("p99", |second| second.produce_p99_us),
                ("max", |second| second.produce_max_us),
            ],
        ),
        (
            "consume",
            [
                ("p50", |second| second.consume_p50_us),
                ("p99", |second| second.consume_p99_us),
                ("max", |second| second.consume_max_us),
            ],
        ),
        (
            "end to end",
            [
                ("p50", |second| second.end_to_end_p50_us),
                ("p99", |second| second.end_to_end_p99_us),
                ("max", |second| second.end_to_end_max_us),
            ],
        ),
    ];
    for (name, figures) in latencies {
        out.push_str(&time_plot(
            &format!("{name} latency by the second"),
            "latency",
            Scale::Log,
            time_us,
            series,
            &figures,
        ));
    }
    let title = "how far the generator was behind its schedule, at worst in each second";
    out.push_str(&time_plot(title, "behind", Scale::Linear, time_us, series, &behind));
}

fn time_plot(
    title: &str,
    y_label: &str,
    y: Scale,
    y_text: fn(f64) -> String,
    series: &[Second],
    figures: &[(&str, Figure)],
) -> String {
    let group = series.len().div_ceil(TIME_POINTS_MAX).max(1);
    let lines: Vec<Line> = figures
        .iter()
        .map(|(name, figure)| {
            // Of several seconds the highest stands: a peak is what such a plot is looked at for.
            let highest = |seconds: &[Second]| seconds.iter().map(figure).fold(0.0, f64::max);
            let at = |seconds: &[Second]| (f64::from(seconds[0].second), highest(seconds));
            let points: Vec<(f64, f64)> = series.chunks(group).map(at).collect();
            let notes = points.iter().map(|(at, value)| format!("{name}, second {at}: {}", y_text(*value))).collect();
            Line { name: (*name).to_owned(), points, notes }
        })
        .collect();
    Plot { title, x_label: "seconds", y_label, x: Scale::Linear, y, lines: &lines, y_text }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::tests::made_up;
    use crate::report::{Finding, FindingKind, new_histogram};

    #[test]
    fn a_page_loads_nothing_and_escapes_every_text() {
        let bad = "<script>alert(\"1\")</script>'&";
        let mut report = made_up();
        report.context.bootstrap = bad.into();
        report.context.broker = bad.into();
        report.context.disk.as_mut().expect("a disk").folder = bad.into();
        report.errors.failed_records = 1;
        report.errors.reasons = [(bad.to_owned(), 1)].into();
        report.workload.insert(bad.into(), bad.into());
        report.verified.lost = 1;
        let finding = Finding { kind: FindingKind::Lost, topic: bad.into(), partition: 0, offset: None, number: None };
        report.verified.findings = vec![finding];
        let page = render(&report);
        for loading in
            ["http://", "https://", "<script", "<link", "<img", "<iframe", "url(", "@import", "src=", "href="]
        {
            assert!(!page.contains(loading), "{loading}");
        }
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;"));
        assert_eq!(page.matches("alert(").count(), page.matches("&lt;script&gt;alert(&quot;1&quot;)").count());
    }

    #[test]
    fn a_page_has_the_figures_and_a_drawing_of_each_thing() {
        let page = render(&made_up());
        for part in [
            "<title>tidemill-loadgen: 127.0.0.1:9092</title>",
            "<td>5.00 ms</td>",
            "kept up (at worst 3.20 ms behind)",
            "12.5 % of the records",
            "Some CPU",
            ">partitions</th><td>24</td>",
            ">99.9%</text>",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (6, 6));
        let groups = Some(crate::report::GroupFigures { groups: 7, members: 3, ..Default::default() });
        let with_groups = render(&Report { groups, ..made_up() });
        assert!(with_groups.contains("7 of 3 members") && with_groups.contains("join, rebalance, commit"));
        assert_eq!(with_groups.matches("<svg").count(), 7);
        for name in ["table", "figure", "tr", "main", "svg", "div"] {
            let (open, close) = (
                page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count(),
                page.matches(&format!("</{name}>")).count(),
            );
            assert_eq!(open, close, "{name}");
        }
    }

    #[test]
    fn a_report_without_figures_is_a_page_too() {
        let report = Report { series: Vec::new(), histograms: Default::default(), ..made_up() };
        let page = render(&report);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn a_line_by_percentile_ends_with_the_maximum() {
        let mut histogram = new_histogram();
        (1..=1000u64).for_each(|us| histogram.record(us * 1000).expect("in range"));
        let line = by_percentile("produce", &histogram);
        assert_eq!(line.points.first().map(|point| point.0), Some(0.0));
        let (share, us) = *line.points.last().expect("points");
        assert!((share - 0.999).abs() < 1e-9 && (us - 1000.0).abs() < 1.0, "{share} {us}");
        assert!(
            line.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1),
            "{:?}",
            line.points
        );
        assert_eq!(line.notes.last().map(String::as_str), Some("produce max: 1.00 ms"));
    }

    #[test]
    fn a_long_run_keeps_its_peaks() {
        let series: Vec<Second> = (0..6000)
            .map(|second| Second { second, behind_ms: if second == 4711 { 500.0 } else { 1.0 }, ..Second::default() })
            .collect();
        let mut out = String::new();
        over_time(&mut out, &series);
        assert!(out.contains("behind the schedule, second 4710: 500 ms"), "the peak is gone");
        assert_eq!(out.matches("<circle").count() % TIME_POINTS_MAX, 0);
    }
}
