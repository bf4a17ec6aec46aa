//! What a store counts of its own work, for whoever watches it.
//!
//! Owner: a shard's store. Counters only grow from the store's opening; nothing decides by them.

use base::{Counter, Histogram, Scale};

/// A store's work so far.
#[derive(Debug)]
pub struct StoreMeters {
    /// From the start of a journal write to its end, in nanoseconds; with `durability = "disk"` that includes the flush.
    pub commit_ns: Histogram,
    /// Bytes of each journal write.
    pub commit_bytes: Histogram,
    /// Entries that went into the journal.
    pub commit_entries: Counter,
    /// Appends that found no room in the journal, its queue or memory, each time they tried.
    pub appends_held_back: Counter,
    /// Appends that were refused because the disk is full.
    pub appends_without_space: Counter,
    /// Bytes written to segments by destage, and in how many writes.
    pub destage_bytes: Counter,
    pub destage_writes: Counter,
    /// From the closing of the gate to the manifest, in nanoseconds.
    pub checkpoint_ns: Histogram,
    pub checkpoints_failed: Counter,
    /// Passes over a log, and what they read, wrote and got rid of.
    pub compactions: Counter,
    pub compaction_read_bytes: Counter,
    pub compaction_written_bytes: Counter,
    pub compaction_freed_bytes: Counter,
    /// Logs that were left as they are, since something in them cannot be compacted.
    pub compactions_failed: Counter,
}

impl Default for StoreMeters {
    fn default() -> Self {
        Self {
            commit_ns: Histogram::new(Scale::NANOSECONDS),
            commit_bytes: Histogram::new(Scale::BYTES),
            commit_entries: Counter::default(),
            appends_held_back: Counter::default(),
            appends_without_space: Counter::default(),
            destage_bytes: Counter::default(),
            destage_writes: Counter::default(),
            checkpoint_ns: Histogram::new(Scale::NANOSECONDS),
            checkpoints_failed: Counter::default(),
            compactions: Counter::default(),
            compaction_read_bytes: Counter::default(),
            compaction_written_bytes: Counter::default(),
            compaction_freed_bytes: Counter::default(),
            compactions_failed: Counter::default(),
        }
    }
}
