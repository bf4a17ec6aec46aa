//! The metrics of one shard, and those of the process, rendered.

use shard::Class;
use storage::{Log, SpaceState, Status};

use super::exposition::Exposition;
use super::families::Metric;
use super::group_metrics::groups;
use crate::api::kafka::TABLE;
use crate::node::Node;

/// Partitions looked at before others get a turn.
const PARTITIONS_A_POLL: usize = 256;

/// Everything that this shard knows of itself.
pub async fn of_shard(node: &Node) -> Exposition {
    let mut told = Exposition::new(Some(node.shard.id()));
    runtime(node, &mut told);
    connections(node, &mut told);
    requests(node, &mut told);
    storage(node, &mut told);
    partitions(node, &mut told).await;
    groups(node, &mut told).await;
    told
}

/// What is the process's own; the shard that is asked for all metrics tells it.
pub async fn of_process(node: &Node) -> Exposition {
    let mut told = Exposition::new(None);
    told.value(Metric::Build, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    told.value(Metric::MemoryLimitBytes, &[], node.config.memory_bytes);
    told.value(Metric::Topics, &[], node.view().topics().count());
    if let Some(bytes) = resident_bytes(node).await {
        told.value(Metric::ResidentBytes, &[], bytes);
    }
    told
}

/// What the kernel says; `None` in a world without one.
async fn resident_bytes(node: &Node) -> Option<u64> {
    const STATUS_BYTES_MAX: usize = 64 << 10;
    let status = node.shard.fs().read_file("/proc/self/status", STATUS_BYTES_MAX).await.ok()?;
    let line = std::str::from_utf8(&status).ok()?.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn runtime(node: &Node, told: &mut Exposition) {
    let shard = &node.shard;
    let uptime = shard.uptime();
    told.value(Metric::ShardUptimeSeconds, &[], uptime.running.as_secs_f64());
    told.value(Metric::ShardBusySeconds, &[], (uptime.running - uptime.parked).as_secs_f64());
    for class in Class::ALL {
        told.durations(Metric::QueueDelaySeconds, &[("class", class.name())], shard.queue_delay(class));
    }
    for account in shard.accounts() {
        let labels = [("account", &*account.name)];
        told.value(Metric::Stalls, &labels, account.stalls);
        told.value(Metric::StallSecondsMax, &labels, account.stall_max.as_secs_f64());
        told.value(Metric::AccountCpuSeconds, &labels, account.cpu.as_secs_f64());
        told.value(Metric::AccountPolls, &labels, account.polls);
    }
    told.value(Metric::Tasks, &[], shard.task_count());
    if let Some(stats) = shard.uring_stats() {
        told.value(Metric::SystemCalls, &[], stats.enters);
        told.value(Metric::Submissions, &[], stats.submissions);
        told.value(Metric::Completions, &[], stats.completions);
    }
    for lane in node.mesh.depths() {
        let peer = lane.peer.to_string();
        told.value(Metric::MeshMessagesWaiting, &[("from", &peer)], lane.messages_waiting);
        told.value(Metric::MeshRequestsOutstanding, &[("to", &peer)], lane.requests_outstanding);
    }
    for (part, arena) in [("all", shard.arena()), ("received", shard.received())] {
        let usage = arena.usage();
        told.value(Metric::ArenaBytes, &[("part", part)], usage.used_bytes);
        told.value(Metric::ArenaLimitBytes, &[("part", part)], usage.limit_bytes);
        told.value(Metric::ArenaWaiting, &[("part", part)], usage.waiting);
    }
}

fn connections(node: &Node, told: &mut Exposition) {
    for (port, connections) in [("kafka", &node.connections), ("http", &node.http_connections)] {
        told.value(Metric::Connections, &[("port", port)], connections.open());
        told.value(Metric::ConnectionsAccepted, &[("port", port)], connections.accepted());
    }
    if node.shard.id() == crate::connections::ACCEPTING {
        for (port, given_out) in [("kafka", &node.given_out), ("http", &node.http_given_out)] {
            told.value(Metric::ConnectionsRefused, &[("port", port)], given_out.refused());
        }
    }
}

fn requests(node: &Node, told: &mut Exposition) {
    let meters = &node.request_meters;
    for (api, meter) in TABLE.iter().zip(&meters.by_api).filter(|(_, meter)| meter.requests.get() > 0) {
        told.value(Metric::Requests, &[("api", api.key.name())], meter.requests.get());
        told.value(Metric::RequestBytes, &[("api", api.key.name())], meter.bytes.get());
    }
    for (stage, durations) in
        [("check", &meters.produce_check_ns), ("place", &meters.produce_place_ns), ("hold", &meters.produce_hold_ns)]
    {
        told.durations(Metric::ProduceStageSeconds, &[("stage", stage)], durations);
    }
    told.durations(Metric::ProduceSeconds, &[], &meters.produce_ns);
    told.value(Metric::ProducedBatches, &[], meters.produced_batches.get());
    told.value(Metric::ProducedRecords, &[], meters.produced_records.get());
    told.value(Metric::ProducedBytes, &[], meters.produced_bytes.get());
    for (stage, durations) in [("read", &meters.fetch_read_ns), ("wait", &meters.fetch_wait_ns)] {
        told.durations(Metric::FetchStageSeconds, &[("stage", stage)], durations);
    }
    told.durations(Metric::FetchSeconds, &[], &meters.fetch_ns);
    told.value(Metric::FetchedBytes, &[("source", "tail")], meters.fetched_tail_bytes.get());
    told.value(Metric::FetchedBytes, &[("source", "disk")], meters.fetched_disk_bytes.get());
    for (metric, errors) in
        [(Metric::ProduceErrors, &meters.produce_errors), (Metric::FetchErrors, &meters.fetch_errors)]
    {
        for (error, count) in errors.counts() {
            told.value(metric, &[("error", error)], count);
        }
    }
}

fn storage(node: &Node, told: &mut Exposition) {
    let (meters, stats) = (node.store.meters(), node.store.stats());
    told.durations(Metric::CommitSeconds, &[], &meters.commit_ns);
    told.sizes(Metric::CommitBytes, &[], &meters.commit_bytes);
    told.value(Metric::CommitEntries, &[], meters.commit_entries.get());
    told.value(Metric::CommitQueueBytes, &[], stats.queued_bytes);
    told.value(Metric::JournalBytes, &[], stats.journal_bytes);
    told.value(Metric::JournalLiveBytes, &[], stats.journal_live_bytes);
    told.durations(Metric::CheckpointSeconds, &[], &meters.checkpoint_ns);
    told.value(Metric::CheckpointsFailed, &[], meters.checkpoints_failed.get());
    told.value(Metric::Compactions, &[], meters.compactions.get());
    told.value(Metric::CompactionReadBytes, &[], meters.compaction_read_bytes.get());
    told.value(Metric::CompactionWrittenBytes, &[], meters.compaction_written_bytes.get());
    told.value(Metric::CompactionFreedBytes, &[], meters.compaction_freed_bytes.get());
    told.value(Metric::CompactionsFailed, &[], meters.compactions_failed.get());
    told.value(Metric::CompactionWaitSeconds, &[], stats.compaction_wait.unwrap_or_default().as_secs_f64());
    told.value(Metric::DestageBytes, &[], meters.destage_bytes.get());
    told.value(Metric::DestageWrites, &[], meters.destage_writes.get());
    told.value(Metric::AppendsHeldBack, &[], meters.appends_held_back.get());
    told.value(Metric::AppendsWithoutSpace, &[], meters.appends_without_space.get());
    told.value(Metric::TailBytes, &[], stats.tail_bytes);
    told.value(Metric::BlockCacheBytes, &[], stats.block_cache_bytes);
    told.value(Metric::BlockHits, &[], stats.block_hits);
    told.value(Metric::BlockReads, &[], stats.block_reads);
    told.value(Metric::BackgroundBytes, &[], stats.background_bytes);
    told.value(Metric::BackgroundLimitBytes, &[], stats.background_bytes_limit);
    told.value(Metric::BackgroundWaiting, &[], stats.background_waiting);
    told.value(Metric::DiskFreeBytes, &[], stats.free_bytes);
    told.value(Metric::DiskReservedBytes, &[], stats.reserved_bytes);
    told.value(Metric::DiskFull, &[], u8::from(node.store.space_state() == SpaceState::Full));
}

/// All partitions in sums, and as many as the configuration allows one by one: the first by topic and number.
async fn partitions(node: &Node, told: &mut Exposition) {
    let mut logs = node.store.logs();
    let series_max = node.config.metrics_partitions_max as usize / usize::from(node.mesh.shards());
    if series_max > 0 {
        logs.sort_by(|a, b| (a.topic(), a.id().partition).cmp(&(b.topic(), b.id().partition)));
    }
    let (mut offline, mut bytes) = (0_u64, 0);
    for (index, log) in logs.iter().enumerate() {
        offline += u64::from(log.status() == Status::Offline);
        bytes += log.size_bytes();
        if index < series_max {
            partition(log, told);
        }
        if index % PARTITIONS_A_POLL == PARTITIONS_A_POLL - 1 {
            node.shard.yield_now().await;
        }
    }
    told.value(Metric::Partitions, &[], logs.len());
    told.value(Metric::PartitionsOffline, &[], offline);
    told.value(Metric::LogBytes, &[], bytes);
    told.value(Metric::PartitionsUntold, &[], logs.len().saturating_sub(series_max));
}

fn partition(log: &Log, told: &mut Exposition) {
    let number = log.id().partition.to_string();
    let labels = [("topic", log.topic()), ("partition", &number)];
    told.value(Metric::PartitionStart, &labels, log.start_offset());
    told.value(Metric::PartitionHighWatermark, &labels, log.high_watermark());
    told.value(Metric::PartitionEnd, &labels, log.end_offset());
    told.value(Metric::PartitionBytes, &labels, log.size_bytes());
}
