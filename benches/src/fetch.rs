//! A reader on a raw socket: fetches all partitions of a topic from their beginning, one request after another, and looks at no more of
//! a batch than its header.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use base::{LeaderEpoch, Offset, PartitionIndex};
use record::Batches;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, FetchResponse};
use wire::{Decoder, ErrorCode, Message, ResponseHeader, encode_request, frame_length};

const VERSION: i16 = 12;
/// As the Java client asks by default.
const RESPONSE_BYTES_MAX: i32 = 50 << 20;
const PARTITION_BYTES_MAX: i32 = 1 << 20;

/// Where the reader is.
pub struct Reader {
    connection: TcpStream,
    topic: String,
    next: Vec<Offset>,
    /// The partition to be named first: a response is filled in the order of its request.
    first: usize,
    reply: Vec<u8>,
}

impl Reader {
    /// # Errors
    /// When the broker can't be reached.
    pub fn new(broker: SocketAddr, topic: &str, partitions: u32) -> io::Result<Self> {
        let connection = TcpStream::connect(broker)?;
        connection.set_nodelay(true)?;
        let next = vec![Offset(0); partitions as usize];
        Ok(Self { connection, topic: topic.to_owned(), next, first: 0, reply: Vec::new() })
    }

    /// Reads on; the bytes of batches that came, 0 at the end of all partitions.
    ///
    /// # Errors
    /// When the connection fails, or the broker answers with an error.
    pub fn fetch(&mut self) -> io::Result<u64> {
        let count = self.next.len();
        let partition = |step: usize| {
            let index = (self.first + step) % count;
            FetchPartition {
                partition: PartitionIndex(index as i32),
                current_leader_epoch: LeaderEpoch(-1),
                fetch_offset: self.next[index],
                last_fetched_epoch: LeaderEpoch(-1),
                log_start_offset: Offset(-1),
                partition_max_bytes: PARTITION_BYTES_MAX,
                ..FetchPartition::default()
            }
        };
        let partitions: Vec<_> = (0..count).map(partition).collect();
        let topic =
            FetchTopic { topic: &self.topic, partitions: partitions.as_slice().into(), ..FetchTopic::default() };
        let request = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: RESPONSE_BYTES_MAX,
            session_epoch: -1,
            topics: std::slice::from_ref(&topic).into(),
            ..FetchRequest::default()
        };
        let frame = encode_request(VERSION, 1, Some("behind"), &request, Vec::new()).map_err(io::Error::other)?;
        self.connection.write_all(frame.structure())?;
        let mut prefix = [0; 4];
        self.connection.read_exact(&mut prefix)?;
        let length = frame_length(prefix, (RESPONSE_BYTES_MAX as usize) * 2).map_err(io::Error::other)?;
        self.reply.resize(length, 0);
        self.connection.read_exact(&mut self.reply)?;
        self.first = (self.first + 1) % count;
        let mut decoder = Decoder::new(&self.reply);
        ResponseHeader::decode(&mut decoder, FetchRequest::KEY, VERSION).map_err(io::Error::other)?;
        let response = FetchResponse::decode_exact(decoder, VERSION).map_err(io::Error::other)?;
        let mut bytes = 0;
        for topic in &response.responses {
            for partition in &topic.partitions {
                if partition.error_code != ErrorCode::None {
                    let (index, code) = (partition.partition_index, partition.error_code);
                    return Err(io::Error::other(format!("partition {index}: {code:?}")));
                }
                let run = partition.records.bytes().unwrap_or_default();
                bytes += run.len() as u64;
                for batch in Batches::new(run) {
                    let batch = batch.map_err(io::Error::other)?;
                    let last = batch.header().base_offset.0 + i64::from(batch.header().last_offset_delta);
                    self.next[partition.partition_index.0 as usize] = Offset(last + 1);
                }
            }
        }
        Ok(bytes)
    }
}
