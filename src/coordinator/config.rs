//! Settings of group coordinators.

use std::time::Duration;

use crate::config::NodeConfig;

/// Settings of the coordinators, by their names in Kafka.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`
    pub initial_delay: Duration,
    /// `group.min.session.timeout.ms`, `group.max.session.timeout.ms`
    pub session_timeout_ms: std::ops::RangeInclusive<i32>,
    /// `group.max.size`
    pub size_max: usize,
    /// `offset.metadata.max.bytes`
    pub metadata_bytes_max: usize,
    /// `offsets.retention.minutes`, in milliseconds
    pub retention_ms: i64,
    pub consumer: ConsumerGroupConfig,
}

/// Settings of groups whose coordinator assigns the partitions.
#[derive(Clone, Debug)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.session.timeout.ms`
    pub session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`
    pub size_max: usize,
    /// `group.consumer.migration.policy`
    pub migration: Migration,
}

/// Which way groups with members may change their protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// From members that share partitions out to the coordinator.
    pub may_upgrade: bool,
    pub may_downgrade: bool,
}

impl Migration {
    pub const BIDIRECTIONAL: Self = Self { may_upgrade: true, may_downgrade: true };
}

impl GroupConfig {
    #[must_use]
    pub fn of(node: &NodeConfig) -> Self {
        Self {
            initial_delay: Duration::from_millis(node.group_initial_rebalance_delay_ms.into()),
            session_timeout_ms: node.group_session_timeout_min_ms..=node.group_session_timeout_max_ms,
            size_max: node.group_members_max as usize,
            metadata_bytes_max: node.offset_metadata_max_bytes as usize,
            retention_ms: i64::from(node.offsets_retention_minutes) * 60_000,
            consumer: ConsumerGroupConfig {
                session_timeout: Duration::from_millis(node.group_consumer_session_timeout_ms.into()),
                heartbeat_interval_ms: node.group_consumer_heartbeat_interval_ms,
                size_max: node.group_members_max as usize,
                migration: Migration::BIDIRECTIONAL,
            },
        }
    }
}
