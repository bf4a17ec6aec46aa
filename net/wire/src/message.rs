//! What every request and response has in common.

use std::ops::RangeInclusive;

use crate::{ApiKey, DecodeError, DecodeFault, Decoder, EncodeError, EncodeFault, Encoder, Wire};

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Request,
    Response,
}

/// A request or a response, without its header.
pub trait Message<'a>: Wire<'a> {
    /// As Kafka's definition names it, `ProduceRequest`.
    const NAME: &'static str;
    const KEY: ApiKey;
    const ROLE: Role;
    /// The versions this crate can encode and decode. What a broker advertises is its own affair.
    const VERSIONS: RangeInclusive<i16>;

    /// Writes the message at `version`.
    ///
    /// # Errors
    /// A version outside `VERSIONS`, or a value that the version cannot carry.
    fn encode(&self, version: i16, encoder: &mut Encoder) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::new(EncodeFault::UnsupportedVersion { name: Self::NAME, version }));
        }
        encoder.set_version(version, Self::KEY.is_flexible(version));
        self.put(encoder)
    }

    /// Reads the message at `version` and leaves the decoder behind it.
    ///
    /// # Errors
    /// A version outside `VERSIONS`, or bytes that are not this message.
    fn decode(decoder: &mut Decoder<'a>, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(decoder.fail(DecodeFault::UnsupportedVersion { name: Self::NAME, version }));
        }
        decoder.set_version(version, Self::KEY.is_flexible(version));
        Self::take(decoder)
    }

    /// Reads the message at `version`, which must be all that is left.
    ///
    /// # Errors
    /// As [`Message::decode`], and bytes left over.
    fn decode_exact(mut decoder: Decoder<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self::decode(&mut decoder, version)?;
        decoder.finish()?;
        Ok(message)
    }
}

/// A message that is answered by another.
pub trait Request<'a>: Message<'a> {
    type Reply<'r>: Message<'r>;
}
