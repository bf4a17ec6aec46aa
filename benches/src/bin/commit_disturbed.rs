//! The latency of a commit round while something else goes on: the deletion of a 1 GiB segment, a checkpoint of 1,000 files, a
//! cold reader, a core that is 100 % busy. Each is to stay within twice the quiet p99 of the same run.
//!
//! Every shard has its store, runs the same rounds at the same pace all the time, and disturbs itself, so each disturbance
//! happens on all shards at once. Only rounds that ended while it went on count for it.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::Offset;
use benches::files::Scratch;
use benches::stats::Samples;
use benches::stores::{append, batch_of, create_logs, round, with_stores};
use benches::table::{Table, bytes, number, number_or_dash};
use benches::{machine, process};
use clap::Parser;
use shard::{Class, Shard};
use storage::{Log, ReadLimits, ShardStore};

const P99_RATIO_MAX: f64 = 2.0;
const SEGMENT_BYTES: usize = 1 << 30;
const FILL_BATCH_BYTES: usize = 1_000_000;
/// Tasks that hold the core, and how long each holds it at a time.
const BURNERS: usize = 4;
const BURN: Duration = Duration::from_micros(100);
/// What is done over and over is done at least so often.
const TIMES_MIN: usize = 3;

#[derive(Clone, Parser)]
#[command(about = "Commit rounds beside deletion, checkpoints, cold reads and a busy core")]
struct Arguments {
    /// Partitions of each shard that take part in a round.
    #[arg(long, default_value_t = 12)]
    partitions: usize,
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// Rounds a second on each shard.
    #[arg(long, default_value_t = 500)]
    rounds_per_s: u32,
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// Files of a checkpoint, over all shards.
    #[arg(long, default_value_t = 1000)]
    files: usize,
    /// Segments of 1 GiB that each shard deletes, one after another.
    #[arg(long, default_value_t = 3)]
    deletions: usize,
    /// Seconds for each disturbance, and for quiet before and after.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

const CONDITIONS: [&str; 5] =
    ["quiet", "a 1 GiB segment is deleted", "a checkpoint of all files", "a cold reader", "the core is 100 % busy"];

/// Rounds of a shard that ended under each condition.
type Figures = Vec<Samples>;

/// A shard's share of the experiment.
struct Place {
    shard: Shard,
    store: ShardStore,
    data_dir: PathBuf,
    arguments: Arguments,
    /// Under which condition a round counts; `None` for under none.
    condition: Cell<Option<usize>>,
    figures: RefCell<Figures>,
    over: Cell<bool>,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    process::raise_open_files();
    machine::print("commit_disturbed", &arguments.dir);
    println!(
        "# {} shards, pinned; on each {} rounds/s of {} partitions x {}; {} files in a checkpoint",
        arguments.shards,
        arguments.rounds_per_s,
        arguments.partitions,
        bytes(arguments.bytes as u64),
        arguments.files,
    );
    let scratch = Scratch::new(&arguments.dir, "disturbed")?;
    let (shared, data_dir) = (arguments.clone(), scratch.path().to_owned());
    let figures = with_stores(scratch.path(), vec![(); usize::from(arguments.shards)], move |shard, store, ()| {
        let figures = RefCell::new(vec![Samples::default(); CONDITIONS.len()]);
        let condition = Cell::new(None);
        let over = Cell::new(false);
        run(Rc::new(Place { shard, store, data_dir, arguments: shared, condition, figures, over }))
    })?;
    let mut all = vec![Samples::default(); CONDITIONS.len()];
    for of_shard in &figures {
        all.iter_mut().zip(of_shard).for_each(|(all, part)| all.merge(part));
    }
    let holds = report(&mut all);
    println!("# {:.0} s in all", begin.elapsed().as_secs_f64());
    Ok(ExitCode::from(u8::from(!holds)))
}

fn report(figures: &mut [Samples]) -> bool {
    let quiet = figures[0].percentile_us(0.99).unwrap_or(f64::NAN);
    let mut table = Table::new(&["while", "p50 ms", "p99 ms", "max ms", "rounds", "p99 / quiet p99", "within 2 x"]);
    let mut holds = true;
    for (condition, samples) in CONDITIONS.iter().zip(figures) {
        let mut ms = |share| number_or_dash(samples.percentile_us(share).map(|us| us / 1e3));
        let (p50, p99, max) = (ms(0.5), ms(0.99), ms(1.0));
        let ratio = samples.percentile_us(0.99).map_or(f64::NAN, |p99| p99 / quiet);
        let within = ratio <= P99_RATIO_MAX;
        holds &= within;
        let verdict = if within { "yes" } else { "no" };
        table.row([(*condition).into(), p50, p99, max, samples.count().to_string(), number(ratio), verdict.into()]);
    }
    table.print();
    holds
}

async fn run(place: Rc<Place>) -> io::Result<Figures> {
    let (shard, store, arguments) = (&place.shard, &place.store, &place.arguments);
    let logs = create_logs(shard, store, "round", arguments.partitions).await?;
    let many = create_logs(shard, store, "many", arguments.files.div_ceil(usize::from(arguments.shards))).await?;
    let large = create_logs(shard, store, "large", arguments.deletions.max(1)).await?;
    for log in &large {
        fill(shard, log).await?;
    }
    store.checkpoint().await.map_err(io::Error::other)?;
    let rounds = shard.spawn(Class::Latency, shard.account("rounds"), rounds(place.clone(), logs));
    let length = Duration::from_secs_f64(arguments.seconds);
    settle(&place).await;
    quiet(&place, length).await;
    read_cold(&place, &large[0], length).await?;
    settle(&place).await;
    checkpoints(&place, &many, length).await?;
    settle(&place).await;
    burn(&place, length).await;
    settle(&place).await;
    delete(&place, &large).await?;
    settle(&place).await;
    quiet(&place, length).await;
    place.over.set(true);
    rounds.await?;
    Ok(place.figures.take())
}

/// Rounds at their pace until all is over.
async fn rounds(place: Rc<Place>, logs: Vec<Log>) -> io::Result<()> {
    let batch = batch_of(place.arguments.bytes)?;
    let interval = Duration::from_secs(1) / place.arguments.rounds_per_s.max(1);
    let mut due = Instant::now();
    while !place.over.get() {
        // A late round does not make the next ones hurry.
        due = (due + interval).max(Instant::now());
        place.shard.sleep(due.saturating_duration_since(Instant::now())).await;
        let begun = Instant::now();
        round(&place.shard, &logs, &batch).await?;
        if let Some(condition) = place.condition.get() {
            place.figures.borrow_mut()[condition].push(begun.elapsed());
        }
    }
    Ok(())
}

/// A pause that counts for nothing, so that one condition's wake is not the next one's.
async fn settle(place: &Place) {
    place.condition.set(None);
    place.shard.sleep(Duration::from_secs(1)).await;
}

async fn quiet(place: &Place, length: Duration) {
    place.condition.set(Some(0));
    place.shard.sleep(length).await;
    place.condition.set(None);
}

/// A log whose one segment holds 1 GiB.
async fn fill(shard: &Shard, log: &Log) -> io::Result<()> {
    let batch = batch_of(FILL_BATCH_BYTES)?;
    let mut last = None;
    for _ in 0..SEGMENT_BYTES / FILL_BATCH_BYTES {
        last = Some(append(shard, log, &batch).await?);
    }
    match last {
        Some(durable) => durable.await.map_err(io::Error::other),
        None => Ok(()),
    }
}

/// Removes log after log, and waits each time until the janitor has emptied the trash.
async fn delete(place: &Place, logs: &[Log]) -> io::Result<()> {
    let trash = storage::config::paths::trash_dir(&place.data_dir);
    for log in logs {
        place.condition.set(Some(1));
        place.store.remove_log(log.id()).await.map_err(io::Error::other)?;
        while !place.shard.fs().list(&trash).await?.is_empty() {
            place.shard.sleep(Duration::from_millis(2)).await;
        }
        place.condition.set(None);
    }
    Ok(())
}

/// Checkpoint after checkpoint, with something new in every file before each.
async fn checkpoints(place: &Place, logs: &[Log], length: Duration) -> io::Result<()> {
    let batch = batch_of(place.arguments.bytes)?;
    let end = Instant::now() + length;
    let mut times = 0;
    while times < TIMES_MIN || Instant::now() < end {
        times += 1;
        round(&place.shard, logs, &batch).await?;
        place.condition.set(Some(2));
        place.store.checkpoint().await.map_err(io::Error::other)?;
        place.condition.set(None);
    }
    Ok(())
}

/// Reads what is long out of memory, from its beginning, as fast as the background may.
async fn read_cold(place: &Rc<Place>, log: &Log, length: Duration) -> io::Result<()> {
    let end = Instant::now() + length;
    place.condition.set(Some(3));
    let (reader, log) = (place.clone(), log.clone());
    let read = async move {
        let (mut from, mut read_bytes) = (log.start_offset(), 0);
        while Instant::now() < end {
            let limits = ReadLimits { max_bytes: 1 << 20, at_least_one_batch: true, upto: log.durable_end() };
            let read = log.read(from, limits).await.map_err(|error| io::Error::other(error.to_string()))?;
            read_bytes += read.bytes;
            // The batches have one record each, so they are as many as their bytes are batches.
            let batches = (read.bytes / FILL_BATCH_BYTES) as i64;
            from = if batches == 0 { log.start_offset() } else { Offset(from.0 + batches) };
        }
        io::Result::Ok(read_bytes)
    };
    let read_bytes = reader.shard.spawn(Class::Background, reader.shard.account("cold reader"), read).await?;
    place.condition.set(None);
    let rate = read_bytes as f64 / 1e6 / length.as_secs_f64();
    println!("# the cold reader of shard {} read {} MB/s", place.shard.id(), number(rate));
    Ok(())
}

/// Tasks that leave no idle time between them, in small pieces, as requests do.
async fn burn(place: &Rc<Place>, length: Duration) {
    let end = Instant::now() + length;
    place.condition.set(Some(4));
    let burner = || {
        let shard = place.shard.clone();
        let work = async move {
            while Instant::now() < end {
                let piece = Instant::now() + BURN;
                while Instant::now() < piece {
                    std::hint::spin_loop();
                }
                shard.yield_now().await;
            }
        };
        place.shard.spawn(Class::Normal, place.shard.account("burner"), work)
    };
    let burners: Vec<_> = (0..BURNERS).map(|_| burner()).collect();
    for burner in burners {
        burner.await;
    }
    place.condition.set(None);
}
