//! The task that looks at how far the groups of a shard are behind.

use std::rc::Rc;
use std::time::Duration;

use shard::Class;

use super::progress::{LagLimits, Look, Warning};
use super::summary::GroupLag;
use super::table::{Holders, ToLookAt};
use crate::coordinator::host::{Coordinator, ViewTopics, moment};
use crate::coordinator::message::TopicPartition;
use crate::log_throttle::LogThrottle;
use crate::message::{LagFound, LagQuery};
use crate::node::Node;
use crate::router;

/// Partitions looked at together, and shares read: what one poll does, and what one question to an owner holds.
const PARTITIONS_AT_ONCE: usize = 256;

/// Has this shard look at its groups, as often as its settings say.
pub fn watch(node: &Rc<Node>) {
    node.shard.spawn_detached(Class::Background, node.accounts.lag.clone(), lag_loop(node.clone()));
}

/// Looks again and again, for as long as the shard runs.
async fn lag_loop(node: Rc<Node>) {
    let interval = Duration::from_millis(node.config.group_lag_interval_ms.into());
    if interval.is_zero() {
        return;
    }
    let pass = Pass {
        limits: LagLimits {
            headroom_ms: i64::try_from(node.config.group_headroom_warning_ms).unwrap_or(i64::MAX),
            stall: Duration::from_millis(node.config.group_stall_warning_ms),
        },
        said: LogThrottle::default(),
        node,
    };
    loop {
        pass.node.shard.sleep(interval).await;
        for coordinator in pass.node.coordinators.all() {
            pass.coordinator(&coordinator).await;
        }
    }
}

struct Pass {
    node: Rc<Node>,
    limits: LagLimits,
    said: LogThrottle,
}

impl Pass {
    /// All groups of a coordinator. It may lose its table in between: then nothing is found.
    async fn coordinator(&self, coordinator: &Coordinator) {
        let mut last: Option<String> = None;
        while let Some(group) = coordinator.with_table(|table| table.group_after(last.as_deref())).flatten() {
            self.group(coordinator, &group).await;
            self.node.shard.yield_now().await;
            last = Some(group);
        }
    }

    async fn group(&self, coordinator: &Coordinator, group: &str) {
        let mut holders = self.holders(coordinator, group).await;
        let mut sums = GroupLag::default();
        let mut last: Option<TopicPartition> = None;
        loop {
            let (view, number) = (self.node.view(), self.node.view_number());
            let topics = ViewTopics { view: &view, number };
            let batch = coordinator
                .with_table(|table| table.to_look_at(group, last.as_ref(), PARTITIONS_AT_ONCE, &mut holders, &topics));
            let Some(batch) = batch.filter(|batch| !batch.is_empty()) else { break };
            let found = self.ask(&batch).await;
            self.take_up(coordinator, group, &batch, &found, &mut sums);
            last = batch.into_iter().next_back().map(|last| last.of);
        }
        coordinator.with_table(|table| table.seen_all(group, sums));
    }

    /// Who has what, where that stands in the members' shares.
    async fn holders(&self, coordinator: &Coordinator, group: &str) -> Holders {
        let mut holders = Holders::default();
        let mut last: Option<String> = None;
        let mut since_yield = 0;
        while let Some((id, share)) =
            coordinator.with_table(|table| table.share_after(group, last.as_deref())).flatten()
        {
            since_yield += 1 + holders.add(&id, &share);
            if since_yield >= PARTITIONS_AT_ONCE {
                since_yield = 0;
                self.node.shard.yield_now().await;
            }
            last = Some(id);
        }
        holders
    }

    /// What the owners say, in the order of `batch`; `None` where there is none.
    async fn ask(&self, batch: &[ToLookAt]) -> Vec<Option<LagFound>> {
        let query = |(place, at): (usize, &ToLookAt)| {
            let query = LagQuery { log: at.log?, committed: at.committed, next_known: at.next_known };
            Some((place, query))
        };
        let (places, queries): (Vec<_>, Vec<_>) = batch.iter().enumerate().filter_map(query).unzip();
        let mut found = vec![None; batch.len()];
        for (place, answer) in places.into_iter().zip(router::measure_lag(&self.node, queries).await) {
            found[place] = answer;
        }
        found
    }

    fn take_up(
        &self,
        coordinator: &Coordinator,
        group: &str,
        batch: &[ToLookAt],
        found: &[Option<LagFound>],
        sums: &mut GroupLag,
    ) {
        let now = moment(&self.node);
        for (at, found) in batch.iter().zip(found) {
            let look = found.map(|found| Look { committed: at.committed, holder: at.holder.as_ref(), found, now });
            let seen = coordinator.with_table(|table| {
                let warnings = table.seen(group, &at.of, look.as_ref(), &self.limits, sums);
                let client = at.holder.as_deref().filter(|_| !warnings.is_empty());
                (warnings, client.and_then(|member| table.client_of(group, member)))
            });
            let (Some((warnings, client)), Some(look)) = (seen, look) else { continue };
            let about = About { group, at, look: &look, client: client.unwrap_or_default() };
            warnings.into_iter().for_each(|warning| self.say(&about, warning));
        }
    }

    fn say(&self, about: &About<'_>, warning: Warning) {
        let Some(left_out) = self.said.admit(self.node.shard.now()) else { return };
        let About { group, at, look, client } = about;
        let (topic, partition) = (at.of.topic.as_str(), at.of.partition);
        let (committed, log_start, end) = (look.committed, look.found.log_start, look.found.high_watermark);
        let (member, (client, host)) = (at.holder.as_deref().unwrap_or_default(), client);
        match warning {
            Warning::Headroom { headroom_ms, .. } => tracing::warn!(
                group, topic, %partition, %committed, %end, headroom_ms,
                "retention will soon delete what the group has not read: have it catch up, or raise retention.ms or retention.bytes{left_out}"
            ),
            Warning::Lost => tracing::warn!(
                group, topic, %partition, %committed, %log_start, %end,
                "records that the group had not read are deleted; it goes on as its auto.offset.reset says{left_out}"
            ),
            Warning::Stalled { for_ms } => tracing::warn!(
                group, topic, %partition, %committed, %end, member, client, host, for_ms,
                "a member holds a partition and does not get on: see what it does{left_out}"
            ),
            Warning::HandedOn { times } => tracing::warn!(
                group, topic, %partition, %committed, %end, member, client, host, times,
                "a partition goes from member to member and none gets on: they may all fail at the record there{left_out}"
            ),
        }
    }
}

/// What a warning is about.
struct About<'a> {
    group: &'a str,
    at: &'a ToLookAt,
    look: &'a Look<'a>,
    client: (String, String),
}
