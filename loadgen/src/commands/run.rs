//! `run`: one workload, its report.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::run::Plan;
use crate::workload::{Invalid, Keys, Workload};

/// Against whom and what: the arguments of every verb that runs a workload.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// `host:port` of some brokers, with commas between them
    #[arg(long, default_value = "127.0.0.1:9092")]
    pub bootstrap: String,
    /// A file with the workload's keys (TOML); options go over it
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// The broker's process id, where it runs on this machine: its CPU time is reported
    #[arg(long, value_name = "PID")]
    pub broker_pid: Option<u32>,
    /// A folder on the broker's disk, where it is on this machine: the disk is described and its flush measured
    #[arg(long, value_name = "DIR")]
    pub broker_dir: Option<PathBuf>,
    /// How the report is printed
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Write the distributions as produce.hgrm, consume.hgrm and end_to_end.hgrm into this folder
    #[arg(long, value_name = "DIR")]
    pub hgrm: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub keys: Keys,
}

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Output {
    #[default]
    Table,
    Json,
}

impl RunArguments {
    /// What is to be run.
    ///
    /// # Errors
    /// The file can't be read, or the keys make no sense.
    pub fn plan(&self) -> Result<Plan, Invalid> {
        let file = match &self.workload {
            Some(path) => {
                let said = |error: &dyn std::fmt::Display| Invalid(format!("{}: {error}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
                Keys::parse(&text).map_err(|error| said(&error))?
            }
            None => Keys::default(),
        };
        let workload = Workload::new(&self.keys.over(&file))?;
        Ok(Plan { bootstrap: self.bootstrap.clone(), workload, broker_pid: self.broker_pid })
    }

    pub(super) fn run(&self) -> ExitCode {
        match self.plan() {
            Ok(plan) => match crate::run::run(&plan, Default::default(), &mut |second| eprintln!("{second:?}")) {
                Ok(report) => {
                    println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    eprintln!("error: {error}");
                    ExitCode::from(2)
                }
            },
            Err(invalid) => {
                eprintln!("error: {invalid}");
                ExitCode::from(2)
            }
        }
    }
}
