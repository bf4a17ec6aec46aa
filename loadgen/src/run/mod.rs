//! A run: producers that send what is due, consumers that read and verify it.
//!
//! Threads: each is a shard with producers and consumers of its own. A partition is read, and judged, by one thread; what producers of
//! other threads are told of its records goes there as news through the mesh. Seconds that are over go to the calling thread, which puts
//! them together.

mod beside;
mod consuming;
mod grouping;
mod local;
mod member;
mod producing;
mod setup;
mod thread;
mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use client::Client;
use shard::threads::spawn_shards;
use shard::{MeshBounds, Shard, mesh};

use crate::measure::{Tally, Window};
use crate::membership::MemberTally;
use crate::report::{CatchUp, Consume, Context, Errors, Latency, ProcessUse, Rate, Report, Second, Verified};
use crate::units::addresses;
use crate::workload::Workload;
use local::Over;
use setup::Setup;
pub(crate) use setup::{failed, with_client};
use thread::{Learned, Seat};
use usage::Usage;

/// What is to be run, and against whom.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `host:port` of some brokers, with commas between them.
    pub bootstrap: String,
    pub workload: Workload,
    /// The broker's process, where it runs on this machine: its CPU time is reported then.
    pub broker_pid: Option<u32>,
}

/// Why there are no figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError(pub String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// Runs it. `on_second` is told of each second of the measured time once all threads are past it.
///
/// # Errors
/// The broker can't be reached, refuses the topics, or has no room for them.
pub fn run(plan: &Plan, context: Context, on_second: &mut dyn FnMut(&Second)) -> Result<Report, RunError> {
    let brokers = addresses(&plan.bootstrap);
    let workload = plan.workload.clone();
    let preparing = async move |client: Client| setup::prepare(&client, workload).await;
    let setup = Arc::new(setup::with_client(&brokers, preparing)??);
    let result = run_prepared(plan, &setup, context, on_second);
    let cleaning = {
        let setup = setup.clone();
        async move |client: Client| setup::clean_up(&client, &setup).await
    };
    let cleaned = setup::with_client(&brokers, cleaning).and_then(|cleaned| cleaned);
    // What went wrong first is what is told.
    let report = result?;
    cleaned.map(|()| report)
}

/// As [`run`], with one thread's work on a shard that is there already: in a simulated world, say, where its clock decides.
///
/// # Errors
/// As [`run`].
pub async fn run_on(shard: &Shard, plan: &Plan, context: Context) -> Result<Report, RunError> {
    let client = setup::client(shard, &addresses(&plan.bootstrap));
    let workload = Workload { threads: 1, ..plan.workload.clone() };
    let setup = Arc::new(setup::prepare(&client, workload).await?);
    let (seconds, over) = mpsc::channel();
    let mesh = mesh(1, MeshBounds::default()).pop().expect("a seat for one");
    let seat = Seat { mesh, setup: setup.clone(), broker_pid: plan.broker_pid, seconds };
    let learned = thread::run(shard.clone(), seat).await.map_err(RunError)?;
    let collected = collect(&over, &setup.workload, &mut |_| {});
    setup::clean_up(&client, &setup).await?;
    Ok(report(plan, &setup, context, &collected, vec![learned]))
}

fn run_prepared(
    plan: &Plan,
    setup: &Arc<Setup>,
    context: Context,
    on_second: &mut dyn FnMut(&Second),
) -> Result<Report, RunError> {
    let workload = &setup.workload;
    let (seconds, over) = mpsc::channel();
    let seat = |mesh| Seat { mesh, setup: setup.clone(), broker_pid: plan.broker_pid, seconds: seconds.clone() };
    let seats: Vec<Seat> = mesh(workload.threads, MeshBounds::default()).into_iter().map(seat).collect();
    drop(seconds);
    let threads = spawn_shards(&setup::spawn_options(workload.pin), seats, thread::run)
        .map_err(|error| RunError(format!("the generator's threads can't be started: {error}")))?;
    let collected = collect(&over, workload, on_second);
    let mut learned = Vec::new();
    for result in threads.join() {
        learned.push(result.map_err(RunError)?);
    }
    Ok(report(plan, setup, context, &collected, learned))
}

/// The seconds of all threads together; the last is what came after the measured time.
fn collect(over: &Receiver<Over>, workload: &Workload, on_second: &mut dyn FnMut(&Second)) -> Vec<Tally> {
    let window = Window::new(workload.warm_up, workload.duration);
    let count = window.seconds();
    let mut tallies = vec![Tally::default(); count as usize + 1];
    let mut arrived = vec![0u16; count as usize + 1];
    let mut next = 0;
    // Ends when the last thread has ended.
    while let Ok(Over { second, tally }) = over.recv() {
        tallies[second as usize].add(&tally);
        // A thread may pass over a second in which it had nothing to count, but never goes back.
        arrived[second as usize] += 1;
        while next < count && arrived[next as usize] >= workload.threads {
            on_second(&tallies[next as usize].as_second(next, due_in(workload, next)));
            next += 1;
        }
    }
    tallies
}

