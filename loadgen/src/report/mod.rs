//! What came of a run: figures that can be kept, compared and shown.
//!
//! Times are in microseconds where they are shown and in nanoseconds in the histograms.

mod groups;
pub mod hgrm;
pub mod html;
pub mod live;
pub mod plot;
pub mod table;
pub mod text;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use groups::{GroupFigures, GroupHistograms};

/// Significant decimal digits of every histogram.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// A run and its figures. Its JSON form is what `--output json` prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The keys of the workload, as they were in force.
    pub workload: BTreeMap<String, serde_json::Value>,
    pub context: Context,
    pub rate: Rate,
    pub produce: Latency,
    pub consume: Consume,
    pub end_to_end: Latency,
    pub errors: Errors,
    pub client: ProcessUse,
    /// Where the broker's process is known.
    pub broker: Option<ProcessUse>,
    /// Readers that began at the start of what was there.
    #[serde(default)]
    pub catch_up: Vec<CatchUp>,
    /// Where groups read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupFigures>,
    pub verified: Verified,
    /// Second by second of the measured time.
    pub series: Vec<Second>,
    /// Not in the JSON form: written as `.hgrm` files.
    #[serde(skip)]
    pub histograms: Histograms,
    /// As the histograms.
    #[serde(skip)]
    pub group_histograms: GroupHistograms,
}

/// Where it ran, and against what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Context {
    /// The start, in milliseconds since 1970.
    pub started_ms: u64,
    pub bootstrap: String,
    pub client_version: String,
    /// What the broker can be told apart by: its ApiVersions, cluster id, brokers.
    pub broker: String,
    /// When an acknowledged record is on the disk, as the broker's own settings say.
    pub durability: String,
    pub cores: u32,
    pub cpu: String,
    pub kernel: String,
    pub memory_bytes: u64,
    /// The scheduler's settings that matter to latencies.
    pub scheduler: String,
    /// Of the folder that was named as the broker's, or the one the generator ran in.
    pub disk: Option<Disk>,
    pub load_average: f64,
}

/// A disk, as one folder sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Disk {
    pub folder: String,
    pub file_system: String,
    pub mount_options: String,
    /// `mq-deadline`, `none`, …
    pub io_scheduler: String,
    /// Time of a 4 KiB write and its flush (`fdatasync`); 0 where it could not be measured.
    pub flush_p50_us: f64,
    pub flush_p99_us: f64,
}

/// Records a second, and how they kept to what was asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Records a second asked for, over the measured time; `None` for as many as go.
    pub intended: Option<f64>,
    /// Records a second acknowledged in the measured time.
    pub achieved: f64,
    /// Megabytes (10^6 bytes) of keys and values a second acknowledged.
    pub achieved_mb: f64,
    /// Records a second delivered to consumers, each counted once for each consumer that reads it.
    pub delivered: f64,
    pub measured_s: f64,
    /// Records that were due in the measured time.
    pub due: u64,
    /// Records due in the measured time and acknowledged, whenever that was.
    pub acknowledged: u64,
    /// The longest that a record was handed to the client after it was due, in milliseconds.
    pub behind_max_ms: f64,
    /// Records that were due when the measured time ended and had not been handed to the client.
    pub unsent: u64,
}

/// How far behind its schedule a generator may be at worst and still have kept up, in milliseconds: a stop of that length is what any
/// machine's scheduler makes now and then, and it counts in the latencies as all else does.
pub const BEHIND_MS_MAX: f64 = 100.0;
/// The share of what was intended that has to be acknowledged in the measured time.
pub const ACHIEVED_SHARE_MIN: f64 = 0.99;

impl Rate {
    /// Whether the load was what was asked for: nothing was handed over much too late, and what was due was acknowledged in time.
    /// As many as go is always what was asked for.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        let Some(intended) = self.intended else { return true };
        self.behind_ms() <= BEHIND_MS_MAX && self.achieved >= intended * ACHIEVED_SHARE_MIN
    }

    /// How far behind its schedule the generator was: at worst, or by what it had left when the measured time ended.
    #[must_use]
    pub fn behind_ms(&self) -> f64 {
        let left_ms = match self.intended {
            Some(intended) if intended > 0.0 => self.unsent as f64 / intended * 1e3,
            _ => 0.0,
        };
        self.behind_max_ms.max(left_ms)
    }
}

/// A distribution of times, in microseconds. All zero where nothing was measured (`count` 0).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub min_us: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub p99_99_us: f64,
    pub max_us: f64,
}

/// From the acknowledgement to the delivery.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Consume {
    #[serde(flatten)]
    pub latency: Latency,
    /// Share of the records that were delivered before their acknowledgement came, and count as 0.
    pub before_acknowledgement: f64,
}

