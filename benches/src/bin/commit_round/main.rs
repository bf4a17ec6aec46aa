//! One commit round: a batch to each of N partitions, over two shards, and all of them durable. This project's store beside
//! what else could have been done with the same files and device.
//!
//! | form | what a shard does in a round |
//! | --- | --- |
//! | store | `storage::ShardStore`: append to each log, wait for all; destage and checkpoints go on in the background |
//! | one write | a bare ring: one write of all bytes with one sync, nothing else: what a journal costs at the least |
//! | dsync | a bare ring: a write with `RWF_DSYNC` to each file, all at once; the files are pre-zeroed |
//! | barrier | a bare ring: plain writes to all files at once, then one `fdatasync`; the files are pre-zeroed |
//!
//! Forms are interleaved by cell. Rounds are paced, alike for all forms, so that no form gets more bytes to write than another.
//! A count per round is of all shards together. Everything bypasses the page cache.

mod bare;
mod fio;
mod on_store;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use benches::device::{Device, DeviceCounts};
use benches::files::Scratch;
use benches::stats::Samples;
use benches::table::{Table, bytes, number, number_or_dash};
use benches::{machine, process};
use clap::Parser;

#[derive(Parser)]
#[command(about = "The cost of making N partitions' appends durable at once")]
struct Arguments {
    #[arg(long, value_delimiter = ',', default_value = "1,24,100,1000")]
    partitions: Vec<usize>,
    #[arg(long, value_delimiter = ',', default_value = "256,4096,16384,65536")]
    bytes: Vec<usize>,
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// Seconds for each cell and form, more if it takes longer to have 20 rounds.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// All shards together are offered at most this many megabytes a second.
    #[arg(long, default_value_t = 200.0)]
    rate_mb: f64,
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

/// One line of the experiment: so many partitions over all shards, so many bytes for each in a round.
#[derive(Clone, Copy, Debug)]
struct Cell {
    partitions: usize,
    bytes: usize,
}

impl Cell {
    /// Partitions of one shard.
    fn on_shard(self, shard: usize, shards: usize) -> usize {
        self.partitions / shards + usize::from(shard < self.partitions % shards)
    }
}

/// How the rounds of a cell follow each other on a shard.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Duration,
    duration: Duration,
}

const ROUNDS_MIN: usize = 20;
const ROUNDS_MAX: usize = 20_000;

impl Pace {
    /// When the round after `done` rounds is due; `None` when they were enough.
    fn next(&self, begin: Instant, done: usize) -> Option<Instant> {
        let due = begin + self.interval * done as u32;
        let over = due.max(Instant::now()) >= begin + self.duration && done >= ROUNDS_MIN;
        (!over && done < ROUNDS_MAX).then_some(due)
    }
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    process::raise_open_files();
    machine::print("commit_round", &arguments.dir);
    let scratch = Scratch::new(&arguments.dir, "commit")?;
    let device = Device::of(scratch.path())?;
    fio::print(scratch.path());
    let shards = usize::from(arguments.shards);
    println!("# {shards} shards, one thread each, pinned; at most {} MB/s offered", arguments.rate_mb);
    let partitions_max = arguments.partitions.iter().copied().max().unwrap_or(1);
    let on_shard_max = partitions_max.div_ceil(shards);
    let files = (0..shards).map(|shard| bare::Files::make(scratch.path(), shard, on_shard_max));
    let files = files.collect::<io::Result<Vec<_>>>()?;
    let stores = on_store::Stores::open(&scratch.path().join("data"), arguments.shards, on_shard_max)?;
    let mut table = Table::new(&[
        "partitions",
        "bytes",
        "form",
        "p50 ms",
        "p99 ms",
        "rounds",
        "shards",
        "flushes/round",
        "writes/round",
        "device bytes/byte",
    ]);
    let mut ratios = Table::new(&["partitions", "bytes", "store / one write", "store / dsync", "store / barrier"]);
    for &partitions in &arguments.partitions {
        for &bytes in &arguments.bytes {
            let cell = Cell { partitions, bytes };
            measure(&arguments, cell, &device, &stores, &files, &mut table, &mut ratios)?;
        }
    }
    stores.close()?;
    table.print();
    println!("ratios of the p50");
    ratios.print();
    println!("# {:.0} s in all", begin.elapsed().as_secs_f64());
    Ok(())
}

fn measure(
    arguments: &Arguments,
    cell: Cell,
    device: &Device,
    stores: &on_store::Stores,
    files: &[bare::Files],
    table: &mut Table,
    ratios: &mut Table,
) -> io::Result<()> {
    let round_bytes = (cell.partitions * cell.bytes) as f64;
    let pace = Pace {
        interval: Duration::from_secs_f64(round_bytes / (arguments.rate_mb * 1e6)),
        duration: Duration::from_secs_f64(arguments.seconds),
    };
    let shards_used = cell.partitions.min(files.len());
    let mut p50s = Vec::new();
    for (form, run) in forms() {
        let before = device.counts();
        let mut samples = run(stores, files, cell, pace)?;
        let counts = device.counts().zip(before).map(|(after, before)| after.since(before));
        if form == "store" {
            // What it left for the background is not to disturb the next form.
            stores.settle()?;
        }
        let rounds = samples.count() as f64 / shards_used as f64;
        let per_round =
            |count: fn(DeviceCounts) -> u64| number_or_dash(counts.map(|counts| count(counts) as f64 / rounds));
        let p50 = samples.percentile_us(0.5).unwrap_or(f64::NAN);
        p50s.push(p50);
        table.row([
            cell.partitions.to_string(),
            bytes(cell.bytes as u64),
            form.into(),
            number(p50 / 1e3),
            number_or_dash(samples.percentile_us(0.99).map(|us| us / 1e3)),
            number(rounds.round()),
            shards_used.to_string(),
            per_round(|counts| counts.flushes),
            per_round(|counts| counts.writes),
            number_or_dash(counts.map(|counts| counts.written_bytes as f64 / (rounds * round_bytes))),
        ]);
    }
    let ratio = |form: usize| number(p50s[0] / p50s[form]);
    ratios.row([cell.partitions.to_string(), bytes(cell.bytes as u64), ratio(1), ratio(2), ratio(3)]);
    Ok(())
}

type Run = fn(&on_store::Stores, &[bare::Files], Cell, Pace) -> io::Result<Samples>;

fn forms() -> [(&'static str, Run); 4] {
    [
        ("store", |stores, _, cell, pace| stores.run(cell, pace)),
        ("one write", |_, files, cell, pace| bare::run(bare::Form::OneWrite, files, cell, pace)),
        ("dsync", |_, files, cell, pace| bare::run(bare::Form::Dsync, files, cell, pace)),
        ("barrier", |_, files, cell, pace| bare::run(bare::Form::Barrier, files, cell, pace)),
    ]
}
