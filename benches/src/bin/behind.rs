//! A reader a day behind: a cold log is read through Kafka's protocol while producers run at half of what saturates the broker.
//!
//! Told: the read rate as a share of what bare direct reads of the same files get beside the same producers, and the producers' p99
//! with the reader and without it, each request counted from when it was due. Held: p99 within twice.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use benches::aligned::AlignedBuf;
use benches::broker::BrokerOptions;
use benches::fetch::Reader;
use benches::files::Scratch;
use benches::load::{self, LoadOptions, LoadReport, Target, Until, Watched};
use benches::machine;
use benches::ring::{self, Ring};
use benches::table::{Table, number};
use clap::Parser;
use io_uring::{opcode, types};

const P99_RATIO_MAX: f64 = 2.0;
const COLD: &str = "cold";

#[derive(Parser)]
#[command(about = "A cold catch-up reader beside live producers")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    #[command(flatten)]
    load: LoadOptions,
    /// Size of the cold log.
    #[arg(long, default_value_t = 20)]
    gigabytes: u64,
    /// Seconds of producing without a reader, and beside bare reads; and at most so long beside the reader.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Bare reads: the size of each and how many are in flight.
    #[arg(long, default_value_t = 1 << 20)]
    read_bytes: usize,
    #[arg(long, default_value_t = 4)]
    read_depth: usize,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    machine::print("behind", &arguments.broker.dir);
    let scratch = Scratch::new(&arguments.broker.dir, "behind")?;
    let data = scratch.path().join("data");
    let cold = LoadOptions { topic: COLD.into(), ..arguments.load.clone() };

    let broker = arguments.broker.start(&data)?;
    let leader = load::prepare_topic(broker.kafka, COLD, cold.partitions, &[])?;
    load::run(leader, Target::Kafka, &cold, Until::Bytes(arguments.gigabytes * 1_000_000_000), None)?;
    // A new process has none of it in memory.
    broker.server.stop()?;
    let broker = arguments.broker.start(&data)?;
    let pid = broker.server.pid();
    let live = LoadOptions { topic: "live".into(), ..arguments.load.clone() };
    let leader = load::prepare_topic(broker.kafka, &live.topic, live.partitions, &[])?;
    let produce = |options: &LoadOptions| {
        let until =
            Until::Elapsed { warm_up: Duration::from_secs(2), duration: Duration::from_secs_f64(arguments.seconds) };
        load::run(leader, Target::Kafka, options, until, Some(&Watched { pid, device: None }))
    };
    let saturated = produce(&live)?;
    let rate = saturated.requests as f64 / saturated.elapsed.as_secs_f64() / 2.0;
    let half = LoadOptions { rate: Some(rate), ..live };
    let alone = produce(&half)?;
    let files = segments(&data.join("logs").join(COLD))?;
    let (bare, bare_mb_per_s) = beside(|| produce(&half), |over| read_files(&arguments, &files, over))?;
    let (read, read_mb_per_s) =
        beside(|| produce(&half), |over| read_topic(leader, cold.partitions, arguments.gigabytes, over))?;
    broker.server.stop()?;

    let mut table = Table::new(&["producers", "MB/s", "p50 ms", "p99 ms", "broker CPU-s/GB", "read MB/s"]);
    let mut row = |name: &str, mut report: LoadReport, read: f64| {
        let mut ms = |share| report.latency.percentile_us(share).map_or(f64::NAN, |us| us / 1e3);
        let (p50, p99) = (ms(0.5), ms(0.99));
        let cells = [report.mb_per_s(), p50, p99, report.cpu_s_per_gb(), read];
        table.row(std::iter::once(name.to_owned()).chain(cells.into_iter().map(number)));
        p99
    };
    row("as fast as they go", saturated, 0.0);
    let quiet = row("at half of that", alone, 0.0);
    row("the same beside bare direct reads", bare, bare_mb_per_s);
    let disturbed = row("the same beside the reader", read, read_mb_per_s);
    table.print();
    println!("read rate / bare reads: {}", number(read_mb_per_s / bare_mb_per_s));
    println!("p99 beside the reader / without: {} (must be <= {P99_RATIO_MAX})", number(disturbed / quiet));
    println!(
        "# {} shards, {} client threads and a reader's; bare reads of {} KiB, {} in flight; {:.0} s in all",
        arguments.broker.shards,
        arguments.load.client_threads,
        arguments.read_bytes >> 10,
        arguments.read_depth,
        begin.elapsed().as_secs_f64()
    );
    Ok(ExitCode::from(u8::from(disturbed / quiet > P99_RATIO_MAX || disturbed.is_nan())))
}

/// Produces while somebody reads; what both came to. The reader ends with the producers, or before.
fn beside(
    produce: impl FnOnce() -> io::Result<LoadReport>,
    read: impl FnOnce(&AtomicBool) -> io::Result<f64> + Send,
) -> io::Result<(LoadReport, f64)> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&over));
        let report = produce();
        over.store(true, Ordering::Relaxed);
        let rate = reading.join().expect("readers do not panic")?;
        Ok((report?, rate))
    })
}

/// Megabytes a second through the protocol.
fn read_topic(broker: SocketAddr, partitions: u32, gigabytes: u64, over: &AtomicBool) -> io::Result<f64> {
    let mut reader = Reader::new(broker, COLD, partitions)?;
    let begin = Instant::now();
    let mut bytes = 0;
    while !over.load(Ordering::Relaxed) && bytes < gigabytes * 1_000_000_000 {
        match reader.fetch()? {
            0 => break,
            more => bytes += more,
        }
    }
    Ok(bytes as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

/// Segment files of a topic, the largest first.
fn segments(topic: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for partition in std::fs::read_dir(topic)? {
        for file in std::fs::read_dir(partition?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                files.push((std::fs::metadata(&path)?.len(), path));
            }
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Megabytes a second of bare direct reads, one file after another.
fn read_files(arguments: &Arguments, files: &[PathBuf], over: &AtomicBool) -> io::Result<f64> {
    let depth = arguments.read_depth.max(1);
    let mut buffers: Vec<AlignedBuf> = (0..depth).map(|_| AlignedBuf::zeroed(arguments.read_bytes)).collect();
    let mut ring = Ring::new(64)?;
    let (begin, mut bytes) = (Instant::now(), 0);
    for path in files {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
        bytes += read_file(&mut ring, &file, &mut buffers, over)?;
        if over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(bytes as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

/// One file, `buffers` in flight, until its end or until it is over.
fn read_file(ring: &mut Ring, file: &File, buffers: &mut [AlignedBuf], over: &AtomicBool) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let (mut next, mut in_flight, mut bytes) = (0, 0, 0);
    let mut free: Vec<usize> = (0..buffers.len()).collect();
    loop {
        while next < len && !over.load(Ordering::Relaxed) {
            let Some(slot) = free.pop() else { break };
            let buffer = &mut buffers[slot];
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32);
            // SAFETY: the buffer is used again only when its read has completed, and outlives the ring's use here.
            unsafe { ring.push(&read.offset(next).build().user_data(slot as u64))? };
            next += buffer.len() as u64;
            in_flight += 1;
        }
        if in_flight == 0 {
            return Ok(bytes);
        }
        ring.complete(1, |completion| {
            bytes += ring::result(&completion)? as u64;
            free.push(completion.user_data() as usize);
            Ok(())
        })?;
        in_flight -= 1;
    }
}
