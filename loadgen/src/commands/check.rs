//! `check`: one workload, its figures held to targets.

use clap::Args;
use serde::Serialize;

use super::run::{Output, RunArguments};
use super::session::{Exit, ended, exit_of, print};
use crate::target::{Target, Verdict};

#[derive(Clone, Debug, Args)]
pub struct CheckArguments {
    /// A bound that must hold, such as 'rate>=1000000', 'produce_p99<=10ms' or 'errors<=0'; may be given again. Latencies are
    /// {produce,consume,end_to_end}_{p50,p90,p95,p99,p99.9,p99.99,max,mean}; beside them there are rate, rate_mb, errors,
    /// broker_cpu_us, client_cpu_us and behind_ms
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<Target>,
    #[command(flatten)]
    run: RunArguments,
}

/// What the JSON form has beside the report.
#[derive(Serialize)]
struct Checked {
    targets: Vec<Verdict>,
    holds: bool,
}

impl CheckArguments {
    pub(super) fn run(&self) -> Exit {
        let outcome = || {
            let report = self.run.measure(&self.run.plan()?)?;
            let targets: Vec<Verdict> = self.targets.iter().map(|target| target.judge(&report)).collect();
            let holds = targets.iter().all(|verdict| verdict.holds);
            let checked = Checked { targets, holds };
            self.run.print(&report, &checked)?;
            if self.run.output == Output::Table {
                let lines = checked.targets.iter().map(|verdict| format!("{verdict}\n"));
                print(&format!("\n{}", lines.collect::<String>()))?;
            }
            self.run.write_files(&report)?;
            Ok(exit_of(&report, holds))
        };
        ended(outcome())
    }
}
