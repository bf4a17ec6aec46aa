//! What a verb runs in: one shard on the production driver, and a client of the cluster on it.
//!
//! The verb's future runs on the shard's thread; the main thread waits for its exit code. Ctrl-C ends the process as it ends any
//! other: nothing here keeps anything that would have to be put away first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base::MIB;
use clap::Args;
use client::{Client, ClientOptions};
use shard::driver::UringOptions;
use shard::probe::{self, Severity};
use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions};

use super::Exit;
use super::failure::Failure;

/// How the cluster is found.
#[derive(Args, Clone, Debug)]
pub struct Connect {
    /// Brokers to begin with; the others are learned from them
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_delimiter = ',')]
    pub bootstrap: Vec<String>,
    /// How long one operation may take, in seconds, with all its tries
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
}

impl Connect {
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// A client that has reached a broker.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn client(&self, shard: &Shard) -> Result<Client, Failure> {
        for address in &self.bootstrap {
            if !address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
                let what = format!("`{address}` is no broker's address");
                return Err(
                    Failure::new(Exit::WrongUsage, what).remedy("an address is HOST:PORT, as in 127.0.0.1:9092")
                );
            }
        }
        let mut options = ClientOptions::new(self.bootstrap.clone());
        options.timeout = self.timeout();
        // A person waits: what is not there now is reported as not there.
        options.unknown_topic_wait = Duration::ZERO;
        options.connection.connect_timeout = options.connection.connect_timeout.min(self.timeout());
        options.connection.request_timeout = options.connection.request_timeout.min(self.timeout());
        let client = Client::new(shard, options);
        client.any_connection().await?;
        Ok(client)
    }
}

/// `future`, or `None` once so much time has passed; the future is dropped then.
pub async fn within<T>(shard: &Shard, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut limit) = (pin!(future), pin!(shard.sleep(limit)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => limit.as_mut().poll(context).map(|_| None),
    })
    .await
}

/// Runs a verb on a shard of its own and reports how it failed, if it did.
pub fn run<F>(verb: impl FnOnce(Shard) -> F + Clone + Send + 'static) -> Exit
where
    F: Future<Output = Result<Exit, Failure>> + 'static,
{
    let main = move |shard: Shard| async move { verb(shard).await.unwrap_or_else(|failure| failure.report()) };
    on_shard(main).unwrap_or_else(|error| cannot_start(&error).report())
}

/// Runs something on a shard of its own.
///
/// # Errors
/// The shard can't be started, for want of io_uring most likely.
pub fn on_shard<T, F>(main: impl FnOnce(Shard) -> F + Clone + Send + 'static) -> std::io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let options = SpawnOptions {
        pin: false,
        // A client has a handful of sockets and files.
        uring: UringOptions {
            submission_entries: 128,
            descriptors_max: 1024,
            recv_buffers: 64,
            ..UringOptions::default()
        },
        shard: ShardOptions { arena_bytes: 128 * MIB, ..ShardOptions::default() },
    };
    let threads = spawn_shards(&options, vec![()], move |shard: Shard, ()| main(shard))?;
    Ok(threads.join().pop().expect("one shard was started"))
}

fn cannot_start(error: &std::io::Error) -> Failure {
    let report = probe::probe(None);
    let reasons = report.findings.iter().filter(|finding| finding.severity == Severity::Fatal);
    let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
    let failure = Failure::failed(format!("io_uring, which everything here runs on, can't be set up: {error}"));
    if reasons.is_empty() { failure } else { failure.remedy(reasons.join("\n  ")) }
}
