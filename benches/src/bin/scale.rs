//! Many partitions and many connections on one broker: how long they take to make, what each holds of memory while it idles, how long
//! a restart takes, and what unbatched records spread over all of them come to.
//!
//! Held: at most 16 KiB for an idle partition and 8 KiB for an idle connection, and the asked records a second.

use std::io;
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::broker::{Broker, BrokerOptions};
use benches::files::Scratch;
use benches::load::{self, LoadOptions, LoadReport, Target, Until, Watched};
use benches::table::{Table, number};
use benches::{machine, process};
use clap::Parser;

const PARTITION_BYTES_MAX: f64 = 16.0 * 1024.0;
const CONNECTION_BYTES_MAX: f64 = 8.0 * 1024.0;
const TOPIC: &str = "scale";

#[derive(Parser)]
#[command(about = "Many partitions and many connections on one broker")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    #[arg(long, default_value_t = 10_000)]
    partitions: u32,
    /// Connections that say nothing.
    #[arg(long, default_value_t = 10_000)]
    idle_connections: usize,
    /// Connections that produce at the same time.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Unbatched records a second that must come through.
    #[arg(long, default_value_t = 20_000.0)]
    records_per_s: f64,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    process::raise_open_files();
    machine::print("scale", &arguments.broker.dir);
    let scratch = Scratch::new(&arguments.broker.dir, "scale")?;
    let data = scratch.path().join("data");
    let mut table = Table::new(&["figure", "value", "unit"]);
    let mut row = |figure: &str, value: f64, unit: &str| table.row([figure.into(), number(value), unit.into()]);

    let broker = arguments.broker.start(&data)?;
    let partition_bytes = create(&arguments, &broker, &mut row)?;
    let unbatched = unbatched(&arguments, &broker, &mut row)?;
    broker.server.kill()?;
    let broker = arguments.broker.start(&data)?;
    row("ready after kill -9", broker.server.ready_after().as_secs_f64(), "s");
    broker.server.stop()?;
    let broker = arguments.broker.start(&data)?;
    row("ready after a clean stop", broker.server.ready_after().as_secs_f64(), "s");
    produce_on_many(&arguments, &broker, &mut row)?;
    broker.server.stop()?;
    // One that has never had anything to do: what it frees later is no room for connections to hide in.
    let broker = arguments.broker.start(&scratch.path().join("fresh"))?;
    let connection_bytes = idle(&arguments, &broker, &mut row)?;
    broker.server.stop()?;
    table.print();
    println!("# {} shards, 1 client thread, {:.0} s in all", arguments.broker.shards, begin.elapsed().as_secs_f64());
    let holds = partition_bytes <= PARTITION_BYTES_MAX
        && connection_bytes <= CONNECTION_BYTES_MAX
        && unbatched >= arguments.records_per_s;
    Ok(ExitCode::from(u8::from(!holds)))
}

fn resident(broker: &Broker) -> f64 {
    process::resident_bytes(broker.server.pid()).map_or(f64::NAN, |bytes| bytes as f64)
}

/// Makes the topic; the bytes that each partition holds.
fn create(arguments: &Arguments, broker: &Broker, row: &mut impl FnMut(&str, f64, &str)) -> io::Result<f64> {
    let (before, started) = (resident(broker), Instant::now());
    load::prepare_topic(broker.kafka, TOPIC, arguments.partitions, &[])?;
    row("create the topic", started.elapsed().as_secs_f64(), "s");
    let each = (resident(broker) - before) / f64::from(arguments.partitions);
    row("memory of an idle partition", each, "bytes");
    Ok(each)
}

fn options(arguments: &Arguments, connections: usize, rate: Option<f64>) -> LoadOptions {
    LoadOptions {
        topic: TOPIC.into(),
        partitions: arguments.partitions,
        record_bytes: 100,
        batch_bytes: 1,
        batches: 1,
        connections,
        in_flight: 5,
        rate,
        produce_version: 9,
        client_threads: 1,
    }
}

fn run(arguments: &Arguments, broker: &Broker, options: &LoadOptions) -> io::Result<LoadReport> {
    let until =
        Until::Elapsed { warm_up: Duration::from_secs(2), duration: Duration::from_secs_f64(arguments.seconds) };
    let watched = Watched { pid: broker.server.pid(), device: None };
    load::run(broker.kafka, Target::Kafka, options, until, Some(&watched))
}

/// One record a batch, round robin over all partitions: at the asked rate, then as fast as it goes.
fn unbatched(arguments: &Arguments, broker: &Broker, row: &mut impl FnMut(&str, f64, &str)) -> io::Result<f64> {
    let mut asked = run(arguments, broker, &options(arguments, 16, Some(arguments.records_per_s)))?;
    row("unbatched records at the asked rate", asked.records_per_s(), "records/s");
    row("  p99, from when each was due", ms(&mut asked, 0.99), "ms");
    row("  server CPU", asked.cpu_us_per_record(), "us/record");
    let mut most = run(arguments, broker, &options(arguments, 64, None))?;
    row("unbatched records, as fast as it goes", most.records_per_s(), "records/s");
    row("  p99", ms(&mut most, 0.99), "ms");
    row("  server CPU", most.cpu_us_per_record(), "us/record");
    Ok(most.records_per_s())
}

fn ms(report: &mut LoadReport, share: f64) -> f64 {
    report.latency.percentile_us(share).map_or(f64::NAN, |us| us / 1e3)
}

/// Opens connections that say nothing; the bytes that each holds.
fn idle(arguments: &Arguments, broker: &Broker, row: &mut impl FnMut(&str, f64, &str)) -> io::Result<f64> {
    load::prepare_topic(broker.kafka, "before", 1, &[])?;
    let (before, started) = (resident(broker), Instant::now());
    let connections: Vec<_> =
        (0..arguments.idle_connections).map(|_| TcpStream::connect(broker.kafka)).collect::<io::Result<_>>()?;
    // One more round trip: those before it have been taken up by then.
    load::prepare_topic(broker.kafka, "one-more", 1, &[])?;
    row("open the idle connections", started.elapsed().as_secs_f64(), "s");
    let each = (resident(broker) - before) / connections.len() as f64;
    row("memory of an idle connection", each, "bytes");
    Ok(each)
}

/// A record of 1 KB a request, one request at a time on each connection.
fn produce_on_many(arguments: &Arguments, broker: &Broker, row: &mut impl FnMut(&str, f64, &str)) -> io::Result<()> {
    for connections in [8, arguments.connections] {
        let figure = format!("{connections} connections");
        let options = LoadOptions { record_bytes: 1000, in_flight: 1, ..options(arguments, connections, None) };
        let mut report = run(arguments, broker, &options)?;
        row(&format!("{figure}, 1 KB a request"), report.records_per_s(), "records/s");
        row("  p50", ms(&mut report, 0.5), "ms");
        row("  p99", ms(&mut report, 0.99), "ms");
    }
    Ok(())
}
