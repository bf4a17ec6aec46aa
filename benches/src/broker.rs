//! The broker under measurement: its binary, started on a data directory of the measurement's own.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::server::Server;

#[derive(Clone, Debug, Args)]
pub struct BrokerOptions {
    /// The broker's binary.
    #[arg(long, default_value = "target/release/tidemill")]
    pub broker: PathBuf,
    #[arg(long, default_value_t = 2)]
    pub shards: usize,
    /// More arguments for `serve`, separated by spaces.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub serve_arguments: String,
    /// Where data directories are made; they are removed again.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
}

/// A broker that is ready.
#[derive(Debug)]
pub struct Broker {
    pub server: Server,
    pub kafka: SocketAddr,
    log: PathBuf,
}

impl BrokerOptions {
    /// Starts it on `data_dir`; its log goes to a file beside that directory.
    ///
    /// # Errors
    /// When it does not become ready; its log is shown then.
    pub fn start(&self, data_dir: &Path) -> io::Result<Broker> {
        let log = data_dir.with_extension("log");
        let mut command = Command::new(&self.broker);
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--shards"]);
        command.arg(self.shards.to_string()).arg("--data-dir").arg(data_dir);
        command.args(self.serve_arguments.split_whitespace()).stderr(Stdio::from(File::create(&log)?));
        let server = Server::start(&mut command).map_err(|error| {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            io::Error::other(format!("{error}\n{said}"))
        })?;
        let kafka = server.ready_value("kafka").and_then(|address| address.parse().ok());
        let kafka = kafka.ok_or_else(|| io::Error::other("the ready line has no kafka=ADDRESS"))?;
        Ok(Broker { server, kafka, log })
    }
}

impl Broker {
    /// Lines of its log that hold `word`.
    #[must_use]
    pub fn log_lines(&self, word: &str) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
    }
}
