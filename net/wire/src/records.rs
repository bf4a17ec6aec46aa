//! Record batches inside a message: bytes that this crate never looks into.

use crate::element::put_null_length;
use crate::{DecodeError, Decoder, EncodeError, Encoder, Wire};

/// The records of a partition in a produce request or a fetch response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Records<'a> {
    #[default]
    Null,
    /// Bytes in the frame; all that decoding yields besides null.
    Bytes(&'a [u8]),
    /// `length` bytes that stay where they are; the sender knows them by `index` and puts them into the frame at the
    /// place that [`crate::Frame::parts`] names. One index may well stand for several slices.
    External { index: u32, length: usize },
}

impl<'a> Records<'a> {
    /// The bytes in the frame; none where null.
    #[must_use]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Null | Self::External { .. } => None,
        }
    }

    /// How many bytes they are, wherever; 0 for null.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::External { length, .. } => length,
        }
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [u8]> for Records<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<Option<&'a [u8]>> for Records<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, Self::Bytes)
    }
}

impl<'a> Wire<'a> for Records<'a> {
    fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        match *self {
            Self::Null => put_null_length(encoder),
            Self::Bytes(bytes) => encoder.put_bytes(Some(bytes))?,
            Self::External { index, length } => {
                encoder.put_length(Some(length))?;
                encoder.put_external(index, length);
            }
        }
        Ok(())
    }

    fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        decoder.take_bytes().map(Self::from)
    }
}
