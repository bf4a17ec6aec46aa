//! `tidemill log`: what is in the files of a broker that does not run.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::Format;
use super::{Exit, log_dump, log_verify, session};

#[derive(Args, Clone, Debug)]
pub struct LogArguments {
    #[command(subcommand)]
    verb: LogVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum LogVerb {
    /// Print the batches of segment files (*.log) and the commits of journal files (journal-N)
    Dump(Dump),
    /// Check data directories: journals, and every batch of every segment; exits with 3 where something is damaged
    Verify(Verify),
}

#[derive(Args, Clone, Debug)]
pub struct Dump {
    /// Segment files, journal files, or directories with such files
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print the records of batches and the entries of commits too
    #[arg(long)]
    pub records: bool,
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

#[derive(Args, Clone, Debug)]
pub struct Verify {
    /// Data directories
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

pub fn run(arguments: LogArguments) -> Exit {
    session::run(move |shard| async move {
        match arguments.verb {
            LogVerb::Dump(arguments) => log_dump::dump(&shard, &arguments).await,
            LogVerb::Verify(arguments) => log_verify::verify(&shard, &arguments).await,
        }
    })
}
