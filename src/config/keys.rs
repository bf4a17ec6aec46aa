//! The node's keys: for each its bounds, what it means, and its value as text. `config show`, the messages about bounds and about unknown
//! keys read this one table.

use super::node::{DurabilitySetting, NodeConfig};

/// One key of a node's configuration.
pub struct Key {
    pub name: &'static str,
    /// In words; what [`NodeConfig::check`] holds it to.
    pub bounds: &'static str,
    pub doc: &'static str,
    value: fn(&NodeConfig) -> String,
}

macro_rules! keys {
    ($($name:literal, $value:expr, $bounds:literal, $doc:literal;)*) => {
        &[$(Key { name: $name, bounds: $bounds, doc: $doc, value: $value },)*]
    };
}

/// Every key, in the order in which an operator meets them.
pub const KEYS: &[Key] = keys! {
    "broker-id", |node| node.broker_id.to_string(), "0 or more", "This broker's id in its cluster.";
    "listen", |node| node.listen.clone(), "IP:PORT, as in 127.0.0.1:9092",
        "Where Kafka clients connect; port 0 takes a free one.";
    "advertised", |node| node.advertised.clone().unwrap_or_default(), "HOST:PORT",
        "What clients are told to connect to, where that differs from listen.";
    "http", |node| node.http.clone(), "IP:PORT, as in 127.0.0.1:8082, or off",
        "Where metrics and health are asked for; port 0 takes a free one.";
    "metrics-partitions-max", |node| node.metrics_partitions_max.to_string(), "0 to 100000",
        "Partitions that have metrics of their own, shared evenly by the shards; 0 for none.";
    "metrics-groups-max", |node| node.metrics_groups_max.to_string(), "0 to 100000",
        "Groups that have metrics of their own, shared evenly by the shards; 0 for none.";
    "metrics-group-partitions-max", |node| node.metrics_group_partitions_max.to_string(), "0 to 100000",
        "Partitions read by groups that have metrics of their own, one for each group, shared evenly by the shards; 0 for none.";
    "data-dir", |node| node.data_dir.display().to_string(), "a directory", "Where everything is kept.";
    "shards", |node| node.shards.map_or_else(String::new, |shards| shards.to_string()), "1 to 256",
        "Shards to run; unset, one for each core that the process may use.";
    "pin", |node| node.pin.to_string(), "true or false", "Whether each shard's thread is bound to a core.";
    "memory-bytes", |node| node.memory_bytes.to_string(), "at least 128 MiB for each shard",
        "What the whole process may have resident: half of it for buffers and caches, the rest for requests, connections and partitions.";
    "durability", |node| durability(node.durability).to_owned(), "disk or replicas",
        "When a record counts as held: disk once flushed, replicas once written, which a power cut may take back.";
    "journal-bytes", |node| node.journal_bytes.to_string(), "32 MiB to 256 MiB", "The largest journal of one shard.";
    "disk-reserve-bytes", |node| node.disk_reserve_bytes.to_string(), "any number of bytes",
        "Free space that produce may not touch.";
    "background-bytes-in-flight", |node| node.background_bytes_in_flight.to_string(), "at least 128 KiB",
        "Bytes of background work that may be under way on the device, over all shards.";
    "compaction-percent", |node| node.compaction_percent.to_string(), "1 to 100",
        "The share of its time that compaction works, so that producers find core and device free. For a log that has waited ten minutes, or \
         its max.compaction.lag.ms if that is less, it grows; after twice that compaction works all the time.";
    "checkpoint-interval-ms", |node| node.checkpoint_interval_ms.to_string(), "at least 100",
        "A checkpoint is made at least so often while anything is dirty.";
    "destage-delay-ms", |node| node.destage_delay_ms.to_string(), "1 to 60000",
        "Journaled bytes go to their segments at the latest after this long.";
    "auto-create-topics", |node| node.auto_create_topics.to_string(), "true or false",
        "Whether a topic that a client asks for is created.";
    "num-partitions", |node| node.num_partitions.to_string(), "1 to 100000",
        "Partitions of a topic created without a count.";
    "max-request-bytes", |node| node.max_request_bytes.to_string(), "64 KiB to 1 GiB", "The longest request.";
    "connection-bytes-in-flight", |node| node.connection_bytes_in_flight.to_string(), "any number of bytes",
        "Received and unanswered bytes of one connection, past which nothing more is read from it.";
    "connections-max", |node| node.connections_max.to_string(), "any number",
        "Connections at once; memory-bytes bounds them too.";
    "connections-max-idle-ms", |node| node.connections_max_idle_ms.to_string(), "at least 1000",
        "A connection that nobody has used for so long is closed.";
    "fetch-max-bytes", |node| node.fetch_max_bytes.to_string(), "at least 1024", "The most that one fetch is answered with.";
    "fetch-sessions-max", |node| node.fetch_sessions_max.to_string(), "any number",
        "Fetch sessions that each shard remembers.";
    "producer-id-expiration-ms", |node| node.producer_id_expiration_ms.to_string(), "at least 1",
        "How long an idle producer's sequence numbers are remembered.";
    "retention-check-interval-ms", |node| node.retention_check_interval_ms.to_string(), "at least 100",
        "How often retention is looked at.";
    "group-initial-rebalance-delay-ms", |node| node.group_initial_rebalance_delay_ms.to_string(), "0 to 300000",
        "How long a group without members waits for others after the first has come.";
    "group-session-timeout-min-ms", |node| node.group_session_timeout_min_ms.to_string(), "at least 1",
        "The shortest session that a member of a group may ask for.";
    "group-session-timeout-max-ms", |node| node.group_session_timeout_max_ms.to_string(),
        "at least group-session-timeout-min-ms", "The longest session that a member of a group may ask for.";
    "group-members-max", |node| node.group_members_max.to_string(), "at least 1", "Members of one group.";
    "group-consumer-session-timeout-ms", |node| node.group_consumer_session_timeout_ms.to_string(), "at least 1",
        "How long a member may be silent whose broker assigns it its partitions (KIP-848).";
    "group-consumer-heartbeat-interval-ms", |node| node.group_consumer_heartbeat_interval_ms.to_string(),
        "1 to below group-consumer-session-timeout-ms", "How often such a member is asked to be heard of.";
    "group-lag-interval-ms", |node| node.group_lag_interval_ms.to_string(), "100 to 3600000, or 0 for never",
        "How long after one look at how far groups are behind the next is taken.";
    "group-headroom-warning-ms", |node| node.group_headroom_warning_ms.to_string(), "any number; 0 for never",
        "A group is warned of once retention will delete within this what it has not read; a quarter of the topic's retention.ms where that is less.";
    "group-stall-warning-ms", |node| node.group_stall_warning_ms.to_string(), "any number; 0 for never",
        "A member is warned of that has held a partition for so long, with records to read, without a commit of another offset.";
    "offset-metadata-max-bytes", |node| node.offset_metadata_max_bytes.to_string(), "any number of bytes",
        "What a consumer may keep beside an offset.";
    "offsets-retention-minutes", |node| node.offsets_retention_minutes.to_string(), "at least 1",
        "How long the offsets of a group that has no members are kept.";
    "offsets-partitions", |node| node.offsets_partitions.to_string(), "1 to 1000",
        "Partitions of the topic that groups are kept in, when it is created.";
};

