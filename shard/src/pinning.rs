//! Which CPUs this process may use, and binding a shard's thread to one of them.

use std::io;

use rustix::thread::CpuSet;

/// The CPUs this thread may run on (its cgroup's and `taskset`'s word), in ascending order. Empty only if the kernel does not say.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Binds the calling thread to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("CPU {cpu} cannot be named in a CPU set")));
    }
    let mut wanted = CpuSet::new();
    wanted.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &wanted)?)
}

/// The CPU for shard `n`: the nth allowed one, from the front again when there are more shards than CPUs.
#[must_use]
pub fn cpu_for(n: usize, allowed: &[usize]) -> Option<usize> {
    allowed.get(n % allowed.len().max(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::{allowed_cpus, cpu_for, pin_to};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a thread of its own, so that the test harness stays unpinned")]
    fn a_thread_can_be_pinned_to_each_allowed_cpu() {
        let allowed = allowed_cpus();
        assert!(!allowed.is_empty());
        for (n, &cpu) in allowed.iter().enumerate() {
            assert_eq!(cpu_for(n, &allowed), Some(cpu));
            assert_eq!(cpu_for(n + allowed.len(), &allowed), Some(cpu));
            let pinned = std::thread::spawn(move || {
                pin_to(cpu).unwrap();
                allowed_cpus()
            });
            assert_eq!(pinned.join().unwrap(), [cpu]);
        }
        assert_eq!(cpu_for(0, &[]), None);
        assert!(pin_to(usize::MAX).is_err());
    }
}
