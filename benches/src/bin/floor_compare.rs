//! The broker beside the floor: the same load, the forms of the floor and the broker in turn, in one run.
//!
//! Held: at least 80 % of the throughput of the floor that writes twice, at no more than 1.3 times its CPU per byte. The
//! distance to the floor that writes once says what a path without the second write could gain; that to the floor that also checks
//! and keeps every byte, what is left to gain in code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::broker::BrokerOptions;
use benches::device::Device;
use benches::files::Scratch;
use benches::load::{self, LoadOptions, LoadReport, Target, Until, Watched};
use benches::machine;
use benches::server::Server;
use benches::stats::median_of;
use benches::table::{Table, number};
use clap::Parser;

const THROUGHPUT_SHARE_MIN: f64 = 0.8;
const CPU_RATIO_MAX: f64 = 1.3;

#[derive(Parser)]
#[command(about = "The broker's Produce path against a program that does only the unavoidable")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    #[command(flatten)]
    load: LoadOptions,
    /// The floor program; beside this one as a rule.
    #[arg(long)]
    floor: Option<PathBuf>,
    #[arg(long, default_value_t = 5)]
    trials: usize,
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// The floors alone.
    #[arg(long)]
    without_broker: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    FloorOnce,
    FloorTwice,
    FloorKept,
    Broker,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::FloorOnce => "floor, written once",
            Self::FloorTwice => "floor, written twice",
            Self::FloorKept => "floor, twice, checked and copied",
            Self::Broker => "broker",
        }
    }

    /// What the floor program is told; nothing for the broker.
    fn form(self) -> Option<&'static str> {
        match self {
            Self::FloorOnce => Some("once"),
            Self::FloorTwice => Some("twice"),
            Self::FloorKept => Some("kept"),
            Self::Broker => None,
        }
    }
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    machine::print("floor", &arguments.broker.dir);
    let load = &arguments.load;
    println!(
        "# {} shards; {} B records in {} B batches over {} partitions, {} a request; {} connections, {} in flight, {} client threads",
        arguments.broker.shards,
        load.record_bytes,
        load.batch_bytes,
        load.partitions,
        load.batches,
        load.connections,
        load.in_flight,
        load.client_threads,
    );
    let mut subjects = vec![Subject::FloorOnce, Subject::FloorTwice, Subject::FloorKept];
    if !arguments.without_broker {
        subjects.push(Subject::Broker);
    }
    let mut trials: Vec<Vec<LoadReport>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.trials {
        for (&subject, trials) in subjects.iter().zip(&mut trials) {
            trials.push(trial(&arguments, subject)?);
        }
    }
    report(&subjects, &mut trials);
    println!("# {} trials each, {:.0} s in all", arguments.trials, begin.elapsed().as_secs_f64());
    let holds = trials.get(3).is_none_or(|broker| verdict(&trials, broker));
    Ok(ExitCode::from(u8::from(!holds)))
}

fn trial(arguments: &Arguments, subject: Subject) -> io::Result<LoadReport> {
    let scratch = Scratch::new(&arguments.broker.dir, "floor")?;
    let data = scratch.path().join("data");
    let device = Some(Device::of(scratch.path())?);
    let until = Until::Elapsed {
        warm_up: Duration::from_secs_f64(arguments.warm_up),
        duration: Duration::from_secs_f64(arguments.seconds),
    };
    let Some(form) = subject.form() else {
        let broker = arguments.broker.start(&data)?;
        let address = load::prepare_topic(broker.kafka, &arguments.load.topic, arguments.load.partitions, &[])?;
        let watched = Watched { pid: broker.server.pid(), device };
        let report = load::run(address, Target::Kafka, &arguments.load, until, Some(&watched));
        broker.server.kill()?;
        return report;
    };
    let server = start_floor(arguments, form, &data)?;
    let address = server.ready_value("kafka").and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| io::Error::other("the floor's ready line has no address"))?;
    let watched = Watched { pid: server.pid(), device };
    let report = load::run(address, Target::Floor, &arguments.load, until, Some(&watched));
    server.kill()?;
    report
}

fn start_floor(arguments: &Arguments, form: &str, dir: &Path) -> io::Result<Server> {
    let own = std::env::current_exe()?;
    let program = arguments.floor.clone().unwrap_or_else(|| own.with_file_name("floor"));
    let mut command = Command::new(program);
    command.args(["--form", form, "--shards", &arguments.broker.shards.to_string(), "--dir"]).arg(dir);
    Server::start(&mut command)
}

fn report(subjects: &[Subject], trials: &mut [Vec<LoadReport>]) {
    let mut table = Table::new(&[
        "server",
        "MB/s",
        "records/s",
        "p50 ms",
        "p99 ms",
        "CPU-s/GB",
        "in kernel",
        "syscalls/request",
        "flushes/s",
        "device bytes/byte",
        "client CPU-s/GB",
    ]);
    for (subject, trials) in subjects.iter().zip(trials) {
        let percentile = |trials: &mut [LoadReport], share: f64| {
            let of_each = trials.iter_mut().map(|trial| trial.latency.percentile_us(share).unwrap_or(f64::NAN) / 1e3);
            median_of(&of_each.collect::<Vec<_>>(), |&ms| ms)
        };
        let (p50, p99) = (percentile(trials, 0.5), percentile(trials, 0.99));
        table.row([
            subject.name().into(),
            number(median_of(trials, LoadReport::mb_per_s)),
            number(median_of(trials, LoadReport::records_per_s)),
            number(p50),
            number(p99),
            number(median_of(trials, LoadReport::cpu_s_per_gb)),
            number(median_of(trials, LoadReport::system_cpu_s_per_gb)),
            number(median_of(trials, LoadReport::syscalls_per_request)),
            number(median_of(trials, LoadReport::flushes_per_s)),
            number(median_of(trials, LoadReport::write_amplification)),
            number(median_of(trials, LoadReport::client_cpu_s_per_gb)),
        ]);
    }
    table.print();
}

/// Prints the ratios; true if the broker is as close to the floor as it must be.
fn verdict(trials: &[Vec<LoadReport>], broker: &[LoadReport]) -> bool {
    let ratio =
        |floor: usize, figure: fn(&LoadReport) -> f64| median_of(broker, figure) / median_of(&trials[floor], figure);
    let throughput = ratio(1, LoadReport::mb_per_s);
    let cpu = ratio(1, LoadReport::cpu_s_per_gb);
    let holds = |yes: bool| if yes { "holds" } else { "missed" };
    let mut table =
        Table::new(&["broker compared with", "throughput", "must be", "CPU per byte", "must be ", "verdict"]);
    let both = throughput >= THROUGHPUT_SHARE_MIN && cpu <= CPU_RATIO_MAX;
    table.row([
        Subject::FloorTwice.name().into(),
        number(throughput),
        format!(">= {THROUGHPUT_SHARE_MIN}"),
        number(cpu),
        format!("<= {CPU_RATIO_MAX}"),
        holds(both).into(),
    ]);
    for (floor, subject) in [(0, Subject::FloorOnce), (2, Subject::FloorKept)] {
        table.row([
            subject.name().into(),
            number(ratio(floor, LoadReport::mb_per_s)),
            "given".into(),
            number(ratio(floor, LoadReport::cpu_s_per_gb)),
            "given".into(),
            "-".into(),
        ]);
    }
    table.print();
    both
}
