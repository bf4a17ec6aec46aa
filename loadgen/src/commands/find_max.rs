//! `find-max`: the highest rate at which targets hold.

use clap::Args;
use serde::Serialize;

use super::run::{Output, RunArguments};
use super::session::{Exit, Failure, ended, print, print_json, say};
use crate::report::text::{percent, rate as rate_text};
use crate::report::{ACHIEVED_SHARE_MIN, Report, table};
use crate::search::Search;
use crate::target::{Target, Verdict};
use crate::units::number;
use crate::workload::Rate;

#[derive(Clone, Debug, Args)]
pub struct FindMaxArguments {
    /// A bound that must hold, such as 'produce_p99<=10ms'; may be given again (see `check`)
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<Target>,
    /// The lowest rate, tried first
    #[arg(long, value_name = "RATE", value_parser = records, default_value = "10k")]
    from: f64,
    /// The highest rate
    #[arg(long, value_name = "RATE", value_parser = records, default_value = "10M")]
    to: f64,
    /// How far apart the highest rate that held and the lowest that failed may be in the end
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "5%")]
    precision: f64,
    #[command(flatten)]
    run: RunArguments,
}

fn records(text: &str) -> Result<f64, String> {
    number(text).map_err(|error| error.to_string())
}

/// `5%`, as a part of 1.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end();
    Ok(records(percent)? / 100.0)
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize)]
struct Step {
    rate: f64,
    achieved: f64,
    held: bool,
    /// 99 % of the rate was acknowledged within the measured time.
    rate_held: bool,
    verified: bool,
    targets: Vec<Verdict>,
}

impl Step {
    fn of(rate: f64, report: &Report, targets: &[Target]) -> Self {
        let targets: Vec<Verdict> = targets.iter().map(|target| target.judge(report)).collect();
        let rate_held = report.rate.achieved >= rate * ACHIEVED_SHARE_MIN;
        let verified = report.verified.holds();
        let held = rate_held && verified && targets.iter().all(|verdict| verdict.holds);
        Self { rate, achieved: report.rate.achieved, held, rate_held, verified, targets }
    }

    /// The rate and what held, a line for each.
    fn lines(&self) -> Vec<String> {
        let word = if self.held { "holds" } else { "FAILS" };
        let achieved = format!("{} of it acknowledged in time", percent(self.achieved / self.rate));
        let mut lines = vec![format!("{word} at {} records/s: {achieved}", rate_text(self.rate))];
        lines.extend(self.targets.iter().map(|verdict| format!("  {verdict}")));
        if !self.verified {
            lines.push("  verification FAILED".to_owned());
        }
        lines
    }
}

/// What was found.
struct Found {
    steps: Vec<Step>,
    /// Of the highest rate that held.
    best: Option<(f64, Report)>,
}

#[derive(Serialize)]
struct FoundJson<'a> {
    highest_rate: Option<f64>,
    /// The lowest that failed; absent if the highest rate allowed has held.
    lowest_failed: Option<f64>,
    steps: &'a [Step],
    report: Option<&'a Report>,
}

/// Searches; `measure` is told the rate and the number of the step, from 1, and `on_step` of each as it ends.
fn search(
    search: &mut Search,
    targets: &[Target],
    measure: &mut dyn FnMut(f64, usize) -> Result<Report, Failure>,
    on_step: &mut dyn FnMut(&Step),
) -> Result<Found, Failure> {
    let mut found = Found { steps: Vec::new(), best: None };
    while let Some(rate) = search.next() {
        let report = measure(rate, found.steps.len() + 1)?;
        let step = Step::of(rate, &report, targets);
        search.record(step.held);
        if step.held {
            found.best = Some((rate, report));
        }
        on_step(&step);
        found.steps.push(step);
    }
    Ok(found)
}

impl FindMaxArguments {
    pub(super) fn run(&self) -> Exit {
        ended(self.find())
    }

    fn find(&self) -> Result<Exit, Failure> {
        if self.run.keys.rate.is_some() {
            return Err(Failure("--rate: find-max chooses the rate, from --from to --to".to_owned()));
        }
        let plan = self.run.plan()?;
        let mut range = Search::new(self.from, self.to, self.precision).map_err(|error| Failure(error.to_string()))?;
        let mut measure = |rate: f64, step: usize| {
            let mut plan = plan.clone();
            plan.workload.rate = Rate::constant(rate);
            plan.workload.rename(&format!("-s{step}"));
            self.run.measure(&plan)
        };
        let mut on_step = |step: &Step| step.lines().iter().for_each(|line| say(line));
        let found = search(&mut range, &self.targets, &mut measure, &mut on_step)?;
        self.print_found(&found, range.failed())?;
        if let Some((_, report)) = &found.best {
            self.run.write_files(report)?;
        }
        Ok(found.exit())
    }

