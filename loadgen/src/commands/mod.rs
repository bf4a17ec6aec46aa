//! The verbs of the command line.
//!
//! Exit codes: 0, what was asked for was done and holds; 1, a target is missed; 2, it could not be run; 3, records were lost,
//! duplicated, swapped or corrupted.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod run;
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
    Run(run::RunArguments),
    /// Run a null broker, for the generator's own ceiling
    Sink(sink::SinkArguments),
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    match Cli::parse().verb {
        Verb::Run(arguments) => arguments.run(),
        Verb::Sink(arguments) => arguments.run(),
    }
}
