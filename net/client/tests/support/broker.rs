//! The brokers of the scripted cluster.

use std::collections::BTreeMap;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Random, Uuid};
use net::{FrameMemory, FrameReader};
use record::{BatchMut, BatchView, last_sequence};
use shard::{Class, Listener, Slice, Socket};
use wire::messages::api_versions::ApiVersion;
use wire::messages::fetch::{FetchPartition, FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use wire::messages::metadata::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use wire::messages::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderTopicResult};
use wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::*;
use wire::{ApiKey, ErrorCode, Records};

use super::{Cluster, Incoming, Log, Reaction, Shared, header_of};

/// What a session remembers: topic, id, partition, and what is fetched of it.
#[derive(Default)]
pub struct FetchSession {
    pub epoch: i32,
    pub partitions: BTreeMap<(String, i32), i64>,
}

pub fn all_versions() -> BTreeMap<i16, (i16, i16)> {
    let served =
        [(0, 0, 13), (1, 4, 17), (2, 1, 10), (3, 0, 13), (18, 0, 4), (19, 2, 7), (20, 1, 6), (22, 0, 5), (23, 2, 4)];
    served.into_iter().map(|(key, min, max)| (key, (min, max))).collect()
}

pub async fn serve(cluster: Shared, broker: BrokerId, listener: Listener) {
    let shard = cluster.borrow().shard.clone();
    while let Ok((socket, _)) = listener.accept().await {
        let connection = {
            let mut cluster = cluster.borrow_mut();
            cluster.connections += 1;
            cluster.connections
        };
        let task = converse(cluster.clone(), broker, connection, socket);
        drop(shard.spawn(Class::Normal, shard.account("broker"), task));
    }
}

async fn converse(cluster: Shared, broker: BrokerId, connection: usize, socket: Socket) {
    let shard = cluster.borrow().shard.clone();
    let mut reader = FrameReader::new(FrameMemory::new(&shard), 1 << 20);
    while let Ok(Some(frame)) = reader.next(&socket).await {
        let (key, version, correlation_id, body_at) = header_of(&frame);
        let incoming = Incoming { broker, connection, key, version, correlation_id, frame, body_at };
        let reaction = {
            let mut cluster = cluster.borrow_mut();
            cluster.requests.push((key, version));
            let mut hook = std::mem::replace(&mut cluster.hook, Box::new(|_, _| Reaction::Serve));
            let reaction = hook(&mut cluster, &incoming);
            cluster.hook = hook;
            reaction
        };
        let answer = match reaction {
            Reaction::Serve => answer(&cluster, &incoming).await,
            Reaction::ServeAfter(delay) => {
                let answer = answer(&cluster, &incoming).await;
                shard.sleep(delay).await;
                answer
            }
            Reaction::Answer(bytes) => Some(bytes),
            Reaction::HangUp => break,
            Reaction::ServeAndHangUp => {
                answer(&cluster, &incoming).await;
                break;
            }
            Reaction::Ignore => None,
            Reaction::Mangle(seed) => {
                let answer = answer(&cluster, &incoming).await;
                answer.map(|bytes| mangled(bytes, incoming.key, &mut Random::new(seed)))
            }
        };
        if let Some(answer) = answer
            && socket.send(vec![Slice::from_vec(answer)]).await.is_err()
        {
            break;
        }
    }
    socket.shutdown();
}

/// Flips bytes, or cuts the frame off, with a length that fits.
fn mangled(mut bytes: Vec<u8>, key: ApiKey, random: &mut Random) -> Vec<u8> {
    // Not the correlation id, which is looked at before the rest; nor a broker's host, for names are looked up outside this world.
    let from = if key == ApiKey::Metadata { bytes.len() / 2 } else { 8 };
    if random.chance(1, 4) {
        let left = from as u64 + random.below((bytes.len() - from) as u64);
        bytes.truncate(usize::try_from(left).expect("shorter than it was"));
        let length = i32::try_from(bytes.len() - 4).expect("small");
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        return bytes;
    }
    for _ in 0..=random.below(3) {
        let at = from + usize::try_from(random.below((bytes.len() - from) as u64)).expect("within");
        bytes[at] = if random.chance(1, 3) { 0xff } else { random.next_u64() as u8 };
    }
    bytes
}