    fn print_found(&self, found: &Found, lowest_failed: Option<f64>) -> Result<(), Failure> {
        if self.run.output == Output::Json {
            let (highest_rate, report) =
                (found.best.as_ref().map(|best| best.0), found.best.as_ref().map(|best| &best.1));
            return print_json(&FoundJson { highest_rate, lowest_failed, steps: &found.steps, report });
        }
        let Some((best, report)) = &found.best else {
            return print(&format!("no rate holds: the lowest, {} records/s, failed\n", rate_text(self.from)));
        };
        let failed = match lowest_failed {
            Some(failed) => format!("{} failed", rate_text(failed)),
            None => "the highest rate allowed (--to)".to_owned(),
        };
        print(&format!("the highest rate that holds: {} records/s ({failed})\n\n", rate_text(*best)))?;
        print(&table::render(report))
    }
}

impl Found {
    /// Records that were lost at any rate are no matter of speed.
    fn exit(&self) -> Exit {
        if self.steps.iter().any(|step| !step.verified) {
            Exit::Broken
        } else if self.best.is_some() {
            Exit::Done
        } else {
            Exit::Missed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::tests::made_up;

    /// A broker whose p99 grows with the rate, which achieves no more than `most`, and loses a record above `loses`.
    fn found(targets: &[&str], most: f64, loses: f64) -> Result<(Vec<f64>, Option<f64>, Exit), Failure> {
        let targets: Vec<Target> = targets.iter().map(|text| text.parse().expect("a target")).collect();
        let mut range = Search::new(1000.0, 64_000.0, 0.25).expect("a range");
        let mut measure = |rate: f64, _| {
            let mut report = made_up();
            report.rate.intended = Some(rate);
            report.rate.achieved = rate.min(most);
            report.produce.p99_us = rate;
            report.verified.lost = u64::from(rate > loses);
            Ok(report)
        };
        let found = search(&mut range, &targets, &mut measure, &mut |_| ())?;
        let exit = found.exit();
        Ok((found.steps.iter().map(|step| step.rate).collect(), found.best.map(|best| best.0), exit))
    }

    #[test]
    fn a_step_fails_by_its_targets_its_rate_or_its_records() {
        let rates = |rates: &[f64]| rates.to_vec();
        for (targets, most, loses, expected) in [
            (&["produce_p99<=5ms"][..], 1e9, 1e9, (rates(&[1e3, 2e3, 4e3, 8e3, 6e3, 5e3]), Some(5e3), Exit::Done)),
            (&["produce_p99<=1s"], 1e9, 1e9, (rates(&[1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 64e3]), Some(64e3), Exit::Done)),
            (&["produce_p99<=1s"], 3000.0, 1e9, (rates(&[1e3, 2e3, 4e3, 3e3, 3.5e3]), Some(3e3), Exit::Done)),
            (&["produce_p99<=1s"], 1e9, 1e3, (rates(&[1e3, 2e3, 1.5e3, 1.25e3]), Some(1e3), Exit::Broken)),
            (&["produce_p99<=1s", "rate<=1"], 1e9, 1e9, (rates(&[1e3]), None, Exit::Missed)),
        ] {
            assert_eq!(found(targets, most, loses), Ok(expected), "{targets:?} {most} {loses}");
        }
    }

    #[test]
    fn a_step_says_what_held() {
        let targets = ["produce_p99<=10ms".parse().expect("a target")];
        let mut report = made_up();
        assert_eq!(
            Step::of(50_000.0, &report, &targets).lines(),
            [
                "holds at 50,000 records/s: 100 % of it acknowledged in time",
                "  holds   produce_p99 <= 10.0 ms: 5.00 ms, margin +50.0 %",
            ]
        );
        report.verified.lost = 1;
        let lines = Step::of(100_000.0, &report, &targets).lines();
        assert_eq!(lines[0], "FAILS at 100,000 records/s: 50.0 % of it acknowledged in time");
        assert_eq!(lines[2], "  verification FAILED");
    }

    #[test]
    fn precision_is_a_percentage() {
        for (text, part) in [("5%", Ok(0.05)), ("2.5 %", Ok(0.025)), ("10", Ok(0.1))] {
            assert_eq!(share(text), part, "{text}");
        }
        assert!(share("some").is_err());
    }
}
