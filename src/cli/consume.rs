//! `tidemill consume`: prints the records of a topic, up to the end it had when the reading began, or for ever.

use std::collections::BTreeMap;
use std::str::FromStr;

use base::{Offset, PartitionIndex, WallTime};
use clap::Args;
use client::{Client, ConsumeError, Consumer, ConsumerOptions, Fault, Fetched, Start};
use record::Record;
use serde::Serialize;
use shard::Shard;

use super::failure::Failure;
use super::output::{Format, Output};
use super::session::{self, Connect};
use super::text::{base64, escaped, parse_rfc3339, rfc3339};
use super::{Exit, consume_group};

#[derive(Args, Clone, Debug)]
pub struct ConsumeArguments {
    pub topic: String,
    /// Read this partition alone [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..), conflicts_with = "group")]
    partition: Option<i32>,
    /// Read as a member of this group: from where it was, and what is printed is committed
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// beginning, end, an offset, or a time: RFC 3339 as in 2026-07-31T12:00:00Z, or @MILLISECONDS since 1970
    #[arg(long, value_name = "WHERE", default_value = "beginning")]
    pub from: From,
    /// Stop after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Go on with what is written from now on, until interrupted
    #[arg(long)]
    pub follow: bool,
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub connect: Connect,
}

/// Where to begin, as written on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct From(pub Start);

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let start = match text {
            "beginning" => Some(Start::Beginning),
            "end" => Some(Start::End),
            _ => match text.strip_prefix('@') {
                Some(ms) => ms.parse().ok().filter(|ms| *ms >= 0).map(|ms| Start::Time(WallTime(ms))),
                None => match text.parse() {
                    Ok(offset @ 0..) => Some(Start::Offset(Offset(offset))),
                    _ => parse_rfc3339(text).map(Start::Time),
                },
            },
        };
        start.map(Self).ok_or_else(|| "expected beginning, end, an offset, @MILLISECONDS or a time".to_owned())
    }
}

pub fn run(arguments: ConsumeArguments) -> Exit {
    session::run(move |shard| async move {
        match &arguments.group {
            Some(group) => consume_group::consume(&shard, &arguments, group).await,
            None => consume(&shard, &arguments).await,
        }
    })
}

async fn consume(shard: &Shard, arguments: &ConsumeArguments) -> Result<Exit, Failure> {
    let client = arguments.connect.client(shard).await?;
    let (consumer, ends) = begin(&client, arguments).await?;
    let reached_end = || {
        let position = |partition| consumer.position(&arguments.topic, partition).unwrap_or_default();
        ends.iter().all(|(partition, end)| position(*partition) >= *end)
    };
    let mut output = Output::stdout();
    if arguments.output == Format::Table {
        output.line("PARTITION\tOFFSET\tTIMESTAMP\tKEY\tVALUE");
    }
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 && (arguments.follow || !reached_end()) {
        let next = match consumer.try_next() {
            Some(next) => next,
            None => {
                // Nothing more for now: whoever reads along sees all there is.
                output.flush();
                wait(shard, &consumer, arguments).await?
            }
        };
        let fetched = next.map_err(|error| unreadable(&error))?;
        for record in fetched.batch.iter().flat_map(|batch| batch.records()) {
            // What was written after the beginning is not asked for, unless following.
            let beyond = ends.get(&fetched.partition).is_some_and(|end| record.offset >= *end);
            if left == 0 || (beyond && !arguments.follow) {
                break;
            }
            print(&mut output, arguments.output, fetched.partition, &record);
            left -= 1;
        }
    }
    Ok(Exit::Done)
}

/// The next batch. Who follows waits for ever; otherwise there is something to come, and it is not waited for without end.
async fn wait(
    shard: &Shard,
    consumer: &Consumer,
    arguments: &ConsumeArguments,
) -> Result<Result<Fetched, ConsumeError>, Failure> {
    if arguments.follow {
        return Ok(consumer.next().await);
    }
    let limit = arguments.connect.timeout();
    session::within(shard, limit, consumer.next()).await.ok_or_else(|| {
        let what = format!("nothing came for {} s, although topic {} goes on", limit.as_secs(), arguments.topic);
        Failure::new(Exit::CannotConnect, what)
            .remedy("is the broker still running? what was printed is whole up to there")
    })
}

