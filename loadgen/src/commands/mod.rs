//! The verbs of the command line.
//!
//! Exit codes: 0, what was asked for was done and holds; 1, a target is missed; 2, it could not be run; 3, records were lost,
//! duplicated, swapped or corrupted.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod compare;
mod find_max;
mod groups;
mod run;
mod session;
mod sink;

#[derive(Parser)]
#[command(
    name = "tidemill-loadgen",
    version,
    about = "Measures any broker that speaks the Kafka protocol, and verifies what it measures"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it lives as long as the program")]
enum Verb {
    /// Run a workload and report its figures
    ///
    /// Exits with 3, and the offsets, if records that were acknowledged are lost, duplicated, reordered or corrupted; with 2 if it could not
    /// be run.
    Run(run::RunArguments),
    /// Run a workload and hold its figures to targets: exits with 0 if all hold, 1 if one is missed
    Check(check::CheckArguments),
    /// Run a workload against several brokers in turn, and compare them
    ///
    /// Brokers are run against one after the other, in an order that rotates from round to round. A ratio is taken within a round, to the
    /// first broker; of the rounds' ratios the median is shown, with the least and the most. Each run has topics of its own: their names
    /// end in `-r`, the round, and the broker's name. Exits with 3 if verification failed in any run.
    Compare(compare::CompareArguments),
    /// Search the highest rate at which targets hold
    ///
    /// The rate is doubled from the lowest until it fails, then the gap is halved. A rate holds if all targets do, 99 % of it was
    /// acknowledged within the measured time, and verification found nothing. Each step has topics of its own: their names end in `-s` and
    /// the step's number. Exits with 1 if not even the lowest rate holds, 3 if verification failed at any rate.
    FindMax(find_max::FindMaxArguments),
    /// Measure coordinators of consumer groups, without records: how fast members join, share out and commit
    ///
    /// Members join, all at once; single ones come and go, over several rounds; all commit, each as fast as it is answered. With
    /// --rolling-restart members have names (KIP-345) and are restarted one after another: exits with 1 if a partition moved.
    Groups(groups::GroupsArguments),
    /// Run a null broker, for the generator's own ceiling
    Sink(sink::SinkArguments),
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let exit = match Cli::parse().verb {
        Verb::Run(arguments) => arguments.run(),
        Verb::Check(arguments) => arguments.run(),
        Verb::Compare(arguments) => arguments.run(),
        Verb::FindMax(arguments) => arguments.run(),
        Verb::Groups(arguments) => arguments.run(),
        Verb::Sink(arguments) => arguments.run(),
    };
    exit.into()
}

#[cfg(test)]
mod tests;
