//! Readers at the end of a topic: each keeps one long poll over all partitions open in a fetch session, as consumers do, and looks at no
//! more of a batch than its header. Run beside `produce_load`, which tells what the broker used.
//!
//! ```text
//! tail_readers 127.0.0.1:9092 --partitions 24 --readers 4 --seconds 10
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use base::{LeaderEpoch, Offset, PartitionIndex};
use benches::load;
use benches::table::{Table, number};
use clap::Parser;
use record::Batches;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, FetchResponse};
use wire::{Decoder, ErrorCode, Message, ResponseHeader, encode_request, frame_length};

const VERSION: i16 = 12;
const RESPONSE_BYTES_MAX: i32 = 50 << 20;
const PARTITION_BYTES_MAX: i32 = 1 << 20;

#[derive(Parser)]
#[command(about = "Readers that wait at the end of a topic")]
struct Arguments {
    /// HOST:PORT of the broker.
    server: String,
    #[arg(long, default_value = "bench")]
    topic: String,
    #[arg(long, default_value_t = 24)]
    partitions: u32,
    #[arg(long, default_value_t = 1)]
    readers: u32,
    #[arg(long, default_value_t = 1)]
    min_bytes: i32,
    #[arg(long, default_value_t = 500)]
    max_wait_ms: i32,
    /// A reader's fetches begin at least so far apart: with it, brokers of different speed serve the same number of them.
    #[arg(long, default_value_t = 0.0)]
    pace_ms: f64,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// What a reader has had.
#[derive(Default)]
struct Had {
    fetches: u64,
    records: u64,
    bytes: u64,
    /// Partitions told of in all answers.
    partitions: u64,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let address = arguments.server.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no address"))?;
    let address = load::prepare_topic(address, &arguments.topic, arguments.partitions, &[])?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let had = std::thread::scope(|scope| {
        let read = || Reader::new(address, &arguments).and_then(|reader| reader.read_until(end));
        let readers: Vec<_> = (0..arguments.readers).map(|_| scope.spawn(read)).collect();
        let mut all = Had::default();
        for reader in readers {
            let had = reader.join().expect("readers do not panic")?;
            all.fetches += had.fetches;
            all.records += had.records;
            all.bytes += had.bytes;
            all.partitions += had.partitions;
        }
        io::Result::Ok(all)
    })?;
    let mut table = Table::new(&["figure", "value", "unit"]);
    let mut row = |figure: &str, value: f64, unit: &str| table.row([figure.into(), number(value), unit.into()]);
    row("fetches", had.fetches as f64 / arguments.seconds, "a second, of all readers");
    row("records", had.records as f64 / arguments.seconds, "a second, of all readers");
    row("throughput", had.bytes as f64 / 1e6 / arguments.seconds, "MB/s, of all readers");
    row("partitions", had.partitions as f64 / had.fetches as f64, "in an answer");
    table.print();
    Ok(())
}

struct Reader<'a> {
    arguments: &'a Arguments,
    connection: TcpStream,
    next: Vec<Offset>,
    session_id: i32,
    session_epoch: i32,
    /// Partitions whose offset the session does not know yet.
    moved: Vec<u32>,
    reply: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(address: SocketAddr, arguments: &'a Arguments) -> io::Result<Self> {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        let next = vec![Offset(0); arguments.partitions as usize];
        let moved = (0..arguments.partitions).collect();
        Ok(Self { arguments, connection, next, session_id: 0, session_epoch: 0, moved, reply: Vec::new() })
    }

    fn read_until(mut self, end: Instant) -> io::Result<Had> {
        let mut had = Had::default();
        let pace = Duration::from_secs_f64(self.arguments.pace_ms / 1e3);
        let mut due = Instant::now();
        while Instant::now() < end {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due = due.max(Instant::now()) + pace;
            self.ask()?;
            self.take_answer(&mut had)?;
        }
        Ok(had)
    }

    fn ask(&mut self) -> io::Result<()> {
        let partition = |index: u32| FetchPartition {
            partition: PartitionIndex(index as i32),
            current_leader_epoch: LeaderEpoch(-1),
            fetch_offset: self.next[index as usize],
            last_fetched_epoch: LeaderEpoch(-1),
            log_start_offset: Offset(-1),
            partition_max_bytes: PARTITION_BYTES_MAX,
            ..FetchPartition::default()
        };
        let partitions: Vec<_> = self.moved.drain(..).map(partition).collect();
        let topic = FetchTopic {
            topic: &self.arguments.topic,
            partitions: partitions.as_slice().into(),
            ..FetchTopic::default()
        };
        let topics = if partitions.is_empty() { &[] } else { std::slice::from_ref(&topic) };
        let request = FetchRequest {
            max_wait_ms: self.arguments.max_wait_ms,
            min_bytes: self.arguments.min_bytes,
            max_bytes: RESPONSE_BYTES_MAX,
            session_id: self.session_id,
            session_epoch: self.session_epoch,
            topics: topics.into(),
            ..FetchRequest::default()
        };
        let frame = encode_request(VERSION, 1, Some("tail_readers"), &request, Vec::new()).map_err(io::Error::other)?;
        self.connection.write_all(frame.structure())
    }

    fn take_answer(&mut self, had: &mut Had) -> io::Result<()> {
        let mut prefix = [0; 4];
        self.connection.read_exact(&mut prefix)?;
        let length = frame_length(prefix, (RESPONSE_BYTES_MAX as usize) * 2).map_err(io::Error::other)?;
        self.reply.resize(length, 0);
        self.connection.read_exact(&mut self.reply)?;
        let mut decoder = Decoder::new(&self.reply);
        ResponseHeader::decode(&mut decoder, FetchRequest::KEY, VERSION).map_err(io::Error::other)?;
        let response = FetchResponse::decode_exact(decoder, VERSION).map_err(io::Error::other)?;
        if response.error_code != ErrorCode::None {
            return Err(io::Error::other(format!("the session failed: {:?}", response.error_code)));
        }
        self.session_id = response.session_id;
        self.session_epoch += 1;
        had.fetches += 1;
        for partition in response.responses.iter().flat_map(|topic| topic.partitions.iter().collect::<Vec<_>>()) {
            let index = partition.partition_index.0;
            if partition.error_code != ErrorCode::None {
                return Err(io::Error::other(format!("partition {index}: {:?}", partition.error_code)));
            }
            had.partitions += 1;
            let run = partition.records.bytes().unwrap_or_default();
            had.bytes += run.len() as u64;
            for batch in Batches::new(run) {
                let header = *batch.map_err(io::Error::other)?.header();
                had.records += u64::from(header.record_count.unsigned_abs());
                self.next[index as usize] = header.base_offset.plus(i64::from(header.last_offset_delta) + 1);
            }
            if !run.is_empty() {
                self.moved.push(index as u32);
            }
        }
        Ok(())
    }
}
