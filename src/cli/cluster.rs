//! `tidemill cluster`: what the cluster says of itself, and whether that is well.

use std::fmt::Display;

use clap::{Args, Subcommand};
use client::{Client, ClusterDescription, FinalizedFeature, LogDir, Topic};
use serde::Serialize;

use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output, Table};
use super::session::{self, Connect};
use super::text::bytes;

#[derive(Args, Clone, Debug)]
pub struct ClusterArguments {
    #[command(subcommand)]
    verb: ClusterVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum ClusterVerb {
    /// Show brokers, partitions in trouble, log directories, features; exits with 1 where something is not well
    Status(Status),
}

#[derive(Args, Clone, Debug)]
struct Status {
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

pub fn run(arguments: ClusterArguments) -> Exit {
    session::run(move |shard| async move {
        match arguments.verb {
            ClusterVerb::Status(arguments) => {
                let client = arguments.connect.client(&shard).await?;
                let status = StatusObject::from(gather(&client).await?);
                status.print(arguments.output);
                Ok(if status.healthy { Exit::Done } else { Exit::No })
            }
        }
    })
}

/// Everything that was asked for, as it was answered.
struct Gathered {
    cluster: ClusterDescription,
    features: Vec<FinalizedFeature>,
    topics: Vec<Topic>,
    /// Of each broker, in their order; or why it did not tell.
    log_dirs: Vec<Result<Vec<LogDir>, String>>,
}

async fn gather(client: &Client) -> Result<Gathered, Failure> {
    // The metadata first: it says where each broker is to be asked.
    let topics = client.topics().await?;
    let cluster = client.describe_cluster().await?;
    let features = client.finalized_features().await?;
    let mut log_dirs = Vec::new();
    for described in &cluster.brokers {
        let found = client.log_dirs(described.broker.id).await;
        log_dirs.push(found.map_err(|error| error.to_string()));
    }
    Ok(Gathered { cluster, features, topics, log_dirs })
}

#[derive(Serialize)]
struct StatusObject {
    cluster_id: String,
    controller: Option<i32>,
    healthy: bool,
    brokers: Vec<BrokerRow>,
    topics: usize,
    partitions: usize,
    under_replicated: Vec<String>,
    offline: Vec<String>,
    log_dirs: Vec<LogDirRow>,
    features: Vec<FeatureRow>,
    /// Why it is not healthy, a line for each reason.
    problems: Vec<String>,
}

#[derive(Serialize)]
struct BrokerRow {
    id: i32,
    host: String,
    port: u16,
    rack: Option<String>,
    fenced: bool,
    controller: bool,
}

#[derive(Serialize)]
struct LogDirRow {
    broker: i32,
    path: String,
    error: Option<String>,
    replicas: usize,
    replica_bytes: u64,
    usable_bytes: Option<u64>,
    total_bytes: Option<u64>,
    cordoned: bool,
}

#[derive(Serialize)]
struct FeatureRow {
    name: String,
    level: i16,
}

/// Names in a line of problems, so that a thousand partitions do not make a line of a thousand names.
const NAMES_MAX: usize = 5;

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

impl From<Gathered> for StatusObject {
    fn from(gathered: Gathered) -> Self {
        let Gathered { cluster, features, topics, log_dirs } = gathered;
        let (mut under_replicated, mut offline, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let partitions = topics.iter().flat_map(|topic| (0..).zip(&topic.partitions).map(move |found| (topic, found)));
        for (topic, (index, partition)) in partitions {
            let name = || format!("{}-{index}", topic.name);
            if partition.leader.is_none() {
                offline.push(name());
            }
            if partition.in_sync.len() < partition.replicas.len() {
                under_replicated.push(name());
            }
        }
        if cluster.controller.is_none() {
            problems.push("no controller: topics can't be created or changed".to_owned());
        }
        for described in cluster.brokers.iter().filter(|described| described.is_fenced) {
            problems.push(format!("broker {} is fenced: it leads nothing", described.broker.id));
        }
        if !offline.is_empty() {
            let names = some_of(&offline);
            problems.push(format!("{} partitions have no leader and serve nothing: {names}", offline.len()));
        }
        if !under_replicated.is_empty() {
            let (count, names) = (under_replicated.len(), some_of(&under_replicated));
            problems.push(format!("{count} partitions have replicas that are not in sync: {names}"));
        }
        let mut rows = Vec::new();
        for (described, dirs) in cluster.brokers.iter().zip(log_dirs) {
            let broker = described.broker.id;
            match dirs {
                Err(why) => problems.push(format!("broker {broker} does not tell its log directories: {why}")),
                Ok(dirs) => rows.extend(dirs.into_iter().map(|dir| log_dir(broker.0, dir, &mut problems))),
            }
        }
        let controller = cluster.controller;
        let broker = |described: client::DescribedBroker| BrokerRow {
            id: described.broker.id.0,
            fenced: described.is_fenced,
            controller: controller == Some(described.broker.id),
            host: described.broker.host,
            port: described.broker.port,
            rack: described.broker.rack,
        };
        Self {
            cluster_id: cluster.id,
            controller: controller.map(|id| id.0),
            healthy: problems.is_empty(),
            brokers: cluster.brokers.into_iter().map(broker).collect(),
            topics: topics.len(),
            partitions: topics.iter().map(|topic| topic.partitions.len()).sum(),
            under_replicated,
            offline,
            log_dirs: rows,
            features: features.into_iter().map(|found| FeatureRow { name: found.name, level: found.level }).collect(),
            problems,
        }
    }
}

fn log_dir(broker: i32, dir: LogDir, problems: &mut Vec<String>) -> LogDirRow {
    if dir.error.is_error() {
        problems.push(format!("log directory {} of broker {broker}: {}", dir.path, dir.error));
    } else if dir.usable_bytes == Some(0) {
        problems.push(format!("log directory {} of broker {broker} has no room left", dir.path));
    }
    LogDirRow {
        broker,
        error: dir.error.is_error().then(|| dir.error.to_string()),
        path: dir.path,
        replicas: dir.replica_count,
        replica_bytes: dir.replica_bytes,
        usable_bytes: dir.usable_bytes,
        total_bytes: dir.total_bytes,
        cordoned: dir.is_cordoned,
    }
}

impl StatusObject {
    fn print(&self, format: Format) {
        let mut output = Output::stdout();
        match format {
            Format::Json => output.json(self),
            Format::Table => self.print_tables(&mut output),
        }
    }

