//! What a store is told: where it lives, its bounds, and how each log is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{GIB, KIB, MIB, PartitionIndex, ShardId, Uuid};

use crate::space::SpaceClass;

/// A log of this broker: a partition of a topic, by the topic's id. A topic deleted and created again has another id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LogId {
    pub topic_id: Uuid,
    pub partition: PartitionIndex,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.topic_id)
    }
}

/// When an append counts as held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Once it is flushed to this disk.
    #[default]
    Disk,
    /// Once it is written; flushed in the background. A power cut may take what was acknowledged.
    Replicas,
}

/// Where and how a shard keeps its logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    pub data_dir: PathBuf,
    pub shard: ShardId,
    pub durability: Durability,
    /// Size of each journal file, a multiple of 4 KiB; a commit is at most a quarter of it, and a batch a little less.
    pub journal_file_bytes: u64,
    /// Files to begin with, at least 2; more are made in the background up to `journal_bytes_limit`.
    pub journal_files_initial: u32,
    /// At most this much journal: what recovery may have to replay.
    pub journal_bytes_limit: u64,
    /// Log tails of this shard in memory, already in their segments: what may be dropped.
    pub tail_cache_bytes: usize,
    /// All log tails of this shard in memory, with what is on its way to their segments and what readers hold: appends wait beyond it.
    pub tail_bytes_max: usize,
    /// This shard's part of the device's budget for background bytes in flight.
    pub background_bytes_in_flight: usize,
    /// Free space below which appends are refused.
    pub reserve_bytes: u64,
    /// Files that the store keeps open, for reading and for writing each.
    pub open_files_max: usize,
    /// Blocks of older segments kept for other readers.
    pub read_cache_bytes: usize,
    /// Blocks of older segments in memory, with those that readers hold: reads wait beyond it.
    pub read_bytes_max: usize,
    /// A checkpoint at least this often while anything is dirty.
    pub checkpoint_interval: Duration,
    /// Journaled bytes go to their segments at the latest after this long.
    pub destage_delay: Duration,
    /// How often every log is looked after: retention, rolling by age, idle producers and memory.
    pub upkeep_interval: Duration,
    /// How often it is looked for logs to compact.
    pub compaction_interval: Duration,
    /// What the keys of the log that is compacted may take of memory: more keys take more passes.
    pub compaction_map_bytes: usize,
    /// The share of its time that compaction works while no log has waited long for it, 1 to 100.
    pub compaction_percent: u32,
    /// Records of a compressed batch that is compacted expand to at most so much; a log that holds a larger one is left as it is.
    pub compaction_expanded_bytes_max: usize,
    /// Appends of one log that are at least so long together go to the journal from where they are in memory; shorter ones are copied
    /// into the commit. What they stand in is whole blocks, so less than a few blocks is not worth it.
    pub apart_bytes: usize,
}

impl StoreConfig {
    /// The defaults for a shard of the data directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>, shard: ShardId) -> Self {
        Self {
            data_dir: data_dir.into(),
            shard,
            durability: Durability::Disk,
            journal_file_bytes: 16 * MIB as u64,
            journal_files_initial: 2,
            journal_bytes_limit: 256 * MIB as u64,
            tail_cache_bytes: 64 * MIB,
            tail_bytes_max: usize::MAX,
            background_bytes_in_flight: 512 * KIB,
            reserve_bytes: 256 * MIB as u64,
            open_files_max: 1024,
            read_cache_bytes: 16 * MIB,
            read_bytes_max: usize::MAX,
            checkpoint_interval: Duration::from_secs(60),
            destage_delay: Duration::from_millis(500),
            upkeep_interval: Duration::from_secs(30),
            compaction_interval: Duration::from_secs(15),
            compaction_map_bytes: 8 * MIB,
            compaction_percent: 100,
            compaction_expanded_bytes_max: 64 * MIB,
            apart_bytes: 64 * KIB,
        }
    }
}

/// What recovery of a data directory is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoverConfig {
    pub data_dir: PathBuf,
    /// Shards that will own the logs from now on.
    pub shards: u16,
    /// Journal bytes kept in memory between finding and replaying them; what is above is read twice.
    pub replay_memory_bytes: usize,
    /// `index.interval.bytes` for what is replayed.
    pub index_interval_bytes: u64,
    /// Above so many logs that the journal changes, the file system is synced once instead of each of their files.
    pub log_syncs_max: usize,
}

impl RecoverConfig {
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>, shards: u16) -> Self {
        Self {
            data_dir: data_dir.into(),
            shards,
            replay_memory_bytes: 512 * MIB,
            index_interval_bytes: 32 * KIB as u64,
            log_syncs_max: 64,
        }
    }
}

/// How a log is kept: from its topic's settings. Sizes and times are Kafka's, with −1 there as `None` here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// `segment.bytes`.
    pub segment_bytes: u64,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: taken off `segment_ms`, differently for each segment.
    pub segment_jitter_ms: i64,
    /// `retention.ms`.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`, for each partition.
    pub retention_bytes: Option<u64>,
    /// This partition's share of `retention.topic.bytes`.
    pub retention_topic_bytes_share: Option<u64>,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `max.message.bytes`: a longer batch is refused.
    pub max_message_bytes: u32,
    /// `file.delete.delay.ms`.
    pub delete_delay_ms: i64,
    /// `producer.id.expiration.ms`.
    pub producer_expiration_ms: i64,
    /// How deep into a full disk its appends may go.
    pub space: SpaceClass,
    /// It is its partition's only replica: what it holds is committed, whether anybody reads it or not.
    pub only_replica: bool,
    /// `cleanup.policy` names `compact`; where it does not name `delete`, there are no limits of retention.
    pub compaction: Option<CompactionConfig>,
}

