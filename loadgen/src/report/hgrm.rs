//! The percentile text of HdrHistogram (`.hgrm`), which the usual plotters of latencies read.

use std::fmt::Write as _;
use std::path::Path;

use hdrhistogram::Histogram;

use super::Report;

/// Lines for each halving of what is left to 100 %, as HdrHistogram's own writers have it.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
const NS_PER_MS: f64 = 1e6;

/// A histogram of nanoseconds, written in milliseconds.
#[must_use]
pub fn text(histogram: &Histogram<u64>) -> String {
    let mut out = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut line = |value: u64, quantile: f64, total: u64| {
        let value = value as f64 / NS_PER_MS;
        // The last line has no inverse: it would be infinite.
        let written = if quantile < 1.0 {
            writeln!(out, "{value:>12.3} {quantile:>2.12} {total:>10} {:>14.2}", 1.0 / (1.0 - quantile))
        } else {
            writeln!(out, "{value:>12.3} {quantile:>2.12} {total:>10}")
        };
        written.expect("text takes what is written");
    };
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        line(step.value_iterated_to(), step.quantile_iterated_to(), total);
    }
    let (mean, deviation) = match histogram.is_empty() {
        true => (0.0, 0.0),
        false => (histogram.mean() / NS_PER_MS, histogram.stdev() / NS_PER_MS),
    };
    let (max, count) = (histogram.max() as f64 / NS_PER_MS, histogram.len());
    let (buckets, in_each) = (histogram.buckets(), sub_buckets(histogram.sigfig()));
    out.push_str(&format!("#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n"));
    out.push_str(&format!("#[Max     = {max:>12.3}, Total count    = {count:>12}]\n"));
    out.push_str(&format!("#[Buckets = {buckets:>12}, SubBuckets     = {in_each:>12}]\n"));
    out
}

/// How many steps a bucket has, so that each of its values keeps so many digits.
fn sub_buckets(digits: u8) -> u64 {
    (2 * 10u64.pow(u32::from(digits))).next_power_of_two()
}

/// Writes `produce.hgrm`, `consume.hgrm` and `end_to_end.hgrm` into a folder, which is made where it is missing; where groups read also
/// `join.hgrm`, `rebalance.hgrm` and `commit.hgrm`.
///
/// # Errors
/// They can't be written.
pub fn write(folder: &Path, report: &Report) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let of_groups = report.groups.iter().flat_map(|_| report.group_histograms.named());
    for (name, histogram) in report.histograms.named().into_iter().chain(of_groups) {
        std::fs::write(folder.join(format!("{name}.hgrm")), text(histogram))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::new_histogram;

    #[test]
    fn a_known_distribution_has_its_known_lines() {
        let mut histogram = new_histogram();
        for ms in [1, 1, 1, 1, 2, 2, 2, 4, 4, 8] {
            histogram.record(ms * 1_000_000).expect("in range");
        }
        let text = text(&histogram);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
        assert_eq!(lines[2], ["1.000", "0.000000000000", "4", "1.00"]);
        let half = lines.iter().find(|line| line.get(1) == Some(&"0.500000000000")).expect("a line for the median");
        assert_eq!(half[..3], ["2.001", "0.500000000000", "7"]);
        let last = lines.iter().find(|line| line.get(1) == Some(&"1.000000000000")).expect("a line for the maximum");
        assert_eq!(last[..], ["8.004", "1.000000000000", "10"]);
        // By hand 2.6 and the root of 4.44, to the histogram's three digits.
        let closing: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(closing[0], "#[Mean    =        2.600, StdDeviation   =        2.108]");
        assert_eq!(closing[1], "#[Max     =        8.004, Total count    =           10]");
        assert!(closing[2].starts_with("#[Buckets =") && closing[2].ends_with("SubBuckets     =         2048]"));
    }

    #[test]
    fn every_line_goes_on_from_the_one_before() {
        let mut histogram = new_histogram();
        (1..=100_000u64).for_each(|us| histogram.record(us * 1000).expect("in range"));
        let text = text(&histogram);
        let figures = text.lines().skip(2).filter(|line| !line.starts_with('#'));
        let figures: Vec<Vec<f64>> = figures
            .map(|line| line.split_whitespace().map(|figure| figure.parse().expect("a number")).collect())
            .collect();
        assert!(figures.len() > 50, "{}", figures.len());
        for pair in figures.windows(2) {
            assert!((0..3).all(|column| pair[0][column] <= pair[1][column]), "{pair:?}");
        }
        for line in &figures {
            // Of the numbers from 1 to 100,000 the share below each is known.
            assert!((line[0] / 100.0 - line[1]).abs() < 0.002, "{line:?}");
        }
    }

    #[test]
    fn nothing_measured_is_a_file_all_the_same() {
        let text = text(&new_histogram());
        assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 3);
        assert!(!text.contains("NaN"), "{text}");
    }
}
