//! `tidemill group`: list and describe consumer groups, set how far they have read, delete them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Offset, PartitionIndex};
use clap::{Args, Subcommand};
use client::{Client, Consumer, ConsumerOptions, DescribedGroup, GroupOffset, OffsetSpec, OutOfRange};
use serde::Serialize;
use shard::Shard;

use super::Exit;
use super::failure::Failure;
use super::group_headroom;
use super::group_reset::{self, Reset};
use super::output::{Format, Output, Table};
use super::session::{self, Connect};

/// How exact what is shown is.
const HEADROOM: &str = "\
LAG SECONDS is the age of the next record that the group has not read.

HEADROOM is the time until retention deletes that record, as things stand; 0 where it has, - where it will not or that is not known. By
retention.ms it is a lower bound: the record goes with its whole segment, once the newest record in there is old enough. By retention.bytes
(and retention.topic.bytes) it is an estimate: the appends of the last ten minutes go on, and records are of equal size. The shorter of both
is shown. The broker's own metrics, tidemill_group_retention_headroom_seconds, go by its segments.";

#[derive(Args, Clone, Debug)]
pub struct GroupArguments {
    #[command(subcommand)]
    verb: GroupVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum GroupVerb {
    /// List all groups
    List(List),
    /// Show how far groups have read, how far behind they are, and who reads what
    #[command(after_long_help = HEADROOM)]
    Describe(Describe),
    /// Set how far a group without members has read
    ResetOffsets(Reset),
    /// Delete groups without members, with their offsets
    Delete(Delete),
}

#[derive(Args, Clone, Debug)]
struct List {
    /// Only groups in this state, as in Stable or Empty
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args, Clone, Debug)]
struct Describe {
    #[arg(required = true)]
    groups: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args, Clone, Debug)]
struct Delete {
    #[arg(required = true)]
    groups: Vec<String>,
    /// Say what would be deleted, delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: Connect,
}

pub fn run(arguments: GroupArguments) -> Exit {
    session::run(move |shard| async move {
        match arguments.verb {
            GroupVerb::List(arguments) => list(&arguments.connect.client(&shard).await?, &arguments).await,
            GroupVerb::Describe(arguments) => describe(&shard, &arguments).await,
            GroupVerb::ResetOffsets(arguments) => group_reset::reset(&shard, &arguments).await,
            GroupVerb::Delete(arguments) => delete(&arguments.connect.client(&shard).await?, &arguments).await,
        }
    })
}

#[derive(Serialize)]
struct GroupRow<'a> {
    group: &'a str,
    state: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    protocol_type: &'a str,
}

async fn list(client: &Client, arguments: &List) -> Result<Exit, Failure> {
    let groups = client.list_groups().await?;
    let is_asked = |state: &str| arguments.state.as_ref().is_none_or(|asked| asked.eq_ignore_ascii_case(state));
    let mut output = Output::stdout();
    let mut table = Table::new(&["GROUP", "STATE", "TYPE", "PROTOCOL"]);
    for listed in groups.iter().filter(|group| is_asked(&group.state)) {
        let row = GroupRow {
            group: &listed.name,
            state: &listed.state,
            kind: &listed.kind,
            protocol_type: &listed.protocol_type,
        };
        match arguments.output {
            Format::Json => output.json(&row),
            Format::Table => table.row([row.group, row.state, row.kind, row.protocol_type].map(str::to_owned).to_vec()),
        }
    }
    if arguments.output == Format::Table {
        table.print(&mut output);
    }
    Ok(Exit::Done)
}

/// A partition that a group has read, or that a member of it has.
#[derive(Serialize)]
struct OffsetRow<'a> {
    group: &'a str,
    state: &'a str,
    topic: &'a str,
    partition: i32,
    /// The next offset to read.
    committed: Option<i64>,
    end: Option<i64>,
    /// Records that have not been read.
    lag: Option<i64>,
    /// How old the next record is that has not been read.
    lag_seconds: Option<f64>,
    /// Until retention deletes that record.
    headroom_seconds: Option<f64>,
    member: Option<&'a str>,
    client: Option<&'a str>,
    host: Option<&'a str>,
}

