//! The command line: one file for each verb.

mod cluster;
mod config;
mod consume;
mod consume_group;
mod doctor;
mod failure;
mod group;
mod group_headroom;
mod group_reset;
mod log;
mod output;
mod produce;
pub mod serve;
mod session;
mod text;
mod topic;
mod topic_apply;
mod topic_describe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kafka-protocol message broker: thread-per-core on io_uring, nothing acknowledged lost.
#[derive(Parser, Debug)]
#[command(name = "tidemill", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run a broker
    Serve(serve::ServeArguments),
    /// Create, list, describe, change and delete topics, or apply a policy that declares them
    Topic(topic::TopicArguments),
    /// Write a record for each line of standard input
    Produce(produce::ProduceArguments),
    /// Print the records of a topic
    Consume(consume::ConsumeArguments),
    /// List and describe consumer groups, set how far they have read, and delete them
    Group(group::GroupArguments),
    /// Check a configuration, or show what every key is set to
    Config(config::ConfigArguments),
    /// Show how the cluster is
    Cluster(cluster::ClusterArguments),
    /// Say what on this host, or in a data directory, stands in a broker's way, and what to do about it
    Doctor(doctor::DoctorArguments),
    /// Look into the files of a stopped broker
    Log(log::LogArguments),
}

/// Exit codes, the same for every verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// The answer is "no": a check or target failed.
    No = 1,
    WrongUsage = 2,
    /// Data was found lost, duplicated or out of order.
    DataDamaged = 3,
    CannotConnect = 4,
    /// Refused or failed.
    Failed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Reads the command line and does what it says.
#[must_use]
pub fn run() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Topic(arguments) => topic::run(arguments),
        Verb::Produce(arguments) => produce::run(arguments),
        Verb::Consume(arguments) => consume::run(arguments),
        Verb::Group(arguments) => group::run(arguments),
        Verb::Config(arguments) => config::run(&arguments),
        Verb::Cluster(arguments) => cluster::run(arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Log(arguments) => log::run(arguments),
    }
    .into()
}
