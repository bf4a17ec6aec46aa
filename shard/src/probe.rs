//! The start-up probe: what this host gives a broker, and what to do where it gives too little.
//!
//! Owner: whoever starts the process, before any shard exists. It changes one thing: the soft limit of open files is raised to
//! the hard one. Every finding says what was found, why it matters and what the operator can do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use io_uring::{IoUring, opcode};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};

/// The oldest kernel with everything a ring needs here (`DEFER_TASKRUN`, `STATX_DIOALIGN`).
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Below this a broker with a few thousand connections and partitions runs out.
const OPEN_FILES_WANTED: u64 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It runs, with a price.
    Warning,
    /// A broker cannot start here.
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

/// Where data is to be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataDirFacts {
    pub path: PathBuf,
    pub file_system: String,
    pub direct_io: bool,
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
    let io_uring = match check_ring() {
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
    findings.extend(check_open_files(open_files));
    let memlock_bytes = memlock_limit();
    findings.extend(memlock_bytes.and_then(check_memlock));
    let data_dir = data_dir.map(|path| {
        let facts = data_dir_facts(path);
        findings.extend(check_data_dir(&facts));
        facts
    });
    let cpus = crate::pinning::allowed_cpus();
    Report { kernel, io_uring, open_files, memlock_bytes, cpus, data_dir, findings }
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

/// Sets up a ring as a shard would. Findings about what it lacks, or the reason why there is none.
fn check_ring() -> Result<Vec<Finding>, Finding> {
    let refused = |error: std::io::Error| explain_refusal(error.raw_os_error().unwrap_or(0), uring_disabled());
    let ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(32)
        .build(8)
        .map_err(refused)?;
    let mut known = io_uring::Probe::new();
    ring.submitter().register_probe(&mut known).map_err(refused)?;
    let needed = [
        ("READ", opcode::Read::CODE),
        ("READ_FIXED", opcode::ReadFixed::CODE),
        ("WRITE", opcode::Write::CODE),
        ("WRITE_FIXED", opcode::WriteFixed::CODE),
        ("WRITEV", opcode::Writev::CODE),
        ("FSYNC", opcode::Fsync::CODE),
        ("ACCEPT", opcode::AcceptMulti::CODE),
        ("CONNECT", opcode::Connect::CODE),
        ("RECV", opcode::Recv::CODE),
        ("SEND", opcode::Send::CODE),
        ("SENDMSG", opcode::SendMsg::CODE),
        ("SHUTDOWN", opcode::Shutdown::CODE),
        ("CLOSE", opcode::Close::CODE),
        ("ASYNC_CANCEL", opcode::AsyncCancel2::CODE),
        ("FILES_UPDATE", opcode::FilesUpdate::CODE),
        ("MSG_RING", opcode::MsgRingData::CODE),
    ];
    let missing: Vec<&str> =
        needed.iter().filter(|(_, code)| !known.is_supported(*code)).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(finding(
            Severity::Fatal,
            format!("io_uring lacks {}", missing.join(", ")),
            "every operation of a shard goes through these",
            "run Linux 6.1 or later, with nothing that filters io_uring operations",
        ));
    }
    if !ring.params().is_feature_nodrop()
        || !ring.params().is_feature_ext_arg()
        || !ring.params().is_feature_skip_cqe_on_success()
    {
        return Err(finding(
            Severity::Fatal,
            "io_uring lacks NODROP, EXT_ARG or CQE_SKIP",
            "completions could be lost, or waits not bounded",
            "run Linux 6.1 or later",
        ));
    }
    Ok(Vec::new())
}

/// The sysctl `kernel.io_uring_disabled` (Linux 6.6 and later): 0 open, 1 for the privileged, 2 for nobody.
fn uring_disabled() -> Option<u32> {
    read_small("/proc/sys/kernel/io_uring_disabled")?.trim().parse().ok()
}

/// Why the kernel gave no ring, in words that name the remedy.
fn explain_refusal(errno: i32, disabled: Option<u32>) -> Finding {
    let (what, why, remedy) = match (errno, disabled) {
        (libc::EPERM | libc::ENOSYS, Some(2)) => (
            "io_uring is switched off",
            "the sysctl kernel.io_uring_disabled is 2",
            "set it to 0: sysctl -w kernel.io_uring_disabled=0, and in /etc/sysctl.d/ for the next boot",
        ),
        (libc::EPERM, Some(1)) => (
            "io_uring is reserved for privileged processes",
            "the sysctl kernel.io_uring_disabled is 1 and this process is neither privileged nor in kernel.io_uring_group",
            "set it to 0, or add this user's group: sysctl -w kernel.io_uring_group=<gid>",
        ),
        (libc::EPERM | libc::EACCES, _) => (
            "io_uring is forbidden",
            "the kernel allows it, so a filter does not: most likely the seccomp profile of the container or service",
            "allow io_uring_setup, io_uring_enter and io_uring_register (docker: --security-opt seccomp=<profile>; systemd: SystemCallFilter=@io-event)",
        ),
        (libc::ENOSYS, _) => (
            "there is no io_uring",
            "the kernel was built without CONFIG_IO_URING, or a sandbox (gVisor, a seccomp profile) hides it",
            "run Linux 6.1 or later with io_uring, outside of that sandbox",
        ),
        (libc::EINVAL, _) => (
            "io_uring is too old",
            "the kernel does not know the set-up flags SINGLE_ISSUER and DEFER_TASKRUN",
            "run Linux 6.1 or later",
        ),
        (libc::ENOMEM, _) => (
            "io_uring gets no memory",
            "the memlock limit or the memory of this host or cgroup is used up",
            "raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l), or give the process more memory",
        ),
        (libc::EMFILE | libc::ENFILE, _) => (
            "no descriptor is left for io_uring",
            "the open-files limit is reached",
            "raise the open-files limit (LimitNOFILE, ulimit -n)",
        ),
        _ => {
            let error = std::io::Error::from_raw_os_error(errno);
            let why = format!("setting up a ring failed: {error}");
            return finding(
                Severity::Fatal,
                "io_uring does not work",
                &why,
                "run Linux 6.1 or later with io_uring enabled",
            );
        }
    };
    finding(Severity::Fatal, what, why, remedy)
}

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

