//! Where a run takes place: the machine, its disk, the broker. What can't be read is said to be unknown; nothing here fails.
//!
//! Stateless: gathered once before a run, on the thread that asks, and the broker on a shard of its own that ends with the answer.

mod broker;
mod disk;
mod machine;

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shard::pinning::allowed_cpus;

use crate::report::Context;

/// Said of what can't be read; the reason may follow.
pub const UNKNOWN: &str = "unknown";

/// Describes the machine, the broker behind `bootstrap` (`host:port`, with commas between several) and the disk of `broker_dir`,
/// or of the current folder. Takes as long as some fifty flushes of that disk and a few questions to the broker, which gets
/// five seconds to answer them.
#[must_use]
pub fn gather(bootstrap: &str, broker_dir: Option<&Path>) -> Context {
    let described = broker::describe(bootstrap);
    let read = |path: &str| read(Path::new(path));
    let cpuinfo = read("/proc/cpuinfo");
    Context {
        started_ms: now(ClockId::Realtime).as_millis() as u64,
        bootstrap: bootstrap.to_owned(),
        client_version: format!("tidemill-loadgen {}", env!("CARGO_PKG_VERSION")),
        broker: described.broker,
        durability: described.durability,
        cores: allowed_cpus().len() as u32,
        cpu: cpuinfo.as_deref().and_then(machine::cpu_model).unwrap_or_else(|| UNKNOWN.to_owned()),
        kernel: machine::kernel(),
        memory_bytes: read("/proc/meminfo").as_deref().and_then(machine::memory_bytes).unwrap_or(0),
        scheduler: machine::scheduler(&read),
        disk: disk::describe(broker_dir.unwrap_or(Path::new("."))),
        load_average: read("/proc/loadavg").as_deref().and_then(machine::load_average).unwrap_or(0.0),
    }
}

/// The text of a small file, if it can be read.
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_gathered_where_there_is_no_broker() {
        let folder = std::env::temp_dir().join(format!("loadgen-context-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // Port 1 of loopback: nobody listens there.
        let context = gather("127.0.0.1:1", Some(&folder));
        assert!(context.cores > 0 && context.memory_bytes > 0 && context.started_ms > 0, "{context:?}");
        assert!(context.broker.starts_with("unknown: "), "{}", context.broker);
        assert_eq!(context.durability, "unknown");
        assert!(context.kernel.starts_with("Linux "), "{}", context.kernel);
        let disk = context.disk.expect("the folder is on a disk");
        assert!(disk.flush_p50_us > 0.0 && disk.flush_p99_us >= disk.flush_p50_us, "{disk:?}");
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0, "the measuring left something behind");
        std::fs::remove_dir(&folder).expect("the folder is empty");
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_disk() {
        assert!(gather("127.0.0.1:1", Some(Path::new("/nowhere/at/all"))).disk.is_none());
    }
}
