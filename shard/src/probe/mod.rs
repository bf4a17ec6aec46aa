//! The start-up probe: what this host gives a broker, and what to do where it gives too little.
//!
//! Owner: whoever starts the process, before any shard exists. It changes one thing: the soft limit of open files is raised to
//! the hard one. Every finding says what was found, why it matters and what the operator can do about it.

mod clock;
mod data_dir;
mod limits;
mod ring;

use std::fmt;
use std::path::Path;

pub use data_dir::DataDirFacts;
pub use limits::{GroupLimits, open_files_limit, raise_open_files_limit};

/// The oldest kernel with everything a ring needs here (`DEFER_TASKRUN`, `STATX_DIOALIGN`).
const KERNEL_MIN: (u32, u32) = (6, 1);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It runs, with a price.
    Warning,
    /// A broker cannot start here, or could take no records.
    Fatal,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
    pub why: String,
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, why, remedy, .. } = self;
        write!(f, "{what}: {why}; {remedy}")
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub kernel: String,
    pub io_uring: bool,
    /// Soft limit after it was raised.
    pub open_files: u64,
    /// `None`: without limit, or with the right to exceed it.
    pub memlock_bytes: Option<u64>,
    pub cpus: Vec<usize>,
    pub group: GroupLimits,
    pub data_dir: Option<DataDirFacts>,
    pub findings: Vec<Finding>,
}

impl Report {
    /// A broker cannot start on this host as it is.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Fatal)
    }
}

/// Looks at the host; `data_dir` must exist to be looked at.
#[must_use]
pub fn probe(data_dir: Option<&Path>) -> Report {
    let mut findings = Vec::new();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    findings.extend(check_kernel(&kernel));
    let io_uring = match ring::check_ring() {
        Ok(found) => {
            findings.extend(found);
            true
        }
        Err(refusal) => {
            findings.push(refusal);
            false
        }
    };
    let open_files = raise_open_files_limit();
    findings.extend(limits::check_open_files(open_files));
    let memlock_bytes = limits::memlock_limit();
    findings.extend(memlock_bytes.and_then(limits::check_memlock));
    let (cpus, group) = (crate::pinning::allowed_cpus(), limits::group_limits());
    findings.extend(limits::check_cpu(&group, cpus.len()));
    findings.extend(clock::check());
    let data_dir = data_dir.map(|path| {
        let facts = data_dir::facts(path);
        findings.extend(data_dir::check(&facts));
        facts
    });
    Report { kernel, io_uring, open_files, memlock_bytes, cpus, group, data_dir, findings }
}

fn finding(severity: Severity, what: impl Into<String>, why: &str, remedy: &str) -> Finding {
    Finding { severity, what: what.into(), why: why.into(), remedy: remedy.into() }
}

/// Major and minor of a release such as `6.18.44-generic`.
fn parse_kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn check_kernel(release: &str) -> Option<Finding> {
    let (major, minor) = KERNEL_MIN;
    match parse_kernel(release) {
        Some(version) if version >= KERNEL_MIN => None,
        Some(_) => Some(finding(
            Severity::Fatal,
            format!("Linux {release} is too old"),
            "its io_uring lacks what the runtime stands on",
            &format!("run Linux {major}.{minor} or later"),
        )),
        None => Some(finding(
            Severity::Note,
            format!("the kernel release \"{release}\" cannot be read"),
            &format!("Linux {major}.{minor} or later is needed"),
            "compare it yourself",
        )),
    }
}

fn read_small(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::{Severity, check_kernel, parse_kernel, probe};

    #[test]
    fn kernel_releases_are_compared_as_numbers() {
        for (release, version, fatal) in [
            ("6.18.44-fc-v657", Some((6, 18)), false),
            ("6.1.0", Some((6, 1)), false),
            ("6.0.19", Some((6, 0)), true),
            ("5.15.0-91-generic", Some((5, 15)), true),
            ("10.0", Some((10, 0)), false),
            ("7.0-rc1", Some((7, 0)), false),
            ("strange", None, false),
        ] {
            assert_eq!(parse_kernel(release), version, "{release}");
            assert_eq!(
                check_kernel(release).is_some_and(|found| found.severity == Severity::Fatal),
                fatal,
                "{release}"
            );
        }
    }

    #[test]
    fn this_host_can_run_a_broker() {
        let dir = std::env::temp_dir();
        let report = probe(Some(&dir));
        assert!(!report.is_fatal(), "{:?}", report.findings);
        assert!(report.io_uring && report.open_files > 0 && !report.cpus.is_empty());
        assert_eq!(report.data_dir.map(|facts| facts.path), Some(dir));
    }
}
