//! Coordinators of consumer groups, measured by members that read nothing: how fast they join, share partitions out anew, and commit.
//!
//! One thread; each member has a connection to its coordinator of its own. A group is whole when each of its members is settled in one
//! generation and each partition is the one's of them, no more and no less.

mod fleet;
mod show;

use std::time::Duration;

use client::{Client, GroupProtocol, NewTopic};
use serde::Serialize;

use crate::report::{GroupHistograms, Latency, new_histogram};
use crate::run::{RunError, failed, with_client};
use crate::units::addresses;
use crate::workload::GroupKind;
use fleet::Fleet;
pub use show::table;

/// What is to be measured, and against whom.
#[derive(Clone, Debug)]
pub struct GroupsPlan {
    /// `host:port` of some brokers, with commas between them.
    pub bootstrap: String,
    pub topic: String,
    pub partitions: u32,
    pub groups: u32,
    /// Of each group.
    pub members: u32,
    pub kind: GroupKind,
    pub session: Duration,
    pub heartbeat: Duration,
    /// How often a member comes and goes.
    pub rounds: u32,
    /// How long all members commit.
    pub commit_for: Duration,
    /// Members have names, and are restarted one after another.
    pub rolling_restart: bool,
    /// How long any step may take.
    pub limit: Duration,
    pub broker_pid: Option<u32>,
}

/// What was measured. Its JSON form is what `--output json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct GroupsReport {
    pub bootstrap: String,
    pub groups: u32,
    pub members: u32,
    pub partitions: u32,
    pub protocol: String,
    /// `None` where the broker says it.
    pub heartbeat_s: Option<f64>,
    /// From the first request of all members to when all groups were whole.
    pub joined_s: f64,
    /// Members that reached a stable share, a second.
    pub joins_per_s: f64,
    /// From a member's first request to its first share.
    pub join: Latency,
    /// From a member's first request to when its group is whole with it.
    pub comes: Latency,
    /// From when a member begins to leave to when its group is whole without it.
    pub goes: Latency,
    /// In both: from when the last of the members had been told of it to when the group was whole. Without the time that it takes until members
    /// ask.
    pub gathered: Latency,
    pub commit: Latency,
    pub commits: u64,
    pub commits_per_s: f64,
    pub offsets_per_s: f64,
    pub commits_failed: u64,
    /// With `--rolling-restart`.
    pub restart: Option<Restart>,
    /// Where the broker's process is known: before the members came, with all of them, at the end.
    pub broker_memory_bytes: Option<[u64; 3]>,
}

/// What came of restarts one after another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Restart {
    pub members: u32,
    pub elapsed_s: f64,
    /// Partitions that anybody lost or was given while somebody else was restarted, or that were not given back.
    pub partitions_moved: u64,
    /// Times that members had to gather because of another's restart.
    pub members_disturbed: u64,
    /// From when a member stopped to when it had its share again.
    pub back: Latency,
}

/// Measures it.
///
/// # Errors
/// The broker can't be reached or refuses what is asked, or a step takes longer than its limit.
pub fn measure(plan: &GroupsPlan) -> Result<GroupsReport, RunError> {
    let plan = plan.clone();
    let brokers = addresses(&plan.bootstrap);
    with_client(&brokers, async move |client: Client| {
        let partition_count = Some(plan.partitions as i32);
        let topic = NewTopic { name: plan.topic.clone(), partition_count, ..NewTopic::default() };
        client.create_topic(&topic, false).await.map_err(failed(&format!("creating topic {}", plan.topic)))?;
        let measured = steps(&client, &plan).await;
        let deleted = client.delete_topic(&plan.topic).await;
        // What went wrong first is what is told.
        let report = measured?;
        deleted.map_err(failed(&format!("deleting topic {}", plan.topic)))?;
        Ok(report)
    })?
}

async fn steps(client: &Client, plan: &GroupsPlan) -> Result<GroupsReport, RunError> {
    let memory = || plan.broker_pid.and_then(memory_of);
    let before = memory();
    let mut fleet = Fleet::new(client, plan);
    let joined = fleet.join().await?;
    let with_all = memory();
    let (mut comes, mut goes, mut gathered) = (new_histogram(), new_histogram(), new_histogram());
    // A static member that goes is missed only when its session is over.
    let rounds = if plan.rolling_restart { 0 } else { plan.rounds };
    for round in 0..rounds {
        let group = round % plan.groups;
        for (took, histogram) in [(fleet.comes(group).await?, &mut comes), (fleet.goes(group).await?, &mut goes)] {
            histogram.record(took.whole.as_nanos() as u64).expect("it grows");
            if let Some(since_told) = took.gathered {
                gathered.record(since_told.as_nanos() as u64).expect("it grows");
            }
        }
    }
    let commits = fleet.commit().await?;
    let restart = if plan.rolling_restart { Some(fleet.restart().await?) } else { None };
    let memory = before.zip(with_all).zip(memory()).map(|((before, with_all), end)| [before, with_all, end]);
    let members = f64::from(plan.groups) * f64::from(plan.members);
    let GroupHistograms { join, commit, .. } = fleet.end().await;
    let per_s = |count: u64| count as f64 / commits.elapsed.as_secs_f64().max(1e-9);
    Ok(GroupsReport {
        bootstrap: plan.bootstrap.clone(),
        groups: plan.groups,
        members: plan.members,
        partitions: plan.partitions,
        protocol: plan.kind.to_string(),
        heartbeat_s: (plan.kind.0 == GroupProtocol::Classic).then_some(plan.heartbeat.as_secs_f64()),
        joined_s: joined.as_secs_f64(),
        joins_per_s: members / joined.as_secs_f64().max(1e-9),
        join: Latency::of(&join),
        comes: Latency::of(&comes),
        goes: Latency::of(&goes),
        gathered: Latency::of(&gathered),
        commit: Latency::of(&commit),
        commits: commits.count,
        commits_per_s: per_s(commits.count),
        offsets_per_s: per_s(commits.offsets),
        commits_failed: commits.failed,
        restart,
        broker_memory_bytes: memory,
    })
}

/// What a process has resident (proc(5), `/proc/pid/status`).
fn memory_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_memory_of_this_process_is_known() {
        assert!(super::memory_of(std::process::id()).expect("it is there") > 1 << 20);
        assert_eq!(super::memory_of(u32::MAX), None);
    }
}
