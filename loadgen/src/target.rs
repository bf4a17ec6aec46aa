//! Bounds that figures are held to: `rate>=1000000`, `produce_p99<=10ms`. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::report::text::{count, digits, rate, time_us};
use crate::report::{Latency, Report};
use crate::units::{Span, number};

/// A figure and its bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    metric: Metric,
    relation: Relation,
    /// In the metric's own unit.
    bound: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    AtLeast,
    AtMost,
}

/// What a bound can be set for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    /// Records a second.
    Rate,
    /// Megabytes a second.
    RateMb,
    /// Records that failed.
    Errors,
    /// Microseconds of CPU for each record.
    BrokerCpuUs,
    ClientCpuUs,
    /// Milliseconds.
    BehindMs,
    /// Microseconds.
    Latency(Side, Figure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Produce,
    Consume,
    EndToEnd,
    Join,
    Rebalance,
    Commit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    P50,
    P90,
    P95,
    P99,
    P999,
    P9999,
    Max,
    Mean,
}

const PLAIN: &[(&str, Metric)] = &[
    ("rate", Metric::Rate),
    ("rate_mb", Metric::RateMb),
    ("errors", Metric::Errors),
    ("broker_cpu_us", Metric::BrokerCpuUs),
    ("client_cpu_us", Metric::ClientCpuUs),
    ("behind_ms", Metric::BehindMs),
];
const SIDES: &[(&str, Side)] = &[
    ("produce", Side::Produce),
    ("consume", Side::Consume),
    ("end_to_end", Side::EndToEnd),
    ("join", Side::Join),
    ("rebalance", Side::Rebalance),
    ("commit", Side::Commit),
];
const FIGURES: &[(&str, Figure)] = &[
    ("p50", Figure::P50),
    ("p90", Figure::P90),
    ("p95", Figure::P95),
    ("p99", Figure::P99),
    ("p99.9", Figure::P999),
    ("p99.99", Figure::P9999),
    ("max", Figure::Max),
    ("mean", Figure::Mean),
];

/// Text that is no target, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotATarget(String);

impl fmt::Display for NotATarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotATarget {}

impl FromStr for Metric {
    type Err = NotATarget;

    fn from_str(name: &str) -> Result<Self, NotATarget> {
        // A dot in a name is awkward in many places: an underscore does as well, as in the JSON form.
        let dotted = name.replace("p99_", "p99.");
        let plain = PLAIN.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric);
        let latency = SIDES.iter().find_map(|(side_name, side)| {
            let figure = dotted.strip_prefix(side_name)?.strip_prefix('_')?;
            FIGURES.iter().find(|(known, _)| *known == figure).map(|(_, figure)| Self::Latency(*side, *figure))
        });
        plain.or(latency).ok_or_else(|| {
            let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
            let plain = names(&mut PLAIN.iter().map(|(name, _)| *name));
            let sides = names(&mut SIDES.iter().map(|(name, _)| *name));
            let figures = names(&mut FIGURES.iter().map(|(name, _)| *name));
            NotATarget(format!(
                "there is no figure `{name}`: there are {plain}, and of each of {sides}, with `_` between, {figures}"
            ))
        })
    }
}

impl Metric {
    /// A bound, in this figure's unit.
    fn bound(self, text: &str) -> Result<f64, NotATarget> {
        let said = |error: &dyn fmt::Display| NotATarget(error.to_string());
        match self {
            Self::Latency(..) => Ok(text.parse::<Span>().map_err(|error| said(&error))?.0.as_secs_f64() * 1e6),
            _ => number(text).map_err(|error| said(&error)),
        }
    }

