//! The node's own settings: one TOML file, read once, checked once; options of `serve` come on top.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::advertised::{AdvertisedError, endpoint};
use super::keys::Key;

/// When a record counts as held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilitySetting {
    /// Once flushed to the device.
    Disk,
    /// Once written; flushed in the background. A power cut may take what was acknowledged.
    Replicas,
}

/// Every setting of a node. Bounds are checked by [`NodeConfig::check`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeConfig {
    pub broker_id: i32,
    /// Where Kafka clients connect: `IP:PORT`; port 0 takes a free one.
    pub listen: String,
    /// What clients are told to connect to, where that differs from `listen`: `HOST:PORT`.
    pub advertised: Option<String>,
    /// Where metrics and health are asked for: `IP:PORT`, or `off`.
    pub http: String,
    /// Partitions that have metrics of their own, over all shards.
    pub metrics_partitions_max: u32,
    /// Groups that have metrics of their own, over all shards.
    pub metrics_groups_max: u32,
    /// Partitions of groups that have metrics of their own, over all shards.
    pub metrics_group_partitions_max: u32,
    pub data_dir: PathBuf,
    /// Shards to run; none: one for each core that this process may use.
    pub shards: Option<u16>,
    /// Pin each shard's thread to a core.
    pub pin: bool,
    /// Memory of the whole process, in bytes.
    pub memory_bytes: u64,
    pub durability: DurabilitySetting,
    /// The largest journal of one shard, in bytes.
    pub journal_bytes: u64,
    /// Free space that produce may not touch, in bytes.
    pub disk_reserve_bytes: u64,
    /// Background disk bytes in flight over all shards.
    pub background_bytes_in_flight: u64,
    /// The share of its time that compaction works while no log has waited long for it.
    pub compaction_percent: u32,
    /// A checkpoint at least this often while anything is dirty, in milliseconds.
    pub checkpoint_interval_ms: u64,
    /// Journaled bytes go to their segments at the latest after this long, in milliseconds.
    pub destage_delay_ms: u64,
    pub auto_create_topics: bool,
    /// Partitions of a topic created without a count.
    pub num_partitions: i32,
    pub max_request_bytes: u32,
    /// Received and unanswered bytes of one connection.
    pub connection_bytes_in_flight: u32,
    pub connections_max: u32,
    /// A connection that nobody has used for so long is closed, in milliseconds (`connections.max.idle.ms`).
    pub connections_max_idle_ms: u64,
    pub fetch_max_bytes: i32,
    pub fetch_sessions_max: u32,
    pub producer_id_expiration_ms: i64,
    /// How often retention is looked at, in milliseconds (`log.retention.check.interval.ms`).
    pub retention_check_interval_ms: u64,
    /// How long a group without members waits for others after the first, in milliseconds (`group.initial.rebalance.delay.ms`).
    pub group_initial_rebalance_delay_ms: u32,
    /// `group.min.session.timeout.ms`
    pub group_session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`
    pub group_session_timeout_max_ms: i32,
    /// `group.max.size` and `group.consumer.max.size`
    pub group_members_max: u32,
    /// `group.consumer.session.timeout.ms`
    pub group_consumer_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub group_consumer_heartbeat_interval_ms: i32,
    /// How often the lag of groups is looked at, in milliseconds; 0 for never.
    pub group_lag_interval_ms: u32,
    /// Headroom below which is warned, in milliseconds; a quarter of `retention.ms` where that is less.
    pub group_headroom_warning_ms: u64,
    /// How long a member may hold a partition without progress before it is warned of, in milliseconds.
    pub group_stall_warning_ms: u64,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: u32,
    /// `offsets.retention.minutes`
    pub offsets_retention_minutes: u32,
    /// `offsets.topic.num.partitions`
    pub offsets_partitions: i32,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            broker_id: 1,
            listen: "127.0.0.1:9092".to_owned(),
            advertised: None,
            http: "127.0.0.1:8082".to_owned(),
            metrics_partitions_max: 0,
            metrics_groups_max: 1000,
            metrics_group_partitions_max: 1000,
            data_dir: PathBuf::from("./tidemill-data"),
            shards: None,
            pin: true,
            memory_bytes: 1 << 30,
            durability: DurabilitySetting::Disk,
            journal_bytes: 256 << 20,
            disk_reserve_bytes: 256 << 20,
            background_bytes_in_flight: 512 << 10,
            compaction_percent: 10,
            checkpoint_interval_ms: 60_000,
            destage_delay_ms: 500,
            auto_create_topics: true,
            num_partitions: 1,
            max_request_bytes: 100 << 20,
            connection_bytes_in_flight: 8 << 20,
            connections_max: 18_000,
            connections_max_idle_ms: 600_000,
            fetch_max_bytes: 55 << 20,
            fetch_sessions_max: 1000,
            producer_id_expiration_ms: 86_400_000,
            retention_check_interval_ms: 30_000,
            group_initial_rebalance_delay_ms: 3000,
            group_session_timeout_min_ms: 6000,
            group_session_timeout_max_ms: 1_800_000,
            group_members_max: i32::MAX as u32,
            group_consumer_session_timeout_ms: 45_000,
            group_consumer_heartbeat_interval_ms: 5000,
            group_lag_interval_ms: 10_000,
            group_headroom_warning_ms: 3_600_000,
            group_stall_warning_ms: 300_000,
            offset_metadata_max_bytes: 4096,
            offsets_retention_minutes: 7 * 24 * 60,
            offsets_partitions: 50,
        }
    }
}

/// What an idle connection takes of the heap.
const CONNECTION_BYTES: usize = 5 << 10;
/// What an idle partition takes of it, rounded up.
const PARTITION_BYTES: usize = 8 << 10;
/// What a partition of a fetch session takes of it, where the session is and where the partition is.
const SESSION_PARTITION_BYTES: usize = 512;
/// Room for five million keys: Kafka's default for all of a broker.
const COMPACTION_MAP_BYTES_MAX: usize = 128 << 20;

/// Bounds of one shard, each of which keeps a use of the heap within its part of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapBounds {
    /// What requests may come to while they are worked on.
    pub work_bytes: usize,
    pub connections_max: usize,
    /// Partitions whose logs are here.
    pub partitions_max: usize,
    /// Partitions in fetch sessions.
    pub session_partitions_max: usize,
    /// What groups come to: their members, and their offsets.
    pub group_bytes: usize,
    /// Keys of the log that is compacted.
    pub compaction_map_bytes: usize,
}

/// Why the settings can't be used.
#[derive(Debug)]
pub enum ConfigError {
    Read { path: PathBuf, error: std::io::Error },
    Parse { path: PathBuf, error: toml::de::Error },
    UnknownKey { path: PathBuf, key: String },
    OutOfBounds { key: &'static str, value: String },
    Advertised(AdvertisedError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => {
                write!(f, "the configuration {} can't be read: {error}; check --config", path.display())
            }
            Self::Parse { path, error } => write!(f, "the configuration {} is not valid: {error}", path.display()),
            Self::UnknownKey { path, key } => {
                write!(f, "the configuration {} has the key `{key}`, which is not known", path.display())?;
                match Key::nearest(key) {
                    Some(meant) => write!(f, "; is `{meant}` meant?"),
                    None => f.write_str("; `tidemill config show` lists those that are"),
                }
            }
            Self::OutOfBounds { key, value } => {
                let bounds = Key::find(key).map_or("see `tidemill config show`", |key| key.bounds);
                write!(f, "{key} = {value} is out of bounds: {bounds}")
            }
            Self::Advertised(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

impl NodeConfig {
    /// Reads a TOML file. An unknown key is an error that names the nearest known one.
    ///
    /// # Errors
    /// [`ConfigError`] with the path and, for a parse error, the place in the file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::read_with_keys(path).map(|(config, _)| config)
    }

    /// The same, and the keys that the file has.
    ///
    /// # Errors
    /// As [`NodeConfig::read`].
    pub fn read_with_keys(path: &Path) -> Result<(Self, BTreeSet<String>), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        let parse = |error| ConfigError::Parse { path: path.to_owned(), error };
        let keys: BTreeSet<String> =
            toml::from_str::<toml::Table>(&text).map_err(parse)?.into_iter().map(|(key, _)| key).collect();
        if let Some(key) = keys.iter().find(|key| Key::find(key).is_none()) {
            return Err(ConfigError::UnknownKey { path: path.to_owned(), key: key.clone() });
        }
        let config = toml::from_str(&text).map_err(parse)?;
        Ok((config, keys))
    }

    /// Where the HTTP port is to listen; `None` where it is off.
    #[must_use]
    pub fn http_addr(&self) -> Option<&str> {
        (self.http != "off").then_some(&self.http)
    }

    /// Size of each journal file: small enough that a checkpoint frees some while others fill, and large enough for the largest batch.
    #[must_use]
    pub fn journal_file_bytes(&self) -> u64 {
        const LEAST: u64 = 8 << 20;
        const BLOCK: u64 = 4096;
        let bytes = (self.journal_bytes / 16).max(LEAST).min(self.journal_bytes / 4);
        (bytes / BLOCK).max(1) * BLOCK
    }

    /// The most bytes that the records of one batch may expand to where they must be looked at. The helper thread of the process has them,
    /// and as much again while they grow, on the heap: a sixteenth of all memory, where 64 MiB is more.
    #[must_use]
    pub fn expanded_bytes_max(&self) -> usize {
        const MOST: u64 = 64 << 20;
        usize::try_from((self.memory_bytes / 16).min(MOST)).unwrap_or(usize::MAX)
    }

    /// The largest batch that a log takes, whatever its topic's `max.message.bytes`.
    #[must_use]
    pub fn batch_bytes_max(&self) -> usize {
        storage::batch_bytes_max(self.journal_file_bytes())
    }

    /// What the buffers of one shard may have: half of its memory, in whole slabs, which stay resident once they are touched. Requests too long
    /// for a slab come on top, a fifth of this at most. The other half is for the heap, which has its bounds in [`NodeConfig::heap_of_shard`].
    #[must_use]
    pub fn buffer_bytes_of_shard(&self, shards: u16) -> usize {
        let half = self.memory_bytes / u64::from(shards.max(1)) / 2;
        let half = usize::try_from(half).unwrap_or(usize::MAX);
        (half / shard::SLAB_BYTES).max(1) * shard::SLAB_BYTES
    }

    /// What the heap of one shard may come to (ADR 0008).
    #[must_use]
    pub fn heap_of_shard(&self, shards: u16) -> HeapBounds {
        let of_shard = self.memory_bytes / u64::from(shards.max(1));
        let part = |divisor: u64| usize::try_from(of_shard / divisor).unwrap_or(usize::MAX);
        HeapBounds {
            work_bytes: part(8),
            connections_max: part(10) / CONNECTION_BYTES,
            partitions_max: part(8) / PARTITION_BYTES,
            session_partitions_max: part(32) / SESSION_PARTITION_BYTES,
            group_bytes: part(16),
            compaction_map_bytes: part(32).min(COMPACTION_MAP_BYTES_MAX),
        }
    }

    /// Connections at once, over all shards.
    #[must_use]
    pub fn connections_max(&self, shards: u16) -> usize {
        (self.connections_max as usize).min(self.heap_of_shard(shards).connections_max * usize::from(shards.max(1)))
    }

    /// Partitions of this broker, over all shards.
    #[must_use]
    pub fn partitions_max(&self, shards: u16) -> usize {
        self.heap_of_shard(shards).partitions_max * usize::from(shards.max(1))
    }

    /// What the log tails of one shard may have of the buffers: 40 % of those are for what is received or rebuilt of it, an eighth for blocks read from
    /// disk, and what is left for commits, destage and checkpoints, which give the others memory back and must not wait for them.
    #[must_use]
    pub fn tail_bytes_of_shard(&self, shards: u16) -> usize {
        self.buffer_bytes_of_shard(shards) / 100 * 36
    }

    /// What the answers of one shard may keep of the tails, each of which could be all of one other shard's.
    #[must_use]
    pub fn answer_bytes_of_shard(&self, shards: u16) -> usize {
        self.tail_bytes_of_shard(shards) / 2 / usize::from(shards.max(1))
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first key that is out of bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        const MIB: u64 = 1 << 20;
        let bound = |holds: bool, key, value: &dyn fmt::Display| {
            if holds { Ok(()) } else { Err(ConfigError::OutOfBounds { key, value: value.to_string() }) }
        };
        bound(self.broker_id >= 0, "broker-id", &self.broker_id)?;
        let listen = self.listen.parse::<SocketAddr>();
        bound(listen.is_ok(), "listen", &self.listen)?;
        if let Ok(listen) = listen {
            endpoint(self.advertised.as_deref(), listen).map_err(ConfigError::Advertised)?;
        }
        let http = self.http_addr().is_none_or(|addr| addr.parse::<SocketAddr>().is_ok());
        bound(http, "http", &self.http)?;
        let series = self.metrics_partitions_max;
        bound(series <= 100_000, "metrics-partitions-max", &series)?;
        let groups = self.metrics_groups_max;
        bound(groups <= 100_000, "metrics-groups-max", &groups)?;
        let group_partitions = self.metrics_group_partitions_max;
        bound(group_partitions <= 100_000, "metrics-group-partitions-max", &group_partitions)?;
        let shards = self.shards.unwrap_or(1);
        bound((1..=256).contains(&shards), "shards", &shards)?;
        let memory_min = 128 * MIB * u64::from(shards);
        bound(self.memory_bytes >= memory_min, "memory-bytes", &self.memory_bytes)?;
        let journal = self.journal_bytes;
        bound((32 * MIB..=256 * MIB).contains(&journal), "journal-bytes", &journal)?;
        let background = self.background_bytes_in_flight;
        bound(background >= 128 << 10, "background-bytes-in-flight", &background)?;
        let compaction = self.compaction_percent;
        bound((1..=100).contains(&compaction), "compaction-percent", &compaction)?;
        let checkpoint = self.checkpoint_interval_ms;
        bound(checkpoint >= 100, "checkpoint-interval-ms", &checkpoint)?;
        let destage = self.destage_delay_ms;
        bound((1..=60_000).contains(&destage), "destage-delay-ms", &destage)?;
        let partitions = self.num_partitions;
        bound((1..=100_000).contains(&partitions), "num-partitions", &partitions)?;
        let request = self.max_request_bytes;
        bound((1 << 16..=1 << 30).contains(&request), "max-request-bytes", &request)?;
        let idle = self.connections_max_idle_ms;
        bound(idle >= 1000, "connections-max-idle-ms", &idle)?;
        bound(self.fetch_max_bytes >= 1024, "fetch-max-bytes", &self.fetch_max_bytes)?;
        let expiration = self.producer_id_expiration_ms;
        bound(expiration >= 1, "producer-id-expiration-ms", &expiration)?;
        let retention = self.retention_check_interval_ms;
        bound(retention >= 100, "retention-check-interval-ms", &retention)?;
        self.check_groups(bound)
    }

    fn check_groups(
        &self,
        bound: impl Fn(bool, &'static str, &dyn fmt::Display) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let delay = self.group_initial_rebalance_delay_ms;
        bound(delay <= 300_000, "group-initial-rebalance-delay-ms", &delay)?;
        let (session_min, session_max) = (self.group_session_timeout_min_ms, self.group_session_timeout_max_ms);
        bound(session_min >= 1, "group-session-timeout-min-ms", &session_min)?;
        bound(session_max >= session_min, "group-session-timeout-max-ms", &session_max)?;
        bound(self.group_members_max >= 1, "group-members-max", &self.group_members_max)?;
        let session = self.group_consumer_session_timeout_ms;
        bound(session >= 1, "group-consumer-session-timeout-ms", &session)?;
        let heartbeat = self.group_consumer_heartbeat_interval_ms;
        let is_often = i64::from(heartbeat) < i64::from(session);
        bound(heartbeat >= 1 && is_often, "group-consumer-heartbeat-interval-ms", &heartbeat)?;
        let lag = self.group_lag_interval_ms;
        bound(lag == 0 || (100..=3_600_000).contains(&lag), "group-lag-interval-ms", &lag)?;
        let retention = self.offsets_retention_minutes;
        bound(retention >= 1, "offsets-retention-minutes", &retention)?;
        let partitions = self.offsets_partitions;
        bound((1..=1000).contains(&partitions), "offsets-partitions", &partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::NodeConfig;

    #[test]
    fn defaults_hold_their_own_bounds() {
        NodeConfig::default().check().unwrap();
    }

    #[test]
    fn files_are_checked() {
        let read = |text: &str| toml::from_str::<NodeConfig>(text).map_err(|error| error.to_string());
        assert_eq!(read("shards = 3\nlisten = \"127.0.0.1:0\"").unwrap().shards, Some(3));
        assert!(read("shrads = 3").unwrap_err().contains("unknown field `shrads`"));
        let config = read("broker-id = -1").unwrap();
        assert!(config.check().unwrap_err().to_string().contains("broker-id"));
        let config = read("listen = \"localhost\"").unwrap();
        assert!(config.check().unwrap_err().to_string().contains("listen = localhost"));
    }
}
