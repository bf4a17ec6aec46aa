//! Settings of group coordinators.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{NodeConfig, OwnSettingsOfGroups};

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
    /// `group.consumer.session.timeout.ms`, of groups that have none of their own.
    pub session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`, of groups that have none of their own.
    pub heartbeat_interval_ms: i32,
    /// What single groups have of their own, from their members' next heartbeats on.
    pub own: Arc<OwnSettingsOfGroups>,
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

impl ConsumerGroupConfig {
    /// How long a member of the group may be silent.
    #[must_use]
    pub fn session_timeout(&self, group: &str) -> Duration {
        let own = self.own.get(group).and_then(|own| own.settings.session_timeout_ms);
        millis(own.unwrap_or(self.session_timeout_ms))
    }

    /// How often a member of the group is asked to be heard of.
    #[must_use]
    pub fn heartbeat_interval_ms(&self, group: &str) -> i32 {
        let own = self.own.get(group).and_then(|own| own.settings.heartbeat_interval_ms);
        own.unwrap_or(self.heartbeat_interval_ms)
    }
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
                session_timeout_ms: node.group_consumer_session_timeout_ms,
                heartbeat_interval_ms: node.group_consumer_heartbeat_interval_ms,
                own: Arc::default(),
                size_max: node.group_members_max as usize,
                migration: Migration::BIDIRECTIONAL,
            },
        }
    }
}

/// A time-out as members name it; a negative one is none.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