/// Assigns the partitions; returns where each ended then.
async fn begin(
    client: &Client,
    arguments: &ConsumeArguments,
) -> Result<(Consumer, BTreeMap<PartitionIndex, Offset>), Failure> {
    let topic = client.topic(&arguments.topic).await?;
    let all = (0..).map(PartitionIndex).zip(&topic.partitions).map(|(index, _)| index);
    let partitions: Vec<PartitionIndex> = match arguments.partition {
        Some(partition) => vec![PartitionIndex(partition)],
        None => all.collect(),
    };
    let consumer = Consumer::new(client, ConsumerOptions::default());
    let assigned = consumer.assign_all(&arguments.topic, &partitions, arguments.from.0).await?;
    if !assigned.is_empty() && assigned.iter().all(|assigned| assigned.start > assigned.end) {
        let end = assigned.iter().map(|assigned| assigned.end).max().unwrap_or_default();
        let what = format!("topic {} ends at offset {end}, before {}", arguments.topic, assigned[0].start);
        return Err(Failure::failed(what).remedy("`--from end --follow` waits for what is written next"));
    }
    let ends = partitions.into_iter().zip(assigned.into_iter().map(|assigned| assigned.end)).collect();
    Ok((consumer, ends))
}

pub fn unreadable(error: &ConsumeError) -> Failure {
    match &error.fault {
        Fault::OutOfRange { .. } => Failure::failed(error)
            .remedy("`--from beginning` starts at the oldest record there is, `--from end` after the newest"),
        Fault::Corrupt(_) | Fault::Diverged { .. } => Failure::new(Exit::DataDamaged, error)
            .remedy("`tidemill log verify DIR` on the stopped broker's data directory finds what is damaged"),
        Fault::Failed(cause) => Failure { what: error.to_string(), ..Failure::from(cause.clone()) },
    }
}

/// A record as a JSON object; bytes that are no text have a field of another name.
#[derive(Serialize)]
pub struct RecordRow<'a> {
    offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<i32>,
    timestamp: i64,
    #[serde(flatten)]
    key: Named<'a>,
    #[serde(flatten)]
    value: Named<'a>,
    headers: Vec<HeaderRow<'a>>,
}

#[derive(Serialize)]
struct HeaderRow<'a> {
    key: String,
    #[serde(flatten)]
    value: Named<'a>,
}

/// Bytes under a name, or under `NAME_base64`.
struct Named<'a> {
    text_name: &'static str,
    base64_name: &'static str,
    bytes: Option<&'a [u8]>,
}

impl<'a> Named<'a> {
    fn key(bytes: Option<&'a [u8]>) -> Self {
        Self { text_name: "key", base64_name: "key_base64", bytes }
    }

    fn value(bytes: Option<&'a [u8]>) -> Self {
        Self { text_name: "value", base64_name: "value_base64", bytes }
    }
}

impl Serialize for Named<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(1))?;
        match self.bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
            None => map.serialize_entry(self.text_name, &None::<&str>)?,
            Some(Ok(text)) => map.serialize_entry(self.text_name, text)?,
            Some(Err(bytes)) => map.serialize_entry(self.base64_name, &base64(bytes))?,
        }
        map.end()
    }
}

impl<'a> RecordRow<'a> {
    #[must_use]
    pub fn new(partition: Option<PartitionIndex>, record: &Record<'a>) -> Self {
        let headers = record
            .headers
            .map(|header| HeaderRow { key: header.key_text().into_owned(), value: Named::value(header.value) });
        Self {
            offset: record.offset.0,
            partition: partition.map(|partition| partition.0),
            timestamp: record.timestamp.0,
            key: Named::key(record.key),
            value: Named::value(record.value),
            headers: headers.collect(),
        }
    }
}

pub fn print(output: &mut Output, format: Format, partition: PartitionIndex, record: &Record<'_>) {
    match format {
        Format::Json => output.json(&RecordRow::new(Some(partition), record)),
        Format::Table => {
            let text = |bytes: Option<&[u8]>| bytes.map_or_else(|| "(null)".to_owned(), escaped);
            let (key, value) = (text(record.key), text(record.value));
            output.line(&format!("{partition}\t{}\t{}\t{key}\t{value}", record.offset, rfc3339(record.timestamp)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_begin_is_said_in_words_offsets_or_times() {
        let time = |ms| Some(Start::Time(WallTime(ms)));
        let table = [
            ("beginning", Some(Start::Beginning)),
            ("end", Some(Start::End)),
            ("0", Some(Start::Offset(Offset(0)))),
            ("17", Some(Start::Offset(Offset(17)))),
            ("@17", time(17)),
            ("1970-01-01T00:00:01Z", time(1000)),
            ("-1", None),
            ("@-1", None),
            ("@", None),
            ("latest", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<From>().ok(), expected.map(From), "{text}");
        }
    }

    #[test]
    fn a_record_is_one_object_with_bytes_told_apart_from_text() {
        let record = Record {
            offset: Offset(3),
            timestamp: WallTime(5),
            key: None,
            value: Some(b"\xff"),
            headers: Default::default(),
        };
        let text = serde_json::to_string(&RecordRow::new(Some(PartitionIndex(1)), &record)).expect("text keys");
        let expected = r#"{"offset":3,"partition":1,"timestamp":5,"key":null,"value_base64":"/w==","headers":[]}"#;
        assert_eq!(text, expected);
    }
}