async fn describe(shard: &Shard, arguments: &Describe) -> Result<Exit, Failure> {
    let client = arguments.connect.client(shard).await?;
    let mut output = Output::stdout();
    let mut exit = Exit::Done;
    for group in &arguments.groups {
        let described = client.describe_group(group).await?;
        let offsets = client.group_offsets(group).await?;
        if described.state == "Dead" && offsets.is_empty() {
            output.flush();
            eprintln!("tidemill: there is no group {group}");
            exit = Exit::No;
            continue;
        }
        let standing = Standing::of(shard, &client, &described, &offsets, arguments.connect.timeout()).await?;
        let rows = standing.rows(group, &described);
        match arguments.output {
            Format::Json => rows.iter().for_each(|row| output.json(row)),
            Format::Table => print(&mut output, group, &described, &rows),
        }
    }
    Ok(exit)
}

fn print(output: &mut Output, group: &str, described: &DescribedGroup, rows: &[OffsetRow<'_>]) {
    let members = described.members.len();
    output.line(&format!("group {group}: {}, members: {members}, protocol: {}", described.state, described.protocol));
    let mut table = Table::new(&[
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "END",
        "LAG",
        "LAG SECONDS",
        "HEADROOM",
        "MEMBER",
        "CLIENT",
        "HOST",
    ]);
    for row in rows {
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
        table.row(vec![
            row.topic.to_owned(),
            row.partition.to_string(),
            number(row.committed),
            number(row.end),
            number(row.lag),
            row.lag_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
            row.headroom_seconds.map_or_else(|| "-".to_owned(), group_headroom::text),
            text(row.member),
            text(row.client),
            text(row.host),
        ]);
    }
    table.print(output);
}

type Place = (String, PartitionIndex);

/// How a group stands to what there is to read.
struct Standing {
    committed: BTreeMap<Place, Offset>,
    ends: BTreeMap<Place, Offset>,
    /// How old the next record of each is, where there is one.
    ages: BTreeMap<Place, Duration>,
    /// Until retention deletes it, where it will.
    headrooms: BTreeMap<Place, Duration>,
    /// The member that reads each, by its place among the members.
    readers: BTreeMap<Place, usize>,
}

impl Standing {
    async fn of(
        shard: &Shard,
        client: &Client,
        described: &DescribedGroup,
        offsets: &[GroupOffset],
        limit: Duration,
    ) -> Result<Self, Failure> {
        let committed: BTreeMap<Place, Offset> =
            offsets.iter().map(|known| ((known.topic.clone(), known.partition), known.offset)).collect();
        let readers = readers(described);
        let places: BTreeSet<Place> = committed.keys().chain(readers.keys()).cloned().collect();
        let mut ends = BTreeMap::new();
        for place in places {
            // A topic that is gone has no end; the group keeps its offsets of it for a while.
            let asked = [(place.0.as_str(), place.1, OffsetSpec::Latest)];
            if let Ok(found) = client.list_offsets(&asked).await
                && let Some(end) = found[0].offset
            {
                ends.insert(place, end);
            }
        }
        let ages = ages(shard, client, &committed, &ends, limit).await;
        let headrooms = group_headroom::headrooms(client, shard.wall(), &committed, &ends, &ages);
        // What can't be told is shown as unknown.
        let headrooms = session::within(shard, limit, headrooms).await.and_then(Result::ok).unwrap_or_default();
        Ok(Self { committed, ends, ages, headrooms, readers })
    }

    fn rows<'a>(&'a self, group: &'a str, described: &'a DescribedGroup) -> Vec<OffsetRow<'a>> {
        let places: BTreeSet<&Place> = self.committed.keys().chain(self.readers.keys()).collect();
        let row = |place: &'a Place| {
            let (committed, end) = (self.committed.get(place), self.ends.get(place));
            let member = self.readers.get(place).map(|at| &described.members[*at]);
            let lag = committed.zip(end).map(|(committed, end)| (end.0 - committed.0).max(0));
            let age = self.ages.get(place).map(Duration::as_secs_f64);
            OffsetRow {
                group,
                state: &described.state,
                topic: &place.0,
                partition: place.1.0,
                committed: committed.map(|offset| offset.0),
                end: end.map(|offset| offset.0),
                lag,
                lag_seconds: age.or_else(|| lag.filter(|lag| *lag == 0).map(|_| 0.0)),
                headroom_seconds: self.headrooms.get(place).map(Duration::as_secs_f64),
                member: member.map(|member| member.id.as_str()),
                client: member.map(|member| member.client_id.as_str()),
                host: member.map(|member| member.host.as_str()),
            }
        };
        places.into_iter().map(row).collect()
    }
}

