//! The machine a measurement was made on: what must stand above every table.

use std::path::Path;

use crate::device::Device;

/// Prints the machine in two lines, for a program that measures in `dir`.
pub fn print(program: &str, dir: &Path) {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("", |it| it.1);
    println!("# {program}: Linux {kernel}, {cores} cores ({}), load average {}", model.trim(), load_average());
    if let Ok(device) = Device::of(dir) {
        println!(
            "# {} on {} ({}, write cache {}, FUA {}), memory lock limit {}",
            dir.display(),
            device.name(),
            file_system(dir),
            device.queue("write_cache").as_deref().unwrap_or("-"),
            device.queue("fua").as_deref().unwrap_or("-"),
            memory_lock_limit(),
        );
    }
}

/// Over the last minute; above a tenth of the cores, others are at work and figures are noisy.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("-").to_owned()
}

/// The type of the file system with the longest mount point above `dir`.
fn file_system(dir: &Path) -> String {
    let Ok(dir) = std::fs::canonicalize(dir) else { return "-".into() };
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| dir.starts_with(point)).max_by_key(|(point, _)| point.len());
    above.map_or_else(|| "-".into(), |(_, kind)| kind.to_owned())
}

fn memory_lock_limit() -> String {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or("-").to_owned()
}