fn durability(setting: DurabilitySetting) -> &'static str {
    match setting {
        DurabilitySetting::Disk => "disk",
        DurabilitySetting::Replicas => "replicas",
    }
}

/// Letters that may be wrong in a key for it still to be taken for a slip.
const SLIPS_MAX: usize = 4;

/// The known name that `name` was most likely meant to be.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let distances = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= SLIPS_MAX.min(name.len() / 2)).then_some(nearest)
}

impl Key {
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The known key that `name` was most likely meant to be.
    #[must_use]
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, KEYS.iter().map(|key| key.name))
    }

    /// Its value in `config`, as text; empty where it is unset.
    #[must_use]
    pub fn value(&self, config: &NodeConfig) -> String {
        (self.value)(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_key_and_its_values_read_back() {
        let defaults = NodeConfig::default();
        let is_text = |text: &str| text.parse::<i64>().is_err() && text.parse::<bool>().is_err();
        let lines = KEYS.iter().filter(|key| !key.value(&defaults).is_empty()).map(|key| {
            let value = key.value(&defaults);
            if is_text(&value) { format!("{} = \"{value}\"\n", key.name) } else { format!("{} = {value}\n", key.name) }
        });
        let read: NodeConfig = toml::from_str(&lines.collect::<String>()).expect("every key is one of the node's");
        assert!(KEYS.iter().all(|key| key.value(&read) == key.value(&defaults)));
        // Serde names all keys that it knows when it meets one that it does not.
        let error = toml::from_str::<NodeConfig>("no-such-key = 1").expect_err("unknown").to_string();
        assert_eq!(error.matches('`').count() / 2, KEYS.len() + 1, "{error}");
    }

    #[test]
    fn a_slip_finds_the_key_that_was_meant() {
        for (given, meant) in [
            ("shrads", Some("shards")),
            ("shard", Some("shards")),
            ("journal_bytes", Some("journal-bytes")),
            ("data_dir", Some("data-dir")),
            ("memory", None),
            ("x", None),
            ("log.retention.ms", None),
        ] {
            assert_eq!(Key::nearest(given), meant, "{given}");
        }
    }
}
