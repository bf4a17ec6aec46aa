//! The metrics of the groups of one shard: as many groups, and as many of their partitions, one by one as the configuration allows, the
//! first by their coordinator and by name.

use std::rc::Rc;

use super::exposition::Exposition;
use super::families::Metric;
use crate::coordinator::Coordinator;
use crate::coordinator::lag::{GroupLag, PartitionLag};
use crate::coordinator::message::TopicPartition;
use crate::node::Node;

/// Groups, or partitions, looked at before others get a turn.
const AT_ONCE: usize = 128;

/// What is told, and what there was no room for.
struct Told<'t> {
    told: &'t mut Exposition,
    groups_left: usize,
    partitions_left: usize,
    groups_untold: usize,
    partitions_untold: usize,
}

/// How far the groups of this shard are behind.
pub async fn groups(node: &Node, told: &mut Exposition) {
    let of_shard = |max: u32| max as usize / usize::from(node.mesh.shards());
    let mut told = Told {
        told,
        groups_left: of_shard(node.config.metrics_groups_max),
        partitions_left: of_shard(node.config.metrics_group_partitions_max),
        groups_untold: 0,
        partitions_untold: 0,
    };
    let mut since_yield = 0;
    for coordinator in node.coordinators.all() {
        let mut last: Option<String> = None;
        while let Some(group) = coordinator.with_table(|table| table.group_after(last.as_deref())).flatten() {
            if let Some(lag) = coordinator.with_table(|table| table.lag(&group)).flatten() {
                told.group(&group, &lag);
                partitions(node, &coordinator, &group, &lag, &mut told).await;
            }
            since_yield += 1;
            if since_yield == AT_ONCE {
                since_yield = 0;
                node.shard.yield_now().await;
            }
            last = Some(group);
        }
    }
    told.told.value(Metric::GroupsUntold, &[], told.groups_untold);
    told.told.value(Metric::GroupPartitionsUntold, &[], told.partitions_untold);
}

/// The partitions of a group for which there is room.
async fn partitions(node: &Node, coordinator: &Rc<Coordinator>, group: &str, lag: &GroupLag, told: &mut Told<'_>) {
    let room = told.partitions_left.min(lag.partitions);
    told.partitions_left -= room;
    told.partitions_untold += lag.partitions - room;
    let (mut left, mut last): (usize, Option<TopicPartition>) = (room, None);
    while left > 0 {
        let next = coordinator.with_table(|table| table.partition_lags(group, last.as_ref(), left.min(AT_ONCE)));
        // Gone meanwhile.
        let Some((lags, Some(passed))) = next else { return };
        left -= lags.len();
        lags.iter().for_each(|lag| told.partition(group, lag));
        last = Some(passed);
        node.shard.yield_now().await;
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

impl Told<'_> {
    fn group(&mut self, group: &str, lag: &GroupLag) {
        if self.groups_left == 0 {
            self.groups_untold += 1;
            return;
        }
        self.groups_left -= 1;
        let labels = [("group", group)];
        self.told.value(Metric::GroupLagRecordsMax, &labels, lag.records_max);
        self.told.value(Metric::GroupLagSecondsMax, &labels, seconds(lag.age_ms_max));
        if let Some(headroom_ms) = lag.headroom_ms_min {
            self.told.value(Metric::GroupHeadroomSecondsMin, &labels, seconds(headroom_ms));
        }
        self.told.value(Metric::GroupLostRecords, &labels, lag.lost);
        self.told.value(Metric::GroupStalledPartitions, &labels, lag.stalled);
        self.told.value(Metric::GroupReassignedPartitions, &labels, lag.handed_on);
    }

    fn partition(&mut self, group: &str, PartitionLag { of, lag }: &PartitionLag) {
        let number = of.partition.to_string();
        let labels = [("group", group), ("topic", of.topic.as_str()), ("partition", &number)];
        self.told.value(Metric::GroupLagRecords, &labels, lag.records);
        if let Some(age_ms) = lag.age_ms {
            self.told.value(Metric::GroupLagSeconds, &labels, seconds(age_ms));
        }
        if let Some(headroom_ms) = lag.headroom_ms {
            self.told.value(Metric::GroupHeadroomSeconds, &labels, seconds(headroom_ms));
        }
    }
}
