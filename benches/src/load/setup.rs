//! What must be so before a load begins: the topic is there, and one broker leads all of its partitions.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use wire::messages::metadata::MetadataRequestTopic;
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse, MetadataRequest, MetadataResponse};
use wire::{Decoder, ErrorCode, Message, Request, ResponseHeader, encode_request, frame_length};

/// Both are served by every broker since Apache Kafka 2.4, and neither needs topic ids.
const METADATA_VERSION: i16 = 9;
const CREATE_TOPICS_VERSION: i16 = 5;
const REPLY_BYTES_MAX: usize = 16 << 20;
/// A new topic's partitions get their leaders within this time, or something is wrong.
const LEADERS_WITHIN: Duration = Duration::from_secs(30);

/// Creates the topic unless it exists, waits until all partitions have a leader, and returns that leader's address.
///
/// # Errors
/// When the broker refuses, the topic has another number of partitions, or several brokers lead them.
pub fn prepare_topic(
    bootstrap: SocketAddr,
    topic: &str,
    partitions: u32,
    configs: &[(&str, &str)],
) -> io::Result<SocketAddr> {
    let mut connection = TcpStream::connect(bootstrap)?;
    connection.set_nodelay(true)?;
    let configs: Vec<_> =
        configs.iter().map(|&(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect();
    let wanted = CreatableTopic {
        name: topic,
        num_partitions: i32::try_from(partitions).map_err(io::Error::other)?,
        replication_factor: 1,
        configs: configs.as_slice().into(),
        ..CreatableTopic::default()
    };
    let request =
        CreateTopicsRequest { topics: std::slice::from_ref(&wanted).into(), ..CreateTopicsRequest::default() };
    let reply = round_trip(&mut connection, CREATE_TOPICS_VERSION, &request)?;
    let response: CreateTopicsResponse<'_> = decode(&reply, CREATE_TOPICS_VERSION)?;
    for result in &response.topics {
        if !matches!(result.error_code, ErrorCode::None | ErrorCode::TopicAlreadyExists) {
            let why = result.error_message.unwrap_or("no message");
            return Err(io::Error::other(format!("creating topic {topic}: {:?}: {why}", result.error_code)));
        }
    }
    let give_up = Instant::now() + LEADERS_WITHIN;
    loop {
        if let Some(leader) = leader_of(&mut connection, topic, partitions)? {
            return Ok(leader);
        }
        if Instant::now() > give_up {
            return Err(io::Error::other(format!("topic {topic} has partitions without a leader")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The broker that leads all partitions, once each has a leader.
fn leader_of(connection: &mut TcpStream, topic: &str, partitions: u32) -> io::Result<Option<SocketAddr>> {
    let asked = MetadataRequestTopic { name: Some(topic), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(std::slice::from_ref(&asked).into()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let reply = round_trip(connection, METADATA_VERSION, &request)?;
    let response: MetadataResponse<'_> = decode(&reply, METADATA_VERSION)?;
    let Some(found) = response.topics.iter().find(|found| found.name == Some(topic)) else { return Ok(None) };
    if found.error_code != ErrorCode::None {
        return Ok(None);
    }
    if found.partitions.len() != partitions as usize {
        let count = found.partitions.len();
        return Err(io::Error::other(format!("topic {topic} has {count} partitions, not {partitions}")));
    }
    let mut leader = None;
    for partition in &found.partitions {
        if partition.error_code != ErrorCode::None || partition.leader_id.0 < 0 {
            return Ok(None);
        }
        if *leader.get_or_insert(partition.leader_id) != partition.leader_id {
            return Err(io::Error::other(format!("several brokers lead topic {topic}; this load drives one")));
        }
    }
    let broker = response.brokers.iter().find(|broker| Some(broker.node_id) == leader);
    let broker = broker.ok_or_else(|| io::Error::other("the leader is not among the brokers"))?;
    let port = u16::try_from(broker.port).map_err(io::Error::other)?;
    (broker.host, port).to_socket_addrs().map(|mut addresses| addresses.next())
}

fn round_trip<'a, R: Request<'a>>(connection: &mut TcpStream, version: i16, request: &R) -> io::Result<Vec<u8>> {
    let frame = encode_request(version, 1, Some("produce_load"), request, Vec::new()).map_err(io::Error::other)?;
    connection.write_all(frame.structure())?;
    let mut prefix = [0; 4];
    connection.read_exact(&mut prefix)?;
    let mut reply = vec![0; frame_length(prefix, REPLY_BYTES_MAX).map_err(io::Error::other)?];
    connection.read_exact(&mut reply)?;
    Ok(reply)
}

fn decode<'r, M: Message<'r>>(reply: &'r [u8], version: i16) -> io::Result<M> {
    let mut decoder = Decoder::new(reply);
    ResponseHeader::decode(&mut decoder, M::KEY, version).map_err(io::Error::other)?;
    M::decode_exact(decoder, version).map_err(io::Error::other)
}
