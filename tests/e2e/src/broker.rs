//! One `tidemill serve` process.
//!
//! Owner: the test that started it. Life cycle: [`Launch::start`] waits for the ready line; [`Broker::stop`], [`Broker::kill`] or a drop
//! end it, by its process id, and wait for its end. The kernel kills it, too, when the thread that started it is gone, so that nothing
//! outlives a test that was itself killed.
//!
//! Every wait has an end: a broker that hangs fails its test with its log.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long a start or a stop may take before the test gives up: far more than any should.
const PATIENCE_SECS: i64 = 60;

/// How to start a broker.
#[derive(Clone, Debug)]
pub struct Launch {
    pub data_dir: PathBuf,
    pub listen: String,
    pub shards: u16,
    /// The text of its configuration file.
    pub config: Option<String>,
    /// `RUST_LOG`.
    pub log_filter: String,
    pub more: Vec<String>,
    /// A program with its arguments that starts the broker in its place, such as prlimit(1).
    pub through: Vec<String>,
}

/// What became of a broker that was to end by itself.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A broker that takes requests.
pub struct Broker {
    child: Child,
    /// Kept open, so that the broker may print.
    _stdout: ChildStdout,
    /// `HOST:PORT` from the ready line.
    pub kafka: String,
    /// `HOST:PORT` of the HTTP port.
    pub http: String,
    /// The whole ready line.
    pub ready: String,
    log: PathBuf,
}

/// The program: built in release by `./verify`, or wherever `TIDEMILL` says.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn program() -> PathBuf {
    let program = std::env::var_os("TIDEMILL").map_or_else(|| target_dir().join("release/tidemill"), PathBuf::from);
    assert!(program.is_file(), "{} is not there; `cargo build --release` first", program.display());
    program
}

/// The root of the repository.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders below the root")
}

/// Where cargo builds to.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that the kernel kills when the thread that starts it ends.
pub fn bound_to_this_thread(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null());
    command
}

