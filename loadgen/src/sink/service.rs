//! Takes the frames of connections to the APIs, and their answers back.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use base::{BrokerId, Instant, Uuid};
use net::{Answer, Connection, Reply, Service, Started};
use shard::{Shard, Slice};
use wire::{ApiKey, DecodeError, Decoder, EncodeError, Message, RequestHeader, encode_response};

use super::api;
use super::pace::Pace;
use super::server::SinkOptions;
use super::store::{Store, StoreOptions};

/// The one broker of this cluster.
pub const BROKER: BrokerId = BrokerId(0);

/// The cluster's id.
pub const CLUSTER_ID: &str = "tidemill-loadgen-sink";

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// What starts a request of one API.
pub type Handler = fn(&Rc<Broker>, Request) -> Result<Started, Refusal>;

/// One API: its key, the versions that it is served at and the lowest that ApiVersions names.
pub struct Api {
    pub key: ApiKey,
    pub versions: RangeInclusive<i16>,
    pub advertised_min: i16,
    pub handler: Handler,
}

/// The state of a sink.
pub struct Broker {
    pub shard: Shard,
    pub address: SocketAddr,
    pub host: String,
    /// Of topics that are created without a number.
    pub default_partitions: usize,
    pub store: RefCell<Store>,
    pub next_producer_id: Cell<i64>,
    pace: Pace,
    first_produce: Cell<Option<Instant>>,
}

impl Broker {
    #[must_use]
    pub fn new(shard: &Shard, address: SocketAddr, options: SinkOptions) -> Rc<Self> {
        let keep_bytes = usize::try_from(options.keep.0).unwrap_or(usize::MAX);
        let store = Store::new(StoreOptions { keep_bytes, faults: options.faults });
        Rc::new(Self {
            shard: shard.clone(),
            address,
            host: address.ip().to_string(),
            default_partitions: options.partitions,
            store: RefCell::new(store),
            next_producer_id: Cell::new(0),
            pace: options.pace,
            first_produce: Cell::new(None),
        })
    }

    /// When a Produce request that arrived now is acknowledged, and when its records can be read.
    #[must_use]
    pub fn times_of_produce(&self, arrived: Instant) -> (Instant, Instant) {
        let first = self.first_produce.get().unwrap_or(arrived);
        self.first_produce.set(Some(first));
        let acknowledged = self.pace.acknowledged(arrived.since(first));
        (first + acknowledged, first + self.pace.readable(acknowledged))
    }

    /// Waits while nothing is delivered.
    pub async fn stalls_over(&self) {
        while let Some(first) = self.first_produce.get() {
            let now = self.shard.now().since(first);
            let over: Duration = self.pace.after_stalls(now);
            if over == now {
                return;
            }
            self.shard.sleep_until(first + over).await;
        }
    }

    #[must_use]
    pub fn new_uuid(&self) -> Uuid {
        Uuid::from_random(self.shard.random(), self.shard.random())
    }
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
    fn new(frame: Slice, arrived: Instant) -> Result<(ApiKey, Self), Refusal> {
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

/// The Kafka service of a sink.
pub struct SinkService(Rc<Broker>);

impl SinkService {
    #[must_use]
    pub fn new(broker: Rc<Broker>) -> Rc<Self> {
        Rc::new(Self(broker))
    }

    fn begin(&self, frame: Slice) -> Result<Started, Refusal> {
        let (key, request) = Request::new(frame, self.0.shard.now())?;
        let version = request.asker.version;
        match api::TABLE.iter().find(|api| api.key == key) {
            Some(api) if api.versions.contains(&version) => (api.handler)(&self.0, request),
            Some(api) if key == ApiKey::ApiVersions => {
                // In the lowest version, so that any client can read it (KIP-511).
                let asker = Asker { version: 0, ..request.asker };
                api::identity::unsupported(asker, api).map(Started::Done)
            }
            _ => Err(Refusal::NotServed { key: key.code(), version }),
        }
    }
}

impl Service for SinkService {
    fn pipelined(&self, frame: &[u8]) -> bool {
        frame.starts_with(&ApiKey::Produce.code().to_be_bytes())
    }

    fn frame_bytes_max(&self, _: [u8; 2]) -> usize {
        usize::MAX
    }

    fn start(self: Rc<Self>, _: Rc<Connection>, frame: Slice) -> Boxed<Started> {
        let started = self.begin(frame).unwrap_or_else(|refusal| Started::Done(Reply::Close(refusal.to_string())));
        Box::pin(ready(started))
    }
}
