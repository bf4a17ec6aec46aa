//! Whether there is room for what a broker is set up to use: memory, and disk for journals and the reserve. Pure, but for the host's memory.

use shard::probe::{Finding, Severity};

use super::super::text::bytes;
use super::finding;
use crate::config::NodeConfig;

/// Journal files that a shard makes before it is ready.
const JOURNAL_FILES_AT_START: u64 = 2;
/// What a process takes beside its buffers and caches: code, stacks, descriptions of logs.
const BESIDE_BYTES: u64 = 128 << 20;

/// `MemTotal` of this host.
pub fn host_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Whether the memory that is set fits what the control group or the host has.
pub fn check_memory(memory_bytes: u64, group_bytes: Option<u64>, host_bytes: Option<u64>) -> Option<Finding> {
    let (limit, whose) = match (group_bytes, host_bytes) {
        (Some(group), host) if host.is_none_or(|host| group < host) => {
            (group, "the control group (container, service)")
        }
        (_, Some(host)) => (host, "this host"),
        _ => return None,
    };
    let wanted = memory_bytes.saturating_add(BESIDE_BYTES);
    (wanted > limit).then(|| {
        let what = format!("memory-bytes is {}, and {whose} has {}", bytes(memory_bytes), bytes(limit));
        let why = format!("a loaded broker uses {} in all: the kernel would end it", bytes(wanted));
        let remedy = format!("set memory-bytes to {} at most, or give it more", limit.saturating_sub(BESIDE_BYTES));
        finding(Severity::Warning, what, &why, &remedy)
    })
}

/// Room on the data directory's file system.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub free_bytes: u64,
    /// Of journals that are there.
    pub journal_bytes: u64,
    pub shards: u64,
}

impl Room {
    /// Whether the journals can be made, and whether something is left above the reserve.
    pub fn check(&self, config: &NodeConfig) -> Option<Finding> {
        let free = bytes(self.free_bytes);
        let at_start =
            (JOURNAL_FILES_AT_START * config.journal_file_bytes() * self.shards).saturating_sub(self.journal_bytes);
        if self.free_bytes < at_start {
            let what =
                format!("{free} are free, and the journals of {} shards take {} more", self.shards, bytes(at_start));
            let why = "journals are made whole before the broker is ready, so that they never meet a full disk";
            return Some(finding(Severity::Fatal, what, why, "free space, or run fewer `--shards`"));
        }
        let reserve = config.disk_reserve_bytes;
        let left = self.free_bytes - at_start;
        if left < reserve {
            let what = format!("{} would be free, which is less than the reserve of {}", bytes(left), bytes(reserve));
            let why = "producers are refused until there is more; consumers and retention go on";
            let remedy = "free space, shorten retention, or set a smaller disk-reserve-bytes";
            return Some(finding(Severity::Fatal, what, why, remedy));
        }
        let grown = config.journal_bytes.saturating_mul(self.shards).saturating_sub(self.journal_bytes);
        (self.free_bytes < reserve.saturating_add(grown)).then(|| {
            let what = format!("{free} are free, and journals may take {} of that under load", bytes(grown));
            let why = format!(
                "less than the reserve of {} would be left: journals then stay small, and checkpoints come often",
                bytes(reserve)
            );
            finding(Severity::Warning, what, &why, "free space, or set a smaller journal-bytes")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn memory_is_compared_with_the_tighter_limit() {
        for (memory, group, host, told) in [
            (GIB, None, None, None),
            (GIB, None, Some(4 * GIB), None),
            (GIB, Some(4 * GIB), Some(GIB), Some("this host")),
            (GIB, Some(GIB), Some(64 * GIB), Some("control group")),
            (GIB, Some(GIB + BESIDE_BYTES), Some(64 * GIB), None),
        ] {
            let found = check_memory(memory, group, host);
            assert_eq!(found.is_some(), told.is_some(), "{group:?} {host:?}");
            assert!(found.is_none_or(|found| told.is_some_and(|word| found.to_string().contains(word))));
        }
    }

    #[test]
    fn journals_and_the_reserve_need_room() {
        // Journals of 2 × 16 MiB at first and 256 MiB in the end for each shard; a reserve of 256 MiB.
        let config = NodeConfig::default();
        for (free_mib, journal_mib, shards, told) in [
            (10_000, 0, 2, None),
            (63, 0, 2, Some((Severity::Fatal, "journals"))),
            (64, 0, 2, Some((Severity::Fatal, "reserve"))),
            (256, 64, 2, Some((Severity::Warning, "under load"))),
            (255, 64, 2, Some((Severity::Fatal, "reserve"))),
            (256, 512, 2, None),
        ] {
            let room = Room { free_bytes: free_mib * MIB, journal_bytes: journal_mib * MIB, shards };
            let found = room.check(&config);
            assert_eq!(found.as_ref().map(|found| found.severity), told.map(|(severity, _)| severity), "{free_mib}");
            assert!(found.is_none_or(|found| told.is_some_and(|(_, word)| found.to_string().contains(word))));
        }
    }
}
