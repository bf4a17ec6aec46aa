//! The bytes of a metadata record: `type: u16`, `version: u16`, then the fields of that version; all big-endian.
//!
//! Text and lists have their length before them as `u32`; what may be absent has a byte 0 or 1 before it. A new field is
//! a new version, a new kind of record a new type. A reader that does not know one stops: leaving out what other brokers
//! act on would make images differ. (A feature level decides when new versions may be written.)

use std::fmt;

use base::{BrokerId, LeaderEpoch, PartitionIndex, ProducerId, Uuid};

use super::record::{
    BrokerRecord, ConfigRecord, FeatureRecord, MetadataRecord, PartitionRecord, ProducerIdsRecord, ResourceKind,
    TopicRecord, TopicRemovalRecord,
};

/// Record types on disk. Never reused; the next is 8.
mod record_type {
    pub const FEATURE: u16 = 1;
    pub const BROKER: u16 = 2;
    pub const TOPIC: u16 = 3;
    pub const TOPIC_REMOVAL: u16 = 4;
    pub const PARTITION: u16 = 5;
    pub const CONFIG: u16 = 6;
    pub const PRODUCER_IDS: u16 = 7;
}

/// The only version there is of each type so far.
const VERSION: u16 = 0;
/// "No leader" on disk.
const NO_LEADER: i32 = -1;

