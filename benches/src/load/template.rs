//! Produce requests encoded before the clock starts. All of them carry the same batch; only the partitions differ.

use std::io;

use base::{PartitionIndex, WallTime};
use record::{BatchBuilder, BatchOptions};
use wire::messages::ProduceRequest;
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::{Frame, Part, Records, encode_request};

use super::LoadOptions;

/// Where the correlation id ends in a frame: length, key, version, id. The rest is the same for every connection.
pub const HEAD_BYTES: usize = 12;
const CORRELATION_AT: usize = 8;

/// All requests of a load, and the one batch in them.
pub struct Templates {
    requests: Vec<Frame>,
    batch: Vec<u8>,
    batches_per_request: u64,
    records_per_batch: u64,
}

/// A request for each first partition; from there on it goes round.
pub fn templates(options: &LoadOptions) -> io::Result<Templates> {
    let (batch, records_per_batch) = batch(options)?;
    let batches = options.batches.clamp(1, options.partitions.max(1));
    let request = |first: u32| {
        let data = |n| PartitionProduceData {
            index: PartitionIndex(((first + n) % options.partitions) as i32),
            records: Records::External { index: 0, length: batch.len() },
        };
        let partitions: Vec<_> = (0..batches).map(data).collect();
        let topic = TopicProduceData {
            name: &options.topic,
            partition_data: partitions.as_slice().into(),
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: std::slice::from_ref(&topic).into(),
            ..ProduceRequest::default()
        };
        encode_request(options.produce_version, 0, Some("produce_load"), &request, Vec::new()).map_err(io::Error::other)
    };
    let requests = (0..options.partitions.max(1)).map(request).collect::<io::Result<_>>()?;
    Ok(Templates { requests, batch, batches_per_request: batches.into(), records_per_batch })
}

/// A batch of records without keys, whose values do not compress.
fn batch(options: &LoadOptions) -> io::Result<(Vec<u8>, u64)> {
    let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().map_err(io::Error::other)?;
    let now = WallTime(i64::try_from(since_epoch.as_millis()).map_err(io::Error::other)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut value = vec![0; options.record_bytes];
    let mut builder = BatchBuilder::new(BatchOptions::default());
    while builder.is_empty() || builder.size_bytes_estimate_with(None, Some(&value), &[]) <= options.batch_bytes {
        for byte in &mut value {
            // xorshift64: what matters is that the bytes are not all alike.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        builder.add(now, None, Some(&value), &[]).map_err(io::Error::other)?;
    }
    let records = builder.record_count() as u64;
    Ok((builder.finish().map_err(io::Error::other)?, records))
}

impl Templates {
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    pub fn batches_per_request(&self) -> u64 {
        self.batches_per_request
    }

    pub fn records_per_request(&self) -> u64 {
        self.batches_per_request * self.records_per_batch
    }

    pub fn batch_bytes_per_request(&self) -> u64 {
        self.batches_per_request * self.batch.len() as u64
    }

    /// The start of a request with this correlation id.
    pub fn head(&self, request: usize, correlation_id: i32) -> [u8; HEAD_BYTES] {
        let structure = self.requests[request].structure();
        let mut head: [u8; HEAD_BYTES] = structure[..HEAD_BYTES].try_into().expect("a frame is longer than its head");
        head[CORRELATION_AT..].copy_from_slice(&correlation_id.to_be_bytes());
        head
    }

    /// All of a request that follows its head, in order.
    pub fn tail(&self, request: usize) -> impl Iterator<Item = &[u8]> {
        let frame = &self.requests[request];
        let parts = frame.parts().enumerate().map(|(n, part)| match part {
            // The first part is structure: a frame begins with its length and header.
            Part::Structure(range) if n == 0 => &frame.structure()[HEAD_BYTES..range.end],
            Part::Structure(range) => &frame.structure()[range],
            Part::External { .. } => &self.batch[..],
        });
        parts.filter(|part| !part.is_empty())
    }

    pub fn bytes_total(&self, request: usize) -> usize {
        self.requests[request].bytes_total()
    }
}
