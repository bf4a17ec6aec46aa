//! The clocks: retention and time look-ups go by the wall clock, and a shard asks for the time many times in a turn.

use rustix::time::{ClockId, clock_gettime};

use super::{Finding, Severity, finding, read_small};

/// 2024-01-01: no broker of this release runs before it.
const WALL_SECONDS_MIN: i64 = 1_704_067_200;
/// Clock sources that are read in a few nanoseconds, without a system call.
const FAST: &[&str] =
    &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource", "timebase", "tod"];

pub(super) fn check() -> Vec<Finding> {
    let source = read_small("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let wall = check_wall(clock_gettime(ClockId::Realtime).tv_sec);
    wall.into_iter().chain(source.and_then(|source| check_source(source.trim()))).collect()
}

fn check_wall(seconds: i64) -> Option<Finding> {
    (seconds < WALL_SECONDS_MIN).then(|| {
        finding(
            Severity::Warning,
            format!("the clock says {seconds} seconds since 1970"),
            "records get timestamps of long ago, and are deleted by age once the clock is right",
            "set the clock, and keep it with chrony or systemd-timesyncd",
        )
    })
}

fn check_source(source: &str) -> Option<Finding> {
    (!FAST.contains(&source)).then(|| {
        finding(
            Severity::Note,
            format!("the clock source is {source}"),
            "to ask for the time may take a system call each time, of which a shard makes many",
            "let the kernel use the tsc, or the hypervisor's own clock, if it is sound (`dmesg | grep clocksource`)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{check_source, check_wall};

    #[test]
    fn clocks_are_judged() {
        for (seconds, told) in [(0, true), (1_600_000_000, true), (1_800_000_000, false)] {
            assert_eq!(check_wall(seconds).is_some(), told, "{seconds}");
        }
        for (source, told) in [("tsc", false), ("kvm-clock", false), ("hpet", true), ("acpi_pm", true)] {
            assert_eq!(check_source(source).is_some(), told, "{source}");
        }
    }
}
