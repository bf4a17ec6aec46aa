//! What this process may use: open files, locked memory, and the memory and CPU time of its control group.

use std::path::Path;

use rustix::process::{Resource, Rlimit};

use super::{Finding, Severity, finding, read_small};

/// Below this a broker with a few thousand connections and partitions runs out.
const OPEN_FILES_WANTED: u64 = 10_000;

/// The soft limit of open files.
#[must_use]
pub fn open_files_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit of open files to the hard one; what it is afterwards.
pub fn raise_open_files_limit() -> u64 {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    if current != maximum {
        // Refused, the old limit stays, and the check says whether it is enough.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    open_files_limit()
}

pub(super) fn check_open_files(limit: u64) -> Option<Finding> {
    (limit < OPEN_FILES_WANTED).then(|| {
        finding(
            Severity::Warning,
            format!("at most {limit} files may be open"),
            "each connection and each open segment takes one, in a table of this size for each shard",
            "raise the hard limit (LimitNOFILE=1048576, ulimit -Hn)",
        )
    })
}

/// Bytes of memory that may be locked; `None` for no limit.
pub(super) fn memlock_limit() -> Option<u64> {
    const CAP_IPC_LOCK: u32 = 14;
    let status = read_small("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if effective & (1 << CAP_IPC_LOCK) != 0 {
        return None;
    }
    rustix::process::getrlimit(Resource::Memlock).current
}

pub(super) fn check_memlock(limit_bytes: u64) -> Option<Finding> {
    (limit_bytes < base::GIB as u64).then(|| {
        finding(
            Severity::Note,
            format!("{} KiB of memory may be locked", limit_bytes / 1024),
            "buffers stay unregistered beyond that, which costs CPU on every disk operation",
            "raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l) or grant CAP_IPC_LOCK",
        )
    })
}

/// What the control group of this process is allowed (cgroup-v2); `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupLimits {
    pub memory_bytes: Option<u64>,
    /// Thousandths of a CPU.
    pub cpu_milli: Option<u64>,
}

/// The tightest limits of the group and those above it.
pub(super) fn group_limits() -> GroupLimits {
    let group = read_small("/proc/self/cgroup").unwrap_or_default();
    // Version 2 has one hierarchy, number 0 without a controller's name.
    let Some(path) = group.lines().find_map(|line| line.strip_prefix("0::/")) else { return GroupLimits::default() };
    let root = Path::new("/sys/fs/cgroup");
    let mut limits = GroupLimits::default();
    for dir in Path::new(path).ancestors().map(|above| root.join(above)) {
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        let tighter = |known: Option<u64>, new: Option<u64>| known.into_iter().chain(new).min();
        limits.memory_bytes = tighter(limits.memory_bytes, read("memory.max").and_then(|text| parse_memory_max(&text)));
        limits.cpu_milli = tighter(limits.cpu_milli, read("cpu.max").and_then(|text| parse_cpu_max(&text)));
    }
    limits
}

/// `memory.max`: bytes, or `max`.
fn parse_memory_max(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `cpu.max`: quota and period in microseconds; a quota of `max` is none.
fn parse_cpu_max(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.saturating_mul(1000).checked_div(period)
}

/// A shard polls its core; one that is taken from it by the period stops for tens of milliseconds.
pub(super) fn check_cpu(limits: &GroupLimits, cpus: usize) -> Option<Finding> {
    let milli = limits.cpu_milli.filter(|milli| *milli < cpus as u64 * 1000)?;
    Some(finding(
        Severity::Warning,
        format!("{cpus} CPUs may be used, for {}.{:03} CPUs' time", milli / 1000, milli % 1000),
        "the control group has a CPU quota: shards are stopped for the rest of each period once it is used up, which shows in the p99",
        "give it whole cores (cpuset; Kubernetes: static CPU manager, integer requests), or run fewer `--shards`",
    ))
}

#[cfg(test)]
mod tests {
    use super::{GroupLimits, check_cpu, check_memlock, check_open_files, parse_cpu_max, parse_memory_max};

    #[test]
    fn limits_of_groups_are_read() {
        for (text, bytes) in [("max\n", None), ("536870912\n", Some(536_870_912)), ("", None)] {
            assert_eq!(parse_memory_max(text), bytes, "{text:?}");
        }
        for (text, milli) in [
            ("max 100000\n", None),
            ("50000 100000\n", Some(500)),
            ("150000 100000\n", Some(1500)),
            ("1 0\n", None),
            ("", None),
        ] {
            assert_eq!(parse_cpu_max(text), milli, "{text:?}");
        }
    }

    #[test]
    fn too_little_is_told() {
        let limits = |milli| GroupLimits { cpu_milli: milli, memory_bytes: None };
        for (milli, cpus, told) in
            [(None, 4, false), (Some(4000), 4, false), (Some(3999), 4, true), (Some(500), 1, true)]
        {
            assert_eq!(check_cpu(&limits(milli), cpus).is_some(), told, "{milli:?} {cpus}");
        }
        assert!(check_open_files(1024).is_some() && check_open_files(1 << 20).is_none());
        assert!(check_memlock(8 << 20).is_some() && check_memlock(4 << 30).is_none());
    }
}
