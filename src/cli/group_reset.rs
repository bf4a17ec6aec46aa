//! `tidemill group reset-offsets`: from where on a group reads.

use std::path::PathBuf;

use base::{LeaderEpoch, Offset, PartitionIndex};
use clap::Args;
use client::{Client, GroupOffset, OffsetSpec, Start};
use serde::Serialize;
use shard::Shard;

use super::Exit;
use super::consume::From;
use super::failure::Failure;
use super::group::has_members;
use super::output::{Format, Output, Table};
use super::session::Connect;

#[derive(Args, Clone, Debug)]
#[group(id = "where", required = true, multiple = false, args = ["to", "shift_by", "from_file"])]
pub struct Reset {
    group: String,
    /// A topic, or one partition of it as in orders:3; may be repeated [default: all that the group has offsets of]
    #[arg(long = "topic", value_name = "TOPIC[:PARTITION]", conflicts_with = "from_file")]
    topics: Vec<String>,
    /// beginning, end, an offset, or a time: RFC 3339 as in 2026-07-31T12:00:00Z, or @MILLISECONDS since 1970
    #[arg(long, value_name = "WHERE")]
    to: Option<From>,
    /// So many records on from where the group is, or back where negative
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    shift_by: Option<i64>,
    /// A file with a line TOPIC,PARTITION,OFFSET for each partition
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Say what would be set, set nothing
    #[arg(long)]
    dry_run: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Serialize)]
struct ResetRow<'a> {
    group: &'a str,
    topic: &'a str,
    partition: i32,
    before: Option<i64>,
    after: i64,
    dry_run: bool,
}

pub async fn reset(shard: &Shard, arguments: &Reset) -> Result<Exit, Failure> {
    let client = arguments.connect.client(shard).await?;
    let group = arguments.group.as_str();
    let described = client.describe_group(group).await?;
    if !described.members.is_empty() {
        return Err(has_members(group, described.members.len()));
    }
    let known = client.group_offsets(group).await?;
    let wanted = match &arguments.from_file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::failed(format!("{} can't be read: {error}", path.display())))?;
            parse(&text).map_err(|reason| Failure::new(Exit::WrongUsage, format!("{}: {reason}", path.display())))?
        }
        None => wanted(&client, arguments, &known).await?,
    };
    if wanted.is_empty() {
        let what = format!("group {group} has no offsets");
        return Err(Failure::failed(what).remedy("`--topic TOPIC` says what it is to read"));
    }
    let offsets = within_log(&client, wanted).await?;
    if !arguments.dry_run {
        client.set_group_offsets(group, &offsets).await?;
    }
    show(arguments, &known, &offsets);
    Ok(Exit::Done)
}

/// A partition and where the group is to go on in it.
type Wanted = (String, PartitionIndex, i64);

/// Lines of TOPIC,PARTITION,OFFSET.
fn parse(text: &str) -> Result<Vec<Wanted>, String> {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let mut parts = line.split(',').map(|part| part.trim().trim_matches('"'));
            let parsed = (parts.next(), parts.next().map(str::parse), parts.next().map(str::parse), parts.next());
            match parsed {
                (Some(topic), Some(Ok(partition @ 0..)), Some(Ok(offset @ 0..)), None) if !topic.is_empty() => {
                    Ok((topic.to_owned(), PartitionIndex(partition), offset))
                }
                _ => Err(format!("line {}: expected TOPIC,PARTITION,OFFSET, not `{line}`", number + 1)),
            }
        })
        .collect()
}

/// The partitions that are meant.
async fn places(
    client: &Client,
    arguments: &Reset,
    known: &[GroupOffset],
) -> Result<Vec<(String, PartitionIndex)>, Failure> {
    if arguments.topics.is_empty() {
        return Ok(known.iter().map(|known| (known.topic.clone(), known.partition)).collect());
    }
    let mut places = Vec::new();
    for named in &arguments.topics {
        let (topic, partition) = match named.rsplit_once(':') {
            Some((topic, partition)) => match partition.parse() {
                Ok(partition @ 0..) => (topic, Some(PartitionIndex(partition))),
                _ => {
                    let what = format!("`{named}` is no partition of a topic");
                    return Err(Failure::new(Exit::WrongUsage, what).remedy("as in orders, or orders:3"));
                }
            },
            None => (named.as_str(), None),
        };
        let found = client.topic(topic).await?;
        let all = (0..).map(PartitionIndex).take(found.partitions.len());
        places.extend(
            all.filter(|index| partition.is_none_or(|asked| asked == *index)).map(|index| (topic.to_owned(), index)),
        );
        if let Some(partition) = partition.filter(|asked| found.partition(*asked).is_none()) {
            return Err(Failure::failed(format!("topic {topic} has no partition {partition}")));
        }
    }
    places.sort();
    places.dedup();
    Ok(places)
}