    /// The figure, if it was measured.
    fn value(self, report: &Report) -> Option<f64> {
        let measured = report.rate.measured_s > 0.0;
        match self {
            Self::Rate => measured.then_some(report.rate.achieved),
            Self::RateMb => measured.then_some(report.rate.achieved_mb),
            Self::Errors => (report.rate.due > 0).then_some(report.errors.failed_records as f64),
            Self::BrokerCpuUs if report.rate.achieved > 0.0 => {
                report.broker.as_ref().map(|used| used.cpu_us_per_record)
            }
            Self::ClientCpuUs if report.rate.achieved > 0.0 => Some(report.client.cpu_us_per_record),
            Self::BrokerCpuUs | Self::ClientCpuUs => None,
            // As many as go have no schedule that they could be behind.
            Self::BehindMs => report.rate.intended.map(|_| report.rate.behind_ms()),
            Self::Latency(side, figure) => {
                let latency = match side {
                    Side::Produce => &report.produce,
                    Side::Consume => &report.consume.latency,
                    Side::EndToEnd => &report.end_to_end,
                    Side::Join => &report.groups.as_ref()?.join,
                    Side::Rebalance => &report.groups.as_ref()?.rebalance,
                    Side::Commit => &report.groups.as_ref()?.commit,
                };
                (latency.count > 0).then(|| figure.of(latency))
            }
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{} records/s", rate(value)),
            Self::RateMb => format!("{} MB/s", digits(value)),
            Self::Errors => format!("{} records", count(value as u64)),
            Self::BrokerCpuUs | Self::ClientCpuUs => format!("{} µs a record", digits(value)),
            Self::BehindMs => time_us(value * 1e3),
            Self::Latency(..) => time_us(value),
        }
    }
}

impl Figure {
    fn of(self, latency: &Latency) -> f64 {
        match self {
            Self::P50 => latency.p50_us,
            Self::P90 => latency.p90_us,
            Self::P95 => latency.p95_us,
            Self::P99 => latency.p99_us,
            Self::P999 => latency.p99_9_us,
            Self::P9999 => latency.p99_99_us,
            Self::Max => latency.max_us,
            Self::Mean => latency.mean_us,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(side, figure) => {
                let (side, _) = SIDES.iter().find(|(_, known)| known == side).expect("every side has a name");
                let (figure, _) = FIGURES.iter().find(|(_, known)| known == figure).expect("every figure has a name");
                write!(f, "{side}_{figure}")
            }
            plain => {
                let (name, _) = PLAIN.iter().find(|(_, known)| known == plain).expect("every figure has a name");
                f.write_str(name)
            }
        }
    }
}

impl FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Self, NotATarget> {
        let (relation, name, bound) = if let Some((name, bound)) = text.split_once(">=") {
            (Relation::AtLeast, name, bound)
        } else if let Some((name, bound)) = text.split_once("<=") {
            (Relation::AtMost, name, bound)
        } else {
            return Err(NotATarget(format!(
                "`{text}` has neither `>=` nor `<=`: a target is such as produce_p99<=10ms"
            )));
        };
        let metric: Metric = name.trim().parse()?;
        let bound = metric.bound(bound.trim())?;
        Ok(Self { metric, relation, bound })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = match self.relation {
            Relation::AtLeast => ">=",
            Relation::AtMost => "<=",
        };
        write!(f, "{} {relation} {}", self.metric, self.metric.shown(self.bound))
    }
}

/// What came of a target.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    #[serde(serialize_with = "as_text")]
    pub target: Target,
    /// In the figure's own unit: records or megabytes a second, records, milliseconds behind, microseconds. `None`: not measured.
    pub value: Option<f64>,
    pub bound: f64,
    /// How far the value is on the right side of the bound, in percent of the bound; below 0 on the wrong one. `None` where
    /// nothing was measured or the bound is 0.
    pub margin_percent: Option<f64>,
    /// What was not measured does not hold.
    pub holds: bool,
}

fn as_text<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

