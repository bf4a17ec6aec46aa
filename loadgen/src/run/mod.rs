//! A run: producers that send what is due, consumers that read and verify it.

use std::fmt;

use crate::report::{Context, Report, Second};
use crate::workload::Workload;

/// What is to be run, and against whom.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `host:port` of some brokers.
    pub bootstrap: String,
    pub workload: Workload,
    /// The broker's process, where it runs on this machine: its CPU time is reported then.
    pub broker_pid: Option<u32>,
}

/// Why there are no figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError(pub String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// Runs it. `on_second` is told of each second of the measured time as it ends.
///
/// # Errors
/// The broker can't be reached, refuses the topics, or has no room for them.
pub fn run(plan: &Plan, context: Context, on_second: &mut dyn FnMut(&Second)) -> Result<Report, RunError> {
    let _ = (plan, context, on_second);
    Err(RunError("not built yet".into()))
}
