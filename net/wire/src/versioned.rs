//! What has its version in front in place of a header: the values of the internal topics' records, and what consumers tell
//! each other inside JoinGroup and SyncGroup.

use std::ops::RangeInclusive;

use crate::{DecodeError, DecodeFault, Decoder, EncodeError, EncodeFault, Encoder, Wire};

/// A struct that is written as its version, in two bytes, and its fields at that version.
pub trait Versioned<'a>: Wire<'a> {
    /// As Kafka's definition names it, `OffsetCommitValue`.
    const NAME: &'static str;
    /// The versions this crate can encode and decode.
    const VERSIONS: RangeInclusive<i16>;

    /// Whether this version has compact lengths and tagged fields.
    fn is_flexible(version: i16) -> bool;

    /// The bytes at `version`.
    ///
    /// # Errors
    /// A version outside `VERSIONS`, or a value that the version cannot carry.
    fn to_bytes(&self, version: i16) -> Result<Vec<u8>, EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::new(EncodeFault::UnsupportedVersion { name: Self::NAME, version }));
        }
        let mut encoder = Encoder::new();
        encoder.put_i16(version);
        encoder.set_version(version, Self::is_flexible(version));
        self.put(&mut encoder)?;
        Ok(encoder.into_bytes())
    }

    /// Reads the fields at `version` and leaves the decoder behind them.
    ///
    /// # Errors
    /// A version outside `VERSIONS`, or bytes that are not this struct.
    fn decode(decoder: &mut Decoder<'a>, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(decoder.fail(DecodeFault::UnsupportedVersion { name: Self::NAME, version }));
        }
        decoder.set_version(version, Self::is_flexible(version));
        Self::take(decoder)
    }

    /// Reads the version and the fields, which must be all there is.
    ///
    /// # Errors
    /// As [`Versioned::decode`], and bytes left over.
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let version = decoder.take_i16().map_err(|error| error.in_field(Self::NAME))?;
        let value = Self::decode(&mut decoder, version)?;
        decoder.finish()?;
        Ok(value)
    }
}
