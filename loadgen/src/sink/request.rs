//! A request on its way: its bytes, how to answer it, and what serves it.

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use base::Instant;
use net::{Answer, Reply, Started};
use shard::Slice;
use wire::{ApiKey, DecodeError, Decoder, EncodeError, Message, RequestHeader, encode_response};

use super::broker::Broker;

/// What starts a request of one API.
pub type Handler = fn(&Rc<Broker>, Request) -> Result<Started, Refusal>;

/// One API: its key, the versions that it is served at and the lowest that ApiVersions names.
pub struct Api {
    pub key: ApiKey,
    pub versions: RangeInclusive<i16>,
    pub advertised_min: i16,
    pub handler: Handler,
}

/// Why a request is not answered and its connection ends.
#[derive(Debug)]
pub enum Refusal {
    NotServed {
        key: i16,
        version: i16,
    },
    Decode(DecodeError),
    /// A bug of ours.
    Encode(EncodeError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed { key, version } => {
                let name = ApiKey::from_code(*key).map_or("an unknown API", ApiKey::name);
                write!(f, "{name} (key {key}) version {version} is not served")
            }
            Self::Decode(error) => write!(f, "not a valid request: {error}"),
            Self::Encode(error) => write!(f, "the answer can't be written: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

/// A request with its header read.
pub struct Request {
    pub asker: Asker,
    pub arrived: Instant,
    frame: Slice,
    body_at: usize,
}

/// How to answer: what is left of a request once its frame has been used.
#[derive(Clone, Copy)]
pub struct Asker {
    pub version: i16,
    correlation_id: i32,
}

impl Request {
    /// The request, and the API that it is of.
    ///
    /// # Errors
    /// Bytes that are no header.
    pub fn new(frame: Slice, arrived: Instant) -> Result<(ApiKey, Self), Refusal> {
        let mut decoder = Decoder::new(&frame);
        let header = RequestHeader::decode(&mut decoder)?;
        let (key, body_at) = (header.api_key, decoder.position());
        let asker = Asker { version: header.api_version, correlation_id: header.correlation_id };
        Ok((key, Self { asker, arrived, frame, body_at }))
    }

    /// The body. What stands behind it is passed over, as Kafka does: librdkafka ends a Metadata request for all topics so.
    ///
    /// # Errors
    /// Bytes that are not that request.
    pub fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, Refusal> {
        Ok(M::decode(&mut Decoder::new(&self.frame[self.body_at..]), self.asker.version)?)
    }
}

impl Asker {
    /// The same, to be answered at another version.
    #[must_use]
    pub fn at(self, version: i16) -> Self {
        Self { version, ..self }
    }

    /// An answer without records.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    pub fn answer<'a, M: Message<'a>>(self, response: &M) -> Result<Reply, Refusal> {
        self.answer_with(response, &[])
    }

    /// An answer whose `Records::External { index, .. }` stand for `externals[index]`.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    pub fn answer_with<'a, M: Message<'a>>(self, response: &M, externals: &[Vec<Slice>]) -> Result<Reply, Refusal> {
        let frame = encode_response(self.version, self.correlation_id, response, Vec::with_capacity(256))?;
        Ok(Reply::Answer(Answer::laid_out(frame, externals)))
    }
}
