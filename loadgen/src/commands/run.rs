//! `run`: one workload, its report.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::session::{Exit, Failure, ended, exit_of, measure, print, print_json, workload, write_page};
use crate::report::{Report, hgrm, table};
use crate::run::Plan;
use crate::workload::{Invalid, Keys};

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
    /// Write the distributions as produce.hgrm, consume.hgrm and end_to_end.hgrm (in milliseconds), of groups also
    /// join.hgrm, rebalance.hgrm and commit.hgrm, into this folder
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
        let workload = workload(self.workload.as_deref(), &self.keys)?;
        Ok(Plan { bootstrap: self.bootstrap.clone(), workload, broker_pid: self.broker_pid })
    }

    /// Runs a plan of these arguments.
    pub(super) fn measure(&self, plan: &Plan) -> Result<Report, Failure> {
        Ok(measure(plan, self.broker_dir.as_deref(), &format!("tidemill-loadgen {}", self.bootstrap))?)
    }

    /// Prints a report; in its JSON form with what a verb adds to it.
    pub(super) fn print(&self, report: &Report, added: &impl serde::Serialize) -> Result<(), Failure> {
        match self.output {
            Output::Table => print(&table::render(report)),
            Output::Json => print_json(&With { report, added }),
        }
    }

    /// Writes the files that were asked for.
    pub(super) fn write_files(&self, report: &Report) -> Result<(), Failure> {
        if let Some(folder) = &self.hgrm {
            let written = hgrm::write(folder, report);
            written.map_err(|error| Failure(format!("{}: {error}", folder.display())))?;
        }
        self.html.as_ref().map_or(Ok(()), |path| write_page(path, report))
    }

    pub(super) fn run(&self) -> Exit {
        let outcome = || {
            let report = self.measure(&self.plan()?)?;
            self.print(&report, &Nothing {})?;
            self.write_files(&report)?;
            Ok(exit_of(&report, true))
        };
        ended(outcome())
    }
}

/// A report and keys beside its own.
#[derive(serde::Serialize)]
struct With<'a, T> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(flatten)]
    added: &'a T,
}

#[derive(serde::Serialize)]
struct Nothing {}
