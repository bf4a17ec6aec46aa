//! Drives a server with Produce requests and prints what it gave and what it used. See `benches::load`.
//!
//! ```text
//! produce_load 127.0.0.1:9092 --pid $(pgrep -x tidemill) --dir /data --seconds 10
//! ```

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use benches::device::Device;
use benches::load::{self, LoadOptions, Target, Until, Watched};
use benches::machine;
use benches::table::{Table, number, number_or_dash};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Drives a Kafka-protocol server with pre-encoded Produce requests (acks=all)")]
struct Arguments {
    /// HOST:PORT of the server.
    server: String,
    #[command(flatten)]
    load: LoadOptions,
    #[arg(long, value_enum, default_value_t)]
    target: Target,
    /// The server's process: its CPU time and system calls are counted.
    #[arg(long)]
    pid: Option<u32>,
    /// The server's data directory: what its device writes and flushes is counted. Needs --pid.
    #[arg(long, requires = "pid")]
    dir: Option<PathBuf>,
    /// Seconds of sending before the measurement.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Send this many megabytes and stop, instead of measuring by time.
    #[arg(long)]
    megabytes: Option<u64>,
    /// NAME=VALUE, for a topic that is created; may be given more than once.
    #[arg(long = "config")]
    configs: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let address = arguments.server.to_socket_addrs()?.next().ok_or("the server's name has no address")?;
    let address = prepare(&arguments, address)?;
    let device = arguments.dir.as_deref().map(Device::of).transpose()?;
    let watched = arguments.pid.map(|pid| Watched { pid, device });
    let until = match arguments.megabytes {
        Some(megabytes) => Until::Bytes(megabytes * 1_000_000),
        None => Until::Elapsed {
            warm_up: Duration::from_secs_f64(arguments.warm_up),
            duration: Duration::from_secs_f64(arguments.seconds),
        },
    };
    machine::print("produce_load", arguments.dir.as_deref().unwrap_or(".".as_ref()));
    let mut report = load::run(address, arguments.target, &arguments.load, until, watched.as_ref())?;
    let mut table = Table::new(&["figure", "value", "unit"]);
    let mut row = |figure: &str, value: String, unit: &str| table.row([figure.into(), value, unit.into()]);
    row("throughput", number(report.mb_per_s()), "MB/s of record batches");
    row("records", number(report.records_per_s()), "records/s");
    row("requests", number(report.requests as f64 / report.elapsed.as_secs_f64()), "requests/s");
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        row(name, number_or_dash(report.latency.percentile_us(share).map(|us| us / 1e3)), "ms");
    }
    row("server CPU", number(report.cpu_s_per_gb()), "CPU-s/GB");
    row("server CPU", number(report.cpu_us_per_record()), "us/record");
    row("server CPU in the kernel", number(report.system_cpu_s_per_gb()), "CPU-s/GB");
    row("server system calls", number(report.syscalls_per_request()), "per request");
    row("device bytes", number(report.write_amplification()), "per byte acknowledged");
    row("device flushes", number(report.flushes_per_s()), "a second");
    row("client CPU", number(report.client_cpu_s_per_gb()), "CPU-s/GB");
    row("measured for", number(report.elapsed.as_secs_f64()), "s");
    table.print();
    Ok(())
}

fn prepare(arguments: &Arguments, address: SocketAddr) -> Result<SocketAddr, Box<dyn std::error::Error>> {
    if arguments.target == Target::Floor {
        return Ok(address);
    }
    let configs = arguments.configs.iter().map(|config| config.split_once('=').ok_or("a --config is NAME=VALUE"));
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    Ok(load::prepare_topic(address, &arguments.load.topic, arguments.load.partitions, &configs)?)
}