async fn answer(cluster: &Shared, incoming: &Incoming) -> Option<Vec<u8>> {
    if incoming.key == ApiKey::Fetch {
        return Some(fetch(cluster, incoming).await);
    }
    let cluster = &mut *cluster.borrow_mut();
    Some(match incoming.key {
        ApiKey::ApiVersions => api_versions(cluster, incoming),
        ApiKey::Metadata => metadata(cluster, incoming),
        ApiKey::Produce => return produce(cluster, incoming),
        ApiKey::ListOffsets => list_offsets(cluster, incoming),
        ApiKey::OffsetForLeaderEpoch => epoch_ends(cluster, incoming),
        ApiKey::InitProducerId => {
            cluster.next_producer_id += 1;
            let (producer_id, producer_epoch) = (ProducerId(cluster.next_producer_id), ProducerEpoch(0));
            incoming.answer(&InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() })
        }
        other => panic!("the scripted broker does not serve {other}"),
    })
}

fn api_versions(cluster: &Cluster, incoming: &Incoming) -> Vec<u8> {
    let keys = cluster.versions.iter().map(|(&api_key, &(min_version, max_version))| ApiVersion {
        api_key,
        min_version,
        max_version,
    });
    let mut response = ApiVersionsResponse { api_keys: keys.collect(), ..Default::default() };
    let (_, max) = cluster.versions[&ApiKey::ApiVersions.code()];
    if incoming.version <= max {
        return incoming.answer(&response);
    }
    response.error_code = ErrorCode::UnsupportedVersion;
    let frame = wire::encode_response(0, incoming.correlation_id, &response, Vec::new());
    frame.expect("version 0 has all of it").into_structure()
}

fn metadata(cluster: &Cluster, incoming: &Incoming) -> Vec<u8> {
    let request: MetadataRequest<'_> = incoming.decode();
    let addresses: Vec<_> = cluster.addresses.iter().map(|address| address.ip().to_string()).collect();
    let brokers = (0..).zip(&addresses).zip(&cluster.addresses).map(|((id, host), address)| MetadataResponseBroker {
        node_id: BrokerId(id),
        host,
        port: i32::from(address.port()),
        rack: None,
    });
    let wanted: Vec<String> = match &request.topics {
        None => cluster.topic_ids.keys().cloned().collect(),
        Some(topics) => topics.iter().filter_map(|topic| topic.name.map(str::to_owned)).collect(),
    };
    let topics = wanted.iter().map(|name| {
        let Some(id) = cluster.topic_ids.get(name) else {
            let error_code = ErrorCode::UnknownTopicOrPartition;
            return MetadataResponseTopic { error_code, name: Some(name), ..Default::default() };
        };
        let logs = cluster.logs.iter().filter(|((topic, _), _)| topic == name);
        let partitions = logs.map(|((_, index), log)| MetadataResponsePartition {
            partition_index: PartitionIndex(*index),
            leader_id: BrokerId(log.leader),
            leader_epoch: LeaderEpoch(log.epoch),
            ..Default::default()
        });
        let (topic_id, partitions) = (Uuid([*id; 16]), partitions.collect());
        MetadataResponseTopic { name: Some(name), topic_id, partitions, ..Default::default() }
    });
    let (brokers, topics) = (brokers.collect(), topics.collect());
    incoming.answer(&MetadataResponse { brokers, topics, controller_id: BrokerId(0), ..Default::default() })
}

fn name_of(cluster: &Cluster, name: &str, id: Uuid, by_id: bool) -> String {
    if !by_id {
        return name.to_owned();
    }
    let found = cluster.topic_ids.iter().find(|(_, known)| Uuid([**known; 16]) == id);
    found.map_or_else(|| "unknown".to_owned(), |(name, _)| name.clone())
}

fn produce(cluster: &mut Cluster, incoming: &Incoming) -> Option<Vec<u8>> {
    let request: ProduceRequest<'_> = incoming.decode();
    let mut responses = Vec::new();
    for topic in &request.topic_data {
        let name = name_of(cluster, topic.name, topic.topic_id, incoming.version >= 13);
        let mut partitions = Vec::new();
        for data in &topic.partition_data {
            let key = (name.clone(), data.index.0);
            let result = match cluster.logs.get_mut(&key) {
                Some(log) if log.leader == incoming.broker.0 => append(log, data.records.bytes().unwrap_or_default()),
                Some(_) => Err(ErrorCode::NotLeaderOrFollower),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            };
            let error_code = result.err().unwrap_or_default();
            let base_offset = Offset(result.unwrap_or(-1));
            partitions.push(PartitionProduceResponse {
                index: data.index,
                error_code,
                base_offset,
                ..Default::default()
            });
        }
        let partition_responses = partitions.into();
        responses.push(TopicProduceResponse { name: topic.name, topic_id: topic.topic_id, partition_responses });
    }
    let throttle_time_ms = cluster.throttle_ms;
    let response = ProduceResponse { responses: responses.into(), throttle_time_ms, ..Default::default() };
    (request.acks != 0).then(|| incoming.answer(&response))
}

