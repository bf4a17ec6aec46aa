//! The headers of requests (versions 1 and 2) and responses (versions 0 and 1).
//!
//! Request header 0, without a client id, went with the one retired message that had it (ControlledShutdown 0).
//!
//! Which version a header has follows from the API key and the version of the message ([`ApiKey::request_header_version`],
//! [`ApiKey::response_header_version`]).

use crate::{ApiKey, DecodeError, DecodeFault, Decoder, EncodeError, Encoder};

/// What stands before the body of every request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader<'a> {
    pub api_key: ApiKey,
    /// The version of the body; any number, until the receiver has compared it with what it serves.
    pub api_version: i16,
    /// Chosen by the client and repeated in the response.
    pub correlation_id: i32,
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header and leaves the decoder at the body.
    ///
    /// # Errors
    /// A key that Kafka does not have, or bytes that are no header.
    pub fn decode(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let start = *decoder;
        let key = decoder.take_i16().map_err(|error| error.in_field("RequestHeader.api_key"))?;
        let api_key = ApiKey::from_code(key).ok_or_else(|| start.fail(DecodeFault::UnknownApiKey(key)))?;
        let api_version = decoder.take_i16().map_err(|error| error.in_field("RequestHeader.api_version"))?;
        let correlation_id = decoder.take_i32().map_err(|error| error.in_field("RequestHeader.correlation_id"))?;
        let header_version = api_key.request_header_version(api_version);
        // The client id keeps the old two-byte length in every version, so that a broker can read the header of an
        // ApiVersions request from the future (KIP-511).
        let client_id = decoder.take_plain_string().map_err(|error| error.in_field("RequestHeader.client_id"))?;
        if header_version >= 2 {
            decoder.skip_tagged().map_err(|error| error.in_field("RequestHeader"))?;
        }
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }

    /// # Errors
    /// A client id above 32,767 bytes.
    pub fn encode(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let header_version = self.api_key.request_header_version(self.api_version);
        encoder.put_i16(self.api_key.code());
        encoder.put_i16(self.api_version);
        encoder.put_i32(self.correlation_id);
        encoder.put_plain_string(self.client_id).map_err(|error| error.in_field("RequestHeader.client_id"))?;
        if header_version >= 2 {
            encoder.put_uvarint(0);
        }
        Ok(())
    }
}

/// What stands before the body of every response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseHeader {
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of a response to `key` at `api_version` and leaves the decoder at the body.
    ///
    /// # Errors
    /// Bytes that are no header.
    pub fn decode(decoder: &mut Decoder<'_>, key: ApiKey, api_version: i16) -> Result<Self, DecodeError> {
        let correlation_id = decoder.take_i32().map_err(|error| error.in_field("ResponseHeader.correlation_id"))?;
        if key.response_header_version(api_version) >= 1 {
            decoder.skip_tagged().map_err(|error| error.in_field("ResponseHeader"))?;
        }
        Ok(Self { correlation_id })
    }

    pub fn encode(&self, encoder: &mut Encoder, key: ApiKey, api_version: i16) {
        encoder.put_i32(self.correlation_id);
        if key.response_header_version(api_version) >= 1 {
            encoder.put_uvarint(0);
        }
    }
}
