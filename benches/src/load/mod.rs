//! A Produce load on raw sockets: requests encoded once, sent again and again, replies checked. The same load drives the
//! broker, real Kafka and the floor program, so what differs between their figures is theirs.
//!
//! It is not a producer: no batching, no retry, no idempotence. Everything it sends was built before the clock starts, so that
//! it takes as little as it can of a machine that it shares with the server.

mod engine;
mod setup;
mod template;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::device::{Device, DeviceCounts};
use crate::process::{CpuTime, cpu_time};
use crate::stats::Samples;
use crate::syscalls::SyscallCount;

pub use setup::prepare_topic;

/// What is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Target {
    /// A broker: the topic is created if it is missing, and every reply must carry each partition without an error.
    #[default]
    Kafka,
    /// The floor program: no topics, and replies without partitions.
    Floor,
}

/// The shape of the load.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    #[arg(long, default_value = "bench")]
    pub topic: String,
    #[arg(long, default_value_t = 24)]
    pub partitions: u32,
    /// Bytes of a record's value.
    #[arg(long, default_value_t = 1000)]
    pub record_bytes: usize,
    /// A batch is filled with records up to this size.
    #[arg(long, default_value_t = 100_000)]
    pub batch_bytes: usize,
    /// Batches, each of another partition, in one request: 1 is how librdkafka sends, the Java client sends several.
    #[arg(long, default_value_t = 1)]
    pub batches: u32,
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
    /// Requests that a connection has open at once.
    #[arg(long, default_value_t = 4)]
    pub in_flight: usize,
    /// Requests a second over all connections, each counted from when it was due; as many as go where it is not given.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Version of Produce, 9 to 12.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(i16).range(9..=12))]
    pub produce_version: i16,
    /// Threads of the client.
    #[arg(long, default_value_t = 1)]
    pub client_threads: usize,
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Measure for this long after the warm-up.
    Elapsed { warm_up: Duration, duration: Duration },
    /// Send this many bytes of record batches and wait for all replies.
    Bytes(u64),
}

/// What a load learned, about the measured time only.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    pub elapsed: Duration,
    pub requests: u64,
    pub records: u64,
    /// Bytes of record batches acknowledged.
    pub batch_bytes: u64,
    /// From handing a request to the kernel, or with a rate from when it was due, to its reply.
    pub latency: Samples,
    pub client_cpu: Duration,
    pub server: Option<ServerUse>,
}

/// What the server used meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerUse {
    pub cpu: CpuTime,
    pub syscalls: Option<u64>,
    pub device: Option<DeviceCounts>,
}

impl LoadReport {
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.batch_bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    #[must_use]
    pub fn records_per_s(&self) -> f64 {
        self.records as f64 / self.elapsed.as_secs_f64()
    }

    /// The server's CPU seconds for each gigabyte; NaN when it was not watched.
    #[must_use]
    pub fn cpu_s_per_gb(&self) -> f64 {
        self.per_gb(|server| Some(server.cpu.total().as_secs_f64()))
    }

    /// The same of the part in the kernel.
    #[must_use]
    pub fn system_cpu_s_per_gb(&self) -> f64 {
        self.per_gb(|server| Some(server.cpu.system.as_secs_f64()))
    }

    /// The server's CPU microseconds for each record; NaN when it was not watched.
    #[must_use]
    pub fn cpu_us_per_record(&self) -> f64 {
        let cpu = self.server.map_or(f64::NAN, |server| server.cpu.total().as_secs_f64());
        cpu * 1e6 / self.records as f64
    }

    /// The client's own.
    #[must_use]
    pub fn client_cpu_s_per_gb(&self) -> f64 {
        self.client_cpu.as_secs_f64() / (self.batch_bytes as f64 / 1e9)
    }

    /// Bytes on the device for each byte acknowledged.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        self.per_gb(|server| Some(server.device?.written_bytes as f64 / 1e9))
    }

    /// Device flushes a second.
    #[must_use]
    pub fn flushes_per_s(&self) -> f64 {
        let flushes = self.server.and_then(|server| server.device).map_or(f64::NAN, |device| device.flushes as f64);
        flushes / self.elapsed.as_secs_f64()
    }

    #[must_use]
    pub fn syscalls_per_request(&self) -> f64 {
        let syscalls = self.server.and_then(|server| server.syscalls).map_or(f64::NAN, |calls| calls as f64);
        syscalls / self.requests as f64
    }

    fn per_gb(&self, figure: impl Fn(ServerUse) -> Option<f64>) -> f64 {
        self.server.and_then(figure).map_or(f64::NAN, |figure| figure / (self.batch_bytes as f64 / 1e9))
    }
}

