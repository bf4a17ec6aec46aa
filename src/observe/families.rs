//! Every metric: its name, kind, labels and meaning. The exposition, and the reference in `docs/`, read this one table.

/// What a metric's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Grows from the start of the process.
    Counter,
    /// May go up and down.
    Gauge,
    /// Counts by bucket, their sum and their number.
    Histogram,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! families {
    ($($metric:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// Names a line of [`FAMILIES`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Metric {
            $(#[doc = $help] $metric,)*
        }

        /// Every metric, in the order in which they are told.
        pub const FAMILIES: &[Family] = &[
            $(Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help },)*
        ];
    };
}

families! {
    Build: Gauge "tidemill_build_info" ["version"] "The version that runs; always 1.";
    ResidentBytes: Gauge "process_resident_memory_bytes" [] "Memory of the process that is resident.";
    MemoryLimitBytes: Gauge "tidemill_memory_limit_bytes" [] "The memory-bytes setting.";
    Topics: Gauge "tidemill_topics" [] "Topics of the cluster.";

    ShardUptimeSeconds: Counter "tidemill_shard_uptime_seconds_total" ["shard"] "How long the shard has run.";
    ShardBusySeconds: Counter "tidemill_shard_busy_seconds_total" ["shard"]
        "How long the shard had something to do: its rate is the shard's busy share.";
    QueueDelaySeconds: Histogram "tidemill_queue_delay_seconds" ["shard", "class"]
        "From the wake of a task to its poll. Class latency is what clients wait for.";
    Stalls: Counter "tidemill_stalls_total" ["shard", "account"] "Polls that held the core longer than 5 ms.";
    StallSecondsMax: Gauge "tidemill_stall_seconds_max" ["shard", "account"] "The longest of them.";
    AccountCpuSeconds: Counter "tidemill_account_cpu_seconds_total" ["shard", "account"] "Time on the core by what it was spent for.";
    AccountPolls: Counter "tidemill_account_polls_total" ["shard", "account"] "Polls of tasks by what they work for.";
    Tasks: Gauge "tidemill_tasks" ["shard"] "Tasks that have not ended.";
    SystemCalls: Counter "tidemill_uring_enters_total" ["shard"] "System calls into io_uring.";
    Submissions: Counter "tidemill_uring_submissions_total" ["shard"] "Operations handed to the kernel.";
    Completions: Counter "tidemill_uring_completions_total" ["shard"] "Completions taken from the kernel.";
    MeshMessagesWaiting: Gauge "tidemill_mesh_messages_waiting" ["shard", "from"]
        "Messages of another shard that this one has not taken up.";
    MeshRequestsOutstanding: Gauge "tidemill_mesh_requests_outstanding" ["shard", "to"]
        "Requests to another shard that are not answered. Fetches that wait for records are among them.";
    ArenaBytes: Gauge "tidemill_arena_bytes" ["shard", "part"] "Buffers in use: all of them, and of those the ones for what is received.";
    ArenaLimitBytes: Gauge "tidemill_arena_limit_bytes" ["shard", "part"] "The bound on them.";
    ArenaWaiting: Gauge "tidemill_arena_waiting" ["shard", "part"] "Requests for a buffer that wait for one to be given back.";

    Connections: Gauge "tidemill_connections" ["shard", "port"] "Open connections.";
    ConnectionsAccepted: Counter "tidemill_connections_accepted_total" ["shard", "port"] "Connections that the shard was given.";
    ConnectionsRefused: Counter "tidemill_connections_refused_total" ["port"] "Connections that were closed at once for want of room.";
    Requests: Counter "tidemill_requests_total" ["shard", "api"] "Requests that came in.";
    RequestBytes: Counter "tidemill_request_bytes_total" ["shard", "api"] "Bytes of their frames.";
    ProduceStageSeconds: Histogram "tidemill_produce_stage_seconds" ["shard", "stage"]
        "A produce request's time: check (decoding, CRC, limits), place (the way to its partitions and into their logs), hold (until the in-sync set holds it).";
    ProduceSeconds: Histogram "tidemill_produce_seconds" ["shard"] "A produce request, from its last byte to its answer.";
    ProducedBatches: Counter "tidemill_produced_batches_total" ["shard"] "Batches that passed the checks.";
    ProducedRecords: Counter "tidemill_produced_records_total" ["shard"] "Records in them.";
    ProducedBytes: Counter "tidemill_produced_bytes_total" ["shard"] "Bytes in them.";
    ProduceErrors: Counter "tidemill_produce_errors_total" ["shard", "error"] "Batches that were refused, by Kafka's name of the error.";
    FetchStageSeconds: Histogram "tidemill_fetch_stage_seconds" ["shard", "stage"]
        "A fetch on a shard that owns some of its partitions: read (from memory or disk) and wait (for as many bytes as the client wants at least).";
    FetchSeconds: Histogram "tidemill_fetch_seconds" ["shard"] "A fetch request, from its last byte to its answer; the wait for records is part of it.";
    FetchedBytes: Counter "tidemill_fetched_bytes_total" ["shard", "source"] "Bytes of batches read for fetches, from memory (tail) or from segment files (disk).";
    FetchErrors: Counter "tidemill_fetch_errors_total" ["shard", "error"] "Partitions of fetches that were answered with an error.";

    CommitSeconds: Histogram "tidemill_commit_seconds" ["shard"] "A write of the journal; its flush is part of it where durability is disk.";
    CommitBytes: Histogram "tidemill_commit_bytes" ["shard"] "The size of a write of the journal.";
    CommitEntries: Counter "tidemill_commit_entries_total" ["shard"] "Entries written to the journal: runs of batches, and changes of logs.";
    CommitQueueBytes: Gauge "tidemill_commit_queue_bytes" ["shard"] "Appended and not yet on its way to the journal.";
    JournalBytes: Gauge "tidemill_journal_bytes" ["shard"] "The journal's size.";
    JournalLiveBytes: Gauge "tidemill_journal_live_bytes" ["shard"] "What of it no checkpoint has freed; divided by its size, the journal's fill.";
    CheckpointSeconds: Histogram "tidemill_checkpoint_seconds" ["shard"] "Checkpoints that were made.";
    CheckpointsFailed: Counter "tidemill_checkpoints_failed_total" ["shard"] "Checkpoints that could not be made; they are tried again.";
    Compactions: Counter "tidemill_compactions_total" ["shard"] "Passes of compaction over a log.";
    CompactionReadBytes: Counter "tidemill_compaction_read_bytes_total" ["shard"] "Bytes of segments that compaction read; it reads twice what is dirty.";
    CompactionWrittenBytes: Counter "tidemill_compaction_written_bytes_total" ["shard"] "Bytes of segments that compaction wrote.";
    CompactionFreedBytes: Counter "tidemill_compaction_freed_bytes_total" ["shard"] "Bytes of records that compaction got rid of.";
    CompactionsFailed: Counter "tidemill_compactions_failed_total" ["shard"] "Logs that are left as they are since something in them cannot be compacted.";
    CompactionWaitSeconds: Gauge "tidemill_compaction_wait_seconds" ["shard"] "How long the log that presses most has had something to compact; past ten minutes, or its max.compaction.lag.ms, compaction works more than its compaction-percent.";
    DestageBytes: Counter "tidemill_destage_bytes_total" ["shard"] "Bytes that went from memory to segment files.";
    DestageWrites: Counter "tidemill_destage_writes_total" ["shard"] "Writes they went in.";
    AppendsHeldBack: Counter "tidemill_appends_held_back_total" ["shard"] "Appends that found no room in the journal or memory, each time they tried.";
    AppendsWithoutSpace: Counter "tidemill_appends_without_space_total" ["shard"] "Appends refused because the disk is full.";
    TailBytes: Gauge "tidemill_tail_cache_bytes" ["shard"] "Memory of the logs' newest bytes.";
    BlockCacheBytes: Gauge "tidemill_block_cache_bytes" ["shard"] "Memory of blocks read from files.";
    BlockHits: Counter "tidemill_block_cache_hits_total" ["shard"] "Blocks of files that were found in memory.";
    BlockReads: Counter "tidemill_block_cache_misses_total" ["shard"] "Blocks that had to be read.";
    BackgroundBytes: Gauge "tidemill_background_bytes" ["shard"] "What background work has in flight on the device.";
    BackgroundLimitBytes: Gauge "tidemill_background_limit_bytes" ["shard"] "The bound on that; destage may pass it while the journal is half full.";
    BackgroundWaiting: Gauge "tidemill_background_waiting" ["shard"] "Transfers that wait for their part of the bound.";
    DiskFreeBytes: Gauge "tidemill_disk_free_bytes" ["shard"] "Free on the data directory's file system, as this shard last saw it.";
    DiskReservedBytes: Gauge "tidemill_disk_reserved_bytes" ["shard"] "Appended, and not yet in a segment file.";
    DiskFull: Gauge "tidemill_disk_full" ["shard"] "1 while appends are refused because the disk is full.";

    Partitions: Gauge "tidemill_partitions" ["shard"] "Partitions of the shard.";
    PartitionsOffline: Gauge "tidemill_partitions_offline" ["shard"] "Those whose files failed: they neither take nor give records.";
    LogBytes: Gauge "tidemill_log_bytes" ["shard"] "Size of all logs of the shard.";
    PartitionStart: Gauge "tidemill_partition_start_offset" ["shard", "topic", "partition"] "The first offset of a partition.";
    PartitionHighWatermark: Gauge "tidemill_partition_high_watermark" ["shard", "topic", "partition"] "The first offset that consumers may not read yet.";
    PartitionEnd: Gauge "tidemill_partition_end_offset" ["shard", "topic", "partition"] "The offset of the next record.";
    PartitionBytes: Gauge "tidemill_partition_bytes" ["shard", "topic", "partition"] "Size of a partition's log.";
    PartitionsUntold: Gauge "tidemill_partitions_untold" ["shard"] "Partitions without series of their own: see metrics-partitions-max.";

    GroupLagRecordsMax: Gauge "tidemill_group_lag_records_max" ["shard", "group"]
        "Records that a group has not read of a partition: the most of all that it has committed an offset of. All metrics of groups are as of the last look: see group-lag-interval-ms.";
    GroupLagSecondsMax: Gauge "tidemill_group_lag_seconds_max" ["shard", "group"]
        "The age of the next record that a group has not read: of the partition where that is oldest; 0 where it has read all.";
    GroupHeadroomSecondsMin: Gauge "tidemill_group_retention_headroom_seconds_min" ["shard", "group"]
        "Until retention deletes what a group has not read, as things stand: of the partition where that comes first; 0 where it has. Missing where it will delete nothing unread.";
    GroupLostRecords: Gauge "tidemill_group_lost_records" ["shard", "group"]
        "Records below the start of their partition that a group had not read, until it commits an offset above.";
    GroupStalledPartitions: Gauge "tidemill_group_stalled_partitions" ["shard", "group"]
        "Partitions that a member has held for group-stall-warning-ms, with records to read, without a commit of another offset.";
    GroupReassignedPartitions: Gauge "tidemill_group_reassigned_partitions" ["shard", "group"]
        "Partitions that went from one member to another three times or more, with records to read, without a commit of another offset: they may all fail at one record.";
    GroupLagRecords: Gauge "tidemill_group_lag_records" ["shard", "group", "topic", "partition"] "Records that a group has not read of a partition.";
    GroupLagSeconds: Gauge "tidemill_group_lag_seconds" ["shard", "group", "topic", "partition"]
        "The age of the next of them; missing where it has no timestamp or can't be read.";
    GroupHeadroomSeconds: Gauge "tidemill_group_retention_headroom_seconds" ["shard", "group", "topic", "partition"]
        "Until retention deletes it: by age, or by size at the rate of appends of the last minutes, whichever comes first.";
    GroupsUntold: Gauge "tidemill_groups_untold" ["shard"] "Groups without series of their own: see metrics-groups-max.";
    GroupPartitionsUntold: Gauge "tidemill_group_partitions_untold" ["shard"]
        "Partitions of groups without series of their own: see metrics-group-partitions-max.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FAMILIES, Kind};

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len(), "every name is there once");
        for family in FAMILIES {
            assert_eq!(family.name.ends_with("_total"), family.kind == Kind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
        }
    }
}
