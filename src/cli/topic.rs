//! `tidemill topic`: create, list, describe, alter and delete topics, or apply a policy that declares them.

use clap::{Args, Subcommand};
use client::{Client, NewTopic};
use serde::Serialize;

use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output, Table};
use super::session::{self, Connect};
use super::text::key_value;
use super::topic_apply::{self, Apply};
use super::topic_describe::{self, Describe};

#[derive(Args, Clone, Debug)]
pub struct TopicArguments {
    #[command(subcommand)]
    verb: TopicVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum TopicVerb {
    /// Create a topic
    Create(Create),
    /// List all topics
    List(List),
    /// Show the partitions of topics (leaders, replicas, offsets) and the settings that are their own
    Describe(Describe),
    /// Change a topic: its settings while it is in use, or more partitions
    Alter(Alter),
    /// Delete topics with all their records
    Delete(Delete),
    /// Take topics to what a policy file declares: create them, change their settings, add partitions
    Apply(Apply),
}

#[derive(Args, Clone, Debug)]
struct Create {
    name: String,
    /// Number of partitions [default: the broker's `num.partitions`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Copies of each partition [default: the broker's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A topic setting by Kafka's name, as in retention.ms=86400000; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    configs: Vec<(String, String)>,
    /// Check everything, create nothing
    #[arg(long)]
    validate_only: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args, Clone, Debug)]
struct List {
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args, Clone, Debug)]
#[group(id = "changes", required = true, multiple = true, args = ["partitions", "configs", "deleted_configs"])]
struct Alter {
    name: String,
    /// Partitions that the topic is to have in the end; their number only grows
    ///
    /// The partition of a key is its hash modulo the number of partitions: from then on, records of a key may go to another
    /// partition than the key's earlier records, and consumers may see them in another order.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// A topic setting by Kafka's name, as in retention.ms=86400000; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    configs: Vec<(String, String)>,
    /// A topic setting that goes back to its default; may be repeated
    #[arg(long = "delete-config", value_name = "KEY")]
    deleted_configs: Vec<String>,
    /// Check everything, change nothing
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args, Clone, Debug)]
struct Delete {
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    connect: Connect,
}

pub fn run(arguments: TopicArguments) -> Exit {
    session::run(move |shard| async move {
        match arguments.verb {
            TopicVerb::Create(arguments) => create(&arguments.connect.client(&shard).await?, &arguments).await,
            TopicVerb::List(arguments) => list(&arguments.connect.client(&shard).await?, arguments.output).await,
            TopicVerb::Describe(arguments) => topic_describe::describe(&shard, &arguments).await,
            TopicVerb::Alter(arguments) => alter(&arguments.connect.client(&shard).await?, &arguments).await,
            TopicVerb::Delete(arguments) => delete(&arguments.connect.client(&shard).await?, &arguments.names).await,
            TopicVerb::Apply(arguments) => topic_apply::apply(&shard, &arguments).await,
        }
    })
}

#[derive(Serialize)]
struct CreatedRow<'a> {
    name: &'a str,
    topic_id: String,
    partitions: i32,
    replication_factor: i16,
    validated_only: bool,
}

async fn create(client: &Client, arguments: &Create) -> Result<Exit, Failure> {
    let topic = NewTopic {
        name: arguments.name.clone(),
        partition_count: arguments.partitions,
        replication_factor: arguments.replication_factor,
        assignments: Vec::new(),
        configs: arguments.configs.clone(),
    };
    let created = client.create_topic(&topic, arguments.validate_only).await?;
    let mut output = Output::stdout();
    match arguments.output {
        Format::Json => output.json(&CreatedRow {
            name: &created.name,
            topic_id: created.id.to_string(),
            partitions: created.partition_count,
            replication_factor: created.replication_factor,
            validated_only: arguments.validate_only,
        }),
        Format::Table => {
            let what = if arguments.validate_only { "could be created" } else { "created" };
            let (partitions, copies) = (created.partition_count, created.replication_factor);
            output.line(&format!("topic {} {what} (partitions: {partitions}, copies: {copies})", created.name));
        }
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct ListRow<'a> {
    name: &'a str,
    topic_id: String,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
}

async fn list(client: &Client, format: Format) -> Result<Exit, Failure> {
    let topics = client.topics().await?;
    let rows = topics.iter().map(|topic| ListRow {
        name: &topic.name,
        topic_id: topic.id.to_string(),
        partitions: topic.partitions.len(),
        replication_factor: topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0),
        internal: topic.is_internal,
    });
    let mut output = Output::stdout();
    match format {
        Format::Json => rows.for_each(|row| output.json(&row)),
        Format::Table => {
            let mut table = Table::new(&["NAME", "PARTITIONS", "COPIES", "TOPIC ID"]);
            for row in rows {
                let (partitions, copies) = (row.partitions.to_string(), row.replication_factor.to_string());
                table.row(vec![row.name.to_owned(), partitions, copies, row.topic_id]);
            }
            table.print(&mut output);
        }
    }
    Ok(Exit::Done)
}

async fn alter(client: &Client, arguments: &Alter) -> Result<Exit, Failure> {
    let (name, check) = (&arguments.name, arguments.validate_only);
    let set = arguments.configs.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
    let deleted = arguments.deleted_configs.iter().map(|key| (key.clone(), None));
    let changes: Vec<(String, Option<String>)> = set.chain(deleted).collect();
    let mut output = Output::stdout();
    let (settings, partitions) = if check { ("can be changed", "could be") } else { ("changed", "are") };
    // The settings first: where they are refused nothing has changed yet.
    if !changes.is_empty() {
        client.alter_topic(name, &changes, check).await?;
        output.line(&format!("settings of topic {name} {settings}"));
    }
    if let Some(count) = arguments.partitions {
        client.add_partitions(name, count, check).await?;
        output.line(&format!("partitions of topic {name} {partitions} {count}"));
        eprintln!(
            "tidemill: warning: records of a key may go to another partition of topic {name} than the key's earlier records, which \
             were placed among fewer partitions"
        );
    }
    Ok(Exit::Done)
}

async fn delete(client: &Client, names: &[String]) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for name in names {
        match client.delete_topic(name).await {
            Ok(()) => Output::stdout().line(&format!("topic {name} deleted")),
            // The others are deleted all the same.
            Err(error) => exit = Failure::from(error).report(),
        }
    }
    Ok(exit)
}