    fn print_tables(&self, output: &mut Output) {
        let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let features = self.features.iter().map(|feature| format!("{} {}", feature.name, feature.level));
        let features = Some(features.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty());
        let mut line = |name: &str, value: &dyn Display| output.line(&format!("{name:<11} {value}"));
        line("cluster", &self.cluster_id);
        line("controller", &known(self.controller.map(|id| id.to_string())));
        line("topics", &format!("{} with {} partitions", self.topics, self.partitions));
        line("not in sync", &self.under_replicated.len());
        line("offline", &self.offline.len());
        line("features", &known(features));
        let mut brokers = Table::new(&["BROKER", "HOST", "PORT", "RACK", "STATE"]);
        for broker in &self.brokers {
            let state = if broker.fenced { "fenced" } else { "up" };
            let (id, port) = (broker.id.to_string(), broker.port.to_string());
            brokers.row(vec![id, broker.host.clone(), port, known(broker.rack.clone()), state.to_owned()]);
        }
        output.line("");
        brokers.print(output);
        let mut dirs = Table::new(&["BROKER", "LOG DIRECTORY", "REPLICAS", "SIZE", "FREE", "TOTAL", "STATE"]);
        for dir in &self.log_dirs {
            let state = dir.error.clone().unwrap_or_else(|| if dir.cordoned { "cordoned" } else { "ok" }.to_owned());
            dirs.row(vec![
                dir.broker.to_string(),
                dir.path.clone(),
                dir.replicas.to_string(),
                bytes(dir.replica_bytes),
                known(dir.usable_bytes.map(bytes)),
                known(dir.total_bytes.map(bytes)),
                state,
            ]);
        }
        output.line("");
        dirs.print(output);
        output.line("");
        if self.healthy {
            output.line("healthy");
        }
        self.problems.iter().for_each(|problem| output.line(&format!("NOT HEALTHY: {problem}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{BrokerId, LeaderEpoch, Uuid};
    use client::{Broker, DescribedBroker, Partition};
    use wire::ErrorCode;

    fn partition(leader: Option<i32>, in_sync: &[i32]) -> Partition {
        Partition {
            error: ErrorCode::None,
            leader: leader.map(BrokerId),
            leader_epoch: LeaderEpoch(3),
            replicas: vec![BrokerId(1), BrokerId(2)],
            in_sync: in_sync.iter().copied().map(BrokerId).collect(),
            offline: Vec::new(),
        }
    }

    fn gathered(partitions: Vec<Partition>, error: ErrorCode, usable_bytes: u64) -> Gathered {
        let broker = |id| Broker { id: BrokerId(id), host: "h".into(), port: 9, rack: None };
        let dir = LogDir {
            path: "/data".into(),
            error,
            replica_count: 1,
            replica_bytes: 10,
            total_bytes: Some(100),
            usable_bytes: Some(usable_bytes),
            is_cordoned: false,
        };
        Gathered {
            cluster: ClusterDescription {
                id: "c".into(),
                controller: Some(BrokerId(1)),
                brokers: vec![DescribedBroker { broker: broker(1), is_fenced: false }],
            },
            features: Vec::new(),
            topics: vec![Topic { name: "t".into(), id: Uuid::ZERO, is_internal: false, partitions }],
            log_dirs: vec![Ok(vec![dir])],
        }
    }

    #[test]
    fn what_is_not_well_is_told() {
        let ok = ErrorCode::None;
        let well = || gathered(vec![partition(Some(1), &[1, 2])], ok, 50);
        let (mut no_controller, mut silent, mut fenced) = (well(), well(), well());
        no_controller.cluster.controller = None;
        silent.log_dirs = vec![Err("timed out".into())];
        fenced.cluster.brokers[0].is_fenced = true;
        for (gathered, words) in [
            (well(), &[][..]),
            (gathered(Vec::new(), ok, 50), &[]),
            (gathered(vec![partition(None, &[1, 2])], ok, 50), &["t-0", "no leader"]),
            (gathered(vec![partition(Some(1), &[1, 2]), partition(Some(1), &[1])], ok, 50), &["t-1", "in sync"]),
            (gathered(vec![partition(Some(2), &[2]); 7], ok, 50), &["7 partitions", "and 2 more"]),
            (gathered(Vec::new(), ErrorCode::KafkaStorageError, 50), &["/data", "KAFKA_STORAGE_ERROR"]),
            (gathered(Vec::new(), ok, 0), &["no room"]),
            (no_controller, &["no controller"]),
            (silent, &["broker 1", "timed out"]),
            (fenced, &["broker 1 is fenced"]),
        ] {
            let status = StatusObject::from(gathered);
            assert_eq!(status.healthy, words.is_empty(), "{:?}", status.problems);
            let told = status.problems.join("\n");
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }
}
