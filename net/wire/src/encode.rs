//! Writing a message: its structure into one buffer, with places for bytes that stay where they are.
//!
//! Owned by whoever encodes. Invariant: `externals` are in order of their place, and each place is at or before the end of
//! `bytes`.

use base::Uuid;

use crate::frame::External;
use crate::{EncodeError, EncodeFault, STRING_BYTES_MAX};

/// Gathers a message at a version.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    externals: Vec<External>,
    external_bytes: usize,
    version: i16,
    flexible: bool,
}

impl Encoder {
    /// Starts empty, at version 0, not flexible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts behind what `buffer` holds, in its memory.
    #[must_use]
    pub fn with_buffer(buffer: Vec<u8>) -> Self {
        Self { bytes: buffer, ..Self::default() }
    }

    /// Writes on at another version.
    pub fn set_version(&mut self, version: i16, flexible: bool) {
        (self.version, self.flexible) = (version, flexible);
    }

    #[must_use]
    pub fn version(&self) -> i16 {
        self.version
    }

    /// Whether lengths are compact and tagged fields follow each struct (KIP-482).
    #[must_use]
    pub fn is_flexible(&self) -> bool {
        self.flexible
    }

    /// The structure written so far; external bytes are not in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of what holds no records.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        assert!(self.externals.is_empty(), "records have places in frames alone");
        self.bytes
    }

    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<External>, usize) {
        (self.bytes, self.externals, self.external_bytes)
    }

    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn put_i8(&mut self, value: i8) {
        self.put_slice(&value.to_be_bytes());
    }

    pub fn put_i16(&mut self, value: i16) {
        self.put_slice(&value.to_be_bytes());
    }

    pub fn put_i32(&mut self, value: i32) {
        self.put_slice(&value.to_be_bytes());
    }

    pub fn put_uuid(&mut self, value: Uuid) {
        self.put_slice(&value.0);
    }

    /// An unsigned LEB128 number.
    pub fn put_uvarint(&mut self, mut value: u32) {
        while value > 0x7f {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A string with its length; `None` is null.
    pub fn put_string(&mut self, value: Option<&str>) -> Result<(), EncodeError> {
        if !self.flexible {
            return self.put_plain_string(value);
        }
        let length = value.map(str::len);
        if let Some(length) = length.filter(|length| *length > STRING_BYTES_MAX) {
            return Err(EncodeError::new(EncodeFault::TooLong(length)));
        }
        self.put_length(length)?;
        self.put_slice(value.unwrap_or_default().as_bytes());
        Ok(())
    }

    /// A string with a two-byte length whatever the version, as in the request header.
    pub(crate) fn put_plain_string(&mut self, value: Option<&str>) -> Result<(), EncodeError> {
        let Some(value) = value else {
            self.put_i16(-1);
            return Ok(());
        };
        let length = i16::try_from(value.len()).map_err(|_| EncodeError::new(EncodeFault::TooLong(value.len())))?;
        self.put_i16(length);
        self.put_slice(value.as_bytes());
        Ok(())
    }

    /// A byte string with its length; `None` is null.
    pub fn put_bytes(&mut self, value: Option<&[u8]>) -> Result<(), EncodeError> {
        self.put_length(value.map(<[u8]>::len))?;
        self.put_slice(value.unwrap_or_default());
        Ok(())
    }

    /// The length of a byte string or the count of an array; `None` is null.
    pub fn put_length(&mut self, length: Option<usize>) -> Result<(), EncodeError> {
        let Some(length) = length else {
            if self.flexible {
                self.put_uvarint(0);
            } else {
                self.put_i32(-1);
            }
            return Ok(());
        };
        let short = i32::try_from(length).map_err(|_| EncodeError::new(EncodeFault::TooLong(length)))?;
        if self.flexible {
            self.put_uvarint(short.unsigned_abs() + 1);
        } else {
            self.put_i32(short);
        }
        Ok(())
    }

    /// Leaves a place for `length` bytes that the caller knows by `index`.
    pub fn put_external(&mut self, index: u32, length: usize) {
        self.externals.push(External { at: self.bytes.len(), index, length });
        self.external_bytes += length;
    }

    /// A tagged field: its tag, the size of what `put` writes, and that.
    pub fn put_tagged(
        &mut self,
        tag: u32,
        put: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.put_uvarint(tag);
        let (start, externals) = (self.bytes.len(), self.externals.len());
        put(self)?;
        assert_eq!(self.externals.len(), externals, "no tagged field of the protocol holds records");
        let size = self.bytes.len() - start;
        let size = u32::try_from(size).map_err(|_| EncodeError::new(EncodeFault::TooLong(size)))?;
        // The size stands before the value and is known after it: written behind, then turned to the front.
        let end = self.bytes.len();
        self.put_uvarint(size);
        let size_bytes = self.bytes.len() - end;
        self.bytes[start..].rotate_right(size_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Encoder;

    #[test]
    fn a_tagged_field_has_its_size_in_front() {
        let mut encoder = Encoder::new();
        encoder
            .put_tagged(3, |encoder| {
                encoder.put_slice(&[9; 200]);
                Ok(())
            })
            .unwrap();
        assert_eq!(encoder.bytes()[..4], [3, 0xc8, 0x01, 9]);
        assert_eq!(encoder.bytes().len(), 203);
    }
}
