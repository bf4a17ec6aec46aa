//! Durable appends: 4 KiB direct writes, each followed by a data sync, by 1 to 32 writers at once on one core: this project's
//! runtime and glommio, beside a bare ring.
//!
//! Each run is a process of its own, so that CPU time and system calls are its alone. The file is written once before, so a
//! write changes no metadata. Trials are interleaved; figures are medians over them.

mod bare;
mod on_glommio;
mod on_shard;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use benches::device::Device;
use benches::files::{Scratch, prezeroed};
use benches::machine;
use benches::process::own_cpu_time;
use benches::stats::{Samples, median_of};
use benches::syscalls::SyscallCount;
use benches::table::{Table, number};
use clap::{Parser, Subcommand, ValueEnum};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Runtime {
    Bare,
    Shard,
    Glommio,
}

const RUNTIMES: [Runtime; 3] = [Runtime::Bare, Runtime::Shard, Runtime::Glommio];
const WRITE_BYTES: usize = 4096;
/// A writer goes round in its own part of the file.
const WRITES_PER_WRITER: u64 = 1024;
const WRITERS_MAX: usize = 256;

#[derive(Parser)]
#[command(about = "4 KiB direct writes with a data sync each: the shard runtime against glommio")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Run>,
    #[arg(long, value_delimiter = ',', default_value = "1,2,8,32")]
    writers: Vec<usize>,
    #[arg(long, default_value_t = 5)]
    trials: usize,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Where the file is made.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

#[derive(Subcommand)]
enum Run {
    /// Used by the comparison itself: one run, whose figures are printed as one line.
    #[command(hide = true)]
    Run {
        #[arg(value_enum)]
        runtime: Runtime,
        file: PathBuf,
        writers: usize,
        seconds: f64,
    },
}

/// What a run is told.
#[derive(Clone)]
struct Job {
    file: PathBuf,
    writers: usize,
    duration: Duration,
}

impl Job {
    /// Where the nth write of a writer goes.
    fn position(writer: usize, n: u64) -> u64 {
        (writer as u64 * WRITES_PER_WRITER + n % WRITES_PER_WRITER) * WRITE_BYTES as u64
    }
}

/// What one run found: time, then counts for each append.
struct Figures {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
    syscalls: f64,
    flushes: f64,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Run::Run { runtime, file, writers, seconds }) => {
            run(runtime, &Job { file, writers: writers.min(WRITERS_MAX), duration: Duration::from_secs_f64(seconds) })
        }
        None => compare(&arguments),
    }
}

/// One run; prints what `parse` reads.
fn run(runtime: Runtime, job: &Job) -> io::Result<()> {
    let device = Device::of(&job.file)?;
    let (calls, counts, cpu) = (SyscallCount::start(std::process::id()), device.counts(), own_cpu_time());
    let begin = Instant::now();
    let mut samples = match runtime {
        Runtime::Bare => bare::run(job)?,
        Runtime::Shard => on_shard::run(job)?,
        Runtime::Glommio => on_glommio::run(job)?,
    };
    let (elapsed, cpu) = (begin.elapsed(), own_cpu_time().since(cpu));
    let appends = samples.count() as f64;
    let flushes = device.counts().zip(counts).map_or(f64::NAN, |(end, begin)| end.since(begin).flushes as f64);
    let figures = [
        appends / elapsed.as_secs_f64(),
        samples.percentile_us(0.5).unwrap_or(f64::NAN),
        samples.percentile_us(0.99).unwrap_or(f64::NAN),
        cpu.total().as_secs_f64() * 1e6 / appends,
        calls.map_or(f64::NAN, |calls| calls.count() as f64 / appends),
        flushes / appends,
    ];
    println!("{}", figures.map(|figure| figure.to_string()).join(" "));
    Ok(())
}

fn parse(line: &str) -> Option<Figures> {
    let figures: Vec<f64> = line.split_whitespace().map_while(|figure| figure.parse().ok()).collect();
    let &[per_second, p50_us, p99_us, cpu_us, syscalls, flushes] = &figures[..] else { return None };
    Some(Figures { per_second, p50_us, p99_us, cpu_us, syscalls, flushes })
}

fn compare(arguments: &Arguments) -> io::Result<()> {
    let begin = Instant::now();
    machine::print("append", &arguments.dir);
    let scratch = Scratch::new(&arguments.dir, "append")?;
    let file = scratch.path().join("log");
    let writers_max = arguments.writers.iter().copied().max().unwrap_or(1).min(WRITERS_MAX);
    drop(prezeroed(&file, Job::position(writers_max, 0))?);
    let columns =
        ["writers", "runtime", "appends/s", "p50 us", "p99 us", "us CPU/append", "syscalls/append", "flushes/append"];
    let mut table = Table::new(&columns);
    let mut ratios = Table::new(&["writers", "shard/glommio appends/s", "shard/bare appends/s", "shard/glommio p50"]);
    for &writers in &arguments.writers {
        let mut trials = RUNTIMES.map(|_| Vec::new());
        for _ in 0..arguments.trials {
            for (runtime, trials) in RUNTIMES.into_iter().zip(&mut trials) {
                trials.push(trial(runtime, &file, writers, arguments.seconds)?);
            }
        }
        for (runtime, trials) in RUNTIMES.iter().zip(&trials) {
            table.row([
                writers.to_string(),
                format!("{runtime:?}").to_lowercase(),
                number(median_of(trials, |trial| trial.per_second)),
                number(median_of(trials, |trial| trial.p50_us)),
                number(median_of(trials, |trial| trial.p99_us)),
                number(median_of(trials, |trial| trial.cpu_us)),
                number(median_of(trials, |trial| trial.syscalls)),
                number(median_of(trials, |trial| trial.flushes)),
            ]);
        }
        let [bare, shard, glommio] = &trials;
        let rate = |trials| median_of(trials, |trial: &Figures| trial.per_second);
        let p50 = |trials| median_of(trials, |trial: &Figures| trial.p50_us);
        ratios.row([
            writers.to_string(),
            number(rate(shard) / rate(glommio)),
            number(rate(shard) / rate(bare)),
            number(p50(shard) / p50(glommio)),
        ]);
    }
    table.print();
    ratios.print();
    println!("# {} trials each, {:.0} s in all", arguments.trials, begin.elapsed().as_secs_f64());
    Ok(())
}

fn trial(runtime: Runtime, file: &Path, writers: usize, seconds: f64) -> io::Result<Figures> {
    let name = runtime.to_possible_value().expect("no variant is skipped");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", name.get_name()]).arg(file).args([writers.to_string(), seconds.to_string()]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let why = || io::Error::other(format!("{runtime:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
    text.lines().last().and_then(parse).ok_or_else(why)
}

/// The samples of several writers together.
fn merge(parts: Vec<Samples>) -> Samples {
    let mut all = Samples::default();
    parts.iter().for_each(|part| all.merge(part));
    all
}