async fn wanted(client: &Client, arguments: &Reset, known: &[GroupOffset]) -> Result<Vec<Wanted>, Failure> {
    let places = places(client, arguments, known).await?;
    let before = |topic: &str, partition| {
        known.iter().find(|known| known.topic == topic && known.partition == partition).map(|known| known.offset.0)
    };
    let Some(From(start)) = arguments.to else {
        let shift = arguments.shift_by.unwrap_or_default();
        let mut wanted = Vec::new();
        for (topic, partition) in places {
            let Some(before) = before(&topic, partition) else {
                return Err(Failure::failed(format!("the group has no offset of {topic}:{partition} to shift")));
            };
            wanted.push((topic, partition, before.saturating_add(shift)));
        }
        return Ok(wanted);
    };
    let spec = match start {
        Start::Beginning => OffsetSpec::Earliest,
        Start::End => OffsetSpec::Latest,
        Start::Time(at) => OffsetSpec::Time(at),
        Start::Offset(offset) => {
            return Ok(places.into_iter().map(|(topic, partition)| (topic, partition, offset.0)).collect());
        }
    };
    let mut wanted = Vec::new();
    for (topic, partition) in places {
        let asked = [(topic.as_str(), partition, spec), (topic.as_str(), partition, OffsetSpec::Latest)];
        let found = client.list_offsets(&asked).await?;
        // Nothing is as late as the time: what comes next is.
        let offset = found[0].offset.or(found[1].offset).unwrap_or_default();
        wanted.push((topic, partition, offset.0));
    }
    Ok(wanted)
}

/// Offsets that the logs do not hold become the nearest that they do, as Kafka's tool has it.
async fn within_log(client: &Client, wanted: Vec<Wanted>) -> Result<Vec<GroupOffset>, Failure> {
    let mut offsets = Vec::with_capacity(wanted.len());
    for (topic, partition, offset) in wanted {
        let ends = [OffsetSpec::Earliest, OffsetSpec::Latest].map(|spec| (topic.as_str(), partition, spec));
        let found = client.list_offsets(&ends).await?;
        let (start, end) = (found[0].offset.unwrap_or_default(), found[1].offset.unwrap_or_default());
        let offset = Offset(offset.clamp(start.0, end.0.max(start.0)));
        let (leader_epoch, metadata) = (LeaderEpoch(-1), String::new());
        offsets.push(GroupOffset { topic, partition, offset, leader_epoch, metadata });
    }
    Ok(offsets)
}

fn show(arguments: &Reset, known: &[GroupOffset], offsets: &[GroupOffset]) {
    let mut output = Output::stdout();
    let mut table = Table::new(&["TOPIC", "PARTITION", "BEFORE", "AFTER"]);
    for offset in offsets {
        let before = known.iter().find(|known| known.topic == offset.topic && known.partition == offset.partition);
        let row = ResetRow {
            group: &arguments.group,
            topic: &offset.topic,
            partition: offset.partition.0,
            before: before.map(|known| known.offset.0),
            after: offset.offset.0,
            dry_run: arguments.dry_run,
        };
        match arguments.output {
            Format::Json => output.json(&row),
            Format::Table => {
                let before = row.before.map_or_else(|| "-".to_owned(), |before| before.to_string());
                table.row(vec![row.topic.to_owned(), row.partition.to_string(), before, row.after.to_string()]);
            }
        }
    }
    if arguments.output == Format::Table {
        table.print(&mut output);
        if arguments.dry_run {
            output.line("nothing was set (--dry-run)");
        }
    }
}

#[cfg(test)]
mod tests {
    use base::PartitionIndex;

    use super::parse;

    #[test]
    fn a_file_has_a_partition_on_each_line() {
        let wanted = |topic: &str, partition, offset| (topic.to_owned(), PartitionIndex(partition), offset);
        let text = "# kafka-consumer-groups --export writes this form\n\"orders\",0,17\norders, 1, 0\n\n";
        assert_eq!(parse(text), Ok(vec![wanted("orders", 0, 17), wanted("orders", 1, 0)]));
        for (text, line) in
            [("orders,0", 1), ("\norders,-1,3", 2), ("orders,0,-3", 1), ("a,0,1,2", 1), (",0,1", 1), ("a,x,1", 1)]
        {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }
}
