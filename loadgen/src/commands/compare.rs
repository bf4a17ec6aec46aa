//! `compare`: one workload, several brokers in turn.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::run::Output;
use super::session::{Exit, Failure, ended, measure, print, print_json, say, workload, write_file};
use crate::compare::{Comparison, Failed, compare, page, table};
use crate::run::Plan;
use crate::units::Span;
use crate::workload::Keys;

#[derive(Clone, Debug, Args)]
pub struct CompareArguments {
    /// A broker and its name; given again for each, two at least. Ratios are to the first
    #[arg(long = "bootstrap", value_name = "NAME=HOST:PORT", required = true)]
    brokers: Vec<Named<String>>,
    /// The process of a broker that runs on this machine: its CPU time is reported; may be given again
    #[arg(long = "broker-pid", value_name = "NAME=PID")]
    pids: Vec<Named<u32>>,
    /// How often each broker is run against
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The pause before each run, so that none pays for what the one before left to be written or deleted
    #[arg(long, value_name = "SPAN", default_value = "5s")]
    settle: Span,
    /// A file with the workload's keys (TOML); options go over it
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// A folder on the brokers' disk, where it is on this machine: the disk is described and its flush measured
    #[arg(long, value_name = "DIR")]
    broker_dir: Option<PathBuf>,
    /// How the comparison is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Write the comparison, with latency by percentile of all brokers, as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

/// A value and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Named<T> {
    name: String,
    value: T,
}

/// Names become part of topics' names, which are 249 letters at most.
const NAME_LENGTH_MAX: usize = 32;

impl<T: FromStr> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.bytes().all(letter) {
            return Err(format!("a name has from 1 to {NAME_LENGTH_MAX} letters, digits, `.`, `_` and `-`"));
        }
        let value = value.parse().ok().filter(|_| !value.is_empty());
        let value = value.ok_or_else(|| format!("there is no such value behind {name}="))?;
        Ok(Self { name: name.to_owned(), value })
    }
}

/// A broker that does not flush leaves that to the system, which does it while the next one is measured; deletions take their time too.
fn settle(pause: Span) {
    rustix::fs::sync();
    let seconds = i64::try_from(pause.0.as_secs()).unwrap_or(i64::MAX);
    let pause = rustix::thread::Timespec { tv_sec: seconds, tv_nsec: i64::from(pause.0.subsec_nanos()) };
    // Cut short by a signal it is shorter: no harm.
    let _ = rustix::thread::nanosleep(&pause);
    rustix::fs::sync();
}

impl CompareArguments {
    pub(super) fn run(&self) -> Exit {
        ended(self.compare())
    }

    fn compare(&self) -> Result<Exit, Failure> {
        let plans = self.plans()?;
        let names: Vec<String> = self.brokers.iter().map(|broker| broker.name.clone()).collect();
        let runs = plans.len() * self.rounds as usize;
        let mut done = 0;
        let outcome = compare(&names, self.rounds, &mut |place, round| {
            done += 1;
            let name = &names[place];
            say(&format!("run {done} of {runs}: {name}, round {round}"));
            settle(self.settle);
            measure(&for_round(&plans[place], name, round), self.broker_dir.as_deref(), name)
        });
        let comparison =
            outcome.map_err(|Failed { name, round, error }| Failure(format!("{name}, round {round}: {error}")))?;
        self.show(&comparison)?;
        Ok(if comparison.holds() { Exit::Done } else { Exit::Broken })
    }

    fn show(&self, comparison: &Comparison) -> Result<(), Failure> {
        match self.output {
            Output::Table => print(&table(comparison))?,
            Output::Json => print_json(&comparison.json())?,
        }
        self.html.as_ref().map_or(Ok(()), |path| write_file(path, &page(comparison)))
    }

    /// What is run against each broker, in their order.
    fn plans(&self) -> Result<Vec<Plan>, Failure> {
        let refused = |what: String| Err(Failure(what));
        if self.brokers.len() < 2 {
            return refused("--bootstrap: a comparison is of two brokers at least".to_owned());
        }
        for (place, broker) in self.brokers.iter().enumerate() {
            if self.brokers[..place].iter().any(|before| before.name == broker.name) {
                return refused(format!("--bootstrap: there are two brokers named {}", broker.name));
            }
        }
        if let Some(stray) = self.pids.iter().find(|pid| self.brokers.iter().all(|broker| broker.name != pid.name)) {
            return refused(format!("--broker-pid: no broker is named {}", stray.name));
        }
        let workload = workload(self.workload.as_deref(), &self.keys)?;
        let plan = |broker: &Named<String>| Plan {
            bootstrap: broker.value.clone(),
            workload: workload.clone(),
            broker_pid: self.pids.iter().find(|pid| pid.name == broker.name).map(|pid| pid.value),
        };
        Ok(self.brokers.iter().map(plan).collect())
    }
}

/// Topics of its own for each run: what a deletion has not yet taken away, or two names for one broker, do not meet.
fn for_round(plan: &Plan, name: &str, round: u32) -> Plan {
    let mut plan = plan.clone();
    plan.workload.rename(&format!("-r{round}-{name}"));
    plan
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: CompareArguments,
    }

    fn plans(arguments: &[&str]) -> Result<Vec<Plan>, String> {
        let all = ["compare"].iter().chain(arguments);
        let cli = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
        cli.arguments.plans().map_err(|failure| failure.0)
    }

    #[test]
    fn brokers_and_their_processes_are_matched_by_name() {
        let plans =
            plans(&["--bootstrap", "a=h:1,h:2", "--bootstrap=b=h:3", "--broker-pid=b=77", "--topic=t"]).expect("valid");
        let found: Vec<_> = plans.iter().map(|plan| (plan.bootstrap.as_str(), plan.broker_pid)).collect();
        assert_eq!(found, [("h:1,h:2", None), ("h:3", Some(77))]);
        assert_eq!(for_round(&plans[1], "b", 2).workload.topic, "t-r2-b");
    }

    #[test]
    fn what_can_not_be_compared_is_refused() {
        for (arguments, reason) in [
            (&["--bootstrap=a=h:1"][..], "two brokers at least"),
            (&["--bootstrap=a=h:1", "--bootstrap=a=h:2"], "two brokers named a"),
            (&["--bootstrap=a=h:1", "--bootstrap=b=h:2", "--broker-pid=c=7"], "no broker is named c"),
            (&["--bootstrap=h:1", "--bootstrap=b=h:2"], "it is not NAME=VALUE"),
            (&["--bootstrap=a b=h:1", "--bootstrap=b=h:2"], "a name has from 1"),
            (&["--bootstrap=a=", "--bootstrap=b=h:2"], "no such value behind a="),
            (&["--bootstrap=a=h:1", "--bootstrap=b=h:2", "--broker-pid=a=x"], "no such value behind a="),
            (&["--bootstrap=a=h:1", "--bootstrap=b=h:2", "--rounds=0"], "rounds"),
            (&["--bootstrap=a=h:1", "--bootstrap=b=h:2", "--partitions=0"], "partitions = 0"),
            (&[], "--bootstrap"),
        ] {
            let error = plans(arguments).expect_err("refused");
            assert!(error.contains(reason), "{arguments:?}: {error}");
        }
    }
}