/// The bytes are not a metadata record that this program knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// They end inside a field, or a length in them goes past their end.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes { bytes: usize },
    /// A newer program wrote it, or the bytes are damaged.
    UnknownType { record_type: u16 },
    /// A newer program wrote it, or the bytes are damaged.
    UnknownVersion { record_type: u16, version: u16 },
    /// Text that is not UTF-8.
    NotText,
    /// A value that the field does not have.
    BadValue { field: &'static str },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the metadata record ends inside a field"),
            Self::TrailingBytes { bytes } => write!(f, "{bytes} bytes follow the metadata record"),
            Self::UnknownType { record_type } => {
                write!(f, "metadata record type {record_type} is unknown; it takes a newer version of this program")
            }
            Self::UnknownVersion { record_type, version } => write!(
                f,
                "version {version} of metadata record type {record_type} is unknown; it takes a newer version of this \
                 program"
            ),
            Self::NotText => f.write_str("the metadata record holds text that is not UTF-8"),
            Self::BadValue { field } => write!(f, "the metadata record's {field} is out of range"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl MetadataRecord {
    /// The record as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        match self {
            Self::Feature(feature) => {
                out.frame(record_type::FEATURE);
                out.text(&feature.name);
                out.put(feature.level.to_be_bytes());
            }
            Self::Broker(broker) => {
                out.frame(record_type::BROKER);
                out.put(broker.id.0.to_be_bytes());
                out.text(&broker.host);
                out.put(broker.port.to_be_bytes());
                out.optional_text(broker.rack.as_deref());
            }
            Self::Topic(topic) => {
                out.frame(record_type::TOPIC);
                out.put(topic.id.0);
                out.text(&topic.name);
            }
            Self::TopicRemoval(removal) => {
                out.frame(record_type::TOPIC_REMOVAL);
                out.put(removal.topic_id.0);
            }
            Self::Partition(partition) => {
                out.frame(record_type::PARTITION);
                out.put(partition.topic_id.0);
                out.put(partition.index.0.to_be_bytes());
                out.brokers(&partition.replicas);
                out.brokers(&partition.isr);
                out.put(partition.leader.map_or(NO_LEADER, |leader| leader.0).to_be_bytes());
                out.put(partition.leader_epoch.0.to_be_bytes());
                out.put(partition.partition_epoch.to_be_bytes());
            }
            Self::Config(config) => {
                out.frame(record_type::CONFIG);
                out.put([config.resource as u8]);
                out.text(&config.resource_name);
                out.text(&config.key);
                out.optional_text(config.value.as_deref());
            }
            Self::ProducerIds(ids) => {
                out.frame(record_type::PRODUCER_IDS);
                out.put(ids.broker.0.to_be_bytes());
                out.put(ids.next.0.to_be_bytes());
            }
        }
        out.0
    }

    /// The record that `bytes` hold, all of them.
    ///
    /// # Errors
    /// The bytes are damaged, or a newer program wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader(bytes);
        let record_type = u16::from_be_bytes(input.take()?);
        let version = u16::from_be_bytes(input.take()?);
        if !(record_type::FEATURE..=record_type::PRODUCER_IDS).contains(&record_type) {
            return Err(DecodeError::UnknownType { record_type });
        }
        if version != VERSION {
            return Err(DecodeError::UnknownVersion { record_type, version });
        }
        let record = input.fields(record_type)?;
        match input.0.len() {
            0 => Ok(record),
            bytes => Err(DecodeError::TrailingBytes { bytes }),
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn frame(&mut self, record_type: u16) {
        self.put(record_type.to_be_bytes());
        self.put(VERSION.to_be_bytes());
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.extend_from_slice(&bytes);
    }

    fn length(&mut self, length: usize) {
        // What goes in comes from requests, whose frames are bounded far below 4 GiB.
        self.put(u32::try_from(length).expect("a field of metadata is smaller than 4 GiB").to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn optional_text(&mut self, text: Option<&str>) {
        self.put([u8::from(text.is_some())]);
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn brokers(&mut self, brokers: &[BrokerId]) {
        self.length(brokers.len());
        for broker in brokers {
            self.put(broker.0.to_be_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn fields(&mut self, record_type: u16) -> Result<MetadataRecord, DecodeError> {
        Ok(match record_type {
            record_type::FEATURE => {
                MetadataRecord::Feature(FeatureRecord { name: self.text()?, level: i16::from_be_bytes(self.take()?) })
            }
            record_type::BROKER => MetadataRecord::Broker(BrokerRecord {
                id: self.broker()?,
                host: self.text()?,
                port: u16::from_be_bytes(self.take()?),
                rack: self.optional_text()?,
            }),
            record_type::TOPIC => MetadataRecord::Topic(TopicRecord { id: Uuid(self.take()?), name: self.text()? }),
            record_type::TOPIC_REMOVAL => {
                MetadataRecord::TopicRemoval(TopicRemovalRecord { topic_id: Uuid(self.take()?) })
            }
            record_type::PARTITION => MetadataRecord::Partition(PartitionRecord {
                topic_id: Uuid(self.take()?),
                index: PartitionIndex(self.i32()?),
                replicas: self.brokers()?,
                isr: self.brokers()?,
                leader: match self.i32()? {
                    NO_LEADER => None,
                    leader => Some(BrokerId(leader)),
                },
                leader_epoch: LeaderEpoch(self.i32()?),
                partition_epoch: self.i32()?,
            }),
            record_type::CONFIG => MetadataRecord::Config(ConfigRecord {
                resource: {
                    let [code] = self.take()?;
                    ResourceKind::from_code(code).ok_or(DecodeError::BadValue { field: "resource kind" })?
                },
                resource_name: self.text()?,
                key: self.text()?,
                value: self.optional_text()?,
            }),
            record_type::PRODUCER_IDS => MetadataRecord::ProducerIds(ProducerIdsRecord {
                broker: self.broker()?,
                next: ProducerId(i64::from_be_bytes(self.take()?)),
            }),
            _ => return Err(DecodeError::UnknownType { record_type }),
        })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    fn broker(&mut self) -> Result<BrokerId, DecodeError> {
        Ok(BrokerId(self.i32()?))
    }

    /// `count` elements of `size_bytes` each, checked against what is there before anything is allocated for them.
    fn slice(&mut self, size_bytes: usize) -> Result<&[u8], DecodeError> {
        let count = usize::try_from(u32::from_be_bytes(self.take()?)).map_err(|_| DecodeError::Truncated)?;
        let bytes = count.checked_mul(size_bytes).ok_or(DecodeError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let bytes = self.slice(1)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::NotText)
    }

    fn optional_text(&mut self) -> Result<Option<String>, DecodeError> {
        match self.take()? {
            [0] => Ok(None),
            [1] => self.text().map(Some),
            _ => Err(DecodeError::BadValue { field: "presence mark" }),
        }
    }

    fn brokers(&mut self) -> Result<Vec<BrokerId>, DecodeError> {
        let bytes = self.slice(size_of::<i32>())?;
        let (ids, _) = bytes.as_chunks();
        Ok(ids.iter().map(|&id| BrokerId(i32::from_be_bytes(id))).collect())
    }
}
