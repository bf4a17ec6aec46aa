//! `tidemill doctor`: what stands in the way of a broker here, and what to do about it.
//!
//! The host is looked at without a shard, since the want of io_uring is one of the findings. A data directory is looked into on a shard
//! where there can be one, and nothing in it is changed.

mod data_dir;
mod room;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shard::probe::{self, Finding, Report, Severity};

use self::data_dir::Look;
use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output};
use super::session;
use super::text::bytes;
use crate::config::{ConfigError, NodeConfig};

#[derive(Args, Clone, Debug)]
pub struct DoctorArguments {
    /// The settings that the broker is to be started with: its memory, journals and reserve
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory to look into [default: the configuration's, if there is one]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub fn run(arguments: &DoctorArguments) -> Exit {
    let mut findings = Vec::new();
    let config = match configuration(arguments) {
        Ok(config) => config,
        Err(error @ ConfigError::Read { .. }) => return Failure::new(Exit::WrongUsage, error).report(),
        Err(error) => {
            let remedy = "`tidemill config show` lists every key with its bounds";
            findings.push(finding(Severity::Fatal, "the configuration is not valid", &error.to_string(), remedy));
            NodeConfig::default()
        }
    };
    let asked = arguments.data_dir.is_some() || arguments.config.is_some();
    let data_dir = asked.then(|| config.data_dir.clone());
    // Where there is none yet, what it would be made in is looked at.
    let place = data_dir.as_deref().map(nearest_that_exists);
    let report = probe::probe(place.as_deref());
    findings.extend(report.findings.iter().cloned());
    findings.extend(room::check_memory(config.memory_bytes, report.group.memory_bytes, room::host_memory_bytes()));
    if let Some(dir) = &data_dir {
        findings.extend(look_at(dir, &config, &report));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let is_fit = findings.iter().all(|finding| finding.severity < Severity::Fatal);
    let facts = Facts::new(&report, data_dir.as_deref());
    print(arguments.output, &facts, &findings, is_fit);
    if is_fit { Exit::Done } else { Exit::No }
}

fn configuration(arguments: &DoctorArguments) -> Result<NodeConfig, ConfigError> {
    let mut config = match &arguments.config {
        Some(path) => NodeConfig::read(path)?,
        None => NodeConfig::default(),
    };
    config.check()?;
    if let Some(data_dir) = &arguments.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    Ok(config)
}

fn finding(severity: Severity, what: impl Into<String>, why: &str, remedy: &str) -> Finding {
    Finding { severity, what: what.into(), why: why.to_owned(), remedy: remedy.to_owned() }
}

/// The path itself, or the directory above it in which it would be made.
fn nearest_that_exists(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find(|above| above.exists()).map_or(absolute.clone(), Path::to_owned)
}

/// A data directory: what is in it, and whether there is room for what is to come.
fn look_at(dir: &Path, config: &NodeConfig, report: &Report) -> Vec<Finding> {
    let mut look = Look::default();
    if dir.exists() && !dir.is_dir() {
        let why = "a data directory is a directory";
        return vec![finding(
            Severity::Fatal,
            format!("{} is a file", dir.display()),
            why,
            "choose another --data-dir",
        )];
    }
    let can_be_made = report.data_dir.as_ref().is_some_and(|facts| facts.refused.is_none());
    if dir.exists() && report.io_uring && can_be_made {
        let (dir, broker) = (dir.to_owned(), config.broker_id);
        match session::on_shard(move |shard| async move { data_dir::look(&shard, &dir, broker).await }) {
            Ok(found) => look = found,
            Err(error) => look.findings.push(finding(
                Severity::Fatal,
                "no shard can be started",
                &error.to_string(),
                "`ulimit -l` and `ulimit -n` bound what it may use",
            )),
        }
    } else if dir.exists() {
        let why = "that needs io_uring and the right to read and write it";
        look.findings.push(finding(
            Severity::Note,
            "the data directory was not looked into",
            why,
            "mend the rest first",
        ));
    }
    if let Some(free_bytes) = report.data_dir.as_ref().and_then(|facts| facts.free_bytes) {
        let shards =
            u64::from(config.shards.unwrap_or_else(|| u16::try_from(report.cpus.len().max(1)).unwrap_or(u16::MAX)));
        let room = room::Room { free_bytes, journal_bytes: look.journal_bytes, shards };
        look.findings.extend(room.check(config));
    }
    look.findings
}

/// What was found, good or bad.
#[derive(Serialize)]
struct Facts {
    version: &'static str,
    kernel: String,
    io_uring: bool,
    cpus: usize,
    open_files: u64,
    /// None for no limit.
    memlock_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    data_dir: Option<PathBuf>,
    file_system: Option<String>,
    direct_io_alignment_bytes: Option<usize>,
    free_bytes: Option<u64>,
}

impl Facts {
    fn new(report: &Report, data_dir: Option<&Path>) -> Self {
        let place = report.data_dir.as_ref();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            kernel: report.kernel.clone(),
            io_uring: report.io_uring,
            cpus: report.cpus.len(),
            open_files: report.open_files,
            memlock_bytes: report.memlock_bytes,
            memory_limit_bytes: report.group.memory_bytes,
            data_dir: data_dir.map(Path::to_owned),
            file_system: place.map(|facts| facts.file_system.clone()),
            direct_io_alignment_bytes: place.and_then(|facts| facts.alignment_bytes),
            free_bytes: place.and_then(|facts| facts.free_bytes),
        }
    }

    fn print(&self, output: &mut Output) {
        let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
        let mut line = |name: &str, value: String| output.line(&format!("{name:<13} {value}"));
        line("version", self.version.to_owned());
        line("kernel", self.kernel.clone());
        line("io_uring", if self.io_uring { "works" } else { "does not work" }.to_owned());
        line("cpus", self.cpus.to_string());
        line("open files", self.open_files.to_string());
        line("locked memory", or(self.memlock_bytes.map(bytes), "no limit"));
        line("memory limit", or(self.memory_limit_bytes.map(bytes), "none"));
        if let Some(dir) = &self.data_dir {
            line("data dir", dir.display().to_string());
            line("file system", or(self.file_system.clone(), "unknown"));
            line(
                "direct I/O",
                or(self.direct_io_alignment_bytes.map(|unit| format!("in units of {unit} bytes")), "none"),
            );
            line("free", or(self.free_bytes.map(bytes), "unknown"));
        }
    }
}

#[derive(Serialize)]
struct FindingRow<'a> {
    severity: &'static str,
    what: &'a str,
    why: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
struct VerdictRow {
    fit: bool,
    findings: usize,
}

fn print(format: Format, facts: &Facts, findings: &[Finding], is_fit: bool) {
    let mut output = Output::stdout();
    let rows = findings.iter().map(|finding| FindingRow {
        severity: match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Fatal => "fatal",
        },
        what: &finding.what,
        why: &finding.why,
        remedy: &finding.remedy,
    });
    match format {
        Format::Json => {
            output.json(facts);
            rows.for_each(|row| output.json(&row));
            output.json(&VerdictRow { fit: is_fit, findings: findings.len() });
        }
        Format::Table => {
            facts.print(&mut output);
            for row in rows {
                output.line("");
                output.line(&format!("{}: {}", row.severity.to_uppercase(), row.what));
                output.line(&format!("  why     {}", row.why));
                output.line(&format!("  remedy  {}", row.remedy));
            }
            output.line("");
            output.line(if is_fit { "nothing stands in a broker's way" } else { "a broker can't serve here as it is" });
        }
    }
}
