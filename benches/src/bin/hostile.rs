//! What a client that behaves notices of peers that do not: the p99 of its Produce with each attack beside it, over its p99 in the quiet
//! rounds of the same run. The attacks are those of the end-to-end test, each again and again for as long as a round takes.
//!
//! The attackers run on the cores that the broker and the client have. A thread of the lowest class that computes and says nothing to the
//! broker already lengthens the p99 many times where there are two cores, so that is measured first: an attack holds the
//! mark when it is within twice the quiet p99, or costs no more than twice what such a thread does.

#[path = "../../../tests/e2e/tests/hostile/attacks.rs"]
mod attacks;
#[path = "../../../tests/e2e/tests/hostile/bodies.rs"]
mod bodies;
#[path = "../../../tests/e2e/tests/hostile/peer.rs"]
mod peer;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Random;
use benches::broker::{Broker, BrokerOptions};
use benches::files::Scratch;
use benches::load::{self, LoadOptions, Target, Until};
use benches::stats::median;
use benches::table::{Table, number};
use benches::{machine, process};
use clap::Parser;

/// Where the attacks look for records, apart from where the client that behaves writes.
const TOPIC: &str = "t";
const PARTITIONS: i32 = 4;
/// The p99 under an attack is at most so many times the quiet one, or that beside a thread that only computes.
const RATIO_MAX: f64 = 2.0;

#[derive(Parser)]
#[command(about = "The p99 of Produce with and without hostile peers beside it")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    /// Seconds of each round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds of each attack, each with a quiet one before it.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the attacks whose names have this in them.
    #[arg(long, default_value = "")]
    only: String,
}

/// An attack, again and again until it is told to stop.
type Attack = fn(&str, &AtomicBool);

fn again(stop: &AtomicBool, mut attack: impl FnMut()) {
    while !stop.load(Ordering::Relaxed) {
        attack();
    }
}

/// Holds what an attack left until the round is over.
fn held<T>(stop: &AtomicBool, held: T) {
    again(stop, || std::thread::sleep(Duration::from_millis(10)));
    drop(held);
}

/// What the machine does to the client's p99 when somebody else uses a core, without a word to the broker: the attacks include it.
const BUSY: &str = "nothing but a busy thread";
const ATTACKS: &[(&str, Attack)] = &[
    (BUSY, |_, stop| again(stop, || std::hint::black_box(0..1000).for_each(drop))),
    ("random bytes and lengths", |kafka, stop| again(stop, || attacks::bytes_and_lengths(kafka, &mut Random::new(1)))),
    ("every API, hostile arrays", |kafka, stop| {
        again(stop, || {
            attacks::every_api(kafka, &mut Random::new(2));
        });
    }),
    ("greedy requests, answers not read", |kafka, stop| {
        again(stop, || {
            attacks::greedy(kafka, &[40 << 10, 200 << 10]);
        });
    }),
    ("2,000 half frames", |kafka, stop| held(stop, attacks::half_frames(kafka, 2000))),
    ("500 slow senders", |kafka, stop| again(stop, || attacks::slow_senders(kafka, 500))),
    ("200 slow readers", |kafka, stop| held(stop, attacks::slow_readers(kafka, 200))),
    ("5,000 idle connections", |kafka, stop| held(stop, attacks::idle(kafka, 5000))),
    ("a storm of connections", |kafka, stop| again(stop, || attacks::storm(kafka, 1000))),
];

struct Round<'r> {
    broker: &'r Broker,
    load: LoadOptions,
    until: Until,
}

impl Round<'_> {
    /// The p99 of the client that behaves, in milliseconds, with `attack` beside it.
    fn p99_ms(&self, attack: Option<Attack>) -> io::Result<f64> {
        let stop = Arc::new(AtomicBool::new(false));
        let attacker = attack.map(|attack| {
            let (kafka, stop) = (self.broker.kafka.to_string(), stop.clone());
            std::thread::spawn(move || {
                process::yield_to_others();
                attack(&kafka, &stop);
            })
        });
        let report = load::run(self.broker.kafka, Target::Kafka, &self.load, self.until, None);
        stop.store(true, Ordering::Relaxed);
        attacker.map_or(Ok(()), std::thread::JoinHandle::join).map_err(|_| io::Error::other("an attack failed"))?;
        Ok(report?.latency.percentile_us(0.99).map_or(f64::NAN, |us| us / 1e3))
    }
}

/// A client that is neither idle nor at the broker's limit: what it waits for is the broker, not itself.
fn well_behaved() -> LoadOptions {
    LoadOptions {
        topic: "bench".into(),
        partitions: 4,
        record_bytes: 1000,
        batch_bytes: 16_000,
        batches: 1,
        connections: 2,
        rate: None,
        in_flight: 1,
        produce_version: 9,
        client_threads: 1,
    }
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    machine::print("hostile", &arguments.broker.dir);
    let scratch = Scratch::new(&arguments.broker.dir, "hostile")?;
    let broker = arguments.broker.start(&scratch.path().join("data"))?;
    let load = well_behaved();
    load::prepare_topic(broker.kafka, &load.topic, load.partitions, &[])?;
    load::prepare_topic(broker.kafka, TOPIC, PARTITIONS.unsigned_abs(), &[])?;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let until = Until::Elapsed { warm_up: Duration::from_millis(500), duration };
    let round = Round { broker: &broker, load, until };
    let mut table = Table::new(&["attack", "quiet p99 ms", "p99 ms", "to quiet", "to a busy thread"]);
    let (mut beside_busy, mut missed) = (f64::NAN, 0);
    for (name, attack) in ATTACKS.iter().filter(|(name, _)| *name == BUSY || name.contains(&arguments.only)) {
        let (mut quiet, mut under) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds {
            quiet.push(round.p99_ms(None)?);
            under.push(round.p99_ms(Some(*attack))?);
        }
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let (quiet, under) = (middle(&quiet), middle(&under));
        if *name == BUSY {
            beside_busy = under;
        }
        let holds = under <= RATIO_MAX * quiet.max(beside_busy);
        missed += i32::from(!holds);
        let (to_quiet, to_busy) = (number(under / quiet), number(under / beside_busy));
        table.row([(*name).into(), number(quiet), number(under), to_quiet, to_busy]);
    }
    table.print();
    println!("# {} shards, {} rounds each; {missed} attacks miss the mark", arguments.broker.shards, arguments.rounds);
    broker.server.stop()?;
    Ok(ExitCode::from(u8::from(missed > 0)))
}
