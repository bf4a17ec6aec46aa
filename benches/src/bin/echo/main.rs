//! Echo over loopback TCP: this project's runtime beside glommio, one core each, the same client.
//!
//! Each server is a process of its own, pinned to the first core; the client is this process, on the second. Every connection
//! has one message out at a time. Trials of the two are interleaved; figures are medians over them.

mod client;
mod on_glommio;
mod on_shard;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use benches::server::Server;
use benches::stats::median_of;
use benches::table::{Table, bytes, number};
use benches::{machine, process};
use clap::{Parser, Subcommand, ValueEnum};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Runtime {
    Shard,
    Glommio,
}

#[derive(Parser)]
#[command(about = "Echo servers: the shard runtime against glommio")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Serve>,
    #[arg(long, value_delimiter = ',', default_value = "64,1024,16384")]
    message_bytes: Vec<usize>,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    #[arg(long, default_value_t = 5)]
    trials: usize,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

#[derive(Subcommand)]
enum Serve {
    /// Used by the comparison itself: an echo server that prints `ready address=HOST:PORT`.
    #[command(hide = true)]
    Serve {
        #[arg(value_enum)]
        runtime: Runtime,
        message_bytes: usize,
    },
}

const WARM_UP: Duration = Duration::from_millis(500);

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let Some(Serve::Serve { runtime, message_bytes }) = arguments.command else { return compare(&arguments) };
    // The client's process, which starts this one, is pinned to the other core: what it handed down would be its own.
    process::pin_to(0)?;
    match runtime {
        Runtime::Shard => on_shard::serve(message_bytes),
        Runtime::Glommio => on_glommio::serve(message_bytes),
    }
}

fn announce(address: SocketAddr) {
    println!("ready address={address}");
}

fn compare(arguments: &Arguments) -> std::io::Result<()> {
    let begin = Instant::now();
    machine::print("echo", ".".as_ref());
    process::pin_to(1)?;
    println!("# {} connections, one message out on each; one server core, one client core", arguments.connections);
    let mut table =
        Table::new(&["message", "runtime", "messages/s", "us CPU/message", "syscalls/message", "p50 us", "p99 us"]);
    let mut ratios = Table::new(&["message", "shard/glommio messages/s", "shard/glommio CPU"]);
    for &message_bytes in &arguments.message_bytes {
        let mut trials = [Vec::new(), Vec::new()];
        for _ in 0..arguments.trials {
            for (runtime, trials) in [Runtime::Shard, Runtime::Glommio].into_iter().zip(&mut trials) {
                trials.push(trial(arguments, runtime, message_bytes)?);
            }
        }
        for (name, trials) in ["shard", "glommio"].into_iter().zip(&trials) {
            table.row([
                bytes(message_bytes as u64),
                name.into(),
                number(median_of(trials, |trial| trial.per_second)),
                number(median_of(trials, |trial| trial.cpu_us)),
                number(median_of(trials, |trial| trial.syscalls)),
                number(median_of(trials, |trial| trial.p50_us)),
                number(median_of(trials, |trial| trial.p99_us)),
            ]);
        }
        let ratio = |figure: fn(&client::Trial) -> f64| median_of(&trials[0], figure) / median_of(&trials[1], figure);
        ratios.row([
            bytes(message_bytes as u64),
            number(ratio(|trial| trial.per_second)),
            number(ratio(|trial| trial.cpu_us)),
        ]);
    }
    table.print();
    ratios.print();
    println!("# {} trials each, {:.0} s in all", arguments.trials, begin.elapsed().as_secs_f64());
    Ok(())
}

fn trial(arguments: &Arguments, runtime: Runtime, message_bytes: usize) -> std::io::Result<client::Trial> {
    let name = runtime.to_possible_value().expect("no variant is skipped");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", name.get_name(), &message_bytes.to_string()]);
    let server = Server::start(&mut command)?;
    let address = server.ready_value("address").and_then(|address| address.parse().ok());
    let load = client::Load {
        address: address.ok_or_else(|| std::io::Error::other("no address in the ready line"))?,
        pid: server.pid(),
        connections: arguments.connections,
        message_bytes,
        warm_up: WARM_UP,
        duration: Duration::from_secs_f64(arguments.seconds),
    };
    let trial = client::run(&load)?;
    server.kill()?;
    Ok(trial)
}