/// What went wrong, by the record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Errors {
    /// Records that were not acknowledged.
    pub failed_records: u64,
    /// Batches that were sent again.
    pub retried_batches: u64,
    /// By what was said.
    pub reasons: BTreeMap<String, u64>,
}

/// What a process used in the measured time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessUse {
    pub cpu_s: f64,
    /// For each record acknowledged in the measured time.
    pub cpu_us_per_record: f64,
    /// Of the cores' time together.
    pub busy_cores: f64,
}

/// How far a reader came that read from the start of what was there before the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CatchUp {
    /// Bytes of batches.
    pub bytes: u64,
    pub elapsed_s: f64,
    pub mb_per_s: f64,
    /// Whether it read all that was there.
    pub finished: bool,
}

/// What was verified, over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Whether it was done at all.
    pub enabled: bool,
    /// Counted once for each group, where groups read.
    pub acknowledged: u64,
    pub delivered: u64,
    /// Acknowledged and never delivered.
    pub lost: u64,
    /// Delivered more often than may be.
    pub duplicated: u64,
    /// Delivered after a later record of the same producer and partition.
    pub reordered: u64,
    /// With a content that was not sent.
    pub corrupted: u64,
    /// Refused, so that it was not written, and delivered all the same.
    pub unexpected: u64,
    /// Delivered again or late where the producers are not idempotent, as may happen when a batch is sent again.
    #[serde(default)]
    pub allowed: u64,
    /// Delivered to a group again after a partition changed hands, and not committed before: as may happen.
    #[serde(default)]
    pub redelivered: u64,
    /// A member of a group began, or could begin, below what the group had committed.
    #[serde(default)]
    pub regressed: u64,
    /// Records of others on the topics, which are not looked at.
    pub foreign: u64,
    /// The first findings, with their offsets.
    pub findings: Vec<Finding>,
}

impl Verified {
    /// Takes in what others have found.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.unexpected += other.unexpected;
        self.allowed += other.allowed;
        self.redelivered += other.redelivered;
        self.regressed += other.regressed;
        self.foreign += other.foreign;
        self.findings.extend(other.findings.iter().cloned());
    }

    /// Nothing is wrong with what was delivered.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.lost + self.duplicated + self.reordered + self.corrupted + self.unexpected + self.regressed == 0
    }
}

/// One record that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: FindingKind,
    pub topic: String,
    pub partition: i32,
    /// The offset: of a lost record the one it was acknowledged with, where it was.
    pub offset: Option<i64>,
    /// The number that its producer gave it within the partition; not known of a corrupted record.
    pub number: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    Lost,
    Duplicated,
    Reordered,
    Corrupted,
    Unexpected,
    /// The offset is where a member of a group began, or what had been committed.
    Regressed,
}

/// A second of the measured time; what happened in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// From 0.
    pub second: u32,
    pub due: u64,
    pub acknowledged: u64,
    pub delivered: u64,
    pub failed: u64,
    /// How far behind the schedule the generator was at worst, in milliseconds.
    pub behind_ms: f64,
    /// Of what was acknowledged in this second.
    pub produce_p50_us: f64,
    pub produce_p99_us: f64,
    pub produce_max_us: f64,
    /// Of what was delivered in this second.
    pub consume_p50_us: f64,
    pub consume_p99_us: f64,
    pub consume_max_us: f64,
    pub end_to_end_p50_us: f64,
    pub end_to_end_p99_us: f64,
    pub end_to_end_max_us: f64,
}

/// The three distributions, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histograms {
    /// From when a record was due to its acknowledgement.
    pub produce: Histogram<u64>,
    /// From the acknowledgement to the delivery.
    pub consume: Histogram<u64>,
    /// From when a record was due to its delivery.
    pub end_to_end: Histogram<u64>,
}

impl Histograms {
    /// Each with the name that the report has for it.
    #[must_use]
    pub fn named(&self) -> [(&'static str, &Histogram<u64>); 3] {
        [("produce", &self.produce), ("consume", &self.consume), ("end_to_end", &self.end_to_end)]
    }

    /// Takes in what others have measured.
    pub fn add(&mut self, other: &Self) {
        let ours = [&mut self.produce, &mut self.consume, &mut self.end_to_end];
        for (ours, (_, theirs)) in ours.into_iter().zip(other.named()) {
            ours.add(theirs).expect("a histogram that grows takes another in");
        }
    }
}

/// An empty one: it grows with what it is given.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new(HISTOGRAM_DIGITS).expect("3 digits are within what is allowed")
}

impl Default for Histograms {
    fn default() -> Self {
        Self { produce: new_histogram(), consume: new_histogram(), end_to_end: new_histogram() }
    }
}

impl Latency {
    /// The figures of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            min_us: histogram.min() as f64 / 1e3,
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}