/// Appends a batch as a broker does, with the checks of sequences.
fn append(log: &mut Log, bytes: &[u8]) -> Result<i64, ErrorCode> {
    let batch = BatchView::parse(bytes).map_err(|_| ErrorCode::CorruptMessage)?;
    if !batch.has_valid_crc() || batch.bytes().len() != bytes.len() {
        return Err(ErrorCode::CorruptMessage);
    }
    let header = *batch.header();
    if header.has_producer() {
        let (first, last) = (header.base_sequence, header.last_sequence());
        let known = log.producers.entry(header.producer_id.0).or_default();
        if let Some((.., base)) = known.iter().find(|(a, b, _)| (*a, *b) == (first, last)) {
            return Ok(*base);
        }
        let due = known.last().map_or(0, |(_, last, _)| last_sequence(*last, 1));
        if first != due {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        known.push((first, last, log.end));
        if known.len() > 5 {
            known.remove(0);
        }
    }
    let mut stored = bytes.to_vec();
    let mut placed = BatchMut::parse(&mut stored).expect("parsed above");
    placed.set_base_offset(Offset(log.end));
    placed.set_leader_epoch(LeaderEpoch(log.epoch));
    log.batches.push(stored);
    let base = log.end;
    log.end += i64::from(header.record_count);
    Ok(base)
}

fn list_offsets(cluster: &Cluster, incoming: &Incoming) -> Vec<u8> {
    let request: ListOffsetsRequest<'_> = incoming.decode();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|question| {
            let log = cluster.logs.get(&(topic.name.to_owned(), question.partition_index.0));
            let log = log.filter(|log| log.leader == incoming.broker.0);
            let offset = log.map(|log| match question.timestamp {
                -1 => log.end,
                -2 => log.start,
                at if at < log.end - log.start => log.start + at,
                _ => -1,
            });
            let error_code = if log.is_none() { ErrorCode::NotLeaderOrFollower } else { ErrorCode::None };
            ListOffsetsPartitionResponse {
                partition_index: question.partition_index,
                error_code,
                offset: Offset(offset.unwrap_or(-1)),
                ..Default::default()
            }
        });
        ListOffsetsTopicResponse { name: topic.name, partitions: partitions.collect() }
    });
    incoming.answer(&ListOffsetsResponse { topics: topics.collect(), ..Default::default() })
}

fn epoch_ends(cluster: &Cluster, incoming: &Incoming) -> Vec<u8> {
    let request: OffsetForLeaderEpochRequest<'_> = incoming.decode();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|question| {
            let log = &cluster.logs[&(topic.topic.to_owned(), question.partition.0)];
            let of_epoch = |batch: &&Vec<u8>| {
                BatchView::parse(batch).expect("stored").header().leader_epoch <= question.leader_epoch
            };
            let last = log.batches.iter().rfind(of_epoch);
            let end_offset =
                last.map_or(Offset(0), |batch| BatchView::parse(batch).expect("stored").header().next_offset());
            EpochEndOffset {
                partition: question.partition,
                leader_epoch: question.leader_epoch,
                end_offset,
                ..Default::default()
            }
        });
        OffsetForLeaderTopicResult { topic: topic.topic, partitions: partitions.collect() }
    });
    incoming.answer(&OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() })
}