/// Records due in a second of the measured time.
fn due_in(workload: &Workload, second: u32) -> u64 {
    let begin = workload.warm_up + Duration::from_secs(u64::from(second));
    let end = (begin + Duration::from_secs(1)).min(workload.warm_up + workload.duration);
    workload.rate.due_between(begin, end).map_or(0, |due| due.round() as u64)
}

fn report(plan: &Plan, setup: &Setup, context: Context, tallies: &[Tally], learned: Vec<Learned>) -> Report {
    let workload = &setup.workload;
    let (measured, after) = tallies.split_at(tallies.len() - 1);
    let mut all = Tally::default();
    measured.iter().for_each(|tally| all.add(tally));
    let in_time = (all.acknowledged, all.acknowledged_bytes, all.delivered);
    after.iter().for_each(|tally| all.add(tally));
    let seconds = workload.duration.as_secs_f64();
    let window = (workload.warm_up, workload.warm_up + workload.duration);
    let due = workload.rate.due_between(window.0, window.1);
    let usage = learned.iter().find_map(|learned| learned.usage);
    let histograms = all.histograms;
    let mut members = MemberTally::default();
    learned.iter().for_each(|learned| members.add(&learned.members));
    let rate = Rate {
        intended: due.map(|due| due / seconds),
        achieved: in_time.0 as f64 / seconds,
        achieved_mb: in_time.1 as f64 / 1e6 / seconds,
        delivered: in_time.2 as f64 / seconds,
        measured_s: seconds,
        due: due.map_or(histograms.produce.len(), |due| due.round() as u64),
        acknowledged: histograms.produce.len(),
        behind_max_ms: all.behind_ns_max as f64 / 1e6,
        unsent: learned.iter().map(|learned| learned.unsent).sum(),
    };
    let consumed = histograms.consume.len();
    let early_share = if consumed > 0 { all.early as f64 / consumed as f64 } else { 0.0 };
    let use_of = |cpu: fn(&Usage) -> Option<Duration>| {
        let usage = usage?;
        Some(process_use(cpu(&usage)?, usage.elapsed, in_time.0))
    };
    Report {
        workload: workload.described(),
        context: Context { bootstrap: plan.bootstrap.clone(), ..context },
        rate,
        produce: Latency::of(&histograms.produce),
        consume: Consume { latency: Latency::of(&histograms.consume), before_acknowledgement: early_share },
        end_to_end: Latency::of(&histograms.end_to_end),
        errors: errors(&learned, all.failed),
        client: use_of(|usage| Some(usage.client_cpu)).unwrap_or_default(),
        broker: use_of(|usage| usage.broker_cpu),
        catch_up: learned.iter().flat_map(|learned| &learned.caught_up).map(caught_up).collect(),
        groups: workload.groups.as_ref().map(|groups| members.figures(groups, workload.duration)),
        verified: verified(&learned, workload.verify && workload.is_read()),
        series: (0..).zip(measured).map(|(second, tally)| tally.as_second(second, due_in(workload, second))).collect(),
        histograms,
        group_histograms: members.histograms,
    }
}

fn process_use(cpu: Duration, elapsed: Duration, records: u64) -> ProcessUse {
    let cpu_s = cpu.as_secs_f64();
    let cpu_us_per_record = if records > 0 { cpu_s * 1e6 / records as f64 } else { 0.0 };
    ProcessUse { cpu_s, cpu_us_per_record, busy_cores: cpu_s / elapsed.as_secs_f64().max(1e-9) }
}

fn caught_up(reader: &beside::CaughtUp) -> CatchUp {
    let elapsed_s = reader.elapsed.as_secs_f64();
    let mb_per_s = if elapsed_s > 0.0 { reader.bytes as f64 / 1e6 / elapsed_s } else { 0.0 };
    CatchUp { bytes: reader.bytes, elapsed_s, mb_per_s, finished: reader.finished }
}

fn errors(learned: &[Learned], failed_records: u64) -> Errors {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for (reason, count) in learned.iter().flat_map(|learned| &learned.reasons) {
        *reasons.entry(reason.clone()).or_default() += count;
    }
    let retried_batches = learned.iter().map(|learned| learned.retried_batches).sum();
    Errors { failed_records, retried_batches, reasons }
}

/// The findings of all threads together.
fn verified(learned: &[Learned], enabled: bool) -> Verified {
    let mut all = Verified { enabled, ..Verified::default() };
    learned.iter().for_each(|learned| all.add(&learned.verified));
    all
}
