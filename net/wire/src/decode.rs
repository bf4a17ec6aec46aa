//! Reading a frame: a cursor that never leaves it.
//!
//! Owned by whoever decodes, for as long as it decodes. Invariant: `position <= end <= frame.len()`, so every slice taken
//! lies inside the frame; a length from the wire is compared with what remains before anything else is done with it.

use base::Uuid;

use crate::{DecodeError, DecodeFault, STRING_BYTES_MAX};

/// A cursor over a frame, at a version.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    frame: &'a [u8],
    position: usize,
    end: usize,
    version: i16,
    flexible: bool,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of `frame`, which is without its length prefix. Version 0, not flexible.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        Self { frame, position: 0, end: frame.len(), version: 0, flexible: false }
    }

    /// Reads on at another version.
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

    /// Bytes from the start of the frame.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes not yet read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.frame[self.position..self.end]
    }

    /// An error at the current position.
    #[must_use]
    pub fn fail(&self, fault: DecodeFault) -> DecodeError {
        DecodeError { position: self.position, field: "", fault }
    }

    /// Ok if every byte was read.
    ///
    /// # Errors
    /// [`DecodeFault::TrailingBytes`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest().len() {
            0 => Ok(()),
            left => Err(self.fail(DecodeFault::TrailingBytes(left))),
        }
    }

    /// Passes over what is left.
    pub fn skip_all(&mut self) {
        self.position = self.end;
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let Some(taken) = rest.get(..count) else {
            return Err(self.fail(DecodeFault::Truncated { needed: count, left: rest.len() }));
        };
        self.position += count;
        Ok(taken)
    }

    pub(crate) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.rest();
        let Some(taken) = rest.first_chunk::<N>() else {
            return Err(self.fail(DecodeFault::Truncated { needed: N, left: rest.len() }));
        };
        self.position += N;
        Ok(*taken)
    }

    pub fn take_i8(&mut self) -> Result<i8, DecodeError> {
        self.take_array().map(i8::from_be_bytes)
    }

    pub fn take_i16(&mut self) -> Result<i16, DecodeError> {
        self.take_array().map(i16::from_be_bytes)
    }

    pub fn take_i32(&mut self) -> Result<i32, DecodeError> {
        self.take_array().map(i32::from_be_bytes)
    }

    pub fn take_uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.take_array().map(Uuid)
    }

    /// An unsigned LEB128 number of at most 32 bits.
    pub fn take_uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0;
        for (index, byte) in self.rest().iter().take(5).enumerate() {
            let bits = u64::from(byte & 0x7f) << (7 * index);
            value |= bits;
            if byte & 0x80 == 0 {
                let value = u32::try_from(value).map_err(|_| self.fail(DecodeFault::VarintTooLong))?;
                self.position += index + 1;
                return Ok(value);
            }
        }
        match self.rest().len() {
            left @ ..5 => Err(self.fail(DecodeFault::Truncated { needed: left + 1, left })),
            _ => Err(self.fail(DecodeFault::VarintTooLong)),
        }
    }

    /// The string's length prefix and bytes; `None` for null.
    pub fn take_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        if self.flexible { self.take_compact_string() } else { self.take_plain_string() }
    }

    /// A string with a two-byte length whatever the version, as in the request header.
    pub(crate) fn take_plain_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let start = *self;
        let length = self.take_i16()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| start.fail(DecodeFault::NegativeLength(i32::from(length))))?;
        self.take_utf8(length).map(Some)
    }

    fn take_compact_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let start = *self;
        let Some(length) = self.take_compact_length()? else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            return Err(start.fail(DecodeFault::StringTooLong(length)));
        }
        self.take_utf8(length).map(Some)
    }

    fn take_utf8(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        let start = *self;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| start.fail(DecodeFault::NotUtf8))
    }

    /// The length prefix and bytes of a byte string; `None` for null.
    pub fn take_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let Some(length) = self.take_length()? else { return Ok(None) };
        self.take(length).map(Some)
    }

    /// The count of an array's elements, at most the bytes that remain; `None` for null.
    pub fn take_count(&mut self) -> Result<Option<usize>, DecodeError> {
        let start = *self;
        let Some(count) = self.take_length()? else { return Ok(None) };
        let left = self.rest().len();
        if count > left {
            return Err(start.fail(DecodeFault::CountTooLarge { count, left }));
        }
        Ok(Some(count))
    }

    fn take_length(&mut self) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return self.take_compact_length();
        }
        let start = *self;
        let length = self.take_i32()?;
        if length == -1 {
            return Ok(None);
        }
        usize::try_from(length).map(Some).map_err(|_| start.fail(DecodeFault::NegativeLength(length)))
    }

    /// A compact length is one more than the length; 0 is null.
    fn take_compact_length(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok(self.take_uvarint()?.checked_sub(1).map(|length| length as usize))
    }

    /// How many tagged fields follow.
    pub fn take_tagged_count(&mut self) -> Result<u32, DecodeError> {
        let start = *self;
        let count = self.take_uvarint()?;
        let left = self.rest().len();
        // A tagged field has at least its tag and its size.
        if count as usize > left / 2 {
            return Err(start.fail(DecodeFault::CountTooLarge { count: count as usize, left }));
        }
        Ok(count)
    }

    /// The next tagged field: its tag, and a decoder of its bytes alone.
    pub fn take_tagged(&mut self) -> Result<(u32, Self), DecodeError> {
        let tag = self.take_uvarint()?;
        let size = self.take_uvarint()? as usize;
        let start = self.position;
        self.take(size)?;
        Ok((tag, Self { position: start, end: self.position, ..*self }))
    }

    /// Passes over the tagged fields of a struct that knows none.
    pub(crate) fn skip_tagged(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.take_tagged_count()? {
            self.take_tagged()?;
        }
        Ok(())
    }

    /// A decoder of the bytes between an earlier position and this one.
    pub(crate) fn since(&self, start: &Self) -> Self {
        Self { end: self.position, ..*start }
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;
    use crate::DecodeFault;

    #[test]
    fn varints_of_at_most_32_bits() {
        let table: [(&[u8], Result<u32, DecodeFault>); 8] = [
            (&[0], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0x80, 0x01], Ok(128)),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(u32::MAX)),
            (&[0x80, 0x80, 0x80, 0x80, 0x00], Ok(0)),
            (&[0xff, 0xff, 0xff, 0xff, 0x1f], Err(DecodeFault::VarintTooLong)),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Err(DecodeFault::VarintTooLong)),
            (&[0x80, 0x80], Err(DecodeFault::Truncated { needed: 3, left: 2 })),
        ];
        for (bytes, expected) in table {
            let mut decoder = Decoder::new(bytes);
            assert_eq!(decoder.take_uvarint().map_err(|error| error.fault), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn a_tagged_field_cannot_read_beyond_its_size() {
        let mut decoder = Decoder::new(&[7, 2, 1, 2, 9]);
        let (tag, mut body) = decoder.take_tagged().unwrap();
        assert_eq!((tag, body.rest(), decoder.rest()), (7, &[1, 2][..], &[9][..]));
        let error = body.take_i32().unwrap_err();
        assert_eq!((error.position, error.fault), (2, DecodeFault::Truncated { needed: 4, left: 2 }));
    }
}