impl Target {
    /// Holds a report to it.
    #[must_use]
    pub fn judge(&self, report: &Report) -> Verdict {
        let value = self.metric.value(report);
        let spare = value.map(|value| match self.relation {
            Relation::AtLeast => value - self.bound,
            Relation::AtMost => self.bound - value,
        });
        Verdict {
            target: self.clone(),
            value,
            bound: self.bound,
            margin_percent: spare.filter(|_| self.bound > 0.0).map(|spare| spare / self.bound * 100.0),
            holds: spare.is_some_and(|spare| spare >= 0.0),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "holds" } else { "MISSED" };
        write!(f, "{word:6}  {}: ", self.target)?;
        match self.value {
            None => f.write_str("not measured")?,
            Some(value) => f.write_str(&self.target.metric.shown(value))?,
        }
        match self.margin_percent {
            Some(margin) => write!(f, ", margin {margin:+.1} %"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::tests::made_up;

    fn target(text: &str) -> Target {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_report_is_held_to_its_targets() {
        let report = made_up();
        for (text, value, margin, holds) in [
            ("rate>=40k", Some(49_990.0), Some(24.975), true),
            ("rate>=50000", Some(49_990.0), Some(-0.02), false),
            ("rate_mb >= 50", Some(50.8), Some(1.6), true),
            ("produce_p50<=1ms", Some(800.0), Some(20.0), true),
            ("produce_p90<=1.5ms", Some(1500.0), Some(0.0), true),
            ("produce_p95<=1ms", Some(2000.0), Some(-100.0), false),
            ("produce_p99<=10ms", Some(5000.0), Some(50.0), true),
            ("consume_p99<=5ms", Some(500.0), Some(90.0), true),
            ("produce_p99.9<=10ms", Some(9000.0), Some(10.0), true),
            ("produce_p99_9<=10ms", Some(9000.0), Some(10.0), true),
            ("produce_p99_99<=10ms", Some(20_000.0), Some(-100.0), false),
            ("produce_mean<=1ms", Some(900.0), Some(10.0), true),
            ("produce_max>=31ms", Some(31_000.0), Some(0.0), true),
            ("errors<=0", Some(0.0), None, true),
            ("broker_cpu_us<=1.5", Some(1.4), Some(100.0 / 15.0), true),
            ("client_cpu_us<=1", Some(1.2), Some(-20.0), false),
            ("behind_ms<=6.4", Some(3.2), Some(50.0), true),
        ] {
            let verdict = target(text).judge(&report);
            assert_eq!((verdict.value, verdict.holds), (value, holds), "{text}");
            match (verdict.margin_percent, margin) {
                (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-9, "{text}: {found}"),
                (found, expected) => assert_eq!(found, expected, "{text}"),
            }
        }
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let report = Report { rate: crate::report::Rate::default(), ..made_up() };
        for text in
            ["rate>=0", "rate<=5", "rate_mb<=1", "errors<=0", "broker_cpu_us<=9", "client_cpu_us<=9", "behind_ms<=9"]
        {
            let verdict = target(text).judge(&report);
            assert_eq!((verdict.value, verdict.margin_percent, verdict.holds), (None, None, false), "{text}");
        }
        let report = Report { broker: None, consume: Default::default(), ..made_up() };
        for text in ["broker_cpu_us<=9", "consume_p99<=5ms", "rebalance_p99<=5s"] {
            assert!(!target(text).judge(&report).holds, "{text}");
            assert!(target(text).judge(&report).to_string().contains("not measured"));
        }
    }

    #[test]
    fn what_is_no_target_is_told_what_there_is() {
        for (text, reason) in [
            ("rate", "neither `>=` nor `<=`"),
            ("rate>5", "neither `>=` nor `<=`"),
            ("speed>=5", "there are rate, rate_mb, errors"),
            ("produce_p98<=5ms", "p50, p90, p95, p99, p99.9, p99.99, max, mean"),
            ("produce<=5ms", "of each of produce, consume, end_to_end"),
            ("produce_p99<=10", "`10` is not a span of time"),
            ("rate>=fast", "`fast` is not a number"),
            ("errors<=-1", "`-1` is not a number"),
        ] {
            let error = text.parse::<Target>().expect_err("no target").to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn verdicts_say_the_value_and_the_margin() {
        let report = made_up();
        for (text, said) in [
            ("produce_p99<=10ms", "holds   produce_p99 <= 10.0 ms: 5.00 ms, margin +50.0 %"),
            ("rate>=1M", "MISSED  rate >= 1,000,000 records/s: 49,990 records/s, margin -95.0 %"),
            ("end_to_end_p99_9<=15ms", "holds   end_to_end_p99.9 <= 15.0 ms: 9.90 ms, margin +34.0 %"),
            ("errors<=0", "holds   errors <= 0 records: 0 records"),
        ] {
            assert_eq!(target(text).judge(&report).to_string(), said);
        }
        let json = serde_json::to_value(target("rate>=40k").judge(&report)).expect("JSON");
        assert_eq!(json["target"], "rate >= 40,000 records/s");
    }
}
