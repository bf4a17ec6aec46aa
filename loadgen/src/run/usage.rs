//! What processes use, as the kernel counts it.

use std::time::Duration;

use base::Instant;
use rustix::time::{ClockId, clock_gettime};

/// What processes used in the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub elapsed: Duration,
    pub client_cpu: Duration,
    /// Where its process is known.
    pub broker_cpu: Option<Duration>,
}

/// Samples at the begin of the measured time.
pub struct Watch {
    at: Instant,
    client: Duration,
    broker: Option<(u32, Duration)>,
}

impl Watch {
    pub fn begin(now: Instant, broker_pid: Option<u32>) -> Self {
        let broker = broker_pid.and_then(|pid| Some((pid, cpu_of(pid)?)));
        Self { at: now, client: own_cpu(), broker }
    }

    pub fn end(self, now: Instant) -> Usage {
        let broker_cpu = self.broker.and_then(|(pid, before)| Some(cpu_of(pid)?.saturating_sub(before)));
        Usage { elapsed: now.since(self.at), client_cpu: own_cpu().saturating_sub(self.client), broker_cpu }
    }
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// User and system time of a process, with its threads and without its children; in the kernel's ticks (proc(5), `/proc/pid/stat`).
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may have anything in it.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_and_one_that_is_not_there_is_not() {
        let own = cpu_of(std::process::id()).expect("this process");
        // The one clock counts in ticks, the other does not.
        assert!(own <= own_cpu() + Duration::from_millis(20));
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
