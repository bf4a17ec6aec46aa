//! The machine, as `/proc` and `/sys` tell of it. Pure but for `uname` and the niceness: text in, text out.

use super::UNKNOWN;

/// The first `model name`, or what ARM calls the processor.
pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let part = || Some(format!("implementer {}, part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(|| value("Processor")).or_else(part)
}

/// `MemTotal`.
pub(super) fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Of the last minute.
pub(super) fn load_average(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

/// `Linux 6.18.0 #1 SMP PREEMPT_DYNAMIC x86_64`.
pub(super) fn kernel() -> String {
    let name = rustix::system::uname();
    let parts = [name.sysname(), name.release(), name.version(), name.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// What decides when a thread that could run does run: with commas between.
pub(super) fn scheduler(read: &dyn Fn(&str) -> Option<String>) -> String {
    let autogroup = match read("/proc/sys/kernel/sched_autogroup_enabled").as_deref() {
        Some("0") => "off",
        Some(_) => "on",
        None => UNKNOWN,
    };
    let mut parts = vec![format!("autogroup {autogroup}")];
    // Both may need root, and a kernel without the choice has neither.
    let chosen = read("/sys/kernel/debug/sched/preempt").as_deref().and_then(in_brackets);
    let version = read("/proc/version").unwrap_or_default();
    parts.push(format!("preemption {}", chosen.or_else(|| built_in(&version)).unwrap_or_else(|| UNKNOWN.to_owned())));
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    parts.push(format!("governor {}", governor.as_deref().unwrap_or("none")));
    if let Some(state) = read("/sys/kernel/sched_ext/state").filter(|state| state != "disabled") {
        parts.push(format!("sched_ext {state}"));
    }
    // A cgroup's share of the cores' time stops a process for the rest of its period.
    if let Some(quota) = read("/sys/fs/cgroup/cpu.max").filter(|quota| !quota.starts_with("max")) {
        parts.push(format!("cgroup cpu.max {quota}"));
    }
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        parts.push(format!("niceness {nice}"));
    }
    parts.join(", ")
}

/// The one of several choices that is in force: `none voluntary (full) lazy`, `[none] mq-deadline`.
pub(super) fn in_brackets(choices: &str) -> Option<String> {
    let chosen = choices.split_whitespace().find_map(|choice| {
        let inner = choice.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        inner.or_else(|| choice.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')))
    });
    chosen.map(str::to_owned)
}

/// `PREEMPT_DYNAMIC`, `PREEMPT_RT`, … out of the kernel's version; a kernel that is not preempted has no such word.
fn built_in(version: &str) -> Option<String> {
    if version.is_empty() {
        return None;
    }
    Some(version.split_whitespace().find(|word| word.starts_with("PREEMPT")).unwrap_or("none").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read() {
        let intel = "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(intel), Some("AMD EPYC".into()));
        assert_eq!(cpu_model(arm), Some("implementer 0x41, part 0xd0c".into()));
        assert_eq!(cpu_model("processor: 0"), None);
        assert_eq!(memory_bytes("MemTotal:       24684084 kB\nMemFree: 1 kB"), Some(24_684_084 * 1024));
        assert_eq!((memory_bytes("MemFree: 1 kB"), memory_bytes("MemTotal: many kB")), (None, None));
        assert_eq!((load_average("0.52 0.58 0.59 1/389 12345"), load_average("")), (Some(0.52), None));
    }

    #[test]
    fn the_schedulers_settings_are_read() {
        let files = |path: &str| {
            let text = match path {
                "/proc/sys/kernel/sched_autogroup_enabled" => "1",
                "/sys/kernel/debug/sched/preempt" => "none voluntary (full) lazy",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor" => "performance",
                "/sys/fs/cgroup/cpu.max" => "200000 100000",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let said = scheduler(&files);
        assert!(
            said.starts_with("autogroup on, preemption full, governor performance, cgroup cpu.max 200000 100000"),
            "{said}"
        );
        assert!(scheduler(&|_| None).starts_with("autogroup unknown, preemption unknown, governor none"));
        let version = |path: &str| (path == "/proc/version").then(|| "Linux 6.18 #1 SMP PREEMPT_DYNAMIC @0".to_owned());
        assert!(scheduler(&version).contains("preemption PREEMPT_DYNAMIC"));
        assert_eq!(built_in("Linux 6.18 #1 SMP"), Some("none".into()));
        assert_eq!(in_brackets("[none] mq-deadline kyber"), Some("none".into()));
        assert_eq!(in_brackets("none"), None);
    }
}
