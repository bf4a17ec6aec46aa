//! Why bytes are not a message, or a message has no bytes.

use std::fmt;

/// Bytes that are not the message they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Where in the frame the faulty value starts, in bytes from the frame's first byte after the length.
    pub position: usize,
    /// The innermost field, as `Struct.field`; empty where the fault lies outside every field.
    pub field: &'static str,
    pub fault: DecodeFault,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeFault {
    /// The value needs more bytes than remain.
    Truncated {
        needed: usize,
        left: usize,
    },
    /// An array claims more elements than bytes remain; every element has at least one.
    CountTooLarge {
        count: usize,
        left: usize,
    },
    /// A length below −1, which is null.
    NegativeLength(i32),
    /// Null where this version does not allow it.
    Null,
    /// A string above Kafka's limit of 32,767 bytes.
    StringTooLong(usize),
    NotUtf8,
    /// An unsigned variable-length number of more than 32 bits.
    VarintTooLong,
    /// Bytes remain behind the message, or behind a tagged field.
    TrailingBytes(usize),
    /// An API key that Kafka does not have.
    UnknownApiKey(i16),
    /// A version that this crate has no definition for; `name` is the message's or the struct's.
    UnsupportedVersion {
        name: &'static str,
        version: i16,
    },
}

impl DecodeError {
    /// Names the field, unless a field inside it is already named.
    #[must_use]
    pub fn in_field(self, field: &'static str) -> Self {
        if self.field.is_empty() { Self { field, ..self } } else { self }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(f, "at byte {}: {}", self.position, self.fault)
        } else {
            write!(f, "{} at byte {}: {}", self.field, self.position, self.fault)
        }
    }
}

impl fmt::Display for DecodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, left } => write!(f, "{needed} bytes expected, {left} left"),
            Self::CountTooLarge { count, left } => write!(f, "{count} elements claimed in {left} bytes"),
            Self::NegativeLength(length) => write!(f, "length {length}"),
            Self::Null => f.write_str("null, which this version does not allow"),
            Self::StringTooLong(bytes) => write!(f, "a string of {bytes} bytes"),
            Self::NotUtf8 => f.write_str("a string that is not UTF-8"),
            Self::VarintTooLong => f.write_str("a variable-length number of more than 32 bits"),
            Self::TrailingBytes(bytes) => write!(f, "{bytes} bytes left over"),
            Self::UnknownApiKey(key) => write!(f, "unknown API key {key}"),
            Self::UnsupportedVersion { name, version } => write!(f, "{name} has no version {version} here"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A message that has no form at the version asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// The innermost field, as `Struct.field`; empty where the fault lies outside every field.
    pub field: &'static str,
    pub fault: EncodeFault,
}

/// What cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeFault {
    /// The version lacks the field, its value is not the default, and dropping it would change the meaning.
    Absent { version: i16 },
    /// Null where this version does not allow it.
    Null,
    /// More bytes or elements than the format can count.
    TooLong(usize),
    /// A version that this crate has no definition for; `name` is the message's or the struct's.
    UnsupportedVersion { name: &'static str, version: i16 },
}

impl EncodeError {
    pub(crate) const fn new(fault: EncodeFault) -> Self {
        Self { field: "", fault }
    }

    /// `field` has a value that `version` cannot carry.
    #[must_use]
    pub const fn absent(field: &'static str, version: i16) -> Self {
        Self { field, fault: EncodeFault::Absent { version } }
    }

    /// Names the field, unless a field inside it is already named.
    #[must_use]
    pub fn in_field(self, field: &'static str) -> Self {
        if self.field.is_empty() { Self { field, ..self } } else { self }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        match self.fault {
            EncodeFault::Absent { version } => write!(f, "version {version} has no such field, and it is set"),
            EncodeFault::Null => f.write_str("null, which this version does not allow"),
            EncodeFault::TooLong(length) => write!(f, "length {length} is above the format's limit"),
            EncodeFault::UnsupportedVersion { name, version } => write!(f, "{name} has no version {version} here"),
        }
    }
}

impl std::error::Error for EncodeError {}
