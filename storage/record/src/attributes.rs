//! The 16 attribute bits of a batch: compression, timestamp type, transactional, control.
//!
//! Bits 0 to 2 name the compression, 3 the timestamp type, 4 transactional (KIP-98), 5 control (KIP-98), 6 a delete
//! horizon (KIP-534). Those above are carried along untouched.

use std::fmt;

const COMPRESSION_MASK: u16 = 0b111;
const APPEND_TIME_BIT: u16 = 1 << 3;
const TRANSACTIONAL_BIT: u16 = 1 << 4;
const CONTROL_BIT: u16 = 1 << 5;
const DELETE_HORIZON_BIT: u16 = 1 << 6;

/// How the records of a batch are compressed; the numbers are Kafka's and stand on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Compression {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Compression {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with Kafka's number `code`; `None` for 5 and above, which nobody has defined.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Kafka's name, as in `compression.type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec called `name` in `compression.type`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who set the timestamps of a batch: `message.timestamp.type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TimestampType {
    /// The producer, record by record.
    #[default]
    CreateTime,
    /// The broker, once for the whole batch: it stands in the maximum timestamp and overrides the records' own.
    LogAppendTime,
}

/// The attribute bits as they stand in the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes(pub u16);

impl Attributes {
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self(compression as u16)
    }

    /// The raw codec number, 0 to 7.
    #[must_use]
    pub fn compression_code(self) -> u8 {
        (self.0 & COMPRESSION_MASK) as u8
    }

    /// The codec; `None` for the numbers 5 to 7.
    #[must_use]
    pub fn compression(self) -> Option<Compression> {
        Compression::from_code(self.compression_code())
    }

    #[must_use]
    pub fn with_compression(self, codec: Compression) -> Self {
        Self(self.0 & !COMPRESSION_MASK | codec as u16)
    }

    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & APPEND_TIME_BIT == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL_BIT != 0
    }

    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & CONTROL_BIT != 0
    }

    /// The base timestamp is the time from which the batch's tombstones may go.
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON_BIT != 0
    }

    #[must_use]
    pub fn with_append_time(self) -> Self {
        Self(self.0 | APPEND_TIME_BIT)
    }

    #[must_use]
    pub fn with_transactional(self, on: bool) -> Self {
        Self(self.0 & !TRANSACTIONAL_BIT | if on { TRANSACTIONAL_BIT } else { 0 })
    }

    #[must_use]
    pub fn with_control(self, on: bool) -> Self {
        Self(self.0 & !CONTROL_BIT | if on { CONTROL_BIT } else { 0 })
    }

    #[must_use]
    pub fn with_delete_horizon(self, on: bool) -> Self {
        Self(self.0 & !DELETE_HORIZON_BIT | if on { DELETE_HORIZON_BIT } else { 0 })
    }
}