/// How a log is compacted: from its topic's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactionConfig {
    /// `delete.retention.ms`: how long tombstones stay once they have been met.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`.
    pub min_lag_ms: i64,
    /// `max.compaction.lag.ms`.
    pub max_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`, in millionths.
    pub min_dirty_ppm: u32,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { delete_retention_ms: 86_400_000, min_lag_ms: 0, max_lag_ms: i64::MAX, min_dirty_ppm: 500_000 }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: GIB as u64,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            retention_ms: Some(7 * 24 * 3_600_000),
            retention_bytes: None,
            retention_topic_bytes_share: None,
            index_interval_bytes: 32 * KIB as u32,
            max_message_bytes: 1_048_588,
            delete_delay_ms: 60_000,
            producer_expiration_ms: 86_400_000,
            space: SpaceClass::Normal,
            only_replica: false,
            compaction: None,
        }
    }
}

impl LogConfig {
    /// The age at which a segment rolls: no record may wait for compaction longer than `max.compaction.lag.ms`, and those of the active
    /// segment wait for it to end.
    #[must_use]
    pub fn segment_ms_max(&self) -> i64 {
        self.compaction.map_or(self.segment_ms, |compaction| self.segment_ms.min(compaction.max_lag_ms))
    }

    /// Of a log that was recovered and whose owner has not said yet how it is kept: nothing goes.
    #[must_use]
    pub fn until_told() -> Self {
        Self { segment_ms: i64::MAX, retention_ms: None, producer_expiration_ms: i64::MAX, ..Self::default() }
    }
}

/// Where things are in a data directory.
pub mod paths {
    use super::{LogId, Path, PathBuf, ShardId};

    /// `<data>/shards`.
    #[must_use]
    pub fn shards_dir(data: &Path) -> PathBuf {
        data.join("shards")
    }

    /// `<data>/shards/<n>`.
    #[must_use]
    pub fn shard_dir(data: &Path, shard: ShardId) -> PathBuf {
        data.join("shards").join(shard.to_string())
    }

    /// `<data>/shards/<n>/journal-<k>`.
    #[must_use]
    pub fn journal_file(data: &Path, shard: ShardId, file: u32) -> PathBuf {
        shard_dir(data, shard).join(format!("journal-{file}"))
    }

    /// `<data>/shards/<n>/clock`: the wall time that the shard's store trusted last.
    #[must_use]
    pub fn clock_file(data: &Path, shard: ShardId) -> PathBuf {
        shard_dir(data, shard).join("clock")
    }

    /// Journals have far fewer files.
    const JOURNAL_NUMBER_MAX: u32 = 1 << 20;

    /// The number in a journal file's name.
    #[must_use]
    pub fn journal_number(name: &str) -> Option<u32> {
        let digits = name.strip_prefix("journal-")?;
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        plain.then(|| digits.parse().ok()).flatten().filter(|&number| number <= JOURNAL_NUMBER_MAX)
    }

    /// `<data>/logs`.
    #[must_use]
    pub fn logs_dir(data: &Path) -> PathBuf {
        data.join("logs")
    }

    /// `<data>/logs/<topic>/<partition>-<topic id>`.
    #[must_use]
    pub fn log_dir(data: &Path, topic: &str, log: LogId) -> PathBuf {
        data.join("logs").join(topic).join(log.to_string())
    }

    /// `<data>/trash`: renamed here before it is deleted bit by bit.
    #[must_use]
    pub fn trash_dir(data: &Path) -> PathBuf {
        data.join("trash")
    }

    /// `<data>/ballast`: holds room that is given up when a checkpoint finds none.
    #[must_use]
    pub fn ballast_file(data: &Path) -> PathBuf {
        data.join("ballast")
    }

    /// `<data>/orphans`: journaled bytes whose segment could not be written.
    #[must_use]
    pub fn orphans_dir(data: &Path) -> PathBuf {
        data.join("orphans")
    }

    #[must_use]
    pub fn orphan_file(data: &Path, log: LogId) -> PathBuf {
        orphans_dir(data).join(format!("{log}.journal"))
    }

    /// The log that a directory's name says.
    #[must_use]
    pub fn parse_log_dir(name: &str) -> Option<LogId> {
        let (partition, topic_id) = name.split_once('-')?;
        let partition: i32 = partition.parse().ok().filter(|&partition| partition >= 0)?;
        let log = LogId { topic_id: topic_id.parse().ok()?, partition: partition.into() };
        (log.to_string() == name).then_some(log)
    }
}

/// A topic's name may be a directory's name: Kafka's rule, which keeps paths inside the data directory.
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories_and_files() {
        let log = LogId { topic_id: Uuid([0xff; 16]), partition: PartitionIndex(12) };
        assert_eq!(log.to_string(), "12-_____________________w");
        assert_eq!(paths::parse_log_dir(&log.to_string()), Some(log));
        for bad in
            ["", "12", "-1-_____________________w", "012-_____________________w", "12-", "x-_____________________w"]
        {
            assert_eq!(paths::parse_log_dir(bad), None, "{bad:?}");
        }
        for (name, number) in
            [("journal-0", Some(0)), ("journal-17", Some(17)), ("journal-", None), ("journal-07", None)]
        {
            assert_eq!(paths::journal_number(name), number, "{name:?}");
        }
        for (name, legal) in
            [("orders", true), ("a.b_c-9", true), ("", false), ("..", false), ("a/b", false), ("ä", false)]
        {
            assert_eq!(is_topic_name(name), legal, "{name:?}");
        }
    }
}
