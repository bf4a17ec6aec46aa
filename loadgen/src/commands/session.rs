//! What the verbs share: a run with its context and display, where the words go, and how it ends.
//!
//! Standard output has the result and nothing else, so that a program can read it; all that is said on the way is on standard error.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::context::gather;
use crate::report::live::Live;
use crate::report::table::{findings, kept_up};
use crate::report::{Report, html};
use crate::run::{Plan, RunError};
use crate::workload::{Invalid, Keys, Workload};

/// How a verb ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// What was asked for was done and holds.
    Done = 0,
    /// A target is missed.
    Missed = 1,
    /// It could not be run.
    CannotRun = 2,
    /// Records were lost, duplicated, swapped or corrupted.
    Broken = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb could not do what was asked of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure(pub String);

impl Failure {
    /// Says so.
    pub fn report(&self) -> Exit {
        say(&format!("error: {}", self.0));
        Exit::CannotRun
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self(invalid.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self(error.to_string())
    }
}

/// The end of a verb, its failure said.
pub(super) fn ended(outcome: Result<Exit, Failure>) -> Exit {
    outcome.unwrap_or_else(|failure| failure.report())
}

/// The workload that a file and the options over it ask for.
pub(super) fn workload(file: Option<&Path>, keys: &Keys) -> Result<Workload, Invalid> {
    let below = match file {
        Some(path) => {
            let said = |error: &dyn std::fmt::Display| Invalid(format!("{}: {error}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
            Keys::parse(&text).map_err(|error| said(&error))?
        }
        None => Keys::default(),
    };
    Workload::new(&keys.over(&below))
}

/// One run: its context gathered before, its display while it runs, and a word where it could not keep up. `name` stands before
/// what is said of it.
pub(super) fn measure(plan: &Plan, broker_dir: Option<&Path>, name: &str) -> Result<Report, RunError> {
    let context = gather(&plan.bootstrap, broker_dir);
    let mut live = Live::start(name, plan.workload.duration.as_secs_f64().ceil() as u64);
    let outcome = crate::run::run(plan, context, &mut |second| live.second(second));
    drop(live);
    let report = outcome?;
    if !report.rate.kept_up() {
        say(&format!("{name}: the load was not what was asked for: {}", behind(&report)));
    }
    if !report.verified.holds() {
        say(&format!("{name}: verification failed: records are not as they were acknowledged"));
        findings(&report.verified.findings).iter().for_each(|finding| say(&format!("  {finding}")));
    }
    Ok(report)
}

fn behind(report: &Report) -> String {
    let share = report.rate.intended.map_or(1.0, |intended| report.rate.achieved / intended);
    format!("{}; {:.1} % of the intended rate was acknowledged in time", kept_up(&report.rate), share * 100.0)
}

/// The end of a run that has a report: what was found broken comes before all else.
pub(super) fn exit_of(report: &Report, holds: bool) -> Exit {
    if !report.verified.holds() {
        Exit::Broken
    } else if holds {
        Exit::Done
    } else {
        Exit::Missed
    }
}

/// A line on standard error.
pub(super) fn say(line: &str) {
    // Whoever does not listen misses it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The result, on standard output. A reader who has gone (`| head`) is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(format!("standard output can't be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// The result as JSON, for people to read too.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("what is printed has text for keys");
    print(&(text + "\n"))
}

/// Writes a file, or says which one can't be.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// The report's page.
pub(super) fn write_page(path: &Path, report: &Report) -> Result<(), Failure> {
    write_file(path, &html::render(report))
}
