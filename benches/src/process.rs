//! What processes and threads have used: CPU time, memory, threads.

use std::io;
use std::time::Duration;

/// What a process has used so far, its ended threads included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    #[must_use]
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { user: self.user.saturating_sub(before.user), system: self.system.saturating_sub(before.system) }
    }
}

/// User and system time of a process, from `/proc/<pid>/stat`, in steps of a clock tick (10 ms as a rule).
///
/// # Errors
/// When there is no such process.
pub fn cpu_time(pid: u32) -> io::Result<CpuTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // SAFETY: sysconf reads a constant.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = parse_ticks(&stat).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not as expected")))?;
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64);
    Ok(CpuTime { user: time(ticks.0), system: time(ticks.1) })
}

/// Fields 14 and 15; the name in field 2 may hold spaces and parentheses, so they are counted from its end.
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// What this process has used so far, exactly.
#[must_use]
pub fn own_cpu_time() -> CpuTime {
    // SAFETY: a usage of zeros is a valid value, and the kernel gets a place of its size.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let result = libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        assert_eq!(result, 0, "a process can read its own usage");
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec as u32 * 1000);
    CpuTime { user: time(usage.ru_utime), system: time(usage.ru_stime) }
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result, and the clock exists since Linux 2.6.12.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "a thread can read its own CPU clock");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The threads of a process.
#[must_use]
pub fn thread_ids(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The most memory a process had resident so far, in bytes.
#[must_use]
pub fn peak_memory_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// The memory that a process has resident now, in bytes.
#[must_use]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes that a process made the block layer read, whatever way.
#[must_use]
pub fn device_bytes_read(pid: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Binds the calling thread to a CPU, counted modulo those that there are.
///
/// # Errors
/// When the kernel refuses.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    // SAFETY: an all-zero set is the empty set, and CPU_SET checks its bounds.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu % cpus, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread what the others leave of the cores (`SCHED_IDLE`): for a client that stands for other machines.
pub fn yield_to_others() {
    // SAFETY: it changes the class of the calling thread, and reads a place of its size; a refusal leaves the class as it was.
    unsafe {
        let none = libc::sched_param { sched_priority: 0 };
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none);
    }
}

/// Allows as many open files as the hard limit does.
pub fn raise_open_files() {
    // SAFETY: both calls get a valid place; a refusal leaves the limit as it was, and opening says so then.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 123 456 0 0 20";
        assert_eq!(parse_ticks(stat), Some((123, 456)));
        assert_eq!(parse_ticks("42 (a"), None);
    }

    #[test]
    fn this_process() {
        assert!(cpu_time(std::process::id()).is_ok());
        assert!(!thread_ids(std::process::id()).is_empty());
        assert!(peak_memory_bytes(std::process::id()).is_some_and(|bytes| bytes > 0));
    }
}
