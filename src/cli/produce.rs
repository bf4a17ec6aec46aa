//! `tidemill produce`: a record for each line of standard input.
//!
//! Lines are read in chunks on the shard's helper thread, which is never held for longer than [`POLL_LIMIT`], so that the shard goes on
//! and a name can be looked up meanwhile. Ends with 0 only when every record was acknowledged.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use base::{KIB, MIB, PartitionIndex};
use clap::{Args, ValueEnum};
use client::{Acks, Delivery, DeliveryError, Producer, ProducerOptions, ProducerRecord, SendError};
use record::{Compression, Header};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shard::Shard;

use super::Exit;
use super::failure::{Failure, remedy_of_code};
use super::session::{self, Connect};
use super::text::key_value;

/// How long one look at standard input may hold the helper thread.
const POLL_LIMIT: Duration = Duration::from_millis(100);
const CHUNK_BYTES: usize = 64 * KIB;
/// A longer line is no record: batches have their bounds, and so has this program's memory.
const LINE_BYTES_MAX: usize = 16 * MIB;

#[derive(Args, Clone, Debug)]
pub struct ProduceArguments {
    topic: String,
    /// What ends the key in a line; without it records have no key
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// Write to this partition [default: by key, as Java clients do; without a key, any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionName,
    /// Who must have a record before it counts as written
    #[arg(long, value_enum, default_value_t)]
    acks: AcksName,
    /// A header for every record; may be repeated
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = key_value)]
    headers: Vec<(String, String)>,
    /// A value or key that is just this text is null
    #[arg(long, value_name = "TEXT")]
    null_marker: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CompressionName {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::None => Self::None,
            CompressionName::Gzip => Self::Gzip,
            CompressionName::Snappy => Self::Snappy,
            CompressionName::Lz4 => Self::Lz4,
            CompressionName::Zstd => Self::Zstd,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum AcksName {
    /// Nobody: sent is good enough
    #[value(name = "0")]
    Zero,
    /// The partition's leader
    #[value(name = "1")]
    One,
    /// All replicas that are in sync
    #[default]
    All,
}

pub fn run(arguments: ProduceArguments) -> Exit {
    session::run(move |shard| async move { produce(&shard, &arguments).await })
}

async fn produce(shard: &Shard, arguments: &ProduceArguments) -> Result<Exit, Failure> {
    let client = arguments.connect.client(shard).await?;
    // Said before anything is read: a topic that is not there is no reason to swallow the input.
    client.topic(&arguments.topic).await?;
    let acks = match arguments.acks {
        AcksName::Zero => Acks::Zero,
        AcksName::One => Acks::One,
        AcksName::All => Acks::All,
    };
    let options = ProducerOptions {
        acks,
        idempotent: acks == Acks::All,
        compression: arguments.compression.into(),
        delivery_timeout: arguments.connect.timeout(),
        ..ProducerOptions::default()
    };
    let producer = Producer::open(&client, options).map_err(Failure::failed)?;
    let mut sending = Sending { arguments, producer: &producer, lines: 0, deliveries: VecDeque::new() };
    let mut lines = Lines::default();
    while let Some(chunk) = read_chunk(shard).await? {
        lines.put(&chunk);
        while let Some(line) = lines.take() {
            sending.send(&line).await?;
        }
        lines.check()?;
        sending.look()?;
    }
    if let Some(line) = lines.rest() {
        sending.send(&line).await?;
    }
    producer.flush().await;
    sending.look()?;
    Ok(Exit::Done)
}

/// What comes next on standard input: possibly nothing yet; `None` at its end.
async fn read_chunk(shard: &Shard) -> Result<Option<Vec<u8>>, Failure> {
    let read = || -> io::Result<Option<Vec<u8>>> {
        let stdin = io::stdin();
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL_LIMIT.subsec_nanos()) };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => return Ok(Some(Vec::new())),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Some(Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        // Not through the buffer of `Stdin`: what it kept would be invisible to `poll`.
        let bytes = rustix::io::read(&stdin, &mut chunk)?;
        chunk.truncate(bytes);
        Ok(if bytes == 0 { None } else { Some(chunk) })
    };
    shard.offload(read).await.map_err(|error| Failure::failed(format!("standard input can't be read: {error}")))
}

/// Records on their way.
struct Sending<'a> {
    arguments: &'a ProduceArguments,
    producer: &'a Producer,
    lines: u64,
    /// With the number of their lines, oldest first. Bounded by the producer's memory.
    deliveries: VecDeque<(u64, Delivery)>,
}

