//! What fio, which everybody has, says of the device's own synchronous writes.

use std::path::Path;
use std::process::Command;

use benches::table::{Table, number_or_dash};
use serde_json::Value;

/// Prints the latency of 4 KiB and 64 KiB direct writes, each followed by `fdatasync`, by one and by two writers.
pub fn print(dir: &Path) {
    let mut table =
        Table::new(&["fio, one direct write and fdatasync", "jobs", "write p50 ms", "sync p50 ms", "sync p99 ms"]);
    for (block, jobs) in [("4k", 1), ("4k", 2), ("64k", 1), ("64k", 2)] {
        let Some(report) = run(dir, block, jobs) else {
            println!("# fio could not be run (`apt-get install fio`): no figures of its own");
            return;
        };
        let ms = |of: &str, latency: &str, share: &str| {
            let ns = &report["jobs"][0][of][latency]["percentile"][share];
            number_or_dash(ns.as_f64().map(|ns| ns / 1e6))
        };
        table.row([
            format!("{block} blocks"),
            jobs.to_string(),
            ms("write", "clat_ns", "50.000000"),
            ms("sync", "lat_ns", "50.000000"),
            ms("sync", "lat_ns", "99.000000"),
        ]);
    }
    table.print();
}

fn run(dir: &Path, block: &str, jobs: u32) -> Option<Value> {
    let mut fio = Command::new("fio");
    fio.args(["--name=sync", "--rw=write", "--ioengine=psync", "--direct=1", "--fdatasync=1", "--overwrite=1"]);
    fio.args(["--size=64m", "--runtime=2", "--time_based", "--group_reporting", "--output-format=json"]);
    fio.arg(format!("--bs={block}")).arg(format!("--numjobs={jobs}")).arg("--directory").arg(dir);
    let output = fio.output().ok().filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}
