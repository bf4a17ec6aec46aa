//! Counts the system calls of a process with the kernel's own tracepoint (`raw_syscalls:sys_enter`): the number that
//! `perf stat -e raw_syscalls:sys_enter -p PID` gives, at next to no cost to the process.
//!
//! Needs tracefs and the right to use it (root, as a rule); without them there is no count.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use crate::process::thread_ids;

/// `struct perf_event_attr` as of its first published version; the kernel takes the size as the version.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// Count in threads that the watched thread starts later, too.
const FLAG_INHERIT: u64 = 1 << 1;

/// One counter for each thread that the process had when the count began, and those that these start.
#[derive(Debug)]
pub struct SyscallCount {
    counters: Vec<File>,
}

impl SyscallCount {
    /// Starts counting; `None` where the kernel does not let us.
    #[must_use]
    pub fn start(pid: u32) -> Option<Self> {
        let id = tracepoint_id()?;
        let counters: Vec<File> = thread_ids(pid).into_iter().filter_map(|tid| open(id, tid).ok()).collect();
        (!counters.is_empty()).then_some(Self { counters })
    }

    /// Calls since the start.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counters.iter().map(|counter| read(counter).unwrap_or(0)).sum()
    }
}

fn tracepoint_id() -> Option<u64> {
    let id = |root: &str| std::fs::read_to_string(format!("{root}/events/raw_syscalls/sys_enter/id")).ok();
    id("/sys/kernel/tracing").or_else(|| id("/sys/kernel/debug/tracing"))?.trim().parse().ok()
}

fn open(tracepoint: u64, tid: u32) -> io::Result<File> {
    let attr = PerfEventAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfEventAttr>() as u32,
        config: tracepoint,
        flags: FLAG_INHERIT,
        ..PerfEventAttr::default()
    };
    let (any_cpu, no_group, no_flags) = (-1, -1, 0);
    // SAFETY: `attr` is a valid attribute of the size it states, which the kernel only reads.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, tid, any_cpu, no_group, no_flags) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn read(mut counter: &File) -> io::Result<u64> {
    let mut count = [0; 8];
    counter.read_exact(&mut count)?;
    Ok(u64::from_ne_bytes(count))
}
