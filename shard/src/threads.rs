//! Threads: one per shard, pinned to its core, and the two that serve them all.
//!
//! Owner: whoever starts the process (`boot`), and tests. Order of a start: the fleet (peers, janitor, helper), the shard threads,
//! each of which pins itself and makes its ring; then, once every ring is known to all, the shards run. A panic on any of these
//! threads ends the process: the state it leaves behind belongs to nobody.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use base::ShardId;

use crate::driver::Driver;
use crate::driver::helper::{self, JOBS_MAX};
use crate::driver::janitor::Janitor;
use crate::driver::uring::peers::UringPeers;
use crate::driver::uring::returns::{Messenger, Returns};
use crate::driver::uring::{Uring, UringOptions, UringSeat};
use crate::pinning;
use crate::shard::{Shard, ShardOptions};

/// The threads that serve all shards; they end after the last [`UringSeat`], or the [`Uring`] made of it, is gone.
#[must_use = "join it, so that locks are known to be released"]
pub struct Fleet {
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Waits for the janitor and the helper; they end by themselves when no shard is left.
    pub fn join(self) {
        self.threads.into_iter().for_each(join);
    }
}

/// A seat for each shard, and the janitor and the helper that serve them.
pub fn fleet(shards: u16) -> io::Result<(Vec<UringSeat>, Fleet)> {
    let peers = Arc::new(UringPeers::new(shards)?);
    let (lanes, returns): (Vec<_>, Vec<_>) = (0..shards).map(|_| mpsc::channel()).unzip();
    let returns_to = Returns::new(peers.clone(), lanes);
    let (janitor_sender, requests) = mpsc::channel();
    let (helper_sender, jobs) = mpsc::sync_channel(JOBS_MAX);
    let janitor = Janitor::new(returns_to.clone(), Messenger::new(peers.clone())?);
    let helper_returns = returns_to.clone();
    let threads = vec![
        spawn("janitor".into(), move || {
            stand_back();
            janitor.run(&requests);
        })?,
        spawn("helper".into(), move || {
            stand_back();
            helper::run(&helper_returns, &jobs);
        })?,
    ];
    let seat = |(id, returns)| UringSeat {
        id: ShardId(id),
        peers: peers.clone(),
        janitor: janitor_sender.clone(),
        helper: helper_sender.clone(),
        returns_to: returns_to.clone(),
        returns,
    };
    Ok(((0..shards).zip(returns).map(seat).collect(), Fleet { threads }))
}

/// How the shards of a process are set up.
#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    /// Bind shard `n` to the nth CPU that this process may use.
    pub pin: bool,
    pub uring: UringOptions,
    /// For every shard; the id is set for each.
    pub shard: ShardOptions,
}

/// Shards that run.
#[must_use = "join it to learn how the shards ended"]
pub struct ShardThreads<T> {
    /// `None` is the end of a shard that was never told to start.
    shards: Vec<JoinHandle<Option<T>>>,
    fleet: Fleet,
}

impl<T> ShardThreads<T> {
    /// Waits for every shard's `main`, in the order of the shards, and then for the janitor and the helper.
    pub fn join(self) -> Vec<T> {
        let results =
            self.shards.into_iter().map(|shard| join(shard).expect("all shards were told to start")).collect();
        self.fleet.join();
        results
    }
}

/// Runs `main` on a shard of its own for each of `seats` (a mesh seat, say). Returns once all of them run.
///
/// # Errors
/// When a ring cannot be set up (`crate::probe` knows why), or a thread cannot be started or pinned; no shard runs then.
pub fn spawn_shards<S, T, F>(
    options: &SpawnOptions,
    seats: Vec<S>,
    main: impl FnOnce(Shard, S) -> F + Clone + Send + 'static,
) -> io::Result<ShardThreads<T>>
where
    S: Send + 'static,
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let count = u16::try_from(seats.len()).map_err(|_| io::Error::other("more shards than 65,535"))?;
    let (uring_seats, fleet) = fleet(count)?;
    let cpus = if options.pin { pinning::allowed_cpus() } else { Vec::new() };
    let (report, reports) = mpsc::channel();
    let mut shards = Vec::with_capacity(seats.len());
    let mut starts = Vec::with_capacity(seats.len());
    for (n, (uring_seat, seat)) in uring_seats.into_iter().zip(seats).enumerate() {
        let (start, started) = mpsc::channel();
        starts.push(start);
        let place = Place { cpu: pinning::cpu_for(n, &cpus), options: options.clone(), seat: uring_seat };
        let (report, main) = (report.clone(), main.clone());
        let run = move || run_shard(place, &report, &started, |shard| main(shard, seat));
        shards.push(spawn(format!("shard-{n}"), run)?);
    }
    drop(report);
    // Every ring is announced before any shard may send another a message. On an error the starts are dropped, and all end.
    for _ in 0..count {
        reports.recv().expect("each shard reports, or takes the process with it")?;
    }
    for start in starts {
        start.send(()).expect("a shard that reported waits for its start");
    }
    Ok(ShardThreads { shards, fleet })
}

struct Place {
    cpu: Option<usize>,
    options: SpawnOptions,
    seat: UringSeat,
}

/// The life of a shard's thread.
fn run_shard<T, F: Future<Output = T> + 'static>(
    place: Place,
    report: &Sender<io::Result<()>>,
    started: &Receiver<()>,
    main: impl FnOnce(Shard) -> F,
) -> Option<T>
where
    T: 'static,
{
    let Place { cpu, options, seat } = place;
    let shard_options = ShardOptions { id: seat.id(), ..options.shard };
    let made = cpu.map_or(Ok(()), pinning::pin_to).and_then(|()| Uring::new(seat, options.uring));
    let driver = match made {
        Ok(driver) => driver,
        Err(error) => {
            // Whoever starts the shards has already given up if nobody listens.
            let _ = report.send(Err(error));
            return None;
        }
    };
    let shard = Shard::new(shard_options, Driver::Uring(Box::new(driver)));
    let _ = report.send(Ok(()));
    started.recv().ok()?;
    let result = shard.run(main(shard.clone()));
    shard.shutdown();
    Some(result)
}

/// Shards need the core more than the calling thread, which has none of its own: they go first wherever it is. Not by so much that a
/// shard that is always busy keeps it from its work.
fn stand_back() {
    const NICE: i32 = 10;
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
        tracing::debug!(%error, "this thread competes with the shards for their cores");
    }
}

/// This is the one place that starts threads.
fn spawn<T: Send + 'static>(name: String, run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    let run = move || {
        let _guard = AbortOnPanic;
        run()
    };
    std::thread::Builder::new().name(name).spawn(run)
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("a panic on this thread would have ended the process")
}

/// Ends the process when a panic unwinds through it; the panic's message is out by then.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
