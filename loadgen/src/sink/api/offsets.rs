//! ListOffsets and DeleteRecords: where logs begin and end, and how to move that.

use std::rc::Rc;

use base::{LeaderEpoch, NO_EPOCH, Offset, WallTime};
use net::Started;
use record::TimestampOffset;
use wire::ErrorCode;
use wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

use super::super::broker::Broker;
use super::super::log::Log;
use super::super::request::{Refusal, Request};
use super::super::store::TopicKey;

/// The first version that tells the epoch of the record found.
const LEADER_EPOCH_VERSION: i16 = 4;

/// Answers every partition of the request.
pub fn list(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: ListOffsetsRequest<'_> = request.decode()?;
    let version = request.asker.version;
    let mut store = broker.store.borrow_mut();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.into());
        let mut answer = |partition: ListOffsetsPartition| {
            let found = store.partition(&key, partition.partition_index, request.arrived);
            let found = found.and_then(|found| find(&found.log, partition.timestamp, version));
            let (error_code, found) = found.map_or_else(|code| (code, None), |found| (ErrorCode::None, found));
            let none = TimestampOffset { timestamp: WallTime(-1), offset: Offset(-1) };
            let TimestampOffset { timestamp, offset } = found.unwrap_or(none);
            let is_known = version >= LEADER_EPOCH_VERSION && offset.0 >= 0;
            ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                error_code,
                timestamp: timestamp.0,
                offset,
                leader_epoch: if is_known { LeaderEpoch(0) } else { NO_EPOCH },
            }
        };
        let partitions = topic.partitions.iter().map(&mut answer).collect();
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions });
    }
    request.asker.answer(&ListOffsetsResponse { topics: topics.into(), ..Default::default() }).map(Started::Done)
}

fn find(log: &Log, timestamp: i64, version: i16) -> Result<Option<TimestampOffset>, ErrorCode> {
    let end = |offset| Ok(Some(TimestampOffset { timestamp: WallTime(-1), offset }));
    match timestamp {
        -1 => end(log.high_watermark()),
        -2 => end(log.start()),
        -3 if version >= 7 => Ok(log.find_latest()),
        // All of a log is local, and none of it elsewhere.
        -4 if version >= 8 => end(log.start()),
        -5 if version >= 9 => Ok(None),
        time if time >= 0 => Ok(log.find_time(WallTime(time))),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

/// "Up to the high watermark".
const HIGH_WATERMARK: Offset = Offset(-1);

/// Moves the starts of logs.
pub fn delete_records(broker: &Rc<Broker>, request: Request) -> Result<Started, Refusal> {
    let asked: DeleteRecordsRequest<'_> = request.decode()?;
    let mut store = broker.store.borrow_mut();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.into());
        let mut answer = |partition: DeleteRecordsPartition| {
            let before = Some(partition.offset).filter(|offset| *offset != HIGH_WATERMARK);
            let start = store.delete_records(&key, partition.partition_index, before, request.arrived);
            DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark: start.unwrap_or(Offset(-1)),
                error_code: start.err().unwrap_or_default(),
            }
        };
        let partitions = topic.partitions.iter().map(&mut answer).collect();
        topics.push(DeleteRecordsTopicResult { name: topic.name, partitions });
    }
    request.asker.answer(&DeleteRecordsResponse { topics: topics.into(), ..Default::default() }).map(Started::Done)
}
