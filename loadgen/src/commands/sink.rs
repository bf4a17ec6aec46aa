//! `sink`: a null broker, until SIGTERM or SIGINT.

use std::io::{self, Write};

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::session::{Exit, Failure};
use crate::sink::{Delays, Fault, Pace, SinkOptions, Stall, start};
use crate::units::{Bytes, Span};

#[derive(Clone, Debug, Args)]
pub struct SinkArguments {
    /// Where to listen, which clients are told as well; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// The most that all partitions together keep; the oldest batches go first
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    keep_bytes: Bytes,
    /// Partitions of topics that are created without a number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: u32,
    /// Acknowledge so long after the arrival, by the time since the first Produce request: `5ms`, or `0s:2ms,1s:10ms`
    #[arg(long, value_name = "SCHEDULE", default_value = "0")]
    delay: Delays,
    /// Acknowledge and deliver nothing for a while, counted from the first Produce request: `2s+1s`; may be given again
    #[arg(long, value_name = "AT+LENGTH")]
    stall: Vec<Stall>,
    /// Let records be read so long after they were acknowledged
    #[arg(long, value_name = "SPAN", default_value = "0")]
    deliver_delay: Span,
    /// Do this to the record with this number in its partition, from 0: KIND@NUMBER or KIND@PARTITION/NUMBER, with a kind of drop,
    /// duplicate, swap, corrupt, corrupt-batch, refuse, refuse-and-keep, retry; may be given again
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
}

impl SinkArguments {
    fn options(&self) -> SinkOptions {
        SinkOptions {
            listen: self.listen.clone(),
            keep: self.keep_bytes,
            partitions: self.partitions as usize,
            pace: Pace { delays: self.delay.clone(), stalls: self.stall.clone(), deliver_delay: self.deliver_delay.0 },
            faults: self.fault.clone(),
        }
    }

    pub(super) fn run(&self) -> Exit {
        match self.serve() {
            Ok(()) => Exit::Done,
            Err(error) => Failure(format!("the sink can't be run on {}: {error}", self.listen)).report(),
        }
    }

    fn serve(&self) -> io::Result<()> {
        // Before the ready line: who has read it may already send one.
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let sink = start(self.options())?;
        let mut out = io::stdout();
        writeln!(out, "ready kafka={}", sink.address())?;
        out.flush()?;
        signals.forever().next();
        sink.stop();
        Ok(())
    }
}
