//! Records inside a batch: walking them, and the one call that decompresses.
//!
//! A record is a length and, inside it: attributes (unused), timestamp delta, offset delta, key, value, headers. A
//! negative length of a key or value is "null".

use std::borrow::Cow;
use std::fmt;

use base::{Offset, WallTime};

use crate::attributes::TimestampType;
use crate::batch::BatchView;
use crate::compression::{DecompressError, decompress};
use crate::header::BatchHeader;
use crate::varint::{take_i32, take_i64};

/// One record, borrowed from the bytes of its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub offset: Offset,
    /// The broker's append time when the batch has it, else what the producer set.
    pub timestamp: WallTime,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// A header of a record (KIP-82). Keys may repeat and their order counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    /// UTF-8 by agreement; not checked.
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// The key as text, with the replacement character for what is not UTF-8, as Java reads it.
    #[must_use]
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record: checked when the record was read, decoded as they are walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Headers<'a> {
    /// Checks `count` headers at the front of `bytes` and takes them off.
    fn take(bytes: &mut &'a [u8], count: u32) -> Option<Self> {
        let start = *bytes;
        for _ in 0..count {
            take_header(bytes)?;
        }
        Some(Self { bytes: &start[..start.len() - bytes.len()], count })
    }

    /// The value of the last header called `key`: `None` when there is none, `Some(None)` when its value is null.
    #[must_use]
    pub fn last(self, key: &str) -> Option<Option<&'a [u8]>> {
        self.filter(|header| header.key == key.as_bytes()).last().map(|header| header.value)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.count = self.count.checked_sub(1)?;
        take_header(&mut self.bytes)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The bytes of a batch's records are damaged, or were never sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// The record count in the header is negative.
    Count { record_count: i32 },
    /// The record with this index, counted from 0, does not decode, or its length does not fit its content.
    Malformed { index: u32 },
    /// The bytes end before the last record.
    Missing { have: u32, want: u32 },
    /// Bytes follow the last record.
    Trailing { bytes: usize },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { record_count } => write!(f, "the batch claims {record_count} records"),
            Self::Malformed { index } => write!(f, "record {index} of the batch is malformed"),
            Self::Missing { have, want } => write!(f, "the batch ends after {have} of {want} records"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow the last record of the batch"),
        }
    }
}

impl std::error::Error for RecordError {}

/// Walks the records of a batch. Ends after the first error; also after the last record, unless bytes follow it, which
/// is an error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    index: u32,
    count: Result<u32, RecordError>,
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<WallTime>,
    ended: bool,
}

impl<'a> Records<'a> {
    /// The records of the batch with this `header`, out of its uncompressed `body`.
    #[must_use]
    pub fn new(header: &BatchHeader, body: &'a [u8]) -> Self {
        let record_count = header.record_count;
        Self {
            rest: body,
            index: 0,
            count: u32::try_from(record_count).map_err(|_| RecordError::Count { record_count }),
            base_offset: header.base_offset.0,
            base_timestamp: header.base_timestamp.0,
            append_time: match header.timestamp_type() {
                TimestampType::CreateTime => None,
                TimestampType::LogAppendTime => Some(header.max_timestamp),
            },
            ended: false,
        }
    }

    /// Bytes that have not been walked.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, RecordError> {
        let want = self.count?;
        if self.index == want {
            return match self.rest.len() {
                0 => Ok(None),
                bytes => Err(RecordError::Trailing { bytes }),
            };
        }
        if self.rest.is_empty() {
            return Err(RecordError::Missing { have: self.index, want });
        }
        let record = self.take_record().ok_or(RecordError::Malformed { index: self.index })?;
        self.index += 1;
        Ok(Some(record))
    }

    fn take_record(&mut self) -> Option<Record<'a>> {
        let mut rest = self.rest;
        let size_bytes = usize::try_from(take_i32(&mut rest)?).ok()?;
        let (mut body, after) = rest.split_at_checked(size_bytes)?;
        let (_attributes, fields) = body.split_first()?;
        body = fields;
        let timestamp_delta = take_i64(&mut body)?;
        let offset_delta = take_i32(&mut body)?;
        let key = take_nullable(&mut body)?;
        let value = take_nullable(&mut body)?;
        let header_count = u32::try_from(take_i32(&mut body)?).ok()?;
        let headers = Headers::take(&mut body, header_count)?;
        if !body.is_empty() {
            return None;
        }
        self.rest = after;
        Some(Record {
            // Wrapping, as in Java: a batch whose checksum is right is kept whatever its producer wrote into it.
            offset: Offset(self.base_offset.wrapping_add(i64::from(offset_delta))),
            timestamp: self.append_time.unwrap_or(WallTime(self.base_timestamp.wrapping_add(timestamp_delta))),
            key,
            value,
            headers,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step();
        self.ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<Header<'a>> {
    let key = take_nullable(bytes)??;
    let value = take_nullable(bytes)?;
    Some(Header { key, value })
}

/// Bytes with their length before them; a negative length is null. `None` when they do not fit.
#[expect(clippy::option_option, reason = "malformed and null are two things")]
fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(size_bytes) = usize::try_from(take_i32(bytes)?) else { return Some(None) };
    let (field, rest) = bytes.split_at_checked(size_bytes)?;
    *bytes = rest;
    Some(Some(field))
}

/// Why the records of a batch can't be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// Codec 5 to 7.
    UnknownCompression {
        code: u8,
    },
    Decompress(DecompressError),
    Record(RecordError),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCompression { code } => write!(f, "compression {code} does not exist"),
            Self::Decompress(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<DecompressError> for DecodeError {
    fn from(error: DecompressError) -> Self {
        Self::Decompress(error)
    }
}

impl From<RecordError> for DecodeError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

/// A batch whose records can be walked: borrowed as it is, or decompressed into memory of its own.
#[derive(Clone, Debug)]
pub struct Decoded<'a> {
    header: BatchHeader,
    body: Cow<'a, [u8]>,
}

impl Decoded<'_> {
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The records, uncompressed.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.header, &self.body)
    }
}

/// Makes the records of `batch` readable: no copy when it is uncompressed, else at most `bytes_limit` bytes of output.
/// The CRC is not checked, nor any record: [`Records`] does that as it walks.
///
/// # Errors
/// An unknown codec, damaged compressed bytes, or more than `bytes_limit` bytes of output.
pub fn decode_records<'a>(batch: &BatchView<'a>, bytes_limit: usize) -> Result<Decoded<'a>, DecodeError> {
    let header = *batch.header();
    let code = header.attributes.compression_code();
    let codec = header.compression().ok_or(DecodeError::UnknownCompression { code })?;
    let body = decompress(codec, batch.body(), bytes_limit)?;
    Ok(Decoded { header, body })
}
