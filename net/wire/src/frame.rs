//! Frames: a message with its header, behind a four-byte length.

use std::fmt;
use std::ops::Range;

use crate::{EncodeError, EncodeFault, Encoder, Message, Request, RequestHeader, ResponseHeader};

/// The bytes of a frame's length prefix.
pub const LENGTH_BYTES: usize = 4;

/// A place in a frame for bytes that are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct External {
    /// How many structure bytes go before.
    pub at: usize,
    pub index: u32,
    pub length: usize,
}

/// An encoded frame, length prefix included: the structure in one buffer, and the places of the external bytes in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    structure: Vec<u8>,
    externals: Vec<External>,
    external_bytes: usize,
}

/// A stretch of a frame, in the order of sending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// These bytes of [`Frame::structure`]; never empty.
    Structure(Range<usize>),
    /// The bytes that were given this index, and how many they are; never empty.
    External { index: u32, length: usize },
}

impl Frame {
    /// Writes the length in front of what the encoder holds: its first [`LENGTH_BYTES`] bytes are the place for it.
    fn close(encoder: Encoder) -> Result<Self, EncodeError> {
        let (mut structure, externals, external_bytes) = encoder.into_parts();
        let length = structure.len() - LENGTH_BYTES + external_bytes;
        let prefix = i32::try_from(length).map_err(|_| EncodeError::new(EncodeFault::TooLong(length)))?;
        structure[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());
        Ok(Self { structure, externals, external_bytes })
    }

    /// All bytes of the frame, the prefix and the external ones included.
    #[must_use]
    pub fn bytes_total(&self) -> usize {
        self.structure.len() + self.external_bytes
    }

    /// The bytes that are here.
    #[must_use]
    pub fn structure(&self) -> &[u8] {
        &self.structure
    }

    /// The buffer with the bytes that are here, to send or to use again.
    #[must_use]
    pub fn into_structure(self) -> Vec<u8> {
        self.structure
    }

    /// Whether the structure is the whole frame.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.external_bytes == 0
    }

    /// What to send, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let starts = std::iter::once(0).chain(self.externals.iter().map(|external| external.at));
        let places = self.externals.iter().map(Some).chain(std::iter::once(None));
        starts.zip(places).flat_map(|(start, external)| {
            let end = external.map_or(self.structure.len(), |external| external.at);
            let structure = (start < end).then_some(Part::Structure(start..end));
            let external = external.filter(|external| external.length > 0);
            let external = external.map(|external| Part::External { index: external.index, length: external.length });
            structure.into_iter().chain(external)
        })
    }
}

/// A request as a frame, in the memory of `buffer`, which is emptied first.
///
/// # Errors
/// As [`Message::encode`], and a frame above 2 GiB.
pub fn encode_request<'a, R: Request<'a>>(
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &R,
    buffer: Vec<u8>,
) -> Result<Frame, EncodeError> {
    let mut encoder = open(buffer);
    RequestHeader { api_key: R::KEY, api_version: version, correlation_id, client_id }.encode(&mut encoder)?;
    request.encode(version, &mut encoder)?;
    Frame::close(encoder)
}

/// A response as a frame, in the memory of `buffer`, which is emptied first.
///
/// # Errors
/// As [`Message::encode`], and a frame above 2 GiB.
pub fn encode_response<'a, M: Message<'a>>(
    version: i16,
    correlation_id: i32,
    response: &M,
    buffer: Vec<u8>,
) -> Result<Frame, EncodeError> {
    let mut encoder = open(buffer);
    ResponseHeader { correlation_id }.encode(&mut encoder, M::KEY, version);
    response.encode(version, &mut encoder)?;
    Frame::close(encoder)
}

fn open(mut buffer: Vec<u8>) -> Encoder {
    buffer.clear();
    buffer.resize(LENGTH_BYTES, 0);
    Encoder::with_buffer(buffer)
}

/// A length prefix that no frame may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    Negative(i32),
    TooLong { length: usize, limit: usize },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "a frame of {length} bytes"),
            Self::TooLong { length, limit } => write!(f, "a frame of {length} bytes, where {limit} are allowed"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The bytes of the frame behind this prefix, if they are at most `limit`.
///
/// # Errors
/// A negative length, or one above the limit.
pub fn frame_length(prefix: [u8; LENGTH_BYTES], limit: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Err(_) => Err(FrameError::Negative(length)),
        Ok(length) if length > limit => Err(FrameError::TooLong { length, limit }),
        Ok(length) => Ok(length),
    }
}

/// Where in `frame` the bytes of `slice` stand, if they are a part of it (of its memory, not merely equal).
///
/// So the owner of the frame's buffer can pass a part of it on as a slice of its own.
#[must_use]
pub fn offset_in(frame: &[u8], slice: &[u8]) -> Option<usize> {
    let offset = slice.as_ptr().addr().checked_sub(frame.as_ptr().addr())?;
    (offset.checked_add(slice.len())? <= frame.len()).then_some(offset)
}
