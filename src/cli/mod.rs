//! The command line: one file for each verb.

pub mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kafka-protocol message broker: thread-per-core on io_uring, nothing acknowledged lost.
#[derive(Parser, Debug)]
#[command(name = "tidemill", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run a broker
    Serve(serve::ServeArguments),
}

/// Exit codes, the same for every verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// The answer is "no": a check or target failed.
    No = 1,
    WrongUsage = 2,
    /// Data was found lost, duplicated or out of order.
    DataDamaged = 3,
    CannotConnect = 4,
    /// Refused or failed.
    Failed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Reads the command line and does what it says.
#[must_use]
pub fn run() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Serve(arguments) => serve::run(&arguments),
    }
    .into()
}
