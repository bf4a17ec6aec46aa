//! `tidemill serve`: runs a broker until SIGTERM or SIGINT.
//!
//! The main thread starts the shards and then waits for signals; the first one stops the broker cleanly, a second one ends it at once.

use std::future::poll_fn;
use std::io::Write;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use atomic_waker::AtomicWaker;
use base::ShardId;
use clap::Args;
use shard::probe::{self, Severity};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{MeshSeat, Shard, ShardOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::EnvFilter;

use super::Exit;
use crate::boot::{self, Ready};
use crate::config::NodeConfig;
use crate::message::Message;

/// Options of `serve`; they come on top of the configuration file.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Settings of the node, a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept [default: ./tidemill-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where Kafka clients connect; port 0 takes a free one [default: 127.0.0.1:9092]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// What clients are told to connect to, where that differs from --listen: a wildcard address leads them nowhere
    #[arg(long, value_name = "HOST:PORT")]
    advertised: Option<String>,
    /// Where metrics and health are asked for; port 0 takes a free one, off for none [default: 127.0.0.1:8082]
    #[arg(long, value_name = "IP:PORT")]
    http: Option<String>,
    /// Shards to run, each on a core of its own [default: one for each core this process may use]
    #[arg(long, value_name = "N")]
    shards: Option<u16>,
}

impl ServeArguments {
    fn node_config(&self) -> Result<NodeConfig, String> {
        let mut config = match &self.config {
            Some(path) => NodeConfig::read(path).map_err(|error| error.to_string())?,
            None => NodeConfig::default(),
        };
        if let Some(data_dir) = &self.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        if let Some(listen) = &self.listen {
            config.listen.clone_from(listen);
        }
        if let Some(http) = &self.http {
            config.http.clone_from(http);
        }
        if self.advertised.is_some() {
            config.advertised.clone_from(&self.advertised);
        }
        if self.shards.is_some() {
            config.shards = self.shards;
        }
        let cores = shard::pinning::allowed_cpus().len().max(1);
        config.shards = config.shards.or_else(|| u16::try_from(cores).ok());
        // More shards than cores share them: pinning would only pile them up.
        config.pin &= usize::from(config.shards.unwrap_or(1)) <= cores;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }
}

/// The word to stop, from the signals' thread to shard 0.
#[derive(Clone, Default)]
struct Stop(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    waker: AtomicWaker,
}

impl Stop {
    /// True the first time.
    fn stop(&self) -> bool {
        let first = !self.0.stopped.swap(true, Ordering::AcqRel);
        self.0.waker.wake();
        first
    }

    async fn stopped(&self) {
        poll_fn(|context| {
            self.0.waker.register(context.waker());
            if self.0.stopped.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Runs the broker; the process ends with it.
pub fn run(arguments: &ServeArguments) -> Exit {
    let config = match arguments.node_config() {
        Ok(config) => Arc::new(config),
        Err(error) => {
            complain(&error);
            return Exit::WrongUsage;
        }
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // A log that can't be written, on a full disk say, must not end the broker, nor may the complaint about it.
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false).init();
    if !host_is_fit(&config) {
        return Exit::Failed;
    }
    match start(&config) {
        Ok(never) => match never {},
        Err(error) => {
            complain(&format_args!(
                "the shards can't be started: {error}; `ulimit -l` and `ulimit -n` bound what they may use"
            ));
            Exit::Failed
        }
    }
}

/// Says what the start-up probe found. False when a broker can't run here.
fn host_is_fit(config: &NodeConfig) -> bool {
    let data_dir = config.data_dir.exists().then_some(config.data_dir.as_path());
    let report = probe::probe(data_dir);
    for finding in &report.findings {
        match finding.severity {
            // What is worth knowing is for `doctor` to tell, or for the runtime once it matters.
            Severity::Note => tracing::debug!("{finding}"),
            Severity::Warning => tracing::warn!("{finding}"),
            Severity::Fatal => tracing::error!("{finding}"),
        }
    }
    !report.is_fatal()
}

/// Starts the shards and waits for signals. The process ends in here, by shard 0 or by a second signal.
fn start(config: &Arc<NodeConfig>) -> std::io::Result<std::convert::Infallible> {
    let shards = config.shards.unwrap_or(1);
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let stop = Stop::default();
    let arena_bytes = config.buffer_bytes_of_shard(shards);
    let options = SpawnOptions {
        pin: config.pin,
        shard: ShardOptions { arena_bytes, ..ShardOptions::default() },
        ..SpawnOptions::default()
    };
    let (config, stop_of_shards) = (config.clone(), stop.clone());
    let _threads =
        spawn_shards(&options, boot::seats(shards), move |shard, seat| run_shard(shard, seat, config, stop_of_shards))?;
    for _ in signals.forever() {
        if !stop.stop() {
            tracing::warn!("a second signal: ending at once; the next start recovers from the journal");
            exit(i32::from(Exit::Failed as u8));
        }
    }
    unreachable!("signals are waited for until the process ends")
}

async fn run_shard(shard: Shard, seat: MeshSeat<Message>, config: Arc<NodeConfig>, stop: Stop) {
    let mesh = seat.attach(&shard);
    if shard.id() != ShardId(0) {
        // Its failures are shard 0's to report, which the process ends with.
        let _ = boot::run_other(shard, mesh, config).await;
        return;
    }
    let outcome = boot::run_first(shard, mesh, config, announce, async move { stop.stopped().await }).await;
    let exit_code = match outcome {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(&error);
            Exit::Failed
        }
    };
    exit(i32::from(exit_code as u8));
}

/// Says why the broker ends. Standard error may be a file on the disk that is full: the exit code counts all the same.
fn complain(why: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "tidemill: {why}");
}

/// The one line on standard output; `http=-` where that port is off.
fn announce(ready: &Ready) {
    let Ready { broker, shards, kafka, http } = ready;
    let http = http.map_or_else(|| "-".to_owned(), |addr| addr.to_string());
    let version = env!("CARGO_PKG_VERSION");
    let line = format!("ready broker={broker} shards={shards} kafka={kafka} http={http} version={version}");
    // Nobody may be reading, or the disk that it goes to be full: it serves all the same.
    let _ = writeln!(std::io::stdout(), "{line}");
}
