//! `groups`: members without records, for what coordinators take.

use std::time::Duration;

use clap::Args;

use super::run::Output;
use super::session::{Exit, Failure, ended, print, print_json};
use crate::groups::{GroupsPlan, measure, table};
use crate::units::Span;
use crate::workload::GroupKind;

#[derive(Clone, Debug, Args)]
pub struct GroupsArguments {
    /// `host:port` of some brokers, with commas between them
    #[arg(long, default_value = "127.0.0.1:9092")]
    bootstrap: String,
    /// The topic that every group reads; it is created, and deleted afterwards
    #[arg(long, default_value = "loadgen-groups")]
    topic: String,
    /// Partitions of the topic
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: u32,
    /// Groups; of several the partitions are as many for each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    groups: u32,
    /// Members of each group, every one with a connection of its own
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    members: u32,
    /// `classic`, or `consumer` (KIP-848)
    #[arg(long, default_value_t)]
    group_protocol: GroupKind,
    /// After how long without a sign of life a member is taken for dead; with `consumer` the broker says it
    #[arg(long, value_name = "SPAN", default_value = "45s")]
    session_timeout: Span,
    /// Between two signs of life, by which members learn that others came or went; with `consumer` the broker says it
    #[arg(long, value_name = "SPAN", default_value = "3s")]
    heartbeat_interval: Span,
    /// How often a member comes and goes; groups take turns. With --rolling-restart none does
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long members commit
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    commit_for: Span,
    /// Give members names, and restart them one after another
    #[arg(long)]
    rolling_restart: bool,
    /// How long any step may take
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    limit: Span,
    /// The broker's process id, where it runs on this machine: its memory is reported
    #[arg(long, value_name = "PID")]
    broker_pid: Option<u32>,
    /// How the report is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl GroupsArguments {
    fn plan(&self) -> Result<GroupsPlan, Failure> {
        if self.heartbeat_interval.0 >= self.session_timeout.0 || self.heartbeat_interval.0 == Duration::ZERO {
            return Err(Failure("heartbeat-interval must be shorter than session-timeout, and not nothing".into()));
        }
        Ok(GroupsPlan {
            bootstrap: self.bootstrap.clone(),
            topic: self.topic.clone(),
            partitions: self.partitions,
            groups: self.groups,
            members: self.members,
            kind: self.group_protocol,
            session: self.session_timeout.0,
            heartbeat: self.heartbeat_interval.0,
            rounds: self.rounds,
            commit_for: self.commit_for.0,
            rolling_restart: self.rolling_restart,
            limit: self.limit.0,
            broker_pid: self.broker_pid,
        })
    }

    pub(super) fn run(&self) -> Exit {
        let outcome = || {
            let figures = measure(&self.plan()?)?;
            match self.output {
                Output::Table => print(&table(&figures))?,
                Output::Json => print_json(&figures)?,
            }
            let moved = figures.restart.as_ref().is_some_and(|restart| restart.partitions_moved > 0);
            Ok(if moved { Exit::Missed } else { Exit::Done })
        };
        ended(outcome())
    }
}