fn check_open_files(limit: u64) -> Option<Finding> {
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
fn memlock_limit() -> Option<u64> {
    const CAP_IPC_LOCK: u32 = 14;
    let status = read_small("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if effective & (1 << CAP_IPC_LOCK) != 0 {
        return None;
    }
    rustix::process::getrlimit(Resource::Memlock).current
}

fn check_memlock(limit_bytes: u64) -> Option<Finding> {
    (limit_bytes < base::GIB as u64).then(|| {
        finding(
            Severity::Note,
            format!("{} KiB of memory may be locked", limit_bytes / 1024),
            "buffers stay unregistered beyond that, which costs CPU on every disk operation",
            "raise the memlock limit (LimitMEMLOCK=infinity, ulimit -l) or grant CAP_IPC_LOCK",
        )
    })
}

fn data_dir_facts(path: &Path) -> DataDirFacts {
    let file_system = match rustix::fs::statfs(path) {
        Ok(found) => file_system_name(found.f_type as u64),
        Err(error) => format!("unknown ({error})"),
    };
    DataDirFacts { path: path.to_path_buf(), file_system, direct_io: takes_direct_io(path) }
}

/// The names of the file systems a data directory is likely to meet (`linux/magic.h`).
fn file_system_name(magic: u64) -> String {
    let name = match magic & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

/// Tries it on a file of its own.
fn takes_direct_io(dir: &Path) -> bool {
    let path = dir.join(format!(".direct-io-probe-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::DIRECT;
    let opened = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600));
    // Some file systems refuse the flag only after they have made the file.
    let _ = rustix::fs::unlink(&path);
    opened.is_ok_and(|file| crate::driver::janitor::direct_alignment(&file).is_ok_and(|alignment| alignment > 0))
}

fn check_data_dir(facts: &DataDirFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = format!("{} is on {}", facts.path.display(), facts.file_system);
    match facts.file_system.as_str() {
        "tmpfs" => findings.push(finding(
            Severity::Warning,
            place.clone(),
            "its files live in memory and end with it",
            "use it for tests only",
        )),
        "nfs" | "smb" | "fuse" | "9p" => findings.push(finding(
            Severity::Warning,
            place.clone(),
            "a flush there takes a network or another process, and locks may not hold",
            "put the data directory on a local ext4 or xfs",
        )),
        _ => {}
    }
    if !facts.direct_io {
        findings.push(finding(
            Severity::Warning,
            format!("{place}, which refuses direct I/O here"),
            "the page cache is used instead: slower, and memory beyond the `memory` setting",
            "put the data directory on ext4 or xfs",
        ));
    }
    findings
}

fn read_small(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::{Severity, check_kernel, explain_refusal, file_system_name, parse_kernel, probe};

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
    fn each_refusal_names_its_cause() {
        for (errno, disabled, cause) in [
            (libc::EPERM, Some(2), "io_uring_disabled is 2"),
            (libc::EPERM, Some(1), "io_uring_group"),
            (libc::EPERM, Some(0), "seccomp"),
            (libc::EPERM, None, "seccomp"),
            (libc::ENOSYS, None, "CONFIG_IO_URING"),
            (libc::EINVAL, None, "DEFER_TASKRUN"),
            (libc::ENOMEM, Some(0), "memlock"),
            (libc::EMFILE, Some(0), "open-files"),
            (libc::EIO, Some(0), "setting up a ring failed"),
        ] {
            let found = explain_refusal(errno, disabled);
            assert_eq!(found.severity, Severity::Fatal);
            assert!(found.to_string().contains(cause), "{errno} {disabled:?}: {found}");
        }
    }

    #[test]
    fn this_host_can_run_a_broker() {
        let dir = std::env::temp_dir();
        let report = probe(Some(&dir));
        assert!(!report.is_fatal(), "{:?}", report.findings);
        assert!(report.io_uring && report.open_files > 0 && !report.cpus.is_empty());
        assert_eq!(report.data_dir.map(|facts| facts.path), Some(dir));
        assert_eq!(file_system_name(0x1234_5678), "0x12345678");
    }
}