impl Launch {
    /// Two shards on a free port.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            listen: "127.0.0.1:0".into(),
            shards: 2,
            config: None,
            log_filter: "info".into(),
            more: Vec::new(),
            through: Vec::new(),
        }
    }

    #[must_use]
    pub fn shards(&self, shards: u16) -> Self {
        Self { shards, ..self.clone() }
    }

    #[must_use]
    pub fn listen(&self, listen: &str) -> Self {
        Self { listen: listen.to_owned(), ..self.clone() }
    }

    #[must_use]
    pub fn config(&self, text: &str) -> Self {
        Self { config: Some(text.to_owned()), ..self.clone() }
    }

    #[must_use]
    pub fn more(&self, arguments: &[&str]) -> Self {
        Self { more: arguments.iter().map(|&argument| argument.to_owned()).collect(), ..self.clone() }
    }

    /// What the broker writes to standard error, over all its starts.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.data_dir.with_extension("log")
    }

    fn spawn(&self) -> Child {
        let log =
            std::fs::File::options().create(true).append(true).open(self.log_path()).expect("the log can be opened");
        let mut command = match self.through.split_first() {
            None => bound_to_this_thread(program()),
            Some((first, rest)) => {
                let mut command = bound_to_this_thread(first);
                command.args(rest).arg(program());
                command
            }
        };
        let shards = self.shards.to_string();
        command.args(["serve", "--listen", &self.listen, "--http", "127.0.0.1:0", "--shards", &shards, "--data-dir"]);
        command.arg(&self.data_dir).args(&self.more).env("RUST_LOG", &self.log_filter);
        if let Some(text) = &self.config {
            let path = self.data_dir.with_extension("toml");
            // Written once: the disk may be full by the next start.
            if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                std::fs::write(&path, text).expect("the configuration can be written");
            }
            command.arg("--config").arg(path);
        }
        command.stdout(Stdio::piped()).stderr(log).spawn().expect("setpriv (util-linux) is there")
    }

    /// Starts it and waits for its ready line.
    ///
    /// # Panics
    /// When it ends instead, or says nothing in time; with its log.
    #[must_use]
    pub fn start(&self) -> Broker {
        let mut child = self.spawn();
        let mut stdout = child.stdout.take().expect("standard output is a pipe");
        let ready = read_line(&mut stdout);
        let value = |key| ready.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
        let addresses = value("kafka=").zip(value("http=")).filter(|_| ready.starts_with("ready "));
        let Some((kafka, http)) = addresses else {
            let _ = child.kill();
            let status = child.wait();
            panic!(
                "no ready line but {ready:?}; it ended with {status:?}; its log ends with\n{}",
                tail(&self.log_path())
            )
        };
        Broker { child, _stdout: stdout, kafka, http, ready, log: self.log_path() }
    }

    /// Starts it and kills it once its log says `text` after this start, or once it is ready. True when `text` came first.
    ///
    /// # Panics
    /// When it does neither in time.
    pub fn start_and_kill_at(&self, text: &str) -> bool {
        let log = self.log_path();
        let before = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        let mut child = self.spawn();
        let mut stdout = child.stdout.take().expect("standard output is a pipe");
        // The log is a file, which nobody can wait for: between looks this waits for the ready line.
        let mut ready = false;
        let found = loop {
            let log = std::fs::read(&log).unwrap_or_default();
            let new = log.get(usize::try_from(before).unwrap_or(0)..).unwrap_or_default();
            if String::from_utf8_lossy(new).contains(text) {
                break true;
            }
            if ready {
                break false;
            }
            ready = readable(&stdout, Timespec { tv_sec: 0, tv_nsec: 200_000 });
        };
        child.kill().expect("it is ours");
        child.wait().expect("a child can be waited for");
        let mut rest = Vec::new();
        let _ = stdout.read_to_end(&mut rest);
        found
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn run(&self) -> Ended {
        let log = self.log_path();
        let before = usize::try_from(std::fs::metadata(&log).map_or(0, |meta| meta.len())).unwrap_or(0);
        let mut child = self.spawn();
        let status = wait(&mut child, &log);
        let mut stdout = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("it prints UTF-8");
        let stderr = std::fs::read(&log).unwrap_or_default().split_off(before);
        Ended { code: status.code(), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
    }
}

impl Broker {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that was written to standard error so far, over all starts with this data directory.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the broker is our child and was not waited for");
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// When it had ended before.
    pub fn kill(mut self) {
        let ended = self.child.try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "the broker had ended with {ended:?}; its log ends with\n{}", tail(&self.log));
        self.signal(Signal::KILL);
        self.child.wait().expect("a child can be waited for");
    }

    /// SIGTERM, and its exit status.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        wait(&mut self.child, &self.log)
    }

    /// A number from `/proc/PID/{file}`, from the line that starts with `name`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn proc_number(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.pid())).expect("the broker runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says so");
        line.trim_start_matches(':').split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Ended already, unless a test failed.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            eprintln!("the broker's log ends with\n{}", tail(&self.log));
        }
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn readable(fd: &impl AsFd, patience: Timespec) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&patience)).expect("descriptors can be polled") > 0
}

/// One line, or what came of it by the end or in time.
fn read_line(stdout: &mut ChildStdout) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && readable(stdout, Timespec { tv_sec: PATIENCE_SECS, tv_nsec: 0 }) {
        let mut byte = [0];
        match stdout.read(&mut byte).expect("a pipe can be read") {
            0 => break,
            _ => line.push(byte[0]),
        }
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn wait(child: &mut Child, log: &Path) -> ExitStatus {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the broker is our child and was not waited for");
    let ended = readable(&pidfd, Timespec { tv_sec: PATIENCE_SECS, tv_nsec: 0 });
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().expect("a child can be waited for");
    assert!(ended, "the broker does not end; its log ends with\n{}", tail(log));
    status
}