/// Waits up to the request's time for something to answer, looking every few milliseconds.
async fn fetch(cluster: &Shared, incoming: &Incoming) -> Vec<u8> {
    let request: FetchRequest<'_> = incoming.decode();
    let shard = cluster.borrow().shard.clone();
    let wanted = match session_of(&mut cluster.borrow_mut(), &request, incoming.version >= 13) {
        Ok(wanted) => wanted,
        Err(error_code) => return incoming.answer(&FetchResponse { error_code, ..Default::default() }),
    };
    let deadline = memory_deadline(&shard, request.max_wait_ms);
    loop {
        let found = found(&cluster.borrow(), incoming, &wanted.1);
        let something = found.iter().any(|(.., data)| data.error_code.is_error() || data.bytes > 0);
        if something || shard.now() >= deadline {
            return fetched(&cluster.borrow(), incoming, wanted.0, &found, request.session_epoch > 0);
        }
        shard.sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn memory_deadline(shard: &shard::Shard, ms: i32) -> base::Instant {
    shard.now() + std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

type Wanted = BTreeMap<(String, i32), i64>;

/// The session's id and everything it is to be answered for.
fn session_of(cluster: &mut Cluster, request: &FetchRequest<'_>, by_id: bool) -> Result<(i32, Wanted), ErrorCode> {
    let mut asked = Wanted::new();
    for topic in &request.topics {
        let name = name_of(cluster, topic.topic, topic.topic_id, by_id);
        asked
            .extend(topic.partitions.iter().map(|p: FetchPartition| ((name.clone(), p.partition.0), p.fetch_offset.0)));
    }
    if request.session_epoch == -1 {
        return Ok((0, asked));
    }
    if request.session_epoch == 0 {
        cluster.sessions.remove(&request.session_id);
        let id = i32::try_from(cluster.sessions.len()).expect("few") + 1000 + request.session_id;
        cluster.sessions.insert(id, FetchSession { epoch: 1, partitions: asked.clone() });
        return Ok((id, asked));
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let name = name_of(cluster, topic.topic, topic.topic_id, by_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (name.clone(), partition.0)));
    }
    let session = cluster.sessions.get_mut(&request.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
    if session.epoch != request.session_epoch {
        return Err(ErrorCode::InvalidFetchSessionEpoch);
    }
    session.epoch += 1;
    session.partitions.extend(asked);
    session.partitions.retain(|key, _| !forgotten.contains(key));
    Ok((request.session_id, session.partitions.clone()))
}

struct Data {
    error_code: ErrorCode,
    bytes: usize,
    run: Vec<u8>,
    end: i64,
}

fn found(cluster: &Cluster, incoming: &Incoming, wanted: &Wanted) -> Vec<((String, i32), Data)> {
    let data = |key: &(String, i32), offset: i64| {
        let Some(log) = cluster.logs.get(key).filter(|log| log.leader == incoming.broker.0) else {
            return Data { error_code: ErrorCode::NotLeaderOrFollower, bytes: 0, run: Vec::new(), end: -1 };
        };
        if offset < log.start || offset > log.end {
            return Data { error_code: ErrorCode::OffsetOutOfRange, bytes: 0, run: Vec::new(), end: log.end };
        }
        let holds = |batch: &&Vec<u8>| BatchView::parse(batch).expect("stored").last_offset().0 >= offset;
        // A few batches at a time, the last cut off, as brokers do.
        let mut run: Vec<u8> = log.batches.iter().filter(holds).take(3).flatten().copied().collect();
        if log.batches.iter().filter(holds).count() > 3 {
            run.extend_from_slice(&log.batches.iter().filter(holds).nth(3).expect("there are more")[..30]);
        }
        Data { error_code: ErrorCode::None, bytes: run.len(), run, end: log.end }
    };
    wanted.iter().map(|(key, offset)| (key.clone(), data(key, *offset))).collect()
}

fn fetched(
    cluster: &Cluster,
    incoming: &Incoming,
    session_id: i32,
    found: &[((String, i32), Data)],
    incremental: bool,
) -> Vec<u8> {
    let worth = |data: &Data| !incremental || data.error_code.is_error() || data.bytes > 0;
    let responses = found.iter().filter(|(_, data)| worth(data)).map(|((topic, partition), data)| {
        let partition = PartitionData {
            partition_index: PartitionIndex(*partition),
            error_code: data.error_code,
            high_watermark: Offset(data.end),
            records: Records::Bytes(&data.run),
            ..Default::default()
        };
        let topic_id = Uuid([cluster.topic_ids.get(topic).copied().unwrap_or(0); 16]);
        FetchableTopicResponse { topic, topic_id, partitions: vec![partition].into() }
    });
    incoming.answer(&FetchResponse { session_id, responses: responses.collect(), ..Default::default() })
}
