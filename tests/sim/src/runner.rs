//! Runs a simulation over many seeds: the pinned ones, then fresh ones from a base that is printed, so that any run can be repeated.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SIM_SEED` | run this one seed, and show what happened before it failed |
//! | `SIM_BASE` | the base of the fresh seeds, instead of the time |
//! | `SIM_SEEDS` | how many fresh seeds |
//! | `SIM_KEEP_GOING` | go on after a failure, and list them all |
//! | `SIM_LINES` | how many lines of the trace to show with `SIM_SEED` |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::faults::Register;
use crate::world::{Failure, World};

/// One simulation that seeds are run through.
pub struct Simulation {
    /// Its name in the list of pinned seeds, and the test's.
    pub name: &'static str,
    /// The run of one seed: it fills the report in as it goes.
    pub run: fn(&mut World, &mut Report, u64) -> Result<(), Failure>,
    /// What each run of all seeds must have met.
    pub must_meet: &'static [&'static str],
    pub fresh_seeds: u64,
    /// At least so many operations of clients in each seed.
    pub operations_min: u64,
}

/// What one seed did.
#[derive(Default)]
pub struct Report {
    pub register: Register,
    /// Operations of clients.
    pub operations: u64,
}

/// A seed that failed.
pub struct Failed {
    pub seed: u64,
    pub failure: Failure,
    pub lines: Vec<String>,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one seed in a world of its own.
pub fn run_seed(simulation: &Simulation, seed: u64, keep_lines: bool) -> (Report, u64, Option<Failed>) {
    let mut world = World::new(seed);
    world.state().trace.keep = keep_lines;
    let mut report = Report::default();
    let result = (simulation.run)(&mut world, &mut report, seed);
    report.register.merge(&world.state().register);
    let hash = world.state().trace.hash();
    let lines = world.state().trace.lines().map(str::to_owned).collect();
    (report, hash, result.err().map(|failure| Failed { seed, failure, lines }))
}

/// The seeds pinned for a simulation: lines of `name seed`, with comments after `#`.
fn pinned(list: &str, name: &str) -> Vec<u64> {
    list.lines()
        .filter_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            (words.next()? == name).then(|| words.next()?.parse().ok()).flatten()
        })
        .collect()
}

/// What a run of many seeds has come to so far.
struct Tally<'a> {
    simulation: &'a Simulation,
    total: Report,
    seeds_done: u64,
    operations_least: u64,
    failures: Vec<String>,
}

impl Tally<'_> {
    fn note(&mut self, seed: u64, report: &Report, failed: Option<Failed>) {
        let Simulation { name, operations_min, .. } = *self.simulation;
        self.seeds_done += 1;
        self.total.operations += report.operations;
        self.total.register.merge(&report.register);
        self.operations_least = self.operations_least.min(report.operations);
        let failure = match failed {
            Some(failed) => failed.failure.to_string(),
            None if report.operations < operations_min => {
                format!("only {} operations of clients", report.operations)
            }
            None => return,
        };
        println!("sim {name}: FAILED after {} seeds: SIM_SEED={seed} cargo test -p sim --test {name}", self.seeds_done);
        println!("{name}, seed {seed}: {failure}");
        self.failures.push(format!("seed {seed}: {failure}"));
    }
}

/// Runs all seeds, as many at once as there are cores: each has a world of its own in one thread.
///
/// # Panics
/// When a seed fails, or when the run as a whole did not meet what it must.
// The run's own clock and threads: they decide no seed's history but its number.
#[allow(clippy::disallowed_methods)]
pub fn run_all(simulation: &Simulation, pinned_list: &str) {
    if let Some(seed) = variable("SIM_SEED") {
        return run_one(simulation, seed);
    }
    let name = simulation.name;
    let base = variable("SIM_BASE")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_millis() as u64));
    let count = variable("SIM_SEEDS").unwrap_or(simulation.fresh_seeds);
    let mut seeds = pinned(pinned_list, name);
    println!("sim {name}: {} pinned seeds, {count} fresh ones from SIM_BASE={base}", seeds.len());
    seeds.extend((0..count).map(|index| base.wrapping_add(index)));
    let started = Instant::now();
    let mut tally =
        Tally { simulation, total: Report::default(), seeds_done: 0, operations_least: u64::MAX, failures: Vec::new() };
    let keep_going = variable("SIM_KEEP_GOING").is_some();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for _ in 0..workers {
            let (done, next, seeds) = (done.clone(), &next, &seeds);
            scope.spawn(move || {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (report, _, failed) = run_seed(simulation, seed, false);
                    if done.send((seed, report, failed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (seed, report, failed) in results {
            tally.note(seed, &report, failed);
            if !keep_going && !tally.failures.is_empty() {
                // The workers find nobody to tell, and end.
                return;
            }
        }
    });
    let Tally { total, seeds_done, operations_least, failures, .. } = tally;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "sim {name}: {seeds_done} seeds, {} operations of clients ({} a seed, at least {operations_least}), {seconds:.1} s, {:.0} operations/s",
        total.operations,
        total.operations / seeds_done.max(1),
        total.operations as f64 / seconds
    );
    println!("{}", total.register.lines());
    assert!(failures.is_empty(), "{name}: of {seeds_done} seeds failed {failures:#?}");
    let missing = total.register.missing(simulation.must_meet);
    let whole_run = count >= simulation.fresh_seeds;
    assert!(!whole_run || missing.is_empty(), "never met in {seeds_done} seeds: {missing:?}");
}

fn run_one(simulation: &Simulation, seed: u64) {
    let (report, hash, failed) = run_seed(simulation, seed, true);
    println!("sim {}: seed {seed}, {} operations, trace {hash:016x}", simulation.name, report.operations);
    println!("{}", report.register.lines());
    if let Some(failed) = failed {
        let show = variable("SIM_LINES").unwrap_or(60) as usize;
        for line in &failed.lines[failed.lines.len().saturating_sub(show)..] {
            println!("{line}");
        }
        panic!("{}, seed {seed}: {}", simulation.name, failed.failure);
    }
}

/// Runs some seeds twice.
///
/// # Panics
/// When the two runs of a seed differ: something decides by chance of its own.
pub fn check_determinism(simulation: &Simulation, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (first, first_hash, _) = run_seed(simulation, seed, false);
        let (second, second_hash, _) = run_seed(simulation, seed, false);
        assert_eq!(first_hash, second_hash, "{}, seed {seed}: two runs differ", simulation.name);
        assert_eq!(first.operations, second.operations);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pinned_seeds_are_read_by_name() {
        let list = "# why\nstore 17 # a torn tail\nbroker 5\n\nstore 18\n";
        assert_eq!(super::pinned(list, "store"), [17, 18]);
        assert_eq!(super::pinned(list, "broker"), [5]);
    }
}
