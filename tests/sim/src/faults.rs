//! What may go wrong, how often, and the register of what did.
//!
//! Rates are in parts per million of the operations they concern. The register counts by name; a run as a whole must have met
//! every name on its list, or it proved less than it says.

use std::collections::BTreeMap;

use base::Random;

/// Faults of one machine's disk.
#[derive(Clone, Debug, Default)]
pub struct DiskFaults {
    pub read_error_ppm: u64,
    pub write_error_ppm: u64,
    pub sync_error_ppm: u64,
    /// An operation that takes up to a second.
    pub stall_ppm: u64,
    /// Only files whose path contains this; empty: all.
    pub only: &'static str,
}

impl DiskFaults {
    pub fn hits(&self, path: &str, ppm: u64, random: &mut Random) -> bool {
        ppm > 0 && path.contains(self.only) && random.chance(ppm, 1_000_000)
    }
}

/// How often each thing happened.
#[derive(Clone, Default, Debug)]
pub struct Register {
    counts: BTreeMap<&'static str, u64>,
}

impl Register {
    pub fn hit(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    pub fn add(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(name).or_insert(0) += count;
        }
    }

    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            self.add(name, *count);
        }
    }

    /// The names of the list that never came up.
    pub fn missing<'a>(&self, expected: &[&'a str]) -> Vec<&'a str> {
        expected.iter().copied().filter(|name| self.count(name) == 0).collect()
    }

    pub fn lines(&self) -> String {
        self.counts.iter().map(|(name, count)| format!("  {name}: {count}\n")).collect()
    }
}