impl Sending<'_> {
    async fn send(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.lines += 1;
        let arguments = self.arguments;
        let is_null = |bytes: &[u8]| arguments.null_marker.as_ref().is_some_and(|marker| marker.as_bytes() == bytes);
        let (key, value) = match &arguments.key_separator {
            None => (None, line),
            Some(separator) => {
                let (key, value) = split_once(line, separator.as_bytes()).ok_or_else(|| {
                    Failure::failed(format!("line {} has no key: `{separator}` is not in it", self.lines))
                        .remedy("nothing was sent of this line and those after it")
                })?;
                (Some(key), value)
            }
        };
        let headers: Vec<Header<'_>> = arguments
            .headers
            .iter()
            .map(|(key, value)| Header { key: key.as_bytes(), value: Some(value.as_bytes()) })
            .collect();
        let record = ProducerRecord {
            topic: &arguments.topic,
            partition: arguments.partition.map(PartitionIndex),
            key: key.filter(|key| !is_null(key)),
            value: Some(value).filter(|value| !is_null(value)),
            headers: &headers,
            timestamp: None,
        };
        match self.producer.send(record).await {
            Ok(delivery) => self.deliveries.push_back((self.lines, delivery)),
            Err(SendError::Topic(error)) => return Err(error.into()),
            Err(SendError::Ended(error)) => {
                // Some record before this one has the reason.
                self.look()?;
                return Err(not_written(self.lines, &error));
            }
            Err(error) => return Err(Failure::failed(format!("line {}: {error}", self.lines))),
        }
        Ok(())
    }

    /// Takes note of what has been acknowledged; the first that was not ends it.
    fn look(&mut self) -> Result<(), Failure> {
        while let Some(outcome) = self.deliveries.front().and_then(|(_, delivery)| delivery.try_outcome()) {
            let (line, _) = self.deliveries.pop_front().expect("looked at just now");
            outcome.map_err(|error| not_written(line, &error))?;
        }
        Ok(())
    }
}

fn not_written(line: u64, error: &DeliveryError) -> Failure {
    let what = format!("line {line} was not acknowledged: {error}");
    let failure = match error {
        DeliveryError::OutOfOrderSequence => Failure::new(Exit::DataDamaged, what),
        DeliveryError::Expired { cause: Some(cause) } | DeliveryError::Unknown { cause } if cause.is_unreachable() => {
            Failure::new(Exit::CannotConnect, what)
        }
        _ => Failure::failed(what),
    };
    match error {
        DeliveryError::Refused { code, .. } => match remedy_of_code(*code) {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        },
        error if error.may_have_been_written() => {
            failure.remedy("it may have been written all the same: look before sending it again")
        }
        _ => failure,
    }
}

fn split_once<'a>(line: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

/// Cuts chunks into lines.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Taken already.
    start: usize,
    /// Looked at and without a line's end.
    looked: usize,
}

impl Lines {
    fn put(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.start);
        self.looked -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// The next line without its end.
    fn take(&mut self) -> Option<Vec<u8>> {
        let Some(length) = self.bytes[self.looked..].iter().position(|byte| *byte == b'\n') else {
            self.looked = self.bytes.len();
            return None;
        };
        let end = self.looked + length;
        let line = self.bytes[self.start..end].to_vec();
        (self.start, self.looked) = (end + 1, end + 1);
        Some(line)
    }

    /// What stands after the last line's end.
    fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes.split_off(self.start);
        (!rest.is_empty()).then_some(rest)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.bytes.len() - self.start > LINE_BYTES_MAX {
            return Err(Failure::failed(format!("a line is longer than {LINE_BYTES_MAX} bytes"))
                .remedy("is the input text? binary data has no lines"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of an input that comes in pieces of this size.
    fn lines_of(input: &[u8], piece: usize) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for chunk in input.chunks(piece) {
            lines.put(chunk);
            while let Some(line) = lines.take() {
                found.push(line);
            }
        }
        found.extend(lines.rest());
        found.into_iter().map(|line| String::from_utf8(line).expect("text")).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        for piece in 1..9 {
            assert_eq!(lines_of(b"one\n\ntwo\nthree", piece), ["one", "", "two", "three"]);
            assert_eq!(lines_of(b"one\n", piece), ["one"]);
            assert_eq!(lines_of(b"", piece), [""; 0]);
        }
    }

    #[test]
    fn the_first_separator_ends_the_key() {
        assert_eq!(split_once(b"a::b::c", b"::"), Some((&b"a"[..], &b"b::c"[..])));
        assert_eq!(split_once(b"::c", b"::"), Some((&b""[..], &b"c"[..])));
        assert_eq!(split_once(b"abc", b"::"), None);
    }
}
