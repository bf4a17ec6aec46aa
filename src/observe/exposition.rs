//! The text format that Prometheus reads (version 0.0.4): each shard renders its own series, and the families are joined afterwards.

use std::fmt::{Display, Write};

use base::{Histogram, ShardId};

use super::families::{FAMILIES, Metric};

/// Nanoseconds are kept, seconds are told.
const NANOSECONDS: f64 = 1e9;

/// The series of one shard, or of the process, family by family.
#[derive(Debug)]
pub struct Exposition {
    shard: Option<ShardId>,
    by_family: Vec<String>,
}

/// Labels besides the shard.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// Series that carry their shard's number, or none.
    #[must_use]
    pub fn new(shard: Option<ShardId>) -> Self {
        Self { shard, by_family: vec![String::new(); FAMILIES.len()] }
    }

    /// One series of a counter or a gauge.
    pub fn value(&mut self, metric: Metric, labels: Labels<'_>, value: impl Display) {
        self.series(metric, "", labels, None, value);
    }

    /// One histogram of durations: kept in nanoseconds, told in seconds.
    pub fn durations(&mut self, metric: Metric, labels: Labels<'_>, histogram: &Histogram) {
        self.histogram(metric, labels, histogram, NANOSECONDS);
    }

    /// One histogram of sizes.
    pub fn sizes(&mut self, metric: Metric, labels: Labels<'_>, histogram: &Histogram) {
        self.histogram(metric, labels, histogram, 1.0);
    }

    fn histogram(&mut self, metric: Metric, labels: Labels<'_>, histogram: &Histogram, unit: f64) {
        for (bound, count) in histogram.cumulative() {
            let bound = (bound as f64 / unit).to_string();
            self.series(metric, "_bucket", labels, Some(&bound), count);
        }
        let count = histogram.count();
        self.series(metric, "_bucket", labels, Some("+Inf"), count);
        self.series(metric, "_sum", labels, None, histogram.sum() as f64 / unit);
        self.series(metric, "_count", labels, None, count);
    }

    fn series(&mut self, metric: Metric, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: impl Display) {
        let text = &mut self.by_family[metric as usize];
        text.push_str(FAMILIES[metric as usize].name);
        text.push_str(suffix);
        let shard = self.shard.map(|shard| shard.to_string());
        let own = shard.as_deref().map(|shard| ("shard", shard));
        let all = own.into_iter().chain(labels.iter().copied()).chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in all {
            text.push(separator);
            text.push_str(name);
            text.push_str("=\"");
            escape(text, value);
            text.push('"');
            separator = ',';
        }
        if separator == ',' {
            text.push('}');
        }
        writeln!(text, " {value}").expect("a String takes everything");
    }
}

fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// The parts as one text: every family once, its series together, as the format asks.
#[must_use]
pub fn join(parts: &[Exposition]) -> String {
    let bytes: usize = parts.iter().flat_map(|part| &part.by_family).map(String::len).sum();
    let mut text = String::with_capacity(bytes + FAMILIES.len() * 128);
    for (index, family) in FAMILIES.iter().enumerate() {
        if parts.iter().all(|part| part.by_family[index].is_empty()) {
            continue;
        }
        let (name, help, kind) = (family.name, family.help, family.kind.name());
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a String takes everything");
        parts.iter().for_each(|part| text.push_str(&part.by_family[index]));
    }
    text
}

#[cfg(test)]
mod tests {
    use base::{Histogram, Scale, ShardId};

    use super::{Exposition, Metric, join};

    #[test]
    fn families_are_told_once_with_the_series_of_all_shards() {
        let part = |shard: u16| {
            let mut part = Exposition::new(Some(ShardId(shard)));
            part.value(Metric::ShardBusySeconds, &[], f64::from(shard) + 0.5);
            part.value(Metric::AccountCpuSeconds, &[("account", "a\"b\\c\nd")], 1);
            part
        };
        let mut process = Exposition::new(None);
        process.value(Metric::ResidentBytes, &[], 4096);
        let text = join(&[part(0), part(1), process]);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE process_resident_memory_bytes gauge",
                "process_resident_memory_bytes 4096",
                "# TYPE tidemill_shard_busy_seconds_total counter",
                "tidemill_shard_busy_seconds_total{shard=\"0\"} 0.5",
                "tidemill_shard_busy_seconds_total{shard=\"1\"} 1.5",
                "# TYPE tidemill_account_cpu_seconds_total counter",
                "tidemill_account_cpu_seconds_total{shard=\"0\",account=\"a\\\"b\\\\c\\nd\"} 1",
                "tidemill_account_cpu_seconds_total{shard=\"1\",account=\"a\\\"b\\\\c\\nd\"} 1",
            ]
        );
    }

    #[test]
    fn histograms_have_cumulative_buckets_a_sum_and_a_count() {
        let histogram = Histogram::new(Scale { least_log2: 10, doublings: 1 });
        [1000, 2000, 5000].into_iter().for_each(|value| histogram.record(value));
        let mut part = Exposition::new(Some(ShardId(0)));
        part.durations(Metric::CommitSeconds, &[], &histogram);
        let text = join(&[part]);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "tidemill_commit_seconds_bucket{shard=\"0\",le=\"0.000001024\"} 1",
                "tidemill_commit_seconds_bucket{shard=\"0\",le=\"0.000001536\"} 1",
                "tidemill_commit_seconds_bucket{shard=\"0\",le=\"0.000002048\"} 2",
                "tidemill_commit_seconds_bucket{shard=\"0\",le=\"+Inf\"} 3",
                "tidemill_commit_seconds_sum{shard=\"0\"} 0.000008",
                "tidemill_commit_seconds_count{shard=\"0\"} 3",
            ]
        );
    }
}