/// The member that reads each partition, by its place among the members.
fn readers(described: &DescribedGroup) -> BTreeMap<Place, usize> {
    let members = described.members.iter().enumerate();
    members.flat_map(|(at, member)| member.partitions.iter().map(move |place| (place.clone(), at))).collect()
}

/// How old the next unread record of each partition is that has one: each is read.
async fn ages(
    shard: &Shard,
    client: &Client,
    committed: &BTreeMap<Place, Offset>,
    ends: &BTreeMap<Place, Offset>,
    limit: Duration,
) -> BTreeMap<Place, Duration> {
    // One batch of each is enough, and one that retention has passed over is as old as the oldest that is left.
    let options =
        ConsumerOptions { partition_bytes: 1, out_of_range: OutOfRange::Beginning, ..ConsumerOptions::default() };
    let consumer = Consumer::new(client, options);
    let mut waited: BTreeSet<Place> = BTreeSet::new();
    for (place, offset) in committed {
        if ends.get(place).is_some_and(|end| end > offset) {
            consumer.assign_at(&place.0, place.1, *offset);
            waited.insert(place.clone());
        }
    }
    let mut ages = BTreeMap::new();
    let reading = async {
        while !waited.is_empty() {
            let (place, age) = match consumer.next().await {
                Ok(fetched) => {
                    let place = (fetched.topic.to_string(), fetched.partition);
                    let unread = committed.get(&place).copied().unwrap_or_default();
                    let record =
                        fetched.batch.iter().flat_map(|batch| batch.records()).find(|record| record.offset >= unread);
                    let written = record.map(|record| record.timestamp.0);
                    (place, written.map(|written| shard.wall().0.saturating_sub(written).max(0)))
                }
                Err(error) => ((error.topic.to_string(), error.partition), None),
            };
            if age.is_some() || !ages.contains_key(&place) {
                consumer.unassign(&place.0, place.1);
                waited.remove(&place);
            }
            if let Some(age) = age {
                ages.insert(place, Duration::from_millis(u64::try_from(age).unwrap_or(0)));
            }
        }
    };
    // What does not come in time is shown as unknown.
    let _ = session::within(shard, limit, reading).await;
    ages
}

async fn delete(client: &Client, arguments: &Delete) -> Result<Exit, Failure> {
    let mut output = Output::stdout();
    for group in &arguments.groups {
        if arguments.dry_run {
            let described = client.describe_group(group).await?;
            let offsets = client.group_offsets(group).await?.len();
            if described.state == "Dead" && offsets == 0 {
                return Err(Failure::failed(format!("there is no group {group}")));
            }
            if !described.members.is_empty() {
                return Err(has_members(group, described.members.len()));
            }
            output.line(&format!("group {group} would be deleted, with its offsets of {offsets} partitions"));
            continue;
        }
        client.delete_group(group).await?;
        output.line(&format!("group {group} deleted"));
    }
    Ok(Exit::Done)
}

/// Why nothing can be done to a group now.
pub fn has_members(group: &str, members: usize) -> Failure {
    Failure::failed(format!("group {group} has {members} members"))
        .remedy("stop its consumers first; a member that was killed is gone once its session has ended")
}
