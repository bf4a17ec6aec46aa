//! How long `serve` takes from its start until it says that it is ready: on an empty directory, and again on the same one after
//! a clean stop.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use benches::broker::BrokerOptions;
use benches::files::Scratch;
use benches::machine;
use benches::stats::Samples;
use benches::table::{Table, number_or_dash};
use clap::Parser;

#[derive(Parser)]
#[command(about = "From the start of `serve` to its ready line")]
struct Arguments {
    #[command(flatten)]
    broker: BrokerOptions,
    #[arg(long, default_value_t = 11)]
    trials: usize,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    machine::print("ready", &arguments.broker.dir);
    let mut fresh = Samples::default();
    let mut again = Samples::default();
    let mut stop = Samples::default();
    for _ in 0..arguments.trials {
        let scratch = Scratch::new(&arguments.broker.dir, "ready")?;
        for samples in [&mut fresh, &mut again] {
            let broker = arguments.broker.start(&scratch.path().join("data"))?;
            samples.push(broker.server.ready_after());
            let asked = Instant::now();
            broker.server.stop()?;
            stop.push(asked.elapsed());
        }
    }
    let mut table = Table::new(&["what", "median ms", "max ms"]);
    for (what, samples) in [
        ("ready on an empty directory", &mut fresh),
        ("ready after a clean stop", &mut again),
        ("stopped after SIGTERM", &mut stop),
    ] {
        let mut ms = |share| number_or_dash(samples.percentile_us(share).map(|us| us / 1e3));
        table.row([what.into(), ms(0.5), ms(1.0)]);
    }
    table.print();
    let (shards, trials) = (arguments.broker.shards, arguments.trials);
    println!("# {shards} shards, {trials} trials, {:.0} s in all", begin.elapsed().as_secs_f64());
    let within_a_second = fresh.percentile_us(0.5).is_some_and(|us| us < 1e6);
    Ok(ExitCode::from(u8::from(!within_a_second)))
}