/// The server as the load watches it.
#[derive(Clone, Debug)]
pub struct Watched {
    pub pid: u32,
    /// The device its data lies on.
    pub device: Option<Device>,
}

/// What the threads of the client are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Replies between `measure_from` and `measure_to` count.
    pub measure_from: Instant,
    /// `None`: measure, and send, until `requests` are answered.
    pub measure_to: Option<Instant>,
    /// Requests that this thread sends at most.
    pub requests: u64,
    /// Between the requests of this thread, where there is a rate.
    pub interval: Option<Duration>,
}

/// Runs the load.
///
/// # Errors
/// When a connection fails, a reply is not what it should be, or the broker refused a batch.
pub fn run(
    address: SocketAddr,
    target: Target,
    options: &LoadOptions,
    until: Until,
    watched: Option<&Watched>,
) -> io::Result<LoadReport> {
    let templates = template::templates(options)?;
    let threads = options.client_threads.clamp(1, options.connections.max(1));
    let begin = Instant::now();
    let interval = options.rate.map(|rate| Duration::from_secs_f64(threads as f64 / rate));
    let plan = |thread: usize| match until {
        Until::Elapsed { warm_up, duration } => {
            let measure_to = Some(begin + warm_up + duration);
            Plan { measure_from: begin + warm_up, measure_to, requests: u64::MAX, interval }
        }
        Until::Bytes(bytes) => {
            let requests = bytes.div_ceil(templates.batch_bytes_per_request());
            let share = requests / threads as u64 + u64::from((thread as u64) < requests % threads as u64);
            Plan { measure_from: begin, measure_to: None, requests: share, interval }
        }
    };
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        for thread in 0..threads {
            let (templates, plan) = (&templates, plan(thread));
            let share = options.connections / threads + usize::from(thread < options.connections % threads);
            let place = engine::Place { address, target, first_connection: thread * share, connections: share };
            handles.push(scope.spawn(move || engine::run(&place, options, templates, &plan)));
        }
        let (watch, used) = match until {
            Until::Elapsed { warm_up, duration } => {
                sleep_until(begin + warm_up);
                let watch = watched.map(Watch::begin);
                sleep_until(begin + warm_up + duration);
                (None, watch.map(Watch::end))
            }
            Until::Bytes(_) => (watched.map(Watch::begin), None),
        };
        let mut report = LoadReport::default();
        for handle in handles {
            let part = handle.join().expect("the load's threads do not panic")?;
            report.requests += part.requests;
            report.records += part.requests * templates.records_per_request();
            report.batch_bytes += part.requests * templates.batch_bytes_per_request();
            report.latency.merge(&part.latency);
            report.client_cpu += part.cpu;
            report.elapsed = report.elapsed.max(part.elapsed);
        }
        report.server = used.or_else(|| watch.map(Watch::end));
        Ok(report)
    })
}

fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// The counters of the server from one time to another.
struct Watch<'a> {
    watched: &'a Watched,
    cpu: CpuTime,
    device: Option<DeviceCounts>,
    syscalls: Option<SyscallCount>,
}

impl<'a> Watch<'a> {
    fn begin(watched: &'a Watched) -> Self {
        Self {
            watched,
            cpu: cpu_time(watched.pid).unwrap_or_default(),
            device: watched.device.as_ref().and_then(Device::counts),
            syscalls: SyscallCount::start(watched.pid),
        }
    }

    fn end(self) -> ServerUse {
        let cpu = cpu_time(self.watched.pid).unwrap_or_default();
        let device = self.watched.device.as_ref().and_then(Device::counts);
        ServerUse {
            cpu: cpu.since(self.cpu),
            syscalls: self.syscalls.as_ref().map(SyscallCount::count),
            device: device.zip(self.device).map(|(end, begin)| end.since(begin)),
        }
    }
}
