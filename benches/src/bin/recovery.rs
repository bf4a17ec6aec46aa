//! Recovery after `kill -9` under load: its time and what it reads, with little log and with much.
//!
//! For each size: a broker is filled, then loaded, killed and started again several times. What it reads from the device until
//! it is ready is the kernel's count (`read_bytes` in `/proc/<pid>/io`), with the page cache dropped before where that is
//! allowed. Held: the time with the most log is at most 1.2 times that with the least.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::broker::{Broker, BrokerOptions};
use benches::files::Scratch;
use benches::load::{self, LoadOptions, Target, Until};
use benches::stats::median;
use benches::table::{Table, number};
use benches::{machine, process};
use clap::Parser;

const TIME_RATIO_MAX: f64 = 1.2;

#[derive(Parser)]
#[command(about = "Recovery time and bytes read after kill -9, by size of the log")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    #[command(flatten)]
    load: LoadOptions,
    /// Sizes of the log, in gigabytes, in growing order.
    #[arg(long, value_delimiter = ',', default_value = "1,20")]
    gigabytes: Vec<u64>,
    /// Kills for each size.
    #[arg(long, default_value_t = 5)]
    kills: usize,
    /// Seconds of load before each kill.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

struct Trial {
    ready_ms: f64,
    read_mb: f64,
    cpu_ms: f64,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    machine::print("recovery", &arguments.broker.dir);
    let can_drop = drop_caches();
    let mut table = Table::new(&["log GB", "on disk GB", "ready ms", "max ms", "read MB", "CPU ms"]);
    let mut medians = Vec::new();
    for &gigabytes in &arguments.gigabytes {
        let scratch = Scratch::new(&arguments.broker.dir, "recovery")?;
        let data = scratch.path().join("data");
        let (trials, said) = trials(&arguments, &data, gigabytes)?;
        let median_of = |figure: fn(&Trial) -> f64| median(&trials.iter().map(figure).collect::<Vec<_>>());
        let ready = median_of(|trial| trial.ready_ms).unwrap_or(f64::NAN);
        medians.push(ready);
        table.row([
            gigabytes.to_string(),
            number(tree_bytes(&data) as f64 / 1e9),
            number(ready),
            number(trials.iter().map(|trial| trial.ready_ms).fold(0.0, f64::max)),
            number(median_of(|trial| trial.read_mb).unwrap_or(f64::NAN)),
            number(median_of(|trial| trial.cpu_ms).unwrap_or(f64::NAN)),
        ]);
        said.iter().for_each(|line| println!("# with {gigabytes} GB the broker says: {line}"));
    }
    table.print();
    let ratio = medians.last().zip(medians.first()).map_or(f64::NAN, |(most, least)| most / least);
    println!("time with the most log / with the least: {} (must be <= {TIME_RATIO_MAX})", number(ratio));
    println!(
        "# {} shards, {} kills each, page cache {}, {:.0} s in all",
        arguments.broker.shards,
        arguments.kills,
        if can_drop { "dropped before each start" } else { "not dropped (no right to)" },
        begin.elapsed().as_secs_f64()
    );
    // A ratio that could not be taken is not one that holds.
    let holds = ratio <= TIME_RATIO_MAX;
    Ok(ExitCode::from(u8::from(!holds)))
}

/// Fills a broker, then kills it under load and starts it again. Also what it said about its last recovery.
fn trials(arguments: &Arguments, data: &Path, gigabytes: u64) -> io::Result<(Vec<Trial>, Vec<String>)> {
    let options = &arguments.load;
    let mut broker = arguments.broker.start(data)?;
    let address = load::prepare_topic(broker.kafka, &options.topic, options.partitions, &[])?;
    load::run(address, Target::Kafka, options, Until::Bytes(gigabytes * 1_000_000_000), None)?;
    let mut trials = Vec::with_capacity(arguments.kills);
    for _ in 0..arguments.kills {
        kill_under_load(broker, options, Duration::from_secs_f64(arguments.seconds))?;
        drop_caches();
        broker = arguments.broker.start(data)?;
        let pid = broker.server.pid();
        trials.push(Trial {
            ready_ms: broker.server.ready_after().as_secs_f64() * 1e3,
            read_mb: process::device_bytes_read(pid).map_or(f64::NAN, |bytes| bytes as f64 / 1e6),
            cpu_ms: process::cpu_time(pid)?.total().as_secs_f64() * 1e3,
        });
    }
    let said = broker.log_lines("recover");
    broker.server.kill()?;
    Ok((trials, said))
}

fn kill_under_load(broker: Broker, options: &LoadOptions, after: Duration) -> io::Result<()> {
    let address = load::prepare_topic(broker.kafka, &options.topic, options.partitions, &[])?;
    std::thread::scope(|scope| {
        let until = Until::Elapsed { warm_up: Duration::ZERO, duration: after * 10 };
        // It ends with an error when the broker is gone, as it should.
        let load = scope.spawn(move || load::run(address, Target::Kafka, options, until, None));
        std::thread::sleep(after);
        let was_running = !load.is_finished();
        broker.server.kill()?;
        if was_running { Ok(()) } else { Err(io::Error::other("the load ended before the kill")) }
    })
}

/// Empties the page cache, so that what is read is read from the device; false without the right to.
fn drop_caches() -> bool {
    // SAFETY: it takes nothing and always succeeds.
    unsafe { libc::sync() };
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Bytes of all files below `dir`.
fn tree_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => tree_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
