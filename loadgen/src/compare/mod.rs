//! Several brokers under one workload, round by round: what came of each, and their ratios. Pure but for the runs it is given.
//!
//! Runs are interleaved, and each round begins with another broker, so that what drifts on the machine meets all alike. A ratio is taken
//! within a round; of the rounds' ratios the median stands, with the least and the most beside it.

mod show;

use std::collections::BTreeMap;

use serde::Serialize;

pub use show::{page, table};

use crate::report::text::{digits, rate, time_us};
use crate::report::{Histograms, Latency, Report};

/// What was compared: for each name, in their order, a report for each round.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub names: Vec<String>,
    pub reports: Vec<Vec<Report>>,
}

/// A run in a comparison, or what became of it.
#[derive(Clone, Debug)]
pub struct Failed<E> {
    pub name: String,
    pub round: u32,
    pub error: E,
}

/// Runs `rounds` rounds by `measure`, which is told the place of the name and the round, from 1.
///
/// # Errors
/// The first run without a report.
pub fn compare<E>(
    names: &[String],
    rounds: u32,
    measure: &mut dyn FnMut(usize, u32) -> Result<Report, E>,
) -> Result<Comparison, Failed<E>> {
    let mut reports: Vec<Vec<Report>> = vec![Vec::new(); names.len()];
    for round in 1..=rounds {
        for place in order(names.len(), round) {
            let failed = |error| Failed { name: names[place].clone(), round, error };
            reports[place].push(measure(place, round).map_err(failed)?);
        }
    }
    Ok(Comparison { names: names.to_vec(), reports })
}

/// Who runs after whom in a round, from 1.
fn order(count: usize, round: u32) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round as usize - 1) % count)
}

/// A figure that is compared.
pub struct Figure {
    /// As the report's JSON form has it.
    pub key: &'static str,
    pub name: &'static str,
    of: fn(&Report) -> Option<f64>,
    shown: fn(f64) -> String,
}

fn latency(latency: &Latency, figure: f64) -> Option<f64> {
    (latency.count > 0).then_some(figure)
}

/// A line of [`FIGURES`] for a percentile.
macro_rules! percentile {
    ($key:literal, $name:literal, |$report:ident| $latency:expr, $figure:ident) => {
        Figure { key: $key, name: $name, of: |$report| latency(&$latency, $latency.$figure), shown: time_us }
    };
}

/// All of them.
pub const FIGURES: &[Figure] = &[
    Figure {
        key: "rate.achieved",
        name: "rate, records/s",
        of: |report| (report.rate.measured_s > 0.0).then_some(report.rate.achieved),
        shown: rate,
    },
    percentile!("produce.p50_us", "produce p50", |report| report.produce, p50_us),
    percentile!("produce.p99_us", "produce p99", |report| report.produce, p99_us),
    percentile!("produce.p99_9_us", "produce p99.9", |report| report.produce, p99_9_us),
    percentile!("consume.p50_us", "consume p50", |report| report.consume.latency, p50_us),
    percentile!("consume.p99_us", "consume p99", |report| report.consume.latency, p99_us),
    percentile!("consume.p99_9_us", "consume p99.9", |report| report.consume.latency, p99_9_us),
    percentile!("end_to_end.p50_us", "end to end p50", |report| report.end_to_end, p50_us),
    percentile!("end_to_end.p99_us", "end to end p99", |report| report.end_to_end, p99_us),
    percentile!("end_to_end.p99_9_us", "end to end p99.9", |report| report.end_to_end, p99_9_us),
    Figure {
        key: "broker.cpu_us_per_record",
        name: "broker CPU, µs a record",
        of: |report| report.broker.as_ref().map(|used| used.cpu_us_per_record),
        shown: digits,
    },
];

/// How a figure relates to that of the first name, over the rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Ratio {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// The value in the middle; of an even number the mean of the two there.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Of pairs (value, value of the first); rounds in which one is missing, or the first is 0, do not count.
fn ratio(pairs: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<Ratio> {
    let ratios: Vec<f64> =
        pairs.filter_map(|(value, first)| Some(value? / first.filter(|first| *first > 0.0)?)).collect();
    let median = median(&ratios)?;
    let min = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let max = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Ratio { median, min, max })
}

impl Comparison {
    /// The median of a figure over the rounds, where it was measured.
    fn median_of(&self, place: usize, figure: &Figure) -> Option<f64> {
        median(&self.reports[place].iter().filter_map(figure.of).collect::<Vec<_>>())
    }

    fn ratio_of(&self, place: usize, figure: &Figure) -> Option<Ratio> {
        ratio(self.reports[place].iter().map(figure.of).zip(self.reports[0].iter().map(figure.of)))
    }

    /// The distributions of one name over all rounds.
    fn merged(&self, place: usize) -> Histograms {
        let mut all = Histograms::default();
        for report in &self.reports[place] {
            all.add(&report.histograms);
        }
        all
    }

    /// Every run as (name, round, report), in the order of names and rounds.
    pub fn runs(&self) -> impl Iterator<Item = (&str, u32, &Report)> {
        self.names
            .iter()
            .zip(&self.reports)
            .flat_map(|(name, reports)| (1..).zip(reports).map(move |(round, report)| (name.as_str(), round, report)))
    }

    /// Nothing was lost, duplicated, swapped or corrupted in any run.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.reports.iter().flatten().all(|report| report.verified.holds())
    }

    /// The JSON form: medians and ratios, then every report.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let figures: BTreeMap<&str, BTreeMap<&str, Summary>> =
            FIGURES.iter().map(|figure| (figure.key, self.summaries(figure))).collect();
        let reports: BTreeMap<&str, &Vec<Report>> = self.names.iter().map(String::as_str).zip(&self.reports).collect();
        let rounds = self.reports.first().map_or(0, Vec::len);
        serde_json::json!({ "names": self.names, "rounds": rounds, "figures": figures, "reports": reports })
    }

    fn summaries(&self, figure: &Figure) -> BTreeMap<&str, Summary> {
        let names = self.names.iter().enumerate();
        names
            .map(|(place, name)| {
                let ratio = if place == 0 { None } else { self.ratio_of(place, figure) };
                (name.as_str(), Summary { median: self.median_of(place, figure), ratio })
            })
            .collect()
    }
}

/// A figure of one name.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct Summary {
    median: Option<f64>,
    /// To the first name; the first has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
}

#[cfg(test)]
mod tests;
