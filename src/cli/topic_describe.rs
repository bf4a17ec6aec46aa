//! `tidemill topic describe`: the partitions of topics, and the settings that are their own.

use std::collections::BTreeMap;

use base::PartitionIndex;
use clap::Args;
use client::{Client, OffsetSpec, Topic, TopicSetting};
use serde::Serialize;
use shard::Shard;

use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output, Table};
use super::session::Connect;

#[derive(Args, Clone, Debug)]
pub struct Describe {
    /// Topics to show [default: all]
    names: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Serialize)]
struct PartitionRow<'a> {
    topic: &'a str,
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    offline: Vec<i32>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    /// The topic's own, labels among them; what is not here is the default.
    settings: &'a BTreeMap<String, String>,
}

pub async fn describe(shard: &Shard, arguments: &Describe) -> Result<Exit, Failure> {
    let client = arguments.connect.client(shard).await?;
    let topics = if arguments.names.is_empty() {
        client.topics().await?
    } else {
        let mut topics = Vec::new();
        for name in &arguments.names {
            topics.push(client.describe_topic(name).await?);
        }
        topics
    };
    let (own, none) = (own_settings(&client, &topics).await?, BTreeMap::new());
    let mut output = Output::stdout();
    let mut table = Table::new(&["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"]);
    for topic in &topics {
        let ends = ends_of(&client, topic).await;
        for ((index, partition), ends) in (0..).zip(&topic.partitions).zip(ends) {
            let ids = |brokers: &[base::BrokerId]| brokers.iter().map(|broker| broker.0).collect::<Vec<i32>>();
            let row = PartitionRow {
                topic: &topic.name,
                partition: index,
                leader: partition.leader.map(|leader| leader.0),
                leader_epoch: partition.leader_epoch.0,
                replicas: ids(&partition.replicas),
                in_sync: ids(&partition.in_sync),
                offline: ids(&partition.offline),
                start_offset: ends.map(|(start, _)| start),
                end_offset: ends.map(|(_, end)| end),
                settings: own.get(&*topic.name).unwrap_or(&none),
            };
            match arguments.output {
                Format::Json => output.json(&row),
                Format::Table => table.row(cells(&row)),
            }
        }
    }
    if arguments.output == Format::Table {
        table.print(&mut output);
        let mut table = Table::new(&["TOPIC", "SETTING", "VALUE"]);
        for (topic, settings) in &own {
            settings.iter().for_each(|(name, value)| table.row(vec![topic.clone(), name.clone(), value.clone()]));
        }
        if !table.is_empty() {
            output.line("");
            table.print(&mut output);
        }
    }
    Ok(Exit::Done)
}

/// Of each topic the settings that were given to it.
async fn own_settings(
    client: &Client,
    topics: &[Topic],
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Failure> {
    let settings = client.topic_settings(topics.iter().map(|topic| &*topic.name)).await?;
    let own = |settings: Vec<TopicSetting>| {
        let own = settings.into_iter().filter(|setting| setting.is_own);
        own.map(|setting| (setting.name, setting.value.unwrap_or_default())).collect()
    };
    Ok(settings.into_iter().map(|(topic, settings)| (topic, own(settings))).collect())
}

fn cells(row: &PartitionRow<'_>) -> Vec<String> {
    let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    vec![
        row.topic.to_owned(),
        row.partition.to_string(),
        number(row.leader.map(i64::from)),
        row.leader_epoch.to_string(),
        list(&row.replicas),
        list(&row.in_sync),
        number(row.start_offset),
        number(row.end_offset),
    ]
}

/// Start and end of each partition; none of a topic where some partition can't say.
async fn ends_of(client: &Client, topic: &Topic) -> Vec<Option<(i64, i64)>> {
    let unknown = vec![None; topic.partitions.len()];
    // Without a leader there is nobody to ask, and asking would wait for one.
    if topic.partitions.iter().any(|partition| partition.leader.is_none()) {
        return unknown;
    }
    let indexes = (0..).map(PartitionIndex).zip(&topic.partitions).map(|(index, _)| index);
    let asked: Vec<_> = indexes
        .flat_map(|index| [OffsetSpec::Earliest, OffsetSpec::Latest].map(|spec| (&*topic.name, index, spec)))
        .collect();
    let Ok(found) = client.list_offsets(&asked).await else { return unknown };
    let offset = |found: &client::ListedOffset| found.offset.map(|offset| offset.0);
    found.chunks(2).map(|ends| Some((offset(&ends[0])?, offset(&ends[1])?))).collect()
}
